"""The verbs `neuralcpm cc3d …`: projects for CompuCell3D, running and verifying them."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from neuralcpm_bridge.errors import needs_torch

from .ensemble import Cluster, Replicates, Scan, run_ensemble
from .options import MOST, BlocksChoice, Json, Limit, Model, OutsideLimit, Uncertain, Uncertainty, WholeBlocks
from .progress import progress

cc3d_app = typer.Typer(
    help="CompuCell3D: set it up; write, inject into, run and verify projects.", no_args_is_help=True
)


ProjectFile = Annotated[
    Path, typer.Argument(metavar="PROJECT.cc3d", help="The project's .cc3d file.", show_default=False)
]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="Folder to write.", show_default=False)]
Mcs = Annotated[
    int | None, typer.Option("--mcs", min=1, max=MOST, help="Monte Carlo steps.", show_default="the project's")
]
Seed = Annotated[
    int | None, typer.Option(min=1, max=2**31 - 1, help="Random seed, 1 or larger.", show_default="the project's")
]


class SymbolicPart(Enum):
    keep = "keep"
    replace = "replace"


@cc3d_app.command()
def new(
    model: Model,
    state: Annotated[str, typer.Option(metavar="FILE.npz[:k]", help="State to start from: the k-th of a data set.")],
    output: Output,
    mcs: Annotated[int, typer.Option("--mcs", min=1, max=MOST, help="Monte Carlo steps of the project.")] = 1000,
    seed: Seed = None,
    scale: Annotated[
        float, typer.Option(help="Factor of all energies and the temperature; changes no probability.")
    ] = 1.0,
    blocks: WholeBlocks = BlocksChoice.keep,
    uncertain: Uncertain = Uncertainty.warn,
    limit: Limit = 1.0,
    outside_limit: OutsideLimit = 0.1,
) -> None:
    """Write a complete project: CC3DML with exactly converted parameters, Python, PIF and the model."""
    from cc3d_steppables.new import write_project
    from cc3d_steppables.project import Project
    from neuralcpm_bridge.artifact import load_artifact
    from neuralcpm_bridge.hosting.fit import blind_sentence
    from neuralcpm_bridge.hosting.uncertainty import Limits
    from neuralcpm_bridge.snapshots import load_state, on_boundary_of

    artifact = on_boundary_of(state, load_artifact(model))
    file = write_project(
        artifact,
        load_state(state, artifact),
        output,
        steps=mcs,
        seed=seed,
        energy_scale=scale,
        blocks=blocks.value,
        limits=Limits(uncertain.value, limit, outside_limit),
    )
    facts = Project.open(file).facts()
    if facts is not None and (said := blind_sentence(artifact, facts.lattice.shape)):
        print(said)
    print(f"Wrote {file}: open it in CompuCell3D, or run it with neuralcpm cc3d run {quote(str(file))} -o RESULTS.")


@cc3d_app.command()
def inject(
    project: ProjectFile,
    model: Model,
    output: Output,
    types: Annotated[
        list[str] | None,
        typer.Option(
            metavar="THEIRS=MODEL'S", help="A cell type of the project and the model's name; several parted by ; or ,"
        ),
    ] = None,
    symbolic: Annotated[
        SymbolicPart, typer.Option(help="Keep the project's own energies (Contact, Volume, …), or take the model's.")
    ] = SymbolicPart.keep,
    weight: Annotated[float, typer.Option(help="Factor of the learned term.")] = 1.0,
    extinction: Annotated[
        bool, typer.Option("--extinction", help="Forbid taking a cell's last pixel, as training did.")
    ] = False,
    blocks: WholeBlocks = BlocksChoice.keep,
    uncertain: Uncertain = Uncertainty.warn,
    limit: Limit = 1.0,
    outside_limit: OutsideLimit = 0.1,
) -> None:
    """Add the learned term to a copy of a project; nothing else of it changes."""
    from cc3d_steppables.inject import inject as inject_into
    from neuralcpm_bridge.artifact import load_artifact
    from neuralcpm_bridge.hosting.mapping import type_pairs
    from neuralcpm_bridge.hosting.uncertainty import Limits

    file, said = inject_into(
        project,
        load_artifact(model),
        output,
        types=type_pairs(types or []),
        symbolic=symbolic.value,
        weight=weight,
        extinction=extinction,
        limits=Limits(uncertain.value, limit, outside_limit),
        blocks=blocks.value,
    )
    print(f"{said}\n\nWrote {file}: run it with neuralcpm cc3d run {quote(str(file))} -o RESULTS.")


@cc3d_app.command()
def run(
    project: ProjectFile,
    output: Output,
    mcs: Mcs = None,
    seed: Seed = None,
    snapshots: Annotated[int, typer.Option(min=1, max=MOST, help="Lattices to keep after the initial one.")] = 10,
    patience: Annotated[
        float, typer.Option(min=1.0, max=MOST, metavar="SECONDS", help="Give up when no step was made for so long.")
    ] = 600.0,
    replicates: Replicates = 1,
    scan: Scan = None,
    cluster: Cluster = None,
) -> None:
    """Run a copy of a project headless, once or many times: snapshots as a data set, a picture of them, CC3D's log."""
    from cc3d_steppables.run import host_python, run_project

    if replicates > 1 or scan or cluster is not None:
        from neuralcpm_bridge.app.scaleout import CC3DWork

        if cluster is None:
            host_python()  # what cannot run here fails once, not as often as there are runs
        work = CC3DWork(project.resolve(), mcs, snapshots, patience)
        run_ensemble(work, output, replicates=replicates, scans=scan or [], cluster=cluster, seed=seed or 1)
        return
    with progress("CompuCell3D") as bar:
        file = run_project(
            project,
            output,
            steps=mcs,
            snapshots=snapshots,
            seed=seed,
            patience=patience,
            progress=bar,
            say=bar.say,
        )
    print(f"Wrote {file}; CompuCell3D's log is {output / 'cc3d.log'}.")


