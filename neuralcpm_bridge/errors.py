"""The one exception a user meets: a sentence saying what was found, what was expected and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class UserError(Exception):
    """Wrong input or environment; the command line prints it as one sentence and exits with code 2."""


@contextmanager
def engine_speaking() -> Iterator[None]:
    """The engine's sentences are the user's."""
    from ._engine import EngineError

    try:
        yield
    except EngineError as error:
        raise UserError(str(error)) from None


@contextmanager
def needs_torch(what: str) -> Iterator[None]:
    """Around imports of the training package: without it, one sentence says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UserError(
            f"{what} needs {error.name}, which is not installed: run pip install 'neuralcpm-bridge[cpu,train]'."
        ) from None
