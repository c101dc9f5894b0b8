"""How large a voxel of a TIFF file is, and how much time lies between its frames: what OME, ImageJ and TIFF note."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from lxml import etree

from ..errors import UserError
from .frames import Interval, Voxel
from .safe_xml import parse_bytes

MICROMETRES = {"nm": 1e-3, "µm": 1.0, "μm": 1.0, "um": 1.0, "micron": 1.0, "microns": 1.0, "mm": 1e3, "cm": 1e4}
"""Units that programs write, for axes in different ones."""

NO_UNITS = ("pixel", "pixels")
"""What ImageJ writes where nobody has told it a scale."""

TAG_UNITS = {2: 25_400.0, 3: 10_000.0}
"""Micrometres in an inch and in a centimetre, which TIFF counts pixels by; its third unit is none."""

LARGEST_PIXEL = 20.0
"""Micrometres: larger ones are dots on paper (72 to 1200 to an inch), not what a microscope saw."""


def voxel_of(tiff: Any) -> Voxel | None:
    """Sizes (z, y, x) as OME, ImageJ or TIFF's own tags note them; NaN for what they do not say."""
    if tiff.is_ome:
        return _ome_voxel(tiff.ome_metadata)
    notes = (tiff.imagej_metadata or {}) if tiff.is_imagej else {}
    try:
        tags = tiff.pages.first.tags
        y, x = (_inverse(tags[name].value) for name in ("YResolution", "XResolution"))
        if tiff.is_imagej:
            unit = str(notes.get("unit", "")).replace("\\u00B5", "µ")
            return Voxel((float(notes.get("spacing", "nan")), y, x), "" if unit in NO_UNITS else unit)
        micrometres = TAG_UNITS.get(int(tags["ResolutionUnit"].value))
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
    if micrometres is None or max(y, x) * micrometres > LARGEST_PIXEL:
        return Voxel((math.nan, y, x))
    return Voxel((math.nan, y * micrometres, x * micrometres), "µm")


def interval_of(tiff: Any) -> Interval | None:
    """Time between frames as ImageJ or OME note it."""
    size, unit = None, ""
    if tiff.is_ome:
        pixels = ome_pixels(tiff.ome_metadata)
        if pixels is not None:
            size, unit = pixels.get("TimeIncrement"), pixels.get("TimeIncrementUnit", "s")
    elif tiff.is_imagej:
        notes = tiff.imagej_metadata or {}
        size, unit = notes.get("finterval"), str(notes.get("tunit", "s"))
    try:
        found = Interval(float(size), unit)  # type: ignore[arg-type]  # None is no number either
    except (TypeError, ValueError):
        return None
    return found if 0 < found.size < float("inf") else None


def _inverse(fraction: tuple[int, int]) -> float:
    """A pixel's size from pixels per unit."""
    return float(fraction[1]) / float(fraction[0])


def ome_pixels(text: str) -> etree._Element | None:
    """What OME's notes say about the first image."""
    try:
        return next(parse_bytes(text.encode()).iter("{*}Pixels"), None)
    except UserError:
        return None


def _ome_voxel(text: str) -> Voxel | None:
    pixels = ome_pixels(text)
    if pixels is None:
        return None
    try:
        sizes = [float(pixels.get(f"PhysicalSize{axis}", "nan")) for axis in "ZYX"]
    except ValueError:
        return None
    units = [pixels.get(f"PhysicalSize{axis}Unit", "µm") for axis in "ZYX"]
    if len(set(units)) == 1:
        return Voxel(tuple(sizes), units[0])
    if not set(units) <= set(MICROMETRES):
        return None
    return Voxel(tuple(size * MICROMETRES[unit] for size, unit in zip(sizes, units, strict=True)), "µm")


def of_axes(voxel: Voxel | None, dimension: int) -> Voxel | None:
    """The sizes along a lattice's axes, if all of them are known."""
    sizes = () if voxel is None else voxel.sizes[-dimension:]
    if voxel is None or not all(np.isfinite(size) and size > 0 for size in sizes):
        return None
    return Voxel(sizes, voxel.unit)
