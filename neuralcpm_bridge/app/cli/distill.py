"""The verb distill: a learned model as contacts, volumes and surfaces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from neuralcpm_bridge.errors import needs_torch

from .options import Json, Model
from .progress import progress


def distill(
    model: Model,
    data: Annotated[
        Path, typer.Option(metavar="DATA.npz", help="States of the kind the model is for.", show_default=False)
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="OUT.onnx", help="The model file to write.", show_default=False)
    ],
    flips: Annotated[int, typer.Option(min=100, help="Pixel copies to fit to and check on.")] = 40_000,
    steps: Annotated[int, typer.Option(min=0, help="Longest run of the model from each state, in MCS.")] = 30,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the runs and copies.")] = 0,
    simple: Annotated[
        bool, typer.Option("--simple", help="Contacts and parabolic volumes only: for stock CompuCell3D.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Fit what stock Morpheus and CompuCell3D can express to a model, and say how much of it that is."""
    from neuralcpm_bridge.artifact import load_artifact
    from neuralcpm_bridge.distill import distill, report_json, report_text, sample_flips
    from neuralcpm_bridge.distill.sampling import RUNS
    from neuralcpm_bridge.snapshots import load_snapshots

    with needs_torch("distill"):
        from training.distilled import write_distilled

    artifact = load_artifact(model)
    snapshots = load_snapshots(data, artifact)
    runs = tuple(sorted({*(run for run in RUNS if run < steps), *([steps] if steps else [])}))
    with progress("ΔH of pixel copies", unit="states") as bar:
        samples = sample_flips(artifact, snapshots, flips, seed, runs, bar)
    result = distill(samples, artifact.metadata, simple=simple)
    write_distilled(result, artifact, output)
    if as_json:
        print(json.dumps(report_json(result)))
        return
    _print_table(result.values, result.shares)
    for line in report_text(result, artifact.metadata):
        print(line)
    print(f"Wrote {output}.")


def _print_table(values: dict[str, float], shares: dict[str, float]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("energy", "value", "carries")
    for name, value in values.items():
        carries = "with lambda" if name.startswith("target_volume(") else f"{100 * shares[name]:.1f} %"
        table.add_row(name, f"{value:.4g}", carries)
    Console().print(table)
