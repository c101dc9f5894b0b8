"""One tissue under a model: it moves, its settings change, and it remembers what it did."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.artifact import Artifact, reweighted
from neuralcpm_bridge.delta import DeltaBackend, Energy, open_backend
from neuralcpm_bridge.embedded import Chains, Dynamics, ProtocolChains, open_chains
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.recording import measured
from neuralcpm_bridge.state import NO_CELL, CellState

HOTTEST = 100.0
STRONGEST = 10.0
"""Largest temperature, in units of the model's own, and largest weight of the learned term that are taken."""
MOST_STEPS = 1000
"""Monte Carlo steps of one request at most: a page that asks for more would wait without a word."""
MEASURING = 0.25
"""Share of the time that may go into measuring; where it would take more, fewer points are drawn."""
REMEMBERED = 2000
FRAMES = 120
"""Rows of measures, and states of an animation, that are kept: where there are more, every second one goes."""


@dataclass
class Memory:
    """Measures and states over time, thinned out as they grow."""

    rows: list[dict[str, float | None]] = field(default_factory=list)
    states: list[tuple[int, CellState]] = field(default_factory=list)
    stride: int = 1
    looks: int = 0

    def add(self, mcs: int, state: CellState, row: Mapping[str, float]) -> None:
        known = {key: float(value) if np.isfinite(value) else None for key, value in row.items()}
        self.rows.append({"mcs": float(mcs), **known})
        if len(self.rows) > REMEMBERED:
            self.rows = self.rows[:1] + self.rows[2::2]
        if self.looks % self.stride == 0:
            self.states.append((mcs, state))
        self.looks += 1
        if len(self.states) > FRAMES:
            self.states, self.stride = self.states[::2], 2 * self.stride


class Tissue:
    """A start, the chain that it moves in, and what was seen on the way. Used by one thread at a time."""

    def __init__(self, artifact: Artifact, start: CellState, dynamics: Dynamics) -> None:
        self.artifact, self.start, self.dynamics = artifact, artifact.place(start), dynamics
        self.weight = 1.0
        self.restart()

    @property
    def type_names(self) -> tuple[str, ...]:
        return self.artifact.metadata.types

    def restart(self) -> None:
        """From the start again, with the same random numbers and today's settings."""
        self.mcs, self.memory = 0, Memory()
        self._open(self.start)
        self._look()

    def advance(self, mcs: int) -> None:
        if not 1 <= mcs <= MOST_STEPS:
            raise UserError(f"{mcs} Monte Carlo steps were asked for at once: ask for 1 to {MOST_STEPS}.")
        self.chains.advance(mcs)
        self.mcs += mcs
        if self._measuring <= MEASURING * (time.perf_counter() - self._looked):
            self._look()

    def look(self) -> None:
        """Measure the present state, whatever it takes: what stands still is not to be older on charts than it is."""
        if self.memory.rows[-1]["mcs"] != self.mcs:
            self._look()

    def set(self, temperature: float | None = None, weight: float | None = None) -> None:
        """Change what the tissue moves under, from now on."""
        if temperature is not None:
            most = HOTTEST * self.artifact.metadata.temperature
            if not 0 <= temperature <= most:
                raise UserError(f"The temperature is {temperature}, but 0 to {most:g} can be set: choose another one.")
            self.dynamics = self.chains.dynamics = replace(self.dynamics, temperature=temperature)
        if weight is not None:
            if not 0 <= weight <= STRONGEST:
                raise UserError(f"The weight is {weight}, but 0 to {STRONGEST:g} can be set: choose another one.")
            if weight != self.weight:
                self.weight = weight
                self._open(self.state())

    # -- what it is like -------------------------------------------------------------------------------------------

    def state(self) -> CellState:
        return self.chains.states()[0]

    def energy(self) -> Energy:
        """Both parts, the learned one with its weight."""
        return self._weighted(self.chains.energies()[0])

    def outside(self) -> list[int]:
        """Cells with sites that are unlike those of the training data."""
        inside = self._backend.inside_range()
        return [int(cell) for cell in self.state().cells if not inside[cell]]

    def cell(self, number: int) -> dict[str, Any]:
        """What is known of one cell; its energy is what H would lose if medium were in its place."""
        state = self.state()
        if not 0 < number < state.types.size or not (state.ids == number).any():
            raise UserError(f"There is no cell {number}: click on one.")
        cell_type = self.type_names[state.types[number]]
        from neuralcpm_bridge.metrics import aspect_ratios

        energy = self.energy()
        without = self._without(state, number)
        ranges = self.artifact.ranges.get(cell_type, {})
        return {
            "id": number,
            "type": cell_type,
            "volume": int(state.volumes[number]),
            "aspect_ratio": _known(float(aspect_ratios(state)[number])),
            "energy": energy.total - without.total,
            "symbolic": energy.symbolic - without.symbolic,
            "neural": energy.neural - without.neural,
            "knows_range": bool(ranges),
            "inside": bool(self._backend.inside_range()[number]),
            "volume_range": list(ranges["volume"]) if "volume" in ranges else None,
            "properties": {name: float(values[number]) for name, values in state.properties.items()},
        }

    def _without(self, state: CellState, cell: int) -> Energy:
        types = state.types.copy()
        types[cell] = NO_CELL
        bare = replace(state, ids=np.where(state.ids == cell, 0, state.ids), types=types)
        return self._weighted(open_backend(self._model, bare).energy())

    # -- how it moves ----------------------------------------------------------------------------------------------

    @property
    def _backend(self) -> DeltaBackend:
        return self.chains.backends[0]  # type: ignore[attr-defined]  # both kinds of chains have them

    def _open(self, state: CellState) -> None:
        """A chain of its own from this state on; later ones go on with other random numbers than the first."""
        dynamics = replace(self.dynamics, seed=self.dynamics.seed + self.mcs)
        if self.artifact.engine_serves:
            self._model = self.artifact if self.weight == 1 else reweighted(self.artifact, self.weight)
            self.chains: Chains = open_chains(self._model, [state], dynamics)
        else:
            self._model = self.artifact
            backend = WeightedBackend(open_backend(self.artifact, state), self.weight)
            self.chains = ProtocolChains([backend], dynamics)

    def _weighted(self, energy: Energy) -> Energy:
        """The engine's model has the weight inside, other back ends do not."""
        return energy if self.artifact.engine_serves else Energy(energy.symbolic, self.weight * energy.neural)

    def _look(self) -> None:
        began = time.perf_counter()
        state = self.state()
        self.memory.add(self.mcs, state, measured(state, self.energy(), self.type_names))
        self._looked = time.perf_counter()
        self._measuring = self._looked - began


