"""Models that misbehave, for tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from training.export.artifact import weights_hash
from training.export.graph import build_model

from ..cc3d.models import tissue_model


def undefined_model(path: Path) -> None:
    """A model file with an undefined weight and a right hash, as a faulty program might write it."""
    sound = tissue_model(path)
    weights = {name: values.copy() for name, values in sound.weights.items()}
    weights["neural.cell_head.out.weight"][0, 0] = np.nan
    metadata = sound.metadata.model_copy(update={"examples": [], "weights_hash": weights_hash(weights)})
    path.write_bytes(build_model(metadata, weights).SerializeToString())
