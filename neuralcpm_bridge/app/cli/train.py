"""Verbs of training: train, evaluate, export, reproduce, and the data generators."""

from __future__ import annotations

import json
import time
from enum import Enum
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from neuralcpm_bridge.errors import UserError, needs_torch
from neuralcpm_bridge.files import check_folder

from .machine import check_size, usable_cores
from .options import LARGEST_SEED, MOST, MOST_THREADS, Json, Model, check_data_set
from .progress import SILENT_SECONDS, duration, progress


class Scale(str, Enum):
    small = "small"
    fit = "fit"
    paper = "paper"


class Scenario(str, Enum):
    a = "a"
    b = "b"


class Geometry(str, Enum):
    square = "square"
    hexagonal = "hexagonal"
    cubic = "cubic"


Output = Annotated[Path, typer.Option("--output", "-o", help="Where to write.", show_default=False)]
Seed = Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Seed of every random number.")]
Threads = Annotated[int | None, typer.Option(min=1, max=MOST_THREADS, help="Threads.", show_default="all cores")]
Samples = Annotated[
    int | None, typer.Option(min=1, max=MOST, help="States to draw.", show_default="as the recipe says")
]
Mcs = Annotated[
    int | None, typer.Option(min=1, max=MOST, help="Monte Carlo steps per state.", show_default="as the recipe says")
]


Lattice = Annotated[Geometry, typer.Option(help="The lattice; its size and the cells' follow.")]


def train(
    config: Annotated[
        Path | None, typer.Argument(metavar="CONFIG.toml", help="Configuration.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="RUN", help="Folder of the run; continued if it exists."),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Data set (.npz) in place of the configuration's.")] = None,
    override: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change one entry, e.g. optimizer.lr=0.01."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=LARGEST_SEED, help="Seed in place of the configuration's.")
    ] = None,
    example: Annotated[bool, typer.Option("--example", help="Print a commented configuration and stop.")] = False,
    as_json: Json = False,
) -> None:
    """Train a Hamiltonian on a data set; a run that was interrupted continues where its last checkpoint is."""
    with needs_torch("train"):
        from training.config import EXAMPLE, load_config
        from training.logs import named_parameters
        from training.trainer import Trainer
    if example:
        print(EXAMPLE, end="")
        return
    if config is None or output is None:
        raise UserError("train needs a configuration and a folder: neuralcpm train CONFIG.toml -o RUN.")
    changes = list(override or [])
    if seed is not None:
        changes.append(f"run.seed={seed}")
    settings = load_config(config, changes)
    source = data or settings.data.path
    if source is None:
        raise UserError(f"{config} names no data set: set data.path or give --data.")
    from neuralcpm_bridge.snapshots import load_snapshots

    trainer = Trainer(settings, load_snapshots(source), output)
    if not trainer.ranks.first:
        trainer.run()
        trainer.ranks.leave()
        return
    with progress(total=settings.optimizer.steps, unit="steps", keep=True) as bar:

        def show(report: Any) -> None:
            keys = ("loss", "energy_data", "energy_chains", "acceptance")
            told = "  ".join(f"{key.replace('_', ' ')} {report.values[key]:.4g}" for key in keys)
            bar(report.step, report.steps, told)

        model = trainer.run(show)
    trainer.ranks.leave()
    summary = {
        "run": str(output),
        "steps": trainer.step,
        "seconds": trainer.seconds,
        "evaluations_per_s": trainer.evaluations / max(trainer.seconds, 1e-9),
        "parameters": named_parameters(model),
    }
    if as_json:
        print(json.dumps(summary))
        return
    following = f"neuralcpm export {quote(str(output))} -o model.onnx"
    print(f"Trained {summary['steps']} steps in {trainer.seconds:.0f} s; next: {following}")


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a training run.", show_default=False)],
    output: Output,
    name: Annotated[str | None, typer.Option(help="Name in the file.", show_default="the file's")] = None,
) -> None:
    """Write a run's averaged weights as a model file, checked on every back end."""
    with needs_torch("export"):
        from training.export import export as write
        from training.trainer import load_run
    hamiltonian, config, header = load_run(run)
    summary = {
        "steps": header["step"],
        "seed": config.run.seed,
        "preset": config.model.preset,
        "objective": config.objective.kind,
    }
    artifact = write(
        hamiltonian,
        output,
        name=name or "",
        temperature=config.sampler.temperature,
        training=summary | {"data": str(config.data.path)} if config.data.path else summary,
    )
    print(f"Wrote {output}: {artifact.metadata.architecture}, {artifact.metadata.parameters:,} parameters.")


def evaluate(
    model: Model,
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="Data set (.npz) it should resemble.", show_default=False)
    ],
    replicates: Annotated[int, typer.Option(min=1, max=MOST, help="Chains, from scattered single pixels.")] = 32,
    mcs: Annotated[int, typer.Option(min=1, max=MOST, help="Monte Carlo steps per chain.")] = 2000,
    seed: Seed = 0,
    threads: Threads = None,
    samples: Annotated[Path | None, typer.Option(help="Keep the sampled states here (.npz).")] = None,
    as_json: Json = False,
) -> None:
    """Sample a model from mixed starts and measure the states beside the data's."""
    from neuralcpm_bridge.artifact import load_artifact
    from neuralcpm_bridge.metrics import summary
    from neuralcpm_bridge.sampling import sample_from_mixed
    from neuralcpm_bridge.snapshots import load_snapshots

    artifact = load_artifact(model)
    snapshots = load_snapshots(data, artifact)
    check_size(snapshots.lattice, mcs, replicates)
    drawn = sample_from_mixed(artifact, snapshots, replicates, mcs, seed=seed, threads=threads or usable_cores())
    if samples is not None:
        drawn.save(samples)
    results = {"model": summary(drawn, snapshots), "data": summary(snapshots, snapshots)}
    if as_json:
        print(json.dumps(results))
        return
    print_columns(f"{artifact.metadata.name}: {replicates} chains of {mcs} MCS from mixed starts", results)


