"""The demo: data of elongated cells, a fit of them, both its models simulated and measured, and what a host needs.

Everything lands in one folder, laid out as an experiment's is, so that `neuralcpm report` and every other verb can be
pointed at it. A fit needs torch; without one the models that come with the package take its place.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from neuralcpm_bridge import __version__
from neuralcpm_bridge.artifact import Artifact, load_artifact
from neuralcpm_bridge.embedded import Dynamics, open_chains
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.files import writing
from neuralcpm_bridge.initial import initial_state
from neuralcpm_bridge.metrics.comparing import Measured, aspect_gap_title, comparable_measures
from neuralcpm_bridge.pretrained import PREFIX, resolve_model
from neuralcpm_bridge.recording import Recording
from neuralcpm_bridge.sampling import mixed_starts
from neuralcpm_bridge.snapshots import Snapshots, load_snapshots
from neuralcpm_bridge.state import CellState

from .fitted import write_fit_report
from .report import write_report
from .report.measuring import nearest_to_data

RECIPE = "elongation"
FIT = "fit"
CLOSURE = PREFIX + "elongated-cells"
BASELINE = PREFIX + "elongated-cells-baseline"
SOLID = PREFIX + "elongated-cells-3d"
VERIFIED_FLIPS = 100
SNAPSHOTS, FRAMES = 8, 40
HOST_STEPS = 1000


@dataclass(frozen=True)
class Plan:
    """Sizes of the demo; without time for a fit the bundled models are used as they are."""

    samples: int
    minutes: float
    members: int
    replicates: int
    mcs: int

    @property
    def trains(self) -> bool:
        return self.minutes > 0


FULL = Plan(samples=128, minutes=4, members=4, replicates=12, mcs=600)
QUICK = Plan(samples=24, minutes=0, members=0, replicates=8, mcs=400)


class Step(Protocol):
    """One step of the demo, as the one who watches sees it."""

    def progress(self, done: int, total: int) -> None: ...

    def tell(self, result: str) -> None: ...


Narrator = Callable[[str], AbstractContextManager[Step]]
"""Opens a step by its name."""


class Models(NamedTuple):
    """`closure` = contact and volume energies + network, `baseline` = contact and volume energies alone."""

    closure: Artifact
    baseline: Artifact


@dataclass(frozen=True)
class Outcome:
    """What was found, in a sentence, and where the files for people and hosts are."""

    verdict: str
    project: Path
    morpheus: Path
    report: Path


def run_demo(folder: Path, plan: Plan, seed: int, threads: int, narrate: Narrator) -> Outcome:
    """Run every step; the same again for the same plan, seed and number of threads."""
    if plan.trains and find_spec("torch") is None:
        raise UserError(
            "The demo fits two models, but torch is not installed: run pip install 'neuralcpm-bridge[cpu,train]', "
            "or see the bundled models with neuralcpm demo --quick."
        )
    _claim(folder, plan, seed)
    data = _make_data(folder, plan, seed, threads, narrate)
    models = _fit(folder, data, plan, seed, threads, narrate) if plan.trains else _take_bundled(folder, narrate)
    _verify(models, data, seed, narrate)
    starts = mixed_starts(data, plan.replicates, np.random.default_rng([seed, 11]))
    drawn = {
        name: _simulate(folder, name, artifact, starts, plan, seed, threads, narrate)
        for name, artifact in models._asdict().items()
    }
    verdict = _measure(folder, data, drawn, narrate)
    project, morpheus = _write_for_hosts(folder, models.closure, starts[0], seed, narrate)
    report = folder / "report.html"
    title = "Elongated cells: what contact and volume cannot express"
    with narrate("report") as step:
        if plan.trains:
            write_fit_report(folder / FIT, report, title=title)
        else:
            write_report([folder], report, title=title, summary=verdict)
        step.tell(f"{report}: open it in any browser")
    return Outcome(verdict, project, morpheus, report)


def _claim(folder: Path, plan: Plan, seed: int) -> None:
    """A folder of its own: an earlier run of the same demo is continued, nothing else is written over."""
    identity = {
        "program": f"neuralcpm-bridge {__version__}",
        "seed": seed,
        "plan": asdict(plan),
    }
    marker = folder / "demo.json"
    if folder.is_file():
        raise UserError(f"{folder} is a file, but the demo writes a folder: choose another name with -o.")
    if folder.is_dir() and any(folder.iterdir()):
        try:
            found = json.loads(marker.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            found = None
        if found != identity:
            raise UserError(f"{folder} holds something else than this demo: choose a new folder with -o.")
    with writing(marker) as temporary:
        temporary.write_text(json.dumps(identity, indent=1) + "\n", encoding="utf-8")


def _make_data(folder: Path, plan: Plan, seed: int, threads: int, narrate: Narrator) -> Snapshots:
    from training.datasets import RECIPES, generate

    recipe, path = RECIPES[RECIPE], folder / "data.npz"
    with narrate("data") as step:
        generate(recipe, samples=plan.samples, seed=seed, threads=threads, progress=step.progress).save(path)
        data = load_snapshots(path)
        step.tell(
            f"{len(data)} snapshots of {recipe.cells} cells; those of type B are kept long by a length constraint, "
            "which contact and volume energies cannot express"
        )
    return data


# -- models ----------------------------------------------------------------------------------------------------------


def _take_bundled(folder: Path, narrate: Narrator) -> Models:
    with narrate("models") as step:
        for name, reference in (("closure", CLOSURE), ("baseline", BASELINE)):
            with writing(folder / name / "model.onnx") as temporary:
                shutil.copyfile(resolve_model(reference), temporary)
        models = Models(*(load_artifact(folder / name / "model.onnx") for name in Models._fields))
        step.tell(
            f"nothing is trained: the closure is the bundled {CLOSURE}, the baseline the bundled {BASELINE} "
            "(neuralcpm demo without --quick fits them)"
        )
    return models


def _fit(folder: Path, data: Snapshots, plan: Plan, seed: int, threads: int, narrate: Narrator) -> Models:
    """What `neuralcpm fit data.npz` does, within the demo's time."""
    from training.fit import Narrator as FitNarrator
    from training.fit import Wanted, fit

    with narrate(FIT) as step:

        def show(what: str, done: float, total: float) -> None:
            step.progress(int(done), int(total))

        wanted = Wanted(plan.minutes, plan.members, seed, threads)
        found = fit(data, folder / FIT, wanted, FitNarrator(show=show)).found
        for name, file in (("closure", "model.onnx"), ("baseline", "baseline.onnx")):
            with writing(folder / name / "model.onnx") as temporary:
                shutil.copyfile(folder / FIT / file, temporary)
        step.tell(f"from nothing: {found['verdict']}")
    return Models(*(load_artifact(folder / name / "model.onnx") for name in Models._fields))


