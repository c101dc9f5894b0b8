"""TIFF and PNG files as lattices of labels: which axis is which, how large a voxel is, and the values."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..errors import UserError, reading
from ..files import check_claim
from .frames import ASK_STACK, MAX_SITES, Interval, Stack, Voxel, check_sites, whole_numbers
from .voxels import interval_of, of_axes, ome_pixels, voxel_of

TIFF_SUFFIXES = (".tif", ".tiff")
IMAGE_SUFFIXES = (*TIFF_SUFFIXES, ".png")
NO_LABELS = (
    "The image is a colour picture, but a label image has one number per site: export the masks, not a picture of them."
)
MOST_LATTICES = 10
"""Times as many sites as one lattice may have that all planes of a file may have together."""


@dataclass(frozen=True)
class Images:
    """What a file holds: `values[T, C, H, W]` or `[T, C, D, H, W]` (snapshots, channels, lattice), its voxels and the
    time between snapshots (None where the file does not say)."""

    values: NDArray[np.integer]
    voxel: Voxel | None
    interval: Interval | None = None


def tifffile() -> Any:
    try:
        import tifffile as module
    except ModuleNotFoundError:
        raise UserError(
            "TIFF images need tifffile, which is not installed: run pip install 'neuralcpm-bridge[images]'."
        ) from None
    # it logs what is odd about a file before it raises; without a handler of its own Python prints that
    logging.getLogger("tifffile").addHandler(_SILENT)
    return module


_SILENT = logging.NullHandler()


def _image() -> AbstractContextManager[None]:
    return reading("The file", "a readable image", "export it again")


def read_images(path: Path, stack: Stack | None = None, channels: int = 1) -> list[Images]:
    """All lattices of a file; one entry for each series of equal images.

    A file of many planes says what they are (ImageJ and OME name their axes), or `stack` does: nothing is guessed. With
    two `channels`, planes of no name alternate between them.
    """
    with _image():
        if path.suffix.lower() not in TIFF_SUFFIXES:
            _alternating(1, channels)
            return [Images(whole_numbers(_png(path))[None, None], None)]
        with tifffile().TiffFile(path) as tiff:
            if not tiff.series:
                raise UserError("The file holds no image: export it again.")
            voxel, interval = voxel_of(tiff), interval_of(tiff)
            read = [_series(path, series, stack, channels, voxel) for series in tiff.series]
            return [replace(images, interval=interval) for images in read]


def read_planes(path: Path) -> list[NDArray[np.integer]]:
    """Every plane `[H, W]` of an image file, in the order of the file."""
    with _image():
        if path.suffix.lower() not in TIFF_SUFFIXES:
            return [whole_numbers(_png(path))]
        with tifffile().TiffFile(path) as tiff:
            pages = list(tiff.pages)
            _check_all(path, [(page.shape, page.dtype) for page in pages])
            _check_strips(path, pages)
            if any(len(page.shape) != 2 for page in pages):
                raise UserError(NO_LABELS)
            return [whole_numbers(_page_values(path, number, page)) for number, page in enumerate(pages)]


def ome_depth(path: Path) -> int | None:
    """Planes of one snapshot as a file's OME header says, if it has one."""
    with _image(), tifffile().TiffFile(path) as tiff:
        pixels = ome_pixels(str(tiff.pages.first.description))
        text = None if pixels is None else pixels.get("SizeZ")
        return int(text) if text and text.isdigit() and int(text) > 0 else None


def written_by(path: Path) -> str:
    """The program a TIFF file names as its maker, or nothing."""
    with _image(), tifffile().TiffFile(path) as tiff:
        return str(tiff.pages.first.software)


# -- values --------------------------------------------------------------------------------------------------------


def _png(path: Path) -> NDArray[Any]:
    with Image.open(path, formats=("PNG",)) as image:
        check_sites((image.height, image.width))
        check_claim(image.height * image.width, path.stat().st_size, "The image")
        values = np.array(image)
        if image.mode in ("1", "L", "P", "I", "F") or image.mode.startswith("I;16"):
            return values
        return _grey(values, alpha=image.mode.endswith("A"))


def _grey(values: NDArray[Any], alpha: bool) -> NDArray[Any]:
    """The first of equal colours, as programs write that know no grey; a last channel may say how opaque sites are."""
    colours = values[..., :-1] if alpha else values
    if (colours != colours[..., :1]).any() or (alpha and np.ptp(values[..., -1]) > 0):
        raise UserError(NO_LABELS)
    return colours[..., 0]