def reproduce(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="cellsort-a, cellsort-b, elongation, cellular-mnist, bipolar, samplers."),
    ],
    scale: Annotated[
        Scale,
        typer.Option(
            help="small: two cores; fit: the paper's sizes by neuralcpm fit; paper: the full setting, for a GPU."
        ),
    ] = Scale.small,
    seed: Seed = 0,
    threads: Threads = None,
    lattice: Annotated[
        Geometry, typer.Option(help="The lattice; others than square: cellsort, samplers, elongation.")
    ] = (Geometry.square),
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DIR", help="Keep data, runs, pictures here.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Repeat an experiment: data, training, sampling from mixed starts, metrics, a table beside the paper's."""
    with needs_torch("reproduce"):
        from training.reproduce import Setting
        from training.reproduce import reproduce as run
    import sys

    from rich.console import Console

    if output is not None:
        check_folder(output)
    console = Console(stderr=True, markup=False)
    with console.status("…") as status:

        def tell(message: str) -> None:
            status.update(message)
            if not sys.stderr.isatty():
                print(message, file=sys.stderr, flush=True)

        results = run(name, Setting(scale.value, seed, threads or usable_cores(), output, tell, lattice.value))
    if as_json:
        print(json.dumps(results))
        return
    print_columns(
        f"{name} ({lattice.value}, {scale.value}, seed {seed})",
        {k: v for k, v in results.items() if isinstance(v, dict)},
    )
    print(", ".join(f"{key} {value:.4g}" for key, value in results.items() if isinstance(value, float)))


# -- data generators -----------------------------------------------------------------------------------------------


def data_cellsort(
    output: Output,
    scenario: Annotated[Scenario, typer.Option(help="a: weak adhesion; b: sorting.")] = Scenario.a,
    samples: Samples = None,
    mcs: Mcs = None,
    seed: Seed = 0,
    threads: Threads = None,
    lattice: Lattice = Geometry.square,
) -> None:
    """The paper's cell sorting: 50 cells of two types on 100² (cubic: 40³), contact and volume energies."""
    _generate(f"cellsort-{scenario.value}", output, samples, mcs, seed, threads, lattice)


def data_cellular_mnist(
    output: Output, samples: Samples = None, mcs: Mcs = None, seed: Seed = 0, threads: Threads = None
) -> None:
    """Cellular MNIST: type-2 cells drawn to a handwritten digit, labels kept."""
    _generate("cellular-mnist", output, samples, mcs, seed, threads)


def data_bipolar(
    output: Output, samples: Samples = None, mcs: Mcs = None, seed: Seed = 0, threads: Threads = None
) -> None:
    """Bi-polar aggregates: each type-2 cell is drawn to one of two poles on a random axis (a Moore analogue of the
    paper's Morpheus model: J(0,·) = 8, J11 = J22 = 4, J12 = 8, λ = 1, V* = 150, T = 2)."""
    _generate("bipolar", output, samples, mcs, seed, threads)


def data_elongation(
    output: Output,
    samples: Samples = None,
    mcs: Mcs = None,
    seed: Seed = 0,
    threads: Threads = None,
    lattice: Lattice = Geometry.square,
) -> None:
    """Two types of which the second is elongated by a length constraint: what contact and volume cannot express."""
    _generate("elongation", output, samples, mcs, seed, threads, lattice)


def _generate(
    name: str,
    output: Path,
    samples: int | None,
    mcs: int | None,
    seed: int,
    threads: int | None,
    lattice: Geometry = Geometry.square,
) -> None:
    from neuralcpm_bridge.lattice import size_text
    from training.datasets import RECIPES, generate

    recipe = RECIPES[name].on(lattice.value)
    wanted, began = samples or recipe.samples, time.monotonic()
    check_size(recipe.lattice, mcs or recipe.mcs, wanted)
    check_data_set(output)
    with needs_torch(f"data {name}"), progress(total=wanted, unit="states", keep=True) as bar:
        told = False

        def show(done: int, total: int) -> None:
            nonlocal told
            bar(done, total)
            expected = (time.monotonic() - began) * (total - done) / done
            if not told and expected > SILENT_SECONDS:
                bar.say(f"{total} states will take about {duration(expected)}; --samples asks for fewer.")
            told = True

        snapshots = generate(
            recipe, samples=samples, mcs=mcs, seed=seed, threads=threads or usable_cores(), progress=show
        )
    snapshots.save(output)
    print(f"Wrote {output}: {len(snapshots)} states of {size_text(snapshots.lattice.shape)} sites.")


# -- what is shown ---------------------------------------------------------------------------------------------------


def print_columns(title: str, columns: dict[str, dict[str, Any]]) -> None:
    """Dictionaries side by side, one row per key."""
    from rich.console import Console
    from rich.table import Table

    table = Table("", *columns, title=title)
    for key in dict.fromkeys(key for values in columns.values() for key in values):
        table.add_row(key, *(_text(values.get(key)) for values in columns.values()))
    Console(markup=False).print(table)


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return "[" + ", ".join(_text(entry) for entry in value) + "]"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(entry)}" for key, entry in value.items())
    return str(value)
