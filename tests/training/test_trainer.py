"""The trainer: it learns, resumes bit for bit, stops on divergence, runs on two ranks."""

from __future__ import annotations

import csv
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.snapshots import Snapshots
from training import checkpoint
from training.checkpoint import MODEL_FILE, load
from training.config import make_config
from training.logs import named_parameters
from training.trainer import Trainer, TrainingDiverged, load_run, split

from .tiny import RECIPE, tiny_config, tiny_data

RUN = "import sys; from tests.training.tiny import *; from training import Trainer; "


@pytest.fixture(scope="module")
def data() -> Snapshots:
    return tiny_data()


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load(folder / MODEL_FILE).tensors


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def test_an_interrupted_run_ends_with_the_same_weights(tmp_path: Path, data: Snapshots) -> None:
    config = tiny_config()
    Trainer(config, data, tmp_path / "whole").run()
    Trainer(config, data, tmp_path / "parts").run(until=7)  # stops between checkpoints
    assert load(tmp_path / "parts" / MODEL_FILE).header["step"] == 4
    Trainer(config, data, tmp_path / "parts").run()
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))
    rows = [list(csv.reader((tmp_path / run / "metrics.csv").open())) for run in ("whole", "parts")]
    assert [row[0] for row in rows[0]] == [row[0] for row in rows[1]] == ["step", "2", "4", "6", "8", "10", "12"]


def test_a_killed_run_ends_with_the_same_weights(tmp_path: Path, data: Snapshots) -> None:
    config = "optimizer={'steps': 400}, run={'checkpoint_every': 2}"
    script = RUN + f"Trainer(tiny_config({config}), tiny_data(), sys.argv[1]).run()"
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "killed")])
    while not (tmp_path / "killed" / MODEL_FILE).exists():
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    reached = load(tmp_path / "killed" / MODEL_FILE).header["step"]
    settings = tiny_config(optimizer={"steps": 400}, run={"checkpoint_every": 2})
    for run in ("killed", "whole"):
        trainer = Trainer(settings, data, tmp_path / run)
        trainer.run(until=reached + 4)
        trainer.save()
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "killed"))


def test_two_ranks_share_weights_and_keep_their_own_chains(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(RUN + "Trainer(tiny_config(), tiny_data(), sys.argv[1]).run()\n")
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",  # on a port that is free
        "--nproc-per-node",
        "2",
    ]
    root = Path(__file__).parents[2]
    environment = {
        "PYTHONPATH": ":".join([str(root), *sys.path]),
        "PATH": "/usr/bin:/bin",
        "OMP_NUM_THREADS": "1",
    }
    subprocess.run([*command, str(script), str(tmp_path / "run")], check=True, cwd=root, env=environment)
    header = load(tmp_path / "run" / MODEL_FILE).header
    assert (header["ranks"], header["step"]) == (2, 12)
    chains = [load(path).tensors["ids"] for path in sorted((tmp_path / "run").glob("chains-*"))]
    assert len(chains) == 2
    assert not torch.equal(*chains)
    with pytest.raises(UserError, match="2 processes"):
        Trainer(tiny_config(), tiny_data(), tmp_path / "run")


def test_a_run_can_be_read_without_its_data(tmp_path: Path, data: Snapshots) -> None:
    trained = Trainer(tiny_config(), data, tmp_path).run()
    again, config, header = load_run(tmp_path)
    assert config == tiny_config()
    assert header["data"]["lattice"]["shape"] == [24, 24]
    expected, found = trained.of_states([data[0]]), again.of_states([data[0]])
    assert torch.equal(expected.total, found.total)


