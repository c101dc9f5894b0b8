"""The lattice: its geometry, its shape, its boundary per axis, and who is next to whom on it.

Sites are numbered row by row: `site = row * W + col`, in 3D `site = (plane * H + row) * W + col`. Whatever has one
entry per axis follows the array's axes: (row, col) or (plane, row, col); positions in space likewise, y before x.

Hexagonal lattices lie on skewed axes: x = col + row/2, y = √3/2·row, as Morpheus stores them. CompuCell3D stores them
in rows, every second one pushed by half a site (`layout="rows"`); `to_skewed` and `to_rows` convert where both can hold
the same state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Literal, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import NDArray

from .errors import UserError
from .geometry import GEOMETRIES, MOST_NEIGHBOURS, Geometry, GeometryName, geometry_named

Boundary = Literal["periodic", "free"]
Layout = Literal["axes", "rows"]

__all__ = [
    "GEOMETRIES",
    "MOST_NEIGHBOURS",
    "Boundary",
    "Geometry",
    "GeometryName",
    "Lattice",
    "Layout",
    "Pairs",
    "Window",
    "boundaries",
    "boundary_text",
    "geometry_named",
    "size_text",
    "to_rows",
    "to_skewed",
]


Window = tuple[slice, ...]
"""A part of the lattice's array, as an index into it."""


class Pairs(NamedTuple):
    """Sites at both ends of neighbour pairs, flat indices of equal length."""

    here: NDArray[np.int64]
    there: NDArray[np.int64]


