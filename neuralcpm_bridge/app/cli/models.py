"""The verb models: what comes with the package."""

from __future__ import annotations

import json
from typing import Any

from .options import Json


def models(as_json: Json = False) -> None:
    """The pretrained models: every verb takes pretrained:NAME where it takes a MODEL."""
    from neuralcpm_bridge.artifact import load_artifact
    from neuralcpm_bridge.pretrained import pretrained_models

    rows: list[dict[str, Any]] = []
    for entry in pretrained_models():
        meta = load_artifact(entry.model).metadata
        rows.append(
            {
                "name": entry.reference,
                "description": entry.summary["description"],
                "architecture": meta.architecture,
                "parameters": meta.parameters,
                "types": list(meta.types),
                "lattice": meta.geometry.name,
                "metrics": entry.summary["metrics"],
                "data": entry.summary["data"],
                "model": str(entry.model),
                "thumbnail": str(entry.thumbnail),
            }
        )
    if as_json:
        print(json.dumps(rows))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(markup=False)
    for row in rows:
        table = Table(show_header=False, title=row["name"], title_justify="left")
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        table.add_row("what", Text(row["description"]))
        table.add_row("architecture", f"{row['architecture']}, {row['parameters']:,} parameters")
        table.add_row("types", Text(", ".join(row["types"])))
        table.add_row("lattice", row["lattice"])
        for key, value in row["metrics"].items():
            beside = f" (data: {_text(row['data'][key])})" if key in row["data"] else ""
            table.add_row(key, Text(_text(value) + beside))
        table.add_row("picture", Text(row["thumbnail"]))
        console.print(table)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_text(entry) for entry in value)
    return f"{value:.4g}"
