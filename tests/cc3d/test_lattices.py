"""Hexagonal and 3D lattices around CompuCell3D: read, written, followed, saved, and refused where they must be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from cc3d_steppables.check import check_neighbourhoods
from cc3d_steppables.inject import inject
from cc3d_steppables.new import write_project
from cc3d_steppables.pif import pif_text
from cc3d_steppables.project import Project
from cc3d_steppables.reader import read_lattice
from cc3d_steppables.snapshots import pif_folder, save_snapshots
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.hosting.lattices import HostLattice, as_snapshots
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.snapshots import load_snapshots
from neuralcpm_bridge.state import CellState

from .fake_host import FakeHost
from .models import analytic_model
from .test_adapter import expected
from .test_projects import make_project

HEXAGONAL = Lattice.of((20, 22), "hexagonal", "free", "rows")
CUBIC = Lattice.of((9, 11, 13), "cubic", ("periodic", "free", "free"))
LATTICES = {"hexagonal": HEXAGONAL, "cubic": CUBIC}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    """Contact and surface at order 2, volume and length, on each lattice."""
    folder = tmp_path_factory.mktemp("models")
    return {
        name: analytic_model(folder / f"{name}.onnx", name, lattice.boundary, order=2, volume=30.0)
        for name, lattice in LATTICES.items()
    }


@pytest.fixture(params=LATTICES)
def host(request: pytest.FixtureRequest, models: dict[str, Artifact], tmp_path: Path) -> FakeHost:
    """Three cells with ids far apart, on a lattice that is not the 2D square one."""
    lattice = LATTICES[request.param]
    host = FakeHost(tmp_path, lattice, plugins=("CellType",))
    deep = [slice(3, 6)] if lattice.dimension == 3 else []
    host.add(7, 1, *deep, slice(2, 6), slice(2, 7))
    host.add(1000, 2, *deep, slice(2, 7), slice(7, 11))
    host.add(90000, 1, *deep, slice(7, 10), slice(4, 9))
    (tmp_path / "model.onnx").write_bytes(models[request.param].path.read_bytes())
    return host


# -- the learned term ----------------------------------------------------------------------------------------


def test_answers_are_the_models(host: FakeHost, models: dict[str, Artifact]) -> None:
    model = models[host.known.lattice.geometry.name]
    host.begin(part="full")
    host.term.before_step(0)
    deep = (3,) if host.lattice.ndim == 3 else ()
    for place, new_id in (((3, 7), 7), ((5, 6), 1000), ((9, 9), 90000), ((2, 2), 0)):
        wanted = 10 * expected(host, model, (*deep, *place), new_id, "full")
        assert wanted != 0
        assert host.ask((*deep, *place), new_id) == pytest.approx(wanted, rel=1e-9)


def test_follows_whatever_happens(host: FakeHost, capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(1)
    deep = [slice(3, 6)] if host.lattice.ndim == 3 else []
    host.begin(part="full", check_every=1, log_every=3, types={"Wall": "medium"}, extinction=True)
    for mcs in range(10):
        host.term.before_step(mcs)
        host.sweep(200, random, accept=0.2)
        if mcs == 2:
            host.add(90002, 1, *deep, slice(7, 10), slice(7, 9))
            host.alive[90002].type = 2
        if mcs == 4:
            for place in np.argwhere(host.lattice == 1000).tolist():
                host.write(tuple(place), 0)
        if mcs == 6:
            host.add(90003, 3, *deep, slice(0, 1), slice(0, 9))
        if mcs == 8:
            host.lattice = np.pad(host.lattice, [(0, 0)] * (host.lattice.ndim - 1) + [(0, 2)])
            host.term.stale = True
    host.term.end()
    assert "FAILED" not in capsys.readouterr().out
    assert host.term.last_check.ok


def test_the_table_names_the_lattice(host: FakeHost, capsys: pytest.CaptureFixture[str]) -> None:
    host.begin(part="full")
    said = capsys.readouterr().out
    if host.lattice.ndim == 3:
        assert "cubic, x = 13, y = 11, z = 9" in said
        assert "9 planes (z), 11 rows (y), 13 columns (x)" in said
        assert "NoFlux in x, NoFlux in y, Periodic in z" in said
    else:
        assert "hexagonal, x = 22, y = 20" in said


def test_the_lattice_is_saved_before_an_error(host: FakeHost, tmp_path: Path) -> None:
    host.begin(part="full")
    host.term.before_step(0)
    host.alive[7].type = 3
    with pytest.raises(UserError, match="cells of type 'Wall'"):
        host.term.before_step(1)
    saved = load_snapshots(tmp_path / "out" / "neuralcpm_rescued_mcs1.npz")
    assert saved.lattice.geometry == host.known.lattice.geometry
    assert saved.lattice.boundary == host.known.lattice.boundary
    assert saved.lattice.layout == "axes"
    assert saved[0].volumes.tolist()[1:] == [int((host.lattice == cell).sum()) for cell in (7, 1000, 90000)]
    lines = (tmp_path / "out" / "neuralcpm_rescued_mcs1.piff").read_text().splitlines()
    assert lines[0] == ("7 Wall 2 6 2 2 3 3" if host.lattice.ndim == 3 else "7 Wall 2 6 2 2 0 0")


@pytest.mark.parametrize("host", ["hexagonal"], indirect=True)
def test_a_lattice_that_no_data_set_holds_is_saved_as_pif(host: FakeHost, tmp_path: Path) -> None:
    host.add(12, 1, slice(8, 12), slice(0, 3))  # at a free side, where rows and skewed axes part
    host.begin(part="full")
    host.term.before_step(0)
    host.alive[7].type = 3
    with pytest.raises(UserError, match=r"The lattice was saved in .*mcs1\.piff\.$"):
        host.term.before_step(1)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["neuralcpm_rescued_mcs1.piff"]


@pytest.mark.parametrize(("here", "there"), [("hexagonal", "cubic"), ("cubic", "hexagonal")])
def test_another_lattice_than_the_models(here: str, there: str, models: dict[str, Artifact], tmp_path: Path) -> None:
    host = FakeHost(tmp_path, LATTICES[here], plugins=())
    with pytest.raises(UserError, match=f"project's lattice is {here}, but the model is for {there}"):
        host.begin(model=str(models[there].path), part="full")


def test_the_whole_energy_keeps_its_boundary(models: dict[str, Artifact], tmp_path: Path) -> None:
    host = FakeHost(tmp_path, CUBIC.with_boundary("free"), plugins=())
    with pytest.raises(UserError, match="boundary is NoFlux, but the model's own terms are periodic × free × free"):
        host.begin(model=str(models["cubic"].path), part="full")
    with pytest.raises(UserError, match="also has the plugin LengthConstraint"):
        FakeHost(tmp_path, CUBIC, plugins=("LengthConstraint",)).begin(model=str(models["cubic"].path), part="full")


# -- reading -------------------------------------------------------------------------------------------------


def potts(**words: str) -> etree._Element:
    size = words.pop("size", 'x="30" y="20" z="1"')
    leaves = "".join(f"<{tag}>{word}</{tag}>" for tag, word in words.items())
    return etree.fromstring(f"<Potts><Dimensions {size}/>{leaves}</Potts>")


def test_lattices_of_projects() -> None:
    assert read_lattice(potts()) == Lattice.of((20, 30), "square", "free")
    assert read_lattice(potts(Boundary_x="Periodic")) == Lattice.of((20, 30), "square", ("free", "periodic"))
    assert read_lattice(potts(LatticeType="hexagonal", Boundary_y="Periodic")) == Lattice.of(
        (20, 30), "hexagonal", ("periodic", "free"), "rows"
    )
    deep = potts(size='x="30" y="20" z="12"', Boundary_z="Periodic", LatticeType="Square")
    assert read_lattice(deep) == Lattice.of((12, 20, 30), "cubic", ("periodic", "free", "free"))


@pytest.mark.parametrize(
    ("word", "wraps"),
    [
        ("Periodic", True),
        ("\nPeriodic\n   ", True),
        ("periodic", False),  # CC3D compares to the letter: everything else is NoFlux
        (" Periodic", False),
        ("NoFlux", False),
        ("", False),
    ],
)
def test_words_for_boundaries(word: str, wraps: bool) -> None:
    assert read_lattice(potts(Boundary_y=word)).periodic == (wraps, False)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"size": 'x="30" y="20" z="12"', "LatticeType": "Hexagonal"}, "hexagonal in 3D"),
        ({"size": 'x="30" y="1" z="12"'}, "flat in y"),
        ({"size": 'x="30" y="{{y_dim}}" z="1"'}, "Dimensions y in the project's CC3DML is '{{y_dim}}'"),
        ({"size": 'x="30" y="21" z="1"', "LatticeType": "Hexagonal", "Boundary_y": "Periodic"}, "even number"),
    ],
)
def test_lattices_that_are_refused(words: dict[str, str], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        read_lattice(potts(**words))


# -- writing -------------------------------------------------------------------------------------------------


def crooked(lattice: Lattice) -> CellState:
    """Two cells, the second of the second type."""
    ids = np.zeros(lattice.shape, dtype=np.int32)
    deep = (slice(2, 5),) if lattice.dimension == 3 else ()
    ids[(*deep, slice(3, 7), slice(14, 18))] = 1
    ids[(*deep, slice(7, 9), slice(13, 19))] = 3
    return CellState(ids, np.array([0, 1, -1, 2]), lattice)


@pytest.mark.parametrize("order", [1, 4])
@pytest.mark.parametrize(("name", "shape"), [("square", (20, 24)), ("hexagonal", (20, 36)), ("cubic", (14, 16, 22))])
def test_written_projects(name: str, shape: tuple[int, ...], order: int, tmp_path: Path) -> None:
    model = analytic_model(tmp_path / "model.onnx", name, "free", order)
    state = crooked(Lattice.of(shape, name, "free"))
    file = write_project(model, state, tmp_path / "made", energy_scale=2.0)
    facts = Project.open(file).facts()
    assert facts is not None
    assert facts.lattice.geometry.name == name
    assert facts.lattice.boundary == ("free",) * len(shape)
    assert facts.energies.orders == {"contact": order, "surface": order}
    J = model.weights["symbolic.contact.J"]
    weight = model.metadata.geometry.pair_weight(order)
    assert facts.energies.contact[frozenset("AB")] == pytest.approx(2 * weight * J[1, 2])
    unit = (np.sqrt(2 / np.sqrt(27)) if name == "hexagonal" else 1.0) / weight
    surface = facts.energies.constraints["surface"]["B"]
    assert surface["target"] == pytest.approx(unit * model.weights["symbolic.surface.target"][2])
    assert surface["strength"] == pytest.approx(2 * model.weights["symbolic.surface.strength"][2] / unit**2)
    length = facts.energies.constraints["length"]["A"]
    assert length["target"] == pytest.approx(9.0)
    assert ("minor_target" in length) == (name == "cubic")
    script = (file.parent / "Simulation" / "made.py").read_text()
    assert 'term="neural"' in script
    text = (file.parent / "Simulation" / "made.xml").read_text()
    assert ("Boundary_z" in text) == (name == "cubic")
    assert f"<NeighborOrder>{model.metadata.geometry.moore_order}</NeighborOrder>" in text
    assert text.index("SurfaceTracker") < text.index('"Surface"')
    # the PIF holds the cells on CC3D's lattice, the planes of 3D in z
    boxes = [line.split() for line in (file.parent / "Simulation" / "init.piff").read_text().splitlines()]
    assert {(box[0], box[1]) for box in boxes} == {("1", "A"), ("3", "B")}
    assert {box[6] for box in boxes} == ({"2", "3", "4"} if name == "cubic" else {"0"})
    sites = sum(int(box[3]) - int(box[2]) + 1 for box in boxes)
    assert sites == (state.ids > 0).sum()


def test_hexagonal_states_come_back(tmp_path: Path) -> None:
    """A state on skewed axes, written in rows, and back through the door of a run's lattices."""
    model = analytic_model(tmp_path / "model.onnx", "hexagonal", "free", 1, ["contact"])
    state = crooked(Lattice.of((20, 36), "hexagonal", "free"))
    file = write_project(model, state, tmp_path / "made")
    facts = Project.open(file).facts()
    assert facts is not None
    ids = np.zeros(facts.lattice.shape, dtype=np.int64)
    for line in (file.parent / "Simulation" / "init.piff").read_text().splitlines():
        cell, _, x1, x2, y1, _, _, _ = line.split()
        ids[int(y1), int(x1) : int(x2) + 1] = int(cell)
    (back,) = as_snapshots([HostLattice(ids, {1: 1, 3: 2}, 0)], facts.type_names, facts.lattice, {})
    assert back.contacts(order=1).tolist() == state.contacts(order=1).tolist()
    assert back.volumes.tolist() == [back.volumes[0], 16, 12]


