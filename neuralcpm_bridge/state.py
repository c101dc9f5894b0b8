"""The state of a cellular Potts model: which cell owns each site, what each cell is, and their lattice."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import UserError
from .lattice import Lattice, size_text

NO_CELL = -1
"""Type of an id that does not exist."""

MOST_TYPES = 1000
"""What is said of pairs of types has a table of so many squared; hosts end at some hundred."""

BLOCK = 1 << 20
"""Sites looked at together where a table is asked for each: NumPy widens ids to 64 bit for that."""


@dataclass(frozen=True, eq=False)
class CellState:
    """`ids[H, W]` or `ids[D, H, W]` (0 = medium) and `types[C]` (type of every id; `types[0] = 0`, −1 = no such cell).

    Without a lattice two axes are square and three cubic, periodic. `properties`: further numbers of cells by their
    names, such as an age or a marker's intensity, `[C]` each (0 for the medium and where there is no such cell).
    Checked once, on construction; everything behind it may rely on it.
    """

    ids: NDArray[np.int32]
    types: NDArray[np.int32]
    lattice: Lattice = None  # type: ignore[assignment]  # always set behind the constructor
    properties: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ids, types = _integers(self.ids, "the lattice of cell ids"), _integers(self.types, "the list of cell types")
        object.__setattr__(self, "lattice", _checked_lattice(ids, self.lattice))
        _check_types(types)
        _check_ids(ids, types)
        object.__setattr__(self, "ids", np.ascontiguousarray(ids, dtype=np.int32))
        object.__setattr__(self, "types", np.ascontiguousarray(types, dtype=np.int32))
        checked = {name: _checked_property(name, values, types) for name, values in self.properties.items()}
        object.__setattr__(self, "properties", checked)

    # -- conversions -----------------------------------------------------------------------------------------

    @classmethod
    def from_channels(cls, channels: ArrayLike, cells: int | None = None, lattice: Lattice | None = None) -> CellState:
        """From `[2, H, W]` or `[2, D, H, W]`: ids and type map.

        `cells` is the number of ids, medium included. Ids without pixels have no type on the map; where `cells`
        says that they exist they are given type 1, which no model of the paper can tell from another.
        """
        array = _integers(channels, "the state")
        if array.ndim not in (3, 4) or array.shape[0] != 2 or array.size == 0:
            raise UserError(
                f"A state of shape {array.shape} was found where [2, H, W] or [2, D, H, W] (ids and type map) was "
                "expected: stack the two maps, one state at a time."
            )
        ids, type_map = array
        if ids.min() < 0 or type_map.min() < 0:
            what = "cell id" if ids.min() < 0 else "cell type"
            raise UserError(f"A negative {what} was found on the lattice, but 0 is the smallest: renumber them.")
        count = int(ids.max()) + 1
        if cells is None:
            cells, absent = count, NO_CELL
        else:
            absent = 1
            if count > cells:
                raise UserError(
                    f"The state holds cell {count - 1}, but the model knows {cells} ids (0 to {cells - 1}): "
                    "renumber the cells or use a model that is not fixed to a number of cells."
                )
        types = np.full(cells, absent, dtype=np.int32)
        # Backwards, so that a cell's first site is written last and counts.
        types[np.ascontiguousarray(ids.ravel()[::-1])] = np.ascontiguousarray(type_map.ravel()[::-1])
        types[0] = 0
        wrong = looked_up(types, ids) != type_map
        if wrong.any():
            site = _first(wrong)
            raise UserError(
                f"Cell {ids[site]} has type {types[ids[site]]} at one site and type {type_map[site]} at "
                f"{site}, but a cell has one type: correct the type map."
            )
        return cls(ids, types, lattice)  # type: ignore[arg-type]

    @classmethod
    def from_labels(
        cls,
        labels: ArrayLike,
        cell_types: Sequence[int] | dict[int, int] | int = 1,
        lattice: Lattice | None = None,
    ) -> CellState:
        """From a label image `[H, W]` or stack `[D, H, W]` (0 = background), renumbered 1, 2, … in the labels' order.

        `cell_types`: one type for all, a mapping label → type, or one type per label in ascending order.
        """
        image = _integers(labels, "the label image")
        if image.ndim not in (2, 3):
            raise UserError(f"A label image has two or three axes, but this one has shape {image.shape}: pass one.")
        if image.size and image.min() < 0:
            raise UserError(f"The label image holds the negative label {image.min()}, but labels are 0 or larger.")
        cell_labels = distinct_labels(image)
        if isinstance(cell_types, int):
            of_label = [cell_types] * cell_labels.size
        elif isinstance(cell_types, dict):
            missing = [int(label) for label in cell_labels if int(label) not in cell_types]
            if missing:
                raise UserError(f"Label {missing[0]} has no type, but every cell needs one: add it to the type list.")
            of_label = [cell_types[int(label)] for label in cell_labels]
        else:
            of_label = list(cell_types)
            if len(of_label) != cell_labels.size:
                raise UserError(
                    f"{len(of_label)} types were given for {cell_labels.size} labels: give one type per label."
                )
        ids = np.empty(image.shape, dtype=np.int32)
        numbered = np.concatenate([np.zeros(1, dtype=cell_labels.dtype), cell_labels])
        for part, block in _blocks(image, ids):
            block[:] = np.searchsorted(numbered, part)
        return cls(ids, np.array([0, *of_label], dtype=np.int32), lattice)  # type: ignore[arg-type]

    def to_channels(self) -> NDArray[np.int32]:
        """`[2, H, W]` or `[2, D, H, W]`: ids and type map."""
        return np.stack([self.ids, self.type_map])

    def reading(self, names: Sequence[str]) -> CellState:
        """With these properties alone, in this order; refused where it lacks one of them."""
        if tuple(names) == tuple(self.properties):
            return self
        check_properties(names, self.properties)
        return replace(self, properties={name: self.properties[name] for name in names})

    def property_table(self) -> NDArray[np.float64]:
        """All properties, `[C, P]`."""
        columns = list(self.properties.values())
        return np.stack(columns, axis=1) if columns else np.zeros((self.types.size, 0))

    # -- what a state tells ----------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        return self.lattice.shape

    @property
    def type_map(self) -> NDArray[np.int32]:
        """Type of every site, shaped like `ids`."""
        return looked_up(self.types, self.ids)

    @property
    def volumes(self) -> NDArray[np.int64]:
        """Number of sites of every id, `[C]`."""
        counts = np.zeros(self.types.size, dtype=np.int64)
        for part, _ in _blocks(self.ids):
            counts += np.bincount(part, minlength=counts.size)
        return counts

    @property
    def cells(self) -> NDArray[np.int64]:
        """Ids of the cells that have pixels."""
        return np.flatnonzero(self.volumes[1:]) + 1

    def boundary(self, order: int | None = None) -> NDArray[np.bool_]:
        """Sites with a neighbour of another cell, shaped like `ids`; by default next to them in any direction."""
        mask = np.zeros(self.shape, dtype=bool)
        for offset in self._half_offsets(order):
            for here, there in self.lattice.windows(offset):
                differs = self.ids[here] != self.ids[there]
                mask[here] |= differs
                mask[there] |= differs
        return mask

    def contacts(self, types: int | None = None, order: int | None = None) -> NDArray[np.int64]:
        """Unordered neighbour pairs between different cells, by type: symmetric `[T, T]`, each pair counted once.

        T is the number of types of the state, or `types` where that is larger.
        """
        count = max(int(self.types.max()) + 1, types or 0)
        table = np.zeros(count * count, dtype=np.int64)
        for a, b in self.meetings(order):
            table += np.bincount(self.types[a] * count + self.types[b], minlength=table.size)
        ordered = table.reshape(count, count)
        return ordered + np.triu(ordered, 1).T + np.tril(ordered, -1).T

    def surfaces(self, order: int | None = None) -> NDArray[np.float64]:
        """Surface of every id, `[C]`: its pairs with sites of others times 2/|N|, |N| the number of neighbours."""
        pairs = np.zeros(self.types.size)
        for a, b in self.meetings(order):
            pairs += np.bincount(a, minlength=pairs.size) + np.bincount(b, minlength=pairs.size)
        geometry = self.lattice.geometry
        return pairs * geometry.pair_weight(geometry.moore_order if order is None else order)

    def fragments(self) -> NDArray[np.int64]:
        """Number of connected pieces of every id, `[C]`; the medium's own entry is left 0."""
        from .metrics.geometry import fragments

        return fragments(self)

    def meetings(self, order: int | None = None) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int32]]]:
        """Ids at both ends of every pair of neighbours that belong to different cells, part by part."""
        for offset in self._half_offsets(order):
            for here, there in self.lattice.windows(offset):
                a, b = self.ids[here], self.ids[there]
                differs = a != b
                yield a[differs], b[differs]

    def _half_offsets(self, order: int | None) -> NDArray[np.int64]:
        geometry = self.lattice.geometry
        return geometry.half_offsets(geometry.moore_order if order is None else order)


