"""The verbs: what they write, and that a mistake costs one sentence and no file."""

from __future__ import annotations

from pathlib import Path

import pytest

from morpheus_xml.reader import read_model
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.snapshots import Snapshots

from .conftest import USER_MODEL
from .test_files import BOMB, EXTERNAL
from .test_new import tissue


@pytest.fixture
def states(tmp_path: Path) -> Path:
    path = tmp_path / "states.npz"
    Snapshots.from_states([tissue(1), tissue(2)], type_names=("medium", "A", "B")).save(path)
    return path


def test_new_writes_a_model(cli, sorting: Artifact, states: Path, tmp_path: Path) -> None:
    out = tmp_path / "new.xml"
    state = f"{states}:1"
    code, said, _ = cli("morpheus", "new", sorting.path, "--state", state, "-o", out, "--mcs", 30, "--distilled")
    assert (code, "Any Morpheus runs it" in said) == (0, True)
    assert read_model(out).stop_time == "30"
    code, said, _ = cli("morpheus", "check", out)
    assert (code, "nothing found" in said) == (0, True)


def test_inject_writes_beside_the_original(cli, closure: Artifact, user_model: Path, tmp_path: Path) -> None:
    out = tmp_path / "learned.xml"
    code, said, _ = cli(
        "morpheus", "inject", user_model, closure.path, "--types", "red=A", "--types", "blue=B", "-o", out
    )
    assert (code, "weighted by 4" in said) == (0, True)
    assert user_model.read_text() == USER_MODEL
    learned = [e for entry in read_model(out).types for e in entry.learned]
    assert [e.attributes["model"] for e in learned] == ["closure.onnx"] * 2
    assert (tmp_path / "closure.onnx").read_bytes() == closure.path.read_bytes()
    assert not any(
        str(tmp_path) in value or "library" in e.attributes for e in learned for value in e.attributes.values()
    )


def test_what_is_written_moves_as_a_whole(cli, closure: Artifact, user_model: Path, tmp_path: Path) -> None:
    """The model is copied beside the XML, never over another file, and what to do next can be pasted."""
    folder = tmp_path / "mein Ordner ü"
    folder.mkdir()
    (folder / "closure.onnx").write_text("another one")
    out = folder / "learned.xml"
    code, said, _ = cli("morpheus", "inject", user_model, closure.path, "--types", "red=A,blue=B", "-o", out)
    assert code == 0
    assert said.splitlines()[-1] == f"Next: neuralcpm morpheus run '{out}' -o '{folder / 'results'}'"
    assert (folder / "closure.onnx").read_text() == "another one"
    moved = folder.rename(tmp_path / "elsewhere")
    code, said, _ = cli("morpheus", "check", moved / "learned.xml")
    assert (code, "nothing found" in said) == (0, True)


def test_a_type_is_mapped_once(cli, refused, closure: Artifact, user_model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.xml"
    pairs = ("--types", "red=A", "--types", "red=B", "--types", "blue=B")
    assert "maps red twice, to A and to B" in refused("morpheus", "inject", user_model, closure.path, *pairs, "-o", out)
    cli("morpheus", "inject", user_model, closure.path, "--types", "red=A,blue=B", "-o", out)
    out.write_text(out.read_text().replace("red=A;", "red=A;red=B;"))
    code, said, _ = cli("morpheus", "check", out)
    assert (code, "maps red twice, to A and to B" in said) == (1, True)


def test_an_energy_that_would_count_twice_is_found(cli, closure: Artifact, user_model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.xml"
    cli("morpheus", "inject", user_model, closure.path, "--types", "red=A,blue=B", "-o", out)
    text = out.read_text()
    element = text[text.index("<NeuralHamiltonian") :].split("/>")[0] + "/>"
    out.write_text(text.replace(element, element + element, 1))
    code, said, _ = cli("morpheus", "check", out)
    assert (code, "its energy would count twice" in said) == (1, True)


def test_old_versions_are_brought_up(cli, refused, closure: Artifact, tmp_path: Path) -> None:
    old, new = tmp_path / "old.xml", tmp_path / "new.xml"
    old.write_text(OLD)
    code, said, _ = cli("morpheus", "check", old, "--upgrade", new)
    assert (code, f"Wrote {new}, MorpheusML 4" in said) == (0, True)
    code, said, _ = cli("morpheus", "inject", old, closure.path, "--types", "red=A,blue=B", "-o", tmp_path / "in.xml")
    assert (code, "MorpheusML 2 was brought up to 4" in said) == (0, True)
    assert old.read_text() == OLD


OLD = (
    USER_MODEL.replace('version="4"', 'version="2"')
    .replace('<MonteCarloSampler stepper="edgelist">', "")
    .replace("</MonteCarloSampler>", "")
    .replace("<Neighborhood><Order>2</Order></Neighborhood>\n            <MetropolisKinetics", "<MetropolisKinetics")
    .replace(
        '<MetropolisKinetics temperature="T"/>',
        '<MetropolisKinetics temperature="T" stepper="edgelist"><Neighborhood><Order>2</Order></Neighborhood>'
        "</MetropolisKinetics>",
    )
    .replace('<ShapeSurface scaling="norm">', "")
    .replace("</ShapeSurface>", "")
    .replace("<Neighborhood><Order>6</Order></Neighborhood>", "")
)
"""The user's model as version 2 wrote it: the sampler's parts stood in CPM, the surface's neighbourhood was the
lattice's."""


NEWER = USER_MODEL.replace('version="4"', 'version="7"')


@pytest.mark.parametrize("content", [BOMB, EXTERNAL, "<MorpheusModel", NEWER])
def test_a_bad_file_costs_nothing(content: str, refused, closure: Artifact, tmp_path: Path) -> None:
    bad, out = tmp_path / "bad.xml", tmp_path / "out.xml"
    bad.write_text(content)
    out.write_text("precious")
    refused("morpheus", "inject", bad, closure.path, "-o", out)
    refused("morpheus", "check", bad)
    refused("morpheus", "run", bad, "-o", tmp_path / "run", "--morpheus", "/bin/true")
    assert out.read_text() == "precious"


def test_mistakes_cost_one_sentence(refused, closure: Artifact, user_model: Path, states: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.xml"
    assert "say what each of them is" in refused("morpheus", "inject", user_model, closure.path, "-o", out)
    assert "not understood" in refused("morpheus", "inject", user_model, closure.path, "-o", out, "--types", "red")
    assert "no model file" in refused("morpheus", "inject", user_model, tmp_path / "gone.onnx", "-o", out)
    assert "distil it" in refused("morpheus", "new", closure.path, "--state", states, "-o", out, "--distilled")
    assert "One thing at a time" in refused("morpheus", "plugin")
    assert "no Morpheus source tree" in refused("morpheus", "plugin", "--into", tmp_path)
    assert "is not a program" in refused("morpheus", "run", user_model, "-o", tmp_path / "r", "--morpheus", states)
    assert not out.exists()


def test_findings_are_listed(cli, user_model: Path) -> None:
    user_model.write_text(USER_MODEL.replace('type2="medium"', 'type2="green"'))
    code, said, _ = cli("morpheus", "check", user_model)
    assert code == 1
    assert "<Contact>: there is no cell type 'green'" in said