def _verify(models: Models, data: Snapshots, seed: int, narrate: Narrator) -> None:
    """Against float64 torch where it is installed; a loaded model has reproduced the examples in its file already."""
    with narrate("verify") as step:
        if find_spec("torch") is None or find_spec("onnxruntime") is None:
            step.tell("the engine reproduces the energies stored in both model files (with torch: all back ends)")
            return
        from training.verify import verify_backends

        worst = 0.0
        for number, artifact in enumerate(models):
            found = verify_backends(artifact, [data[k] for k in range(4)], VERIFIED_FLIPS, seed)
            if not found["ok"]:
                raise UserError(f"The back ends disagree about {artifact.path}: run neuralcpm verify on it.")
            worst = max(worst, *(errors["max_abs_error"] for errors in found["backends"].values()))
            step.progress(number + 1, len(models))
        step.tell(
            f"engine and ONNX Runtime agree with float64 torch on {VERIFIED_FLIPS} flips of each model "
            f"(largest difference {worst:.1g})"
        )


# -- simulation and measures -----------------------------------------------------------------------------------------


def _simulate(
    folder: Path,
    name: str,
    artifact: Artifact,
    starts: list[CellState],
    plan: Plan,
    seed: int,
    threads: int,
    narrate: Narrator,
) -> Snapshots:
    """The states at the end of all replicates."""
    meta = artifact.metadata
    dynamics = Dynamics(meta.temperature, seed, forbid_extinction=meta.extinction)
    provenance: dict[str, Any] = {"sampled from": name, "weights_hash": meta.weights_hash, "mcs": plan.mcs}
    provenance |= {"seed": seed, "start": "single pixels"}
    with narrate(f"simulate {name}") as step:
        chains = open_chains(artifact, starts, dynamics, threads)
        recording = Recording(meta.types)
        for done in recording.follow(chains, plan.mcs, SNAPSHOTS, FRAMES):
            step.progress(done, plan.mcs)
        written = recording.save(folder / "simulations" / name, provenance)
        samples = Snapshots.from_states(recording.states[-1], type_names=meta.types, provenance=provenance)
        samples.save(folder / name / "samples.npz")
        step.tell(f"{len(starts)} runs of {plan.mcs} MCS from scattered single pixels, {written[-1]} shows one")
    return samples


