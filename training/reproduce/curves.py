"""Learning curves of a run folder as pictures, where Pillow is installed."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from neuralcpm_bridge.errors import UserError

from ..logs import METRICS_FILE


def draw_curves(
    run: Path | None,
    columns: Sequence[str],
    picture: str,
    truth: dict[str, float] | None = None,
    title: str = "",
) -> None:
    """Columns of `metrics.csv` over steps, dashed where the truth is known; into the folder that holds the run."""
    if run is None or not (run / METRICS_FILE).exists():
        return
    from neuralcpm_bridge.pictures import Line, line_chart

    with (run / METRICS_FILE).open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    steps = [float(row["step"]) for row in rows]
    lines = [Line(name, steps, [float(row[name]) for row in rows]) for name in columns if name in rows[0]]
    for name, value in (truth or {}).items():
        lines.append(Line(name, [steps[0], steps[-1]], [value, value], dashed=True))
    try:
        line_chart(lines, title, "step").save(run.parent / picture)
    except UserError:
        return  # Pillow is missing: the table is there all the same
