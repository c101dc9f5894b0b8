"""Arguments and options that several verbs share, declared once."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.files import check_file

Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="Model file (model.onnx) or pretrained:NAME.", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]

LARGEST_SEED = 2**63 - 1
"""What every generator of random numbers takes."""

MOST_THREADS = 1024
"""More than any machine has; a slip of the finger beyond it would only stop the system."""

MOST = 10**9
"""Of steps, states, copies or runs that are counted one by one: nobody waits for more."""

LONGEST_MINUTES = 7 * 24 * 60.0
"""Of a fit: a week."""


class Uncertainty(Enum):
    warn = "warn"
    stop = "stop"
    shrink = "shrink"


class BlocksChoice(Enum):
    keep = "keep"
    crop = "crop"
    pad = "pad"


Uncertain = Annotated[
    Uncertainty,
    typer.Option(help="Where the model is not sure: say so, end the run, or let the network's weight fall."),
]
Limit = Annotated[
    float, typer.Option(help="Disagreement of a committee's members, in temperatures of training, that is too much.")
]
OutsideLimit = Annotated[
    float, typer.Option(min=0.0, max=1.0, help="Share of cells outside of the training data's range that is too much.")
]
WholeBlocks = Annotated[
    BlocksChoice,
    typer.Option("--blocks", help="Where sides are no multiples of a network's blocks: keep, crop or pad the lattice."),
]


def check_data_set(output: Path) -> None:
    """Refuse what can be no data set to write, before it is made."""
    if output.suffix.lower() != ".npz":
        raise UserError(f"The data set {output} does not end in .npz: give it that ending.")
    check_file(output)
