"""The picture of docs/engine.md: what one flip reaches in a cell graph.

python benchmarks/make_graph_picture.py [docs/cell_graph.svg]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.app.bench import dense_cluster
from neuralcpm_bridge.files import writing
from neuralcpm_bridge.state import CellState

SIDE, SPACING, CELLS, SCALE = 72, 9, 45, 6.2
WIDTH, HEIGHT = 860, 470
FILLS = ("#d9622b", "#f2b48c", "#f9e0cd", "#ececec")
"""Of the two cells, of those that hear of them in the first round, in the second round, and of all others."""
STEPS = (
    ("the flip", "#000000", "a site goes from one cell to the other"),
    ("two cells", FILLS[0], "volume, moments and pairs of neighbours in whole\nnumbers → inputs → features → rows"),
    (
        "thick lines",
        "#7a2f0e",
        "contacts at them: length, distance, alignment and\nradii are computed anew, side by side",
    ),
    (
        "round one",
        FILLS[1],
        "their neighbours: messages as they were are taken out\nof integer sums, messages as they are put in; then\n"
        "the neighbours' features",
    ),
    ("thin lines", "#8a8a8a", "contacts over which round two speaks again:\ntheir inputs are kept"),
    ("round two", FILLS[2], "neighbours of neighbours: the same, one cell farther"),
    ("all others", FILLS[3], "not read, not written, no bit changes"),
)


def touching(state: CellState) -> dict[int, set[int]]:
    """Cells that each cell touches."""
    ids, found = state.ids.ravel(), {cell: set() for cell in range(1, state.types.size)}
    for here, there in state.lattice.pairs(2):
        for a, b in {
            (a, b) for a, b in zip(ids[here].tolist(), ids[there].tolist(), strict=True) if a != b and a and b
        }:
            found[a].add(b)
            found[b].add(a)
    return found


def outline(mask: NDArray[np.bool_]) -> str:
    """A path of the runs of a cell's sites, row by row."""
    parts = []
    for row, line in enumerate(mask):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], line.astype(int), [0]])))
        parts += [f"M{start} {row}h{end - start}v1h{start - end}z" for start, end in edges.reshape(-1, 2)]
    return "".join(parts)


def border(ids: NDArray[np.int32]) -> str:
    """Lines between sites of different ids."""
    down, right = np.argwhere(ids[1:] != ids[:-1]), np.argwhere(ids[:, 1:] != ids[:, :-1])
    return "".join([f"M{x} {y + 1}h1" for y, x in down] + [f"M{x + 1} {y}v1" for y, x in right])


def drawn() -> str:
    state = dense_cluster(CELLS, (SIDE, SIDE), spacing=SPACING, seed=3)
    near = touching(state)
    middles = {cell: np.argwhere(state.ids == cell).mean(0)[::-1] + 0.5 for cell in near}
    one = min(near, key=lambda cell: float(((middles[cell] - SIDE / 2) ** 2).sum()))
    two = min(near[one], key=lambda cell: float(middles[cell][0]))
    both = {one, two}
    first = (near[one] | near[two]) - both
    second = set().union(*(near[cell] for cell in first)) - first - both
    own, other = state.ids == one, state.ids == two
    site = next((y, x) for y, x in np.argwhere(own) if other[max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2].any())
    fills = {cell: FILLS[0 if cell in both else 1 if cell in first else 2 if cell in second else 3] for cell in near}
    picture = [f'<g transform="translate(12,12) scale({SCALE})">']
    picture += [f'<path d="{outline(state.ids == cell)}" fill="{fill}"/>' for cell, fill in fills.items()]
    picture.append(f'<path d="{border(state.ids)}" stroke="#ffffff" stroke-width=".35" fill="none"/>')
    strong = {tuple(sorted((cell, end))) for cell in both for end in near[cell]}
    weak = {tuple(sorted((cell, end))) for cell in first for end in near[cell]} - strong
    for pairs, colour, width in ((weak, "#8a8a8a", 0.18), (strong, "#7a2f0e", 0.5)):
        for a, b in sorted(pairs):
            (x, y), (u, v) = middles[a], middles[b]
            picture.append(
                f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{u:.1f}" y2="{v:.1f}" stroke="{colour}" stroke-width="{width}"/>'
            )
    for cell in sorted(both | first | second):
        x, y = middles[cell]
        picture.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r=".75" fill="#3c3c3c"/>')
    picture += [f'<rect x="{site[1]}" y="{site[0]}" width="1" height="1" fill="#000000"/>', "</g>"]
    return "\n".join(picture)


def legend() -> str:
    lines, y = [], 40
    for name, colour, text in STEPS:
        if "lines" in name:
            mark = f'<line x1="478" y1="{y - 5}" x2="500" y2="{y - 5}" stroke="{colour}" stroke-width="3"/>'
            mark = mark.replace('"3"', '"1.2"') if name.startswith("thin") else mark
        else:
            mark = f'<rect x="480" y="{y - 14}" width="18" height="18" fill="{colour}"/>'
        lines.append(f'{mark}\n<text x="508" y="{y}" font-weight="bold">{name}</text>')
        for part in text.split("\n"):
            y += 18
            lines.append(f'<text x="508" y="{y}" fill="#444444">{part}</text>')
        y += 27
    return "\n".join(lines)


def main() -> None:
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/cell_graph.svg")
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="13.5">\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
    )
    with writing(path) as temporary:
        temporary.write_text("\n".join([head, drawn(), legend(), "</svg>\n"]), encoding="utf-8")


if __name__ == "__main__":
    main()
