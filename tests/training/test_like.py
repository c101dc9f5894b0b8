"""fit --like: H_S of a user's project stays as it is, and the learned term alone goes back into it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cc3d_steppables.inject import inject as inject_cc3d
from cc3d_steppables.new import write_project
from cc3d_steppables.project import Project
from cc3d_steppables.script_text import PLAIN_SCRIPT
from morpheus_xml.inject import inject as inject_morpheus
from morpheus_xml.new import RunPlan, new_model
from neuralcpm_bridge.app.cli import run as command
from neuralcpm_bridge.app.like import like_project
from neuralcpm_bridge.artifact import Artifact, LatticeEntry, load_artifact
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.snapshots import Snapshots
from training.datasets import RECIPES, TYPE_NAMES, generate
from training.export import export
from training.export.artifact import from_weights
from training.trainer import Trainer

from .quick import MINUTES, make_quick

SMALL = replace(RECIPES["elongation"], side=60, cells=8, radius=13.0, mcs=200)
TEMPERATURE = 6.0


@pytest.fixture(scope="module")
def elongated() -> Snapshots:
    return generate(SMALL, samples=40, seed=1)


@pytest.fixture(scope="module")
def analytic(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """Contact and volume energies of the data, at another temperature."""
    weights = {
        "symbolic.weight": np.array(1.0),
        "symbolic.offset": np.array(0.0),
        "symbolic.contact.J": TEMPERATURE * SMALL.contact,
        "symbolic.volume.strength": TEMPERATURE * np.array([0, SMALL.strength, SMALL.strength]),
        "symbolic.volume.target": np.array([0.0, SMALL.target, SMALL.target]),
    }
    model = from_weights(TYPE_NAMES, LatticeEntry.of("square"), None, weights, {"contact": 2}, None)
    return export(model, tmp_path_factory.mktemp("analytic") / "analytic.onnx", temperature=TEMPERATURE)


@pytest.fixture
def project(analytic: Artifact, elongated: Snapshots, tmp_path: Path) -> Path:
    """A plain project of CompuCell3D."""
    file = write_project(analytic, elongated[0], tmp_path / "Mine")
    (file.parent / "Simulation" / "Mine.py").write_text(PLAIN_SCRIPT, encoding="utf-8")
    (file.parent / "Simulation" / "model.onnx").unlink()
    text = file.read_text(encoding="utf-8")
    file.write_text(re.sub(r".*model\.onnx.*\n", "", text), encoding="utf-8")
    return file


@pytest.fixture
def xml(analytic: Artifact, elongated: Snapshots, tmp_path: Path) -> Path:
    """A Morpheus model."""
    new_model(analytic, elongated[0], RunPlan()).write(tmp_path / "mine.xml")
    return tmp_path / "mine.xml"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    make_quick(monkeypatch)


def test_energies_are_those_of_the_project_in_units_of_its_temperature(
    project: Path, xml: Path, elongated: Snapshots
) -> None:
    for path in (project, xml):
        given = like_project(path, elongated)
        assert given.not_read == ()
        assert given.temperature == TEMPERATURE
        assert given.hamiltonian.orders == {"contact": 2}
        contact, volume = given.hamiltonian.terms["contact"], given.hamiltonian.terms["volume"]
        np.testing.assert_allclose(contact.J.detach(), SMALL.contact, rtol=1e-12)
        np.testing.assert_allclose(volume.weights(3)["strength"].detach()[1:], SMALL.strength, rtol=1e-12)
        np.testing.assert_allclose(volume.weights(3)["target"].detach()[1:], SMALL.target, rtol=1e-12)


def test_what_is_no_project_or_another_lattice_is_refused(
    project: Path, elongated: Snapshots, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UserError, match="There is no project"):
        like_project(tmp_path / "none.cc3d", elongated)
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(UserError, match=r"neither a \.cc3d file"):
        like_project(tmp_path / "notes.txt", elongated)
    with pytest.raises(UserError, match=r"of type 'red', 'blue', but Mine\.cc3d knows A, B"):
        like_project(project, replace(elongated, type_names=("medium", "red", "blue")))
    xml = project.parent / "Simulation" / "Mine.xml"
    xml.write_text(xml.read_text(encoding="utf-8").replace("Periodic", "NoFlux"), encoding="utf-8")
    elongated.save(tmp_path / "data.npz")
    code = command(["fit", str(tmp_path / "data.npz"), "-o", str(tmp_path / "run"), "--like", str(project)])
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert code == 2
    assert "with the boundary periodic, but the given model on a square one with free" in said


@pytest.mark.usefixtures("quick")
def test_a_fit_like_a_project_goes_on_after_a_kill_and_goes_back_into_it(
    project: Path,
    xml: Path,
    elongated: Snapshots,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    elongated.save(tmp_path / "data.npz")
    run = tmp_path / "run"
    verb = ["fit", str(tmp_path / "data.npz"), "-o", str(run), "--minutes", str(MINUTES), "--members", "2", "--json"]
    with monkeypatch.context() as patched:

        def killed(*arguments: object, **options: object) -> None:
            raise KeyboardInterrupt

        patched.setattr(Trainer, "run", killed)
        assert command([*verb, "--like", str(project)]) == 130
    assert not (run / "fit.json").exists()
    assert command(verb) == 2  # without the project it is another fit
    assert "other data or with other settings" in capsys.readouterr().err
    assert command([*verb, "--like", str(project)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["like"], found["like_temperature"], found["not_read"]) == ("Mine.cc3d", TEMPERATURE, [])
    model = load_artifact(run / "model.onnx")
    symbolic = model.metadata.symbolic
    assert symbolic is not None
    np.testing.assert_allclose(symbolic.weight * np.array(symbolic.terms["contact"]["J"]), SMALL.contact, rtol=1e-12)

    before = Project.open(project).facts()
    file, said = inject_cc3d(project, model, tmp_path / "Learned")
    assert "learned beside these very energies (Mine.cc3d)" in said
    assert Project.open(file).facts() == before  # not a number of theirs
    script = (file.parent / "Simulation" / "Mine.py").read_text(encoding="utf-8")
    assert "term=" not in script  # the network alone, which is what a term is where nothing else is said
    injected = inject_morpheus(xml, model)
    assert any("learned beside these very energies" in note for note in injected.notes)
    assert injected.content.count(b'term="neural" weight="6.0"') == 2
    without = re.sub(rb"\s*<NeuralHamiltonian [^>]*/>", b"", injected.content)
    assert without == xml.read_bytes()

    changed = project.parent / "Simulation" / "Mine.xml"
    text = changed.read_text(encoding="utf-8").replace('LambdaVolume="', 'LambdaVolume="1')
    changed.write_text(text, encoding="utf-8")
    _, said = inject_cc3d(project, model, tmp_path / "Other")
    assert "this project has others (volume): it is not what these miss" in said
