"""The plugin's sources into a Morpheus source tree, and whether a binary has it."""

from __future__ import annotations

import json
import mmap
import re
from pathlib import Path

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.files import writing
from neuralcpm_bridge.library import engine_header, engine_library_if_installed

PLUGIN = Path(__file__).parent / "plugin"
FOLDER = "neuralcpm"
SOURCES = (
    *("neural_hamiltonian.cpp", "neural_hamiltonian.h", "neural_hamiltonian.xsd"),
    *("learned_term.cpp", "learned_term.h", "ncpm_library.cpp", "ncpm_library.h", "library_path.h"),
    *("uncertainty.cpp", "uncertainty.h", "CMakeLists.txt"),
)
MARK = "add_subdirectory(neuralcpm)"
NAMED_IN_BINARY = (b"NeuralHamiltonian elements of", b"NEURALCPM_LIBRARY")
"""Sentences of the plugin that a compiler keeps; the element's name alone also stands in models and schemas."""


def install_plugin(source_tree: str | Path) -> list[Path]:
    """Add the plugin to a Morpheus source tree; a second time changes nothing. Returns the files that were written."""
    tree = Path(source_tree)
    plugins = tree / "morpheus" / "plugins"
    if not (plugins / "CMakeLists.txt").is_file() or not (tree / "morpheus" / "core" / "interfaces.h").is_file():
        raise UserError(
            f"{tree} is no Morpheus source tree (no morpheus/plugins/CMakeLists.txt and core/interfaces.h in it): "
            "give the folder that a git clone of Morpheus makes."
        )
    files = {plugins / FOLDER / name: (PLUGIN / name).read_bytes() for name in SOURCES}
    files[plugins / FOLDER / "ncpm.h"] = _engine_header().read_bytes()
    library = engine_library_if_installed()
    if library is not None:
        header = plugins / FOLDER / "library_path.h"
        files[header] = files[header].replace(b'""', json.dumps(Path(library).as_posix(), ensure_ascii=False).encode())
    listing = plugins / "CMakeLists.txt"
    text = listing.read_text(encoding="utf-8")
    if not re.search(rf"^\s*{re.escape(MARK)}\s*$", text, re.MULTILINE):
        files[listing] = f"{text.rstrip()}\n\n{MARK}\n".encode()
    changed = [path for path, content in files.items() if not path.is_file() or path.read_bytes() != content]
    for path in changed:
        with writing(path) as temporary:
            temporary.write_bytes(files[path])
    return changed


def has_plugin(binary: str | Path) -> bool:
    """Whether a Morpheus binary holds the plugin; the file is searched, not run."""
    path = Path(binary)
    if not path.is_file():
        raise UserError(f"There is no program {path}: give the path of the morpheus binary.")
    if path.stat().st_size == 0:
        return False
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return all(content.find(sentence) >= 0 for sentence in NAMED_IN_BINARY)


def _engine_header() -> Path:
    """`ncpm.h`: of the source tree this file lies in, else of the installed engine."""
    beside = Path(__file__).parent.parent / "neuralcpm_bridge" / "engine" / "include" / "ncpm.h"
    if beside.is_file():
        return beside
    return engine_header()
