"""The files of a CC3D project."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from neuralcpm_bridge.errors import UserError

from .document import parse, read_text
from .reader import ProjectFacts, read_facts

MODEL = "Simulation/model.onnx"
"""Where a project that was written or injected into has its model."""
IGNORED = shutil.ignore_patterns("__pycache__", "*.pyc")


@dataclass(frozen=True)
class Project:
    """The files of a project, by its .cc3d file."""

    file: Path
    xml: Path | None
    script: Path | None

    @classmethod
    def open(cls, file: str | Path) -> Project:
        file = Path(file)
        if not file.is_file():
            raise UserError(f"There is no project {file}: give the path of a .cc3d file.")
        root = parse(read_text(file), file)
        if root.tag != "Simulation":
            raise UserError(f"{file} is no CompuCell3D project (its root is <{root.tag}>): give a .cc3d file.")
        xml, script = (_named(file, root.findtext(tag)) for tag in ("XMLScript", "PythonScript"))
        if xml is None and script is None:
            raise UserError(f"{file} names neither an XMLScript nor a PythonScript: complete the project.")
        return cls(file, xml, script)

    def copied_to(self, folder: Path) -> Project:
        """Copy the whole folder of the project, but for compiled Python."""
        source = self.file.parent.resolve()
        if folder.resolve().is_relative_to(source):
            raise UserError(f"{folder} lies inside the project's folder: choose a place outside of {source}.")
        shutil.copytree(source, folder, ignore=IGNORED, dirs_exist_ok=True)
        return Project.open(folder / self.file.name)

    def facts(self) -> ProjectFacts | None:
        """What its CC3DML says; nothing where the project describes itself in Python."""
        return None if self.xml is None else read_facts(parse(read_text(self.xml), self.xml))


def _named(file: Path, name: str | None) -> Path | None:
    if name is None or not name.strip():
        return None
    path = file.parent / name.strip()
    if not path.resolve().is_relative_to(file.parent.resolve()):
        raise UserError(f"{file} names {name.strip()}, which lies outside of its folder: move it into the project.")
    if not path.is_file():
        raise UserError(f"{file} names {name.strip()}, but there is no such file: complete the project.")
    return path
