"""A closure from pairs, and how far its network has to see: networks that see differently far answer to the same pairs
kept apart."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.snapshots import Snapshots

from ..config import ModelSection
from ..hamiltonians import CellGraph, Hamiltonian
from .closure import FEWEST_STEPS, Lengths, Sight, closure_config, closure_model, knots_for
from .pairs import Job, Pairs, committee, surprise
from .plan import Seen
from .task import Narrator, Wanted

MAKING, FOLLOWING = 0.2, 0.4
"""Of the time for pairs, for making those by H_S; of what is left, for generations that follow."""
ASKING = 0.45
"""Of the time for training on them, for whether to see far."""
GENERATIONS = 4
"""That follow at most."""
HARD = 0.1
"""Part of what could be known of a generation's pairs, below which they are hard to tell."""
ROUNDS = (1, 2)
"""How far a network may see, in cells."""
FARTHER = 2.0
"""Standard errors by which a network that sees farther must know more, to be taken."""
HELPS = 0.02
"""Gain, in units of log 2, from which on seeing farther, or having more states, is worth it."""


def from_pairs(
    data: Snapshots,
    section: ModelSection,
    analytic: Hamiltonian,
    wanted: Wanted,
    deadline: float,
    narrator: Narrator,
) -> tuple[Hamiltonian, Seen]:
    """A committee trained on pairs, whose members see as far as pairs kept apart show to be worth it; `deadline`: of
    `time.monotonic`."""

    def fresh(sight: Sight, members: int = 1, number: int = 0) -> Hamiltonian:
        # Nothing that training on pairs takes from a configuration depends on how long chains are.
        seed = wanted.seed + 1000 * number
        config = closure_config(section, sight, members, Lengths(1, FEWEST_STEPS), seed, wanted.threads)
        return closure_model(config, data.reading(section.properties), analytic)

    def show(done: float, total: float) -> None:
        narrator.show("training on pairs", round(done, 2), total)

    near, farther, wide = Sight(ROUNDS[0]), Sight(ROUNDS[1]), Sight(ROUNDS[0], knots_for(data))
    network = fresh(wide).network
    assert isinstance(network, CellGraph)
    making = time.monotonic() + MAKING * (deadline - time.monotonic())
    pairs = Pairs(network, analytic, data, wanted.seed, wanted.threads, making)
    follow(pairs, fresh(near), time.monotonic() + FOLLOWING * (deadline - time.monotonic()), narrator)
    # One network for each question, then the others of the committee: they take about as long together.
    asking = time.monotonic() + ASKING * (deadline - time.monotonic())
    asked = [near, farther, *([wide] if wide.knots else [])]
    answers = dict(zip(asked, pairs.train_each([Job(fresh(sight)) for sight in asked], asking, show), strict=True))

    def worth(sight: Sight) -> bool:
        return sight in answers and is_more(answers[sight].gains - answers[near].gains)

    chosen = Sight((farther if worth(farther) else near).rounds, wide.knots if worth(wide) else 0)
    known = {chosen: answers[chosen]} if chosen in answers else {}
    missing = [number for number in range(wanted.members) if number or not known]
    others = [Job(fresh(chosen, number=number), number) for number in missing]
    half, *trained = pairs.train_each([Job(fresh(chosen), half=True), *others], deadline, show)
    members = [*known.values(), *trained]
    closure = committee(fresh(chosen, wanted.members), [each.model for each in members])
    gains, alone = pairs.gains(closure, pairs.by_analytic), members[0]
    sure = f"{surprise(gains):.1f} standard errors above nothing"
    narrator.tell(
        f"A network that sees {chosen} knows {gains.mean() / np.log(2):.0%} of what could be known of pairs kept "
        f"apart ({sure if len(gains) > 1 else 'of one snapshot, so how sure that is cannot be told'})."
    )
    return closure, Seen(chosen, float(gains.mean()), surprise(gains), len(gains), is_more(alone.gains - half.gains))


def follow(pairs: Pairs, closure: Hamiltonian, deadline: float, narrator: Narrator) -> None:
    """Generations of pairs, each by chains of what has been learned from those before, until they are hard to tell."""
    every = (deadline - time.monotonic()) / (2 * GENERATIONS + 1)
    closure = pairs.train(Job(closure), every).model
    for generation in range(1, GENERATIONS + 1):
        narrator.show("pairs", generation, GENERATIONS)
        parts = pairs.follow(closure, time.monotonic() + every)
        closure = pairs.train(Job(closure, generation), every).model
        if pairs.gains(closure, parts).mean() < HARD * np.log(2) or time.monotonic() > deadline:
            break


def is_more(gains: NDArray[np.float64]) -> bool:
    """Whether a gain is sure and large enough to be worth anything."""
    return bool(surprise(gains) > FARTHER and gains.mean() > HELPS * np.log(2))
