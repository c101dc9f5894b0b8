"""What would keep the package off another system: POSIX-only calls, text in the console's own encoding, odd folders."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .cc3d.projects import own_cc3d_project

ROOT = Path(__file__).parents[1]
PACKAGES = ("neuralcpm_bridge", "training", "cc3d_steppables", "morpheus_xml")

POSIX_MODULES = {"crypt", "fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
POSIX_CALLS = {
    *("os.fork", "os.forkpty", "os.getuid", "os.geteuid", "os.getgid", "os.getloadavg", "os.getpgid", "os.killpg"),
    *("os.mkfifo", "os.nice", "os.setsid", "os.sysconf", "os.uname", "os.wait", "os.sched_getaffinity"),
    *("signal.SIGKILL", "signal.SIGHUP", "signal.SIGUSR1", "signal.SIGUSR2", "signal.alarm", "signal.pause"),
    *("time.clock_gettime", "time.tzset", "os.O_NONBLOCK", "os.chown", "os.mknod", "os.symlink"),
    "os.rename",  # on Windows it does not replace a file, os.replace does
}
POSIX_METHODS = {"symlink_to", "hardlink_to"}
POSIX_OPTIONS = {"preexec_fn", "pass_fds", "start_new_session"}
TEXT_FILES = {"open", "fdopen", "NamedTemporaryFile", "TemporaryFile"}
PROCESSES = {"run", "Popen", "check_output", "check_call", "call"}


def unportable(source: str) -> list[str]:
    """`line: what` of everything in a Python text that another system does not have or reads differently."""
    tree = ast.parse(source)
    asked = {name for node in ast.walk(tree) for name in guarded(node)}
    found = sorted((line, what) for node in ast.walk(tree) for line, what in complaints(node) if what not in asked)
    return [f"{line}: {what}" for line, what in found]


def guarded(node: ast.AST) -> Iterator[str]:
    """What a module asks for before it calls it: `hasattr(os, "sched_getaffinity")`."""
    match node:
        case ast.Call(func=ast.Name("hasattr"), args=[ast.Name(module), ast.Constant(str(name))]):
            yield f"{module}.{name}"


def complaints(node: ast.AST) -> Iterator[tuple[int, str]]:
    match node:
        case ast.Import(names=names):
            yield from ((node.lineno, alias.name) for alias in names if alias.name in POSIX_MODULES)
        case ast.ImportFrom(module=module, names=names):
            full = [f"{module}.{alias.name}" for alias in names]
            yield from ((node.lineno, name) for name in full if name in POSIX_CALLS or module in POSIX_MODULES)
        case ast.Attribute(value=ast.Name(module), attr=name) if f"{module}.{name}" in POSIX_CALLS:
            yield node.lineno, f"{module}.{name}"
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(name)):
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            if name in POSIX_METHODS or (name in {"get_context", "set_start_method"} and is_fork(node)):
                yield node.lineno, name
            yield from ((node.lineno, option) for option in sorted(POSIX_OPTIONS & given.keys()))
            if is_text(name, node, given) and "encoding" not in given:
                yield node.lineno, f"{name} without an encoding"


def is_fork(call: ast.Call) -> bool:
    """Whether processes are asked to start as copies of this one, which Windows cannot do and macOS should not."""
    return any(isinstance(word, ast.Constant) and word.value in {"fork", "forkserver"} for word in call.args)


def is_text(name: str, call: ast.Call, given: dict[str | None, ast.expr]) -> bool:
    """Whether a call reads or writes text, in the system's encoding unless it says which."""
    if name in PROCESSES:
        return isinstance(value := given.get("text"), ast.Constant) and value.value is True
    if name == "read_text":
        return not call.args
    if name == "write_text":
        return len(call.args) == 1
    if name not in TEXT_FILES or (isinstance(call.func, ast.Attribute) and is_other_open(call.func)):
        return False
    # `open(file, mode)`, `path.open(mode)`, `TemporaryFile(mode)`: the mode is the only literal that looks like one
    words = [a.value for a in [*call.args, *given.values()] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    modes = [word for word in words if word and set(word) <= set("rwaxbt+")]
    return not any("b" in mode for mode in modes) if modes or name in {"open", "fdopen"} else False


def is_other_open(function: ast.Attribute) -> bool:
    """`Image.open`, `Project.open`, `gzip.open`, `archive.open`, `os.open`: no text files."""
    return isinstance(function.value, ast.Name) and function.value.id in {"Image", "Project", "gzip", "archive", "os"}


@pytest.mark.parametrize("package", [*PACKAGES, "examples"])
def test_nothing_keeps_another_system_out(package: str) -> None:
    folder = Path(str(__import__(package).__file__)).parent if package in PACKAGES else ROOT / package
    texts = {file.relative_to(folder): file.read_text(encoding="utf-8") for file in sorted(folder.rglob("*.py"))}
    assert texts
    assert [f"{name}:{found}" for name, text in texts.items() for found in unportable(text)] == []


@pytest.mark.parametrize(
    "text",
    [
        "import fcntl",
        "from resource import getrusage",
        "from os import fork",
        "os.sysconf('SC_PAGE_SIZE')",
        "signal.SIGKILL",
        "os.rename(temporary, target)",
        "path.symlink_to(target)",
        "multiprocessing.get_context('fork')",
        "subprocess.Popen(words, start_new_session=True)",
        "subprocess.run(words, capture_output=True, text=True)",
        "path.read_text()",
        "path.write_text(text)",
        "open(name)",
        "path.open('w')",
        "path.open()",
        "tempfile.TemporaryFile('w+')",
    ],
)
def test_the_check_sees(text: str) -> None:
    assert len(unportable(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "if hasattr(os, 'nice'):\n    os.nice(5)",
        "open(name, 'rb')",
        "path.open(mode='wb')",
        "path.open('w', encoding='utf-8')",
        "path.read_text('utf-8')",
        "tempfile.TemporaryFile()",
        "subprocess.run(words, capture_output=True)",
        "os.kill(number, signal.SIGTERM)",
        "os.replace(temporary, target)",
        "multiprocessing.get_context('spawn')",
    ],
)
def test_the_check_lets_pass(text: str) -> None:
    assert unportable(text) == []


def test_microsofts_own_compiler_gets_one_sentence(tmp_path: Path) -> None:
    """The configuration is told that the compiler is MSVC, as CMake would find it to be on Windows."""
    cmake = shutil.which("cmake", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    engine = ROOT / "neuralcpm_bridge" / "engine"
    if cmake is None or not engine.is_dir():
        pytest.skip("needs cmake and the engine's sources")
    facts = ("ID_RUN=1", "ID=MSVC", "VERSION=19.40", "FORCED=1", "WORKS=1")
    done = subprocess.run(
        [cmake, "-S", engine, "-B", tmp_path, *(f"-DCMAKE_CXX_COMPILER_{fact}" for fact in facts)],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 1
    said = " ".join(done.stderr.split())
    assert said.count("CMake Error") == 1
    assert "pass -T ClangCL, or use MinGW." in said


VERBS = """
import os
import sys
from neuralcpm_bridge.app.cli import main

for words in (
    "simulate pretrained:elongated-cells --init blob --mcs 2 --seed 1 -o start",
    "info pretrained:elongated-cells",
    "data info start/snapshots.npz --picture Zählung.png",
    "cc3d new pretrained:elongated-cells --state start/snapshots.npz -o Projekt",
    "cc3d inject MyProject/MyProject.cc3d Projekt/Simulation/model.onnx --types Condensing=A;Wall=medium -o Kopie",
    "morpheus new pretrained:elongated-cells --state start/snapshots.npz -o modell.xml",
    "energy Projekt/Simulation/model.onnx start/snapshots.npz",
    "doctor",
):
    sys.argv[1:] = [os.fsdecode(word.encode()) for word in words.split()]  # as a command line brings them
    try:
        main()
    except SystemExit as end:
        assert not end.code, (words, end.code)
"""


@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"PYTHONIOENCODING": "cp1252"},
    ],
    ids=["C locale", "ASCII, file names too", "a Western Windows console"],
)
def test_any_console_and_a_folder_with_spaces_and_umlauts(tmp_path: Path, environment: dict[str, str]) -> None:
    folder = tmp_path / "Zellen – Übung 1"
    own_cc3d_project(folder / "MyProject")
    script = tmp_path / "verbs.py"
    script.write_text(VERBS, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script], cwd=folder, env=os.environ | environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    written = [file.name for file in folder.iterdir()]
    assert {"start", "Zählung.png", "Projekt", "MyProject", "Kopie", "modell.xml", "model.onnx"} == set(written)
