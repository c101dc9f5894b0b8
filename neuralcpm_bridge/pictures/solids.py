"""3D states as pictures: seen from outside, shaded, and the middle slice in each direction."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from ..state import CellState
from .drawing import FAINT, MEDIUM, PAPER, text_width, write
from .planes import LINE, Paint, draw_borders, square_image

GAP = 6
LABEL = 10
SMALLEST_LABELLED = 90
"""Pixels below which a panel is too small for a word in it."""

SHARP = 2
"""The view from outside is drawn this much larger and averaged down."""

OUTLINE = 1.1
"""Thickness of the outlines of cells seen from outside, in pixels."""

AZIMUTH, ELEVATION = np.radians(28), np.radians(28)
DARKEST = 0.58
"""What is left of a colour where no light falls."""

POINTS = 1 << 18
"""On the sides of voxels, placed together."""

BOX = (196, 198, 202)
"""Colour of the edges of the lattice's box."""

_toward = np.array([0, np.cos(AZIMUTH), np.sin(AZIMUTH)])  # along the floor, towards the eye: rows come forward
RIGHT = np.array([0, -np.sin(AZIMUTH), np.cos(AZIMUTH)])
UP = np.cos(ELEVATION) * np.array([1, 0, 0]) - np.sin(ELEVATION) * _toward
EYE = np.sin(ELEVATION) * np.array([1, 0, 0]) + np.cos(ELEVATION) * _toward
"""Directions of the picture, (z, y, x): x leads to the right, y forward, z up."""

LIGHT = (EYE + 0.9 * UP - 0.7 * RIGHT) / np.linalg.norm(EYE + 0.9 * UP - 0.7 * RIGHT)


