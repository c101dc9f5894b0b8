"""CompuCell3D: VTK and PIF files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from neuralcpm_bridge.lattice import Lattice, to_skewed
from neuralcpm_bridge.state import CellState

from .making import labels, problems

DML = """<CompuCell3DLatticeData Version="1.0">
   <Dimensions x="24" y="20" z="1"/><Lattice Type="{lattice}"/>
   <CellType TypeId="0" TypeName="Medium"/><CellType TypeId="2" TypeName="B"/><CellType TypeId="1" TypeName="A"/>
</CompuCell3DLatticeData>"""
CC3DML = """<CompuCell3D Version="4.8.0"><Potts><Dimensions x="24" y="20" z="1"/>{boundary}</Potts>
<Plugin Name="CellType"><CellType TypeId="0" TypeName="Medium"/><CellType TypeId="1" TypeName="B"/>
<CellType TypeId="2" TypeName="A"/></Plugin></CompuCell3D>"""
PERIODIC = "<Boundary_x>Periodic</Boundary_x><Boundary_y>Periodic</Boundary_y>"


def vtk(image: np.ndarray, types: dict[int, int]) -> str:
    """Lattice data as CompuCell3D 4.8 writes them."""
    of_site = np.vectorize(lambda label: types.get(label, 0))(image)
    depth, height, width = (1, 1, *image.shape)[-3:]

    def block(values: np.ndarray) -> str:
        flat = [str(value) for value in values.ravel()]
        return "\n".join(" ".join(flat[start : start + 9]) + " " for start in range(0, len(flat), 9))

    count = image.size
    return (
        "# vtk DataFile Version 5.1\nvtk output\nASCII\nDATASET STRUCTURED_POINTS\n"
        f"DIMENSIONS {width} {height} {depth}\nSPACING 1 1 1\nORIGIN 0 0 0\nPOINT_DATA {count}\nFIELD FieldData 3\n"
        f"CellType 1 {count} unsigned_char\n{block(of_site)}\nMETADATA\nINFORMATION 0\n\n"
        f"CellId 1 {count} long\n{block(image)}\nClusterId 1 {count} long\n{block(image)}\n"
    )


def pif(image: np.ndarray, types: dict[int, str], clusters: bool = False) -> str:
    lines = ["Include Clusters"] if clusters else []
    deep = image if image.ndim == 3 else image[None]
    for z, y, x in np.argwhere(deep > 0):
        label = deep[z, y, x]
        lines.append(f"{label if clusters else ''} {label} {types[label]} {x} {x} {y} {y} {z} {z}")
    return "\n".join(lines) + "\n"


def test_vtk_with_the_files_beside_it(load, tmp_path: Path) -> None:
    folder = tmp_path / "LatticeData"
    folder.mkdir()
    (tmp_path / "Simulation").mkdir()
    for step, shift in ((9, 0), (10, 1)):
        (folder / f"Step_{step}.vtk").write_text(vtk(labels(shift=shift), {3: 2, 7: 1, 200: 2}))
    found, _ = load(folder)
    assert found.type_names == ("medium", "type1", "type2")
    (folder / "StepLDF.dml").write_text(DML.format(lattice="Square"))
    (tmp_path / "Simulation" / "Model.xml").write_text(CC3DML.format(boundary=PERIODIC))
    found, _ = load(folder)
    assert found.type_names == ("medium", "A", "B")
    assert found.boundary == ("periodic", "periodic")
    assert found.types.tolist() == [[0, 2, 1, 2]] * 2
    assert found.arrays["source"].tolist() == ["Step_9.vtk", "Step_10.vtk"]
    assert found.arrays["time"].tolist() == [9, 10]
    assert found.provenance["time_unit"] == "MCS"
    assert found.arrays["tracked"].all()
    assert (found.ids[1] == np.searchsorted([0, 3, 7, 200], labels(shift=1))).all()
    found, _ = load(folder, "--boundary", "free")
    assert found.boundary == ("free", "free")


def test_pif_with_and_without_clusters(load, cli, tmp_path: Path) -> None:
    types = {3: "A", 7: "B", 200: "A"}
    path = tmp_path / "init.piff"
    for clusters in (False, True):
        path.write_text(pif(labels(), types, clusters))
        found, _ = load(path, "--lattice", "20x24")
        assert found.types.tolist() == [[0, 1, 2, 1]]
        assert (found.ids[0] == np.searchsorted([0, 3, 7, 200], labels())).all()
    assert "--lattice ROWSxCOLUMNS" in problems(cli, path)[0]
    (tmp_path / "Model.xml").write_text(CC3DML.format(boundary=""))
    found, _ = load(path)
    assert found.type_names == ("medium", "B", "A")
    assert found.boundary == ("free", "free")
    assert found.ids.shape == (1, 20, 24)


def test_pif_boxes_overlap_as_in_cc3d(load, tmp_path: Path) -> None:
    (tmp_path / "a.pif").write_text("0 A 2 9 2 5 0 0\n1 B 6 9 2 3 0 0\n2 Medium 2 2 2 2 0 0\n")
    found, _ = load(tmp_path / "a.pif", "--lattice", "10x12")
    expected = np.zeros((10, 12), dtype=int)
    expected[2:6, 2:10] = 1
    expected[2:4, 6:10] = 2
    expected[2, 2] = 0
    assert (found.ids[0] == expected).all()


def test_loose_pieces_in_a_simulation_are_noted_not_refused(load, tmp_path: Path) -> None:
    image = labels()
    image[18, 22] = 3
    (tmp_path / "a.vtk").write_text(vtk(image, {3: 1, 7: 1, 200: 1}))
    found, said = load(tmp_path / "a.vtk")
    assert len(found) == 1
    assert "no simulation keeps whole: 1, in 1 of " in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("hello", "no legacy VTK file"),
        (vtk(labels(), {3: 1, 7: 1, 200: 1}).replace("ASCII", "BINARY"), "binary"),
        (vtk(labels(), {3: 1, 7: 1, 200: 1}).replace("24 20 1", "24 20 4"), "480 values for a lattice of 1920 sites"),
        (vtk(labels(), {3: 1, 7: 1, 200: 1}).replace("DIMENSIONS", "SIZES"), "no DIMENSIONS"),
        (vtk(labels(), {3: 1, 7: 1, 200: 1}).replace("24 20 1", "99999999 99999999 1"), "sites are possible"),
        (vtk(labels(), {3: 1, 7: 1, 200: 1}).replace("CellId", "Other"), "no array CellId"),
        (vtk(labels(), {3: 1, 7: 1, 200: 1})[:1000], "no array CellId"),
        (vtk(labels(), {3: 1, 7: 1, 200: 1})[:1400], "the file is cut off"),
        (vtk(labels(), {3: 1, 7: 1, 200: 1}).replace(" 200 ", " 2.5 "), "whole numbers"),
        (vtk(np.zeros((20, 24), dtype=int), {}), "no cells"),
    ],
)
def test_bad_vtk(text: str, words: str, cli, tmp_path: Path) -> None:
    (tmp_path / "a.vtk").write_text(text)
    assert words in problems(cli, tmp_path / "a.vtk")[0]


def test_bad_files_beside_a_vtk(cli, tmp_path: Path) -> None:
    (tmp_path / "a.vtk").write_text(vtk(labels(), {3: 1, 7: 5, 200: 1}))
    summary = tmp_path / "StepLDF.dml"
    summary.write_text(DML.format(lattice="Square"))
    assert "Type 5 is not among" in problems(cli, tmp_path / "a.vtk")[0]
    summary.write_text(DML.format(lattice="Square").replace("TypeId", "Id"))
    assert "lacks its TypeId" in problems(cli, tmp_path / "a.vtk")[0]


@pytest.mark.parametrize(("word", "boundary"), [("Periodic", "periodic"), ("periodic", "free"), ("NoFlux", "free")])
def test_boundaries_are_periodic_to_the_letter_as_in_cc3d(word: str, boundary: str, load, tmp_path: Path) -> None:
    (tmp_path / "a.vtk").write_text(vtk(labels(), {3: 1, 7: 2, 200: 1}))
    (tmp_path / "m.xml").write_text(CC3DML.format(boundary=PERIODIC.replace("Periodic", word)))
    found, _ = load(tmp_path / "a.vtk")
    assert set(found.boundary) == {boundary}


def test_boundaries_may_differ_between_axes(load, tmp_path: Path) -> None:
    (tmp_path / "a.vtk").write_text(vtk(labels(), {3: 1, 7: 2, 200: 1}))
    (tmp_path / "m.xml").write_text(CC3DML.format(boundary="<Boundary_x>Periodic</Boundary_x>"))
    found, _ = load(tmp_path / "a.vtk")
    assert found.boundary == ("free", "periodic")


SOLID = np.stack([labels(), np.roll(labels(), 1, 1), 0 * labels()])
DEEP = CC3DML.replace('z="1"', 'z="3"')


def test_3d_lattices(load, cli, tmp_path: Path) -> None:
    types = {3: 2, 7: 1, 200: 2}
    (tmp_path / "a.vtk").write_text(vtk(SOLID, types))
    (tmp_path / "m.xml").write_text(DEEP.format(boundary="<Boundary_z>Periodic</Boundary_z>"))
    found, _ = load(tmp_path / "a.vtk")
    assert found.lattice == Lattice.of((3, 20, 24), "cubic", ("periodic", "free", "free"))
    assert (found.ids[0] == np.searchsorted([0, 3, 7, 200], SOLID)).all()
    path = tmp_path / "b.pif"
    path.write_text(pif(SOLID, {3: "A", 7: "B", 200: "A"}))
    again, _ = load(path)
    assert again.lattice == found.lattice
    assert (again.ids == found.ids).all()
    (tmp_path / "m.xml").unlink()
    again, _ = load(path, "--lattice", "3x20x24")
    assert (again.ids == found.ids).all()
    assert "z 1 to 1, but the lattice has 1 planes" in problems(cli, path, "--lattice", "20x24")[0]


HEXAGONS = "<LatticeType>Hexagonal</LatticeType>"


def test_hexagonal_rows_come_out_on_skewed_axes(load, cli, tmp_path: Path) -> None:
    image = labels()
    (tmp_path / "a.vtk").write_text(vtk(image, {3: 1, 7: 1, 200: 1}))
    (tmp_path / "StepLDF.dml").write_text(DML.format(lattice="Hexagonal"))
    found, _ = load(tmp_path / "a.vtk")
    rows = CellState.from_labels(image, lattice=Lattice.of(image.shape, "hexagonal", "free", "rows"))
    ids, lattice = to_skewed(rows.ids, rows.lattice)
    assert found.lattice == lattice
    assert (found.ids[0] == ids).all()
    assert (found[0].contacts(2) == rows.contacts(2)).all()
    (tmp_path / "StepLDF.dml").unlink()
    boundary = "<Boundary_x>Periodic</Boundary_x>" + HEXAGONS.lower().replace("latticetype", "LatticeType")
    (tmp_path / "m.xml").write_text(CC3DML.format(boundary=boundary))
    found, _ = load(tmp_path / "a.vtk")
    assert found.lattice == Lattice.of((20, 24), "hexagonal", ("free", "periodic"))
    (tmp_path / "m.xml").write_text(CC3DML.format(boundary=PERIODIC + HEXAGONS))
    assert "closes to another ring" in problems(cli, tmp_path / "a.vtk")[0]
    (tmp_path / "m.xml").write_text(DEEP.format(boundary=HEXAGONS))
    (tmp_path / "a.vtk").write_text(vtk(SOLID, {3: 1, 7: 1, 200: 1}))
    assert "hexagonal in 3D" in problems(cli, tmp_path / "a.vtk")[0]


def test_lattices_of_two_geometries_are_no_data_set(cli, load, tmp_path: Path) -> None:
    (tmp_path / "a.vtk").write_text(vtk(labels(), {3: 1, 7: 1, 200: 1}))
    (tmp_path / "b.vtk").write_text(vtk(SOLID, {3: 1, 7: 1, 200: 1}))
    (tmp_path / "c.vtk").write_text(vtk(SOLID, {3: 1, 7: 1, 200: 1}))
    assert "Its lattice is square, but most (2 of 3) are cubic" in problems(cli, tmp_path)[0]
    found, _ = load(tmp_path, "--skip-bad")
    assert len(found) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 A 2 3\n", "Line 1 is '1 A 2 3'"),
        ("\n1 A 2 3 2 x 0 0\n", "Line 2"),
        ("1 A 2 30 2 3 0 0\n", "covers x 2 to 30"),
        ("1 A 3 2 2 3 0 0\n", "covers x 3 to 2"),
        ("1 A 2 3 2 3 0 4\n", "z 0 to 4"),
        ("1 A 2 3 2 3 0 0\n1 B 4 4 2 3 0 0\n", "gives cell 2 the type B, but it had A"),
        ("", "no cells"),
    ],
)
def test_bad_pif(text: str, words: str, cli, tmp_path: Path) -> None:
    (tmp_path / "a.piff").write_text(text)
    assert words in problems(cli, tmp_path / "a.piff", "--lattice", "20x24")[0]
