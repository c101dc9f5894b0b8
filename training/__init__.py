"""Training of cellular Potts Hamiltonians in PyTorch, and their export."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import Config, load_config
    from .trainer import Trainer

__all__ = ["Config", "Trainer", "load_config"]

_HOMES = {"Trainer": "trainer", "Config": "config", "load_config": "config"}


def __getattr__(name: str) -> Any:
    """Public names are imported on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
