"""Data sets: many states of one lattice in one `.npz` file, for training, checking and results alike."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .errors import UserError, reading
from .files import check_claim, writing
from .lattice import Boundary, Lattice, geometry_named, size_text
from .state import MOST_TYPES, NO_CELL, CellState, check_properties

if TYPE_CHECKING:
    from .artifact import Artifact

MAX_BYTES = 1 << 34
"""Larger arrays are refused."""
MOST_IDS = 1 << 24
"""Entries of all states' lists of types together that are taken whatever the lattice."""


@dataclass
class Snapshots:
    """`ids[N, H, W]` or `ids[N, D, H, W]`, `types[N, C]` (−1 = no such cell), type names, the lattice of each state and
    where it all came from.

    `properties[N, C, P]` are named ones of cells, in the order of `property_names`. `arrays` holds what else belongs to
    each snapshot (for example `mcs` or `labels`), `[N, …]`. Without a lattice two axes are square and three cubic,
    periodic.
    """

    ids: NDArray[np.int32]
    types: NDArray[np.int32]
    type_names: tuple[str, ...] = ()
    lattice: Lattice = None  # type: ignore[assignment]  # always set behind the constructor
    provenance: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    properties: NDArray[np.float64] = None  # type: ignore[assignment]  # likewise
    property_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shape = self.ids.shape[1:]
        if self.lattice is None:
            self.lattice = Lattice.of(shape)
        elif self.lattice.shape != shape:
            raise UserError(
                f"The states have {size_text(shape)} sites, but their lattice has {size_text(self.lattice.shape)}: "
                "give the lattice of these states."
            )
        if self.properties is None:
            self.properties = np.zeros((*self.types.shape, 0))
        if self.properties.shape != (*self.types.shape, len(self.property_names)):
            raise UserError(
                f"The properties of cells have shape {self.properties.shape}, but {self.types.shape[0]} states of "
                f"{self.types.shape[1]} ids with {len(self.property_names)} named properties were expected: give "
                "[N, C, P] and P names."
            )

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> CellState:
        columns = dict(zip(self.property_names, self.properties[index].T, strict=True))
        return CellState(self.ids[index], self.types[index], self.lattice, columns)

    def __iter__(self) -> Iterator[CellState]:
        return (self[index] for index in range(len(self)))

    @property
    def boundary(self) -> tuple[Boundary, ...]:
        """One word per axis."""
        return self.lattice.boundary

    def chosen(self, numbers: Sequence[int] | NDArray[np.integer]) -> Snapshots:
        """Some of the states, with what belongs to them."""
        index = np.asarray(numbers, dtype=np.int64)
        return replace(
            self,
            ids=self.ids[index],
            types=self.types[index],
            properties=self.properties[index],
            arrays={key: values[index] for key, values in self.arrays.items()},
        )

    def reading(self, names: Sequence[str]) -> Snapshots:
        """With these properties of cells alone, in this order; refused where they lack one of them."""
        if tuple(names) == self.property_names:
            return self
        check_properties(names, self.property_names)
        order = [self.property_names.index(name) for name in names]
        properties = np.ascontiguousarray(self.properties[..., order])
        return replace(self, properties=properties, property_names=tuple(names))

    @classmethod
    def from_states(cls, states: Sequence[CellState], **rest: Any) -> Snapshots:
        """From states of one lattice and with the same properties; shorter type lists are filled up with −1."""
        lattices = {state.lattice for state in states}
        if len(lattices) != 1:
            found = "no states" if not lattices else f"{len(lattices)} different lattices"
            raise UserError(f"A data set needs states of one lattice, but {found} were given: crop them first.")
        names = tuple(states[0].properties)
        for number, state in enumerate(states):
            if set(state.properties) != set(names):
                found, first = (", ".join(each.properties) or "none" for each in (state, states[0]))
                raise UserError(
                    f"State {number} has the properties {found} of cells, but the first one has {first}: give all "
                    "states the same."
                )
        ids = max(state.types.size for state in states)
        types = np.full((len(states), ids), NO_CELL, dtype=np.int32)
        properties = np.zeros((len(states), ids, len(names)))
        for number, state in enumerate(states):
            types[number, : state.types.size] = state.types
            properties[number, : state.types.size] = state.reading(names).property_table()
        grids = np.stack([state.ids for state in states])
        return cls(grids, types, lattice=lattices.pop(), properties=properties, property_names=names, **rest)

    def save(self, path: str | Path) -> None:
        if self.lattice.layout != "axes":
            raise UserError(
                "The states lie in CompuCell3D's rows of hexagons, but data sets hold them on skewed axes: convert "
                "them with to_skewed."
            )
        small = np.int16 if self.ids.max(initial=0) < 2**15 else np.int32
        words = self.boundary
        arrays: dict[str, NDArray[Any]] = {
            "ids": self.ids.astype(small),
            "types": self.types.astype(np.int16),
            "type_names": np.array(self.type_names, dtype=np.str_),
            "lattice": np.array(self.lattice.geometry.name),
            "boundary": np.array(words[0] if len(set(words)) == 1 else words),
            "provenance": np.array(json.dumps(self.provenance)),
            **self.arrays,
        }
        if self.property_names:
            arrays |= {"properties": self.properties, "property_names": np.array(self.property_names, dtype=np.str_)}
        with writing(path) as temporary, temporary.open("wb") as stream:
            np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]


