"""A bundled model from a fit: `python benchmarks/make_pretrained.py RUN DATA NAME --describe "…" [--model baseline]`.

RUN is what `neuralcpm fit DATA -o RUN` wrote. The model goes to `neuralcpm_bridge/pretrained/NAME` with what it was
trained on, the measures of the fresh samples that it was judged by beside those of the data, and a thumbnail.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from neuralcpm_bridge import UserError
from neuralcpm_bridge.app.report.gather import sha256
from neuralcpm_bridge.artifact import load_artifact
from neuralcpm_bridge.files import writing
from neuralcpm_bridge.metrics import summary
from neuralcpm_bridge.pictures import save_png, strip
from neuralcpm_bridge.pretrained import MODEL_FILE, SUMMARY_FILE, THUMBNAIL_FILE
from neuralcpm_bridge.snapshots import load_snapshots
from training.export import write_artifact

PRETRAINED = Path(__file__).parent.parent / "neuralcpm_bridge" / "pretrained"
SAMPLES = {"model": "samples.npz", "baseline": "samples-baseline.npz"}
MEASURES = ("p_volume", "p_unfragmented", "heterotypic_fraction", "aspect_ratio")


def make_entry(run: Path, data_file: Path, model: str, target: Path, description: str) -> dict[str, object]:
    """Write one bundled model; its summary."""
    data, samples = load_snapshots(data_file), load_snapshots(run / SAMPLES[model])
    found = json.loads((run / "fit.json").read_text(encoding="utf-8"))
    artifact = load_artifact(run / f"{model}.onnx")
    training = artifact.metadata.training | {
        "data": data.provenance.get("generator", data_file.stem),
        "data_sha256": sha256(data_file),
        "states": found["states"]["train"],
        "seed": found["seed"],
    }
    named = artifact.metadata.model_copy(update={"name": target.name, "training": training})
    write_artifact(named, dict(artifact.weights), target / MODEL_FILE)
    of_samples, of_data = summary(samples, data), summary(data, data)
    content = {
        "description": description,
        "sampling": {"mcs": found["sample_mcs"], "replicates": len(samples), "start": "single pixels"},
        "metrics": {key: _of_cells(of_samples[key]) for key in MEASURES},
        "data": {key: _of_cells(of_data[key]) for key in MEASURES},
    }
    with writing(target / SUMMARY_FILE) as temporary:
        temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    labels = ["data", f"model, {found['sample_mcs']} MCS"]
    picture = strip([data[0], samples[0]], labels, type_names=data.type_names, side=160)
    save_png(picture.quantize(64), target / THUMBNAIL_FILE)
    return content


def _of_cells(value: object) -> object:
    """Lists by type without the medium's entry, rounded: this is for people."""
    if isinstance(value, list):
        return [_of_cells(entry) for entry in value[1:]]
    return round(value, 4) if isinstance(value, float) else value


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("name")
    parser.add_argument("--model", choices=SAMPLES, default="model", help="which of the fit's two (default: model)")
    parser.add_argument("--describe", required=True, help="one sentence: what it is, what it was trained on")
    given = parser.parse_args()
    try:
        content = make_entry(given.run, given.data, given.model, PRETRAINED / given.name, given.describe)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(content, indent=1, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
