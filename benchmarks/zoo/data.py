"""The zoo's data sets, each made once: `FOLDER/NAME-sSEED.npz`, and `FOLDER/NAME-none.npz` without the mechanism."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from neuralcpm_bridge.snapshots import Snapshots, load_snapshots

from .generator import Tissue, sample
from .mechanisms import Mechanism

NONE_SEED = 1000
REFERENCE_SEED = 2000
"""Far from those of data sets."""


def data_file(mechanism: Mechanism, seed: int, folder: Path) -> Path:
    """Snapshots of a tissue with the mechanism at work, drawn if they are not there yet."""
    path = folder / f"{mechanism.name}-s{seed}.npz"
    _drawn(path, mechanism, mechanism.tissue, mechanism.mcs, seed)
    return path


def without_mechanism(mechanism: Mechanism, folder: Path) -> Snapshots:
    """The same contact and volume energies alone, for as long."""
    path = folder / f"{mechanism.name}-none.npz"
    return _drawn(path, mechanism, mechanism.tissue.without_mechanism(), mechanism.mcs, NONE_SEED)


def reference(mechanism: Mechanism, mcs: int, folder: Path) -> Snapshots:
    """What the true energy reaches from scattered cells in so many Monte Carlo steps."""
    path = folder / f"{mechanism.name}-reference-{mcs}.npz"
    return _drawn(path, mechanism, mechanism.tissue, mcs, REFERENCE_SEED)


def _drawn(path: Path, mechanism: Mechanism, tissue: Tissue, mcs: int, seed: int) -> Snapshots:
    provenance = {"generator": f"zoo {mechanism.name}", "tissue": asdict(tissue), "mcs": mcs, "seed": seed}
    if path.exists():
        return load_snapshots(path)
    drawn = sample(tissue, mechanism.samples, mcs, seed, provenance=provenance)
    drawn.save(path)
    return drawn
