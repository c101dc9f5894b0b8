"""Small label images, and imports that must fail."""

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
