"""The one exception a user meets: a sentence saying what was found, what was expected and what to do."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class UserError(Exception):
    """Wrong input or environment; the command line prints it as one sentence and exits with code 2."""


@contextmanager
def reading(file: str | Path, what: str, advice: str = "save it again") -> Iterator[None]:
    """Around the whole of a reader: whatever a broken file makes a library raise becomes one sentence about the file.

    Files may come from strangers, and there is no end to what parsers raise on bytes that nobody wrote: this is the
    only place that turns it into words. Sentences of our own pass; libraries' warnings about the file are not shown.
    `file` begins the sentence, `what` says what it should have been.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except UserError:
        raise
    except MemoryError:
        raise UserError(f"{file} asks for more memory than there is: check it, or split it.") from None
    except Exception as error:
        if isinstance(error, OSError) and error.strerror:  # of the disk, not of what is written there
            raise UserError(f"{file} cannot be read ({error.strerror}): check its place and permissions.") from error
        raise UserError(f"{file} is not {what} ({reason(error)}): {advice}.") from error


def reason(error: Exception) -> str:
    """What an exception of somebody else says, on one line and not without a word."""
    lines = str(error).strip().splitlines()
    known = lines[0][:MOST_LETTERS] if lines else ""
    bare = not known or isinstance(error, (KeyError, IndexError))  # they say what was looked for, not that it failed
    return f"{type(error).__name__}: {known}".rstrip(": ") if bare else known


MOST_LETTERS = 200
"""Of a library's message: some quote the file."""


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
