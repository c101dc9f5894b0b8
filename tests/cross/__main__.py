"""`make cross`: the engine for other machines, compiled here, run under emulators, compared flip by flip.

    python -m tests.cross [TARGET...]

Every target's library is built with its compiler; abi_test.c and flips.c run on it where something runs them, and
every ΔH is compared with the native build's baseline kernels, those of networks with float64 too. What is
missing is said in one sentence. Exits 1 if a target that could be tried fails.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tests.engine.test_c_abi import ARGUMENTS, arguments

from .compare import Run, against, compared, float64_deltas, read
from .models import MODELS, write

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "cross"
FOLDER = "Zellen – Übung 1"
SEED = 17


@dataclass(frozen=True)
class Target:
    """A machine: how CMake names it, what compiles for it, what runs its programs (nothing: they are only linked)."""

    name: str
    compiler: str  # of C++; "zig TRIPLE" is the Clang of the package ziglang
    runner: str | None = ""
    isas: tuple[str, ...] = ("baseline", "avx2", "avx512")
    system: str | None = None
    processor: str = "x86_64"

    def missing(self) -> list[str]:
        """What is not installed, each with where to get it."""
        tools = [self.compiler.split()[0], *(self.runner or "").split()[:1]]
        return [f"{tool} ({SOURCES[tool]})" for tool in tools if not found(tool)]

    def flags(self) -> list[str]:
        """What CMake is to know."""
        if self.compiler.startswith("zig "):
            c, cxx = (str(wrapper(self.compiler.split()[1], language)) for language in ("cc", "c++"))
        else:
            c, cxx = self.compiler.replace("g++", "gcc"), self.compiler
        flags = [f"-DCMAKE_C_COMPILER={c}", f"-DCMAKE_CXX_COMPILER={cxx}"]
        if self.system is None:
            return flags
        return [*flags, f"-DCMAKE_SYSTEM_NAME={self.system}", f"-DCMAKE_SYSTEM_PROCESSOR={self.processor}"]


SOURCES = {
    "zig": "pip install ziglang",
    "g++": "Debian: g++",
    "x86_64-w64-mingw32-g++-posix": "Debian: g++-mingw-w64-x86-64-posix",
    "aarch64-linux-gnu-g++": "Debian: g++-aarch64-linux-gnu",
    "wine": "Debian: wine64 wine",
    "qemu-aarch64-static": "Debian: qemu-user-static",
}

ARM = ("baseline", "neon")
QEMU = "qemu-aarch64-static -L /usr/aarch64-linux-gnu"
TARGETS = (
    Target("linux-x86_64-gcc", "g++"),
    Target("windows-x86_64-gcc", "x86_64-w64-mingw32-g++-posix", "wine", system="Windows"),
    Target("linux-aarch64-gcc", "aarch64-linux-gnu-g++", QEMU, ARM, "Linux", "aarch64"),
    Target("macos-arm64-clang", "zig aarch64-macos", None, ARM, "Darwin", "arm64"),
    Target("windows-x86_64-clang", "zig x86_64-windows-gnu", "wine", system="Windows"),
    Target("linux-aarch64-clang", "zig aarch64-linux-gnu", QEMU, ARM, "Linux", "aarch64"),
    Target("linux-x86_64-clang", "zig x86_64-linux-gnu"),
    Target("macos-x86_64-clang", "zig x86_64-macos", None, system="Darwin"),
)


def found(tool: str) -> bool:
    if tool == "zig":
        return importlib.util.find_spec("ziglang") is not None
    return shutil.which(tool) is not None


def wrapper(triple: str, language: str) -> Path:
    """Zig's Clang for one machine as a program of its own, which is what CMake takes for a compiler."""
    path = BUILD / f"zig-{triple}-{language.replace('+', 'p')}"
    command = f"{shlex.quote(sys.executable)} -m ziglang {language} -target {triple}"
    # its C++ library is always linked in; beside -static it takes a DLL for a program
    shared = 'for word; do shift; [ "$word" = -static ] || set -- "$@" "$word"; done'
    path.write_text(f'#!/bin/sh\n{shared}\nexec {command} "$@"\n', encoding="utf-8")
    path.chmod(0o755)
    return path


def built(target: Target) -> Path:
    """Compile and link; the folder of the programs."""
    folder = BUILD / target.name
    cmake = shutil.which("cmake", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}") or "cmake"
    configure = [cmake, "-S", ROOT / "tests" / "cross", "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"]
    with (BUILD / f"{target.name}.log").open("w", encoding="utf-8") as log:
        for command in ([*configure, *target.flags()], [cmake, "--build", folder]):
            subprocess.run(command, check=True, stdout=log, stderr=subprocess.STDOUT)
    return folder / "bin"


def ran(target: Target, program: Path, words: list[str], isa: str) -> str:
    environment = os.environ | {
        "NEURALCPM_ISA": isa,
        "WINEPREFIX": str(BUILD / "wine"),
        "WINEDEBUG": "-all",
        "QEMU_CPU": "max",
    }
    done = subprocess.run(
        [*(target.runner or "").split(), program, *words],
        cwd=BUILD / "models",
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{program.name} {' '.join(words)} on {isa}: {done.stderr.strip()}")
    return done.stdout


def run(target: Target, folder: Path, isa: str) -> Run:
    """abi_test and the flips of every model."""
    numbers = ran(target, folder / "abi_test.exe", list(ARGUMENTS), isa).split()
    walks = {
        name: read(ran(target, folder / "flips.exe", [name, str(count), str(steps), str(SEED)], isa), isa)
        for name, (count, steps, _) in MODELS.items()
    }
    return Run(np.array(numbers, dtype=float), walks)


def tried(target: Target, expected: Run, float64: dict[str, NDArray[np.float64]]) -> str:
    """Build, run and compare; one line about it."""
    folder = built(target)
    if target.runner is None:
        return "compiled and linked, not run"
    lines = []
    for isa in target.isas:
        found = run(target, folder, isa)
        lines.append(f"{isa}: {compared(found, expected)}; {against(found, float64)}")
    return "\n    ".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cross")
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(t.name for t in TARGETS)}; all if none is given")
    chosen = parser.parse_args().targets
    (BUILD / "models").mkdir(parents=True, exist_ok=True)
    write(BUILD / "models" / FOLDER)
    arguments(BUILD / "models")
    expected = run(TARGETS[0], built(TARGETS[0]), "baseline")
    float64 = float64_deltas(expected, BUILD / "models" / FOLDER)
    failed = False
    for target in TARGETS:
        if chosen and target.name not in chosen:
            continue
        if missing := target.missing():
            print(f"{target.name}: skipped, not installed: {', '.join(missing)}.")
            continue
        try:
            print(f"{target.name}: {tried(target, expected, float64)}", flush=True)
        except (RuntimeError, subprocess.CalledProcessError, AssertionError) as error:
            failed = True
            print(f"{target.name}: FAILED, {error} (log: {BUILD / target.name}.log)", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
