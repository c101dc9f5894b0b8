"""The examples do what they say: images made again, and the way from them to a simulator, as printed."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from lxml import etree

from morpheus_xml.check import check_model
from morpheus_xml.reader import read_model
from neuralcpm_bridge.artifact import load_artifact
from neuralcpm_bridge.importers.images import read_planes
from neuralcpm_bridge.snapshots import load_snapshots

from .documents import ROOT, arguments, commands
from .importing.making import drawn, tifffile, tissue

EXAMPLES = ROOT / "examples"
RUN_ELSEWHERE = {"cc3d_plain_python.py": ROOT / "tests" / "hosts" / "test_cc3d_demos.py"}
"""Scripts that need a host, and the test that runs them in it."""


def test_every_script_is_run_by_a_test() -> None:
    tests = [*RUN_ELSEWHERE.values(), Path(__file__)]
    for script in EXAMPLES.rglob("*.py"):
        ast.parse(script.read_text(encoding="utf-8"))
        assert any(script.name in test.read_text(encoding="utf-8") for test in tests), script


def test_the_images_are_those_that_the_script_makes(tmp_path: Path) -> None:
    bundled = EXAMPLES / "microscopy"
    shutil.copy(bundled / "make_images.py", tmp_path)
    subprocess.run([sys.executable, tmp_path / "make_images.py"], check=True)
    images = sorted(path.name for path in bundled.iterdir() if path.suffix in (".png", ".tif"))
    assert images == sorted(path.name for path in tmp_path.iterdir() if path.suffix in (".png", ".tif"))
    assert len(images) == 12
    for name in images:
        assert (read_planes(bundled / name)[0] == read_planes(tmp_path / name)[0]).all()
    assert (bundled / "types.csv").read_text() == (tmp_path / "types.csv").read_text()


def public_images(folder: Path) -> None:
    """Small ones under the names of those that the guide speaks of, as their programs write them."""
    (folder / "in_vivo").mkdir()
    for number in range(5):
        walls = drawn(np.roll(tissue((160, 192), 40, seed=1, medium=True), number, axis=1))
        tifffile.imwrite(folder / "in_vivo" / f"t_{number}.tif", np.stack([walls] * 3, axis=-1), photometric="rgb")
    for name in ("test_image-projected-segmented.tif", "maize_clsm_labels.tif"):
        tifffile.imwrite(folder / name, tissue((80, 96), 16, seed=2, medium=False).astype(np.uint16))
    for number in range(2):
        stack = tissue((40, 40, 40), 10, seed=number, medium=True).astype(np.uint16)
        tifffile.imwrite(folder / f"rgb_3D_{number}_segm.tiff", stack, photometric="minisblack")


@pytest.mark.slow
def test_from_microscopy_to_a_simulator_as_printed(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    public_images(tmp_path)
    monkeypatch.chdir(tmp_path)
    for command in commands(ROOT / "docs" / "microscopy.md"):
        if command.startswith("neuralcpm fit"):
            continue  # takes minutes; tests/training/test_fit.py
        code, _, err = cli(*arguments(command)[0])
        assert code == 0, f"{command}: {err}"
    data, model = load_snapshots("organoids.npz"), load_artifact("organoids.onnx")
    assert len(data) == 12
    assert model.metadata.types == ("medium", "luminal", "basal")
    assert model.metadata.architecture == "local_closure"
    types = etree.parse("Organoids/Simulation/Organoids.xml").getroot().findall("Plugin[@Name='CellType']/CellType")
    assert [entry.get("TypeName") for entry in types] == ["Medium", "luminal", "basal"]
    assert check_model(read_model("organoids.xml")) == []
    assert len(load_snapshots("cluster.npz")) == 5
    assert load_snapshots("plant.npz").lattice.dimension == 3
    assert all(Path(file).is_file() for file in ("organoids.png", "held/strip.png", "organoids.html"))
