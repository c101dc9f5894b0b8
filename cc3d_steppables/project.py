"""The files of a CC3D project."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from neuralcpm_bridge.errors import UserError, reading
from neuralcpm_bridge.files import disk_speaking

from .document import parse, read_text
from .reader import ProjectFacts, read_facts
from .specs import read_specs
from .templates import filled, first_values

MODEL = "Simulation/model.onnx"
"""Where a project that was written or injected into has its model."""
IGNORED = shutil.ignore_patterns("__pycache__", "*.pyc")
LEADING_OUT = re.compile(r"\.\.|dirname\s*\(\s*(os\.path\.)?dirname|parent")
"""How a file may speak of what lies outside of its folder."""
TEXTS = {".py", ".xml", ".cc3d", ".json"}


@dataclass(frozen=True)
class Project:
    """The files of a project, by its .cc3d file."""

    file: Path
    xml: Path | None
    script: Path | None
    scan: Path | None = None
    """The list of a parameter scan."""

    @classmethod
    def open(cls, file: str | Path) -> Project:
        file = Path(file)
        if not file.is_file():
            raise UserError(f"There is no project {file}: give the path of a .cc3d file.")
        with reading(file, "a readable CompuCell3D project", "correct it"):
            return cls._read(file)

    @classmethod
    def _read(cls, file: Path) -> Project:
        root = parse(read_text(file), file)
        if root.tag != "Simulation":
            raise UserError(f"{file} is no CompuCell3D project (its root is <{root.tag}>): give a .cc3d file.")
        xml, script, scan = (_named(file, root.findtext(tag)) for tag in ("XMLScript", "PythonScript", "ParameterScan"))
        if xml is None and script is None:
            raise UserError(f"{file} names neither an XMLScript nor a PythonScript: complete the project.")
        return cls(file, xml, script, scan)

    def copied_to(self, folder: Path) -> Project:
        """Copy the whole folder of the project, but for compiled Python."""
        source = self.file.parent.resolve()
        if folder.resolve().is_relative_to(source):
            raise UserError(f"{folder} lies inside the project's folder: choose a place outside of {source}.")
        with disk_speaking(folder):
            shutil.copytree(source, folder, ignore=IGNORED, dirs_exist_ok=True)
        return Project.open(folder / self.file.name)

    def copy_neighbours(self, folder: Path) -> None:
        """Copy folders and files beside the project that its own files speak of, to the same place beside its copy."""
        for neighbour in self.neighbours():
            target = folder.parent / neighbour.name
            with disk_speaking(target):
                if neighbour.is_dir():
                    shutil.copytree(neighbour, target, ignore=IGNORED, dirs_exist_ok=True)
                else:
                    shutil.copyfile(neighbour, target)

    def neighbours(self) -> list[Path]:
        """What lies beside the project's folder and is named in files that lead out of it."""
        source = self.file.parent.resolve()
        leading = [text for text in self._texts() if LEADING_OUT.search(text)]
        beside = [path for path in source.parent.iterdir() if path != source and not path.name.startswith(".")]
        return [path for path in beside if any(re.search(rf"\b{re.escape(path.name)}\b", text) for text in leading)]

    def _texts(self) -> Iterator[str]:
        for path in sorted(self.file.parent.rglob("*")):
            if path.suffix in TEXTS and path.is_file():
                yield read_text(path)

    def values(self) -> dict[str, str]:
        """Of a parameter scan's `{{name}}`: the first that it lists."""
        return first_values(self.scan)

    def facts(self) -> ProjectFacts | None:
        """What its CC3DML says, or its PyCoreSpecs where they are literal; nothing where only a run can tell."""
        file = self.xml or self.script
        assert file is not None
        with reading(file, "a readable part of a CompuCell3D project", "correct it"):
            if self.xml is None:
                root = read_specs(read_text(file))
                return None if root is None else read_facts(root)
            return read_facts(parse(filled(read_text(file), self.values(), file), file))


def _named(file: Path, name: str | None) -> Path | None:
    if name is None or not name.strip():
        return None
    path = file.parent / name.strip()
    if not path.resolve().is_relative_to(file.parent.resolve()):
        raise UserError(f"{file} names {name.strip()}, which lies outside of its folder: move it into the project.")
    if not path.is_file():
        raise UserError(f"{file} names {name.strip()}, but there is no such file: complete the project.")
    return path