def test_terms_that_plugins_cannot_carry_go_through_the_model(tmp_path: Path) -> None:
    """Lengths across a periodic border: CompuCell3D does not measure them, so all is the learned term's."""
    model = analytic_model(tmp_path / "model.onnx", "square", "periodic", 2, ["contact", "length"])
    file = write_project(model, crooked(Lattice.of((20, 24))), tmp_path / "whole")
    facts = Project.open(file).facts()
    assert facts is not None
    assert not {"Contact", "LengthConstraint"} & {*facts.plugins}
    assert 'term="full"' in (file.parent / "Simulation" / "whole.py").read_text()


def test_an_odd_ring_of_hexagons(tmp_path: Path) -> None:
    model = analytic_model(tmp_path / "model.onnx", "hexagonal", ("free", "periodic"), 1, ["contact"])
    state = crooked(Lattice.of((20, 35), "hexagonal", ("free", "periodic")))
    with pytest.raises(UserError, match="periodic over 35 columns"):
        write_project(model, state, tmp_path / "odd")
    assert not (tmp_path / "odd").exists()


def test_a_cell_at_a_free_side_of_hexagons(tmp_path: Path) -> None:
    """Beyond it lies nothing on skewed axes, but medium in rows: as far as neighbours reach."""
    state = crooked(Lattice.of((20, 20), "hexagonal", "free"))  # one column of medium
    near = analytic_model(tmp_path / "near.onnx", "hexagonal", "free", 1, ["contact"])
    far = analytic_model(tmp_path / "far.onnx", "hexagonal", "free", 4, ["contact"])
    facts = Project.open(write_project(near, state, tmp_path / "near")).facts()
    assert facts is not None
    assert facts.lattice.shape == (20, 20)
    with pytest.raises(UserError, match="leave 3 or more columns of medium"):
        write_project(far, state, tmp_path / "far")
    with pytest.raises(UserError, match="leave 1 or more columns of medium"):
        write_project(near, crooked(Lattice.of((20, 19), "hexagonal", "free")), tmp_path / "at")


