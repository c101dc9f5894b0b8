"""Every analytic term in CompuCell3D's own plugins against ours: each attempted copy, plugin by plugin.

On square, hexagonal and cubic lattices, with borders and without, at the neighbour orders 1 to 4.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cc3d_steppables.energies import PLUGINS
from cc3d_steppables.new import write_project
from cc3d_steppables.verify import Recording, record
from neuralcpm_bridge._engine import IdMap, Model, State
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.state import CellState

from ..cc3d.models import analytic_model
from .cc3d_tools import needs_cc3d

pytestmark = [needs_cc3d, pytest.mark.slow]
FLIPS, SCALE, ALLOWED = 5_000, 2.5, 1e-5
LATTICES = {
    "square, free": Lattice.of((34, 39), "square", "free"),
    "square, periodic": Lattice.of((34, 39), "square", "periodic"),
    "square, periodic in x": Lattice.of((34, 39), "square", ("free", "periodic")),
    "hexagonal, free": Lattice.of((32, 44), "hexagonal", "free"),
    "hexagonal, periodic in x": Lattice.of((32, 30), "hexagonal", ("free", "periodic")),
    "hexagonal, periodic": Lattice.of((52, 26), "hexagonal", "periodic"),  # rows and skewed axes close to one ring
    "cubic, free": Lattice.of((13, 15, 18), "cubic", "free"),
    "cubic, periodic": Lattice.of((13, 15, 18), "cubic", "periodic"),
    "cubic, periodic in z": Lattice.of((13, 15, 18), "cubic", ("periodic", "free", "free")),
}


def tissue(lattice: Lattice) -> CellState:
    """Boxes of cells with gaps here and there.

    In 3D their axes differ: CompuCell3D solves a cubic equation by Cardano's formula, which loses half of the digits
    of lengths (some 1e-4 of an energy) where two axes are equal.
    """
    ids = np.zeros(lattice.shape, dtype=np.int32)
    sides = (3, 4, 6) if lattice.dimension == 3 else (6, 6)
    slanted = lattice.geometry.name == "hexagonal" and not lattice.periodic[1]
    starts = [range(0, size - side + 1, side) for size, side in zip(lattice.shape, sides, strict=True)]
    number = 0
    for corner in np.stack(np.meshgrid(*starts, indexing="ij"), axis=-1).reshape(-1, lattice.dimension).tolist():
        # Rows and skewed axes have different free sides: three columns of medium for neighbours up to order 4.
        if slanted and not 3 <= corner[1] <= lattice.shape[1] - sides[1] - 3:
            continue
        number += 1
        if number % 5:
            ids[tuple(slice(start, start + side) for start, side in zip(corner, sides, strict=True))] = number
    types = np.where(np.arange(number + 1) % 3 == 0, 1, 2)
    types[0] = 0
    return CellState(ids, types, lattice)


def single_term(model: Artifact, term: str) -> Model:
    """One term of a model alone."""
    meta = model.metadata
    kept = (f"symbolic.{term}.", "symbolic.weight")
    described = {
        "types": meta.types,
        "lattice": {"geometry": meta.lattice.geometry, "boundary": meta.boundary},
        "symbolic": {"terms": {term: {"order": meta.orders[term]} if term in meta.orders else {}}},
    }
    return Model(json.dumps(described), {key: value for key, value in model.weights.items() if key.startswith(kept)})


def replayed(recording: Recording, model: Artifact, term: str, lattice: Lattice) -> NDArray[np.float64]:
    """Our ΔH of one term for every recorded attempt, in the host's units."""
    alone, found = single_term(model, term), np.empty(len(recording.step))
    first = np.concatenate([[0], np.cumsum(recording.cell_counts)])
    for step, ids in enumerate(recording.ids):
        cells, types = recording.cells[first[step] : first[step + 1]].T
        numbers = IdMap()
        model_types = numbers.load(np.ascontiguousarray(cells), types.astype(np.int32))
        state = State(alone, numbers.translate(ids), model_types, layout=lattice.layout)
        for attempt in np.flatnonzero(recording.step == step):
            site, new_id, _ = (int(value) for value in recording.attempts[attempt])
            found[attempt] = SCALE * state.delta(site, numbers.at(new_id))
            if recording.accepted[attempt]:
                state.commit(site, numbers.at(new_id))
    return found


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("name", LATTICES)
def test_plugins(name: str, order: int, tmp_path: Path) -> None:
    lattice = LATTICES[name]
    state = tissue(lattice)
    terms = ["contact", "volume", "surface"]
    if "periodic" not in lattice.boundary:  # CompuCell3D's lengths do not follow a cell across a border
        terms.append("length")
    three = lattice.dimension == 3
    options = {"volume": 60.0 if three else 36.0, "length": 8.0 if three else 9.0}
    model = analytic_model(tmp_path / "model.onnx", lattice.geometry.name, lattice.boundary, order, terms, **options)
    project = write_project(model, state, tmp_path / "project", energy_scale=SCALE)
    recording, copy = record(project, tmp_path / "ran", None, FLIPS, seed=order)
    facts = copy.facts()
    assert facts is not None
    assert facts.lattice.boundary == lattice.boundary
    energies = json.loads(str(recording.about))["names"]
    assert len(recording.step) >= FLIPS
    assert 0.02 < recording.accepted.mean() < 0.98
    for term in terms:
        host = recording.energies[:, energies.index(PLUGINS[term][0])]
        ours = replayed(recording, model, term, facts.lattice)
        worst = np.abs(host - ours).max()
        print(f"{name}, order {order}, {term}: {len(host)} copies, largest difference {worst:.1e}")
        assert np.abs(host).max() > 0.1
        assert worst <= ALLOWED


@pytest.mark.parametrize(
    ("lattice", "order", "fits"),
    [
        (Lattice.of((2, 20, 24), "cubic", "free"), 4, True),
        (Lattice.of((4, 20, 24), "cubic", "free"), 4, False),
        (Lattice.of((5, 20, 24), "cubic", "periodic"), 4, True),
        (Lattice.of((4, 24), "square", "periodic"), 4, False),
        (Lattice.of((12, 40), "hexagonal", ("free", "periodic")), 4, True),
        (Lattice.of((8, 40), "hexagonal", ("free", "periodic")), 1, False),
    ],
)
def test_thin_lattices(
    lattice: Lattice, order: int, fits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is refused as too thin is where CompuCell3D counts other neighbours; everywhere else it counts ours."""
    ids = np.zeros(lattice.shape, dtype=np.int32)
    for number, col in enumerate(range(0, lattice.shape[-1] - 7, 6), 1):
        ids[..., col : col + 6] = number
    types = np.arange(ids.max() + 1) % 2 + 1
    types[0] = 0
    model = analytic_model(tmp_path / "model.onnx", lattice.geometry.name, lattice.boundary, order, ["contact"])
    if not fits:
        with pytest.raises(UserError, match="too thin"):
            write_project(model, CellState(ids, types, lattice), tmp_path / "refused")
    monkeypatch.setattr("cc3d_steppables.new.check_neighbourhoods", lambda lattice, orders: None)
    project = write_project(model, CellState(ids, types, lattice), tmp_path / "project", energy_scale=SCALE)
    recording, copy = record(project, tmp_path / "ran", None, 500, seed=1)
    facts, names = copy.facts(), json.loads(str(recording.about))["names"]
    assert facts is not None
    host, ours = recording.energies[:, names.index("Contact")], replayed(recording, model, "contact", facts.lattice)
    assert (np.abs(host - ours).max() <= ALLOWED) == fits
