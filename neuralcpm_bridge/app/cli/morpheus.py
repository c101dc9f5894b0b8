"""The verbs about Morpheus: new, inject, check, run, plugin."""

from __future__ import annotations

import signal
import sys
from enum import Enum
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from neuralcpm_bridge.errors import UserError

from .ensemble import Cluster, Replicates, Scan, run_ensemble
from .options import (
    LARGEST_SEED,
    MOST,
    MOST_THREADS,
    BlocksChoice,
    Limit,
    Model,
    OutsideLimit,
    Uncertain,
    Uncertainty,
    WholeBlocks,
)
from .progress import progress

if TYPE_CHECKING:
    from neuralcpm_bridge.snapshots import Snapshots

morpheus_app = typer.Typer(name="morpheus", help="Morpheus: write, inject, check and run models.", no_args_is_help=True)

Xml = Annotated[Path, typer.Argument(metavar="MODEL.xml", help="A Morpheus model.", show_default=False)]
Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="OUT.xml", help="The file to write.", show_default=False)
]
Library = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="The engine's library to name in it.", show_default="the plugin looks for it"),
]
Distilled = Annotated[bool, typer.Option("--distilled", help="Write Morpheus' own elements only: no plugin is needed.")]


class Stepper(str, Enum):
    edgelist = "edgelist"
    random = "random"


class Term(str, Enum):
    neural = "neural"
    full = "full"


@morpheus_app.command()
def new(
    model: Model,
    output: Output,
    state: Annotated[str, typer.Option(metavar="FILE.npz[:k]", help="State to start from.", show_default=False)],
    mcs: Annotated[int, typer.Option(min=1, max=MOST, help="Monte Carlo steps to run.")] = 1000,
    snapshots: Annotated[int, typer.Option(min=1, max=MOST, help="States to save after the initial one.")] = 10,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Random seed.")] = 0,
    stepper: Annotated[Stepper, typer.Option(help="How Morpheus picks copies.")] = Stepper.edgelist,
    temperature: Annotated[
        float | None, typer.Option(min=1e-9, max=MOST, help="Temperature.", show_default="of training")
    ] = None,
    library: Library = None,
    distilled: Distilled = False,
    blocks: WholeBlocks = BlocksChoice.keep,
    uncertain: Uncertain = Uncertainty.warn,
    limit: Limit = 1.0,
    outside_limit: OutsideLimit = 0.1,
) -> None:
    """Write a complete Morpheus model from a learned model and a state."""
    from morpheus_xml.new import RunPlan, needs_plugin, new_model
    from morpheus_xml.portable import copy_beside, name_beside
    from morpheus_xml.reader import TARGET
    from neuralcpm_bridge.artifact import load_artifact
    from neuralcpm_bridge.conventions import host_notes
    from neuralcpm_bridge.hosting.fit import blind_sentence, check_lattice, in_whole_blocks
    from neuralcpm_bridge.hosting.uncertainty import Limits
    from neuralcpm_bridge.snapshots import load_state, on_boundary_of

    artifact = on_boundary_of(state, load_artifact(model))
    plugin = needs_plugin(artifact.metadata)
    if distilled and plugin:
        raise UserError(
            f"{model} ({artifact.metadata.architecture}) holds more than Morpheus' own elements can carry: distil it "
            f"first (neuralcpm distill {quote(str(model))} --data DATA -o distilled.onnx)."
        )
    start = in_whole_blocks(artifact, artifact.place(load_state(state, artifact)), blocks.value)
    if artifact.metadata.neural is not None:
        check_lattice(start.lattice, artifact, "neural", TARGET, "the state's boundary")
    plan, limits = (
        RunPlan(mcs, snapshots, seed, stepper.value, temperature),
        Limits(uncertain.value, limit, outside_limit),
    )
    new_model(artifact, start, plan, library, name_beside(artifact.path, output), limits).write(output)
    if plugin:
        copy_beside(artifact.path, output)
    notes = " ".join([*host_notes(artifact.metadata, TARGET), blind_sentence(artifact, start.lattice.shape)])
    print(f"Wrote {output}{_plugin_note(plugin)} {notes}".rstrip())
    print(f"Next: {_run_command(output)}")


