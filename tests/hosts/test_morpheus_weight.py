"""A learned term of weight 0 in the real Morpheus changes not one pixel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from morpheus_xml.new import RunPlan, new_model
from morpheus_xml.reader import ELEMENT
from morpheus_xml.run import run_model
from neuralcpm_bridge.lattice import Lattice

from .morpheus_host import blocks, graph_model, plugin_binary
from .test_morpheus_properties import with_properties


@pytest.mark.parametrize(
    ("geometry", "shape", "side"), [("square", (48, 48), 7), ("hexagonal", (48, 48), 7), ("cubic", (18, 18, 18), 5)]
)
def test_weight_0_leaves_the_trajectory(geometry: str, shape: tuple[int, ...], side: int, tmp_path: Path) -> None:
    binary = plugin_binary()
    artifact = graph_model(tmp_path / "model.onnx", geometry, volume=float(side ** len(shape)))
    state = with_properties(blocks(Lattice.of(shape, geometry), side))
    found = []
    for weight in ("0", None):
        model = new_model(artifact, state, RunPlan(steps=40, snapshots=4, seed=3))
        for element in list(model.root.iter(ELEMENT)):
            above = element.getparent()
            assert above is not None
            if weight is None:
                above.remove(element)
            else:
                element.set("weight", weight)
        model.write(tmp_path / "model.xml")
        result = run_model(tmp_path / "model.xml", tmp_path / f"run-{weight}", binary=binary)
        assert result.snapshots is not None
        found.append(result.snapshots.ids)
    np.testing.assert_array_equal(*found)
    assert (found[0][0] != found[0][-1]).any()