def is_property_name(name: str) -> bool:
    """Letters, digits and underscores, a letter first: what every host takes as a symbol."""
    return re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) is not None


def check_properties(wanted: Iterable[str], known: Iterable[str]) -> None:
    """Refuse cells that lack a property which a model reads."""
    missing = [name for name in wanted if name not in known]
    if missing:
        found = ", ".join(known)
        raise UserError(
            f"The model reads the property {missing[0]!r} of every cell, but the cells here have "
            f"{'only ' + found if found else 'none'}: give it as a further column of the types table (neuralcpm data "
            "import), or use another model."
        )


def distinct_labels(labels: NDArray[np.integer]) -> NDArray[Any]:
    """Labels above 0, ascending. Sorted are only the beginnings of runs of one label: some percent of an image."""
    flat = labels.ravel()
    begins = np.ones(flat.size, dtype=bool)
    np.not_equal(flat[1:], flat[:-1], out=begins[1:])
    found = np.unique(flat[begins])
    return found[found > 0]


def looked_up(table: NDArray[Any], ids: NDArray[np.integer]) -> NDArray[Any]:
    """`table[ids]` in bounded memory."""
    found = np.empty(ids.shape, dtype=table.dtype)
    for part, block in _blocks(ids, found):
        np.take(table, part, out=block)
    return found


