"""Which files are broken how, and which verbs read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import mutations
from .mutations import Mutation
from .seeds import MODEL

Words = tuple[str, ...]
"""Of a command; {file} is the broken file, {folder} its folder, {with} what lies beside, {out} a place to write."""


@dataclass(frozen=True)
class Target:
    """One kind of file: those of its folder that match, how they are broken, and who reads them."""

    name: str
    files: str
    mutate: Mutation
    verbs: tuple[Words | Callable[[Path], object], ...]
    """One of them is taken for each input; a function stands for a reader whose verb would go on for hours."""
    share: int = 1


def _import(*options: str) -> Words:
    return ("data", "import", "{file}", *options, "-o", "{out}/data.npz")


def _config(path: Path) -> object:
    from training.config import load_config

    return load_config(path)


def _properties(path: Path) -> object:
    from cc3d_steppables.properties import read_properties

    return read_properties(path)


STATES = "{with}/states.npz"
MAPPED = ("--types", "Condensing=A", "--types", "Other=B", "--types", "Wall=medium")
INJECT = ("cc3d", "inject", "{folder}/Sort.cc3d", MODEL, *MAPPED, "-o", "{out}/project")

TARGETS = (
    Target(
        "data",
        "*.npz",
        mutations.of_zip,
        (
            ("data", "info", "{file}", "--json"),
            ("data", "info", "{file}"),
            ("energy", MODEL, "{file}", "--json"),
            ("simulate", MODEL, "--state", "{file}", "--mcs", "1", "--frames", "0", "--snapshots", "1", "-o", "{out}"),
        ),
        share=10,
    ),
    Target(
        "model",
        "*.onnx",
        mutations.of_onnx,
        (
            ("info", "{file}", "--json"),
            ("info", "{file}"),
            ("energy", "{file}", STATES, "--json"),
            ("cc3d", "new", "{file}", "--state", STATES, "-o", "{out}/project"),
            ("morpheus", "new", "{file}", "--state", STATES, "-o", "{out}/model.xml"),
            ("simulate", "{file}", "--init", "blob", "--mcs", "0", "--frames", "0", "--snapshots", "1", "-o", "{out}"),
        ),
        share=10,
    ),
    Target(
        "png",
        "*.png",
        mutations.of_png,
        (_import(), _import("--border", "drop"), _import("--type-channel"), _import("--scale", "auto")),
        share=8,
    ),
    Target(
        "tiff",
        "*.tif",
        mutations.of_tiff,
        (_import(), _import("--stack", "volume"), _import("--stack", "frames"), _import("--type-channel")),
        share=10,
    ),
    Target(
        "types",
        "*.csv",
        mutations.of_text,
        (("data", "import", "{folder}", "--types", "{file}", "-o", "{out}/d.npz"),),
        share=4,
    ),
    Target("vtk", "*", mutations.of_text, (("data", "import", "{folder}/Step_000.vtk", "-o", "{out}/d.npz"),), 4),
    Target("pif", "*", mutations.of_text, (("data", "import", "{folder}/init.piff", "-o", "{out}/d.npz"),), 4),
    Target("checkpoint", "*.gz", mutations.of_gzip, (_import(),), share=3),
    Target(
        "plotted",
        "*.tif",
        mutations.of_tiff,
        (_import(), _import("--stack", "frames"), _import("--stack", "volume")),
        share=3,
    ),
    Target(
        "plotted",
        "*.xml",
        mutations.of_text,
        (("data", "import", "{folder}/cell.id_cell.type.tif", "-o", "{out}/d.npz"),),
        share=3,
    ),
    Target("cc3d", "*.cc3d", mutations.of_text, (INJECT,)),
    Target("cc3d", "Simulation/*.xml", mutations.of_text, (INJECT,), share=8),
    Target("cc3d", "Simulation/*.py", mutations.of_text, (INJECT,)),
    Target(
        "morpheus",
        "*.xml",
        mutations.of_text,
        (
            ("morpheus", "check", "{file}"),
            ("morpheus", "inject", "{file}", MODEL, "--types", "A=A", "--types", "B=B", "-o", "{out}/model.xml"),
            _import(),
        ),
        share=8,
    ),
    Target("toml", "*.toml", mutations.of_text, (_config,), share=4),
    Target("properties", "*.csv", mutations.of_text, (_properties,), share=2),
    Target(
        "run",
        "*.safetensors",
        mutations.of_safetensors,
        (("export", "{folder}", "-o", "{out}/model.onnx"), ("report", "{folder}", "--mcs", "0", "-o", "{out}/r.html")),
    ),
    Target("run", "*.csv", mutations.of_text, (("report", "{folder}", "--mcs", "0", "-o", "{out}/r.html"),)),
    Target("run", "*.json", mutations.of_json, (("report", "{folder}", "--mcs", "0", "-o", "{out}/r.html"),)),
    Target(
        "reference",
        "*.eqx",
        mutations.of_binary,
        (("import-reference", "{file}", "--experiment", "exp1", "--model", "nch", "-o", "{out}/model.onnx"),),
    ),
)
