"""H_S from data, without a setting: a neighbour order and energies from single flips, checked by chains and corrected
by them; and the analytic baseline, the same terms trained until chains from scattered starts have the data's
moments."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.lattice import boundary_text
from neuralcpm_bridge.snapshots import Snapshots

from ..build import Description, build_hamiltonian
from ..chains import Chains
from ..config import ChainSection, ModelSection
from ..hamiltonians import Hamiltonian, States
from ..samplers import ExactChains
from ..warmstart import fit_analytic

ORDERS = (1, 2, 3, 4)
FLIPS_FOR_ORDERS = 40
"""States from which the neighbour order is chosen: its loss differs by per cents, and is known to a tenth of one."""
COLDEST = 0.06
"""Least share of accepted copies with which chains still explore: data with smoother outlines are fitted warmer."""
THAW = 0.8
CHECK_MCS = 24
"""Monte Carlo steps that chains leave the data by when volumes are checked: each site has been asked many times."""
SPREAD_OFF, MEAN_OFF = 1.3, 0.05
"""Factor of a type's spread of volumes, and share of its mean, from which volumes need a correction by chains."""
TRUST = 1.0
"""Largest step of a round, in standard deviations of the energies it changes."""


@dataclass(frozen=True)
class Start:
    """H_S and how it was found: the neighbour order, sentences about corrections, the share of copies accepted."""

    hamiltonian: Hamiltonian
    section: ModelSection
    said: tuple[str, ...]
    acceptance: float


@dataclass(frozen=True)
class Given:
    """Analytic energies of somebody's own project, in units of its temperature, that stay as they are; `not_read`: what
    else acts on cells there."""

    hamiltonian: Hamiltonian
    source: str = ""
    temperature: float = 1.0
    not_read: tuple[str, ...] = ()

    def told(self) -> dict[str, Any]:
        """As the model file and fit.json have it."""
        return {"like": self.source, "like_temperature": self.temperature, "not_read": list(self.not_read)}


def analytic_start(data: Snapshots, section: ModelSection, seed: int, threads: int) -> Start:
    """Contact energies and by type a volume constraint, strength and target, from single flips, checked by chains."""
    section = section.model_copy(update={"order": section.order or best_order(data, section, seed)})
    hamiltonian = fresh(data, section)
    fit_flips(hamiltonian, data, seed)
    said = []
    acceptance, after = leave_data(hamiltonian, data, seed, threads)
    if volumes_drift(after, data):
        correct_volumes(hamiltonian, data, seed, threads)
        acceptance, _ = leave_data(hamiltonian, data, seed, threads)
        said.append("volume constraints from single flips did not hold the data's volumes and were corrected by chains")
    factor = 1.0
    while acceptance < COLDEST and factor > 0.05:
        factor *= THAW
        warmer(hamiltonian, THAW)
        acceptance, _ = leave_data(hamiltonian, data, seed, threads)
    if factor < 1:
        said.append(
            f"outlines are smoother than those of cells that fluctuate: energies were multiplied by {factor:.2g}, so "
            "that cells move"
        )
    return Start(hamiltonian, section, tuple(said), acceptance)


def given_start(like: Hamiltonian, data: Snapshots, seed: int, threads: int) -> Start:
    """H_S as somebody wrote it; said where data do not stay as they are under it."""
    acceptance, after = leave_data(like, data, seed, threads)
    said = []
    if volumes_drift(after, data):
        said.append("under the given energies the data's volumes do not last: the closure has to correct that too")
    orders = like.orders
    section = ModelSection(preset="cellsort", order=orders.get("contact"))
    return Start(like, section, tuple(said), acceptance)


