"""Properties of cells in a host: read from cell.dict before every step, refused where one is missing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cc3d_steppables.inject import inject
from cc3d_steppables.new import write_project
from cc3d_steppables.properties import PROPERTIES, read_properties
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.delta import open_backend
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.snapshots import load_snapshots
from neuralcpm_bridge.state import CellState

from .fake_host import FakeHost
from .models import tissue_model
from .test_projects import TYPES, make_project


@pytest.fixture(scope="module")
def aged(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """Reads two properties of every cell."""
    path = tmp_path_factory.mktemp("aged") / "model.onnx"
    return tissue_model(path, "graph1-closure", boundary="free", properties=("age", "marker"))


@pytest.fixture
def host(aged: Artifact, tmp_path: Path) -> FakeHost:
    host = FakeHost(tmp_path)
    host.add(7, 1, slice(4, 11), slice(3, 9), age=1.0, marker=-0.5, name="a stem cell")
    host.add(1000, 2, slice(4, 12), slice(9, 15), age=2, marker=np.float32(0.25))
    host.add(1001, 1, slice(12, 18), slice(6, 14), age=3.5, marker=0)
    host.add(9, 3, slice(0, 30), slice(30, 32))  # a wall, which the model does not see, has none
    (tmp_path / "model.onnx").write_bytes(aged.path.read_bytes())
    return host


def begun(host: FakeHost) -> FakeHost:
    host.begin(types={"Wall": "medium"})
    host.term.before_step(0)
    return host


def truth(host: FakeHost, aged: Artifact, place: tuple[int, int], new_id: int) -> float:
    """What the host's tissue costs from scratch; the wall is medium."""
    seen = {cell.id: cell for cell in host.alive.values() if cell.type != 3}
    number = {cell_id: k for k, cell_id in enumerate(seen, start=1)}
    ids = np.vectorize(lambda cell_id: number.get(cell_id, 0))(host.lattice)
    cells = [seen[cell_id] for cell_id in number]
    columns = {name: [0.0, *(float(cell.dict[name]) for cell in cells)] for name in ("age", "marker")}
    types = np.array([0, *(cell.type for cell in cells)])
    state = CellState(ids, types, host.known.lattice, columns)
    site = place[0] * host.lattice.shape[1] + place[1]
    factor = host.degrees / aged.metadata.temperature
    return factor * open_backend(aged, state, part="neural").delta(site, number.get(new_id, 0))


def test_properties_are_read_before_every_step(host: FakeHost, aged: Artifact) -> None:
    begun(host)
    first = host.ask((3, 5), 7)
    assert first == pytest.approx(truth(host, aged, (3, 5), 7), abs=1e-5)
    host.alive[7].dict["age"] = 6.0
    assert host.ask((3, 5), 7) == first  # noticed with the next step
    host.term.before_step(1)
    assert host.ask((3, 5), 7) == pytest.approx(truth(host, aged, (3, 5), 7), abs=1e-5)
    assert abs(host.ask((3, 5), 7) - first) > 1e-3
    # A daughter with properties of its own, written between two steps.
    host.add(2000, 2, slice(12, 18), slice(6, 10), age=0.0, marker=2.0)
    assert host.ask((11, 7), 2000) == pytest.approx(truth(host, aged, (11, 7), 2000), abs=1e-5)
    host.sweep(300, np.random.default_rng(0))
    host.term.before_step(2)
    host.term.end()
    assert host.term.last_check.ok


def test_a_lattice_that_is_loaded_again_keeps_them(host: FakeHost, aged: Artifact) -> None:
    begun(host)
    host.alive[9].type = 1  # a wall that becomes a cell: only a whole load can tell
    host.alive[9].dict |= {"age": 1.5, "marker": 1.0}
    host.lattice[:, 30:32] = 0
    host.lattice[20:26, 28:32] = 9
    host.term.stale = True
    host.term.before_step(1)
    assert host.ask((3, 5), 7) == pytest.approx(truth(host, aged, (3, 5), 7), abs=1e-5)


@pytest.mark.parametrize(("value", "found"), [(None, "is not set"), ("old", "is 'old'"), (float("nan"), "is nan")])
def test_a_cell_without_a_property_is_one_sentence(host: FakeHost, value: object, found: str) -> None:
    if value is None:
        del host.alive[1000].dict["marker"]
    else:
        host.alive[1000].dict["marker"] = value
    host.begin(types={"Wall": "medium"})
    says = rf"property 'marker' of every cell, but that of cell 1000 \(B\) {found}: set cell.dict\['marker'\]"
    with pytest.raises(UserError, match=says) as caught:
        host.term.before_step(0)
    assert "\n" not in str(caught.value)
    rescued = load_snapshots(next((host.folder / "out").glob("*.npz")))  # what was known of the others is kept
    assert rescued.property_names == ("age", "marker")
    assert set(rescued[0].properties["age"].tolist()) == {0, 1, 2, 3.5}


def test_a_daughter_without_a_property_stops_the_run(host: FakeHost) -> None:
    begun(host)
    host.add(2000, 2, slice(12, 18), slice(6, 10), age=0.0)
    host.ask((3, 5), 7)  # never raises
    with pytest.raises(UserError, match="'marker' of every cell, but that of cell 2000"):
        host.term.before_step(1)


def test_the_table_says_what_is_read(host: FakeHost, capsys: pytest.CaptureFixture[str]) -> None:
    host.begin(types={"Wall": "medium"})
    assert "property age cell.dict['age'] age" in " ".join(capsys.readouterr().out.split())


# -- projects ------------------------------------------------------------------------------------------------------


def state_of(host: FakeHost) -> CellState:
    ids = np.where(host.lattice == 7, 2, np.where(host.lattice == 1000, 5, 0))
    types = np.array([0, -1, 1, -1, -1, 2])
    columns = {"marker": [0, 0, 0.1, 0, 0, -3e-7], "age": [0, 0, 1 / 3, 0, 0, 4.0]}
    return CellState(ids, types, host.known.lattice, columns)


def test_a_generated_project_has_the_properties_of_its_cells(aged: Artifact, host: FakeHost, tmp_path: Path) -> None:
    project = write_project(aged, state_of(host), tmp_path / "made")
    known = read_properties(project.parent / PROPERTIES)
    assert known == {2: {"age": 1 / 3, "marker": 0.1}, 5: {"age": 4.0, "marker": -3e-7}}
    assert f">{PROPERTIES}<" in project.read_text()
    script = (project.parent / "Simulation" / "made.py").read_text()
    compile(script, "made.py", "exec")
    assert script.index("steppable=CellPropertiesSteppable(") < script.index("steppable=NeuralHamiltonianSteppable(")


def test_a_table_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,age\n1,old\n")
    with pytest.raises(UserError, match="not a table of properties"):
        read_properties(tmp_path / "t.csv")


def test_injecting_says_what_must_be_set(aged: Artifact, tmp_path: Path) -> None:
    project = make_project(tmp_path / "Sort", "<PythonScript>Simulation/Sort.py</PythonScript>")
    _, said = inject(project, aged, tmp_path / "injected", types=TYPES)
    assert "reads cell.dict['age'], cell.dict['marker'] of every cell" in said
    assert "a cell without it stops the run" in said
