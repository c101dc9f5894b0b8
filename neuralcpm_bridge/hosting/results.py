"""What a run in a host leaves about the model's uncertainty, gathered where its user looks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .uncertainty import CHART, LATTICES, TABLE, read_table, summary


def gather(output: Path, results: Path) -> dict[str, Any] | None:
    """Move table and lattices from the host's output to the results and draw the chart; a summary, if there is any."""
    if not (output / TABLE).is_file():
        return None
    for name in (TABLE, LATTICES):
        if (output / name).is_file():
            os.replace(output / name, results / name)
    rows = read_table(results / TABLE)
    draw(rows, results / CHART)
    return summary(rows, LATTICES if (results / LATTICES).is_file() else None)


def draw(rows: list[dict[str, float | None]], picture: Path) -> None:
    """Disagreement and cells outside of the training data's range over time."""
    from PIL import Image

    from ..pictures import Line, line_chart, save_png

    columns = (
        ("Members' disagreement on accepted copies, T", ("disagreement", "disagreement_max")),
        ("Cells outside of the training data's range, share", ("outside",)),
    )
    charts = []
    for title, names in columns:
        lines = []
        for name in names:
            known = [(row["mcs"], row[name]) for row in rows if row[name] is not None]
            if known:
                times, values = zip(*known, strict=True)
                word = {"disagreement": "mean", "disagreement_max": "largest", "outside": "outside"}[name]
                lines.append(Line(word, list(times), list(values)))
        if lines:
            charts.append(line_chart(lines, title, "MCS", size=(560, 320)))
    if charts:
        sheet = Image.new("RGB", (sum(chart.width for chart in charts), charts[0].height))
        for number, chart in enumerate(charts):
            sheet.paste(chart, (number * charts[0].width, 0))
        save_png(sheet, picture)
