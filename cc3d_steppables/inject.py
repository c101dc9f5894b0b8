"""A learned term into a copy of any CC3D project, XML-only ones included; what need not change does not."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.conventions import TARGETS, neural_scale
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.hosting.fit import Blocks, whole_blocks
from neuralcpm_bridge.hosting.mapping import UNMAPPED, listed, map_types, unmapped
from neuralcpm_bridge.hosting.own_energies import closes
from neuralcpm_bridge.hosting.tables import mapping_table, parameter_table
from neuralcpm_bridge.hosting.uncertainty import Limits

from .check import check_fit, check_neighbourhoods
from .document import (
    add_child,
    line_style,
    read_text,
    replace_plugin,
    set_attributes,
    without_comments,
    write_text,
)
from .energies import PLUGINS, Energies
from .folders import writing_folder
from .own_energies import read_own_energies
from .project import MODEL, Project
from .reader import ProjectFacts
from .script_text import PLAIN_SCRIPT, has_block, registrations, with_block

SymbolicPart = Literal["keep", "replace"]


def inject(
    project_file: str | Path,
    artifact: Artifact,
    folder: str | Path,
    *,
    types: Mapping[str, str] | None = None,
    symbolic: SymbolicPart = "keep",
    weight: float = 1.0,
    extinction: bool = False,
    limits: Limits | None = None,
    blocks: Blocks = "keep",
) -> tuple[Path, str]:
    """Write the copy; the path of its .cc3d file and a text about how the project was taken.

    `symbolic="replace"` also gives the project the model's own contact and volume energies, `blocks` another size where
    a network of blocks would be blind to some of it.
    """
    folder = Path(folder)
    source = Project.open(project_file)
    _check_registered(source)
    facts = source.facts()
    limits = limits or Limits()
    limits.check(artifact)
    options = [f'model="{MODEL}"']
    if types:
        options.append(f"types={dict(types)!r}")
    if weight != 1:
        options.append(f"weight={weight!r}")
    if extinction:
        options.append("extinction=True")
    options += limits.options()
    said = "The project describes itself in Python: it is checked when it runs."
    with writing_folder(folder) as temporary:
        project = source.copied_to(temporary)
        if project.xml is None and (symbolic == "replace" or blocks != "keep"):
            raise UserError(
                "The project has no CC3DML file that could be changed: use --symbolic keep and --blocks keep."
            )
        if project.xml is not None and facts is not None:
            facts = _adapt(project, facts, artifact, types, symbolic, blocks)
        elif facts is not None:  # of PyCoreSpecs; its work nodes are seen to when it runs
            facts = replace(facts, potts_nodes=1)
            check_fit(facts, artifact, "neural")
        if facts is not None:
            said = _report(facts, artifact, types, weight, extinction) + _closed(project, facts, artifact, types)
        _add_model(project, artifact)
        _add_script(project, ["frequency=1", *options])
    return folder / source.file.name, said + _about_properties(artifact)


def _check_registered(project: Project) -> None:
    """Refuse a project that has a learned term already, in whichever of its scripts: it would count twice."""
    for script in sorted(project.file.parent.rglob("*.py")):
        lines = registrations(read_text(script))
        if lines:
            raise UserError(
                f"{script} makes a learned term already (line {lines[0]}), and a second one would be counted twice: "
                "change that one, or remove it first."
            )


def _adapt(
    project: Project,
    facts: ProjectFacts,
    artifact: Artifact,
    types: Mapping[str, str] | None,
    symbolic: SymbolicPart,
    blocks: Blocks,
) -> ProjectFacts:
    """What must change in the CC3DML: one Potts work node, whole blocks, and energies that are to be replaced."""
    path = project.xml
    assert path is not None
    text = original = read_text(path)
    sides = whole_blocks(artifact, facts.lattice.shape, blocks)
    if sides != facts.lattice.shape:
        numbers = dict(zip("xyz", map(str, sides[::-1]), strict=False))
        text = set_attributes(text, "Dimensions", numbers, path)
    if facts.potts_nodes != 1:
        text = add_child(text, "Metadata", '<NonParallelModule Name="Potts"/>', path)
    if symbolic == "replace":
        type_of = map_types(facts.type_names, artifact.metadata.types, types)
        text = _with_model_energies(text, facts, artifact, type_of)
    if text != original:
        write_text(path, text)
        changed = project.facts()
        assert changed is not None
        facts = changed
    check_fit(facts, artifact, "neural")
    return facts


def _with_model_energies(text: str, facts: ProjectFacts, artifact: Artifact, type_of: Mapping[int, int]) -> str:
    """The model's own terms at the project's temperature; what the model does not see or have is kept."""
    meta = artifact.metadata
    strangers = [facts.type_names[number] for number, cell_type in type_of.items() if cell_type == UNMAPPED]
    if strangers:
        raise UserError(unmapped(strangers, meta.types))
    if facts.temperature <= 0:
        raise UserError("The project has no temperature to convert the model's energies to: set one, or keep its own.")
    seen = {facts.type_names[number]: cell_type for number, cell_type in type_of.items() if number == 0 or cell_type}
    energies = Energies.of_model(meta, seen, neural_scale(meta, facts.temperature))
    other = [plugin for term in energies.terms for plugin in PLUGINS[term][1:] if plugin in facts.plugins]
    if other:
        raise UserError(f"The project has the plugin {other[0]}, which cannot be replaced: use --symbolic keep.")
    check_neighbourhoods(facts.lattice, energies.orders.values())
    for plugin in energies.over(facts.energies).elements(facts.names):
        text = replace_plugin(text, plugin.get("Name", ""), plugin)
    return text


def _report(
    facts: ProjectFacts, artifact: Artifact, types: Mapping[str, str] | None, weight: float, extinction: bool
) -> str:
    type_of = map_types(facts.type_names, artifact.metadata.types, types)
    if len(type_of) == 1:
        raise UserError(
            "The project has no cells (no CellType plugin with types), so there is nothing that a learned term could "
            "move: use a project with cells."
        )
    if all(cell_type in (0, UNMAPPED) for cell_type in type_of.values()):
        raise UserError(
            f"None of the project's types ({listed(facts.names[1:]) or 'none'}) is one of the model's "
            f"({listed(artifact.metadata.types[1:])}): map them with --types, as in --types Condensing=A."
        )
    warning = ""
    if facts.temperature == 0:
        warning = (
            "\n\nWARNING: the project sets no temperature, and the learned term is multiplied by it: without one that "
            "Python sets it has no effect. Add <Temperature> to <Potts>."
        )
    table = mapping_table(
        facts,
        artifact,
        type_of,
        TARGETS["cc3d"],
        part="neural",
        weight=weight,
        extinction=extinction,
        temperature=facts.temperature,
        by_cell=False,
    )
    parameters = parameter_table(facts.parameters(artifact.metadata, type_of, facts.temperature))
    return table + warning + (f"\n\nThe model's own energies beside the project's:\n{parameters}" if parameters else "")


def _closed(project: Project, facts: ProjectFacts, artifact: Artifact, types: Mapping[str, str] | None) -> str:
    type_of = map_types(facts.type_names, artifact.metadata.types, types)
    matched = {facts.type_names[number]: artifact.metadata.types[own] for number, own in type_of.items() if own > 0}
    sentence = closes(artifact.metadata, lambda: read_own_energies(project.file), matched)
    return f"\n\n{sentence}" if sentence else ""


def _about_properties(artifact: Artifact) -> str:
    """What no file can tell: whether the project's own code gives cells what the model reads."""
    words = [TARGETS["cc3d"].property_words.format(name=name) for name in artifact.metadata.properties]
    if not words:
        return ""
    return (
        f"\n\nThe model reads {listed(words)} of every cell that it sees, before every Monte Carlo step: set "
        "it where the project makes cells, in start() and after divisions; a cell without it stops the run."
    )


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
        serialised = project.xml is None  # what a script describes is there only when it runs
        write_text(project.script, with_block(read_text(project.script), options, project.script, serialised))
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
