"""How well parameters were recovered: the paper's error norm, at T = 1 and at the temperature T* that fits best."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Recovery(NamedTuple):
    """Errors over the named parameters; `norm` is Euclidean (what the paper calls RMSE), `rmse` divides by √n."""

    norm_t1: float
    norm_tstar: float
    rmse_t1: float
    rmse_tstar: float
    t_star: float


def recovery(truth: dict[str, float], learned: dict[str, float]) -> Recovery:
    """Compare parameters by name. Learned energies are those of e^{−H/T*} if they are the truth times one factor:
    T* is the least-squares factor that scales the *truth* to the learned values, as in the paper's code."""
    missing = sorted(set(truth) - set(learned))
    if missing:
        raise KeyError(f"the learned parameters lack {', '.join(missing)}")
    true = np.array(list(truth.values()))
    found = np.array([learned[name] for name in truth])
    factor = float(found @ true / (true @ true))
    at_one = float(np.linalg.norm(found - true))
    at_star = float(np.linalg.norm(found - factor * true))
    root = np.sqrt(true.size)
    return Recovery(at_one, at_star, at_one / root, at_star / root, factor)