RESERVED = (
    *("ids", "types", "states", "type_names", "lattice", "boundary", "provenance"),
    *("properties", "property_names"),
)


def load_snapshots(path: str | Path, artifact: Artifact | None = None) -> Snapshots:
    """Read a data set: `ids` + `types`, or `states` `[N, 2, H, W]` or `[N, 2, D, H, W]` (ids and type map).

    With an artifact, types and properties of cells are put into its order by name, states on its boundary, and `states`
    have as many ids as it was trained with.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"There is no file {path}: give the path of an .npz data set.")
    with reading(path, "a readable .npz data set"):
        return _loaded(path, artifact)


def load_state(reference: str, artifact: Artifact | None = None) -> CellState:
    """One state: `FILE.npz` (its first) or `FILE.npz:k`."""
    path, index = state_reference(reference)
    snapshots = load_snapshots(path, artifact)
    if not -len(snapshots) <= index < len(snapshots):
        raise UserError(f"{path} holds {len(snapshots)} states, so there is no state {index}: count from 0.")
    return snapshots[index]


def on_boundary_of(reference: str, artifact: Artifact) -> Artifact:
    """The model on the boundary of a state's data set, where its network sees any; other models keep their own, and
    states are put on it."""
    boundary = load_snapshots(state_reference(reference)[0]).boundary
    return artifact.on(boundary) if len(boundary) == artifact.metadata.geometry.dimension else artifact


def state_reference(reference: str) -> tuple[str, int]:
    """File and number of a state that is written `FILE.npz` or `FILE.npz:k`."""
    path, _, index = reference.rpartition(":")
    return (path, int(index)) if path and re.fullmatch(r"-?\d{1,18}", index, re.ASCII) else (reference, 0)


# -- reading -------------------------------------------------------------------------------------------------------


def _loaded(path: Path, artifact: Artifact | None) -> Snapshots:
    content = read_arrays(path)
    states = _states(path, content, artifact)
    if not states:
        raise UserError(f"{path} holds no states: give a data set with at least one.")
    names = _type_names(path, content.get("type_names", np.array([], dtype=np.str_)))
    if artifact is not None:
        if names:
            states = [_named_as(state, names, artifact, path) for state in states]
        names = artifact.metadata.types
        states = [_in_file(path, number, artifact.place, state) for number, state in enumerate(states)]
    provenance = json.loads(str(content["provenance"])) if "provenance" in content else {}
    if not isinstance(provenance, dict):
        raise UserError(f"'provenance' in {path} is no JSON object: save it as one, or leave it out.")
    further = {key: value for key, value in content.items() if key not in RESERVED}
    return Snapshots.from_states(
        states,
        type_names=names,
        provenance=provenance,
        arrays={key: value for key, value in further.items() if value.ndim and len(value) == len(states)},
    )


def _type_names(path: Path, stored: NDArray[Any]) -> tuple[str, ...]:
    if stored.ndim != 1 or stored.size > MOST_TYPES + 1:
        raise UserError(
            f"'type_names' in {path} has shape {stored.shape}, but a list of at most {MOST_TYPES + 1} names is needed: "
            "save it as one, or leave it out."
        )
    return tuple(map(str, stored))


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of an `.npz` file, none of which may claim more than the file can hold."""
    if not zipfile.is_zipfile(path):
        raise ValueError("no archive of arrays")
    with np.load(path, allow_pickle=False) as archive:
        for key in archive.files:
            _check_size(path, archive.zip, key)
        return {key: _readable(archive[key]) for key in archive.files}


