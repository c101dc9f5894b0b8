"""Injecting into a user's file: what is added is right, what was there stays."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from morpheus_xml.check import check_model
from morpheus_xml.inject import inject
from morpheus_xml.reader import read_model
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.errors import UserError

from .conftest import USER_MODEL

TYPES = {"red": "A", "blue": "B"}


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_the_term_is_added_and_nothing_else_changes(user_model: Path, closure: Artifact, tmp_path: Path) -> None:
    result = inject(user_model, closure, types=TYPES)
    path = written(tmp_path / "learned.xml", result.content)
    model = read_model(path)
    assert check_model(model) == []
    for entry in model.cell_types:
        [element] = entry.learned
        assert element.attributes["types"] == "red=A;blue=B"
        assert element.attributes["term"] == "neural"
        assert float(element.attributes["weight"]) == 4.0  # the temperature here over that of training
    without = re.sub(r"\s*<NeuralHamiltonian [^>]*/>", "", result.content.decode())
    assert without.replace('name="blue">\n        </CellType>', 'name="blue"/>') == USER_MODEL


def test_twice_is_once(user_model: Path, closure: Artifact, sorting: Artifact, tmp_path: Path) -> None:
    once = inject(user_model, closure, types=TYPES).content
    path = written(tmp_path / "learned.xml", once)
    assert inject(path, closure, types=TYPES).content == once
    other = inject(path, sorting, types=TYPES, weight=3).content  # another model takes the place of the first
    assert other.count(b"<NeuralHamiltonian") == 2
    assert str(closure.path).encode() not in other
    assert b'term="full"' in other


def test_names_may_agree_by_themselves(closure: Artifact, tmp_path: Path) -> None:
    text = USER_MODEL.replace('"red"', '"A"').replace('"blue"', '"B"')
    result = inject(written(tmp_path / "user.xml", text.encode()), closure)
    assert b'types="A=A;B=B"' in result.content


def test_a_distilled_model_becomes_morpheus_own_elements(user_model: Path, sorting: Artifact, tmp_path: Path) -> None:
    once = inject(user_model, sorting, types=TYPES, distilled=True).content
    path = written(tmp_path / "distilled.xml", once)
    model = read_model(path)
    assert check_model(model) == []
    # w_S·J/4 at four times the temperature of training
    energies = {(c.type1, c.type2): float(c.value) for c in model.contacts}
    assert energies[("red", "medium")] == 2 * 4 / 4 * 4
    assert energies[("medium", "blue")] == 2 * 3 / 4 * 4
    assert len(energies) == 5
    constraints = [entry.volume.attributes for entry in model.cell_types if entry.volume]
    assert constraints == [{"target": "30", "strength": "4"}, {"target": "40", "strength": "8"}]
    assert (model.surface_scaling, str(model.surface_neighbourhood)) == ("none", "order 2")
    assert "<!-- odd, but mine -->" in once.decode()
    assert inject(path, sorting, types=TYPES, distilled=True).content == once


def test_distilled_takes_the_place_of_the_plugin(user_model: Path, closure: Artifact, sorting: Artifact) -> None:
    user_model.write_bytes(inject(user_model, closure, types=TYPES).content)
    assert b"NeuralHamiltonian" not in inject(user_model, sorting, types=TYPES, distilled=True).content


@pytest.mark.parametrize(
    ("types", "sentence"),
    [
        ({"red": "A"}, "model .medium, A, B. does not have: blue: say what each of them is"),
        ({}, "does not have: red, blue: say .* for example --types red=B --types blue=B .=medium"),
        ({"red": "A", "blue": "C"}, "maps 'blue' to 'C', but the model knows medium, A, B"),
        ({"red": "A", "blue": "B", "green": "A"}, "cell type 'green', but the project has medium, red, blue"),
    ],
)
def test_types_that_do_not_match_are_refused(
    types: dict[str, str], sentence: str, user_model: Path, closure: Artifact
) -> None:
    with pytest.raises(UserError, match=sentence):
        inject(user_model, closure, types=types)


def test_what_the_model_is_not_for_is_refused(
    user_model: Path, closure: Artifact, free_sorting: Artifact, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="boundary is periodic, but the model's own terms are free"):
        inject(user_model, free_sorting, types=TYPES)
    with pytest.raises(UserError, match="distil it first"):
        inject(user_model, closure, types=TYPES, distilled=True)
    with pytest.raises(UserError, match="mapped to the medium"):
        inject(user_model, closure_free_of_network(closure), types={"red": "A", "blue": "medium"}, distilled=True)
    varying = USER_MODEL.replace('temperature="T"', 'temperature="2 + time"')
    with pytest.raises(UserError, match="no fixed number: say how to weigh"):
        inject(written(tmp_path / "varying.xml", varying.encode()), closure, types=TYPES)
    inject(tmp_path / "varying.xml", closure, types=TYPES, weight=2.0)


def test_names_the_file_cannot_spell_are_refused(closure: Artifact, tmp_path: Path) -> None:
    path = tmp_path / "user.xml"
    path.write_text(USER_MODEL.replace("UTF-8", "ISO-8859-1"), encoding="iso-8859-1")
    inject(path, closure, types=TYPES, library="/tmp/é/libncpm.so")
    with pytest.raises(UserError, match="has no 'β': save it as UTF-8"):
        inject(path, closure, types=TYPES, library="/tmp/β/libncpm.so")


def closure_free_of_network(artifact: Artifact) -> Artifact:
    return replace(artifact, metadata=artifact.metadata.model_copy(update={"neural": None}))
