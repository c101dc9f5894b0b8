"""The models that every platform computes: each architecture, each lattice, small enough for an emulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.engine.models import GRAPH, artifact_bytes, graph_weights, metadata, network_weights, symbolic_weights

LOCAL8 = {"kind": "local_nh", "stride": 3, "widths": [8], "pools": [1], "padding": "zeros", "project": 8, "mlp": []}
LOCAL16 = LOCAL8 | {"widths": [16], "padding": "circular", "project": 16}
PAPER = LOCAL8 | {"kind": "nh", "widths": [8, 16, 32, 32], "pools": [3, 2, 1, 1], "project": 32, "mlp": [32, 32]}
GRAPH2 = GRAPH | {"rounds": 2, "properties": []}

ANALYTIC = ("contact", "volume", "surface", "length", "volume_function")

MODELS: dict[str, tuple[int, int, dict[str, Any]]] = {
    "local8": (1000, 1, {"neural": LOCAL8}),
    "local16": (300, 1, {"neural": LOCAL16}),
    "paper": (60, 0, {"neural": PAPER}),
    "graph": (3000, 2, {"neural": GRAPH2}),
    "graph_hexagonal": (2000, 2, {"neural": GRAPH2, "geometry": "hexagonal"}),
    "graph_cubic": (1500, 2, {"neural": GRAPH2, "geometry": "cubic"}),
    "square": (2000, 2, {}),
    "hexagonal": (2000, 2, {"geometry": "hexagonal"}),
    "cubic": (2000, 2, {"geometry": "cubic"}),
}
"""Flips to compute, Monte Carlo steps to make afterwards, and the model's description; all have contacts and volumes,
without a network more."""


def write(folder: Path) -> None:
    """All models as `NAME.onnx`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (_, _, description) in MODELS.items():
        rng = np.random.default_rng(len(name))
        neural = description.get("neural")
        weights = symbolic_weights(rng, ("contact", "volume") if neural else ANALYTIC)
        if neural:
            weights |= (graph_weights if neural["kind"] == "cell_graph" else network_weights)(rng, neural)
        (folder / f"{name}.onnx").write_bytes(artifact_bytes(weights, metadata(weights, **description)))
