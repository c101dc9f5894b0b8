"""Verbs about one model file, and what they answer to bad input."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from neuralcpm_bridge.app.cli.model import info_json
from neuralcpm_bridge.app.cli.progress import progress
from neuralcpm_bridge.artifact import load_artifact
from neuralcpm_bridge.backends.engine import EngineBackend
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.snapshots import Snapshots
from neuralcpm_bridge.state import CellState

from .analytic import artifact_of, blocks, metadata_of, weights_of
from .strategies import random_state
from .test_format1 import FOLDER as FORMAT1


@pytest.fixture
def model(models: dict[str, Path]) -> Path:
    return models["local8-closure"]


def changed(model: Path, target: Path, edit) -> Path:
    proto = onnx.load(model)
    del proto.metadata_props[1:]  # the seal, which would tell that something was changed, not what
    edit(proto)
    onnx.save(proto, target)
    return target


def edit_metadata(**updates: object):
    def edit(proto: onnx.ModelProto) -> None:
        metadata = json.loads(proto.metadata_props[0].value)
        proto.metadata_props[0].value = json.dumps(metadata | updates)

    return edit


FIELDS_OF_0_1 = {
    "format", "name", "architecture", "parameters", "types", "cells", "fixed_cells", "fixed_lattice", "lattice",
    "boundary", "neighbor_order", "convention", "temperature", "extinction", "receptive_field", "symbolic", "neural",
    "training", "weights_hash",
}  # fmt: skip


def test_info(model: Path, cli) -> None:
    code, out, _ = cli("info", model, "--json")
    assert code == 0
    printed = json.loads(out)
    assert set(printed) == FIELDS_OF_0_1 | {"geometry", "orders", "ranges"}
    assert printed["architecture"] == "local_closure"
    assert printed["receptive_field"] == 27
    assert (printed["boundary"], printed["neighbor_order"]) == ("periodic", 2)
    assert (printed["geometry"], printed["orders"]) == ("square", {"contact": 2})
    code, out, _ = cli("info", model)
    assert code == 0
    assert "local_closure" in out


@pytest.mark.parametrize("name", ["cellsort", "analytic", "cnn", "local_closure"])
def test_info_of_an_older_file_says_what_it_said(name: str, cli) -> None:
    code, out, err = cli("info", FORMAT1 / f"{name}.onnx", "--json")
    assert code == 0, err
    artifact, printed = load_artifact(FORMAT1 / f"{name}.onnx"), json.loads(out)
    before = json.loads(artifact.model.metadata)
    for key in FIELDS_OF_0_1 - {"format", "symbolic"}:
        assert printed[key] == before[key]
    assert cli("info", FORMAT1 / f"{name}.onnx")[0] == 0


def test_info_on_other_lattices() -> None:
    weights = weights_of(np.random.default_rng(0), ("contact", "surface"))
    meta = metadata_of(weights, "cubic", ("free", "periodic", "periodic"), {"contact": 4, "surface": 1})
    printed = info_json(artifact_of(weights, meta))
    assert printed["boundary"] == ["free", "periodic", "periodic"]
    assert (printed["geometry"], printed["neighbor_order"]) == ("cubic", 4)
    assert printed["orders"] == {"contact": 4, "surface": 1}


def test_energy_of_both_kinds_of_files(model: Path, cli, save) -> None:
    state = random_state(np.random.default_rng(1), (33, 40), 6, absent=False)
    whole = save(ids=state.ids[None], types=state.types[None])
    code, out, err = cli("energy", model, whole, "--json")
    assert code == 0, err
    first = json.loads(out)
    assert set(first) == {"energy", "symbolic", "neural", "spread", "outside"}
    assert (first["spread"], first["outside"]) == ([0.0], [[]])
    assert first["energy"][0] == pytest.approx(first["symbolic"][0] + first["neural"][0])
    assert cli("energy", model, whole)[0] == 0
    # as maps, the ids up to the number of cells of training exist and pay their volume energy
    maps = save("maps.npz", states=state.to_channels()[None])
    second = json.loads(cli("energy", model, maps, "--json")[1])
    metadata = json.loads(cli("info", model, "--json")[1])
    volume = metadata["symbolic"]["terms"]["volume"]
    present = len(np.unique(state.ids))
    extra = metadata["cells"] - present - (state.types.size - present)
    paid = metadata["symbolic"]["weight"] * extra * volume["strength"][1] * volume["target"][1] ** 2
    assert second["symbolic"][0] == pytest.approx(first["symbolic"][0] + paid)
    assert second["neural"][0] == pytest.approx(first["neural"][0], abs=1e-4)


@pytest.mark.parametrize(
    "name", ["mnist-cellsort", "mnist-external", "mnist-nh", "mnist-nh-cnn", "mnist-cnn", "local8-closure"]
)
def test_verify_every_architecture(name: str, models: dict[str, Path], cli) -> None:
    code, out, err = cli("verify", models[name], "--flips", 40, "--json")
    assert code == 0, err
    report = json.loads(out)
    assert report["ok"] is True
    assert report["flips"] == 40
    expected = {"onnxruntime"} if name in ("mnist-cnn", "mnist-nh-cnn") else {"engine", "onnxruntime"}
    assert set(report["backends"]) == expected
    for values in report["backends"].values():
        assert set(values) == {"max_abs_error", "decision_mismatch"}


@pytest.mark.parametrize(
    "lattice",
    [
        Lattice.of((20, 22), boundary=("free", "periodic")),
        Lattice.of((20, 22), "hexagonal"),
        Lattice.of((20, 22), "hexagonal", "free"),
        Lattice.of((12, 13, 14), "cubic"),
        Lattice.of((12, 13, 14), "cubic", ("periodic", "free", "free")),
    ],
    ids=lambda lattice: "-".join([lattice.geometry.name, *lattice.boundary]),
)
def test_models_of_every_lattice(lattice: Lattice, cli, refused, save, tmp_path: Path) -> None:
    """A file with every term but the external one: written, described, verified, and asked for energies."""
    from training.export import export, hamiltonian_from_artifact

    rng = np.random.default_rng(0)
    weights = weights_of(rng, ("contact", "volume", "volume_function", "surface", "length"), lattice.dimension)
    meta = metadata_of(weights, lattice.geometry.name, lattice.boundary, {"contact": 4, "surface": 1})
    model = export(hamiltonian_from_artifact(artifact_of(weights, meta)), tmp_path / "model.onnx").path
    printed = json.loads(cli("info", model, "--json")[1])
    assert (printed["geometry"], printed["orders"]) == (lattice.geometry.name, {"contact": 4, "surface": 1})
    assert cli("info", model)[0] == 0
    state = blocks(rng, lattice)
    arrays = {"ids": state.ids[None], "types": state.types[None], "boundary": np.array(lattice.boundary)}
    data = save(**arrays, lattice=np.array(lattice.geometry.name))
    code, out, err = cli("energy", model, data, "--json")
    assert code == 0, err
    expected = EngineBackend(artifact_of(weights, meta), state).energy().symbolic
    assert json.loads(out)["energy"] == pytest.approx([expected], rel=1e-6)
    for more in ((), ("--states", data)):
        code, out, err = cli("verify", model, *more, "--flips", 40, "--json")
        assert code == 0, (out, err)
        assert max(values["max_abs_error"] for values in json.loads(out)["backends"].values()) < 1e-6
    other = Lattice.of((9, 9), "hexagonal" if lattice.geometry.name == "square" else "square")
    elsewhere = blocks(rng, other)
    arrays = {"ids": elsewhere.ids[None], "types": elsewhere.types[None], "lattice": np.array(other.geometry.name)}
    assert other.geometry.name in refused("energy", model, save("other.npz", **arrays))


def test_bad_models(model: Path, tmp_path: Path, refused) -> None:
    target = tmp_path / "bad.onnx"
    target.write_text("hello")
    assert "bad.onnx" in refused("info", target)
    target.write_bytes(model.read_bytes()[:2000])
    refused("info", target)
    target.write_bytes(b"")
    refused("info", target)
    refused("info", tmp_path / "missing.onnx")
    refused("info", tmp_path)
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    foreign = helper.make_model(helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value], [value]))
    onnx.save(foreign, target)
    refused("info", target)
    assert "3" in refused("info", changed(model, target, edit_metadata(format=3)))
    refused("info", changed(model, target, edit_metadata(types=["medium"])))
    lattice = {"geometry": "square", "boundary": ["periodic", "periodic"], "shape": None}
    for wrong in (
        {"boundary": ["periodic", "twisted"]},
        {"boundary": ["periodic"]},
        {"geometry": "triangular"},
        {"shape": [36]},
        {"depth": 3},
    ):
        refused("info", changed(model, target, edit_metadata(lattice=lattice | wrong)))
    assert "square" in refused(
        "info", changed(model, target, edit_metadata(lattice=lattice | {"geometry": "hexagonal"}))
    )
    refused("info", changed(model, target, edit_metadata(symbolic=None)))
    refused("energy", changed(model, target, edit_metadata(weights_hash="0" * 64)), tmp_path / "s.npz")

    def change_weight(proto: onnx.ModelProto) -> None:
        tensor = next(t for t in proto.graph.initializer if t.name == "neural.embedding.weight")
        values = np.frombuffer(tensor.raw_data, np.float32).copy()
        values[0] += 1e-3
        tensor.raw_data = values.tobytes()

    refused("info", changed(model, target, change_weight))


def test_bad_examples_are_noticed(model: Path, tmp_path: Path, refused) -> None:
    def shift(proto: onnx.ModelProto) -> None:
        metadata = json.loads(proto.metadata_props[0].value)
        metadata["examples"][0]["neural"] += 1.0
        proto.metadata_props[0].value = json.dumps(metadata)

    assert "example" in refused("info", changed(model, tmp_path / "m.onnx", shift))


def test_bad_states(model: Path, refused, save, tmp_path: Path) -> None:
    ids, types = np.zeros((1, 30, 30), int), np.array([[0, 1, 2]])
    ids[0, 5:9, 5:9] = 1
    assert "float64" in refused("energy", model, save(ids=ids.astype(float), types=types))
    assert "negative" in refused("energy", model, save(ids=ids - 1, types=types))
    assert "cubic" in refused("energy", model, save(ids=np.zeros((1, 5, 5, 5), int), types=types))
    assert "hexagonal" in refused("energy", model, save(ids=ids, types=types, lattice=np.array("hexagonal")))
    assert "[N, 2, H, W]" in refused("energy", model, save(states=np.zeros((1, 3, 5, 5), int)))
    assert "type 7" in refused("energy", model, save(ids=ids, types=np.array([[0, 7, 1]])))
    assert "no type" in refused("energy", model, save(ids=ids, types=np.array([[0, -1, 1]])))
    assert "up to 0" in refused("energy", model, save(ids=ids, types=np.array([[0]])))
    names = np.array(["medium", "Condensing", "B"])
    assert "Condensing" in refused("energy", model, save(ids=ids, types=types, type_names=names))
    refused("energy", model, save(ids=ids))
    refused("energy", model, tmp_path / "missing.npz")
    (tmp_path / "text.npz").write_text("text")
    refused("energy", model, tmp_path / "text.npz")
    np.savez(tmp_path / "pickled.npz", ids=np.array([{}], dtype=object), types=types)
    refused("energy", model, tmp_path / "pickled.npz")
    refused("energy", model, save(ids=ids[:0], types=types[:0]))


def test_type_names_are_mapped_by_name(model: Path, cli, save) -> None:
    state = random_state(np.random.default_rng(2), (33, 33), 6, absent=False)
    plain = save("a.npz", ids=state.ids[None], types=state.types[None])
    swapped = np.array([0, 2, 1])[state.types]
    named = save("b.npz", ids=state.ids[None], types=swapped[None], type_names=np.array(["medium", "B", "A"]))
    assert cli("energy", model, plain, "--json")[1] == cli("energy", model, named, "--json")[1]


def test_unwritable_target(tmp_path: Path, refused) -> None:
    from .conftest import REFERENCE

    (tmp_path / "file").write_text("kept")
    for target in (tmp_path / "file" / "m.onnx", tmp_path):
        refused(
            "import-reference", REFERENCE / "exp1_cellsort_baseline.eqx", "--experiment", "exp1",
            "--model", "cellsort_baseline", "-o", target,
        )  # fmt: skip
    assert (tmp_path / "file").read_text() == "kept"


def test_a_place_to_write_is_looked_at_before_anything_is_computed(
    refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, file = "pretrained:elongated-cells", tmp_path / "file"
    file.touch()
    monkeypatch.setattr("neuralcpm_bridge.embedded.open_chains", None)
    monkeypatch.setattr("neuralcpm_bridge.explain.explain", None)
    monkeypatch.setattr("training.datasets.generate", None)
    monkeypatch.setattr("training.reproduce.reproduce", None)
    for verb in (
        ("simulate", name, "--init", "blob"),
        ("explain", name),
        ("reproduce", "elongation"),
        ("report", tmp_path),
    ):
        assert f"{file} is a file, but a folder" in refused(*verb, "-o", file / "within")
    assert "does not end in .npz" in refused("data", "elongation", "-o", tmp_path / "data.txt")
    (tmp_path / "folder.npz").mkdir()
    assert "is a folder, but a file" in refused("data", "elongation", "-o", tmp_path / "folder.npz")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a place that is always full")
def test_a_full_disk_under_the_output_is_one_sentence() -> None:
    with open("/dev/full", "w") as full:
        words = [sys.executable, "-c", "from neuralcpm_bridge.app.cli import main; main()", "models"]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "neuralcpm: There is no space left for what is printed: free space.\n"


def test_wrong_use_is_one_sentence(refused) -> None:
    refused("no-such-verb")
    refused("info")
    refused("info", "--no-such-option")
    refused("verify", "x.onnx", "--flips", "many")
    assert "--seed" in refused("verify", "x.onnx", "--seed", "-5")


@pytest.mark.parametrize(
    ("missing", "arguments"),
    [
        ("training.verify", ("verify", "pretrained:cell-sorting")),
        ("training.reference", ("import-reference", "x.eqx", "--experiment", "exp1", "--model", "nh", "-o", "x.onnx")),
        ("training.distilled", ("distill", "pretrained:cell-sorting", "--data", "x.npz", "-o", "x.onnx")),
        ("training.export", ("bench", "--json")),
    ],
)
def test_without_torch_one_sentence_says_what_to_install(
    missing: str, arguments: tuple[str, ...], refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    said = refused(*arguments)
    assert f"{arguments[0]} needs {missing}, which is not installed" in said
    assert "pip install 'neuralcpm-bridge[cpu,train]'" in said


def test_the_progress_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("nothing", keep=True):
        pass
    assert capsys.readouterr() == ("", "")
    with progress("counting", total=4, unit="sheep", keep=True) as bar:
        bar(1)
        bar.say("a line of [its] own")
        bar(3, 5, "counting on")
    out, err = capsys.readouterr()
    assert out == ""
    assert "a line of [its] own" in err
    assert "counting on" in err
    assert "3/5 sheep" in err
    with progress("gone when done") as bar:
        bar(1, 2)
    assert "gone" not in capsys.readouterr().err


def test_doctor(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    code, out, err = cli("doctor")
    assert code == 0, err
    assert "engine" in out
    assert "[train]" in out  # no markup of the table's


def test_brackets_in_a_file_are_letters(cli, tmp_path: Path) -> None:
    """Names come from strangers' files: nothing in them is a colour, or an unfinished one."""
    state = CellState(np.pad(np.ones((3, 3), dtype=np.int32), 2), np.array([0, 1], dtype=np.int32))
    Snapshots.from_states([state], type_names=("medium", "[/red]")).save(tmp_path / "odd.npz")
    code, out, err = cli("data", "info", tmp_path / "odd.npz")
    assert code == 0, err
    assert "[/red]" in out


def test_importing_the_package_costs_next_to_nothing_and_never_imports_torch() -> None:
    script = (
        "import sys; import neuralcpm_bridge\n"
        "import neuralcpm_bridge.app.cli\n"
        "assert not {'torch', 'numpy', 'pydantic', 'lxml', 'rich', 'importlib.metadata'} & set(sys.modules)\n"
        "from neuralcpm_bridge import CellState, load_artifact, open_backend\n"
        "assert not {'torch', 'onnxruntime'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
