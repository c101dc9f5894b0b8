"""Frames that belong together: which movie each is of, when it was taken, and cells that keep their numbers over it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..movies import numbers_follow_cells
from ..state import distinct_labels
from .frames import Frame, Interval, Moment
from .preparing import Prepared


def parse_interval(text: str) -> Interval:
    """`10`, `10 min`: a number above 0 and, perhaps, its unit."""
    match = re.fullmatch(r"\s*([0-9.eE+-]+)\s*([^\W\d]*)\s*", text)
    try:
        size = float(match[1]) if match else math.nan
    except ValueError:
        size = math.nan
    if match is None or not 0 < size < math.inf:
        raise UserError(
            f"--frame-interval is {text!r}, but a number above 0, perhaps with its unit, is needed: write 10 or 10min."
        )
    return Interval(size, match[2])


def place_in_time(frames: Sequence[Frame], files: Sequence[Path], interval: Interval) -> None:
    """Files of one folder (one for each snapshot, in order) are a movie, and frames lie so far apart.

    Where a file is left out, the others keep their times.
    """
    order: dict[Path, list[Path]] = {}
    for path in files:
        order.setdefault(path.parent, []).append(path)
    for frame in frames:
        if frame.page is not None:
            movie, number = str(frame.file), frame.page
        else:
            movie, number = str(frame.file.parent), order[frame.file.parent].index(frame.file)
        frame.moment = Moment(movie, number * interval.size, interval.unit or "frames")


@dataclass(frozen=True)
class Movies:
    """What a data set keeps of its movies: arrays of snapshots, the unit of time, every frame's labels in the order of
    their ids (None: its own, ascending), and what is to be said."""

    arrays: dict[str, NDArray[Any]]
    unit: str | None
    labels: list[NDArray[np.integer] | None]
    notes: list[str]


def gather(prepared: Sequence[Prepared]) -> Movies:
    """Movies of two frames or more; other snapshots stand alone."""
    moments = [entry.frame.moment for entry in prepared]
    members: dict[str, list[int]] = {}
    for number, moment in enumerate(moments):
        members.setdefault(f"alone {number}" if moment is None else moment.movie, []).append(number)
    labels: list[NDArray[np.integer] | None] = [None] * len(prepared)
    real = {name: frames for name, frames in members.items() if len(frames) > 1}
    if not real:
        return Movies({}, None, labels, [])
    units = sorted({moment.unit for frames in real.values() for moment in (moments[frames[0]],) if moment})
    if len(units) > 1:
        raise UserError(
            f"Movies have their times in different units ({', '.join(units)}), but one is needed: pass "
            "--frame-interval, as 10min, for all."
        )
    movie, tracked = np.zeros(len(prepared), dtype=np.int64), np.zeros(len(prepared), dtype=bool)
    for number, frames in enumerate(members.values()):
        movie[frames] = number
    for frames in real.values():
        own = [prepared[number] for number in frames]
        if own[0].frame.simulated or numbers_follow_cells(_consecutive(own)):
            tracked[frames] = True
            every = np.unique(np.concatenate([distinct_labels(entry.frame.labels) for entry in own]))
            for number in frames:
                labels[number] = every
    time = np.array([0.0 if moment is None else moment.time for moment in moments])
    arrays: dict[str, NDArray[Any]] = {"movie": movie, "time": time, "tracked": tracked}
    return Movies(arrays, units[0], labels, [_said(real, tracked)])


def _consecutive(frames: list[Prepared]) -> list[tuple[NDArray[np.integer], NDArray[np.integer]]]:
    return [(a.frame.labels, b.frame.labels) for a, b in pairwise(frames) if a.lattice.shape == b.lattice.shape]


def _said(movies: dict[str, list[int]], tracked: NDArray[np.bool_]) -> str:
    frames = sum(map(len, movies.values()))
    what = "1 movie" if len(movies) == 1 else f"{len(movies)} movies"
    follow = sum(bool(tracked[numbers[0]]) for numbers in movies.values())
    if follow == len(movies):
        ending = "cells keep their numbers from frame to frame"
    elif follow:
        ending = f"cells keep their numbers from frame to frame in {follow} of them"
    else:
        ending = "the labels of cells change from frame to frame, so every frame numbers its cells anew"
    return f"{what} of {frames} frames together: {ending}."
