"""A learned term into a copy of any CC3D project, XML-only ones included; what need not change does not."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lxml import etree

from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.conventions import TARGETS, neural_scale, symbolic_values
from neuralcpm_bridge.errors import UserError

from .cc3dml_text import add_child, line_style, parse, read_text, replace_plugin, without_comments, write_text
from .facts import Facts, read_facts
from .folders import writing_folder
from .mapping import DOUBLE_COUNTED, UNMAPPED, check_fit, map_types, unmapped
from .project import MODEL
from .script_text import PLAIN_SCRIPT, has_block, with_block
from .tables import mapping_table, parameter_table

SymbolicPart = Literal["keep", "replace"]
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

    def facts(self) -> Facts | None:
        """What its CC3DML says; nothing where the project describes itself in Python."""
        return None if self.xml is None else read_facts(parse(read_text(self.xml), self.xml))


def inject(
    project_file: str | Path,
    artifact: Artifact,
    folder: str | Path,
    *,
    types: Mapping[str, str] | None = None,
    symbolic: SymbolicPart = "keep",
    weight: float = 1.0,
    extinction: bool = False,
) -> tuple[Path, str]:
    """Write the copy; the path of its .cc3d file and a text about how the project was taken.

    `symbolic="replace"` also gives the project the model's own contact and volume energies.
    """
    folder = Path(folder)
    source = Project.open(project_file)
    facts = source.facts()
    options = [f'model="{MODEL}"']
    if types:
        options.append(f"types={dict(types)!r}")
    if weight != 1:
        options.append(f"weight={weight!r}")
    if extinction:
        options.append("extinction=True")
    said = "The project describes itself in Python: it is checked when it runs."
    with writing_folder(folder) as temporary:
        project = source.copied_to(temporary)
        if facts is not None:
            assert project.xml is not None
            facts = _adapt(project.xml, facts, artifact, types, symbolic)
            said = _report(facts, artifact, types, weight, extinction)
        elif symbolic == "replace":
            raise UserError("The project has no CC3DML file whose energies could be replaced: use --symbolic keep.")
        _add_model(project, artifact)
        _add_script(project, ["frequency=1", *options])
    return folder / source.file.name, said


def _adapt(
    path: Path, facts: Facts, artifact: Artifact, types: Mapping[str, str] | None, symbolic: SymbolicPart
) -> Facts:
    """What must change in the CC3DML: one Potts work node, and energies that are to be replaced."""
    text = original = read_text(path)
    if facts.potts_nodes != 1:
        text = add_child(text, "Metadata", '<NonParallelModule Name="Potts"/>', path)
    if symbolic == "replace":
        text = _with_model_energies(text, facts, artifact, map_types(facts, artifact, types))
    if text != original:
        write_text(path, text)
        facts = read_facts(parse(text, path))
    check_fit(facts, artifact, "neural")
    return facts


def _with_model_energies(text: str, facts: Facts, artifact: Artifact, type_of: Mapping[int, int]) -> str:
    """The model's contact and volume energies at the project's temperature; what the model does not see is kept."""
    other = [name for name in facts.plugins if name in DOUBLE_COUNTED and name not in ("Contact", "Volume")]
    if other:
        raise UserError(f"The project has the plugin {other[0]}, which cannot be replaced: use --symbolic keep.")
    if facts.temperature <= 0:
        raise UserError("The project has no temperature to convert the model's energies to: set one, or keep its own.")
    for number, kind in type_of.items():
        if kind == UNMAPPED:
            raise UserError(unmapped(facts.type_names[number], artifact))
    target = TARGETS["cc3d"]
    values = symbolic_values(artifact.metadata, target, neural_scale(artifact.metadata, facts.temperature))
    seen = {name: type_of[number] for number, name in facts.type_names.items() if number == 0 or type_of[number]}
    contact = etree.Element("Plugin", Name="Contact")
    names = list(facts.type_names.values())
    for place, first in enumerate(names):
        for second in names[place:]:
            energy = facts.contact.get(frozenset((first, second)), 0.0)
            if first in seen and second in seen:
                energy = float(values.contact[seen[first], seen[second]])
            etree.SubElement(contact, "Energy", Type1=first, Type2=second).text = repr(energy)
    etree.SubElement(contact, "NeighborOrder").text = str(target.neighbor_order)
    volume = etree.Element("Plugin", Name="Volume")
    for name in names[1:]:
        strength, goal = facts.volume.get(name, (0.0, 0.0))
        if name in seen:
            strength, goal = float(values.strength[seen[name]]), float(values.target_volume[seen[name]])
        numbers = {"CellType": name, "LambdaVolume": repr(strength), "TargetVolume": repr(goal)}
        etree.SubElement(volume, "VolumeEnergyParameters", numbers)
    return replace_plugin(replace_plugin(text, "Contact", contact), "Volume", volume)


def _report(facts: Facts, artifact: Artifact, types: Mapping[str, str] | None, weight: float, extinction: bool) -> str:
    type_of = map_types(facts, artifact, types)
    if all(kind in (0, UNMAPPED) for kind in type_of.values()):
        raise UserError(
            f"None of the project's types ({', '.join(list(facts.type_names.values())[1:]) or 'none'}) is one of the "
            f"model's ({', '.join(artifact.metadata.types[1:])}): map them with --types, as in --types Condensing=A."
        )
    table = mapping_table(
        facts,
        artifact,
        type_of,
        term="neural",
        weight=weight,
        extinction=extinction,
        temperature=facts.temperature,
        by_cell=False,
    )
    parameters = parameter_table(facts, artifact, type_of, facts.temperature)
    return table + (f"\n\nThe model's own energies beside the project's:\n{parameters}" if parameters else "")


def _add_model(project: Project, artifact: Artifact) -> None:
    place = project.file.parent / MODEL
    injected = project.script is not None and has_block(read_text(project.script))
    if place.exists() and not injected and place.read_bytes() != artifact.path.read_bytes():
        raise UserError(f"The project already has a file {MODEL}: rename it.")
    place.parent.mkdir(exist_ok=True)
    shutil.copyfile(artifact.path, place)
    text = read_text(project.file)
    if MODEL not in without_comments(text):
        write_text(project.file, _with_entry(text, f'<Resource Type="Model">{MODEL}</Resource>'))


def _add_script(project: Project, options: list[str]) -> None:
    if project.script is not None:
        write_text(project.script, with_block(read_text(project.script), options, project.script))
        return
    place = f"Simulation/{project.file.stem}.py"
    script = project.file.parent / place
    if script.exists():
        raise UserError(f"The project names no PythonScript, but has a file {place}: rename it or name it.")
    script.parent.mkdir(exist_ok=True)
    write_text(script, with_block(PLAIN_SCRIPT, options, script))
    entry = f'<PythonScript Type="PythonScript">{place}</PythonScript>'
    write_text(project.file, _with_entry(read_text(project.file), entry))


def _with_entry(text: str, entry: str) -> str:
    """A line of its own before the end of a .cc3d file."""
    place = without_comments(text).rindex("</Simulation")
    line_end, indent = line_style(text, place)
    start = place - len(indent)
    return f"{text[:start]}{indent}   {entry}{line_end}{text[start:]}"


def _named(file: Path, name: str | None) -> Path | None:
    if name is None or not name.strip():
        return None
    path = file.parent / name.strip()
    if not path.resolve().is_relative_to(file.parent.resolve()):
        raise UserError(f"{file} names {name.strip()}, which lies outside of its folder: move it into the project.")
    if not path.is_file():
        raise UserError(f"{file} names {name.strip()}, but there is no such file: complete the project.")
    return path
