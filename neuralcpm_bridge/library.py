"""Where the engine's shared library and its C header are, for hosts that load it themselves."""

from __future__ import annotations

import sys
from pathlib import Path

from .errors import UserError, engine_speaking


def engine_library() -> Path:
    """The shared library behind `ncpm.h`."""
    name = {"win32": "ncpm.dll", "darwin": "libncpm.dylib"}.get(sys.platform, "libncpm.so")
    return _installed("lib", name)


def engine_library_if_installed() -> str | None:
    """The same for a file that names it; a host that finds nothing there looks elsewhere and says so."""
    try:
        return str(engine_library())
    except UserError:
        return None


def engine_header() -> Path:
    """`ncpm.h`, the C interface."""
    return _installed("include", "ncpm.h")


def engine_isa() -> str:
    """The instruction set the engine's kernels run on; `NEURALCPM_ISA` forces one."""
    from ._engine import isa

    with engine_speaking():
        return isa()


def _installed(folder: str, name: str) -> Path:
    from . import _engine

    path = Path(_engine.__file__).parent / folder / name  # an editable install keeps them beside the module
    if not path.is_file():
        raise UserError(f"The engine's file {path} is missing: install neuralcpm-bridge again.")
    return path
