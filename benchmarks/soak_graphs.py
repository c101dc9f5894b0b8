"""The part of soak.py about cell graphs: one of them, and a committee of deeper ones that read a property."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from soak import TYPES, tissue, without_drift

from neuralcpm_bridge._engine import State
from neuralcpm_bridge.artifact import LatticeEntry, NeuralSpec
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.state import CellState
from training.hamiltonians import CellGraph, Contact, Hamiltonian, States, Symbolic, Volume
from training.samplers import model_of

EVERY = 500
SAMPLED, FLIPS = 50, 8
"""Every so many rebuilds float64 is asked as well, about so many flips."""


@dataclass(frozen=True)
class Graph:
    """Contact and volume energies with a cell graph of random weights."""

    lattice: Lattice
    spec: NeuralSpec
    volume: float = 40.0
    radius: float = 3.0
    cells: int = 40

    def hamiltonian(self) -> Hamiltonian:
        torch.manual_seed(1)
        entry = LatticeEntry(geometry=self.lattice.geometry.name, boundary=self.lattice.boundary)
        network = CellGraph(self.spec, len(TYPES), entry, self.volume)
        with torch.no_grad():
            for member in network.members:
                member.out.weight.mul_(10)  # it pushes as hard as the analytic terms
        contact = Contact(torch.tensor([[0.0, 16.0, 18.0], [16.0, 24.0, 30.0], [18.0, 30.0, 22.0]]), self.spec.order)
        symbolic = Symbolic(contact, Volume(torch.tensor([1.0]), torch.tensor([self.volume])))
        return Hamiltonian(TYPES, symbolic, network, lattice=entry)


LATTICES = {
    "square": (Lattice.of((64, 60), "square"), 2),
    "hexagonal": (Lattice.of((60, 64), "hexagonal"), 1),
    "cubic": (Lattice.of((26, 24, 28), "cubic"), 3),
}
"""And the order of contacts."""


def settings(rounds: int, members: int, properties: tuple[str, ...]) -> dict[str, Graph]:
    found = {}
    for name, (lattice, order) in LATTICES.items():
        spec = NeuralSpec(kind="cell_graph", rounds=rounds, members=members, order=order, properties=properties)
        solid = {"volume": 60.0, "radius": 2.4} if lattice.dimension == 3 else {}
        found[f"{name}_graph{rounds}"] = Graph(lattice, spec, **solid)
    return found


GRAPHS = settings(1, 1, ()) | settings(2, 2, ("age",))


class Sample:
    """Compares energies of states, and ΔH of flips of them, with float64; the largest difference so far."""

    def __init__(self, hamiltonian: Hamiltonian, lattice: Lattice) -> None:
        self.exact, self.lattice = hamiltonian.double(), lattice
        self.rng = np.random.default_rng(2)
        self.seen, self.states, self.worst = 0, 0, 0.0

    def __call__(self, state: State) -> None:
        self.seen += 1
        if self.seen % SAMPLED:
            return
        names = self.exact.properties
        columns = dict(zip(names, state.properties.T, strict=True))
        now = States.of([CellState(state.ids, state.types, self.lattice, columns)], names)
        sites = self.rng.integers(self.lattice.sites, size=FLIPS)
        new_ids = self.rng.choice(state.ids.ravel(), size=FLIPS)
        possible = [np.isfinite(state.delta(int(site), int(new))) for site, new in zip(sites, new_ids, strict=True)]
        sites, new_ids = sites[possible], new_ids[possible]
        with torch.no_grad():
            energy = float(self.exact.member_energies(now).mean())
            changes = self.exact.flip_deltas(now, torch.from_numpy(sites)[None], torch.from_numpy(new_ids)[None].long())
        found = state.deltas(sites, new_ids.astype(np.int64)).sum(1)
        alive = max(int((state.volumes[1:] > 0).sum()), 1)
        differences = [abs(state.energy()[1] - energy) / alive, *np.abs(found - changes[0].numpy())]
        self.worst = max(self.worst, *differences)
        self.states += 1


def graph_without_drift(setting: Graph, accepted: int) -> dict[str, Any]:
    hamiltonian = setting.hamiltonian()
    rng = np.random.default_rng(1)
    start = tissue(rng, setting.lattice, setting.cells, setting.radius)
    columns = {name: rng.normal(size=start.types.size) for name in setting.spec.properties}
    start = CellState(start.ids, start.types, setting.lattice, columns)
    model, sample = model_of(hamiltonian), Sample(hamiltonian, setting.lattice)
    found = without_drift(model, start, accepted, EVERY, temperature=8.0, look=sample)
    return found | {"compared": sample.states, "largest_difference": sample.worst}
