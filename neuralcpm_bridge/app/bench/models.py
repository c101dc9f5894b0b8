"""The models that bench measures: freshly initialised networks of named sizes, and the paper's cell sorting."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from neuralcpm_bridge.artifact import Artifact, LatticeEntry
from neuralcpm_bridge.errors import needs_torch
from neuralcpm_bridge.state import CellState

from .tissues import CONTACT, STRENGTH, TARGET_VOLUME, dense_cluster

CONVOLUTIONS = {"local8": "local8", "local16": "local16", "local8x2": "local8x2", "paper_nh": "mnist-nh"}
GRAPHS = ("graph1", "graph2", "graph3")
COMMITTEE = 4
"""Members of the committee that is compared with one."""


class Setting(NamedTuple):
    """A tissue for a cell graph."""

    geometry: str
    shape: tuple[int, ...]
    cells: int
    spacing: int

    def tissue(self) -> CellState:
        return dense_cluster(self.cells, self.shape, self.geometry, self.spacing)


SETTINGS = {
    "hexagonal": Setting("hexagonal", (100, 100), 50, 10),
    "cubic": Setting("cubic", (60, 60, 60), 200, 8),
}
"""On the other lattices cells fill half of it as well."""


def bench_models(folder: Path) -> dict[str, Artifact]:
    """By name: the networks, `cellsort`, `graph1-closure` (cell sorting with a graph), `committee`, and graph1 on other
    lattices by their names."""
    with needs_torch("bench"):
        import torch

        from training.export import export
        from training.hamiltonians import Contact, Hamiltonian, Symbolic, Volume, make_preset

    torch.manual_seed(0)
    types = ("medium", "A", "B")

    def sorting() -> Symbolic:
        volume = Volume(torch.tensor([STRENGTH]), torch.tensor([TARGET_VOLUME]))
        return Symbolic(Contact(torch.tensor(CONTACT)), volume)

    models = {name: make_preset(preset) for name, preset in CONVOLUTIONS.items()}
    models["cellsort"] = Hamiltonian(types, sorting())
    models |= {name: make_preset(name) for name in GRAPHS}
    models["graph1-closure"] = Hamiltonian(types, sorting(), make_preset("graph1").network)
    models["committee"] = make_preset("graph1", members=COMMITTEE)
    for name, setting in SETTINGS.items():
        where = LatticeEntry(geometry=setting.geometry, boundary=("periodic",) * len(setting.shape))
        models[name] = make_preset("graph1", lattice=where, target_volume=setting.spacing ** len(setting.shape))
    return {name: export(model, folder / f"{name}.onnx") for name, model in models.items()}
