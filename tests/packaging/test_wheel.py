"""sdist and wheel: built, installed into an empty environment without compiler and torch, used."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODEL = "pretrained:cell-sorting"
Command = Callable[..., str]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.environ.get("NEURALCPM_PACKAGING") != "1",
        reason="builds and installs for minutes: set NEURALCPM_PACKAGING=1",
    ),
    pytest.mark.skipif(importlib.util.find_spec("build") is None, reason="needs pip install build"),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel that was made from it, as `python -m build` makes them.

    `NEURALCPM_DIST` names such a folder, to test files as they are about to be published.
    """
    if "NEURALCPM_DIST" in os.environ:
        return Path(os.environ["NEURALCPM_DIST"])
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Command:
    """Runs a program of an environment into which nothing but the wheel was installed; its standard output."""
    place = tmp_path_factory.mktemp("user")
    venv.create(place / "env", with_pip=True)
    programs = place / "env" / ("Scripts" if os.name == "nt" else "bin")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    settings = kept | {"PATH": str(programs), "CC": "no-compiler", "CXX": "no-compiler"}

    def call(program: str, *words: object) -> str:
        done = subprocess.run(
            [programs / program, *map(str, words)], cwd=place, env=settings, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    (wheel,) = built.glob("*.whl")
    call("python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:", wheel)
    return call


def test_contents(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        sources = {name.partition("/")[2] for name in archive.getnames()}
    assert {"neuralcpm_bridge/engine/CMakeLists.txt", "neuralcpm_bridge/engine/include/ncpm.h"} <= sources
    assert not [name for name in sources if name.endswith(".so") or name.startswith((".venv", "build/"))]
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert [name for name in names if name.startswith("neuralcpm_bridge/_engine.")]
    assert [name for name in names if name.startswith("neuralcpm_bridge/lib/") and "ncpm" in name]
    for name in (
        "neuralcpm_bridge/include/ncpm.h",
        "neuralcpm_bridge/app/report/style.css",
        "neuralcpm_bridge/pretrained/cell-sorting/model.onnx",
        "training/data/mnist_digits_2000.npz",
    ):
        assert name in names
    assert not [
        name for name in names if name.endswith((".cpp", ".hpp")) and not name.startswith("morpheus_xml/plugin/")
    ]


def test_there_is_no_torch(installed: Command) -> None:
    installed("python", "-c", "import importlib.util as u; assert u.find_spec('torch') is None")


def test_the_verbs_run(installed: Command) -> None:
    assert "cellsort" in installed("neuralcpm", "info", MODEL)
    assert json.loads(installed("neuralcpm", "models", "--json"))
    installed("neuralcpm", "simulate", MODEL, "--init", "blob", "--mcs", 3, "--replicates", 2, "-o", "run")
    energies = json.loads(installed("neuralcpm", "energy", MODEL, "run/snapshots.npz", "--json"))["energy"]
    assert len(energies) == 2 * 4
    installed("neuralcpm", "cc3d", "new", MODEL, "--state", "run/snapshots.npz", "-o", "project")
    installed("neuralcpm", "morpheus", "new", MODEL, "--state", "run/snapshots.npz", "-o", "model.xml")
    installed("neuralcpm", "report", MODEL, "--data", "run/snapshots.npz", "--mcs", 2, "-o", "report.html")
    installed("neuralcpm", "data", "info", "run/snapshots.npz")
    installed("neuralcpm", "data", "elongation", "--samples", 2, "--mcs", 5, "-o", "data.npz")
    installed("neuralcpm", "doctor")


def test_the_quick_demo_runs_without_torch(installed: Command) -> None:
    said = " ".join(installed("neuralcpm", "demo", "--quick", "-o", "demo").split())
    assert "nothing is trained: the closure is the bundled pretrained:elongated-cells" in said
    assert "the engine reproduces the energies stored in both model files" in said
    assert "the closure is closer to the data" in said
    project = "demo/ElongatedCells/ElongatedCells.cc3d"
    installed("python", "-c", f"from cc3d_steppables.inject import Project; Project.open('{project}').facts()")
    installed("neuralcpm", "morpheus", "check", "demo/ElongatedCells.xml")
    installed("python", "-c", "from pathlib import Path; assert Path('demo/report.html').stat().st_size > 50_000")
