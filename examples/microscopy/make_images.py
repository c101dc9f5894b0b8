"""Make the label images of this folder: cross-sections of organoids, flat basal cells around round luminal ones.

The pictures are synthetic but look like what Cellpose and Fiji write: 8- and 16-bit PNG, 16-bit TIFF, labels in no
particular order, cells of uneven size. Run it from anywhere; it writes beside itself.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import tifffile
from numpy.typing import NDArray
from PIL import Image

HERE = Path(__file__).parent
IMAGES, SIDE = 12, 200
FLATNESS = 2.2
"""How many times longer than high a basal cell's territory is."""


def wavy(rng: np.random.Generator, angles: NDArray[np.float64], strength: float) -> NDArray[np.float64]:
    """A closed random curve around 1."""
    waves = [rng.normal(0, strength / k) * np.cos(k * angles + rng.uniform(0, 2 * np.pi)) for k in range(2, 6)]
    return 1 + np.sum(waves, axis=0)


def seeds(rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Centres `[n, 2]` relative to the middle, and which of them are basal: a ring, and a disc filled evenly."""
    count = rng.integers(12, 16)
    around = 2 * np.pi * (np.arange(count) + rng.uniform(-0.18, 0.18, count)) / count
    ring = 64 * np.stack([np.sin(around), np.cos(around)], axis=1) + rng.normal(0, 1.5, (count, 2))
    inner: list[NDArray[np.float64]] = []
    distance = 26.0
    while len(inner) < 13:
        point = rng.uniform(-52, 52, 2)
        if np.hypot(*point) < 47 and all(np.hypot(*(point - other)) > distance for other in inner):
            inner.append(point)
        distance *= 0.999
    return np.concatenate([ring, inner]), np.arange(count + len(inner)) < count


def organoid(rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Labels `[SIDE, SIDE]` and, by label − 1, whether the cell is basal."""
    centres, basal = seeds(rng)
    middle = SIDE / 2 + rng.uniform(-8, 8, 2)
    sites = np.stack(np.mgrid[:SIDE, :SIDE], axis=-1) - middle
    angles = np.arctan2(sites[..., 0], sites[..., 1])
    inside = np.hypot(sites[..., 0], sites[..., 1]) < 78 * wavy(rng, angles, 0.035)
    distances = []
    for centre, flat in zip(centres, basal, strict=True):
        outwards = centre / np.hypot(*centre)
        offset = sites - centre
        radial = offset @ outwards
        tangential = offset @ np.array([-outwards[1], outwards[0]])
        length = np.hypot(radial * (FLATNESS if flat else 1), tangential) / (np.sqrt(FLATNESS) if flat else 1)
        distances.append(length * rng.uniform(0.93, 1.07) + smooth_noise(rng))
    order = rng.permutation(len(centres))
    labels = np.where(inside, order[np.argmin(distances, axis=0)] + 1, 0)
    of_label = np.empty(len(centres), dtype=bool)
    of_label[order] = basal
    return whole_cells(labels, np.round(centres + middle).astype(np.intp)), of_label


def smooth_noise(rng: np.random.Generator) -> NDArray[np.float64]:
    """Slow ripples, so that the borders between cells are no straight lines."""
    rows, columns = np.mgrid[:SIDE, :SIDE] / SIDE
    ripples = np.zeros((SIDE, SIDE))
    for _ in range(4):
        a, b = rng.normal(0, 5, 2)
        ripples += 0.7 * np.sin(2 * np.pi * (a * rows + b * columns) + rng.uniform(0, 2 * np.pi))
    return ripples


def whole_cells(labels: NDArray[np.int64], starts: NDArray[np.intp]) -> NDArray[np.int64]:
    """Every cell grown from its centre `starts[n, 2]`: first over its own sites, then over what others left loose."""
    grown = np.zeros_like(labels)
    rows, columns = starts.T
    grown[rows, columns] = labels[rows, columns]
    for own in (True, False):
        while True:
            before = grown.copy()
            for shift in ((1, 0), (-1, 0), (0, 1), (0, -1)):
                near = np.roll(grown, shift, (0, 1))
                takes = (grown == 0) & (labels > 0) & (near > 0) & ((near == labels) | (not own))
                grown = np.where(takes, near, grown)
            if (grown == before).all():
                break
    return grown


def main() -> None:
    rng = np.random.default_rng(20250717)
    rows = []
    for number in range(1, IMAGES + 1):
        labels, basal = organoid(rng)
        stem = f"organoid_{number:02d}_cp_masks"
        if number % 3 == 0:
            name = f"{stem}.tif"
            tifffile.imwrite(HERE / name, labels.astype(np.uint16), compression="zlib")
        else:
            name = f"{stem}.png"
            Image.fromarray(labels.astype(np.uint8 if number % 3 == 1 else np.uint16)).save(HERE / name, optimize=True)
        present = np.unique(labels[labels > 0])
        rows += [(int(label), "basal" if basal[label - 1] else "luminal", name) for label in present]
    with (HERE / "types.csv").open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerows([("label", "type", "file"), *rows])


if __name__ == "__main__":
    main()
