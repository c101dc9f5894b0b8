"""The verb simulate: run a model in the embedded host."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ..errors import UserError

if TYPE_CHECKING:
    from ..artifact import Artifact
    from ..state import CellState


class Layout(str, Enum):
    blob = "blob"
    scatter = "scatter"


class Neighbourhood(str, Enum):
    moore = "moore"
    von_neumann = "von_neumann"


class Term(str, Enum):
    full = "full"
    neural = "neural"
    symbolic = "symbolic"


def simulate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The model file (model.onnx).", show_default=False)],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for snapshots.npz.", show_default=False)
    ],
    state: Annotated[
        str | None, typer.Option(metavar="FILE.npz[:k]", help="State to start from: the k-th of a data set.")
    ] = None,
    init: Annotated[Layout | None, typer.Option(help="Layout to start from instead.")] = None,
    mcs: Annotated[int, typer.Option(min=0, help="Monte Carlo steps of height·width attempts.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed; chain i draws from the stream seed + i.")] = 0,
    temperature: Annotated[
        float | None, typer.Option(min=0.0, help="Temperature.", show_default="that of training")
    ] = None,
    chains: Annotated[int, typer.Option(min=1, help="Independent chains.")] = 1,
    threads: Annotated[
        int, typer.Option(min=1, help="Threads that share the chains; results do not depend on it.")
    ] = 1,
    snapshots: Annotated[int, typer.Option(min=1, help="States to save after the initial one, evenly spaced.")] = 10,
    neighbourhood: Annotated[Neighbourhood, typer.Option(help="Where copies come from.")] = Neighbourhood.moore,
    boundary_only: Annotated[
        bool, typer.Option("--boundary-only", help="Skip attempts within one cell, counting them as time.")
    ] = False,
    cells: Annotated[int | None, typer.Option(min=1, help="Cells of --init.", show_default="as in training")] = None,
    lattice: Annotated[
        str | None, typer.Option(metavar="HxW", help="Lattice of --init.", show_default="as in training")
    ] = None,
    term: Annotated[Term, typer.Option(help="The part of the energy to run with.")] = Term.full,
) -> None:
    """Run a model: Metropolis dynamics from a state or a layout, with snapshots."""
    from rich.console import Console

    from ..artifact import load_artifact
    from ..embedded import Dynamics, open_chains

    artifact = load_artifact(model)
    starts = _starts(artifact, state, init, seed, chains, cells, _shape(lattice))
    dynamics = Dynamics(
        temperature=artifact.metadata.temperature if temperature is None else temperature,
        seed=seed,
        neighbourhood=neighbourhood.value,
        boundary_only=boundary_only,
        term=term.value,
        forbid_extinction=artifact.metadata.extinction,
    )
    running = open_chains(artifact, starts, dynamics, threads)
    console = Console(stderr=True)
    if not artifact.engine_serves:
        console.print(f"The engine does not cover {artifact.metadata.architecture}: running on {running.name}.")
    found, interrupted = _watch(running, mcs, snapshots, console)
    file = output / "snapshots.npz"
    _save(file, artifact, running, found, mcs, {"start": init.value if init else state, "interrupted": interrupted})
    counts = running.counts
    console.print(
        f"{'Interrupted: ' if interrupted else ''}{len(found) * chains} states in {file}; {counts.attempts:,} "
        f"attempts, {counts.proposals:,} proposals, {counts.accepted:,} accepted on {running.name}."
    )
    if interrupted:
        raise typer.Exit(130)


def _starts(
    artifact: Artifact,
    state: str | None,
    init: Layout | None,
    seed: int,
    chains: int,
    cells: int | None,
    lattice: tuple[int, int] | None,
) -> list[CellState]:
    """One state per chain; a layout is drawn anew for each."""
    if (state is None) == (init is None):
        raise UserError(
            "A run starts from a data set or from a layout: give either --state FILE.npz or --init blob|scatter."
        )
    if state is not None:
        if cells is not None or lattice is not None:
            raise UserError("--cells and --lattice describe a layout, but --state was given: leave them out.")
        from ..snapshots import load_state

        return [load_state(state, artifact)] * chains
    assert init is not None
    from ..initial import initial_state

    return [
        initial_state(artifact, init.value, seed=seed + chain, cells=cells, lattice=lattice) for chain in range(chains)
    ]


def _shape(lattice: str | None) -> tuple[int, int] | None:
    if lattice is None:
        return None
    height, cross, width = lattice.lower().replace("×", "x").partition("x")
    if not cross:
        width = height
    if not (height.isdigit() and width.isdigit() and int(height) > 0 and int(width) > 0):
        raise UserError(f"The lattice {lattice!r} was not understood: write height and width, as in --lattice 100x150.")
    return int(height), int(width)


def _watch(running: Any, mcs: int, snapshots: int, console: Any) -> tuple[list[tuple[int, list[CellState]]], bool]:
    """Run to the end or to Ctrl-C, behind a progress bar; the snapshots taken are kept either way."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from ..embedded import run

    found: list[tuple[int, list[CellState]]] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("MCS"))
    interrupted = False
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console) as progress:
        bar = progress.add_task("simulate", total=mcs)
        try:
            for done, states in run(running, mcs, snapshots):
                progress.update(bar, completed=done)
                if states is not None:
                    found.append((done, states))
        except KeyboardInterrupt:
            if not found:
                raise
            interrupted = True
    return found, interrupted


def _save(
    file: Path,
    artifact: Artifact,
    running: Any,
    found: list[tuple[int, list[CellState]]],
    mcs: int,
    more: dict[str, Any],
) -> None:
    """One data set, time by time and chain by chain."""
    from dataclasses import asdict

    from .. import __version__
    from ..snapshots import Snapshots

    meta = artifact.metadata
    chains = len(found[0][1])
    Snapshots.from_states(
        [state for _, states in found for state in states],
        type_names=meta.types,
        boundary=meta.boundary,
        provenance={
            "program": f"neuralcpm-bridge {__version__}, simulate on {running.name}",
            "model": meta.name,
            "weights_hash": meta.weights_hash,
            "mcs": mcs,
            **asdict(running.dynamics),
            **asdict(running.counts),
            **more,
        },
        arrays={
            "mcs": np.repeat(np.array([done for done, _ in found], dtype=np.int64), chains),
            "chain": np.tile(np.arange(chains, dtype=np.int64), len(found)),
        },
    ).save(file)
