"""What a committee does not know, in a stand-in for CompuCell3D: said, saved for retraining, and weakened."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.hosting.results import gather
from neuralcpm_bridge.hosting.uncertainty import COLUMNS, Interval, Kept, Limits, read_table
from neuralcpm_bridge.snapshots import load_snapshots
from training.export import export

from .conftest import tissue_host
from .fake_host import FakeHost
from .models import tissue


@pytest.fixture(scope="module")
def committee(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """Four members that have seen cells of 30 to 50 sites only."""
    model = tissue("graph1-closure", members=4)
    with torch.no_grad():
        model.network.low[1:] = torch.tensor([30.0, 0.0, 0.0, 0.0, -1.0])
        model.network.high[1:] = torch.tensor([50.0, 1.0, 1e3, 1e3, 1.0])
    return export(model, tmp_path_factory.mktemp("committee") / "model.onnx")


@pytest.fixture(params=["native", "interpreted"])
def host(committee: Artifact, tmp_path: Path, request: pytest.FixtureRequest) -> FakeHost:
    return tissue_host(committee, tmp_path, native=request.param == "native")


def run_steps(host: FakeHost, first: int, last: int, attempts: int = 200) -> None:
    random = np.random.default_rng(first)
    for mcs in range(first, last):
        host.term.before_step(mcs)
        host.sweep(attempts, random)


def test_table_warning_and_data_set(
    host: FakeHost, committee: Artifact, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host.begin(limits=Limits("warn", 1.0, 0.05), log_every=20)
    host.add(5, 1, slice(0, 3), slice(0, 20))  # 60 sites: outside
    host.add(6, 2, slice(27, 30), slice(0, 25))
    run_steps(host, 0, 41)
    said = capsys.readouterr().out
    assert said.count("WARNING: MCS 20 is uncertain: the members disagree by") == 1
    assert "WARNING: MCS 40" not in said  # it has been said
    assert "of the cells lie outside of the training data's range" in said
    rows = read_table(tmp_path / "out" / "uncertainty.csv")
    assert tuple(rows[0]) == COLUMNS
    assert [row["mcs"] for row in rows] == [20, 40]
    assert all(row["disagreement_max"] >= row["disagreement"] > 0 for row in rows)  # type: ignore[operator]
    data = load_snapshots(tmp_path / "out" / "uncertain.npz", committee)  # as the model's own data
    assert data.arrays["mcs"].tolist() == [20, 40]
    assert data.arrays["outside"] == pytest.approx([row["outside"] for row in rows], rel=1e-5)
    found = gather(tmp_path / "out", tmp_path)
    assert found is not None
    assert (found["uncertain"], found["first_uncertain_mcs"], found["file"]) == (2, 20, "uncertain.npz")
    assert (tmp_path / "uncertainty.png").is_file()


def test_stop(host: FakeHost) -> None:
    host.begin(limits=Limits("stop", 1e-9))
    with pytest.raises(UserError, match="stopped at MCS 20: MCS 20 is uncertain: the members disagree"):
        run_steps(host, 0, 30)


def test_shrink_weakens_the_network_where_members_disagree(host: FakeHost) -> None:
    host.begin()
    host.term.before_step(0)
    place, new_id = (4, 9), 7
    full = host.ask(place, new_id)
    site = host.known.lattice.site(*place)
    mean, spread = host.term.mirror.copy.opinion(site, new_id)
    assert spread > 0
    assert full == pytest.approx(10 * mean, abs=1e-6)
    for limit in (spread / 2, spread, 10 * spread):
        host.begin(limits=Limits("shrink", limit))
        host.term.before_step(0)
        inside = 1 - host.term.mirror.copy.outside(site, new_id)
        assert host.ask(place, new_id) == pytest.approx(inside * full / (1 + (spread / limit) ** 2), rel=1e-6)


def test_shrink_weakens_the_network_by_the_share_of_cells_out_of_range(host: FakeHost) -> None:
    host.begin()
    host.add(5, 1, slice(0, 3), slice(0, 20))  # 60 sites: outside
    host.add(6, 2, slice(3, 7), slice(0, 10))  # 40: inside
    host.term.before_step(0)
    copies = [((3, 4), 5), ((2, 4), 6), ((2, 4), 0), ((4, 4), 0)]  # of a cell into another or of medium
    full = [host.ask(place, new_id) for place, new_id in copies]
    assert all(abs(delta) > 1e-3 for delta in full)
    host.begin(limits=Limits("shrink", 1e6))
    host.term.before_step(0)
    assert [host.term.mirror.copy.outside(host.known.lattice.site(*place), cell) for place, cell in copies] == [
        0.5,
        0.5,
        1,
        0,
    ]
    for (place, new_id), left, delta in zip(copies, (0.5, 0.5, 0.0, 1.0), full, strict=True):
        assert host.ask(place, new_id) == pytest.approx(left * delta, rel=1e-4, abs=1e-9)


def test_shrink_needs_doubts(tmp_path: Path) -> None:
    single = export(tissue("graph1-closure"), tmp_path / "single.onnx")
    host = tissue_host(single, tmp_path, native=True)
    with pytest.raises(UserError, match="no committee and does not know the range"):
        host.begin(limits=Limits("shrink"))


@pytest.mark.parametrize(
    ("wrong", "word"), [({"policy": "hope"}, "uncertain"), ({"disagreement": 0.0}, "limit"), ({"outside": 2}, "share")]
)
def test_limits_that_are_refused(wrong: dict[str, object], word: str) -> None:
    with pytest.raises(UserError, match=word):
        Limits(**wrong)  # type: ignore[arg-type]


def test_what_cannot_be_known_is_not_said() -> None:
    assert Interval(20, None, None, None, 1.0).sentence() == ""
    assert not Interval(20, None, None, None, 1.0).exceeds(Limits())


def test_a_few_of_many() -> None:
    kept = Kept(8)
    for number in range(100):
        if kept.wants():
            kept.add(number)
    assert kept.entries[0] == 0
    assert 4 < len(kept.entries) <= 8
    assert len(set(np.diff(kept.entries))) == 1