def check_like(like: Hamiltonian, data: Snapshots) -> None:
    """Refuse energies of another lattice or of other types than the data's."""
    lattice = data.lattice
    if (like.lattice.geometry, tuple(like.lattice.boundary)) != (lattice.geometry.name, lattice.boundary):
        raise UserError(
            f"The data lie on a {lattice.geometry.name} lattice with the boundary {boundary_text(lattice.boundary)}, "
            f"but the given model on a {like.lattice.geometry} one with {boundary_text(tuple(like.lattice.boundary))}: "
            "import the data on the model's lattice."
        )
    count = int(data.types.max()) + 1
    if count > len(like.type_names):
        raise UserError(
            f"The data have {count - 1} types of cells, but the given model {len(like.type_names) - 1}: give the model "
            "all types of the data."
        )


def fresh(data: Snapshots, section: ModelSection) -> Hamiltonian:
    return build_hamiltonian(section, Description.of(data, section))


def fit_flips(hamiltonian: Hamiltonian, data: Snapshots, seed: int) -> float:
    """Energies from single flips; the mean loss per flip."""
    assert hamiltonian.symbolic is not None
    found = fit_analytic(hamiltonian.symbolic, data, seed=seed)
    found.put_into(hamiltonian.symbolic)
    return found.loss


def best_order(data: Snapshots, section: ModelSection, seed: int) -> int:
    """The neighbour order of contacts under which the data's outlines are most probable."""
    few = data.chosen(np.arange(min(len(data), FLIPS_FOR_ORDERS)))
    losses = {}
    for order in ORDERS:
        hamiltonian = fresh(few, section.model_copy(update={"order": order}))
        losses[order] = fit_flips(hamiltonian, few, seed)
    return min(losses, key=lambda order: losses[order])


def leave_data(hamiltonian: Hamiltonian, data: Snapshots, seed: int, threads: int) -> tuple[float, Snapshots]:
    """Share of copies accepted by chains that leave the data, and where they arrive."""
    ended, moves = ExactChains(threads=threads).on(hamiltonian)(data, CHECK_MCS, seed)
    return moves.acceptance, ended


def volumes_drift(after: Snapshots, before: Snapshots) -> bool:
    """Whether chains have other volumes than the data they left, in mean or spread, of any type."""
    for now, then in zip(_volumes(after), _volumes(before), strict=True):
        if then.size < 2:
            continue
        spread = max(then.std(), 0.5)  # volumes are whole numbers
        if abs(now.mean() - then.mean()) > max(MEAN_OFF * then.mean(), spread):
            return True
        if not 1 / SPREAD_OFF <= max(now.std(), 0.5) / spread <= SPREAD_OFF:
            return True
    return False


def _volumes(data: Snapshots) -> list[np.ndarray]:
    every = [(state.volumes[state.cells], state.types[state.cells]) for state in data]
    volumes, types = (np.concatenate(columns) for columns in zip(*every, strict=True))
    return [volumes[types == number] for number in range(1, int(data.types.max()) + 1)]


def warmer(hamiltonian: Hamiltonian, factor: float) -> None:
    """All analytic energies times a factor."""
    assert hamiltonian.symbolic is not None
    hamiltonian.symbolic.weight.set(hamiltonian.symbolic.weight().detach() * factor)


# -- moments by chains ---------------------------------------------------------------------------------------------


def correct_volumes(hamiltonian: Hamiltonian, data: Snapshots, seed: int, threads: int, rounds: int = 12) -> None:
    """Volume constraints under which chains that leave the data keep its volumes; contact energies stay."""
    volume = hamiltonian.terms["volume"]
    volume.requires_grad_(True)
    chains = Chains((ChainSection(start="data", reset=1.0, sweeps=(float(CHECK_MCS),)),), min(len(data), 64))
    match_moments(hamiltonian, list(volume.parameters()), data, chains, seed, threads, rounds)