@dataclass(frozen=True)
class Lattice:
    """A geometry with a size and a boundary per axis. Everything that asks for neighbours or places asks this."""

    geometry: Geometry
    shape: tuple[int, ...]
    boundary: tuple[Boundary, ...]
    layout: Layout = "axes"
    """"rows": hexagonal rows as CompuCell3D stores them, site (y, x) at x + ½ for even and x for odd y."""

    def __post_init__(self) -> None:
        dimension = self.geometry.dimension
        if len(self.shape) != dimension or min(self.shape, default=0) < 1:
            raise UserError(
                f"A lattice of {size_text(self.shape)} sites was given, but a {self.geometry.name} one has {dimension} "
                "axes of at least one site each: give another shape or another lattice."
            )
        if len(self.boundary) != dimension:
            raise UserError(
                f"{len(self.boundary)} boundaries were given for the {dimension} axes of a {self.geometry.name} "
                "lattice: give one for all or one per axis."
            )
        if self.layout == "rows":
            if self.geometry.name != "hexagonal":
                raise UserError(f"Pushed rows belong to hexagonal lattices, not to {self.geometry.name} ones.")
            if self.boundary[0] == "periodic" and self.shape[0] % 2:
                raise UserError(
                    f"A hexagonal lattice in rows is periodic over {self.shape[0]} of them, but only an even number "
                    "closes to a ring: use an even number of rows."
                )

    @classmethod
    def of(
        cls,
        shape: Sequence[int],
        geometry: str | Geometry | None = None,
        boundary: str | Sequence[str] = "periodic",
        layout: Layout = "axes",
    ) -> Lattice:
        """From names; without a geometry two axes are square and three cubic."""
        if geometry is None:
            geometry = "cubic" if len(shape) == 3 else "square"
        if isinstance(geometry, str):
            geometry = geometry_named(geometry)
        return cls(geometry, tuple(map(int, shape)), boundaries(boundary, geometry.dimension), layout)

    @property
    def dimension(self) -> int:
        return self.geometry.dimension

    @property
    def sites(self) -> int:
        return int(np.prod(self.shape))

    @property
    def periodic(self) -> tuple[bool, ...]:
        return tuple(word == "periodic" for word in self.boundary)

    def with_boundary(self, boundary: str | Sequence[str]) -> Lattice:
        return replace(self, boundary=boundaries(boundary, self.dimension))

    def site(self, *index: int) -> int:
        """The number of a site from its place in the array; refuses one that is not there."""
        if len(index) != self.dimension or not all(0 <= i < n for i, n in zip(index, self.shape, strict=True)):
            raise UserError(
                f"Site {tuple(index)} does not lie on the lattice of {size_text(self.shape)} sites: give a site on it."
            )
        return int(np.ravel_multi_index(index, self.shape))

    def index(self, site: int) -> tuple[int, ...]:
        """(row, col) or (plane, row, col) of a site."""
        return tuple(int(i) for i in np.unravel_index(site, self.shape))

    # -- neighbours ------------------------------------------------------------------------------------------------

    def shifted(self, offset: Sequence[int], sites: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """The sites one offset away from `sites` (all, where none are given); −1 beyond a free border.

        On a periodic lattice narrower than the offset a site may come out as its own neighbour: it is none.
        """
        flat = np.arange(self.sites) if sites is None else np.asarray(sites, dtype=np.int64)
        places = list(np.unravel_index(flat, self.shape))
        inside = np.ones(flat.shape, dtype=bool)
        if self.layout == "rows":
            rows = places[0]
            places[1] = places[1] + (rows + offset[0] + 1) // 2 - (rows + 1) // 2
        for axis, (step, size, wraps) in enumerate(zip(offset, self.shape, self.periodic, strict=True)):
            place = places[axis] + step
            if not wraps:
                inside &= (place >= 0) & (place < size)
            places[axis] = place % size
        there = np.ravel_multi_index(tuple(places), self.shape)
        return np.where(inside & (there != flat), there, -1)

    def neighbours(self, order: int, sites: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Neighbours of sites (all, where none are given), `[sites, n]`; −1 where there is none."""
        return np.stack([self.shifted(offset, sites) for offset in self.geometry.offsets(order)], axis=-1)

    def pairs(self, order: int) -> Iterator[Pairs]:
        """Every unordered pair of neighbours once, direction by direction."""
        for offset in self.geometry.half_offsets(order):
            there = self.shifted(offset)
            here = np.flatnonzero(there >= 0)
            yield Pairs(here, there[here])

    def windows(self, offset: Sequence[int]) -> Iterator[tuple[Window, Window]]:
        """Equal parts of the array, here and one offset away, that hold every pair in this direction once.

        What `pairs` says in site numbers, as slices: no memory, and fast on large lattices.
        """
        for here, there in self._windows(offset):
            if here != there:  # no site is its own neighbour
                yield here, there

    def _windows(self, offset: Sequence[int]) -> Iterator[tuple[Window, Window]]:
        axes = [_spans(*axis) for axis in zip(offset, self.shape, self.periodic, strict=True)]
        if self.layout == "axes":
            for parts in product(*axes):
                yield tuple(here for here, _ in parts), tuple(there for _, there in parts)
            return
        down, right = offset
        for parity in (0, 1):  # how far a step leads sideways depends on the row's parity
            sideways = right + (down + 1 + parity) // 2 - parity
            for rows, columns in product(axes[0], _spans(sideways, self.shape[1], self.periodic[1])):
                skip = (parity - rows[0].start) % 2
                here, there = (slice(part.start + skip, part.stop, 2) for part in rows)
                yield (here, columns[0]), (there, columns[1])

    # -- places ----------------------------------------------------------------------------------------------------

    def coordinates(self, sites: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Whole-numbered coordinates along the geometry's axes, `[n, d]`; for rows those on skewed axes."""
        flat = np.arange(self.sites) if sites is None else sites
        places = np.stack(np.unravel_index(flat, self.shape), axis=-1)
        if self.layout == "rows":
            places[..., 1] -= (places[..., 0] + 1) // 2
        return places

    @property
    def periods(self) -> NDArray[np.int64]:
        """What going once round each axis adds to the coordinates, `[d, d]`, one row per axis."""
        periods = np.diag(self.shape)
        if self.layout == "rows":
            periods[0, 1] = -(self.shape[0] // 2)
        return periods

    def in_space(self, coordinates: NDArray[np.generic]) -> NDArray[np.float64]:
        """Positions (y, x) or (z, y, x) of coordinates `[..., d]`, in units of the nearest neighbours' distance."""
        return np.asarray(coordinates, dtype=np.float64) @ self.geometry.basis

    @property
    def corner(self) -> NDArray[np.float64]:
        """Where coordinates of zero lie in space, `[d]`."""
        return np.array([0, 0.5]) if self.layout == "rows" else np.zeros(self.dimension)

    @property
    def middle(self) -> NDArray[np.float64]:
        """The middle of the lattice in space, `[d]`."""
        if self.layout == "rows":  # between the rows' own middles, which are pushed by turns
            return np.array([(self.shape[0] - 1) * np.sqrt(3) / 4, self.shape[1] / 2 - 0.25])
        return self.in_space((np.array(self.shape) - 1) / 2)

    def positions(self, sites: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Where sites (all, where none are given) lie, `[n, d]`."""
        places = self.in_space(self.coordinates(sites))
        return places + self.corner if self.layout == "rows" else places

    def seen_from(self, origin: Sequence[int], coordinates: NDArray[np.generic]) -> NDArray[np.float64]:
        """Coordinates `[n, d]` less those of a site, moved by whole ways round to lie behind it on periodic axes."""
        away = np.asarray(coordinates, dtype=np.float64) - self.coordinates(np.array([self.site(*origin)]))
        straight = away.copy()
        if self.layout == "rows":  # cut along the array's columns, which run straight up; every second site sticks out
            straight[:, 1] = (self.in_space(coordinates) + self.corner)[:, 1] - origin[1]
        rounds = np.floor_divide(straight, self.shape) * np.array(self.periodic)
        return away - rounds @ self.periods

    def shortest(self, ways: NDArray[np.generic]) -> NDArray[np.float64]:
        """Ways `[n, d]` along the geometry's axes as nearest images round periodic ones, in space."""
        found = np.asarray(ways, dtype=np.float64)
        for axis, (wraps, period) in enumerate(zip(self.periodic, self.periods, strict=True)):
            if wraps:
                found = found - np.round(found[:, axis : axis + 1] / self.shape[axis]) * period
        return self.in_space(found)

    def symmetries(self) -> list[NDArray[np.int64]]:
        """Turns and mirrors that this lattice, shape and boundary included, has: `ids.ravel()[permutation]`."""
        return _lattice_symmetries(self)


@lru_cache(maxsize=16)
def _lattice_symmetries(lattice: Lattice) -> list[NDArray[np.int64]]:
    if lattice.layout == "rows":
        return [np.arange(lattice.sites)]
    coordinates, found = lattice.coordinates(), []
    for matrix in lattice.geometry.symmetries:
        if not _keeps(lattice, matrix):
            continue
        places = coordinates @ matrix.T
        for axis, (size, wraps) in enumerate(zip(lattice.shape, lattice.periodic, strict=True)):
            places[:, axis] = places[:, axis] % size if wraps else places[:, axis] - places[:, axis].min()
        found.append(np.ravel_multi_index(tuple(places.T), lattice.shape))
    return found


def _keeps(lattice: Lattice, matrix: NDArray[np.int64]) -> bool:
    """Whether a turn or mirror maps the lattice's box, and its way round, onto itself."""
    mixes = (np.count_nonzero(matrix, axis=1) > 1).any()
    for axis, other in np.argwhere(matrix):
        if lattice.shape[axis] != lattice.shape[other] or lattice.boundary[axis] != lattice.boundary[other]:
            return False
    return not mixes or (all(lattice.periodic) and len(set(lattice.shape)) == 1)


def _spans(step: int, size: int, wraps: bool) -> list[tuple[slice, slice]]:
    """Stretches of one axis and where a step leads from them."""
    if wraps:
        step %= size
        parts = [(slice(0, size - step), slice(step, size)), (slice(size - step, size), slice(0, step))]
    elif step >= 0:
        parts = [(slice(0, size - step), slice(step, size))]
    else:
        parts = [(slice(-step, size), slice(0, size + step))]
    return [(here, there) for here, there in parts if here.start < here.stop]


def boundaries(words: str | Sequence[str], dimension: int) -> tuple[Boundary, ...]:
    """One boundary per axis from one word for all, or one each."""
    each = (words,) * dimension if isinstance(words, str) else tuple(str(word) for word in words)
    if len(each) == 1:
        each *= dimension
    for word in each:
        if word not in get_args(Boundary):
            raise UserError(f"The boundary is {word!r}, but 'periodic' or 'free' is needed: correct it.")
    if len(each) != dimension:
        raise UserError(
            f"{len(each)} boundaries were given for {dimension} axes: give one for all axes or one for each of them."
        )
    return cast("tuple[Boundary, ...]", each)


def boundary_text(boundary: Sequence[str]) -> str:
    """`periodic`, or `free × periodic` where axes differ."""
    return boundary[0] if len(set(boundary)) == 1 else " × ".join(boundary)


def size_text(shape: Sequence[int]) -> str:
    """`100 × 80`."""
    return " × ".join(map(str, shape))


# -- hexagonal rows and skewed axes --------------------------------------------------------------------------------


def to_skewed(ids: NDArray[np.int32], lattice: Lattice, margin: int = 1) -> tuple[NDArray[np.int32], Lattice]:
    """A hexagonal state in CompuCell3D's rows on skewed axes: the same cells on the same sites.

    Between free sides medium fills the corners of the larger box; refused where a cell comes within `margin` columns of
    those sides, because beyond them there would be medium where there was nothing, and where the two rings differ.
    """
    _check_rings(ids, lattice, margin)
    height, width = lattice.shape
    wider = width if lattice.periodic[1] else width + height // 2
    skewed = Lattice(lattice.geometry, (height, wider), lattice.boundary)
    rows, cols = np.indices(lattice.shape)
    cols = (cols - (rows + 1) // 2) % width if lattice.periodic[1] else cols - (rows + 1) // 2 + height // 2
    moved = np.zeros(skewed.shape, dtype=ids.dtype)
    moved[rows, cols] = ids
    return moved, skewed


def to_rows(ids: NDArray[np.int32], lattice: Lattice, width: int | None = None) -> tuple[NDArray[np.int32], Lattice]:
    """A hexagonal state on skewed axes in CompuCell3D's rows; the inverse of `to_skewed`.

    Between free sides the rows are as wide as the state needs with one column of medium on each side, or `width`.
    """
    height = lattice.shape[0]
    if lattice.boundary[0] == "periodic" and height % 2:
        raise UserError(
            f"The hexagonal lattice is periodic over {height} rows, but CompuCell3D's rows need an even number: "
            "use such a lattice."
        )
    rows, cols = np.indices(lattice.shape)
    if lattice.periodic[1]:
        target = Lattice(lattice.geometry, lattice.shape, lattice.boundary, "rows")
        _check_rings(ids, target)
        moved = np.zeros_like(ids)
        moved[rows, (cols + (rows + 1) // 2) % lattice.shape[1]] = ids
        return moved, target
    cols = cols + (rows + 1) // 2
    occupied = cols[ids > 0]
    first, last = (int(occupied.min()), int(occupied.max())) if occupied.size else (0, 0)
    needed = last - first + 3
    room = needed if width is None else width
    if room < needed - 2:
        raise UserError(
            f"The state needs {needed - 2} columns in rows of hexagons, but {room} were asked for: give it more room."
        )
    cols = cols - first + (room - (last - first + 1)) // 2
    moved = np.zeros((height, room), dtype=ids.dtype)
    inside = (cols >= 0) & (cols < room)
    moved[rows[inside], cols[inside]] = ids[inside]
    target = Lattice(lattice.geometry, moved.shape, lattice.boundary, "rows")
    _check_rings(moved, target)
    return moved, target


def _check_rings(ids: NDArray[np.int32], rows: Lattice, margin: int = 1) -> None:
    """Refuse what rows and skewed axes cannot both hold."""
    height, width = rows.shape
    if rows.periodic[0] and (not rows.periodic[1] or (height // 2) % width):
        raise UserError(
            f"A hexagonal lattice of {height} rows of {width} that is periodic across the rows closes to another ring "
            "on skewed axes than in CompuCell3D's rows: make that axis free, or take twice as many rows as columns."
        )
    if not rows.periodic[1] and (ids[:, :margin].any() or ids[:, -margin:].any()):
        raise UserError(
            f"A cell lies within {margin} columns of a free side of a hexagonal lattice, where rows and skewed axes "
            "have different borders: leave as many columns of medium on both sides."
        )
