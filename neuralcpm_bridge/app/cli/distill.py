"""The verb distill: a learned model as contacts, volumes, surfaces and lengths."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from neuralcpm_bridge.errors import UserError, needs_torch
from neuralcpm_bridge.files import check_file

from .machine import check_size, usable_cores
from .options import LARGEST_SEED, MOST, Json, Model
from .progress import progress

if TYPE_CHECKING:
    from neuralcpm_bridge.distill import Behaviour


def distill(
    model: Model,
    data: Annotated[
        Path, typer.Option(metavar="DATA.npz", help="States of the kind the model is for.", show_default=False)
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="OUT.onnx", help="The model file to write.", show_default=False)
    ],
    host: Annotated[
        Literal["morpheus", "cc3d"], typer.Option(help="The stock program whose own elements must carry it.")
    ] = "morpheus",
    flips: Annotated[int, typer.Option(min=100, max=MOST, help="Pixel copies to fit to and check on.")] = 40_000,
    steps: Annotated[int, typer.Option(min=0, max=MOST, help="Longest run of the model from each state, in MCS.")] = 30,
    replicates: Annotated[
        int, typer.Option(min=0, max=MOST, help="Runs of the model and of the distilled one to compare; 0: none.")
    ] = 24,
    mcs: Annotated[int, typer.Option(min=1, max=MOST, help="Monte Carlo steps of these runs.")] = 600,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Seed of the runs and copies.")] = 0,
    simple: Annotated[bool, typer.Option("--simple", help="Contacts and parabolic volumes only.")] = False,
    as_json: Json = False,
) -> None:
    """Fit what stock Morpheus or CompuCell3D can express to a model, and say how much of what it does that keeps."""
    from neuralcpm_bridge.artifact import load_artifact
    from neuralcpm_bridge.distill import Runs, distill, distill_by_runs, report_json, report_text, sample_flips
    from neuralcpm_bridge.distill.sampling import RUNS
    from neuralcpm_bridge.snapshots import load_snapshots

    with needs_torch("distill"):
        from training.distilled import write_distilled

    artifact = load_artifact(model)
    if artifact.metadata.properties:
        raise UserError(
            f"The model reads {', '.join(artifact.metadata.properties)} of every cell, but what stock programs carry "
            "knows cells by their types alone: run the model itself, by Morpheus' plugin or CompuCell3D's steppable."
        )
    snapshots = load_snapshots(data, artifact)
    check_size(snapshots.lattice, mcs, max(replicates, 1))
    check_file(output)
    lengths = tuple(sorted({*(run for run in RUNS if run < steps), *([steps] if steps else [])}))
    with progress("ΔH of pixel copies", unit="states") as bar:
        samples = sample_flips(artifact, snapshots, flips, seed, lengths, bar)
    behaviour = None
    if replicates and artifact.engine_serves:
        runs = Runs(replicates, mcs, seed, usable_cores())
        with progress() as bar:
            result, behaviour = distill_by_runs(
                samples, artifact, snapshots, runs, simple=simple, host=host, tell=lambda text: bar(0, None, text)
            )
    else:
        result = distill(samples, artifact.metadata, simple=simple, host=host)
    write_distilled(result, artifact, output, behaviour)
    if as_json:
        print(json.dumps(report_json(result, behaviour)))
        return
    if behaviour is not None:
        _print_behaviour(behaviour)
    _print_table(result.values, result.shares)
    for line in report_text(result, artifact.metadata, behaviour):
        print(line)
    if behaviour is None:
        why = "no runs were asked for" if artifact.engine_serves else "runs over ONNX Runtime would take hours"
        print(f"What the distilled model does was not compared with the learned one: {why}.")
    print(f"Wrote {output}.")


def _print_behaviour(behaviour: Behaviour) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("measure", "without network", "model", "distilled", "kept")
    for title, row in behaviour.measures.items():
        without, model, distilled = (
            "" if found is None else f"{found.mean:.3g} ± {found.error:.2g}"
            for found in (row.without, row.model, row.distilled)
        )
        kept = f"{100 * row.kept:.0f} %" if row.matters else "" if row.holds else "differs"
        table.add_row(title, without, model, distilled, kept)
    Console(markup=False).print(table)


def _print_table(values: dict[str, float], shares: dict[str, float]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("energy", "value", "carries")
    for name, value in values.items():
        carries = "with its strength" if name.startswith("target_") else f"{100 * shares[name]:.1f} %"
        table.add_row(name, f"{value:.4g}", carries)
    Console(markup=False).print(table)
