"""CompuCell3D: the learned Hamiltonian as a steppable, and projects that carry it.

Importing this package imports nothing of CompuCell3D; asking it for the steppable does.
"""

from __future__ import annotations

import builtins
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .steppable import CellPropertiesSteppable, NeuralHamiltonianSteppable, one_potts_node

__all__ = ["CellPropertiesSteppable", "NeuralHamiltonianSteppable", "one_potts_node"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with genuine_imports():
        return getattr(importlib.import_module(".steppable", __name__), name)


@contextmanager
def genuine_imports() -> Iterator[None]:
    """Python's own `import` for a while.

    CC3D replaces it: it takes relative imports of anything with "steppable" in its name for absolute ones, and
    forgets a simulation's modules after the run, which would leave two copies of this package in a second run.
    """
    replaced = builtins.__import__
    builtins.__import__ = importlib.__import__
    try:
        yield
    finally:
        builtins.__import__ = replaced
