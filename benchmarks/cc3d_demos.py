"""A learned term in all of CompuCell3D's own demos: injected and run, refused with a sentence, or failed.

    python benchmarks/cc3d_demos.py [--only TEXT] [--seconds 60] [--steps 100] [--table FILE.csv]

Needs NEURALCPM_CC3D_PYTHON and NEURALCPM_CC3D_DEMOS, a folder with projects (`CompuCell3D/core/Demos` of its sources).
A cell graph goes into every project; 3D ones get one for cubic lattices, hexagonal ones one for hexagons. What fails is
run without the term as well: a project that does not run by itself is no demo, and its reason is written down. Large
ones end after a minute, which counts as run.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import tempfile
from collections import Counter
from pathlib import Path

from cc3d_steppables.inject import inject
from cc3d_steppables.project import Project
from cc3d_steppables.run import run_project
from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.errors import UserError

DEMOS = "NEURALCPM_CC3D_DEMOS"
ALLOWED = ("hexagonal in 3D", "several lattices", "no cells")
"""Words of the sentences that may refuse a demo."""
MODELS = ("square", "hexagonal", "cubic")


class Enough(Exception):
    """The minute is over: the host made steps."""


def models(folder: Path) -> dict[str, Artifact]:
    """An untrained cell graph with energies of a living tissue for each lattice."""
    from tests.cc3d.models import tissue_model

    return {
        geometry: tissue_model(folder / f"{geometry}.onnx", "graph1-closure", geometry=geometry) for geometry in MODELS
    }


def tried(project: Path, folder: Path, steps: int, seconds: float) -> str:
    """Run a project; an empty text, or what went wrong."""
    import time

    began, made = time.monotonic(), [0]

    def progress(done: int, total: int) -> None:
        made[0] = done
        if time.monotonic() - began > seconds and done > 0:
            raise Enough

    try:
        run_project(
            project, folder, steps=steps, snapshots=1, patience=10 * seconds, progress=progress, say=lambda _: None
        )
    except Enough:
        return ""
    except UserError as error:
        return str(error)
    return ""


def type_mapping(project: Path, model: Artifact) -> dict[str, str]:
    """Every type of a project as one of the model's, in turn; of a project that only a run can read, those it names."""
    facts = Project.open(project).facts()
    if facts is not None:
        names = facts.names[1:]
    else:
        texts = " ".join(path.read_text(errors="replace") for path in project.parent.rglob("*.py"))
        names = [name for name in re.findall(r"""["']TypeName["']\s*:\s*["'](\w+)["']""", texts) if name != "Medium"]
    known = model.metadata.types[1:]
    return {name: known[number % len(known)] for number, name in enumerate(dict.fromkeys(names))}


def survey(project: Path, by_lattice: dict[str, Artifact], folder: Path, steps: int, seconds: float) -> tuple[str, str]:
    """`run`, `refused`, `failed` or `no demo`, and the sentence."""
    geometry, said = "square", ""
    for number in range(2):
        try:
            facts = Project.open(project).facts()
            model = by_lattice[facts.lattice.geometry.name if facts is not None else geometry]
            place = folder / f"injected{number}" / project.parent.name
            injected, _ = inject(project, model, place, types=type_mapping(project, model))
        except UserError as error:
            said = str(error)
            break
        said = tried(injected, folder / f"ran{number}", steps, seconds)
        if not said:
            return "run", ""
        other = re.search(r"lattice is (\w+), but the model is for", said)  # what only a run could tell
        if other is None:
            break
        geometry = other.group(1)
    if any(word in said for word in ALLOWED):
        return "refused", said
    alone = tried(project, folder / "alone", steps, seconds)
    return ("no demo", alone) if alone else ("failed", said)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="projects whose path has this text")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--table", type=Path, default=Path("cc3d_demos.csv"))
    parser.add_argument("--part", default="0/1", help="k/n: every n-th project from the k-th on")
    options = parser.parse_args()
    root = Path(os.environ[DEMOS])
    number, parts = map(int, options.part.split("/"))
    projects = [path for path in sorted(root.rglob("*.cc3d")) if options.only in str(path)][number::parts]
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="neuralcpm-demos-") as name, options.table.open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["project", "outcome", "sentence"])
        by_lattice = models(Path(name))
        for place, project in enumerate(projects):
            with tempfile.TemporaryDirectory(dir=name) as folder:
                outcome, said = survey(project, by_lattice, Path(folder), options.steps, options.seconds)
            counts[outcome] += 1
            table.writerow([project.relative_to(root), outcome, said.replace(str(name), "")])
            stream.flush()
            print(f"{place + 1}/{len(projects)} {project.relative_to(root)}: {outcome} {said[:200]}", flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main()
