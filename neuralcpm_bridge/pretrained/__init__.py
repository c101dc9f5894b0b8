"""Models that come with the package: a learned term to run before anything is trained.

Each is a folder with `model.onnx`, `summary.json` (what it is, its metrics) and `thumbnail.png`, made from a fit by
`benchmarks/make_pretrained.py`. Wherever a model file is asked for, `pretrained:NAME` names one of them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import UserError

PREFIX = "pretrained:"
MODEL_FILE = "model.onnx"
SUMMARY_FILE = "summary.json"
THUMBNAIL_FILE = "thumbnail.png"


@dataclass(frozen=True)
class Pretrained:
    """One bundled model; `summary` holds `description`, `sampling`, `metrics` and the same measures of the `data`."""

    name: str
    folder: Path
    summary: dict[str, Any]

    @property
    def reference(self) -> str:
        return PREFIX + self.name

    @property
    def model(self) -> Path:
        return self.folder / MODEL_FILE

    @property
    def thumbnail(self) -> Path:
        return self.folder / THUMBNAIL_FILE


def pretrained_models() -> list[Pretrained]:
    """All bundled models, by name."""
    files = sorted(Path(__file__).parent.glob(f"*/{SUMMARY_FILE}"))
    return [Pretrained(file.parent.name, file.parent, json.loads(file.read_text(encoding="utf-8"))) for file in files]


def resolve_model(reference: str | Path) -> Path:
    """The file behind a path or `pretrained:NAME`."""
    text = str(reference)
    if not text.startswith(PREFIX):
        return Path(reference)
    known = {entry.name: entry.model for entry in pretrained_models()}
    name = text[len(PREFIX) :]
    if name not in known:
        raise UserError(f"There is no pretrained model {name!r}: choose one of {', '.join(known)} (neuralcpm models).")
    return known[name]
