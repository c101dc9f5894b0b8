"""What is wrong with a MorpheusML file, by element and line, before Morpheus finds out in its own way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from neuralcpm_bridge.artifact import Artifact, Metadata, load_artifact
from neuralcpm_bridge.delta import Part
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.hosting.fit import Blocks, check_lattice, whole_blocks
from neuralcpm_bridge.hosting.mapping import type_pairs
from neuralcpm_bridge.lattice import GEOMETRIES

from .document import Element
from .reader import ELEMENT, TARGET, ModelFile

REQUIRED = (
    *("Description/Title", "Time/StartTime", "Time/StopTime", "Time/TimeSymbol"),
    *("Space/Lattice", "Space/Lattice/Size", "Space/SpaceSymbol"),
)
WITH_CELLS = (
    *("CPM/Interaction", "CPM/MonteCarloSampler", "CPM/MonteCarloSampler/Neighborhood"),
    *("CPM/MonteCarloSampler/MetropolisKinetics", "CPM/ShapeSurface/Neighborhood"),
)
TYPE_CLASSES = ("biological", "medium", "supercell")
PARTS = ("neural", "full")


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, and where."""

    line: int
    tag: str
    sentence: str

    def __str__(self) -> str:
        return f"line {self.line}, <{self.tag}>: {self.sentence}"


def check_model(model: ModelFile, *, learned: bool = True) -> list[Finding]:
    """Everything found, in the order of the file; `learned`: the plugin's elements too."""
    findings = [*_structure(model), *_neighbourhoods(model), *_types(model), *_contacts(model), *_populations(model)]
    if learned:
        findings += _learned(model)
    return sorted(findings, key=lambda finding: finding.line)


def require_sound(model: ModelFile, *, learned: bool = True) -> None:
    """Refuse a file with the first thing that is wrong in it."""
    findings = check_model(model, learned=learned)
    if findings:
        more = f" ({len(findings) - 1} more of the kind)" if len(findings) > 1 else ""
        raise UserError(f"{model.path}, {findings[0]}{more}")


def check_fit(model: ModelFile, artifact: Artifact, part: Part, blocks: Blocks = "keep") -> None:
    """Refuse a file that a learned model cannot serve: its lattice, or no cellular Potts model in it."""
    lattice = model.lattice
    if not model.cell_types or not model.root.find("CPM/MonteCarloSampler"):
        raise UserError(
            f"{model.path} has no cells that move (CellTypes with a CPM/MonteCarloSampler), so a learned energy has "
            "nothing to act on: give a cellular Potts model."
        )
    lattice = replace(lattice, shape=whole_blocks(artifact, lattice.shape, blocks))
    check_lattice(lattice, artifact, part, TARGET, "BoundaryConditions")


def _structure(model: ModelFile) -> Iterator[Finding]:
    required = REQUIRED + (WITH_CELLS if model.root.find("CPM/MonteCarloSampler") else ())
    for path in required:
        if model.root.find(path) is None:
            parent = _nearest(model.root, path)
            yield Finding(parent.line, parent.tag, f"{path} is missing, which Morpheus needs: add it.")
    temperature = model.number(model.temperature)
    if temperature is not None and temperature <= 0:
        element = model.root.find("CPM/MonteCarloSampler/MetropolisKinetics")
        assert element is not None
        yield _at(element, f"the temperature is {model.temperature}, but it must be above 0.")


def _neighbourhoods(model: ModelFile) -> Iterator[Finding]:
    """Orders that Morpheus does not have; a lattice of another class has none that we know."""
    geometry = GEOMETRIES.get(model.lattice_class)
    for found in (model.lattice_neighbourhood, model.sampler_neighbourhood, model.surface_neighbourhood):
        if geometry is not None and found is not None and found.kind == "order" and found.order(geometry) is None:
            highest = TARGET.highest_order[geometry.name]
            yield _at(found.element, f"the order is '{found.value}', but 1 to {highest} are possible here.")


def _types(model: ModelFile) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    for entry in model.types:
        described = entry.element.attributes.get("class", "")
        if described not in TYPE_CLASSES:
            yield _at(entry.element, f"the class is '{described}', but biological or medium is expected.")
        if not entry.name or any(letter.isspace() for letter in entry.name):
            yield _at(entry.element, f"the name is '{entry.name}', but a name without white space is needed.")
        if entry.name in seen:
            yield _at(entry.element, f"the name '{entry.name}' is taken on line {seen[entry.name]}: rename one.")
        seen.setdefault(entry.name, entry.element.line)