@morpheus_app.command()
def inject(
    user_model: Annotated[Path, typer.Argument(metavar="USER.xml", help="Your Morpheus model.", show_default=False)],
    model: Model,
    output: Output,
    types: Annotated[
        list[str] | None, typer.Option(metavar="ct1=A", help="Your type = the learned model's; repeat for each.")
    ] = None,
    term: Annotated[
        Term | None, typer.Option(help="The network only, or all of the model.", show_default="neural")
    ] = None,
    weight: Annotated[
        float | None, typer.Option(help="Factor of the energy.", show_default="your temperature / that of training")
    ] = None,
    library: Library = None,
    distilled: Distilled = False,
    blocks: WholeBlocks = BlocksChoice.keep,
    uncertain: Uncertain = Uncertainty.warn,
    limit: Limit = 1.0,
    outside_limit: OutsideLimit = 0.1,
) -> None:
    """Put a learned model into your own Morpheus model; everything else in it stays as it is."""
    from morpheus_xml.inject import inject
    from morpheus_xml.portable import copy_beside, name_beside
    from neuralcpm_bridge.artifact import load_artifact
    from neuralcpm_bridge.files import writing
    from neuralcpm_bridge.hosting.mapping import type_pairs
    from neuralcpm_bridge.hosting.uncertainty import Limits

    artifact = load_artifact(model)
    result = inject(
        user_model,
        artifact,
        types=type_pairs(types or []),
        part=term.value if term else None,
        weight=weight,
        library=library,
        file=name_beside(artifact.path, output),
        limits=Limits(uncertain.value, limit, outside_limit),
        blocks=blocks.value,
        distilled=distilled,
    )
    with writing(output) as temporary:
        temporary.write_bytes(result.content)
    if not distilled:
        copy_beside(artifact.path, output)
    notes = ". ".join(note[0].upper() + note[1:].rstrip(".") for note in result.notes)
    print(f"Wrote {output}. {notes}{_plugin_note(not distilled)}")
    print(f"Next: {_run_command(output)}")


@morpheus_app.command()
def check(
    model: Xml,
    upgrade: Annotated[
        Path | None, typer.Option(metavar="OUT.xml", help="Write it as MorpheusML 4.", show_default=False)
    ] = None,
) -> None:
    """Say what is wrong with a Morpheus model, by line and element; exit code 1 if something is."""
    from morpheus_xml.check import check_model
    from morpheus_xml.reader import read_model
    from neuralcpm_bridge.files import writing

    found = read_model(model)
    if upgrade is not None:
        with writing(upgrade) as temporary:
            temporary.write_bytes(found.document.content)
        print(f"Wrote {upgrade}, MorpheusML 4 ({model}: {found.version}).")
    elif found.is_upgraded:
        print(f"{model} is MorpheusML {found.version}; lines are those of its version 4 (--upgrade OUT.xml writes it).")
    findings = check_model(found)
    for finding in findings:
        print(f"{model}, {finding}")
    if findings:
        raise typer.Exit(1)
    print(f"{model}: nothing found.")


