"""Reading users' files: their bytes, their content, what is wrong with them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from morpheus_xml.check import check_fit, check_model
from morpheus_xml.document import Edit, parse_model
from morpheus_xml.reader import read_model
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.lattice import GEOMETRIES, Lattice

from .conftest import USER_MODEL

BOMB = (
    '<?xml version="1.0"?><!DOCTYPE m [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]>'
    '<MorpheusModel version="4">&b;</MorpheusModel>'
)
EXTERNAL = (
    '<!DOCTYPE m [<!ENTITY secret SYSTEM "file:///etc/passwd">]><MorpheusModel version="4">&secret;</MorpheusModel>'
)


RED, BLUE = (f'<CellType class="biological" name="{name}"' for name in ("red", "blue"))


def line_of(text: str) -> int:
    return USER_MODEL[: USER_MODEL.index(text)].count("\n") + 1


def changed(path: Path, old: str, new: str) -> Path:
    assert old in USER_MODEL
    path.write_text(USER_MODEL.replace(old, new), encoding="utf-8")
    return path


def test_places_of_elements_are_their_bytes(user_model: Path) -> None:
    document = parse_model(user_model)
    for element in document.root.walk():
        source = document.source(element)
        assert source.startswith(f"<{element.tag}")
        assert source.endswith(("/>", f"</{element.tag}>"))
        assert document.content[: element.start].count(b"\n") + 1 == element.line
    assert document.edited([]) == user_model.read_bytes()
    assert document.edited([Edit(0, 5, "<?xmL")])[5:] == user_model.read_bytes()[5:]


def test_a_file_is_read_whole(user_model: Path) -> None:
    model = read_model(user_model)
    assert (model.version, model.title, model.lattice) == (4, "Mine", Lattice.of((50, 60)))
    assert [entry.name for entry in model.cell_types] == ["red", "blue"]
    assert model.medium == "medium"
    assert model.cell_types[0].volume is not None
    assert model.cell_types[0].volume.attributes == {"target": "80", "strength": "1"}
    assert [(c.type1, c.type2, c.value) for c in model.contacts] == [("red", "medium", "12")]
    assert (model.temperature, model.number(model.temperature)) == ("T", 4.0)
    assert str(model.surface_neighbourhood) == "order 6"
    assert model.populations[0].initialisers == ("InitCircle",)
    assert check_model(model) == []


@pytest.mark.parametrize(
    ("conditions", "boundary"),
    [
        ("", ("free", "free")),
        (
            '<Condition boundary="x" type="periodic"/><Condition boundary="-y" type="periodic"/>',
            ("periodic", "periodic"),
        ),
        ('<Condition boundary="x" type="periodic"/>', ("free", "periodic")),
        ('<Condition boundary="x" type="noflux"/><Condition boundary="y" type="periodic"/>', ("periodic", "free")),
        ('<Condition boundary="x" type="noflux"/><Condition boundary="y" type="constant"/>', ("free", "free")),
    ],
)
def test_boundaries_default_as_in_morpheus(conditions: str, boundary: tuple[str, str], tmp_path: Path) -> None:
    start, end = USER_MODEL.index("<Condition boundary"), USER_MODEL.index("</BoundaryConditions>")
    path = tmp_path / "model.xml"
    path.write_text(USER_MODEL[:start] + conditions + USER_MODEL[end:], encoding="utf-8")
    assert read_model(path).lattice.boundary == boundary


def test_lattices_of_every_class_are_read(tmp_path: Path) -> None:
    path = tmp_path / "model.xml"
    hexagonal = read_model(changed(path, 'class="square"', 'class="hexagonal"')).lattice
    assert hexagonal == Lattice.of((50, 60), "hexagonal")
    text = USER_MODEL.replace('class="square"', 'class="cubic"').replace("60, 50, 0", "60, 50, T")
    path.write_text(text, encoding="utf-8")
    assert read_model(path).lattice == Lattice.of((4, 50, 60), "cubic", ("free", "periodic", "periodic"))


ORDER_6 = "<Order>6</Order>"


@pytest.mark.parametrize(
    ("geometry", "text", "order"),
    [
        ("square", "<Order>3</Order>", 3),
        ("square", "<Distance>1.5</Distance>", 2),
        ("square", "<Distance>3</Distance>", 6),
        ("square", "<Distance>3.2</Distance>", None),  # Morpheus' table ends before the sites at √10
        ("square", "<Order>7</Order>", None),
        ("square", "<Order>optimal</Order>", 4),
        ("hexagonal", "<Distance>1.73205</Distance>", 2),  # not quite √3, but nearly
        ("hexagonal", "<Order>6</Order>", None),
        ("cubic", "<Order>8</Order>", 8),
        ("cubic", "<Order>9</Order>", None),  # another set than the ninth distance
        ("cubic", "<Distance>1.8</Distance>", 3),
        ("cubic", "<Name>fchc</Name>", None),
        ("square", "<Distance>0.5</Distance>", None),
        ("square", "<Order>n</Order>", None),
    ],
)
def test_neighbourhoods_are_orders(geometry: str, text: str, order: int | None, tmp_path: Path) -> None:
    found = read_model(changed(tmp_path / "model.xml", ORDER_6, text)).surface_neighbourhood
    assert found is not None
    assert found.order(GEOMETRIES[geometry]) == order


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("<MorpheusModel version='4'><Space></MorpheusModel>", "not well-formed XML .line 1: mismatched tag"),
        ("", "not well-formed"),
        (BOMB, "document type, which is refused for safety"),
        (EXTERNAL, "document type, which is refused for safety"),
        ("<CompuCell3D/>", "begins with <CompuCell3D>"),
        ('<MorpheusModel version="99"/>', "version 99, but versions 1 to 4"),
        ('<MorpheusModel version="new"/>', "version new, but versions 1 to 4"),
        ('<?xml version="1.0" encoding="utf-16le"?><MorpheusModel version="4"/>', "utf-16le|not well-formed"),
        (f"<MorpheusModel version='4'>{'<a>' * 200}{'</a>' * 200}</MorpheusModel>", "deep"),
    ],
)
def test_unusable_files_are_refused_in_one_sentence(content: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "model.xml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=sentence) as caught:
        read_model(path)
    assert "\n" not in str(caught.value)
    assert "root:" not in str(caught.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no file"):
        read_model(tmp_path / "nothing.xml")


@pytest.mark.parametrize(
    ("old", "new", "place", "sentence"),
    [
        ('type2="medium"', 'type2="green"', "<Contact", "no cell type 'green'"),
        ('name="blue"', 'name="red"', BLUE, f"taken on line {line_of(RED)}"),
        ('name="blue"', 'name="light blue"', BLUE, "without white space"),
        ('class="biological" name="blue"', 'class="x" name="blue"', BLUE, "'x'"),
        ('<SpaceSymbol symbol="l"/>', "", "<Space", "Space/SpaceSymbol is missing"),
        ('size="0" type="red"', 'size="0" type="pink"', "<Population", "no cell type 'pink'"),
        ('temperature="T"', 'temperature="0"', "<MetropolisKinetics", "above 0"),
        (ORDER_6, "<Order>7</Order>", ORDER_6, "the order is '7', but 1 to 6"),
        ('<Constant symbol="T" value="4"/>', '<Constant symbol="T" value="-1"/>', "<MetropolisKinetics", "above 0"),
    ],
)
def test_the_checker_names_element_and_line(old: str, new: str, place: str, sentence: str, tmp_path: Path) -> None:
    findings = check_model(read_model(changed(tmp_path / "model.xml", old, new)))
    assert len(findings) == 1, [str(finding) for finding in findings]
    tag = place[1:].replace(">", " ").split()[0]
    assert str(findings[0]).startswith(f"line {line_of(place)}, <{tag}>")
    assert sentence in str(findings[0])


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('class="square"', 'class="linear"', "<Lattice>: the lattice is linear"),
        ('class="square"', 'class="hexagonal"', "lattice is hexagonal, but the model is for square"),
        ('value="60, 50, 0"', 'value="60, 50 + 1, 0"', "the size is '60, 50 . 1, 0', but numbers"),
        ('value="60, 50, 0"', 'value="60"', "2 axes of a square lattice"),
        ("MonteCarloSampler", "Sampler", "no cells that move"),
    ],
)
def test_what_a_model_cannot_serve_is_refused(
    old: str, new: str, sentence: str, closure: Artifact, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=sentence):
        check_fit(read_model(changed(tmp_path / "model.xml", old, new)), closure, "neural")


def test_a_checkpoint_is_read_without_its_media(tmp_path: Path) -> None:
    """Morpheus writes the medium as a population, and refuses to begin with one."""
    medium = '<Population type="medium" size="1">\n<Cell id="0"/>\n</Population>'
    cells = '<Population type="red" size="1"><Cell id="1"><Nodes>3, 4, 0</Nodes></Cell></Population>'
    text = USER_MODEL.replace("</CellPopulations>", f"{medium}{cells}</CellPopulations>")
    file = tmp_path / "model000100.xml.gz"
    with gzip.open(file, "wb") as stream:
        stream.write(text.encode())
    model = read_model(file)
    assert "medium" not in {entry.type for entry in model.populations}
    assert model.populations[-1].type == "red"
    assert model.document.content.decode() == text.replace(medium, "\n\n")
    assert not model.is_upgraded