def _contacts(model: ModelFile) -> Iterator[Finding]:
    known = _known(model)
    seen: dict[frozenset[str], int] = {}
    for contact in model.contacts:
        for name in (contact.type1, contact.type2):
            if name not in known:
                yield _at(contact.element, f"there is no cell type '{name}': {_choose(known)}.")
        if not contact.value.strip():
            yield _at(contact.element, "the value is missing: give the energy of this contact.")
        pair = frozenset((contact.type1, contact.type2))
        if pair in seen:
            yield _at(contact.element, f"this pair of types is given on line {seen[pair]} already: keep one of them.")
        seen.setdefault(pair, contact.element.line)


def _populations(model: ModelFile) -> Iterator[Finding]:
    known = _known(model)
    ids: dict[str, int] = {}
    for population in model.populations:
        if population.type not in known:
            yield _at(population.element, f"there is no cell type '{population.type}': {_choose(known)}.")
        for cell in population.element.all("Cell"):
            name = cell.attributes.get("id") or cell.attributes.get("name")
            if name is not None and name in ids:
                yield _at(cell, f"the id {name} is taken on line {ids[name]}: number the cells differently.")
            if name is not None:
                ids.setdefault(name, cell.line)


def _learned(model: ModelFile) -> Iterator[Finding]:
    elements = [(entry, element) for entry in model.types for element in entry.learned]
    if not elements:
        return
    first = elements[0][1]
    for entry, element in elements:
        path = element.attributes.get("model", "")
        if not path:
            yield _at(element, "the attribute model is missing: name the model file.")
        elif not (model.path.parent / Path(path)).is_file():
            yield _at(element, f"there is no model file {path}: correct the attribute model.")
        if element.attributes.get("term", "neural") not in PARTS:
            yield _at(element, f"the term is '{element.attributes['term']}', but neural or full is expected.")
        if len(entry.learned) == 1 and path == first.attributes.get("model") and element.attributes != first.attributes:
            yield _at(element, f"it differs from that on line {first.line}, but all are one energy: make them equal.")
    for entry in model.types:
        named = [element.attributes.get("model") for element in entry.learned]
        for number, element in enumerate(entry.learned):
            if named[number] in named[:number]:
                yield _at(element, "the model stands in this type already, and its energy would count twice: keep one.")
    for entry in model.cell_types:
        if not entry.learned:
            yield _at(entry.element, f"it lacks the {ELEMENT} that other types have: write the same element into all.")
    file = model.path.parent / Path(first.attributes.get("model", ""))
    if file.is_file():
        try:
            meta = load_artifact(file).metadata
        except UserError as error:
            yield _at(first, str(error))
            return
        try:
            matched = type_pairs([first.attributes.get("types", "")])
        except UserError as error:
            yield _at(first, str(error).removeprefix("--"))
            return
        yield from lacking_properties(model, meta, matched)


def lacking_properties(model: ModelFile, meta: Metadata, matched: Mapping[str, str]) -> Iterator[Finding]:
    """Cell types without a property that a learned model reads; `matched`: the model's type of each, the medium's: it
    does not see such cells."""
    shared = model.root.find("Global")
    everywhere = {child.attributes.get("symbol") for child in (shared.children if shared else ())}
    for entry in model.cell_types:
        defined = everywhere | {child.attributes.get("symbol") for child in entry.element.children}
        for name in meta.properties if matched.get(entry.name) != meta.types[0] else ():
            if name not in defined:
                words = TARGET.property_words.format(name=name)
                yield _at(
                    entry.element,
                    f"it has no property {name!r}, which the learned model reads of every cell: add {words} to the "
                    f"cell type '{entry.name}'.",
                )


def _known(model: ModelFile) -> set[str]:
    return {entry.name for entry in model.types} | {model.medium}


def _choose(known: set[str]) -> str:
    return f"choose one of {', '.join(sorted(known))}"


def _nearest(root: Element, path: str) -> Element:
    """The deepest element on a path that exists."""
    element = root
    for tag in path.split("/"):
        child = element.find(tag)
        if child is None:
            break
        element = child
    return element


def _at(element: Element, sentence: str) -> Finding:
    return Finding(element.line, element.tag, sentence)
