"""Training: rounds of sampling chains under the model as it is, and of steps down the contrast with data."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuralcpm_bridge.errors import UserError, reading
from neuralcpm_bridge.sampling import drawn_evenly
from neuralcpm_bridge.snapshots import Snapshots

from . import checkpoint as checkpoints
from .build import Description, build_hamiltonian, learn_statistics
from .chains import Chains, Starts, turned
from .config import ChainSection, Config
from .hamiltonians import CellGraph, Hamiltonian
from .logs import RunLog, named_parameters
from .objective import Pairs
from .pushes import Pushes
from .rails import Rails
from .ranks import Ranks
from .samplers import make_sampler
from .warmstart import fit_analytic

CALMER = 0.5
"""Factor on the rate when a run goes back to its last good weights."""


class TrainingDiverged(UserError):
    """A run left the rails more often than it may; the last checkpoint holds the weights from before."""


@dataclass(frozen=True)
class Good:
    """Where a run can go back to."""

    step: int
    weights: dict[str, Tensor]
    averaged: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    chains: Snapshots | None


@dataclass
class Report:
    """What a progress display shows after a step."""

    step: int
    steps: int
    values: dict[str, float]


class Pace:
    """Seconds per step over the last steps; the first round, in which all chains settle, says nothing."""

    REMEMBERED = 40

    def __init__(self) -> None:
        self.times: list[tuple[int, float]] = []

    def at(self, step: int) -> float | None:
        """Where a round begins; None as long as nothing is known."""
        if self.times and len(self.times) == self.REMEMBERED:
            self.times.pop(0)
        self.times.append((step, time.monotonic()))
        known = self.times[1:]
        if len(known) < 2:
            return None
        (first, began), (last, now) = known[0], known[-1]
        return (now - began) / (last - first)


class Trainer:
    """One training run. `folder` (optional) receives checkpoints and logs, and an interrupted run continues from it."""

    def __init__(
        self,
        config: Config,
        snapshots: Snapshots,
        folder: str | Path | None = None,
        hamiltonian: Hamiltonian | None = None,
        starts: Starts | None = None,
    ) -> None:
        self.config, self.folder = config, None if folder is None else Path(folder)
        snapshots = snapshots.reading(config.model.properties)
        self.ranks = Ranks.joined()
        self.described = Description.of(snapshots, config.model)
        self.train, self.holdout = split(snapshots, config.data.holdout, config.run.seed)
        torch.manual_seed(config.run.seed)
        resuming = self.folder is not None and (self.folder / checkpoints.MODEL_FILE).exists()
        self.hamiltonian = hamiltonian or self._fresh_model(warm=config.warmstart.symbolic and not resuming)
        self.averaged = {key: value.detach().clone() for key, value in self.hamiltonian.state_dict().items()}
        self.optimizer = self._make_optimizer()
        self.pushes = self._make_pushes()
        sampler = config.sampler
        self.sampler = make_sampler(sampler)
        self.chains = Chains(config.chains, sampler.pool, starts)
        fresh = ChainSection(start="data", reset=1.0, sweeps=config.warmstart.sweeps)
        self.warmup_chains = Chains((fresh,), sampler.pool)
        self.step, self.steps = 0, config.optimizer.steps
        self.evaluations, self.seconds = 0, 0.0
        self.calm, self.events = 1.0, list[str]()
        self.rails = Rails(config.run, odds=config.objective.kind == "conditional")
        self.good = self._copied()
        self.member_weights = self._member_weights()
        self.pool: Pairs
        self.reference: Tensor | None
        self.weights: Tensor | None
        self.log = RunLog(self.folder if self.ranks.first else None)
        if self.folder is not None and resuming:
            self._resume(self.folder)

    # -- the model ---------------------------------------------------------------------------------------------

    def _fresh_model(self, warm: bool) -> Hamiltonian:
        hamiltonian = build_hamiltonian(self.config.model, self.described)
        if isinstance(hamiltonian.network, CellGraph):
            learn_statistics(hamiltonian.network, self.train)
        if warm and hamiltonian.symbolic is not None:
            temperature, seed = self.config.sampler.temperature, self.config.run.seed
            fit_analytic(hamiltonian.symbolic, self.train, temperature=temperature, seed=seed).put_into(
                hamiltonian.symbolic
            )
        return hamiltonian

    def _make_optimizer(self) -> torch.optim.AdamW:
        settings = self.config.optimizer
        named = [(name, p) for name, p in self.hamiltonian.named_parameters() if p.requires_grad]
        symbolic = [p for name, p in named if name.startswith("symbolic.")]
        other = [p for name, p in named if not name.startswith("symbolic.")]
        groups: list[dict[str, Any]] = [
            {"params": symbolic, "lr": settings.symbolic_lr or settings.lr, "weight_decay": 0.0},
            {"params": other, "lr": settings.lr, "weight_decay": settings.weight_decay},
        ]
        return torch.optim.AdamW([group for group in groups if group["params"]])

    def _make_pushes(self) -> Pushes | None:
        if self.config.objective.push is None:
            return None
        if not isinstance(self.hamiltonian.network, CellGraph):
            raise UserError(
                "objective.push bounds what a cell graph adds to single flips, but the preset "
                f"{self.config.model.preset!r} has none: leave it out, or use a preset such as graph1-closure."
            )
        return Pushes(self.hamiltonian.network, self.train, self.config.objective.push, self.config.run.seed)

    def _member_weights(self) -> Tensor | None:
        """Of every training state for every member, with the mean 1 (the Bayesian bootstrap): members that see the data
        differently differ where the data leave it open."""
        if not self.config.objective.bootstrap:
            return None
        drawn = np.random.default_rng([self.config.run.seed, 19]).exponential(
            size=(len(self.train), self.config.model.members)
        )
        return torch.from_numpy(drawn / drawn.mean(0))

    def averaged_model(self) -> Hamiltonian:
        """The Hamiltonian with averaged weights (the current ones where averaging is 0)."""
        model = copy.deepcopy(self.hamiltonian)
        if self.config.optimizer.averaging > 0:
            model.load_state_dict(self.averaged)
        return model

    def last_good(self) -> Hamiltonian:
        """The averaged weights that a run that left the rails would go back to."""
        model = copy.deepcopy(self.hamiltonian)
        model.load_state_dict(self.good.averaged)
        return model

    # -- training ----------------------------------------------------------------------------------------------

    def run(
        self,
        show: Callable[[Report], None] | None = None,
        until: int | None = None,
        deadline: float | None = None,
    ) -> Hamiltonian:
        """Train to the last step (or `until`), writing checkpoints; the averaged model.

        `deadline`, of `time.monotonic`: steps become fewer where their time would not suffice.
        """
        threads = torch.get_num_threads()
        if isinstance(self.hamiltonian.network, CellGraph):
            torch.set_num_threads(1)  # some hundred cells: several threads would wait more than they work
        try:
            return self._train(show, until, deadline)
        finally:
            torch.set_num_threads(threads)

    def _train(self, show: Callable[[Report], None] | None, until: int | None, deadline: float | None) -> Hamiltonian:
        refresh, every = self.config.optimizer.refresh, self.config.run.checkpoint_every
        pace = Pace()
        while self.step < min(until or self.steps, self.steps):
            started = time.perf_counter()
            if self.step % refresh == 0:
                # Checkpoints are taken where a round begins: nothing of a round has to be kept.
                if self.step and self.step // every != (self.step - refresh) // every:
                    self.save()
                if deadline is not None and (seconds := pace.at(self.step)) is not None:
                    self._keep_to(deadline, seconds)
                self._sample()
            values, trouble = self._descend()
            self.seconds += time.perf_counter() - started
            if trouble is not None:
                self._go_back(trouble)
                pace = Pace()
                continue
            self.step += 1
            if self.step % self.config.run.log_every == 0 or self.step == min(until or self.steps, self.steps):
                values |= {"seconds": self.seconds, "evaluations_per_s": self.evaluations / self.seconds}
                values |= self._held_out()
                self.log.write(self.step, values | named_parameters(self.hamiltonian))
                if show is not None:
                    show(Report(self.step, self.steps, values))
        if self.step == self.steps:
            self.save()
        return self.averaged_model()

    def _keep_to(self, deadline: float, seconds_per_step: float) -> None:
        """Plan no more steps than there is time for; all ranks the same."""
        affordable = self.step + int((deadline - time.monotonic()) / seconds_per_step)
        refresh = self.config.optimizer.refresh
        fewer = max(self.step + refresh, affordable // refresh * refresh)
        self.steps = self.ranks.agreed(min(self.steps, fewer))

    def _sample(self) -> None:
        """One round: data to compare with, chains advanced under the model as it is."""
        settings = self.config
        rng = np.random.default_rng([settings.run.seed, self.ranks.rank, self.step])
        drawn = drawn_evenly(settings.sampler.pool, len(self.train), rng)
        data = self.train.chosen(drawn)
        if settings.data.symmetries:
            data = turned(data, rng)
        warming = self.step < settings.warmstart.steps
        chains = self.warmup_chains if warming else self.chains
        reference = without_network(self.hamiltonian) if warming else self.hamiltonian
        moves = chains.advance(reference, self.sampler, data, rng)
        self.evaluations += moves.proposals
        assert chains.states is not None
        self.pool = Pairs.of(self.hamiltonian, data, chains.states)
        self.reference = None
        if settings.objective.kind == "conditional":
            parts = torch.arange(settings.sampler.pool).split(settings.optimizer.batch)
            with torch.no_grad():
                gaps = torch.cat([self.pool.chosen(part).energies(reference).gap for part in parts])
            # Where a chain has just left its datum, the odds of both under the committee's mean, by which it moved,
            # are known. Others have nothing to do with their datum: every member contrasts them from where it stands
            # itself. Members whose energies of such states lie far apart would drive each other up without end.
            left = torch.from_numpy(chains.leave_their_data)[:, None]
            self.reference = torch.where(left, gaps.mean(1, keepdim=True), gaps)
        self.weights = None if self.member_weights is None else self.member_weights[torch.from_numpy(drawn)]
        self.acceptance = moves.acceptance
        self.rails.new_round(self.acceptance)

    def _descend(self) -> tuple[dict[str, float], str | None]:
        """One step of the optimizer, unless it shows what is wrong."""
        settings = self.config
        rng = np.random.default_rng([settings.run.seed, self.ranks.rank, self.step, 1])
        which = torch.from_numpy(np.sort(rng.permutation(settings.sampler.pool)[: settings.optimizer.batch]))
        temperature, pushed = settings.sampler.temperature, {}
        energies = self.pool.chosen(which).energies(self.hamiltonian)
        gap = energies.gap / temperature
        reference = None if self.reference is None else self.reference[which]
        weights = None if self.weights is None else self.weights[which]
        loss = energies.loss(settings.objective, temperature, reference, weights)
        if self.pushes is not None:
            excess, push = self.pushes.excess(self.hamiltonian, temperature, self.step)
            loss, pushed = loss + excess, {"push": push}
        trouble = self.rails.trouble(loss.item(), gap.mean().item(), self.acceptance)
        if trouble is not None:
            return {}, trouble
        self.optimizer.zero_grad()
        loss.backward()
        self.ranks.average_gradients(self.hamiltonian)
        if settings.optimizer.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.hamiltonian.parameters(), settings.optimizer.clip)
        for group in self.optimizer.param_groups:
            group["initial_lr"] = group.get("initial_lr", group["lr"])
            group["lr"] = group["initial_lr"] * self._rate(self.step)
        self.optimizer.step()
        self._average()
        values = {
            "loss": loss.item(),
            "energy_data": energies.total.chunk(2)[0].mean().item(),
            "energy_chains": energies.total.chunk(2)[1].mean().item(),
            "gap": gap.mean().item(),
            "acceptance": self.acceptance,
            "rate": self._rate(self.step),
            **pushed,
        }
        return values, None

    def _held_out(self) -> dict[str, float]:
        """Energy of states never trained on: where it rises above that of the data, the model learns by heart."""
        if not len(self.holdout):
            return {}
        states = [self.holdout[index] for index in range(min(len(self.holdout), self.config.optimizer.batch))]
        with torch.no_grad():
            return {"energy_holdout": self.hamiltonian.of_states(states).total.mean().item()}

    def _rate(self, step: int) -> float:
        """1, then a cosine to zero over the last `decay` of the steps; less where the run has gone back."""
        begin = self.steps * (1 - self.config.optimizer.decay)
        if step < begin:
            return self.calm
        return self.calm * 0.5 * (1 + math.cos(math.pi * (step - begin) / max(self.steps - begin, 1)))

    def _average(self) -> None:
        keep = self.config.optimizer.averaging
        # Young averages forget faster: the first steps are no good company.
        keep = min(keep, (1 + self.step) / (10 + self.step)) if keep else 0.0
        with torch.no_grad():
            for key, value in self.hamiltonian.state_dict().items():
                self.averaged[key].mul_(keep).add_(value, alpha=1 - keep)

    def _copied(self) -> Good:
        def copies(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
            return {key: value.detach().clone() for key, value in tensors.items()}

        chains = self.chains.states
        return Good(
            self.step,
            copies(self.hamiltonian.state_dict()),
            copies(self.averaged),
            copies(checkpoints.optimizer_tensors(self.optimizer)),
            None if chains is None else chains.chosen(np.arange(len(chains))),
        )

    def _go_back(self, trouble: str) -> None:
        """To the last good weights, at half the rate; a run that does so too often ends."""
        if len(self.events) >= self.config.run.rollbacks:
            kept = f"the weights of step {self.good.step} are kept" + (f" in {self.folder}" if self.folder else "")
            raise TrainingDiverged(
                f"Training diverged at step {self.step}: {trouble}; {kept}; lower optimizer.lr, clip gradients or "
                "freeze the symbolic part."
            )
        self.events.append(f"step {self.step}: {trouble}; back to step {self.good.step}, at half the rate")
        good, self.calm = self.good, self.calm * CALMER
        self.step, self.rails.suspicious = good.step, 0
        self.hamiltonian.load_state_dict(good.weights)
        self.averaged = {key: value.clone() for key, value in good.averaged.items()}
        checkpoints.restore_optimizer(self.optimizer, good.optimizer)
        self.chains.states = None if good.chains is None else good.chains.chosen(np.arange(len(good.chains)))
        self.log.cut_after(self.step)

    # -- checkpoints -------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write a checkpoint: chains of every rank first, then the model file that makes it count."""
        if self.rails.suspicious == 0:
            self.good = self._copied()
        if self.folder is None:
            return
        chains: dict[str, Tensor] = {}
        if (states := self.chains.states) is not None:
            chains = {key: torch.from_numpy(getattr(states, key)) for key in ("ids", "types", "properties")}
        checkpoints.save(
            checkpoints.chain_file(self.folder, self.step, self.ranks.rank),
            checkpoints.Checkpoint(chains, {}),
        )
        self.ranks.wait()
        if self.ranks.first:
            tensors = {f"model.{key}": value for key, value in self.hamiltonian.state_dict().items()}
            tensors |= {f"averaged.{key}": value for key, value in self.averaged.items()}
            tensors |= {
                f"optimizer.{key}": value for key, value in checkpoints.optimizer_tensors(self.optimizer).items()
            }
            header = {
                "step": self.step,
                "evaluations": self.evaluations,
                "seconds": self.seconds,
                "ranks": self.ranks.count,
                "steps": self.steps,
                "calm": self.calm,
                "events": self.events,
                "acceptances": self.rails.acceptances,
                "config": self.config.model_dump(mode="json"),
                "data": self.described.model_dump(mode="json"),
            }
            checkpoints.save(self.folder / checkpoints.MODEL_FILE, checkpoints.Checkpoint(tensors, header))
        self.ranks.wait()
        checkpoints.remove_older_chains(self.folder, self.step, self.ranks.rank)

    def _resume(self, folder: Path) -> None:
        saved = checkpoints.load(folder / checkpoints.MODEL_FILE)
        mine, theirs = self.config.model_dump(mode="json"), saved.header["config"]
        mine["data"]["path"] = theirs["data"]["path"]  # the same data may have moved
        differs = [key for key in mine if key != "run" and mine[key] != theirs[key]]
        if mine["run"]["seed"] != theirs["run"]["seed"]:
            differs.append("run")
        if differs or saved.header["data"] != self.described.model_dump(mode="json"):
            what = f"another [{differs[0]}]" if differs else "other data"
            raise UserError(
                f"{folder} holds a run with {what} than this one: choose a new folder, or the old configuration."
            )
        if saved.header["ranks"] != self.ranks.count:
            raise UserError(
                f"{folder} holds a run of {saved.header['ranks']} processes, but {self.ranks.count} were started: "
                "start as many."
            )
        self.hamiltonian.load_state_dict(saved.part("model"))
        self.averaged = saved.part("averaged")
        checkpoints.restore_optimizer(self.optimizer, saved.part("optimizer"))
        self.step, self.evaluations = saved.header["step"], saved.header["evaluations"]
        self.seconds, self.steps = saved.header["seconds"], saved.header["steps"]
        self.calm, self.events = saved.header["calm"], saved.header["events"]
        self.rails.acceptances = saved.header["acceptances"]
        chains = checkpoints.load(checkpoints.chain_file(folder, self.step, self.ranks.rank)).tensors
        if chains:
            # Runs of older versions kept no properties, because they had none.
            arrays: dict[str, Any] = {"properties": None} | {key: value.numpy() for key, value in chains.items()}
            self.chains.states = replace(self.train, arrays={}, **arrays)
        self.good = self._copied()
        self.log.cut_after(self.step)