def _series(path: Path, series: Any, stack: Stack | None, channels: int, voxel: Voxel | None) -> Images:
    """One series in the order of time, channel, lattice."""
    shape, axes = tuple(series.shape), series.axes
    colours = axes.endswith("S") and shape[-1] > 2
    _check_all(path, [(shape, series.dtype)])
    _check_strips(path, series.pages)
    if colours:
        shape, axes = shape[:-1], axes[:-1]
    plan = _named(shape, axes, stack, channels)
    check_sites([size for size, name in zip(shape, plan, strict=True) if name in "ZYX"])
    values = _series_values(path, series)
    values = whole_numbers(_grey(values, alpha=values.shape[-1] == 4) if colours else values)
    order = [axis for name in "TCZYX" for axis in range(len(plan)) if plan[axis] == name]
    values = values.transpose(order)
    sizes = [int(np.prod([size for size, name in zip(shape, plan, strict=True) if name == wanted])) for wanted in "TC"]
    lattice = values.shape[sum(name in "TC" for name in plan) :]
    if sizes[1] != channels:
        sizes = [_alternating(sizes[0], channels), channels]
    return Images(values.reshape(*sizes, *lattice), of_axes(voxel, len(lattice)))


def _alternating(planes: int, channels: int) -> int:
    """Snapshots in planes without names, which alternate between channels."""
    if planes % channels:
        raise UserError(
            f"The image has {planes} planes, but labels and types alternate with --type-channel: save both channels in "
            "one file."
        )
    return planes // channels


def _series_values(path: Path, series: Any) -> NDArray[Any]:
    try:
        return np.asarray(series.asarray())
    except ValueError as error:
        if "imagecodecs" not in str(error):
            raise
    pages = [_pillow_page(path, page.index) for page in series.pages]
    return np.stack(pages).reshape(series.shape)


def _page_values(path: Path, number: int, page: Any) -> NDArray[Any]:
    try:
        return np.asarray(page.asarray())
    except ValueError as error:
        if "imagecodecs" not in str(error):
            raise
    return _pillow_page(path, number)


def _pillow_page(path: Path, number: int) -> NDArray[Any]:
    """tifffile leaves LZW, which Morpheus writes by default, to a package of its own; Pillow brings it along."""
    with _muted(), Image.open(path, formats=("TIFF",)) as image:
        image.seek(number)
        return np.array(image)


@contextmanager
def _muted() -> Iterator[None]:
    """Pillow's libtiff prints what is odd about a file by itself, past Python."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _check_strips(path: Path, pages: Iterable[Any]) -> None:
    """What is to be read for each page, which memory is asked for before a byte of it is seen."""
    size = path.stat().st_size
    if any(sum(page.databytecounts) > size for page in pages if page is not None):
        raise UserError(f"The file has {size:,} bytes, but its image is said to have more: save it again.")


def _check_all(path: Path, images: list[tuple[tuple[int, ...], Any]]) -> None:
    """All images of a file together, by their shapes and data types."""
    counts = [int(np.prod(shape, dtype=object)) for shape, _ in images]
    sizes = [count * np.dtype(kind).itemsize for count, (_, kind) in zip(counts, images, strict=True)]
    check_claim(sum(sizes), path.stat().st_size, "The image")
    values = sum(counts)
    if not 0 < values <= MOST_LATTICES * MAX_SITES:
        raise UserError(
            f"The file is said to hold {values:,} values, but 1 to {MOST_LATTICES * MAX_SITES:,} are possible: check "
            "it, or split it."
        )


# -- axes ----------------------------------------------------------------------------------------------------------


def _named(shape: tuple[int, ...], axes: str, stack: Stack | None, channels: int) -> str:
    """A letter for every axis: T (snapshots), C (channels), Z, Y, X (lattice)."""
    names = list(axes.replace("S", "C"))
    for axis, (size, name) in enumerate(zip(shape, names, strict=True)):
        if size == 1 and name not in "YX":
            names[axis] = "T"  # no matter what it is
        elif name not in "TZYX" and (name != "C" or channels == 1 or size != channels):
            names[axis] = "?"
    unknown = [axis for axis, name in enumerate(names) if name == "?"]
    if channels == 2 and len(unknown) == 1 and shape[unknown[0]] == 2 and "C" not in names:
        names[unknown[0]] = "C"  # labels and types, and nothing else
        unknown = []
    deep = [axis for axis, name in enumerate(names) if name in "Z?" or (name == "T" and shape[axis] > 1)]
    if stack == "frames":
        names = ["T" if axis in deep else name for axis, name in enumerate(names)]
    elif stack == "volume" and len(deep) == 1:
        names[deep[0]] = "Z"
    elif unknown:
        planes = int(np.prod([shape[axis] for axis in unknown]))
        if len(deep) > 1 or stack is not None:
            raise UserError(
                f"The file has axes of {' × '.join(str(shape[axis]) for axis in deep)} planes and does not name them "
                "all: save it with ImageJ or OME metadata, which name depth (Z), time (T) and channels (C)."
            )
        raise UserError(f"The file has {planes} planes and does not say whether they are depth or time: {ASK_STACK}.")
    if channels == 2 and "C" not in names and "Z" in names:
        raise UserError(
            "The file has no second channel beside its depth: save labels and types as two channels (C) of one stack."
        )
    return "".join(names)
