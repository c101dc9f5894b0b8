"""What one cell more costs in memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.state import CellState

from .tissues import cell_blocks

SIDE = 1200
BLOCKS = (5, 10)
"""Sides of the cells of the two states that are compared, on the same lattice."""


class Mallinfo(ctypes.Structure):
    """Of glibc's mallinfo2: ten numbers, of which the fifth and the eighth are bytes in use, mapped and not."""

    _fields_ = (("numbers", ctypes.c_size_t * 10),)


def allocated() -> int | None:
    """Bytes that this process has allocated and not freed; None where the C library does not tell."""
    try:
        mallinfo2 = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError, TypeError):
        return None
    mallinfo2.restype = Mallinfo
    numbers = mallinfo2().numbers
    return int(numbers[4] + numbers[7])


def bytes_per_cell(make: Callable[[CellState], Any]) -> float | None:
    """Everything that is allocated for one cell more on the same lattice by what `make` keeps of a state."""
    kept, sizes, cells = [], [], []
    for block in BLOCKS:
        state = cell_blocks(Lattice.of((SIDE, SIDE)), block)
        before = allocated()
        kept.append(make(state))
        after = allocated()
        if before is None or after is None:
            return None
        sizes.append(after - before)
        cells.append(state.types.size)
    return (sizes[0] - sizes[1]) / (cells[0] - cells[1])
