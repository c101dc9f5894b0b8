"""Arguments and options that several verbs share, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="Model file (model.onnx) or pretrained:NAME.", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]

LARGEST_SEED = 2**63 - 1
"""What every generator of random numbers takes."""

MOST_THREADS = 1024
"""More than any machine has; a slip of the finger beyond it would only stop the system."""
