"""MorpheusML 1 to 3: every rule of Morpheus' editor, and files that need none."""

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import etree

from morpheus_xml.reader import read_model
from morpheus_xml.upgrade import STEPS, Rule, upgraded

from .conftest import USER_MODEL


def built(path: str, value: str) -> etree._Element:
    """A file with one thing at a path."""
    root = element = etree.Element("MorpheusModel")
    *above, last = path.split("/")
    for tag in above:
        element = etree.SubElement(element, tag)
    if last == "@text":
        element.text = value
    elif last.startswith("@"):
        element.set(last[1:], value)
    else:
        etree.SubElement(element, last, marker=value)
    return root


def found(root: etree._Element, path: str) -> list[str]:
    *above, last = path.split("/")
    owners = root.findall("/".join(above)) if above else [root]
    if last.startswith("@"):
        return [owner.get(last[1:], "") for owner in owners]
    return [child.get("marker", "") for owner in owners for child in owner.findall(last)]


def final(place: str, version: int) -> str:
    """Where something at a place is in the end, after the rules of its version and all that follow."""
    for step in range(version, 4):
        for rule in STEPS[step]:
            if place == rule.old or place.startswith(f"{rule.old}/"):
                place = rule.new + place[len(rule.old) :]
    return place


RULES = [(version, rule) for version, rules in STEPS.items() for rule in rules if not rule.needs]


@pytest.mark.parametrize(("version", "rule"), RULES)
def test_every_rule_moves_what_it_names(version: int, rule: Rule) -> None:
    root = built(rule.old, "mine")
    content = upgraded(etree.tostring(root), version)
    assert content is not None
    assert found(etree.fromstring(content), final(rule.old, version)) == ["mine"]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_file_that_is_written_as_today_stays_as_it_is(version: int, tmp_path: Path) -> None:
    path = tmp_path / "model.xml"
    path.write_text(USER_MODEL.replace('version="4"', f'version="{version}"'))
    model = read_model(path)
    assert (model.version, model.is_upgraded) == (version, False)
    assert model.document.content == path.read_bytes()


def test_version_1_becomes_a_cellular_potts_model(tmp_path: Path) -> None:
    path = tmp_path / "old.xml"
    path.write_text(
        """<CellularPottsModel version="1">
        <Lattice size="40,30,0" structure="hexagonal"><BoundaryConditions>
            <Condition boundary="x" type="periodic"/></BoundaryConditions></Lattice>
        <Simulation start="0" stop="9"><Title>Old</Title><MCSDuration value="1"/></Simulation>
        <!-- a remark -->
        <CellType class="biological" name="A"><VolumeConstraint><Target value="9"/><Strength value="2"/>
            </VolumeConstraint></CellType>
        <Interaction><Neighborhood><Order>2</Order></Neighborhood></Interaction>
        <MetropolisKinetics temperature="3" stepper="random"><Neighborhood><Order>1</Order></Neighborhood>
            </MetropolisKinetics>
        <CellPopulation type="A" size="3"/>
        </CellularPottsModel>"""
    )
    model = read_model(path)
    assert (model.lattice.shape, model.lattice.geometry.name, model.lattice.boundary) == (
        (30, 40),
        "hexagonal",
        ("free", "periodic"),
    )
    assert (model.title, model.stop_time, model.temperature, model.stepper) == ("Old", "9", "3", "random")
    assert [str(n) for n in (model.sampler_neighbourhood, model.surface_neighbourhood)] == ["order 1", "order 2"]
    volume = model.cell_types[0].volume
    assert volume is not None
    assert volume.attributes == {"target": "9", "strength": "2"}
    assert [population.size for population in model.populations] == ["3"]
    assert b"a remark" in model.document.content
