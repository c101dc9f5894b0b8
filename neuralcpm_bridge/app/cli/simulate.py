"""The verb simulate: run a model in the embedded host."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.files import check_folder

from .machine import check_size, usable_cores
from .options import LARGEST_SEED, MOST_THREADS, Model
from .progress import progress

if TYPE_CHECKING:
    from neuralcpm_bridge.artifact import Artifact
    from neuralcpm_bridge.recording import Recording
    from neuralcpm_bridge.state import CellState


MOST_FRAMES = 2000
"""Of an animation: each is a picture in memory until the end."""


class Layout(str, Enum):
    blob = "blob"
    scatter = "scatter"


class Part(str, Enum):
    full = "full"
    neural = "neural"
    symbolic = "symbolic"


def simulate(
    model: Model,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the results.", show_default=False)
    ],
    state: Annotated[
        str | None, typer.Option(metavar="FILE.npz[:k]", help="State to start from: the k-th of a data set.")
    ] = None,
    init: Annotated[Layout | None, typer.Option(help="Layout to start from instead.")] = None,
    mcs: Annotated[int, typer.Option(min=0, help="Monte Carlo steps of as many attempts as sites.")] = 1000,
    seed: Annotated[
        int, typer.Option(min=0, max=LARGEST_SEED, help="Seed; replicate i draws from the stream seed + i.")
    ] = 0,
    temperature: Annotated[
        float | None, typer.Option(min=0.0, help="Temperature.", show_default="that of training")
    ] = None,
    replicates: Annotated[
        int, typer.Option("--replicates", "--chains", min=1, help="Independent chains, an ensemble over the cores.")
    ] = 1,
    threads: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_THREADS, help="Threads; results do not depend on it.", show_default="all cores"),
    ] = None,
    snapshots: Annotated[int, typer.Option(min=1, help="States to save after the initial one, evenly spaced.")] = 10,
    frames: Annotated[
        int,
        typer.Option(min=0, max=MOST_FRAMES, help="Frames of the animation of the first replicate; 0: no animation."),
    ] = 60,
    neighbourhood: Annotated[
        str,
        typer.Option(
            metavar="moore|von_neumann|ORDER", help="Where copies come from: all around, nearest, or up to an order."
        ),
    ] = "moore",
    boundary_only: Annotated[
        bool, typer.Option("--boundary-only", help="Skip attempts within one cell, counting them as time.")
    ] = False,
    cells: Annotated[int | None, typer.Option(min=1, help="Cells of --init.", show_default="as in training")] = None,
    lattice: Annotated[
        str | None,
        typer.Option(metavar="HxW", help="Lattice of --init, in 3D DxHxW.", show_default="as in training"),
    ] = None,
    part: Annotated[Part, typer.Option("--term", help="The part of the energy to run with.")] = Part.full,
) -> None:
    """Run a model: Metropolis dynamics from a state or a layout.

    Writes a data set of snapshots, energies and measures over time (table and chart), a strip and an animation.
    """
    from dataclasses import asdict

    from rich.console import Console

    from neuralcpm_bridge import __version__
    from neuralcpm_bridge.artifact import load_artifact
    from neuralcpm_bridge.embedded import Dynamics, open_chains
    from neuralcpm_bridge.initial import layout_lattice
    from neuralcpm_bridge.recording import Recording
    from neuralcpm_bridge.snapshots import on_boundary_of

    check_start(state, init, cells, lattice)
    check_folder(output)
    artifact = load_artifact(model)
    if state is not None:
        artifact = on_boundary_of(state, artifact)
    meta = artifact.metadata
    shape = None if lattice is None else lattice_shape(lattice, meta.geometry.dimension)
    if init is not None:
        check_size(layout_lattice(artifact, shape), mcs, replicates, min(snapshots, mcs) + 1)
    starts = start_states(artifact, state, init, seed, replicates, cells, shape)
    check_size(starts[0].lattice, mcs, replicates, min(snapshots, mcs) + 1)
    dynamics = Dynamics(
        temperature=meta.temperature if temperature is None else temperature,
        seed=seed,
        neighbourhood=int(neighbourhood) if neighbourhood.isdigit() else neighbourhood,  # type: ignore[arg-type]
        boundary_only=boundary_only,
        part=part.value,
        forbid_extinction=meta.extinction,
    )
    running = open_chains(artifact, starts, dynamics, threads or usable_cores())
    console = Console(stderr=True, markup=False)
    if not artifact.engine_serves:
        console.print(f"The engine does not cover {meta.architecture}: running on {running.name}.")
    recording = Recording(meta.types)
    provenance = {
        "program": f"neuralcpm-bridge {__version__}, simulate on {running.name}",
        "model": meta.name,
        "weights_hash": meta.weights_hash,
        "mcs": mcs,
        **asdict(dynamics),
        "start": init.value if init else state,
    }
    recording.keep(output, provenance, console.print)
    interrupted = _watch(running, recording, mcs, snapshots, frames)
    written = recording.save(output, provenance | asdict(running.counts) | {"interrupted": interrupted})
    counts, kept = running.counts, len(recording.times) * replicates
    console.print(
        f"{'Interrupted: ' if interrupted else ''}{kept} state{'s' if kept > 1 else ''} in {output}; "
        f"{counts.attempts:,} attempts, {counts.proposals:,} proposals, {counts.accepted:,} accepted on "
        f"{running.name}. Wrote {', '.join(file.name for file in written)}."
    )
    if interrupted:
        raise typer.Exit(130)


def check_start(state: str | None, init: Layout | None, cells: int | None, lattice: str | None) -> None:
    """Refuse what describes no start, or two."""
    if (state is None) == (init is None):
        raise UserError(
            "A run starts from a data set or from a layout: give either --state FILE.npz or --init blob|scatter."
        )
    if state is not None and (cells is not None or lattice is not None):
        raise UserError("--cells and --lattice describe a layout, but --state was given: leave them out.")


def start_states(
    artifact: Artifact,
    state: str | None,
    init: Layout | None,
    seed: int,
    chains: int,
    cells: int | None,
    lattice: tuple[int, ...] | None,
) -> list[CellState]:
    """One state per chain; a layout is drawn anew for each."""
    if state is not None:
        from neuralcpm_bridge.snapshots import load_state

        return [load_state(state, artifact)] * chains
    assert init is not None
    from neuralcpm_bridge.initial import initial_state

    return [
        initial_state(artifact, init.value, seed=seed + chain, cells=cells, lattice=lattice) for chain in range(chains)
    ]


def lattice_shape(text: str, dimension: int) -> tuple[int, ...]:
    """`100x150`, `40x50x60`, or one number for all sides."""
    sides = text.lower().replace("×", "x").split("x")
    if not all(side.isdigit() and int(side) > 0 for side in sides) or len(sides) not in (1, dimension):
        wanted = (
            "height and width, as in --lattice 100x150" if dimension == 2 else "depth, height and width, as 40x50x60"
        )
        raise UserError(f"The lattice {text!r} was not understood: write {wanted}.")
    return tuple(int(side) for side in sides) * (dimension if len(sides) == 1 else 1)


def _watch(running: Any, recording: Recording, mcs: int, snapshots: int, frames: int) -> bool:
    """Run to the end or to Ctrl-C (then true), behind a progress bar; what was recorded is kept either way."""
    with progress("simulate", mcs, unit="MCS", keep=True) as bar:
        try:
            for done in recording.follow(running, mcs, snapshots, frames):
                bar(done, mcs)
        except KeyboardInterrupt:
            if not recording.times:
                raise
            return True
    return False