def _readable(array: NDArray[Any]) -> NDArray[Any]:
    """Texts are letters: NumPy keeps any number for one, and fails where it is looked at."""
    if array.dtype.kind == "U" and array.size:
        letters = np.frombuffer(array.astype(array.dtype.newbyteorder("=")).tobytes(), dtype=np.uint32)
        if (letters > 0x10FFFF).any() or ((letters >= 0xD800) & (letters < 0xE000)).any():
            raise ValueError("a text that holds no letters")
    return array


def _check_size(path: Path, archive: zipfile.ZipFile, key: str) -> None:
    """Read an array's header only: its size, that of the archive's entry and that of the file must agree."""
    entry = archive.getinfo(key if key in archive.namelist() else f"{key}.npy")
    check_claim(entry.file_size, min(entry.compress_size, path.stat().st_size), f"'{key}' in {path}")
    with archive.open(entry) as stream:
        version = np.lib.format.read_magic(stream)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, kind = header(stream)
    entries = int(np.prod(shape, dtype=object))
    # entries without bytes (texts of no letters) cost nothing in the file, but are counted one by one later
    if min(shape, default=1) < 0 or entries * max(kind.itemsize, 1) > entry.file_size:
        raise UserError(
            f"'{key}' in {path} is said to have {size_text(shape) or 1} entries of {kind.itemsize} bytes, but there "
            f"are {entry.file_size:,} bytes in all: the file is damaged, save it again."
        )
    if entry.file_size > MAX_BYTES:
        raise UserError(
            f"'{key}' in {path} has {size_text(shape)} entries, more than {MAX_BYTES >> 30} GiB: keep fewer states in "
            "one file."
        )


def _check_ids(path: Path, states: int, sites: int, ids: int) -> None:
    """Every state has a list of all ids: numbers far beyond the sites would fill the memory with gaps."""
    if states * ids > max(MOST_IDS, 4 * states * sites):
        raise UserError(
            f"{path} numbers its cells up to {ids - 1:,} on {sites:,} sites: number them 1, 2, 3, … instead."
        )


