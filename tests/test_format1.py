"""Model files of format 1, one of every architecture, give the numbers that they gave when they were written."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neuralcpm_bridge.artifact import Artifact, load_artifact
from neuralcpm_bridge.backends.engine import EngineBackend
from neuralcpm_bridge.delta import open_backend
from neuralcpm_bridge.upgrade import upgraded

FOLDER = Path(__file__).parent / "data" / "format1"
NUMBERS: dict[str, Any] = json.loads((FOLDER / "numbers.json").read_text())
SERVED = [name for name, numbers in NUMBERS.items() if "chains" in numbers]
SWEEPS: dict[str, dict[str, Any]] = {
    "plain": {},
    "boundary": {"boundary_only": True},
    "von_neumann": {"copy_order": 1},
    "von_neumann_boundary": {"copy_order": 1, "boundary_only": True},
    "balanced": {"balanced": True, "boundary_only": True},
    "trades": {"trades": 5},
    "staged": {"staged": True},
}


def kept(name: str) -> Artifact:
    return load_artifact(FOLDER / f"{name}.onnx")


@pytest.mark.parametrize("backend", ["engine", "onnxruntime"])
@pytest.mark.parametrize("name", NUMBERS)
def test_energies_and_flips(name: str, backend: str) -> None:
    artifact = kept(name)
    assert artifact.engine_serves == (name in SERVED)
    if backend == "engine" and name not in SERVED:
        pytest.skip("an architecture of ONNX Runtime's")
    # Networks are float32, and their last bits depend on the instruction set; analytic terms are exact.
    symbolic, neural = {"rtol": 1e-12, "atol": 1e-10}, {"rtol": 1e-5, "atol": 1e-4}
    for state, numbers in zip(artifact.metadata.example_states(), NUMBERS[name]["examples"], strict=True):
        served = open_backend(artifact, state, prefer=backend)
        np.testing.assert_allclose(served.energy().symbolic, numbers["symbolic"], **symbolic)
        np.testing.assert_allclose(served.energy().neural, numbers["neural"], **neural)
        rows, cols, new_ids, *expected = zip(*numbers["flips"], strict=True)
        sites = [state.lattice.site(row, col) for row, col in zip(rows, cols, strict=True)]
        found = served.deltas(sites, new_ids)
        np.testing.assert_allclose(found[:, 0], expected[0], rtol=1e-12, atol=1e-10 if backend == "engine" else 1e-8)
        np.testing.assert_allclose(found[:, 1], expected[1], **neural)


@pytest.mark.parametrize("sweep", SWEEPS)
@pytest.mark.parametrize("name", SERVED)
def test_chains_pixel_by_pixel(name: str, sweep: str) -> None:
    """On every instruction set: float32 rounding turned no decision of these chains."""
    artifact, numbers = kept(name), NUMBERS[name]["chains"][sweep]
    engine = EngineBackend(artifact, artifact.metadata.example_states()[0], forbid_extinction=True).engine
    counts = engine.sweep(numbers["mcs"], 3.0, 5, **SWEEPS[sweep])
    assert counts == numbers["counts"]
    assert hashlib.sha256(engine.ids.astype("<i4").tobytes()).hexdigest() == numbers["ids"]


@pytest.mark.parametrize("name", NUMBERS)
def test_the_metadata_say_the_same_in_the_words_of_format_2(name: str) -> None:
    artifact = kept(name)
    meta, old = artifact.metadata, json.loads(artifact.model.metadata)
    assert (old["format"], meta.format) == (1, 2)
    assert (meta.lattice.geometry, meta.boundary) == ("square", (old["boundary"],) * 2)
    assert meta.lattice.shape == (None if old["lattice"] is None else tuple(old["lattice"]))
    assert meta.orders == {
        term: 2 for term in ("contact", "surface") if term in (old["symbolic"] or {"terms": ()})["terms"]
    }
    for example, before in zip(meta.examples, old["examples"], strict=True):
        width = before["shape"][1]
        assert [(*divmod(site, width), *rest) for site, *rest in example.flips] == [tuple(f) for f in before["flips"]]
    again = meta.model_dump(mode="json")
    assert upgraded(again) == again