@pytest.mark.parametrize(
    ("lattice", "order", "fits"),
    [
        (Lattice.of((30, 30), "square", "free"), 4, True),
        (Lattice.of((5, 30), "square", "free"), 4, True),
        (Lattice.of((4, 30), "square", "periodic"), 4, False),
        (Lattice.of((11, 11), "square", "free"), 1, False),  # CC3D's own limit
        (Lattice.of((2, 30, 30), "cubic", "free"), 4, True),  # nothing lies two planes away
        (Lattice.of((3, 30, 30), "cubic", "free"), 4, False),
        (Lattice.of((4, 30, 30), "cubic", "free"), 4, False),
        (Lattice.of((2, 30, 30), "cubic", "periodic"), 3, True),
        (Lattice.of((5, 30, 30), "cubic", "periodic"), 4, True),
        (Lattice.of((8, 30), "hexagonal", "free", "rows"), 1, False),
        (Lattice.of((10, 30), "hexagonal", "free", "rows"), 4, True),
    ],
)
def test_neighbourhoods_that_cc3d_cuts(lattice: Lattice, order: int, fits: bool) -> None:
    if fits:
        check_neighbourhoods(lattice, [order])
    else:
        with pytest.raises(UserError, match=r"too thin|needs 12 along"):
            check_neighbourhoods(lattice, [order])


