"""Response curves: how the energy changes as one cell is changed, averaged over the cells of data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..artifact import Metadata
from .analytic import analytic_energy
from .cells import Cells, Floats
from .deformations import Quantity, quantities
from .network import Network

POINTS = 41
"""Values along a curve."""
BINS = 24
MOST_CELLS = 80
"""Of each type that a curve is averaged over."""
BEYOND = 0.15
"""How far curves go beyond the data, as a share of their range: far enough to see what becomes of them."""
MOST_OF_THE_DATA = (0.05, 0.95)


@dataclass(frozen=True)
class Coverage:
    """Where the cells of the data lie: least, 5 %, median, 95 %, most, and counts in equal bins along the curve."""

    cells: int
    quantiles: tuple[float, float, float, float, float]
    bins: Floats

    @property
    def most(self) -> tuple[float, float]:
        """Where nine of ten lie."""
        return self.quantiles[1], self.quantiles[3]


@dataclass(frozen=True)
class Response:
    """Energy of the tissue as one cell of a type is changed, in units of the temperature, 0 at the data's median.

    `energy[n]`: what the network adds, mean over cells of the data; `low`, `high`: 16 and 84 % of the cells;
    `members`: the deviation of the committee's members, None without one; `whole`: with the analytic terms.
    """

    cell_type: str
    quantity: str
    unit: str
    values: Floats
    energy: Floats
    low: Floats
    high: Floats
    members: Floats | None
    whole: Floats | None
    coverage: Coverage
    cells: int
    also: tuple[str, Floats] | None = None

    def at(self, value: float) -> float:
        return float(np.interp(value, self.values, self.energy))

    def between(self, low: float, high: float) -> tuple[Floats, Floats]:
        """The part of the curve between two values, both included."""
        inner = self.values[(self.values > low) & (self.values < high)]
        places = np.r_[low, inner, high]
        return places, np.array(np.interp(places, self.values, self.energy))

    @property
    def strength(self) -> float:
        """How far the energy varies where most of the data lie."""
        return float(np.ptp(self.between(*self.coverage.most)[1]))


def responses(
    network: Network,
    meta: Metadata,
    tissues: Sequence[Cells],
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Response]:
    """Every quantity of every type that the tissues hold."""
    rng = np.random.default_rng(seed)
    asked = quantities(meta.types, network.properties)
    found: list[Response | None] = []
    for done, quantity in enumerate(asked, start=1):
        known = [_known(quantity, tissues, number) for number in range(1, network.types)]
        axis = _axis(quantity, [measured for measured, _ in known if measured.size])
        for number, (measured, cells) in enumerate(known, start=1):
            if axis is not None and cells:
                picked = [cells[index] for index in rng.permutation(len(cells))[:MOST_CELLS]]
                found.append(_response(network, meta, quantity, number, axis, measured, picked))
        progress(done, len(asked))
    return [response for response in found if response is not None]


def _known(quantity: Quantity, tissues: Sequence[Cells], number: int) -> tuple[Floats, list[tuple[Cells, int]]]:
    """The cells of a type for which a quantity is defined, and its values."""
    values, cells = [], []
    for tissue in tissues:
        measured = quantity.measured(tissue)[0]
        own = np.flatnonzero((tissue.types == number) & ~np.isnan(measured))
        values.append(measured[own])
        cells += [(tissue, int(cell)) for cell in own]
    return np.concatenate(values), cells


def _axis(quantity: Quantity, measured: list[Floats]) -> Floats | None:
    """Values that reach a little beyond all types' data; None where all cells are alike. Numbers of sites begin and end
    between two of them."""
    if not measured:
        return None
    low = min(float(np.quantile(values, 0.005)) for values in measured)
    high = max(float(np.quantile(values, 0.995)) for values in measured)
    if high - low < 1e-9 * max(abs(low), abs(high), 1e-9):
        return None
    more = BEYOND * (high - low)
    low, high = max(low - more, quantity.limits[0]), min(high + more, quantity.limits[1])
    if quantity.unit == "sites":
        low, high = np.floor(low) - 0.5, np.ceil(high) + 0.5
    return np.linspace(low, high, POINTS)


def _response(
    network: Network,
    meta: Metadata,
    quantity: Quantity,
    number: int,
    axis: Floats,
    measured: Floats,
    picked: list[tuple[Cells, int]],
) -> Response | None:
    """None where no cell can be changed in this way."""
    low, median, high = np.quantile(measured, [MOST_OF_THE_DATA[0], 0.5, MOST_OF_THE_DATA[1]])
    learned, whole, also = [], [], []
    for tissue, cell in picked:
        part, (here,) = tissue.around([cell], 2 * network.rounds + 1)
        variants = quantity.changed(part, int(here), np.r_[axis, median])
        energy = network.totals(variants) / meta.temperature  # [K, G]
        if np.isnan(energy).any():
            continue
        learned.append(energy[:, :-1] - energy[:, -1:])
        if meta.symbolic is not None:
            known = analytic_energy(meta, variants, network.order) / meta.temperature
            whole.append(learned[-1].mean(axis=0) + known[:-1] - known[-1])
        if quantity.also is not None:
            also.append(quantity.also[1](variants)[:-1, here])
    if not learned:
        return None
    of_members = np.mean(learned, axis=0)  # [K, G]
    of_cells = np.mean(learned, axis=1)  # [cells, G]
    bins = min(BINS, int(np.ptp(axis))) if quantity.unit == "sites" else BINS
    counts, _ = np.histogram(measured, bins=bins, range=(axis[0], axis[-1]))
    return Response(
        meta.types[number],
        quantity.name,
        quantity.unit,
        axis,
        of_cells.mean(axis=0),
        np.quantile(of_cells, 0.16, axis=0),
        np.quantile(of_cells, 0.84, axis=0),
        of_members.std(axis=0, ddof=1) if network.members > 1 else None,
        np.mean(whole, axis=0) if whole else None,
        Coverage(measured.size, (float(measured.min()), low, median, high, float(measured.max())), counts),
        len(learned),
        None if quantity.also is None else (quantity.also[0], np.mean(also, axis=0)),
    )
