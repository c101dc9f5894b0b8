"""The paper authors' weights give the paper authors' energies."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.state import CellState
from training.reference import EXPERIMENTS, NETWORK_OF, import_reference

from ..conftest import REFERENCE

SHARED = Path(__file__).parents[3] / "shared" / "reference"
FILES = sorted({path.name: path for folder in (SHARED, REFERENCE) for path in folder.glob("*.eqx")}.values())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_energies_and_flips_are_the_authors(path: Path) -> None:
    record = json.loads(path.with_suffix(".json").read_text())
    hamiltonian = import_reference(path, record["experiment"], record["model"]).double()
    channels = np.load(path.parent / f"states_{record['grid'][0]}.npz")["states"]
    states = [CellState.from_channels(state, record["num_cell_ids"]) for state in channels]
    for state, energy, flips in zip(states, record["energies"], record["flips"], strict=True):
        changed = [state]
        for row, col, new_id, _ in flips:
            ids = state.ids.copy()
            ids[row, col] = new_id
            changed.append(CellState(ids, state.types))
        with torch.no_grad():
            found = hamiltonian.of_states(changed).total.numpy()
        assert found[0] == pytest.approx(energy, rel=1e-8)
        np.testing.assert_allclose(found[1:] - found[0], [flip[3] for flip in flips], atol=1e-6)


def test_the_command_line_imports_and_computes(tmp_path: Path, cli) -> None:
    for name in ("exp1_cellsort_baseline", "exp1_nch"):
        record = json.loads((REFERENCE / f"{name}.json").read_text())
        model = tmp_path / f"{name}.onnx"
        code, _, err = cli(
            "import-reference",
            REFERENCE / f"{name}.eqx",
            "--experiment",
            "exp1",
            "--model",
            record["model"],
            "-o",
            model,
        )
        assert code == 0, err
        code, out, err = cli("energy", model, REFERENCE / "states_100.npz", "--json")
        assert code == 0, err
        printed = json.loads(out)
        np.testing.assert_allclose(printed["energy"], record["energies"], rtol=1e-6)
        parts = np.array(printed["symbolic"]) + np.array(printed["neural"])
        np.testing.assert_allclose(parts, printed["energy"], rtol=1e-12)
        assert json.loads(cli("info", model, "--json")[1])["parameters"] == {"nch": 109_618}.get(record["model"], 7)


def test_wrong_files_are_named(tmp_path: Path) -> None:
    whole = (REFERENCE / "exp1_nch.eqx").read_bytes()
    cases = {"short.eqx": whole[:5000], "text.eqx": b"not leaves", "extra.eqx": whole + whole[:136]}
    for name, content in cases.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError) as caught:
            import_reference(tmp_path / name, "exp1", "nch")
        assert name in str(caught.value)
    with pytest.raises(UserError, match="does not hold"):
        import_reference(REFERENCE / "exp1_nch.eqx", "exp2", "nch")
    with pytest.raises(UserError, match="choose"):
        import_reference(REFERENCE / "exp1_nch.eqx", "exp1", "gnn")
    with pytest.raises(UserError, match="choose"):
        import_reference(REFERENCE / "exp1_nch.eqx", "exp9", "nch")


def test_pickled_arrays_are_never_loaded(tmp_path: Path) -> None:
    with (tmp_path / "evil.eqx").open("wb") as stream:
        np.save(stream, np.array([print], dtype=object), allow_pickle=True)
    with pytest.raises(UserError, match="cannot be read"):
        import_reference(tmp_path / "evil.eqx", "exp1", "nch")


def test_every_model_of_the_paper_is_known() -> None:
    assert set(NETWORK_OF) == {"cellsort_baseline", "external_field_baseline", "conv_ham", "shallow_nh", "nh", "nch"}
    assert set(EXPERIMENTS) == {"exp1", "exp2"}