def _states(path: Path, content: dict[str, NDArray[Any]], artifact: Artifact | None) -> list[CellState]:
    """All states of a file, on the lattice that it names; a single one may lack the axis of states."""
    with _about(path):
        dimension = geometry_named(str(content["lattice"])).dimension if "lattice" in content else 2
    if "states" in content:
        channels = content["states"]
        if "properties" in content:
            raise UserError(f"{path} holds 'states' and 'properties', which go with 'ids' and 'types': save those.")
        if channels.ndim == dimension + 1 and channels.shape[0] == 2:
            channels = channels[None]
        if channels.ndim not in (4, 5) or channels.shape[1] != 2:
            raise UserError(
                f"'states' in {path} has shape {channels.shape}, but [N, 2, H, W] or [N, 2, D, H, W] (ids and type "
                "map) is needed: stack the maps along the second axis."
            )
        lattice = _lattice(path, content, channels.shape[2:])
        if channels.dtype.kind in "iu" and channels.size:
            _check_ids(path, len(channels), lattice.sites, int(channels[:, 0].max()) + 1)
        convert = CellState.from_channels if artifact is None else artifact.state_from_channels
        states = [_in_file(path, number, convert, state) for number, state in enumerate(channels)]
        return [replace(state, lattice=lattice) for state in states]
    if "ids" not in content or "types" not in content:
        raise UserError(
            f"{path} holds {', '.join(sorted(content)) or 'nothing'}, but 'ids' and 'types' (or 'states') are needed: "
            "save the lattices under these names."
        )
    ids, types = content["ids"], content["types"]
    if ids.ndim == dimension and types.ndim and (types.ndim == 1 or len(types) == 1):
        ids = ids[None]
    if types.ndim == 1 and ids.ndim:
        types = np.broadcast_to(types, (len(ids), types.size))
    if ids.ndim not in (3, 4) or types.ndim != 2 or len(ids) != len(types):
        raise UserError(
            f"{path} holds ids of shape {ids.shape} and types of shape {types.shape}, but [N, H, W] or [N, D, H, W] "
            "and [N, C] are needed: give one lattice of ids per state and one type per id."
        )
    lattice = _lattice(path, content, ids.shape[1:])
    _check_ids(path, len(ids), lattice.sites, types.shape[1])
    names, tables = _properties(path, content, types.shape)
    return [
        _in_file(path, number, CellState, own, of_cell, lattice, dict(zip(names, table.T, strict=True)))
        for number, (own, of_cell, table) in enumerate(zip(ids, types, tables, strict=True))
    ]


def _properties(
    path: Path, content: dict[str, NDArray[Any]], types: tuple[int, ...]
) -> tuple[list[str], NDArray[np.float64]]:
    """Names and `[N, C, P]`; like types, `[C, P]` holds for every state."""
    names = [str(name) for name in content.get("property_names", np.array([])).ravel()]
    values = content.get("properties", np.zeros((*types, 0)))
    if values.ndim == 2:
        values = np.broadcast_to(values, (types[0], *values.shape))
    if values.shape != (*types, len(names)) or len(set(names)) != len(names):
        raise UserError(
            f"{path} holds properties of shape {values.shape} with the names {', '.join(names) or '(none)'}, but "
            f"{(*types, len(names))} (states, ids, properties) and as many different names are needed: correct them."
        )
    return names, values


def _lattice(path: Path, content: dict[str, NDArray[Any]], shape: tuple[int, ...]) -> Lattice:
    """The lattice that a file names; square (3D: cubic) and periodic where it names none."""
    words = content.get("boundary", np.array("periodic"))
    boundary = str(words) if words.ndim == 0 else [str(word) for word in words.ravel()]
    with _about(path):
        return Lattice.of(shape, str(content["lattice"]) if "lattice" in content else None, boundary)


@contextmanager
def _about(what: str | Path) -> Iterator[None]:
    """Say which file, or which state of it, a sentence is about."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{what}: {error}") from None


def _in_file(path: Path, number: int, convert: Any, *arguments: Any) -> Any:
    with _about(f"State {number} of {path}"):
        return convert(*arguments)


def _named_as(state: CellState, names: tuple[str, ...], artifact: Artifact, path: Path) -> CellState:
    """The same state with types numbered as in the model."""
    known = artifact.metadata.types
    order = np.full(len(names) + 1, NO_CELL, dtype=np.int32)  # the last entry serves type −1
    for number in np.unique(state.types[state.types >= 0]):
        if number >= len(names) or names[number] not in known:
            name = names[number] if number < len(names) else f"number {number}"
            raise UserError(
                f"{path} has cells of type {name}, but the model knows {', '.join(known)}: rename the type or use "
                "another model."
            )
        order[number] = known.index(names[number])
    return replace(state, types=order[state.types])