def train_baseline(
    start: Hamiltonian,
    data: Snapshots,
    chains: Sequence[ChainSection],
    count: int,
    seed: int,
    threads: int,
    rounds: int,
    deadline: float,
) -> float:
    """Train all analytic energies in place until chains have the data's moments; the largest of what is left, in
    standard errors. `deadline`, of `time.monotonic`: rounds become fewer where there is no time for them."""
    assert start.symbolic is not None
    start.symbolic.requires_grad_(True)
    start.symbolic.weight.requires_grad_(False)
    start.symbolic.offset.requires_grad_(False)
    parameters = [parameter for parameter in start.symbolic.parameters() if parameter.requires_grad]
    return match_moments(start, parameters, data, Chains(tuple(chains), count), seed, threads, rounds, deadline)


def match_moments(
    hamiltonian: Hamiltonian,
    parameters: list[torch.nn.Parameter],
    data: Snapshots,
    chains: Chains,
    seed: int,
    threads: int,
    rounds: int,
    deadline: float = np.inf,
) -> float:
    """Natural gradient of the likelihood: θ moves by C⁻¹ (⟨∂H/∂θ⟩ of chains − that of data), C the covariance over
    chains, so that no rate has to be chosen; the mean over the later half of the rounds is kept.

    Returns the largest difference that is left between chains and data, in standard errors.
    """
    rng = np.random.default_rng([seed, 23])
    sampler, kept, left = ExactChains(threads=threads), [], []
    number, began = 0, 0.0
    while number < rounds:
        partners = data.chosen(rng.integers(len(data), size=chains.group.size))
        chains.advance(hamiltonian, sampler, partners, rng)
        assert chains.states is not None
        wanted, found = (slopes(hamiltonian, parameters, states) for states in (data, chains.states))
        difference = found.mean(0) - wanted.mean(0)
        # One snapshot alone does not vary.
        varied = [values for values in (found, wanted) if len(values) > 1]
        covariance = torch.stack([torch.cov(values.T).reshape(len(difference), -1) for values in varied]).mean(0)
        covariance += 1e-3 * torch.diag(covariance.diagonal() + 1e-9)
        step = torch.linalg.solve(covariance, difference)
        length = (step @ covariance @ step).sqrt().item()
        # Noise alone makes steps of sqrt(parameters / chains): later rounds go less far.
        share = min(1.0, TRUST / max(length, 1e-12)) * (1.0 if number < rounds / 3 else 0.3)
        _move(parameters, share * step)
        if number >= rounds / 2:
            kept.append(_flat(parameters))
            errors = torch.stack([values.var(0) / len(values) for values in varied]).sum(0)
            left.append(difference / (errors + 1e-12).sqrt())
        number += 1
        if number == 1:
            began = time.monotonic()  # in the first round chains settle: it says nothing of the others
        elif np.isfinite(deadline):
            pace = (time.monotonic() - began) / (number - 1)
            rounds = min(rounds, max(number + 1, number + int((deadline - time.monotonic()) / pace)))
    _put(parameters, torch.stack(kept).mean(0))
    return float(torch.stack(left).mean(0).abs().max())


def slopes(hamiltonian: Hamiltonian, parameters: list[torch.nn.Parameter], states: Snapshots) -> Tensor:
    """∂H/∂θ of every state, `[B, k]`; one after the other, for what leads to one slope is all that has to be kept."""
    rows = []
    for state in states:
        energy = hamiltonian.symbolic_energies(States.of([state]))[0]
        found = torch.autograd.grad(energy, parameters, allow_unused=True)
        rows.append(
            torch.cat(
                [
                    (torch.zeros_like(parameter) if slope is None else slope).double().flatten()
                    for slope, parameter in zip(found, parameters, strict=True)
                ]
            )
        )
    return torch.stack(rows)


def _flat(parameters: list[torch.nn.Parameter]) -> Tensor:
    return torch.cat([parameter.detach().double().flatten() for parameter in parameters])


def _put(parameters: list[torch.nn.Parameter], values: Tensor) -> None:
    with torch.no_grad():
        for parameter, own in zip(parameters, values.split([p.numel() for p in parameters]), strict=True):
            parameter.copy_(own.view_as(parameter))


def _move(parameters: list[torch.nn.Parameter], step: Tensor) -> None:
    _put(parameters, _flat(parameters) + step)
