"""Morpheus: models, checkpoints and TIFF images."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from neuralcpm_bridge.lattice import Lattice

from .making import labels, problems, tifffile


def morpheus_model(cells: str, boundary: str = "periodic", lattice: str = "square", size: str = "24, 20, 0") -> str:
    return f"""<MorpheusModel version="4">
  <Space><Lattice class="{lattice}"><Size symbol="size" value="{size}"/><BoundaryConditions>
    <Condition boundary="x" type="{boundary}"/><Condition boundary="y" type="{boundary}"/></BoundaryConditions>
  </Lattice></Space>
  <CellTypes><CellType class="biological" name="B"/><CellType class="medium" name="medium"/>
    <CellType class="biological" name="A"/></CellTypes>
  <CellPopulations>{cells}<Population type="medium" size="1"><Cell id="0"/></Population></CellPopulations>
</MorpheusModel>"""


def population(image: np.ndarray, types: dict[int, str], comma: str = ",") -> str:
    text = ""
    for label, kind in types.items():
        nodes = ";".join(f"{x}{comma} {y}{comma} 0" for y, x in np.argwhere(image == label))
        text += f'<Population type="{kind}" size="1"><Cell id="{label}"><Nodes>{nodes}</Nodes></Cell></Population>'
    return text


TYPES = {3: "A", 7: "B", 200: "A"}


@pytest.mark.parametrize("comma", [",", ""])
def test_morpheus_models_and_checkpoints(comma: str, load, tmp_path: Path) -> None:
    text = morpheus_model(population(labels(), TYPES, comma))
    (tmp_path / "a.xml").write_text(text)
    (tmp_path / "b.xml.gz").write_bytes(gzip.compress(text.encode()))
    found, _ = load(tmp_path)
    assert found.type_names == ("medium", "B", "A")
    assert found.boundary == ("periodic", "periodic")
    assert found.types.tolist() == [[0, 2, 1, 2]] * 2
    assert (found.ids[0] == np.searchsorted([0, 3, 7, 200], labels())).all()
    assert (found.ids[0] == found.ids[1]).all()


def test_morpheus_checkpoint_of_a_model_without_a_medium(load, tmp_path: Path) -> None:
    text = morpheus_model(population(labels(), TYPES)).replace('<CellType class="medium" name="medium"/>', "")
    (tmp_path / "a.xml").write_text(text.replace('type="medium"', 'type="Medium"'))
    found, _ = load(tmp_path / "a.xml")
    assert found.type_names == ("medium", "B", "A")


def test_morpheus_nodes_over_a_periodic_border(load, tmp_path: Path) -> None:
    cell = (
        '<Population type="A" size="1"><Cell id="9"><Nodes>23 19 0;24 19 0;24 20 0;-1 19 0</Nodes></Cell></Population>'
    )
    (tmp_path / "a.xml").write_text(morpheus_model(cell))
    found, _ = load(tmp_path / "a.xml")
    assert {tuple(site) for site in np.argwhere(found.ids[0])} == {(19, 23), (19, 0), (0, 0)}


def write_morpheus_tiff(path: Path, channels: list[str]) -> None:
    """Pages as TiffPlotter writes them: one per channel, int16, medium of Morpheus' type 1."""
    with tifffile.TiffWriter(path) as writer:
        for shift in (0, 1):
            image = labels(shift=shift)
            types = np.select([image == 0, image == 7], [1, 0], 2)
            for channel in channels:
                values = image if channel == "id" else types
                writer.write(values.astype(np.int16), software="morpheus", metadata=None)


@pytest.mark.parametrize("order", [["id", "type"], ["type", "id"]])
def test_morpheus_tiff(order: list[str], load, tmp_path: Path) -> None:
    path = tmp_path / ("_".join(f"cell.{channel}" for channel in order) + ".tif")
    write_morpheus_tiff(path, order)
    found, _ = load(path, "--stack", "frames")
    assert found.type_names == ("medium", "type0", "type2")
    assert found.types.tolist() == [[0, 2, 1, 2]] * 2
    (tmp_path / "model.xml").write_text(morpheus_model("", boundary="noflux"))
    found, _ = load(path)
    assert found.type_names == ("medium", "B", "A")
    assert found.boundary == ("free", "free")
    assert found.types.tolist() == [[0, 2, 1, 2]] * 2
    assert (found.ids[1] == np.searchsorted([0, 3, 7, 200], labels(shift=1))).all()