def _blocks(
    array: NDArray[np.integer], other: NDArray[Any] | None = None
) -> Iterator[tuple[NDArray[np.integer], NDArray[Any]]]:
    """Flat parts of an array, and of another one of its shape."""
    flat = array.ravel()
    beside = flat if other is None else other.reshape(-1)
    for start in range(0, flat.size, BLOCK):
        yield flat[start : start + BLOCK], beside[start : start + BLOCK]


# -- checks --------------------------------------------------------------------------------------------------------


def _checked_lattice(ids: NDArray[np.integer], lattice: Lattice | None) -> Lattice:
    if ids.ndim not in (2, 3):
        raise UserError(
            f"The lattice of cell ids has {ids.ndim} dimensions (shape {ids.shape}), but [H, W] or [D, H, W] is "
            "needed: pass one state at a time."
        )
    if ids.size == 0:
        raise UserError(f"The lattice of cell ids is empty (shape {ids.shape}): pass at least one site.")
    if lattice is None:
        return Lattice.of(ids.shape)
    if lattice.shape != ids.shape:
        raise UserError(
            f"The cell ids have {size_text(ids.shape)} sites, but their {lattice.geometry.name} lattice has "
            f"{size_text(lattice.shape)}: give the lattice of these ids."
        )
    return lattice


def _check_types(types: NDArray[np.integer]) -> None:
    if types.ndim != 1 or types.size == 0 or types[0] != 0:
        raise UserError(
            "The list of cell types must be one-dimensional, indexed by cell id and start with 0 for the medium, "
            f"but it is {_brief(types)}: put the medium first."
        )
    if types.max() > MOST_TYPES:
        cell = int(np.argmax(types))
        raise UserError(
            f"Cell {cell} has type {types[cell]}, but {MOST_TYPES} is the largest number of a type: number the types "
            "1, 2, 3, …"
        )
    wrong = (types[1:] == 0) | (types[1:] < NO_CELL)
    if wrong.any():
        cell = int(np.argmax(wrong)) + 1
        raise UserError(
            f"Cell {cell} has type {types[cell]}, but a cell's type is 1 or larger (0 is the medium, −1 means "
            "no such cell): correct its type."
        )


def _check_ids(ids: NDArray[np.integer], types: NDArray[np.integer]) -> None:
    if ids.min() < 0:
        site = _first(ids < 0)
        raise UserError(
            f"Site {site} has the negative cell id {ids[site]}, but ids are 0 for the medium and positive for cells: "
            "renumber the cells."
        )
    if ids.max() >= types.size:
        site = _first(ids >= types.size)
        raise UserError(
            f"Site {site} belongs to cell {ids[site]}, but types are given for ids up to {types.size - 1} only: give "
            "every cell a type."
        )
    absent = types == NO_CELL
    for part, _ in _blocks(ids) if absent.any() else ():
        untyped = part[absent[part]]
        if untyped.size:
            raise UserError(f"Cell {untyped.min()} has pixels but no type (−1): give every cell on the lattice a type.")


def _checked_property(name: str, values: ArrayLike, types: NDArray[np.integer]) -> NDArray[np.float64]:
    """As float64, with 0 where there is no cell."""
    if not is_property_name(name):
        raise UserError(
            f"A property of cells is called {name!r}, but hosts take letters, digits and underscores, a letter first: "
            "rename it."
        )
    array = np.asarray(values)
    if array.shape != types.shape or array.dtype.kind not in "iuf":
        raise UserError(
            f"The property {name!r} is an array of shape {array.shape} and type {array.dtype}, but one number for each "
            f"of the {types.size} ids is needed, the medium's first: give as many."
        )
    numbers = np.where(types > 0, array, 0).astype(np.float64)
    if not np.isfinite(numbers).all():
        cell = int(np.argmin(np.isfinite(numbers)))
        raise UserError(f"The property {name!r} of cell {cell} is {numbers[cell]}, but a finite number is needed.")
    return numbers


def _integers(values: ArrayLike, what: str) -> NDArray[np.integer]:
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        name = what[0].upper() + what[1:]
        raise UserError(f"{name} has the data type {array.dtype}, but integers are needed: convert it first.")
    return array


def _first(mask: NDArray[np.bool_]) -> tuple[int, ...]:
    """The first site of a mask, as an index."""
    return tuple(int(place) for place in np.unravel_index(np.argmax(mask), mask.shape))


def _brief(values: NDArray[np.integer]) -> str:
    text = np.array2string(values.ravel()[:6], separator=", ")
    return text[:-1] + ", …]" if values.size > 6 else text