def test_a_run_of_the_first_version_is_continued(
    tmp_path: Path, data: Snapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its headers knew neither lattices nor orders; its tensors have kept their names."""
    config = tiny_config()
    Trainer(config, data, tmp_path / "whole").run()
    trainer = Trainer(config, data, tmp_path / "old")
    trainer.run(until=4)
    trainer.save()
    for path in (tmp_path / "old").glob("*.safetensors"):
        saved = load(path)
        if "data" in saved.header:
            described = saved.header["data"]
            described.pop("means")
            described |= {"boundary": "periodic", "lattice": described["lattice"]["shape"]}
            for key in ("order", "terms", "members"):
                saved.header["config"]["model"].pop(key)
            saved.header["config"]["objective"].pop("push")
        monkeypatch.setattr(checkpoint, "VERSION", 1)
        checkpoint.save(path, saved)
        monkeypatch.undo()
    Trainer(config, data, tmp_path / "old").run()
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "old"))


def test_another_configuration_or_other_data_is_refused(tmp_path: Path, data: Snapshots) -> None:
    Trainer(tiny_config(optimizer={"steps": 2}), data, tmp_path).run()
    with pytest.raises(UserError, match=r"another \[optimizer\]"):
        Trainer(tiny_config(), data, tmp_path)
    other = Snapshots(data.ids[:, :20, :20] * 0 + 1, data.types, data.type_names)
    with pytest.raises(UserError, match="other data"):
        Trainer(tiny_config(optimizer={"steps": 2}), other, tmp_path)


def test_divergence_stops_the_run_and_keeps_the_last_checkpoint(tmp_path: Path, data: Snapshots) -> None:
    config = tiny_config(run={"max_gap": 1e-9, "checkpoint_every": 2}, objective={"kind": "pcd"})
    with pytest.raises(TrainingDiverged, match="diverged at step 2"):
        Trainer(config, data, tmp_path).run()
    assert load(tmp_path / MODEL_FILE).header["step"] == 2


@pytest.mark.parametrize("start", ["mixed", "data"])
def test_members_contrast_chains_that_never_were_data_from_where_they_stand(data: Snapshots, start: str) -> None:
    config = make_config(
        {
            "model": {"preset": "graph1-closure", "members": 3, "freeze_symbolic": True},
            "warmstart": {"symbolic": False},
            "objective": {"kind": "conditional"},
            "sampler": {"pool": 4},
            "chains": [{"start": start, "reset": 1.0, "sweeps": [2]}],
            "optimizer": {"steps": 4, "batch": 4, "refresh": 2},
        }
    )
    trainer = Trainer(config, data)
    with torch.no_grad():
        for member, loudness in zip(trainer.hamiltonian.network.members, (0.0, 300.0, -300.0), strict=True):
            member.out.weight.mul_(loudness)
    trainer._sample()
    loss = trainer._descend()[0]["loss"]
    assert loss == pytest.approx(np.log(2)) if start == "mixed" else loss > 1


def test_the_regularizer_bounds_the_gap(data: Snapshots) -> None:
    """One pair of datum and chain: the penalty is ρ times the square of their difference in energy, over T²."""
    seen: list[dict[str, float]] = []
    for strength in (0.0, 0.25):
        config = tiny_config(
            objective={"kind": "pcd", "regularizer": strength, "regularize": "gap"},
            optimizer={"steps": 1, "batch": 1, "refresh": 1},
            run={"log_every": 1},
        )
        Trainer(config, data).run(lambda report: seen.append(report.values))
    free, bound = seen
    assert free["gap"] == bound["gap"] != 0
    assert bound["loss"] - free["loss"] == pytest.approx(0.25 * free["gap"] ** 2)


def test_contrastive_divergence_finds_the_volume_energy(data: Snapshots) -> None:
    """From λ = 0.05, ten times too soft: chains that leave the data tell."""
    config = tiny_config(
        model={"preset": "cellsort", "freeze_symbolic": False, "target_volume": RECIPE.target},
        warmstart={"symbolic": False, "steps": 0},
        objective={"kind": "pcd", "regularizer": 0.0},
        sampler={"pool": 8},
        optimizer={"steps": 60, "batch": 8, "refresh": 1, "lr": 0.1, "clip": 100.0},
    )
    found = named_parameters(Trainer(config, data).run())["lambda"]
    assert RECIPE.strength / 2 < found < RECIPE.strength * 2


def test_the_split_is_disjoint_and_depends_on_the_seed(data: Snapshots) -> None:
    kept, held = split(data, 0.25, seed=1)
    assert (len(kept), len(held)) == (6, 2)
    both = np.concatenate([kept.ids, held.ids])
    assert sorted(a.tobytes() for a in both) == sorted(a.tobytes() for a in data.ids)
    assert not np.array_equal(split(data, 0.25, seed=2)[1].ids, held.ids)