def test_morpheus_tiff_of_ids_only(cli, load, tmp_path: Path) -> None:
    write_morpheus_tiff(tmp_path / "cell.id.tif", ["id"])
    found, _ = load(tmp_path / "cell.id.tif", "--stack", "frames")
    assert found.type_names == ("medium", "cell")
    write_morpheus_tiff(tmp_path / "cell.id_cell.type.tif", ["id", "type"])
    lines = problems(cli, tmp_path, "--stack", "frames")
    assert any("does not say the types of its cells" in line for line in lines)


OME = '<OME><Image><Pixels DimensionOrder="XYCZT" SizeX="24" SizeY="20" SizeZ="{depth}" SizeC="2"/></Image></OME>'


def write_deep_tiff(path: Path, description: str = "") -> np.ndarray:
    """Two frames of two planes of two channels, in Morpheus' order XYCZT."""
    solid = np.stack([[labels(), labels(shift=1)], [labels(shift=1), labels(shift=2)]])
    with tifffile.TiffWriter(path) as writer:
        for image in solid.reshape(-1, *solid.shape[2:]):
            types = np.select([image == 0, image == 7], [1, 0], 2)
            for values in (image, types):
                writer.write(
                    values.astype(np.int16), software="morpheus", metadata=None, description=description or None
                )
                description = ""
    return np.searchsorted([0, 3, 7, 200], solid)


def test_planes_of_3d_images_are_told_from_frames(cli, load, tmp_path: Path) -> None:
    path = tmp_path / "cell.id_cell.type.tif"
    expected = write_deep_tiff(path)
    assert "--stack volume" in problems(cli, path)[0]
    found, _ = load(path, "--stack", "volume")
    assert found.lattice.shape == (4, 20, 24)
    assert (found.ids[0] == expected.reshape(4, 20, 24)).all()
    (tmp_path / "model.xml").write_text(morpheus_model("", lattice="cubic", size="24, 20, 2"))
    found, _ = load(path)
    assert found.lattice == Lattice.of((2, 20, 24), "cubic", ("free", "periodic", "periodic"))
    assert (found.ids == expected).all()
    assert found.type_names == ("medium", "B", "A")
    (tmp_path / "model.xml").write_text(morpheus_model("", lattice="cubic", size="24, 20, 3"))
    assert "8 pages for 2 channels of 3 planes" in problems(cli, path)[0]
    (tmp_path / "model.xml").unlink()
    write_deep_tiff(path, OME.format(depth=2))
    found, _ = load(path)
    assert (found.ids == expected).all()


def test_hexagonal_images_are_on_skewed_axes_already(load, tmp_path: Path) -> None:
    write_morpheus_tiff(tmp_path / "cell.id_cell.type.tif", ["id", "type"])
    (tmp_path / "model.xml").write_text(morpheus_model("", lattice="hexagonal"))
    found, _ = load(tmp_path / "cell.id_cell.type.tif")
    assert found.lattice == Lattice.of((20, 24), "hexagonal", "periodic")
    assert (found.ids[0] == np.searchsorted([0, 3, 7, 200], labels())).all()


@pytest.mark.parametrize("lattice", ["hexagonal", "cubic"])
def test_models_and_checkpoints_of_other_lattices(lattice: str, load, tmp_path: Path) -> None:
    text = morpheus_model(population(labels(), TYPES), lattice=lattice, size="24, 20, 3")
    condition = '<Condition boundary="y"'
    text = text.replace(condition, f'<Condition boundary="z" type="periodic"/>{condition}')
    (tmp_path / "a.xml").write_text(text)
    found, _ = load(tmp_path / "a.xml")
    plane = found.ids[0] if lattice == "hexagonal" else found.ids[0, 0]
    shape = (20, 24) if lattice == "hexagonal" else (3, 20, 24)  # a plane lattice knows no z
    assert found.lattice == Lattice.of(shape, lattice, "periodic")
    assert (plane == np.searchsorted([0, 3, 7, 200], labels())).all()
    assert (found.ids[0] > 0).sum() == (plane > 0).sum()