def split(snapshots: Snapshots, holdout: float, seed: int) -> tuple[Snapshots, Snapshots]:
    """Training and held-out states, drawn once per seed."""
    order = np.random.default_rng([seed, 7]).permutation(len(snapshots))
    count = min(round(holdout * len(snapshots)), len(snapshots) - 1)

    return snapshots.chosen(np.sort(order[count:])), snapshots.chosen(np.sort(order[:count]))


def without_network(hamiltonian: Hamiltonian) -> Hamiltonian:
    """The analytic part alone, sharing its parameters."""
    if hamiltonian.symbolic is None:
        raise UserError("warmstart.steps needs contact and volume energies to leave the data with: use a closure.")
    names, symbolic = hamiltonian.type_names, hamiltonian.symbolic
    return Hamiltonian(names, symbolic, lattice=hamiltonian.lattice, cells=hamiltonian.cells)


def load_run(folder: str | Path) -> tuple[Hamiltonian, Config, dict[str, Any]]:
    """Model (averaged), configuration and header of a run's last checkpoint."""
    file = Path(folder) / checkpoints.MODEL_FILE
    saved = checkpoints.load(file)
    with reading(file, "a checkpoint of this program", "start the run anew"):
        config = Config.model_validate(saved.header["config"])
        described = Description.model_validate(saved.header["data"])
        hamiltonian = build_hamiltonian(config.model, described)
        hamiltonian.load_state_dict(saved.part("averaged" if config.optimizer.averaging > 0 else "model"))
    return hamiltonian, config, saved.header
