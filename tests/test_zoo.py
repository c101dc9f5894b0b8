"""The zoo's runner: what it makes of a finished fit, of one that failed, and of results that are there already."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.zoo import __main__ as zoo
from benchmarks.zoo import fits, mechanisms, nonsense, sense
from benchmarks.zoo.generator import A, B, Tissue, compiler, sample
from benchmarks.zoo.mechanisms import MECHANISMS, Mechanism
from benchmarks.zoo.scoring import Value, learned, share, worse
from benchmarks.zoo.statistics import contact_table, elongation
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.snapshots import load_snapshots
from neuralcpm_bridge.state import CellState

needs_compiler = pytest.mark.skipif(compiler() is None, reason="the zoo's generator needs a C++ compiler")

SMALL = Mechanism(
    name="small",
    about=mechanisms.SHAPE,
    sentence="B cells want a length",
    tissue=Tissue(
        "square", 32, (2, 2), 40, (4.0, 4.0, 3.0, 4.0, 3.0), term="length", strengths=(0, 0.5), wanted=(0, 13)
    ),
    statistic=elongation(B),
    statistic_name="longest over shortest extent of B",
    mcs=120,
    samples=24,
)

FAKE = """#!{python}
import json, shutil, sys
from pathlib import Path
assert sys.argv[1] == "fit" and sys.argv[3] == "-o" and sys.argv[5] == "--seed", sys.argv
folder, ready = Path(sys.argv[4]), Path({ready!r})
(ready / "calls").open("a").write(sys.argv[6] + "\\n")
if not (ready / "samples.npz").exists():
    sys.exit("neuralcpm: these data cannot be learned from: give others.")
for name in ("samples.npz", "samples-baseline.npz"):
    shutil.copy(ready / name, folder / name)
(folder / "fit.json").write_text(json.dumps({{"verdict": "fine", "sample_mcs": 120, "members": 4, "measures": {{}}}}))
"""


@pytest.fixture
def ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A zoo of one small mechanism, and a program in the place of `neuralcpm` that leaves what lies in this folder."""
    folder = tmp_path / "ready"
    folder.mkdir()
    fake = tmp_path / "neuralcpm"
    fake.write_text(FAKE.format(python=sys.executable, ready=str(folder)))
    fake.chmod(0o755)
    monkeypatch.setattr(fits, "program", lambda: fake)
    monkeypatch.setitem(MECHANISMS, SMALL.name, SMALL)
    return folder


def calls(ready: Path) -> list[str]:
    return (ready / "calls").read_text().split() if (ready / "calls").exists() else []


