"""CompuCell3D's installations on this machine: where they are, what they have of this package, and putting it there."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

from neuralcpm_bridge import __version__
from neuralcpm_bridge.errors import UserError

INTERPRETER = "NEURALCPM_CC3D_PYTHON"
DISTRIBUTION = "neuralcpm-bridge"
CONDAS = ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", "Miniconda3", "Anaconda3")

QUESTION = """
import importlib.metadata, json, platform, sys
answer = {"python": platform.python_version(), "cc3d": None, "bridge": None, "trouble": ""}
try:
    import cc3d
    answer["cc3d"] = str(cc3d.__version__)
    answer["bridge"] = importlib.metadata.version("neuralcpm-bridge")
    from cc3d_steppables import NeuralHamiltonianSteppable
except importlib.metadata.PackageNotFoundError:
    pass
except Exception as error:
    answer["trouble"] = f"{type(error).__name__}: {error}"
print("neuralcpm" + json.dumps(answer))
"""


@dataclass(frozen=True)
class Installation:
    """A Python and what it imports; versions are None where it does not."""

    interpreter: Path
    python: str
    cc3d: str | None
    bridge: str | None
    trouble: str = ""

    @property
    def ready(self) -> bool:
        """Whether projects with the learned term run there as they do here."""
        return self.cc3d is not None and self.bridge == __version__ and not self.trouble

    def sentence(self) -> str:
        if self.cc3d is None:
            return f"{self.interpreter} does not import cc3d ({self.trouble or 'it is not installed there'})."
        has = f"CompuCell3D {self.cc3d} (Python {self.python}) at {self.interpreter}"
        if self.bridge is None:
            return f"{has} is without {DISTRIBUTION}."
        if self.trouble:
            return f"{has} has {DISTRIBUTION} {self.bridge}, but the steppable does not import ({self.trouble})."
        older = "" if self.bridge == __version__ else f", here is {__version__}"
        return f"{has} has {DISTRIBUTION} {self.bridge}{older}; the steppable imports."


# -- where they are --------------------------------------------------------------------------------------------------


def interpreters() -> list[Path]:
    """Pythons that have a folder cc3d: the one that the environment names, this one, conda's, the installers'."""
    named = os.environ.get(INTERPRETER)
    found = [Path(named)] if named else []
    if importlib.util.find_spec("cc3d") is not None:
        found.append(Path(sys.executable))
    found += [interpreter for prefix in prefixes() if (interpreter := _interpreter_with_cc3d(prefix)) is not None]
    return list({os.path.normcase(os.path.abspath(path)): path for path in found}.values())


def prefixes() -> Iterator[Path]:
    """Folders that may be a Python environment: cheap to list, most of them are none."""
    home = Path.home()
    active = os.environ.get("CONDA_PREFIX")
    if active:
        yield Path(active)
    known = home / ".conda" / "environments.txt"  # conda's own list
    if known.is_file():
        yield from (Path(line.strip()) for line in known.read_text("utf-8", "replace").splitlines() if line.strip())
    shared = [Path("C:/"), Path("C:/ProgramData")] if sys.platform == "win32" else [Path("/opt"), Path("/usr/local")]
    for root in (root / name for root in (home, *shared) for name in (*CONDAS, "conda")):
        yield from (root, *_folders(root / "envs", "*"))
    for root in (folder for parent in _installer_parents(home) for folder in _folders(parent, "CompuCell3D*")):
        for inner in (root, *_folders(root, "*")):
            yield from (inner, *_folders(inner / "envs", "*"))


def _installer_parents(home: Path) -> list[Path]:
    if sys.platform == "win32":
        named = [os.environ.get(name) for name in ("LOCALAPPDATA", "ProgramFiles", "ProgramData")]
        return [Path("C:/"), home, *(Path(folder) for folder in named if folder)]
    if sys.platform == "darwin":
        return [Path("/Applications"), home / "Applications", home]
    return [home, Path("/opt"), Path("/usr/local")]


def _folders(parent: Path, pattern: str) -> list[Path]:
    try:
        return sorted(path for path in parent.glob(pattern) if path.is_dir())
    except OSError:  # not ours to read
        return []


def _interpreter_with_cc3d(prefix: Path) -> Path | None:
    packages = (prefix / "Lib" / "site-packages", *_folders(prefix / "lib", "python3*/site-packages"))
    if not any((folder / "cc3d").is_dir() for folder in packages):
        return None
    programs = (prefix / "python.exe", prefix / "Scripts" / "python.exe", prefix / "bin" / "python")
    return next((program for program in programs if program.is_file()), None)


# -- what they have --------------------------------------------------------------------------------------------------


def inspected(interpreter: Path) -> Installation:
    """What a Python says about itself."""
    if not interpreter.is_file():
        raise UserError(f"There is no file {interpreter}: give the path of CompuCell3D's Python.")
    done = _run(interpreter, "-c", QUESTION)
    answers = [line for line in done.stdout.splitlines() if line.startswith("neuralcpm{")]
    if not answers:
        said = done.stderr.strip().splitlines() or ["it said nothing"]
        raise UserError(f"{interpreter} does not run as a Python ({said[-1]}): give the path of CompuCell3D's Python.")
    return Installation(interpreter, **json.loads(answers[-1].removeprefix("neuralcpm")))


def installed(interpreter: Path) -> Installation:
    """Put this package's own version there, with that Python's pip and wheels only, and look again."""
    found = inspected(interpreter)
    if found.cc3d is None or found.ready:
        return found
    links = [word for folder in wheel_folders() for word in ("--find-links", str(folder))]
    wanted = f"{DISTRIBUTION}=={__version__}"
    again = ["--force-reinstall", "--no-deps"] if found.bridge == __version__ else []
    done = _run(interpreter, "-m", "pip", "install", "--only-binary", DISTRIBUTION, *links, *again, wanted)
    if done.returncode:
        reasons = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [done.stderr.strip()]
        raise UserError(
            f"pip of {interpreter} could not install {wanted} for Python {found.python} ({reasons[-1][-300:]}): "
            "mend that, or put a matching wheel into a folder and name it in PIP_FIND_LINKS."
        )
    return inspected(interpreter)


def wheel_folders() -> list[Path]:
    """Where this very package came from, if from a wheel on this machine or a source tree with a folder of wheels."""
    try:
        origin = distribution(DISTRIBUTION).read_text("direct_url.json")
    except PackageNotFoundError:
        return []
    url = urlparse(json.loads(origin)["url"]) if origin else None
    if url is None or url.scheme != "file":
        return []
    place = Path(url2pathname(url.path))
    return [folder for folder in ([place.parent] if place.suffix == ".whl" else [place / "dist"]) if folder.is_dir()]


def activation(interpreter: Path) -> dict[str, str]:
    """What a Python of conda's needs in the environment to find its libraries without `conda activate`: on Windows."""
    prefix = interpreter.parent
    if sys.platform != "win32" or not (prefix / "conda-meta").is_dir():
        return {}
    folders = [prefix, prefix / "Library" / "mingw-w64" / "bin", prefix / "Library" / "bin", prefix / "Scripts"]
    return {"PATH": os.pathsep.join([*map(str, folders), os.environ.get("PATH", "")])}


def _run(interpreter: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a Python as if it had been started by itself: nothing of this one, nor of this folder, leaks into it."""
    ours = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    environment |= activation(interpreter) | {"PYTHONIOENCODING": "utf-8", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    try:
        return subprocess.run(
            [os.path.abspath(interpreter), *words],
            cwd=interpreter.parent,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        raise UserError(f"{interpreter} does not start ({error.strerror}): give CompuCell3D's Python.") from None
