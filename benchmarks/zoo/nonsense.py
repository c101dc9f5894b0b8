"""Data that ask for sense rather than for a mechanism: noise, too little, too small, too large; and drawn rings."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from neuralcpm_bridge.initial import blob
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.snapshots import Snapshots
from neuralcpm_bridge.state import CellState

from .fits import call
from .generator import TYPE_NAMES, Tissue, run, sample

SORTING = Tissue("square", 70, (15, 15), 60, (3.0, 2.5, 1.5, 2.5, 1.5))
"""Contact and volume alone: there is nothing to add."""


def noise(seed: int) -> Snapshots:
    """Every site belongs to any of twenty cells or to none."""
    random = np.random.default_rng(seed)
    tissue = replace(SORTING, side=40, cells=(10, 10))
    grids = random.integers(tissue.types.size, size=(64, *tissue.lattice.shape), dtype=np.int32)
    return _snapshots([CellState(ids, tissue.types, tissue.lattice) for ids in grids])


def identical(seed: int) -> Snapshots:
    return _snapshots([sample(SORTING, 1, 500, seed)[0]] * 64)


def three(seed: int) -> Snapshots:
    return sample(SORTING, 3, 500, seed)


def one_cell(seed: int) -> Snapshots:
    return sample(replace(SORTING, side=40, cells=(1, 0), target=100), 64, 300, seed)


def many_cells(seed: int) -> Snapshots:
    return sample(replace(SORTING, side=200, cells=(200, 200)), 16, 500, seed)


def tiny_cells(seed: int) -> Snapshots:
    """Of about five sites: their border pulls them below their target."""
    return sample(replace(SORTING, side=40, cells=(30, 30), target=6), 64, 500, seed)


def huge_cells(seed: int) -> Snapshots:
    """Of three thousand sites: a small tissue as a microscope with more pixels would show it."""
    zoom, small = 6, replace(SORTING, side=60, cells=(6, 6), target=83)
    large = replace(small, side=small.side * zoom, target=small.target * zoom**2)
    grown = [
        CellState(np.kron(state.ids, np.ones((zoom, zoom), dtype=np.int32)), state.types, large.lattice)
        for state in sample(small, 32, 500, seed)
    ]
    return run(large, grown, 30, seed)  # wears off the corners of enlarged sites


def confluent(seed: int) -> Snapshots:
    """Cells fill the lattice; there is no medium."""
    tissue = replace(SORTING, side=60, cells=(18, 18), target=100)
    random = np.random.default_rng(seed)
    filled = [blob(tissue.lattice, 36, 100, random) for _ in range(64)]
    shuffled = [_renumbered(ids, random) for ids in filled]
    return run(tissue, [CellState(ids, tissue.types, tissue.lattice) for ids in shuffled], 1000, seed)


def sorting(seed: int) -> Snapshots:
    return sample(SORTING, 128, 1000, seed)


SETS: dict[str, Callable[[int], Snapshots]] = {
    "noise": noise,
    "identical": identical,
    "three": three,
    "one-cell": one_cell,
    "400-cells": many_cells,
    "cells-of-5": tiny_cells,
    "cells-of-3000": huge_cells,
    "confluent": confluent,
    "sorting": sorting,
}


NAMES = (*SETS, "ring")


def data_file(name: str, folder: Path, seed: int = 0) -> Path:
    """`FOLDER/NAME.npz`, made if it is not there; rings are drawn as images and imported."""
    path = folder / f"{name}.npz"
    if path.exists():
        return path
    if name == "ring":
        images = folder / "ring-images"
        write_ring(images, seed)
        call("data", "import", images, "--types", images / "types.csv", "--scale", RING_SCALE, "-o", path)
    else:
        made = SETS[name](seed)
        made.provenance = {"generator": f"zoo {name}", "seed": seed}
        made.save(path)
    return path


def _snapshots(states: list[CellState]) -> Snapshots:
    return Snapshots.from_states(states, type_names=TYPE_NAMES)


def _renumbered(ids: NDArray[np.int32], random: np.random.Generator) -> NDArray[np.int32]:
    """With cells in another order, so that types lie anywhere."""
    return np.r_[0, 1 + random.permutation(int(ids.max()))].astype(np.int32)[ids]


# -- rings ---------------------------------------------------------------------------------------------------------

RING_SIDE, RING_SCALE = 240, 0.25
"""Pixels, and how many sites a pixel becomes along each axis: cells of some 60 sites."""


def write_ring(folder: Path, seed: int = 0, count: int = 40) -> None:
    """Label images of about 30 drawn cells, those at the rim of one type and those inside of another, and
    types.csv: what `neuralcpm data import` takes."""
    folder.mkdir(parents=True, exist_ok=True)
    random, rows = np.random.default_rng(seed), []
    lattice = Lattice.of((RING_SIDE, RING_SIDE), boundary="free")
    for number in range(count):
        name = f"ring_{number + 1:02d}.png"
        labels = blob(lattice, int(random.integers(28, 33)), int(random.integers(900, 1010)), random)
        Image.fromarray(labels.astype(np.uint8)).save(folder / name)
        rim = np.unique(labels[_beside_background(labels)])
        for label in range(1, int(labels.max()) + 1):
            rows.append((label, "rim" if label in rim else "core", name))
    with (folder / "types.csv").open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([("label", "type", "file"), *rows])


def _beside_background(labels: NDArray[np.int32]) -> NDArray[np.bool_]:
    empty = np.pad(labels == 0, 1, constant_values=True)
    return (labels > 0) & (empty[:-2, 1:-1] | empty[2:, 1:-1] | empty[1:-1, :-2] | empty[1:-1, 2:])


def ring(snapshots: Snapshots) -> NDArray[np.float64]:
    """How much farther from the tissue's middle a site of the rim lies than one of the core, per state, over the
    root mean square distance of all sites: 0.55 in the drawings, 0 in a mixed tissue."""
    rim, core = (snapshots.type_names.index(name) for name in ("rim", "core"))
    return np.array([_apart(state, rim, core) for state in snapshots])


def _apart(state: CellState, rim: int, core: int) -> float:
    lattice, flat = state.lattice, state.ids.ravel()
    occupied = np.flatnonzero(flat)
    angles = 2 * np.pi * lattice.coordinates(occupied) / np.array(lattice.shape)
    middle = np.angle(np.exp(1j * angles).mean(axis=0)) / (2 * np.pi) * np.array(lattice.shape)
    away = lattice.coordinates(occupied) - middle
    away -= np.round(away / np.array(lattice.shape)) * np.array(lattice.shape)
    distances, types = np.linalg.norm(lattice.in_space(away), axis=1), state.types[flat[occupied]]
    typical = np.sqrt((distances**2).mean())
    return float((distances[types == rim].mean() - distances[types == core].mean()) / typical)
