"""Data sets: many states of one lattice in one `.npz` file, for training, checking and results alike."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .errors import UserError
from .files import writing
from .state import NO_CELL, CellState

if TYPE_CHECKING:
    from .artifact import Artifact


@dataclass
class Snapshots:
    """`ids[N, H, W]`, `types[N, C]` (−1 = no such cell), type names, boundary and where it all came from.

    `arrays` holds what else belongs to each snapshot (for example `mcs` or `labels`), `[N, …]`.
    """

    ids: NDArray[np.int32]
    types: NDArray[np.int32]
    type_names: tuple[str, ...] = ()
    boundary: str = "periodic"
    provenance: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> CellState:
        return CellState(self.ids[index], self.types[index])

    def __iter__(self) -> Iterator[CellState]:
        return (self[index] for index in range(len(self)))

    @classmethod
    def from_states(cls, states: list[CellState], **rest: Any) -> Snapshots:
        """From states of one lattice size; shorter type lists are filled up with −1."""
        shapes = {state.shape for state in states}
        if len(shapes) != 1:
            found = "no states" if not shapes else f"lattices of {len(shapes)} sizes"
            raise UserError(f"A data set needs states of one lattice size, but {found} were given: crop them first.")
        cells = max(state.types.size for state in states)
        types = np.full((len(states), cells), NO_CELL, dtype=np.int32)
        for row, state in zip(types, states, strict=True):
            row[: state.types.size] = state.types
        return cls(np.stack([state.ids for state in states]), types, **rest)

    def save(self, path: str | Path) -> None:
        small = np.int16 if self.ids.max(initial=0) < 2**15 else np.int32
        arrays: dict[str, NDArray[Any]] = {
            "ids": self.ids.astype(small),
            "types": self.types.astype(np.int16),
            "type_names": np.array(self.type_names, dtype=np.str_),
            "boundary": np.array(self.boundary),
            "provenance": np.array(json.dumps(self.provenance)),
            **self.arrays,
        }
        with writing(path) as temporary, temporary.open("wb") as stream:
            np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]


RESERVED = ("ids", "types", "type_names", "boundary", "provenance")


def load_snapshots(path: str | Path, artifact: Artifact | None = None) -> Snapshots:
    """Read a data set: `ids` + `types`, or `states` `[N, 2, H, W]` (ids and type map).

    With an artifact, types are put into its order by name, and `states` have as many ids as it was trained with.
    """
    path = Path(path)
    content = _read(path)
    if "states" in content:
        states = content["states"]
        if states.ndim == 3:
            states = states[None]
        if states.ndim != 4 or states.shape[1] != 2:
            raise UserError(
                f"'states' in {path} has shape {states.shape}, but [N, 2, H, W] (ids and type map of 2D lattices) is "
                "needed: stack the maps along the second axis."
            )
        convert = CellState.from_channels if artifact is None else artifact.state_from_channels
        cells = [_in_file(path, number, convert, state) for number, state in enumerate(states)]
    elif "ids" in content and "types" in content:
        ids, types = content["ids"], content["types"]
        if ids.ndim == 2:
            ids = ids[None]
        if types.ndim == 1:
            types = np.broadcast_to(types, (len(ids), types.size))
        if ids.ndim != 3 or types.ndim != 2 or len(ids) != len(types):
            raise UserError(
                f"{path} holds ids of shape {ids.shape} and types of shape {types.shape}, but [N, H, W] and [N, C] "
                "are needed: give 2D lattices and one type per id."
            )
        cells = [_in_file(path, number, CellState, *pair) for number, pair in enumerate(zip(ids, types, strict=True))]
    else:
        raise UserError(
            f"{path} holds {', '.join(sorted(content)) or 'nothing'}, but 'ids' and 'types' (or 'states') are needed: "
            "save the lattices under these names."
        )
    if not cells:
        raise UserError(f"{path} holds no states: give a data set with at least one.")
    names = tuple(str(name) for name in content.get("type_names", ()))
    if artifact is not None:
        if names:
            cells = [_named_as(state, names, artifact, path) for state in cells]
        names = artifact.metadata.types
        for number, state in enumerate(cells):
            _in_file(path, number, artifact.check_state, state)
    return Snapshots.from_states(
        cells,
        type_names=names,
        boundary=str(content.get("boundary", "periodic")),
        provenance=json.loads(str(content["provenance"])) if "provenance" in content else {},
        arrays={key: value for key, value in content.items() if key not in (*RESERVED, "states")},
    )


def load_state(reference: str, artifact: Artifact | None = None) -> CellState:
    """One state: `FILE.npz` (its first) or `FILE.npz:k`."""
    path, _, index = reference.rpartition(":")
    if not path or not index.lstrip("-").isdigit():
        path, index = reference, "0"
    snapshots = load_snapshots(path, artifact)
    if not -len(snapshots) <= int(index) < len(snapshots):
        raise UserError(f"{path} holds {len(snapshots)} states, so there is no state {index}: count from 0.")
    return snapshots[int(index)]


def _read(path: Path) -> dict[str, NDArray[Any]]:
    if not path.is_file():
        raise UserError(f"There is no file {path}: give the path of an .npz data set.")
    try:
        with np.load(path, allow_pickle=False) as archive:
            if isinstance(archive, np.ndarray):
                raise ValueError("a single array")
            return {key: archive[key] for key in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        reason = (str(error).splitlines() or ["empty"])[0]
        raise UserError(f"{path} is not a readable .npz data set ({reason}): save it again.") from None


def _in_file(path: Path, number: int, convert: Any, *arguments: Any) -> Any:
    """Run a check and say which state of which file it was about."""
    try:
        return convert(*arguments)
    except UserError as error:
        raise UserError(f"State {number} of {path}: {error}") from None


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
    return CellState(state.ids, order[state.types])