class WeightedBackend:
    """A back end whose ΔH has the learned part times a weight."""

    def __init__(self, backend: DeltaBackend, weight: float) -> None:
        self._backend, self._weight = backend, weight

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def delta(self, site: int, new_id: int) -> float:
        symbolic, neural = self._backend.deltas([site], [new_id])[0]
        return float(symbolic + self._weight * neural)


def data_bands(artifact: Artifact, states: Sequence[CellState]) -> dict[str, tuple[float, float]]:
    """What the data have of measures over time, low and high: of a data set's states mean ± deviation, else what the
    model knows of its training data, the smallest and largest single cell."""
    names = artifact.metadata.types
    if len(states) > 1:
        rows = [measured(state, Energy(np.nan, np.nan), names) for state in states]
        columns = {key: np.array([row[key] for row in rows]) for key in rows[0]}
        known = {key: values[np.isfinite(values)] for key, values in columns.items()}
        return {
            key: (float(values.mean() - values.std()), float(values.mean() + values.std()))
            for key, values in known.items()
            if values.size
        }
    bands: dict[str, tuple[float, float]] = {}
    ranges = artifact.ranges
    volumes = [ends["volume"] for ends in ranges.values()]
    if volumes:
        bands["volume_mean"] = (min(low for low, _ in volumes), max(high for _, high in volumes))
    if artifact.metadata.geometry.dimension == 2:
        for name, ends in ranges.items():
            low, high = (_aspect(value) for value in ends["anisotropy"])
            bands[f"aspect_ratio_{name}"] = (low, high)
    return bands


def _aspect(anisotropy: float) -> float:
    """Length over width of a plane cell: (a − b)/(a + b) of its moments a and b as √(a/b)."""
    share = min(max(anisotropy, 0.0), 0.999)
    return float(np.sqrt((1 + share) / (1 - share)))


def plane_of(state: CellState, axis: int, index: int) -> NDArray[np.int32]:
    """The ids that are drawn: all of a plane state, one slice of a 3D one across an axis."""
    if state.lattice.dimension == 2:
        return state.ids
    size = state.shape[axis]
    return np.ascontiguousarray(np.take(state.ids, min(max(index, 0), size - 1), axis))


def _known(value: float) -> float | None:
    return value if np.isfinite(value) else None
