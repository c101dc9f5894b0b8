"""TIFF and PNG files as planes of labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..pictures.drawing import pillow
from .frames import check_sites, whole_numbers

TIFF_SUFFIXES = (".tif", ".tiff")
IMAGE_SUFFIXES = (*TIFF_SUFFIXES, ".png")
NO_LABELS = (
    "The image is a colour picture, but a label image has one number per site: export the masks, not a picture of them."
)


def tifffile() -> Any:
    try:
        import tifffile as module
    except ModuleNotFoundError:
        raise UserError(
            "TIFF images need tifffile, which is not installed: run pip install 'neuralcpm-bridge[images]'."
        ) from None
    return module


def read_planes(path: Path) -> list[NDArray[np.int64]]:
    """Every plane `[H, W]` of an image file, in the order of the file (channels run before pages)."""
    reader = _tiff_planes if path.suffix.lower() in TIFF_SUFFIXES else _png_planes
    try:
        planes = reader(path)
    except UserError:
        raise
    except Exception as error:  # image libraries raise all kinds of things on broken files
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"The file is not a readable image ({reason}): export it again.") from None
    if not planes:
        raise UserError("The file holds no image: export it again.")
    return [whole_numbers(plane) for plane in planes]


def written_by(path: Path) -> str:
    """The program a TIFF file names as its maker, or nothing."""
    try:
        with tifffile().TiffFile(path) as tiff:
            return str(tiff.pages.first.software)
    except UserError:
        raise
    except Exception:  # read_planes says what is wrong with it
        return ""


def _png_planes(path: Path) -> list[NDArray[Any]]:
    with pillow().open(path) as image:
        check_sites(image.height, image.width)
        if image.mode not in ("1", "L", "P", "I", "F") and not image.mode.startswith("I;16"):
            raise UserError(NO_LABELS)
        return [np.array(image)]


def _tiff_planes(path: Path) -> list[NDArray[Any]]:
    with tifffile().TiffFile(path) as tiff:
        series = tiff.series[0]
        # ImageJ keeps large stacks as one page with a note in its header; only the series knows of them.
        pages = [series] if tiff.is_imagej and len(tiff.pages) < len(series) else tiff.pages
        planes: list[NDArray[Any]] = []
        for number, page in enumerate(pages):
            check_sites(int(np.prod(page.shape[:-2])) * page.shape[-2], page.shape[-1])
            planes += _split(_page_values(path, number, page), page)
        return planes


def _page_values(path: Path, number: int, page: Any) -> NDArray[Any]:
    try:
        return np.asarray(page.asarray())
    except ValueError as error:
        if "imagecodecs" not in str(error):
            raise
    # tifffile leaves LZW, which Morpheus writes by default, to a package of its own; Pillow brings it along.
    with pillow().open(path) as image:
        image.seek(number)
        return np.array(image)


def _split(values: NDArray[Any], page: Any) -> list[NDArray[Any]]:
    """Planes of one page: channels may lie in front of the two axes of the lattice, or behind them."""
    axes = getattr(page, "axes", "YX")
    if values.ndim == 2:
        return [values]
    if axes.endswith("S"):
        if values.shape[-1] > 2:
            raise UserError(NO_LABELS)
        values = np.moveaxis(values, -1, 0)
    return list(values.reshape(-1, *values.shape[-2:]))
