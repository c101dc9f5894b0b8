"""A bundled model from a finished experiment: `python benchmarks/make_pretrained.py FOLDER NAME --describe "…"`.

FOLDER is what `neuralcpm reproduce … -o FOLDER` wrote; `--run` names the run inside it. The model is exported with
what it was trained on, sampled in the embedded host, measured beside the data, and written with a thumbnail to
`neuralcpm_bridge/pretrained/NAME`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from neuralcpm_bridge import UserError
from neuralcpm_bridge.app.cli.machine import usable_cores
from neuralcpm_bridge.app.report.gather import sha256
from neuralcpm_bridge.app.report.measuring import Sampling, draw_samples
from neuralcpm_bridge.files import writing
from neuralcpm_bridge.metrics import summary
from neuralcpm_bridge.pictures import save_png, strip
from neuralcpm_bridge.pretrained import MODEL_FILE, SUMMARY_FILE, THUMBNAIL_FILE
from neuralcpm_bridge.snapshots import load_snapshots
from training.export import export
from training.trainer import load_run

PRETRAINED = Path(__file__).parent.parent / "neuralcpm_bridge" / "pretrained"
SHARED_MEASURES = ("p_volume", "p_unfragmented", "heterotypic_fraction", "aspect_ratio")
"""Measures stated of samples and of the data."""
RESULTS = ("norm_t1", "norm_tstar", "aspect_gap", "aspect_gap_share")
"""What an experiment's results.json adds where it holds it."""


def make_entry(folder: Path, run: str, target: Path, description: str, sampling: Sampling) -> dict[str, object]:
    """Write one bundled model; its summary."""
    hamiltonian, config, header = load_run(folder / run)
    data_file = folder / "data.npz"
    data = load_snapshots(data_file)
    artifact = export(
        hamiltonian,
        target / MODEL_FILE,
        name=target.name,
        temperature=config.sampler.temperature,
        training={
            "experiment": data.provenance.get("generator", folder.name),
            "snapshots": len(data),
            "data_sha256": sha256(data_file),
            "steps": header["step"],
            "seed": config.run.seed,
            "preset": config.model.preset,
            "objective": config.objective.kind,
        },
    )
    samples = draw_samples(artifact, data, sampling)
    found, wanted = summary(samples, data), summary(data, data)
    metrics = {key: _of_cells(found[key]) for key in SHARED_MEASURES}
    results_file = folder / "results.json"
    results = json.loads(results_file.read_text(encoding="utf-8")) if results_file.is_file() else {}
    results |= results.get(run, {})
    metrics |= {key: _of_cells(results[key]) for key in RESULTS if key in results}
    content = {
        "description": description,
        "sampling": {"mcs": sampling.mcs, "replicates": sampling.replicates, "start": "single pixels"},
        "metrics": metrics,
        "data": {key: _of_cells(wanted[key]) for key in SHARED_MEASURES},
    }
    with writing(target / SUMMARY_FILE) as temporary:
        temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    picture = strip([data[0], samples[0]], ["data", f"model, {sampling.mcs} MCS"], type_names=data.type_names, side=160)
    save_png(picture.quantize(64), target / THUMBNAIL_FILE)
    return content


def _of_cells(value: object) -> object:
    """Lists by type without the medium's entry, rounded: this is for people."""
    if isinstance(value, list):
        return [_of_cells(entry) for entry in value[1:]]
    return round(value, 4) if isinstance(value, float) else value


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("name")
    parser.add_argument("--run", default="run", help="the run inside the folder (default: run)")
    parser.add_argument("--describe", required=True, help="one sentence: what it is, what it was trained on")
    parser.add_argument("--mcs", type=int, default=1000)
    parser.add_argument("--replicates", type=int, default=16)
    given = parser.parse_args()
    sampling = Sampling(given.replicates, given.mcs, 0, usable_cores())
    try:
        content = make_entry(given.folder, given.run, PRETRAINED / given.name, given.describe, sampling)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(content, indent=1, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
