"""The zoo's data sets, each drawn once and kept in a folder."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from neuralcpm_bridge.snapshots import Snapshots, load_snapshots

from .generator import Tissue, sample
from .mechanisms import Mechanism

NONE_SEED, REFERENCE_SEED = 1000, 2000
"""Far from those of data sets."""


def data_file(mechanism: Mechanism, seed: int, folder: Path) -> Path:
    """`NAME-sSEED.npz`: snapshots of a tissue with the mechanism at work."""
    path = folder / f"{mechanism.name}-s{seed}.npz"
    if not path.exists():
        _draw(path, mechanism, mechanism.tissue, mechanism.mcs, seed)
    return path


def without_mechanism(mechanism: Mechanism, mcs: int, folder: Path) -> Snapshots:
    """What the same contact and volume energies alone give, from scattered cells in so many Monte Carlo steps."""
    return _kept(
        folder / f"{mechanism.name}-none-{mcs}.npz", mechanism, mechanism.tissue.without_mechanism(), mcs, NONE_SEED
    )


def reference(mechanism: Mechanism, mcs: int, folder: Path) -> Snapshots:
    """What the true energy reaches, likewise."""
    return _kept(folder / f"{mechanism.name}-reference-{mcs}.npz", mechanism, mechanism.tissue, mcs, REFERENCE_SEED)


def _kept(path: Path, mechanism: Mechanism, tissue: Tissue, mcs: int, seed: int) -> Snapshots:
    return load_snapshots(path) if path.exists() else _draw(path, mechanism, tissue, mcs, seed)


def _draw(path: Path, mechanism: Mechanism, tissue: Tissue, mcs: int, seed: int) -> Snapshots:
    provenance = {"generator": f"zoo {mechanism.name}", "tissue": asdict(tissue), "mcs": mcs, "seed": seed}
    drawn = sample(tissue, mechanism.samples, mcs, seed, provenance=provenance)
    drawn.save(path)
    return drawn