def solid_image(state: CellState, side: int, paint: Paint) -> Image.Image:
    """Four panels, the larger side of the whole `side` pixels.

    Above: from outside, and the middle plane (x to the right, y down). Below: the middle column of planes (y to the
    right, z up) and the middle row of them (x to the right, z up).
    """
    depth, height, width = state.shape
    unit = (side - GAP) / max(max(height, width) + width, max(height, width) + depth)
    panel = max(1, round(unit * max(height, width)))
    z, y, x = (size // 2 for size in state.shape)
    above = _resized(square_image(state.ids[z], paint, _whole(unit)), unit * width, unit * height)
    forward = _resized(square_image(state.ids[::-1, :, x], paint, _whole(unit)), unit * height, unit * depth)
    across = _resized(square_image(state.ids[::-1, y], paint, _whole(unit)), unit * width, unit * depth)
    size = (panel + GAP + above.width, panel + GAP + across.height)
    sheet = Image.new("RGB", size, PAPER)
    sheet.paste(outside(state, panel, paint), (0, 0))
    places = ((panel + GAP, 0), (0, panel + GAP), (panel + GAP, panel + GAP))
    for image, place, label in zip((above, forward, across), places, (f"z = {z}", f"x = {x}", f"y = {y}"), strict=True):
        sheet.paste(image, place)
        _label(sheet, label, (*place, image.width, image.height))
    return sheet


def outside(state: CellState, side: int, paint: Paint) -> Image.Image:
    """The tissue from above and in front, in an orthographic square of `side` pixels, the lattice's box behind it."""
    corners = np.array([[z, y, x] for z in (0, 1) for y in (0, 1) for x in (0, 1)]) * state.shape - 0.5
    camera = _camera(corners, side * SHARP)
    ids, shade = _seen(state, camera)
    light = np.where(ids > 0, shade, 1)[..., None]
    colours = np.where(ids[..., None] > 0, paint.cells[ids], np.array(MEDIUM)) * light
    picture = Image.fromarray(np.clip(np.round(colours), 0, 255).astype(np.uint8))
    _draw_box(picture, corners, camera, ids > 0)
    pixels = np.array(picture)
    draw_borders(pixels, ids, max(1, round(OUTLINE * SHARP * paint.line / LINE)), paint)
    return Image.fromarray(pixels).resize((side, side), Image.Resampling.LANCZOS)


class Camera(NamedTuple):
    """How places `[n, 3]` in space come onto a square of `side` pixels."""

    scale: float
    middle: NDArray[np.float64]
    side: int

    def pixels(self, places: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Columns and rows of the picture."""
        away = places - self.middle
        return self.side / 2 + self.scale * (away @ RIGHT), self.side / 2 - self.scale * (away @ UP)

    def pixel_numbers(self, places: NDArray[np.float64]) -> NDArray[np.int64]:
        """Flat indices into the picture."""
        col, row = (np.clip(place.astype(np.int64), 0, self.side - 1) for place in self.pixels(places))
        return row * self.side + col


def _camera(corners: NDArray[np.float64], side: int) -> Camera:
    """So far away that the whole box is seen."""
    middle = corners.mean(axis=0)
    reach = max(np.abs((corners - middle) @ axis).max() for axis in (RIGHT, UP))
    return Camera(0.49 * side / reach, middle, side)


def _seen(state: CellState, camera: Camera) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """The cell seen at each pixel, 0 where there is none, and how bright it is, `[side, side]`.

    All sides of voxels that face the eye, as points dense enough to leave no pixel out; the nearest ones stay.
    """
    soft = _blurred(state.ids > 0)
    nearest = np.full(camera.side**2, -np.inf)
    ids, shade = np.zeros(nearest.size, dtype=np.int32), np.zeros(nearest.size)
    steps = max(1, int(np.ceil(1.2 * camera.scale)))
    grid = (np.arange(steps) + 0.5) / steps - 0.5
    for axis in range(3):
        points = np.stack(np.meshgrid(*([0.5] if a == axis else grid for a in range(3)), indexing="ij"), axis=-1)
        sides = _facing(state.ids, axis)
        for start in range(0, len(sides), POINTS // steps**2 + 1):
            voxels = sides[start : start + POINTS // steps**2 + 1]
            places = (voxels[:, None] + points.reshape(1, -1, 3)).reshape(-1, 3)
            depth = places @ EYE
            order = np.argsort(depth, kind="stable")  # of points on one pixel the last one written stays
            pixel, depth, voxel = camera.pixel_numbers(places)[order], depth[order], order // steps**2
            seen = depth > nearest[pixel]
            pixel, voxel = pixel[seen], voxel[seen]
            nearest[pixel] = depth[seen]
            ids[pixel] = state.ids[tuple(voxels.T)][voxel]
            shade[pixel] = (DARKEST + (1 - DARKEST) * np.clip(_normals(soft, voxels) @ LIGHT, 0, 1))[voxel]
    return ids.reshape(camera.side, -1), shade.reshape(camera.side, -1)


def _facing(ids: NDArray[np.int32], axis: int) -> NDArray[np.int64]:
    """Voxels of cells `[n, 3]` with nothing behind their side up one axis: the eye sees that side."""
    beyond = np.ones(ids.shape, dtype=bool)
    inner: list[slice] = [slice(None)] * 3
    following = inner.copy()
    inner[axis], following[axis] = slice(0, -1), slice(1, None)
    beyond[tuple(inner)] = ids[tuple(following)] == 0
    return np.argwhere((ids > 0) & beyond)


def _blurred(mask: NDArray[np.bool_]) -> NDArray[np.float32]:
    """A mask with soft edges, two sites larger on every side."""
    soft = np.pad(mask, 2).astype(np.float32)
    for axis in (0, 1, 2) * 2:
        soft += (np.roll(soft, 1, axis) + np.roll(soft, -1, axis)) / 2
        soft /= 2
    return soft


def _normals(soft: NDArray[np.float32], voxels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Unit vectors out of the tissue at voxels `[n, 3]`: down the slope of the blurred mask."""
    slopes = np.empty(voxels.shape)
    for axis, step in enumerate(np.eye(3, dtype=np.int64)):
        slopes[:, axis] = soft[tuple((voxels + 2 - step).T)] - soft[tuple((voxels + 2 + step).T)]
    return slopes / np.maximum(np.linalg.norm(slopes, axis=1, keepdims=True), 1e-6)


def _draw_box(picture: Image.Image, corners: NDArray[np.float64], camera: Camera, taken: NDArray[np.bool_]) -> None:
    """The lattice's edges but for those in front, behind the tissue."""
    drawn = picture.copy()
    draw = ImageDraw.Draw(drawn)
    nearest = int(np.argmax(corners @ EYE))
    points = list(zip(*camera.pixels(corners), strict=True))
    for a in range(8):
        for b in range(a + 1, 8):
            if (corners[a] != corners[b]).sum() == 1 and nearest not in (a, b):
                draw.line([points[a], points[b]], BOX, SHARP)
    picture.paste(drawn, (0, 0), Image.fromarray(~taken))


def _whole(unit: float) -> int:
    """Pixels per site to draw with before a slice is averaged down."""
    return max(1, int(np.ceil(2 * unit)))


def _resized(picture: NDArray[np.uint8], width: float, height: float) -> Image.Image:
    size = (max(1, round(width)), max(1, round(height)))
    return Image.fromarray(picture).resize(size, Image.Resampling.LANCZOS)


def _label(sheet: Image.Image, text: str, box: tuple[int, int, int, int]) -> None:
    left, top, width, height = box
    if min(width, height) >= SMALLEST_LABELLED:
        draw = ImageDraw.Draw(sheet)
        draw.rectangle((left, top, left + text_width(text, LABEL) + 5, top + LABEL + 4), fill=PAPER)
        write(draw, (left + 2, top), text, FAINT, LABEL)
