"""What is installed, which hosts are found, and what to do about what is missing."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
from pathlib import Path
from shlex import quote
from typing import NamedTuple


class Finding(NamedTuple):
    what: str
    found: str
    advice: str = ""


def doctor() -> None:
    """What is installed, which hosts and providers are found, what to do about what is missing."""
    from rich.console import Console
    from rich.table import Column, Table

    # paths are for copying: they wrap, never end in an ellipsis
    columns = ("", Column("found", overflow="fold"), Column("what to do", overflow="fold"))
    table = Table(*columns, title="neuralcpm doctor", title_justify="left")
    for finding in [*package_findings(), *engine_findings(), *runtime_findings(), *host_findings()]:
        table.add_row(finding.what, finding.found, finding.advice)
    Console(markup=False).print(table)


def package_findings() -> list[Finding]:
    from importlib.metadata import version as installed_version

    from neuralcpm_bridge import __version__

    machine = f"Python {platform.python_version()}, {platform.platform()}"
    findings = [Finding("neuralcpm-bridge", f"{__version__} on {machine}")]
    for package, advice in {
        "numpy": "pip install numpy",
        "lxml": "pip install lxml",
        "torch": "only for training and verify: pip install 'neuralcpm-bridge[train]'",
        "onnx": "only for training and export: pip install 'neuralcpm-bridge[train]'",
    }.items():
        present = importlib.util.find_spec(package) is not None
        version = installed_version(package) if present else "missing"
        findings.append(Finding(package, version, "" if present else advice))
    return findings


def engine_findings() -> list[Finding]:
    from neuralcpm_bridge.library import engine_header, engine_isa, engine_library

    return [
        Finding("engine", f"instruction set {engine_isa()}"),
        Finding("engine library", str(engine_library())),
        Finding("C header", str(engine_header())),
    ]


def runtime_findings() -> list[Finding]:
    from neuralcpm_bridge.backends.onnxruntime import runtime
    from neuralcpm_bridge.errors import UserError

    try:
        module = runtime()
    except UserError:
        return [Finding("onnxruntime", "missing", "only for CNN models: pip install 'neuralcpm-bridge[cpu]' or [gpu]")]
    providers = ", ".join(p.removesuffix("ExecutionProvider") for p in module.get_available_providers())
    return [Finding("onnxruntime", f"{module.__version__}, providers {providers}")]


def host_findings() -> list[Finding]:
    return [*cc3d_findings(), morpheus_finding()]


def cc3d_findings() -> list[Finding]:
    from cc3d_steppables.installations import INTERPRETER, inspected, interpreters
    from neuralcpm_bridge.errors import UserError

    findings = []
    for interpreter in interpreters():
        try:
            found = inspected(interpreter)
        except UserError as error:
            findings.append(Finding("CompuCell3D", str(error), f"set {INTERPRETER} to the Python that imports cc3d"))
            continue
        advice = "" if found.ready else f"neuralcpm cc3d setup --python {quote(str(interpreter))}"
        findings.append(Finding("CompuCell3D", found.sentence(), advice if found.cc3d else f"mend {INTERPRETER}"))
    missing = f"install CompuCell3D and set {INTERPRETER} to the Python that imports cc3d"
    return findings or [Finding("CompuCell3D", "not found", missing)]


def morpheus_finding() -> Finding:
    binary = os.environ.get("NEURALCPM_MORPHEUS") or shutil.which("morpheus")
    if binary is None or not Path(binary).is_file():
        return Finding("Morpheus", "not found", "install Morpheus and set NEURALCPM_MORPHEUS to its binary")
    said = _ask([binary, "--version"]).splitlines()
    version = next((line for line in said if "ersion" in line or "Morpheus" in line), "")
    return Finding("Morpheus", f"{version.strip() or 'found'} at {binary}")


def _ask(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
