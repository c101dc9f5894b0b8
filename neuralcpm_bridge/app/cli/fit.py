"""The verbs `fit`, from a data set or a folder of label images to a judged model, and `refit`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neuralcpm_bridge.errors import UserError, needs_torch
from neuralcpm_bridge.files import check_folder

from .machine import usable_cores
from .options import LARGEST_SEED, LONGEST_MINUTES, Json
from .progress import progress

if TYPE_CHECKING:
    from neuralcpm_bridge.snapshots import Snapshots
    from training.fit import Fit, Narrator


TYPES_FILE = "types.csv"
"""In a folder of label images: the types of their cells, as `data import --types` reads them."""


def fit(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="Data set (.npz), or a folder of label images.", show_default=False)
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="RUN", help="Folder of the run; continued if it exists."),
    ],
    like: Annotated[
        Path | None,
        typer.Option(metavar="PROJECT", help="Your own .cc3d project or Morpheus .xml: learn what its energies miss."),
    ] = None,
    minutes: Annotated[float, typer.Option(min=0.5, max=LONGEST_MINUTES, help="Time it may take.")] = 10.0,
    members: Annotated[int, typer.Option(min=1, max=16, help="Networks in the committee.")] = 4,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Seed of every random number.")] = 0,
    as_json: Json = False,
) -> None:
    """Everything from snapshots to a judged model: contact and volume energies, a learned closure of them, samples of
    both from scattered starts, and a verdict. No setting to tune."""
    with needs_torch("fit"):
        from neuralcpm_bridge.app.like import like_project, said
        from training.fit import Wanted
        from training.fit import fit as run
    snapshots = _read(data)
    given = None if like is None else like_project(like, snapshots)
    check_folder(output)

    def fitted(threads: int, narrator: Narrator) -> Fit:
        for line in said(given) if given is not None else ():
            narrator.tell(line)
        return run(snapshots, output, Wanted(minutes, members, seed, threads, given), narrator)

    _run_and_report(fitted, output, as_json, like)


def refit(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished fit.", show_default=False)],
    uncertain: Annotated[
        Path, typer.Option("--with", metavar="uncertain.npz", help="Lattices that a host saved as uncertain.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="RUN2", help="Folder to write.", show_default="RUN-refit")
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            min=0.5,
            max=LONGEST_MINUTES,
            help="Time it may take; samples run as long as the fit's.",
            show_default="the fit's",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Train the closure of a fit on, so that it leads back to the data from lattices of which a host was not sure; they
    are starts of chains and never data. Judged and written as a fit is."""
    with needs_torch("refit"):
        from training.fit.refitting import refit as again
    folder = output or Path(f"{run.resolve()}-refit")
    check_folder(folder)
    _run_and_report(
        lambda threads, narrator: again(run, uncertain, folder, minutes, threads, narrator), folder, as_json
    )


def _run_and_report(
    fitted: Callable[[int, Narrator], Fit], output: Path, as_json: bool, like: Path | None = None
) -> None:
    """Run with a bar on the first of all ranks, and say what was found; the others work in silence."""
    from neuralcpm_bridge.app.fitted import write_fit_report
    from training.fit import Narrator
    from training.ranks import Ranks

    ranks = Ranks.joined()
    threads = max(1, usable_cores() // ranks.count)
    if not ranks.first:
        fitted(threads, Narrator())
        ranks.leave()
        return
    with progress("reading the data", unit="") as bar:

        def show(what: str, done: float, total: float) -> None:
            bar(done, total, what)

        found = fitted(threads, Narrator(bar.say, show)).found
        bar(0, 1, "writing the report")
        write_fit_report(output)
    ranks.leave()
    if as_json:
        print(json.dumps(found))
        return
    print(found["verdict"])
    print(f"\nThe report: {output / 'report.html'}\nNext:")
    for command in next_commands(output, found["adds"], like):
        print(f"  {command}")


def next_commands(output: Path, adds: bool, like: Path | None = None) -> list[str]:
    """What to run with the model: to see it, to read it where a network adds something, and in both hosts, or in the
    project whose closure it is; as a shell takes it."""
    from neuralcpm_bridge.app.report.fit_folder import HELD_OUT_FILE

    names = ("model.onnx", "samples.npz", HELD_OUT_FILE, "explained")
    model, samples, held_out, explained = (shlex.quote(str(output / name)) for name in names)
    commands = [f"neuralcpm view {model} --state {held_out}"]
    if adds:
        commands.append(f"neuralcpm explain {model} --data {held_out} -o {explained}")
    if adds and like is not None:
        host, target = (
            ("cc3d", f"{like.stem}-learned") if like.suffix == ".cc3d" else ("morpheus", f"{like.stem}-learned.xml")
        )
        return [*commands, f"neuralcpm {host} inject {shlex.quote(str(like))} {model} -o {shlex.quote(target)}"]
    return [
        *commands,
        f"neuralcpm cc3d new {model} --state {samples} -o Fitted",
        f"neuralcpm morpheus new {model} --state {samples} -o fitted.xml",
    ]


def _read(data: Path) -> Snapshots:
    from neuralcpm_bridge.snapshots import load_snapshots

    if not data.is_dir():
        return load_snapshots(data)
    from neuralcpm_bridge.importers import ImportOptions, import_files

    table = data / TYPES_FILE
    found = import_files([data], ImportOptions(type_table=table if table.is_file() else None))
    if found.snapshots is None or found.problems:
        first = found.problems[0] if found.problems else "no label image was found"
        raise UserError(
            f"{data} cannot be taken as it is ({first}): make a data set of it with neuralcpm data import, and fit "
            "that."
        )
    return found.snapshots
