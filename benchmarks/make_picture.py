"""The picture of the README from a demo's folder: `python benchmarks/make_picture.py demo docs/elongated_cells.png`.

Data, baseline and closure side by side, two states each, with the share of the data's aspect-ratio gap that each
model reaches. The states are the first ones of each set: nothing is chosen by eye.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from neuralcpm_bridge.app.demo import share_of
from neuralcpm_bridge.metrics.comparing import Measured, aspect_gap_title
from neuralcpm_bridge.pictures.drawing import FAINT, INK, PAPER, save_png, type_colour, write
from neuralcpm_bridge.pictures.states import state_image, to_image
from neuralcpm_bridge.snapshots import Snapshots, load_snapshots
from neuralcpm_bridge.state import CellState

STATES = 2
WINDOW, SCALE = 48, 4
"""Sites of each state that are shown, around its middle, and pixels per site."""
GAP, GROUP_GAP, MARGIN, HEAD, FOOT = 6, 44, 28, 92, 30
TITLE, TEXT = 29, 21


def in_the_middle(state: CellState) -> CellState:
    """The window around a tissue, wherever on the periodic lattice it lies."""
    shifts = []
    for axis, length in enumerate(state.shape):
        angles = 2 * np.pi * np.nonzero(state.ids)[axis] / length
        middle = np.angle(np.exp(1j * angles).mean()) % (2 * np.pi) * length / (2 * np.pi)
        shifts.append(round(length / 2 - middle))
    ids = np.roll(state.ids, shifts, (0, 1))
    top, left = ((length - WINDOW) // 2 for length in state.shape)
    return CellState(ids[top : top + WINDOW, left : left + WINDOW], state.types)


def draw(folder: Path) -> Any:
    data = load_snapshots(folder / "data.npz")
    sets: dict[str, Snapshots] = {"data": data}
    sets |= {name: load_snapshots(folder / name / "samples.npz") for name in ("baseline", "closure")}
    rows = json.loads((folder / "measures.json").read_text(encoding="utf-8"))
    gaps = {name: Measured(**rows[name][aspect_gap_title(data.type_names)]) for name in sets}
    words = {"data": ("Data", f"B longer than A by {gaps['data'].mean:.2f} (aspect ratio)")}
    for name, title in (("baseline", "Contact and volume alone"), ("closure", "With the learned term")):
        share = share_of(gaps[name], gaps["data"])
        words[name] = (title, f"{100 * share.mean:.0f} ± {100 * share.error:.0f} % of that")
    side = WINDOW * SCALE
    group = STATES * side + (STATES - 1) * GAP
    size = (2 * MARGIN + len(sets) * group + (len(sets) - 1) * GROUP_GAP, HEAD + side + MARGIN + FOOT)
    sheet = Image.new("RGB", size, PAPER)
    pen = ImageDraw.Draw(sheet)
    for place, (name, snapshots) in enumerate(sets.items()):
        left = MARGIN + place * (group + GROUP_GAP)
        title, line = words[name]
        write(pen, (left, 14), title, INK, TITLE)
        write(pen, (left, 54), line, FAINT, TEXT)
        for number in range(STATES):
            image = to_image(state_image(in_the_middle(snapshots[number]), SCALE))
            sheet.paste(image, (left + number * (side + GAP), HEAD))
    left, top = MARGIN, HEAD + side + 16
    key = {1: "A", 2: "B, kept long by a length constraint: contact and volume energies cannot express it"}
    for kind, what in key.items():
        pen.rectangle((left, top + 3, left + 20, top + 23), fill=type_colour(kind), outline=INK)
        write(pen, (left + 30, top), what, FAINT, TEXT)
        left += 80
    return sheet


if __name__ == "__main__":
    save_png(draw(Path(sys.argv[1])).quantize(32), sys.argv[2])