@morpheus_app.command()
def run(
    model: Xml,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for results.", show_default=False)
    ],
    morpheus: Annotated[Path | None, typer.Option(help="Morpheus' program.", show_default="NEURALCPM_MORPHEUS")] = None,
    symbol: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="name=value",
            help="Override a global symbol, or an attribute by its path; may be repeated.",
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=LARGEST_SEED, help="Random seed.", show_default="the model's")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, max=MOST_THREADS, help="Threads; more help large fields only.")] = 1,
    replicates: Replicates = 1,
    scan: Scan = None,
    cluster: Cluster = None,
) -> None:
    """Run a Morpheus model, once or many times; its snapshots become a data set and a picture."""
    from morpheus_xml.run import SNAPSHOTS_FILE, check_run, run_model

    symbols = _pairs(symbol or [])
    if replicates > 1 or scan or cluster is not None:
        from neuralcpm_bridge.app.scaleout import MorpheusWork

        if cluster is None:
            check_run(model, morpheus)  # what cannot run here fails once, not as often as there are runs
        work = MorpheusWork(model.resolve(), str(morpheus) if morpheus else None, threads, symbols)
        run_ensemble(work, output, replicates=replicates, scans=scan or [], cluster=cluster, seed=seed or 0)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # what there is so far is saved
    with progress("Morpheus", unit="of Morpheus' time") as bar:
        result = run_model(
            model,
            output,
            binary=morpheus,
            symbols=symbols,
            seed=seed,
            threads=threads,
            progress=bar,
            say=bar.say,
        )
    if result.snapshots is None:
        print(f"Finished; the model writes no images of cell.id and cell.type, so there is no data set in {output}.")
        return
    picture = output / "snapshots.png"
    _draw(result.snapshots, picture)
    print(f"Finished: {len(result.snapshots)} states in {output / SNAPSHOTS_FILE}, drawn in {picture}.")
    if result.uncertainty is not None and result.uncertainty["uncertain"]:
        found = result.uncertainty
        print(
            f"{found['uncertain']} of {found['intervals']} intervals are uncertain, the first at MCS "
            f"{found['first_uncertain_mcs']} (uncertainty.png); to train with: {output / found['file']}."
        )


@morpheus_app.command()
def plugin(
    into: Annotated[
        Path | None, typer.Option(metavar="SOURCE_TREE", help="Add the plugin to Morpheus' sources.")
    ] = None,
    check: Annotated[Path | None, typer.Option(metavar="BINARY", help="Say whether a binary has the plugin.")] = None,
) -> None:
    """The plugin for the exact learned energy: add it to Morpheus' sources, or look for it in a binary."""
    from morpheus_xml.plugin_install import has_plugin, install_plugin

    if (into is None) == (check is None):
        raise UserError("One thing at a time: give either --into SOURCE_TREE or --check BINARY.")
    if into is not None:
        written = install_plugin(into)
        print(f"{len(written)} files written; build Morpheus as usual." if written else "The plugin is there already.")
        return
    assert check is not None
    if not has_plugin(check):
        print(f"{check} does not have the plugin NeuralHamiltonian.")
        raise typer.Exit(1)
    print(f"{check} has the plugin NeuralHamiltonian.")


def _plugin_note(needed: bool) -> str:
    return ". It needs a Morpheus with the plugin (morpheus plugin --help)." if needed else ". Any Morpheus runs it."


def _run_command(model: Path) -> str:
    return f"neuralcpm morpheus run {quote(str(model))} -o {quote(str(model.parent / 'results'))}"


def _pairs(entries: list[str]) -> dict[str, str]:
    """`name=value` each."""
    pairs = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not (name.strip() and equals and value.strip()):
            raise UserError(f"{entry!r} was not understood: write --set name=value.")
        pairs[name.strip()] = value.strip()
    return pairs


def _draw(snapshots: Snapshots, picture: Path) -> None:
    from neuralcpm_bridge.pictures import contact_sheet, save_png

    states = list(snapshots)
    chosen = sorted({round(k * (len(states) - 1) / 11) for k in range(12)}) if len(states) > 12 else range(len(states))
    steps = snapshots.arrays.get("mcs")
    captions = [f"MCS {steps[k]:g}" if steps is not None else f"state {k}" for k in chosen]
    sheet = contact_sheet([states[k] for k in chosen], captions, type_names=snapshots.type_names)
    save_png(sheet, picture)
