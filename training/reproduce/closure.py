"""What the closure experiments share: a closure and an analytic baseline trained on the same data by chains from the
same starts, sampled from mixed states, measured side by side."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.metrics import summary
from neuralcpm_bridge.sampling import GROWTH_MCS, sample_from_mixed
from neuralcpm_bridge.snapshots import Snapshots

from ..config import Config, make_config
from ..fit import Narrator, Wanted, fit
from ..hamiltonians import Hamiltonian
from ..samplers import model_of
from ..trainer import Trainer
from .curves import draw_curves
from .setting import Setting


@dataclass(frozen=True)
class Plan:
    """Sizes of one experiment. `mcs` is how long samples run from their mixed start, `sweeps` a chain per round.

    `regularizer` ρ bounds the energy gap between chains and data to 1 / 4ρ where chains are too slow to close it:
    many cells that have to change places. There `trades` lets them do so while training, `sample_trades` while
    sampling too, and `staged` makes chains several times faster. `push` bounds what a cell graph adds to single flips.
    """

    preset: str = "graph1-closure"
    temperature: float = 1.0
    steps: int = 450
    baseline_steps: int = 300
    pool: int = 24
    batch: int = 12
    refresh: int = 2
    lr: float = 3e-3
    decay: float = 0.3
    regularizer: float = 0.0
    push: float | None = None
    averaging: float = 0.9
    sweeps: int = 6
    reset: float = 0.02
    staged: bool = False
    trades: int = 0
    padding: str | None = None
    warm_steps: int = 64
    warm_sweeps: tuple[int, ...] = (1, 4, 16, 64)
    replicates: int = 32
    mcs: int = 600
    sample_trades: int = 0
    symmetries: bool = False

    def tree(self, setting: Setting) -> dict[str, Any]:
        """What closure and baseline have in common.

        A third of the chains leaves the data anew each round and keeps the energy right where the data are; the
        others started from scattered cells and persist: they find every basin that is not in the data.
        """
        return {
            "data": {"holdout": 0.1, "symmetries": self.symmetries},
            "sampler": {
                "kind": "exact",
                "pool": self.pool,
                "threads": setting.threads,
                "temperature": self.temperature,
                "staged": self.staged,
                "trades": self.trades,
            },
            "chains": [
                {"share": 1, "start": "data", "reset": 1.0, "sweeps": [1, 2, 4]},
                {"share": 2, "start": "mixed", "reset": self.reset, "sweeps": [self.sweeps]},
            ],
            "run": {"seed": setting.seed, "log_every": 10, "checkpoint_every": 50},
        }

    def closure(self, setting: Setting) -> Config:
        """H_S stays at its single-flip fit: trained along, w_S and J run away before the network bites."""
        return make_config(
            self.tree(setting)
            | {
                "model": {"preset": self.preset, "freeze_symbolic": True, "padding": self.padding},
                "warmstart": {"steps": self.warm_steps, "sweeps": list(self.warm_sweeps)},
                "objective": {
                    "kind": "conditional",
                    "regularizer": self.regularizer,
                    "regularize": "gap",
                    "push": self.push,
                },
                "optimizer": {
                    "steps": self.steps,
                    "batch": self.batch,
                    "refresh": self.refresh,
                    "lr": self.lr,
                    "decay": self.decay,
                    "clip": 10.0,
                    "averaging": self.averaging,
                },
            }
        )

    def baseline(self, setting: Setting) -> Config:
        """Contact and volume energies alone, trained by the same chains to convergence."""
        return make_config(
            self.tree(setting)
            | {
                "model": {"preset": "cellsort"},
                "objective": {"kind": "pcd"},
                "optimizer": {
                    "steps": self.baseline_steps,
                    "batch": self.pool,
                    "lr": 0.02,
                    "decay": 0.7,
                    "averaging": 0.95,
                },
            }
        )


@dataclass(frozen=True)
class ByFit:
    """`neuralcpm fit`'s own choices, in so many minutes; fresh samples of both its models by copies alone, as old as
    those that it judges by."""

    minutes: float
    replicates: int


class Trained(NamedTuple):
    """Both models, and what training the closure cost: processor seconds of all its threads."""

    closure: Hamiltonian
    baseline: Hamiltonian
    processor_seconds: float


class Outcome(NamedTuple):
    """Both models and samples of each, by name; `found`: what a fit says of itself."""

    models: Trained
    drawn: dict[str, Snapshots]
    found: dict[str, Any]


def carry_out(plan: Plan | ByFit, data: Snapshots, setting: Setting) -> Outcome:
    """Train both models and sample them from mixed starts."""
    if isinstance(plan, Plan):
        models = train_both(plan, data, setting)
        return Outcome(models, sample_both(models, plan, data, setting), {})
    began = time.process_time()
    with TemporaryDirectory() as temporary:
        folder = setting.run_folder("fit") or Path(temporary)
        wanted = Wanted(plan.minutes, seed=setting.seed, threads=setting.threads)
        fitted = fit(data, folder, wanted, Narrator(setting.tell, setting.progress))
    models = Trained(fitted.closure, fitted.baseline, time.process_time() - began)
    steps = int(fitted.found["sample_mcs"]) - GROWTH_MCS
    kept = ("verdict", "adds", "rounds", "distances", "sample_mcs", "settled", "steps", "events", "seconds")
    as_fitted = Plan(replicates=plan.replicates, mcs=steps)
    return Outcome(
        models, sample_both(models, as_fitted, data, setting), {"fit": {key: fitted.found[key] for key in kept}}
    )


def train_both(plan: Plan, data: Snapshots, setting: Setting) -> Trained:
    def train(name: str, config: Config) -> Hamiltonian:
        return Trainer(config, data, setting.run_folder(name)).run(setting.show(name))

    began = time.process_time()
    closure = train("closure", plan.closure(setting))
    seconds = time.process_time() - began
    return Trained(closure, train("baseline", plan.baseline(setting)), seconds)


def sample_both(models: Trained, plan: Plan, data: Snapshots, setting: Setting) -> dict[str, Snapshots]:
    """Snapshots of both models from mixed starts."""
    drawn = {}
    for name, model in (("closure", models.closure), ("baseline", models.baseline)):
        setting.tell(f"{name}: sampling {plan.replicates} chains of {plan.mcs} MCS")
        drawn[name] = sample_from_mixed(
            model_of(model, plan.temperature),
            data,
            plan.replicates,
            plan.mcs,
            seed=setting.seed,
            threads=setting.threads,
            staged=plan.staged,
            trades=plan.sample_trades,
        )
        if setting.folder is not None:
            drawn[name].save(setting.folder / f"{name}.npz")
    return drawn


def measured(drawn: dict[str, Snapshots], data: Snapshots) -> dict[str, Any]:
    """Every measure of closure, baseline and data."""
    return {name: summary(states, data) for name, states in {**drawn, "data": data}.items()}


def picture(drawn: dict[str, Snapshots], data: Snapshots, setting: Setting, title: str) -> None:
    """Four states each of data, closure and baseline, where a folder is given and Pillow is installed."""
    if setting.folder is None:
        return
    draw_curves(
        setting.run_folder("fit/closure" if setting.scale == "fit" else "closure"),
        ["gap"],
        "learning.png",
        title=f"{title}: energy gap",
    )
    from neuralcpm_bridge.pictures import contact_sheet

    shown = {"data": data, **drawn}
    states = [states[k] for states in shown.values() for k in range(min(4, len(states)))]
    captions = [name for name, states in shown.items() for _ in range(min(4, len(states)))]
    try:
        sheet = contact_sheet(states, captions, 4, title, data.type_names)
    except UserError as error:
        setting.tell(str(error))  # results do not depend on pictures
        return
    sheet.save(setting.folder / "states.png")
