"""What can be changed about one cell, in the words of a biologist, and everything that follows from it.

Turning one input of a network while the others stay asks about cells that cannot exist: long ones with the surface of
round ones. So the cell itself is changed, as an ellipse (ellipsoid) with its moments: its volume, its long axis, its
direction; its inputs and those of its contacts follow. Three rules hold throughout:

- Neighbours stay in touch: the middles move apart by what the cell gains in the direction of a neighbour.
- Contacts grow and shrink with the cell's surface, each keeping its share of it.
- What a neighbour gains in contact with the cell it loses in contact with the medium, as far as it has any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..lattice import Geometry
from .cells import Cells, Floats

ANY = (-np.inf, np.inf)


@dataclass(frozen=True)
class Quantity:
    """Something about a cell that can be measured and set."""

    name: str
    unit: str
    measured: Callable[[Cells], Floats]
    """Of every cell in every variant, `[G, N]`; NaN where it is not defined."""
    changed: Callable[[Cells, int, Floats], Cells]
    """One variant of some cells, the number of one of them and values `[G]` → variants in which it has these."""
    limits: tuple[float, float] = ANY
    also: tuple[str, Callable[[Cells], Floats]] | None = None
    """A second ruler along the same way: its name and what it measures."""


def quantities(types: Sequence[str], properties: Sequence[str]) -> list[Quantity]:
    """All that a model of these cell types (the medium first) and named properties can be asked about."""
    return [
        Quantity("volume", "sites", lambda cells: cells.volume, scaled, (1.0, np.inf)),
        Quantity("aspect ratio", "", aspect_ratios, stretched, (1.0, np.inf), ("length", lengths)),
        Quantity("surface", "", lambda cells: cells.surface, roughened, (1.0, np.inf)),
        *(_share_of_contact(number, name) for number, name in enumerate(types)),
        Quantity("angle to the neighbour it touches most", "°", angles, turned, (0.0, 90.0)),
        *(_property(number, name) for number, name in enumerate(properties)),
    ]


# -- volume, elongation, surface -------------------------------------------------------------------------------------


def scaled(cells: Cells, cell: int, volumes: Floats) -> Cells:
    """Larger or smaller in the same shape."""
    factor = volumes / cells.volume[0, cell]
    linear = factor ** (1 / cells.geometry.dimension)
    after = cells.variants(volumes.size)
    after.volume[:, cell] = volumes
    after = with_shape(after, cell, linear[:, None, None] ** 2 * cells.shape[0, cell])
    return with_surface(after, cell, linear ** (cells.geometry.dimension - 1))


def stretched(cells: Cells, cell: int, ratios: Floats) -> Cells:
    """Drawn out along its long axis, or back towards a disc (ball), at the same volume; no thinner than one site."""
    moment = cells.geometry.site_moment
    squares, axes = np.linalg.eigh(cells.shape[0, cell])  # ascending
    full = squares + moment  # of the cell's area, as in metrics.aspect_ratios
    others = full[:-1].prod() ** (1 / (full.size - 1))
    # The product of all stays, that of the longest over the others' mean becomes the square of the ratio.
    mean = (full[-1] * others ** (full.size - 1) / ratios**2) ** (1 / full.size)
    # In 3D the others keep their proportion, as far as none of them becomes the longest.
    uneven = full[:-1] / others
    flatter = np.minimum(1.0, 2 * np.log(ratios) / np.log(uneven.max())) if uneven.max() > 1 else np.ones_like(ratios)
    then = np.concatenate([mean[:, None] * uneven ** flatter[:, None], (ratios**2 * mean)[:, None]], axis=1)
    shape = (axes * np.maximum(then - moment, 0)[:, None, :]) @ axes.T
    after = with_shape(cells.variants(ratios.size), cell, shape)
    return with_surface(after, cell, outline(then) / outline(full))


def roughened(cells: Cells, cell: int, surfaces: Floats) -> Cells:
    """More or less surface around the same volume and axes: ragged or smooth."""
    return with_surface(cells.variants(surfaces.size), cell, surfaces / cells.surface[0, cell])


def aspect_ratios(cells: Cells) -> Floats:
    """As `metrics.aspect_ratios`."""
    squares = np.maximum(np.linalg.eigvalsh(cells.shape), 0) + cells.geometry.site_moment
    others = squares[..., :-1].prod(axis=-1) ** (1 / (squares.shape[-1] - 1))
    return np.sqrt(squares[..., -1] / others)


def lengths(cells: Cells) -> Floats:
    """The longest axis, as the term `length` has it."""
    return 2 * reach(cells.geometry) * np.sqrt(np.maximum(np.linalg.eigvalsh(cells.shape)[..., -1], 0))


def widths(cells: Cells) -> Floats:
    """The shortest axis."""
    return 2 * reach(cells.geometry) * np.sqrt(np.maximum(np.linalg.eigvalsh(cells.shape)[..., 0], 0))


def reach(geometry: Geometry) -> float:
    """From the middle of an ellipse (ellipsoid) to its end, in deviations of its sites."""
    return float(np.sqrt(geometry.dimension + 2))


def outline(squares: Floats) -> Floats:
    """Perimeter (surface) of ellipses (ellipsoids) with the squared axes `[…, d]`, up to a factor: Ramanujan's and
    Thomsen's formulas, right to a few parts in a thousand up to aspect ratios of ten."""
    axes = np.sqrt(squares)
    if axes.shape[-1] == 2:
        a, b = axes[..., 0], axes[..., 1]
        return 3 * (a + b) - np.sqrt((3 * a + b) * (a + 3 * b))
    a, b, c = np.moveaxis(axes**1.6075, -1, 0)
    return (a * b + a * c + b * c) ** (1 / 1.6075)