@needs_compiler
def test_true_samples_have_a_share_of_one_and_are_not_fitted_again(
    ready: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample(SMALL.tissue, 48, 120, seed=7).save(ready / "samples.npz")
    sample(SMALL.tissue.without_mechanism(), 48, 120, seed=8).save(ready / "samples-baseline.npz")
    out = tmp_path / "zoo"
    assert zoo.main(["run", str(out), "--only", "small", "--seeds", "3", "4"]) == 0
    results = json.loads((out / "results.json").read_text())
    assert [each["seed"] for each in results] == [3, 4]
    for each in results:
        closure, baseline = each["share"]["closure"], each["share"]["baseline"]
        assert abs(closure[0] - 1) < 4 * closure[1] < 0.8
        assert abs(baseline[0]) < 4 * baseline[1]
        assert each["p_unfragmented"]["closure"] == 1
        assert not each["worse_than_baseline"]
        assert each["minutes"] > 0
        assert each["processor_minutes"] > 0
    printed = capsys.readouterr().out
    assert printed.count("| small |") == 2
    assert zoo.main(["run", str(out), "--only", "small", "--seeds", "3", "4"]) == 0
    assert calls(ready) == ["3", "4"]
    assert capsys.readouterr().out == printed


@needs_compiler
def test_a_failed_fit_is_a_result_with_its_sentence(
    ready: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert zoo.main(["run", str(tmp_path / "zoo"), "--only", "small", "--seeds", "0"]) == 0
    (result,) = json.loads((tmp_path / "zoo" / "results.json").read_text())
    assert result["failed"] == "neuralcpm: these data cannot be learned from: give others."
    assert not learned(result)
    assert "Learned in every seed: 0 of 1 mechanisms." in capsys.readouterr().out


def test_names_that_are_not_there_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert zoo.main(["run", str(tmp_path / "zoo"), "--only", "unicorn"]) == 2
    assert "There is no 'unicorn' in the zoo" in capsys.readouterr().err
    assert not (tmp_path / "zoo").exists()


def test_shares_carry_the_errors_of_all_three() -> None:
    found = share(Value(2.0, 0.1), Value(1.0, 0.0), Value(3.0, 0.0))
    assert found == pytest.approx((0.5, 0.05))
    assert share(Value(3.0, 0.0), Value(1.0, 0.2), Value(3.0, 0.0)) == pytest.approx((1.0, 0.0))
    assert share(Value(3.0, 0.0), Value(1.0, 0.0), Value(3.0, 0.2)) == pytest.approx((1.0, 0.1))


def test_a_closure_beyond_the_truth_may_be_worse_than_the_baseline() -> None:
    truth = Value(1.0, 0.01)
    assert worse(Value(3.0, 0.01), Value(0.5, 0.01), truth)
    assert not worse(Value(1.1, 0.01), Value(0.5, 0.01), truth)
    assert not worse(Value(1.1, 0.3), Value(1.0, 0.3), truth)


# -- statistics, on states whose values are known ------------------------------------------------------------------


def bars() -> CellState:
    """A is a 4×4 square at the medium, two B lie side by side as bars of 2×8 across the lattice's border."""
    ids = np.zeros((24, 24), dtype=np.int32)
    ids[10:14, 10:14] = 1
    ids[0:2, 10:18], ids[22:24, 10:18] = 2, 3
    return CellState(ids, np.array([0, A, B, B], dtype=np.int32), Lattice.of((24, 24)))


def test_statistics_of_drawn_cells() -> None:
    state = bars()
    pairs = contact_table(state)
    assert pairs[2, 3] == 8 + 2 * 7
    assert pairs[0, 1] == pairs[1].sum() == 4 * (4 + 2 * 3) + 4
    names = {name: each.statistic(state) for name, each in MECHANISMS.items() if each.tissue.geometry != "cubic"}
    assert names["long-b"] == pytest.approx(4)
    assert names["aligned-b"] == pytest.approx(1)
    assert names["chains-b"] == 0
    assert names["one-partner"] == 0
    assert names["taut-a"] == pytest.approx(44 / 4)
    assert names["spaced-b"] == pytest.approx(2 / np.sqrt(16 * 4 / np.pi))
    # B: 2·8 pairs along the far side with diagonals 22, both short sides, half of the corners
    share = pairs[2, 0] / pairs[2].sum()
    assert names["half-exposed"] == pytest.approx(abs(share - 0.5))
    assert names["flat-at-medium"] > 1.5


def test_every_mechanism_leaves_its_cells_room() -> None:
    """What looks at shapes is not defined for cells that span half of the lattice; tissues must fit at all."""
    for each in MECHANISMS.values():
        tissue = each.tissue
        dimension = tissue.lattice.dimension
        assert sum(tissue.cells) * tissue.target < 0.85 * tissue.side**dimension
        assert 12 <= sum(tissue.cells) <= 40
        assert tissue.term != "none"
        if tissue.term == "length":
            assert max(tissue.wanted) < tissue.side / 2


# -- nonsense ------------------------------------------------------------------------------------------------------


def test_rings_are_drawn_and_measured(tmp_path: Path, cli) -> None:
    nonsense.write_ring(tmp_path / "images", count=4)
    code, _, err = cli(
        *("data", "import", tmp_path / "images", "--types", tmp_path / "images" / "types.csv"),
        *("--scale", nonsense.RING_SCALE, "-o", tmp_path / "ring.npz"),
    )
    assert code == 0, err
    data = load_snapshots(tmp_path / "ring.npz")
    assert data.ids.shape == (4, 60, 60)
    drawn = nonsense.ring(data)
    assert 0.5 < drawn.min() <= drawn.max() < 0.6
    swapped = replace(data, type_names=("medium", "rim", "core"))
    np.testing.assert_allclose(nonsense.ring(swapped), -drawn)
    rolled = replace(data, ids=np.roll(data.ids, (30, 30), axis=(1, 2)))
    np.testing.assert_allclose(nonsense.ring(rolled), drawn, atol=1e-3)


@needs_compiler
@pytest.mark.parametrize("name", ["noise", "identical", "three", "one-cell"])
def test_nonsense_is_what_it_says(name: str, tmp_path: Path) -> None:
    data = load_snapshots(nonsense.data_file(name, tmp_path))
    volumes = np.concatenate([state.volumes[1:] for state in data])
    assert len(data) == (3 if name == "three" else 64)
    if name == "identical":
        assert (data.ids == data.ids[0]).all()
    else:
        assert (data.ids[1:] != data.ids[0]).any()
    if name == "one-cell":
        assert volumes.size == 64


@needs_compiler
def test_how_much_a_model_changes_acceptance(models: dict[str, Path]) -> None:
    """Nothing without a learned term; with one, the difference of the two probabilities."""
    states = sample(replace(nonsense.SORTING, side=36, cells=(4, 4)), 2, 50, seed=1)
    assert sense.acceptance_change(models["mnist-cellsort"], states) == {"mean": 0.0, "largest": 0.0}
    changed = sense.acceptance_change(models["graph1-closure"], states)
    assert 0 < changed["mean"] <= changed["largest"] <= 1


def test_lines_about_nonsense() -> None:
    refused = {"data": "noise", "code": 2, "minutes": 0.1, "processor_minutes": 0.1, "said": "No cells."}
    fitted = {
        **{"data": "ring", "code": 0, "minutes": 9, "processor_minutes": 18, "said": "Fine."},
        **{"p_volume": {"closure": 1}, "p_unfragmented": {"closure": 0.5}},
        **{"acceptance_change": {"mean": 0.01, "largest": 0.2}, "ring": {"data": [0.5, 0.01]}},
    }
    lines = sense.table([refused, fitted]).splitlines()
    assert lines[2] == "| noise | exit code 2 | 0.1 (0.1) |  |  |  | No cells. |"
    assert lines[3].endswith("| 1.00 | 0.50 | 0.010, 0.200 | Fine. Ring: data 0.500 ± 0.010. |")
