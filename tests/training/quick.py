"""A fit that ends soon because there is little to do, not because a clock says so: results follow from its seed."""

from __future__ import annotations

import pytest

from training.fit import closure as closures
from training.fit import fitting as stages
from training.fit import pairs as pairing
from training.fit import relaxation as relaxing
from training.fit import sight

MINUTES = 60.0
"""What such a fit is allowed: far more than it needs on the slowest machine."""


def make_quick(patched: pytest.MonkeyPatch, *, pair_steps: int = 100, pool: int = 6, replicates: int = 8) -> None:
    for name, value in {"MOST_STEPS": 20, "FEWEST_STEPS": 20, "REPLICATES": replicates, "BASELINE_ROUNDS": 6}.items():
        patched.setattr(stages, name, value)
    patched.setattr(stages, "LONGER", 1)
    patched.setattr(relaxing, "LONGEST", 120)
    patched.setattr(pairing, "PARTS", 24)
    patched.setattr(pairing, "CLOSURE_PARTS", 12)
    patched.setattr(sight, "GENERATIONS", 1)
    patched.setattr(pairing, "MOST_STEPS", pair_steps)
    patched.setattr(closures, "POOL", pool)
