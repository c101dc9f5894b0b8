"""Movies in a data set: which frames follow each other, and what becomes of a cell from one to the next.

`Snapshots.arrays` of time-lapses: `movie` (the number of each snapshot's movie), `time` (when it was taken, in the unit
that `provenance["time_unit"]` names) and `tracked` (whether ids follow cells from frame to frame). What `neuralcpm
simulate` writes (`chain`, `mcs`) is read as movies, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .errors import UserError
from .metrics.geometry import mean_coordinates, second_moments
from .snapshots import Snapshots
from .state import CellState

FOLLOWING = 0.9
"""Of cells that mostly stay where they are, the share that must keep their numbers for these to follow cells."""

Labels = NDArray[np.integer]


class Pair(NamedTuple):
    """Two consecutive frames by their numbers in the data set, and the time between them."""

    before: int
    after: int
    interval: float


def has_movies(snapshots: Snapshots) -> bool:
    """Whether any two snapshots are frames of one movie."""
    movie, _ = _when(snapshots)
    return movie is not None and np.unique(movie).size < movie.size


def time_unit(snapshots: Snapshots) -> str:
    """What times are counted in."""
    return "MCS" if "time" not in snapshots.arrays else str(snapshots.provenance.get("time_unit", "frames"))


def frame_pairs(snapshots: Snapshots) -> list[Pair]:
    """All consecutive frames, movie by movie."""
    movie, time = _when(snapshots)
    if movie is None or time is None or not has_movies(snapshots):
        raise UserError(
            f"The data set of {len(snapshots)} snapshots holds no movie, but the time between frames was asked for: "
            "import a time-lapse (neuralcpm data import --frame-interval), or give arrays 'movie' and 'time'."
        )
    if not np.isfinite(time).all():
        raise UserError("A frame has no finite time, but each one needs it: correct the array 'time'.")
    order = np.lexsort((time, movie))
    pairs = []
    for before, after in zip(order[:-1].tolist(), order[1:].tolist(), strict=True):
        if movie[before] != movie[after]:
            continue
        interval = float(time[after] - time[before])
        if interval <= 0:
            raise UserError(
                f"Snapshots {before} and {after} of movie {movie[before]} have the same time, {time[before]:g}: give "
                "every frame of a movie a time of its own."
            )
        pairs.append(Pair(before, after, interval))
    return pairs


def is_tracked(snapshots: Snapshots, pairs: Iterable[Pair]) -> bool:
    """Whether ids follow cells: as the data set says, else as its frames show."""
    if "tracked" in snapshots.arrays:
        return bool(np.all(snapshots.arrays["tracked"]))
    if "time" not in snapshots.arrays:
        return True  # a simulation of ours
    return numbers_follow_cells((snapshots.ids[pair.before], snapshots.ids[pair.after]) for pair in pairs)


def numbers_follow_cells(frames: Iterable[tuple[Labels, Labels]]) -> bool:
    """Whether labels of consecutive frames are the same for the same cell, judged by the cells that stay in place.

    A segmentation numbers each image anew; a tracker, or a simulation, does not.
    """
    kept = stayed = 0
    for before, after in frames:
        first, second = linked_by_place(before, after)
        kept += int((first == second).sum())
        stayed += first.size
    return stayed > 0 and kept >= FOLLOWING * stayed


def linked_by_place(before: Labels, after: Labels) -> tuple[Labels, Labels]:
    """Labels of the cells of two frames that share more than half of each one's sites: of no cell two partners."""
    both = (before > 0) & (after > 0)
    met, shared = np.unique(np.stack([before[both], after[both]]), axis=1, return_counts=True)
    first, second = met
    sizes = [dict(zip(*np.unique(frame[frame > 0], return_counts=True), strict=True)) for frame in (before, after)]
    most = np.array(
        [2 * n > max(sizes[0][a], sizes[1][b]) for a, b, n in zip(first, second, shared, strict=True)], dtype=bool
    )
    return first[most], second[most]


class Frame:
    """A state with what is compared about its cells, by id: places, shapes (second moments by size), volumes."""

    def __init__(self, state: CellState) -> None:
        self.state = state
        self.volumes = state.volumes
        self.places = mean_coordinates(state)
        size = np.maximum(self.volumes, 1).astype(np.float64) ** (2 / state.lattice.dimension)
        self.shapes = second_moments(state) / size[:, None, None]


def cell_changes(before: Frame, after: Frame, tracked: bool) -> NDArray[np.float64]:
    """What became of every cell that both frames have, `[n, 3]`: squared displacement in space, beyond that of all
    together; share of sites lost, 1 − 2|a∩b|/(|a|+|b|); squared change of shape.

    Cells are the same by their ids, or, where these do not follow cells, by their places.
    """
    a, b = before.state, after.state
    first, second = _cells_of_both(before, after) if tracked else linked_by_place(a.ids, b.ids)
    ways = a.lattice.shortest(after.places[second] - before.places[first])
    ways -= ways.mean(axis=0) if len(ways) > 1 else 0.0
    partner = np.full(before.volumes.size, -1)
    partner[first] = second
    shared = np.bincount(a.ids[partner[a.ids] == b.ids], minlength=before.volumes.size)[first]
    lost = 1 - 2 * shared / (before.volumes[first] + after.volumes[second])
    bent = ((after.shapes[second] - before.shapes[first]) ** 2).sum(axis=(1, 2))
    return np.stack([(ways**2).sum(axis=1), lost, bent], axis=1)


def _cells_of_both(before: Frame, after: Frame) -> tuple[Labels, Labels]:
    count = min(before.volumes.size, after.volumes.size)
    alive = (before.volumes[:count] > 0) & (after.volumes[:count] > 0)
    alive[0] = False
    return np.flatnonzero(alive), np.flatnonzero(alive)


def _when(snapshots: Snapshots) -> tuple[NDArray[np.int64] | None, NDArray[np.float64] | None]:
    """Movie and time of every snapshot; None where the data set does not say."""
    for names in (("movie", "time"), ("chain", "mcs")):
        if all(name in snapshots.arrays for name in names):
            movie, time = (np.asarray(snapshots.arrays[name]) for name in names)
            if movie.shape != (len(snapshots),) or time.shape != (len(snapshots),):
                raise UserError(
                    f"The arrays '{names[0]}' and '{names[1]}' have the shapes {movie.shape} and {time.shape} for "
                    f"{len(snapshots)} snapshots: give one number for each."
                )
            return movie.astype(np.int64), time.astype(np.float64)
    return None, None
