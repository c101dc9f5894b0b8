"""A checkpoint of the real Morpheus, with a learned term in it, goes on where the first run ended."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from morpheus_xml.new import RunPlan, new_model
from morpheus_xml.reader import read_model
from morpheus_xml.run import run_model
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.snapshots import load_snapshots

from .morpheus_host import blocks, graph_model, plugin_binary
from .test_morpheus_plugin import comparisons, set_everywhere
from .test_morpheus_properties import with_properties


@pytest.mark.parametrize(
    ("geometry", "boundary", "shape", "side"),
    [
        ("square", "periodic", (48, 48), 7),
        ("square", "free", (48, 48), 7),
        ("hexagonal", ("periodic", "free"), (48, 48), 7),
        ("cubic", "periodic", (18, 18, 18), 5),
    ],
)
def test_restart(geometry: str, boundary: str, shape: tuple[int, ...], side: int, tmp_path: Path) -> None:
    binary = plugin_binary()
    artifact = graph_model(tmp_path / "model.onnx", geometry, boundary, volume=float(side ** len(shape)))
    state = with_properties(blocks(Lattice.of(shape, geometry).with_boundary(boundary), side))
    model = new_model(artifact, state, RunPlan(steps=40, snapshots=2, seed=3))
    set_everywhere(model, check="5")
    text = model.tobytes().decode().replace(str(artifact.path), "model.onnx")
    stop = '<StopTime value="40"/>'
    assert text.count(stop) == 1
    (tmp_path / "model.xml").write_text(text.replace(stop, f'{stop}<SaveInterval value="0"/>'), encoding="utf-8")
    first = run_model(tmp_path / "model.xml", tmp_path / "first", binary=binary)
    assert first.snapshots is not None
    (checkpoint,) = (tmp_path / "first").glob("*.xml.gz")
    again = run_model(checkpoint, tmp_path / "again", binary=binary, symbols={"Time/StopTime/@value": "70"})
    assert again.snapshots is not None
    assert again.snapshots.arrays["mcs"].tolist() == [40, 60, 70]
    np.testing.assert_array_equal(again.snapshots[0].ids, first.snapshots[-1].ids)
    np.testing.assert_array_equal(again.snapshots[0].types, first.snapshots[-1].types)
    assert (again.snapshots[-1].ids != first.snapshots[-1].ids).any()
    count, largest = comparisons(again.log)
    assert count >= 5
    assert largest <= 1e-6
    assert load_snapshots(tmp_path / "again" / "snapshots.npz").lattice == state.lattice
    with gzip.open(checkpoint) as stream:  # Morpheus numbers lines as it wrote them
        assert read_model(checkpoint).document.content.count(b"\n") == stream.read().count(b"\n")