def test_replaced_surfaces_and_lengths(tmp_path: Path) -> None:
    """Terms that the model has are replaced, plugins that it lacks stay, and twice is once."""
    project = make_project(tmp_path / "Sort", "<PythonScript>Simulation/Sort.py</PythonScript>")
    xml = project.parent / "Simulation" / "Sort.xml"
    surface = (
        ' <Plugin Name="Surface">\n   <TargetSurface>20</TargetSurface>\n   <LambdaSurface>0.5</LambdaSurface>\n'
        " </Plugin>\n</CompuCell3D>"
    )
    xml.write_text(xml.read_text().replace("</CompuCell3D>", surface))
    model = analytic_model(tmp_path / "model.onnx", "square", "free", 3, ["contact", "surface", "length"])
    types = {"Condensing": "A", "Other": "B", "Wall": "medium"}
    once, _ = inject(project, model, tmp_path / "once", types=types, symbolic="replace")
    facts = Project.open(once).facts()
    assert facts is not None
    energies = facts.energies
    assert energies.orders == {"contact": 3, "surface": 3}
    assert energies.constraints["volume"]["Condensing"] == {"strength": 2.0, "target": 25.0}  # the model has none
    assert energies.constraints["surface"]["Wall"] == {"strength": 0.5, "target": 20.0}  # the model sees none
    assert energies.constraints["surface"]["Condensing"]["target"] == pytest.approx(6 * 20.0)
    assert energies.constraints["length"]["Other"]["strength"] == pytest.approx(10 * 0.2)
    again, _ = inject(once, model, tmp_path / "again", types=types, symbolic="replace")
    first, second = (file.parent.joinpath("Simulation", "Sort.xml").read_text() for file in (once, again))
    assert first == second