def test_nodes_over_a_periodic_border_in_3d(load, tmp_path: Path) -> None:
    cell = '<Population type="A"><Cell id="9"><Nodes>23 19 2;24 20 3;-1 -1 -1</Nodes></Cell></Population>'
    text = morpheus_model(cell, lattice="cubic", size="24, 20, 3")
    condition = '<Condition boundary="y"'
    (tmp_path / "a.xml").write_text(text.replace(condition, f'<Condition boundary="z" type="periodic"/>{condition}'))
    found, _ = load(tmp_path / "a.xml")
    assert {tuple(site) for site in np.argwhere(found.ids[0])} == {(2, 19, 23), (0, 0, 0)}


def test_bad_morpheus_tiff(cli, tmp_path: Path) -> None:
    write_morpheus_tiff(tmp_path / "renamed.tif", ["id", "type"])
    assert "does not begin with cell.id" in problems(cli, tmp_path / "renamed.tif")[0]
    with tifffile.TiffWriter(tmp_path / "cell.id_cell.type.tif") as writer:
        writer.write(labels().astype(np.int16), software="morpheus", metadata=None)
    assert "1 pages for 2 channels" in problems(cli, tmp_path / "cell.id_cell.type.tif")[0]


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><MorpheusModel>&b;</MorpheusModel>'
THEFT = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><MorpheusModel>&a;</MorpheusModel>'
MADE = '<Population type="A" size="3"><InitRectangle/></Population>'
STRANGE = '<Population type="Z"/>'
NODES = '<Population type="A"><Cell id="{id}"><Nodes>{nodes}</Nodes></Cell></Population>'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<a>", "not well-formed"),
        ("", "not well-formed"),
        ("<model/>", "The XML is a model"),
        (BOMB, "document type"),
        (THEFT, "document type"),
        (morpheus_model("", lattice="linear"), "linear"),
        (morpheus_model("", lattice="cubic", size="24, 20, 0"), "0 planes, 20 rows"),
        (morpheus_model("", size="a, b, 0"), "'x, y, z' in numbers"),
        (morpheus_model(NODES.format(id="1", nodes="1 1"), lattice="cubic", size="24, 20, 2"), "not of the form"),
        (morpheus_model(NODES.format(id="1", nodes="1 1 2"), lattice="cubic", size="24, 20, 2"), "24 by 20 by 2"),
        (morpheus_model("", size="99999999, 99999999, 0"), "sites are possible"),
        (morpheus_model(""), "no cells"),
        (morpheus_model(MADE), "makes cells when it starts (InitRectangle)"),
        (morpheus_model(STRANGE), "the type 'Z'"),
        (morpheus_model(NODES.format(id="0", nodes="1 1 0")), "ids are positive"),
        (morpheus_model(NODES.format(id="1", nodes="1 b 0")), "not of the form"),
        (morpheus_model(NODES.format(id="1", nodes="1 1 0") + NODES.format(id="2", nodes="1 1 0")), "share a node"),
        (morpheus_model(NODES.format(id="1", nodes="30 1 0"), boundary="noflux"), "outside the lattice"),
    ],
)
def test_bad_morpheus_xml(text: str, words: str, cli, tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(text)
    assert words in problems(cli, tmp_path / "a.xml")[0]


def test_bad_gzip(cli, tmp_path: Path) -> None:
    (tmp_path / "a.xml.gz").write_bytes(b"no gzip")
    assert "not readable" in problems(cli, tmp_path / "a.xml.gz")[0]


def test_files_of_two_boundaries(cli, load, tmp_path: Path) -> None:
    for name, boundary in (("a.xml", "periodic"), ("b.xml", "noflux")):
        (tmp_path / name).write_text(morpheus_model(population(labels(), TYPES), boundary))
    assert "pass --boundary" in problems(cli, tmp_path)[0]
    found, _ = load(tmp_path, "--boundary", "periodic")
    assert len(found) == 2
