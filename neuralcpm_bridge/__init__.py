"""NeuralCPM bridge: learned cellular Potts energies inside CompuCell3D, Morpheus and an embedded host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from .artifact import Artifact, load_artifact
    from .delta import DeltaBackend, Energy, open_backend
    from .errors import UserError
    from .lattice import Lattice
    from .state import CellState

_HOMES = {
    "Artifact": "artifact",
    "load_artifact": "artifact",
    "DeltaBackend": "delta",
    "Energy": "delta",
    "open_backend": "delta",
    "UserError": "errors",
    "Lattice": "lattice",
    "CellState": "state",
}

__all__ = ["Artifact", "CellState", "DeltaBackend", "Energy", "Lattice", "UserError", "load_artifact", "open_backend"]


def __getattr__(name: str) -> Any:
    """Public names are imported on first use, so that importing the package costs next to nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