def _measure(folder: Path, data: Snapshots, drawn: dict[str, Snapshots], narrate: Narrator) -> str:
    """A sentence about each model's share of the data's aspect-ratio gap: what was found, whatever it is."""
    title = aspect_gap_title(data.type_names)
    with narrate("measure") as step:
        wanted = comparable_measures(data, data)
        found = {name: comparable_measures(samples, data) for name, samples in drawn.items()}
        table = {
            name: {row: value._asdict() for row, value in rows.items()}
            for name, rows in {"data": wanted, **found}.items()
        }
        with writing(folder / "measures.json") as temporary:
            temporary.write_text(json.dumps(table, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        shares = {name: share_of(rows[title], wanted[title]) for name, rows in found.items()}
        nearest = dict(zip(found, nearest_to_data(list(found.values()), wanted, title), strict=True))
        verdict = verdict_of(wanted[title], shares, nearest)
        step.tell(verdict)
    return verdict


def share_of(part: Measured, whole: Measured) -> Measured:
    share = part.mean / whole.mean
    return Measured(share, float(np.hypot(part.error, share * whole.error)) / abs(whole.mean))


def verdict_of(gap: Measured, shares: dict[str, Measured], nearest: dict[str, bool]) -> str:
    """Who is nearer to the data in how much longer B is than A."""
    told = ", ".join(f"the {name} reaches {_percent(share)}" for name, share in shares.items())
    if not any(nearest.values()):
        end = "they are too near to each other to tell which is closer to the data"
    else:
        end = f"the {next(name for name, near in nearest.items() if near)} is closer to the data"
        end += "" if nearest["closure"] else ", so in this run the network did not help"
    return f"In the data B is longer than A by {gap.mean:.2f} in aspect ratio. Of that {told}: {end}."


def _percent(share: Measured) -> str:
    return f"{100 * share.mean:.0f} ± {100 * share.error:.0f} %".replace(" ", "\N{NO-BREAK SPACE}")


# -- hosts -----------------------------------------------------------------------------------------------------------


def _write_for_hosts(
    folder: Path, closure: Artifact, start: CellState, seed: int, narrate: Narrator
) -> tuple[Path, Path]:
    from cc3d_steppables.new import write_project
    from morpheus_xml.new import RunPlan, new_model
    from neuralcpm_bridge.library import engine_library_if_installed

    solid = load_artifact(SOLID)
    tissues = {
        "ElongatedCells": (closure, start),
        "ElongatedCells3D": (solid, initial_state(solid, "scatter", seed=seed)),
    }
    with narrate("CompuCell3D") as step:
        # CompuCell3D takes seeds from 1 on
        projects = [
            write_project(model, state, folder / name, steps=HOST_STEPS, seed=seed + 1)
            for name, (model, state) in tissues.items()
        ]
        step.tell(f"projects {' and '.join(map(str, projects))}, the second in 3D by {SOLID}")
    with narrate("Morpheus") as step:
        files = [folder / f"{name}.xml" for name in tissues]
        for file, (model, state) in zip(files, tissues.values(), strict=True):
            new_model(model, state, RunPlan(steps=HOST_STEPS, seed=seed), engine_library_if_installed()).write(file)
        step.tell(f"models {' and '.join(map(str, files))} (for a Morpheus with the plugin: docs/morpheus.md)")
    return projects[0], files[0]
