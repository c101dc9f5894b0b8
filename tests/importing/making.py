"""Small label images, tissues as labels and as outlines, and imports that must fail."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image")
tifffile = pytest.importorskip("tifffile")


def labels(shape: tuple[int, int] = (20, 24), shift: int = 0) -> np.ndarray:
    """Three cells with labels 3, 7 and 200."""
    image = np.zeros(shape, dtype=np.int64)
    image[3 + shift : 8 + shift, 3:9], image[3 + shift : 8 + shift, 9:14], image[10 + shift : 16 + shift, 6:12] = (
        3,
        7,
        200,
    )
    return image


def tissue(shape: tuple[int, ...], across: int, seed: int, medium: bool) -> np.ndarray:
    """Cells some sites across, 1, 2, …, around centres that lie about evenly, in a round tissue or all over."""
    rng = np.random.default_rng(seed)
    centres = np.stack(np.meshgrid(*(np.arange(across / 2, size, across) for size in shape)), axis=-1)
    centres = centres.reshape(-1, len(shape)) + rng.uniform(-0.15, 0.15, (centres[..., 0].size, len(shape))) * across
    places = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), axis=-1)
    found = 1 + np.linalg.norm(places[..., None, :] - centres, axis=-1).argmin(axis=-1)
    middle, radius = np.array(shape) / 2, min(shape) / 2 - 4
    outside = np.linalg.norm(centres - middle, axis=-1) > radius - across / 2
    return np.where(np.r_[False, outside][found], 0, found) if medium else found


def walls_of(found: np.ndarray) -> np.ndarray:
    """Every site whose neighbour to the right, below (or behind), or between them, is another's: walls that no step
    along an axis gets through."""
    walls = np.zeros(found.shape, dtype=bool)
    for offset in np.ndindex(*(2,) * found.ndim):
        here = tuple(slice(0, size - step) for size, step in zip(found.shape, offset, strict=True))
        there = tuple(slice(step, None) for step in offset)
        walls[here] |= found[here] != found[there]
    return walls


def drawn(found: np.ndarray, dark: bool = False) -> np.ndarray:
    return np.where(walls_of(found) != dark, 255, 0).astype(np.uint8)


def save_image(path: Path, image: np.ndarray, kind: str = "uint16") -> Path:
    if path.suffix == ".png":
        Image.fromarray(image.astype(kind)).save(path)
    else:
        tifffile.imwrite(path, image.astype(kind))
    return path


def problems(cli, *arguments: object) -> list[str]:
    """The lines of an import that must fail without writing anything."""
    folder = Path(str(arguments[0]))
    target = (folder if folder.is_dir() else folder.parent) / "none" / "data.npz"
    code, _, err = cli("data", "import", *arguments, "-o", target)
    assert code == 2, err
    assert "Traceback" not in err
    assert not target.parent.exists()
    lines = err.strip().splitlines()
    assert all(line.startswith("neuralcpm: ") and line.endswith(".") for line in lines), err
    return lines