@cc3d_app.command()
def setup(
    python: Annotated[
        Path | None, typer.Option(metavar="PATH", help="CompuCell3D's Python.", show_default="all that are found")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Only look; exit code 1 if something is missing.")] = False,
) -> None:
    """Install this package into CompuCell3D's own Python, and check that the steppable imports there."""
    from cc3d_steppables.installations import INTERPRETER, inspected, installed, interpreters
    from neuralcpm_bridge.errors import UserError

    chosen = [python] if python is not None else interpreters()
    if not chosen:
        raise UserError(f"CompuCell3D was not found: give its Python with --python PATH or in {INTERPRETER}.")
    ready = True
    for interpreter in chosen:
        before = inspected(interpreter)
        after = before if check else installed(interpreter)
        if after.bridge != before.bridge:
            print(f"Installed neuralcpm-bridge {after.bridge} (there before: {before.bridge or 'none'}).")
        print(after.sentence())
        ready = ready and after.ready
    if not ready:
        raise typer.Exit(1)


@cc3d_app.command()
def verify(
    project: ProjectFile,
    mcs: Annotated[
        int | None, typer.Option("--mcs", min=1, max=MOST, help="Monte Carlo steps.", show_default="until --flips")
    ] = None,
    flips: Annotated[
        int, typer.Option(min=1, max=MOST, help="Attempted copies to record where --mcs is not given.")
    ] = 10_000,
    exact: Annotated[
        int, typer.Option(min=1, max=MOST, help="How many of them to compare with float64 torch.")
    ] = 2_000,
    seed: Seed = None,
    as_json: Json = False,
) -> None:
    """Compare every ΔH inside the real CompuCell3D with ours and float64 torch; exit code 1 if one disagrees."""
    from cc3d_steppables.verify import verify_project

    with needs_torch("verify"):
        import torch

        from training.backend import TorchBackend
    torch.set_num_threads(1)  # small batches run fastest so
    with progress("CompuCell3D") as bar:
        report = verify_project(
            project, TorchBackend.exact, steps=mcs, flips=flips, exact=exact, seed=seed, progress=bar
        )
    if as_json:
        print(json.dumps(report))
    else:
        from rich.console import Console
        from rich.table import Table

        table = Table(show_header=False, title=f"{project.name} in CompuCell3D", title_justify="left")
        for key, value in report.items():
            table.add_row(key.replace("_", " "), f"{value:.3g}" if isinstance(value, float) else str(value))
        Console(markup=False).print(table)
    if not report["ok"]:
        raise typer.Exit(1)
