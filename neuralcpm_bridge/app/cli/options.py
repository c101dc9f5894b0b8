"""Arguments and options that several verbs share, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="Model file (model.onnx) or pretrained:NAME.", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
