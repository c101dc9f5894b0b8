"""The verb explain: what a cell graph learned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neuralcpm_bridge.files import check_folder

from .options import LARGEST_SEED, Json, Model
from .progress import progress

if TYPE_CHECKING:
    from neuralcpm_bridge.explain import Explanation


def explain(
    model: Model,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DATA.npz", help="States of the kind the model is for.", show_default="samples of the model itself"
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Folder for explain.html, explain.json and energies.png.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Seed of what is drawn.")] = 0,
    as_json: Json = False,
) -> None:
    """Say what a cell graph learned: energies of cells and contacts, and how they follow volume, shape, neighbours."""
    from neuralcpm_bridge.artifact import load_artifact
    from neuralcpm_bridge.explain import explain
    from neuralcpm_bridge.snapshots import load_snapshots

    artifact = load_artifact(model)
    snapshots = None if data is None else load_snapshots(data, artifact)
    if output is not None:
        check_folder(output)
    with progress("response curves", unit="quantities") as bar:
        found = explain(artifact, snapshots, seed=seed, progress=bar)
    if output is not None:
        _write(found, output)
    if as_json:
        print(json.dumps(found.json()))
        return
    _print_table(found)
    for line in found.sentences:
        print(line)
    if output is not None:
        print(f"Wrote {output / 'explain.html'}, explain.json and energies.png.")


def _write(found: Explanation, folder: Path) -> None:
    from neuralcpm_bridge.explain import energy_picture
    from neuralcpm_bridge.files import writing
    from neuralcpm_bridge.pictures import save_png

    from ..explained import write_page

    write_page(found, folder / "explain.html")
    save_png(energy_picture(found.energies, found.types), folder / "energies.png")
    with writing(folder / "explain.json") as temporary:
        temporary.write_text(json.dumps(found.json(), indent=1) + "\n", encoding="utf-8")


def _print_table(found: Explanation) -> None:
    from rich.console import Console
    from rich.table import Table

    from neuralcpm_bridge.explain.sentences import figure, lowest

    of = "data" if found.of_data else "samples"
    table = Table("type", "as this changes", f"most {of} lie", "energy changes by", "lowest at")
    for response in found.responses:
        low, high = response.coverage.most
        place = lowest(response)
        values = f"{figure(low)} to {figure(high)} {response.unit}".strip()
        at = "an end" if place is None else figure(place)
        table.add_row(response.cell_type, response.quantity, values, f"{figure(response.strength)} T", at)
    Console(markup=False).print(table)
