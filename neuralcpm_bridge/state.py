"""The state of a cellular Potts model: which cell owns each site, and the type of each cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import UserError

NO_CELL = -1
"""Type of an id that does not exist."""

MOORE_HALF = ((0, 1), (1, 0), (1, 1), (1, -1))
"""One offset of each unordered pair of Moore neighbours."""


@dataclass(frozen=True, eq=False)
class CellState:
    """`ids[H, W]` (0 = medium) and `types[C]` (type of every id; `types[0] = 0`, −1 = no such cell).

    Checked once, on construction; everything behind it may rely on it.
    """

    ids: NDArray[np.int32]
    types: NDArray[np.int32]

    def __post_init__(self) -> None:
        ids, types = _integers(self.ids, "the lattice of cell ids"), _integers(self.types, "the list of cell types")
        if ids.ndim != 2:
            raise UserError(
                f"The lattice of cell ids has {ids.ndim} dimensions (shape {ids.shape}), but a 2D square lattice "
                "[H, W] is needed: pass one 2D slice."
            )
        if ids.size == 0:
            raise UserError(f"The lattice of cell ids is empty (shape {ids.shape}): pass at least one site.")
        if types.ndim != 1 or types.size == 0 or types[0] != 0:
            raise UserError(
                "The list of cell types must be one-dimensional, indexed by cell id and start with 0 for the medium, "
                f"but it is {_brief(types)}: put the medium first."
            )
        if ids.min() < 0:
            row, col = np.argwhere(ids < 0)[0]
            raise UserError(
                f"Site ({row}, {col}) has the negative cell id {ids[row, col]}, but ids are 0 for the medium and "
                "positive for cells: renumber the cells."
            )
        if ids.max() >= types.size:
            row, col = np.argwhere(ids >= types.size)[0]
            raise UserError(
                f"Site ({row}, {col}) belongs to cell {ids[row, col]}, but types are given for ids up to "
                f"{types.size - 1} only: give every cell a type."
            )
        if (types[1:] == 0).any() or (types < NO_CELL).any():
            cell = int(np.flatnonzero((types[1:] == 0) | (types[1:] < NO_CELL))[0]) + 1
            raise UserError(
                f"Cell {cell} has type {types[cell]}, but a cell's type is 1 or larger (0 is the medium, −1 means "
                "no such cell): correct its type."
            )
        present = np.unique(ids)
        untyped = present[types[present] == NO_CELL]
        if untyped.size:
            raise UserError(f"Cell {untyped[0]} has pixels but no type (−1): give every cell on the lattice a type.")
        object.__setattr__(self, "ids", np.ascontiguousarray(ids, dtype=np.int32))
        object.__setattr__(self, "types", np.ascontiguousarray(types, dtype=np.int32))

    # -- conversions -----------------------------------------------------------------------------------------

    @classmethod
    def from_channels(cls, channels: ArrayLike, cells: int | None = None) -> CellState:
        """From `[2, H, W]`: ids and type map.

        `cells` is the number of ids, medium included. Ids without pixels have no type on the map; where `cells`
        says that they exist they are given type 1, which no model of the paper can tell from another.
        """
        array = _integers(channels, "the state")
        if array.ndim != 3 or array.shape[0] != 2:
            raise UserError(
                f"A state of shape {array.shape} was found where [2, H, W] (ids and type map of a 2D lattice) was "
                "expected: stack the two maps, one state at a time."
            )
        ids, type_map = array
        if ids.size and (ids.min() < 0 or type_map.min() < 0):
            what = "cell id" if ids.min() < 0 else "cell type"
            raise UserError(f"A negative {what} was found on the lattice, but 0 is the smallest: renumber them.")
        present, first = np.unique(ids, return_index=True)
        count = int(present[-1]) + 1 if present.size else 1
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
        types[0] = 0
        types[present] = type_map.ravel()[first]
        wrong = types[ids] != type_map
        if wrong.any():
            row, col = np.argwhere(wrong)[0]
            raise UserError(
                f"Cell {ids[row, col]} has type {types[ids[row, col]]} at one site and type {type_map[row, col]} at "
                f"({row}, {col}), but a cell has one type: correct the type map."
            )
        return cls(ids, types)

    @classmethod
    def from_labels(cls, labels: ArrayLike, cell_types: Sequence[int] | dict[int, int] | int = 1) -> CellState:
        """From a label image (0 = background), renumbered 1, 2, … in the order of the labels.

        `cell_types`: one type for all, a mapping label → type, or one type per label in ascending order.
        """
        image = _integers(labels, "the label image")
        if image.ndim != 2:
            raise UserError(f"A label image has two dimensions, but this one has shape {image.shape}: pass one plane.")
        if image.size and image.min() < 0:
            raise UserError(f"The label image holds the negative label {image.min()}, but labels are 0 or larger.")
        found, inverse = np.unique(image, return_inverse=True)
        cell_labels = found[found > 0]
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
        renumbered = (np.cumsum(found > 0) * (found > 0)).astype(np.int32)
        return cls(renumbered[inverse].reshape(image.shape), np.array([0, *of_label], dtype=np.int32))

    def to_channels(self) -> NDArray[np.int32]:
        """`[2, H, W]`: ids and type map."""
        return np.stack([self.ids, self.type_map])

    # -- what a state tells ----------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, int]:
        return self.ids.shape[0], self.ids.shape[1]

    @property
    def type_map(self) -> NDArray[np.int32]:
        """Type of every site, `[H, W]`."""
        return self.types[self.ids]

    @property
    def volumes(self) -> NDArray[np.int64]:
        """Number of sites of every id, `[C]`."""
        return np.bincount(self.ids.ravel(), minlength=self.types.size)

    @property
    def cells(self) -> NDArray[np.int64]:
        """Ids of the cells that have pixels."""
        return np.flatnonzero(self.volumes[1:]) + 1

    def boundary(self, periodic: bool = True) -> NDArray[np.bool_]:
        """Sites with a Moore neighbour of another cell, `[H, W]`."""
        mask = np.zeros(self.shape, dtype=bool)
        for here, there in _pairs(self.shape, periodic):
            differs = self.ids.ravel()[here] != self.ids.ravel()[there]
            mask.ravel()[here[differs]] = True
            mask.ravel()[there[differs]] = True
        return mask

    def contacts(self, types: int | None = None, periodic: bool = True) -> NDArray[np.int64]:
        """Unordered Moore pairs between different cells, by type: symmetric `[T, T]`, each pair counted once."""
        count = int(types if types is not None else self.types.max() + 1)
        table = np.zeros((count, count), dtype=np.int64)
        ids, type_map = self.ids.ravel(), self.type_map.ravel()
        for here, there in _pairs(self.shape, periodic):
            differs = ids[here] != ids[there]
            low, high = np.sort(np.stack([type_map[here[differs]], type_map[there[differs]]]), axis=0)
            np.add.at(table, (low, high), 1)
        return np.triu(table) + np.triu(table, 1).T

    def fragments(self, periodic: bool = True) -> NDArray[np.int64]:
        """Number of connected pieces (Moore) of every id, `[C]`; the medium's own entry is left 0."""
        from .metrics.geometry import fragments

        return fragments(self, periodic)


def _pairs(shape: tuple[int, int], periodic: bool) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Flat indices of both ends of every unordered Moore pair, one entry per direction."""
    height, width = shape
    rows, cols = np.divmod(np.arange(height * width), width)
    pairs = []
    for down, right in MOORE_HALF:
        to_row, to_col = rows + down, cols + right
        inside = np.ones(rows.size, dtype=bool) if periodic else (to_row < height) & (to_col >= 0) & (to_col < width)
        there = (to_row % height) * width + to_col % width
        pairs.append((np.flatnonzero(inside), there[inside]))
    return pairs


def _integers(values: ArrayLike, what: str) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.dtype == bool or not np.issubdtype(array.dtype, np.integer):
        name = what[0].upper() + what[1:]
        raise UserError(f"{name} has the data type {array.dtype}, but integers are needed: convert it first.")
    return array.astype(np.int64)


def _brief(values: NDArray[np.int64]) -> str:
    text = np.array2string(values.ravel()[:6], separator=", ")
    return text[:-1] + ", …]" if values.size > 6 else text
