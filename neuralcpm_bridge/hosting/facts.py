"""What a host's own file says about a simulation, as far as a learned term must know it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from ..lattice import Lattice

AMPLITUDES: dict[str, Callable[[float, float], float]] = {
    "Min": min,
    "Max": max,
    "ArithmeticAverage": lambda one, other: (one + other) / 2,
}
"""How a host makes one fluctuation amplitude of two cells'; the medium has none and no say."""


@dataclass(frozen=True)
class Facts:
    """The settings of one simulation; the temperature in the host's units."""

    lattice: Lattice
    type_names: dict[int, str]
    """By the host's numbers; 0 is the medium."""
    temperature: float
    acceptance: str
    amplitude_function: str


class HostCell(NamedTuple):
    """One cell as the host knows it."""

    id: int
    type: int
    amplitude: float = -1.0
    """Its own fluctuation amplitude; negative: none."""
    properties: Mapping[str, Any] = MappingProxyType({})
    """What the host's user has noted of it by name, numbers or not."""
    address: int = 0
    """Where it lies in the host's memory, for hosts whose compiled code asks the engine."""

    def number(self, name: str) -> float | None:
        """One of its properties; None where it has none, or one that is no finite number."""
        value = self.properties.get(name)
        try:
            number = math.nan if value is None else float(value)
        except (TypeError, ValueError):
            return None
        return number if math.isfinite(number) else None


def amplitudes_of(
    cells: Iterable[HostCell], by_type: Mapping[int, float], temperature: float
) -> dict[int, float] | None:
    """The amplitude of every cell by its id; None where all go by the common temperature."""
    cells = list(cells)
    if not by_type and all(cell.amplitude < 0 for cell in cells):
        return None
    return {cell.id: cell.amplitude if cell.amplitude >= 0 else by_type.get(cell.type, temperature) for cell in cells}