# -- a run's lattices ----------------------------------------------------------------------------------------


@given(
    shape=st.sampled_from([(5, 7), (2, 5, 4)]),
    seed=st.integers(0, 2**32 - 1),
)
def test_pif_holds_every_site(shape: tuple[int, ...], seed: int) -> None:
    random = np.random.default_rng(seed)
    ids = random.integers(0, 4, size=shape)
    names = {cell: f"T{cell}" for cell in range(1, 4)}
    back = np.zeros((shape if len(shape) == 3 else (1, *shape)), dtype=int)
    for line in pif_text(ids, names).splitlines():
        cell, name, *box = line.split()
        x1, x2, y1, y2, z1, z2 = map(int, box)
        back[z1 : z2 + 1, y1 : y2 + 1, x1 : x2 + 1] = int(cell)
        assert name == f"T{cell}"
    assert np.array_equal(back.reshape(shape), ids)


def test_hexagonal_snapshots_as_data_set_or_pifs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inside = np.zeros(HEXAGONAL.shape, dtype=np.int64)
    inside[4:9, 5:9] = 30
    names = {0: "Medium", 1: "A"}
    lattices = [HostLattice(inside, {30: 1}, mcs) for mcs in (0, 100)]
    save_snapshots(lattices, names, HEXAGONAL, {"host": "CompuCell3D"}, tmp_path / "snapshots.npz")
    found = load_snapshots(tmp_path / "snapshots.npz")
    assert found.lattice == Lattice.of((20, 32), "hexagonal", "free")
    assert found[0].volumes.tolist()[1:] == [20]
    ring = replace(HEXAGONAL, boundary=("periodic", "periodic"))
    save_snapshots(lattices, names, ring, {}, tmp_path / "ring.npz")
    assert "saved as PIFs" in capsys.readouterr().out
    assert not (tmp_path / "ring.npz").exists()
    pifs = sorted(pif_folder(tmp_path / "ring.npz").iterdir())
    assert [path.name for path in pifs] == ["mcs00000000.piff", "mcs00000100.piff"]
    assert pifs[0].read_text().splitlines()[0] == "30 A 5 8 4 4 0 0"
