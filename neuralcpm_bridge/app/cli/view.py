"""The verb view: a tissue that lives in a page of the user's browser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .machine import check_size
from .options import LARGEST_SEED, Model
from .simulate import Layout, check_start, lattice_shape, start_states

if TYPE_CHECKING:
    from neuralcpm_bridge.app.view.server import ViewServer
    from neuralcpm_bridge.app.view.tissue import Tissue
    from neuralcpm_bridge.artifact import Artifact

COMPARED = 50
"""States of a data set that are measured for the bands of the charts at most."""


def view(
    model: Model,
    state: Annotated[
        str | None,
        typer.Option(metavar="FILE.npz[:k]", help="State to start from; the charts show its data set's measures."),
    ] = None,
    init: Annotated[Layout | None, typer.Option(help="Layout to start from instead.", show_default="blob")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page.", show_default="a free one")] = 0,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Seed of the layout and of the dynamics.")] = 0,
    temperature: Annotated[
        float | None, typer.Option(min=0.0, help="Temperature.", show_default="that of training")
    ] = None,
    cells: Annotated[int | None, typer.Option(min=1, help="Cells of --init.", show_default="as in training")] = None,
    lattice: Annotated[
        str | None,
        typer.Option(metavar="HxW", help="Lattice of --init, in 3D DxHxW.", show_default="as in training"),
    ] = None,
) -> None:
    """Show a tissue that moves under a model, in a page on this machine.

    Start, pause, step and restart it, change the temperature and the weight of the learned term, click on cells, save
    pictures. The page is served to this machine alone, until Ctrl-C.
    """
    from neuralcpm_bridge.artifact import load_artifact

    server = open_view(load_artifact(model), state, init, port, seed, temperature, cells, lattice)
    print(f"Open {server.address} in a browser on this machine; Ctrl-C ends it.", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print("ended")
    finally:
        server.server_close()


def open_view(
    artifact: Artifact,
    state: str | None = None,
    init: Layout | None = None,
    port: int = 0,
    seed: int = 0,
    temperature: float | None = None,
    cells: int | None = None,
    lattice: str | None = None,
) -> ViewServer:
    """The server, ready to serve."""
    from neuralcpm_bridge.app.view.server import ViewServer
    from neuralcpm_bridge.app.view.tissue import Tissue, data_bands
    from neuralcpm_bridge.embedded import Dynamics
    from neuralcpm_bridge.initial import layout_lattice
    from neuralcpm_bridge.snapshots import load_snapshots, on_boundary_of, state_reference

    if state is None:
        init = init or Layout.blob
    check_start(state, init, cells, lattice)
    if state is not None:
        artifact = on_boundary_of(state, artifact)
    meta = artifact.metadata
    shape = None if lattice is None else lattice_shape(lattice, meta.geometry.dimension)
    if state is None:
        check_size(layout_lattice(artifact, shape), 1, 1)
    start = start_states(artifact, state, init, seed, 1, cells, shape)[0]
    dynamics = Dynamics(
        temperature=meta.temperature if temperature is None else temperature,
        seed=seed,
        forbid_extinction=meta.extinction,
    )
    tissue = Tissue(artifact, start, dynamics)
    data = [] if state is None else list(load_snapshots(state_reference(state)[0], artifact))
    chosen = [data[round(k)] for k in _spread(len(data))]
    return ViewServer(tissue, _about(tissue, data_bands(artifact, chosen), len(data)), port)


def _spread(count: int) -> list[float]:
    shown = min(count, COMPARED)
    return [index * (count - 1) / max(shown - 1, 1) for index in range(shown)]


def _about(tissue: Tissue, bands: dict[str, tuple[float, float]], states: int) -> dict[str, Any]:
    """What the page must know once."""
    from neuralcpm_bridge import __version__
    from neuralcpm_bridge.app.view.drawing import colours
    from neuralcpm_bridge.app.view.tissue import MOST_STEPS, STRONGEST

    meta, lattice = tissue.artifact.metadata, tissue.start.lattice
    return {
        "version": __version__,
        "name": meta.name,
        "architecture": meta.architecture,
        "types": list(meta.types),
        "colours": colours(len(meta.types)),
        "cell_types": tissue.start.types.tolist(),
        "geometry": lattice.geometry.name,
        "shape": list(lattice.shape),
        "boundary": list(lattice.boundary),
        "temperature": meta.temperature,
        "learned": meta.neural is not None,
        "most_steps": MOST_STEPS,
        "strongest": STRONGEST,
        "bands": {name: list(ends) for name, ends in bands.items()},
        "bands_from": (
            f"mean ± deviation over {states} states of the data set"
            if states > 1
            else "single cells of the training data, smallest to largest"
        ),
        "knows_range": bool(tissue.artifact.ranges),
        "runs_on": tissue.chains.name,
    }