# -- neighbours ------------------------------------------------------------------------------------------------------


def turned(cells: Cells, cell: int, degrees: Floats) -> Cells:
    """Turned in the plane of both long axes until they stand at this angle."""
    own, other = long_axis(cells, cell), long_axis(cells, _nearest(cells, cell))
    other = other if own @ other >= 0 else -other
    across = own - (own @ other) * other
    if np.linalg.norm(across) < 1e-9:  # parallel: any plane will do
        across = np.eye(own.size)[np.argmin(np.abs(other))]
        across = across - (across @ other) * other
    across = across / np.linalg.norm(across)
    by = np.radians(degrees) - np.arctan2(own @ across, own @ other)
    plane, turn = np.outer(other, other) + np.outer(across, across), np.outer(across, other) - np.outer(other, across)
    rotation = np.eye(own.size) + (np.cos(by) - 1)[:, None, None] * plane + np.sin(by)[:, None, None] * turn
    shape = rotation @ cells.shape[0, cell] @ np.swapaxes(rotation, 1, 2)
    return with_shape(cells.variants(degrees.size), cell, shape)


def angles(cells: Cells) -> Floats:
    """Between the long axes of every cell and of the neighbour it shares most of its surface with, in degrees."""
    found = np.full(cells.volume.shape, np.nan)
    for cell in np.unique(cells.receiver):
        cosine = float(np.abs(long_axis(cells, cell) @ long_axis(cells, _nearest(cells, cell))))
        found[:, cell] = np.degrees(np.arccos(min(1.0, cosine)))
    return found


def long_axis(cells: Cells, cell: int) -> Floats:
    """Of the first variant."""
    return np.linalg.eigh(cells.shape[0, cell]).eigenvectors[:, -1]


def _nearest(cells: Cells, cell: int) -> int:
    own = np.flatnonzero(cells.receiver == cell)
    return int(cells.sender[own[np.argmax(cells.contact[0, own])]])


def _share_of_contact(number: int, name: str) -> Quantity:
    """The share of a cell's surface that touches one type, or the medium; the others share the rest as before."""

    def touched(cells: Cells) -> Floats:
        with_type = np.where(cells.types[cells.sender] == number, cells.contact, 0.0)
        return cells.medium if number == 0 else cells.summed(with_type)

    def measured(cells: Cells) -> Floats:
        none = np.full_like(cells.medium, np.nan)
        return 100 * np.divide(touched(cells), cells.surface, out=none, where=cells.surface > 0)

    def changed(cells: Cells, cell: int, percent: Floats) -> Cells:
        shares = percent / 100
        surface, now = cells.surface[0, cell], touched(cells)[0, cell]
        own = np.flatnonzero(cells.receiver == cell)
        like = cells.types[cells.sender[own]] == number
        # Who touches nothing else cannot touch less of them, and who touches none of them knows nobody to touch more;
        # medium is everywhere.
        possible = now < surface and (now > 0 or number == 0)
        more = shares * surface / now if possible and now > 0 else np.full(shares.shape, np.nan)
        less = (1 - shares) * surface / (surface - now) if possible else np.full(shares.shape, np.nan)
        medium = shares * surface if number == 0 else less * cells.medium[0, cell]
        contacts = cells.contact[0, own] * np.where(like, more[:, None], less[:, None])
        return with_contacts(cells.variants(shares.size), cell, contacts, medium if possible else less)

    return Quantity(f"share of contact with {name}", "%", measured, changed, (0.0, 100.0))


def _property(number: int, name: str) -> Quantity:
    def changed(cells: Cells, cell: int, values: Floats) -> Cells:
        after = cells.variants(values.size)
        after.properties[:, cell, number] = values
        return after

    return Quantity(name, "", lambda cells: cells.properties[..., number], changed)


# -- what follows ----------------------------------------------------------------------------------------------------


def with_shape(cells: Cells, cell: int, shape: Floats) -> Cells:
    """Another shape `[G, d, d]` of one cell in every variant; neighbours move out of its way or after it."""
    own = np.flatnonzero(cells.receiver == cell)
    way = cells.way[:, own]
    distance = np.linalg.norm(way, axis=-1)
    direction = way / np.where(distance > 0, distance, 1.0)[..., None]

    def extent(of: Floats) -> Floats:
        return reach(cells.geometry) * np.sqrt(np.maximum(np.einsum("gei,gij,gej->ge", direction, of, direction), 0))

    gained = extent(shape) - extent(cells.shape[:, cell])
    moved, shapes = cells.way.copy(), cells.shape.copy()
    shapes[:, cell] = shape
    moved[:, own] = direction * np.maximum(distance + gained, 0)[..., None]
    moved[:, cells.reverse[own]] = -moved[:, own]
    return replace(cells, shape=shapes, way=moved)


def with_surface(cells: Cells, cell: int, factor: Floats) -> Cells:
    """The surface of one cell times a factor `[G]`, shared as before."""
    own = cells.receiver == cell
    return with_contacts(cells, cell, cells.contact[:, own] * factor[:, None], cells.medium[:, cell] * factor)


def with_contacts(cells: Cells, cell: int, contacts: Floats, medium: Floats) -> Cells:
    """Other contacts `[G, k]`, in the order of its own, and contact with the medium `[G]` of one cell."""
    own = np.flatnonzero(cells.receiver == cell)
    gained = contacts - cells.contact[:, own]
    contact, with_medium = cells.contact.copy(), cells.medium.copy()
    contact[:, own] = contact[:, cells.reverse[own]] = contacts
    neighbours = cells.sender[own]
    with_medium[:, neighbours] = np.maximum(with_medium[:, neighbours] - gained, 0)
    with_medium[:, cell] = medium
    return replace(cells, contact=contact, medium=with_medium)
