"""A learned model into a user's Morpheus model: the plugin's element, or Morpheus' own elements for a distilled one.

Edits are spliced into the file's bytes, so that everything else stays as it was; doing it twice changes nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lxml import etree

from neuralcpm_bridge.artifact import Artifact, Metadata
from neuralcpm_bridge.conventions import SymbolicValues, neural_scale, symbolic_values
from neuralcpm_bridge.errors import UserError

from .checker import require_learnable, require_sound
from .document import Edit, Element, element_text
from .model import TARGET, number_text, volume_function_elements
from .new import learned_attributes, native_terms
from .reader import ELEMENT, CellTypeEntry, ModelFile, read_model

FUNCTIONS = ("volume_energy", "volume_strength")
"""Symbols that an injected volume function defines in a CellType."""


@dataclass(frozen=True)
class Injected:
    """The new file, and what a user should know about it."""

    content: bytes
    notes: tuple[str, ...]


def inject(
    path: str | Path,
    artifact: Artifact,
    *,
    types: dict[str, str] | None = None,
    term: str | None = None,
    weight: float | None = None,
    library: str | None = None,
    distilled: bool = False,
) -> Injected:
    """The user's model with the learned term in it.

    `types` maps Morpheus' type names to the model's; types of equal names need no entry. `weight` scales the energy;
    by default so that it does at the user's temperature what it did at that of training.
    """
    model = read_model(path)
    require_sound(model, learned=False)
    require_learnable(model)
    meta = artifact.metadata
    if model.boundary != meta.boundary:
        raise UserError(
            f"{path} has {model.boundary or 'mixed'} boundaries, but the learned model was trained with "
            f"{meta.boundary} ones: change BoundaryConditions or use another model."
        )
    matched = match_types(model, meta, types or {})
    scale = weight if weight is not None else _scale(model, meta)
    if distilled:
        return _inject_native(model, meta, matched, scale)
    attributes = learned_attributes(artifact, matched, term or ("neural" if meta.neural else "full"), scale, library)
    if attributes["term"] == "neural" and meta.neural is None:
        raise UserError(f"The model ({meta.architecture}) has no network: inject it with --term full or --distilled.")
    element = element_text(ELEMENT, attributes)
    edits = [edit for entry in model.cell_types for edit in _placed(model, entry, element)]
    note = f"energies weighted by {scale:g} (temperature {model.temperature} here, {meta.temperature:g} in training)"
    return Injected(model.document.edited(edits), (note,))


def match_types(model: ModelFile, meta: Metadata, given: dict[str, str]) -> dict[str, str]:
    """The model's type of every cell type of the file; nothing is guessed."""
    names = [entry.name for entry in model.cell_types]
    known = ", ".join(meta.types)
    for mine, learned in given.items():
        if mine not in names:
            raise UserError(f"{model.path} has no cell type {mine!r}: map one of {', '.join(names)}.")
        if learned not in meta.types:
            raise UserError(f"The learned model has no type {learned!r}: map {mine} to one of {known}.")
    matched = {}
    for name in names:
        learned = given.get(name, name)
        if learned not in meta.types:
            raise UserError(
                f"The cell type {name!r} of {model.path} is not one of the learned model ({known}): say which it is, "
                f"for example --types {name}={meta.types[-1]} (={meta.types[0]}: the model does not see such cells)."
            )
        matched[name] = learned
    return matched


def _scale(model: ModelFile, meta: Metadata) -> float:
    temperature = model.number(model.temperature)
    if temperature is None:
        raise UserError(
            f"The temperature of {model.path} is {model.temperature!r}, which is no fixed number: say how to weigh the "
            "learned energy (--weight: temperature here / temperature of training)."
        )
    return neural_scale(meta, temperature)


def _placed(model: ModelFile, entry: CellTypeEntry, element: str) -> Iterator[Edit]:
    """The element in one type, in place of any that is there."""
    present = entry.learned
    if not present:
        yield model.document.append_edit(entry.element, [element])
        return
    yield Edit(present[0].start, present[0].end, element)
    yield from (model.document.removal(other) for other in present[1:])


# -- a distilled model: Morpheus' own elements --------------------------------------------------------------------


def _inject_native(model: ModelFile, meta: Metadata, matched: dict[str, str], scale: float) -> Injected:
    """Contacts, volumes and surfaces replaced by the distilled ones."""
    if meta.neural is not None or not native_terms(meta):
        raise UserError(
            f"The model ({meta.architecture}) holds more than Morpheus' own elements can carry: distil it first "
            "(neuralcpm distill MODEL --data DATA -o distilled.onnx)."
        )
    unseen = [name for name, learned in matched.items() if learned == meta.types[0]]
    if unseen:
        raise UserError(
            f"{unseen[0]} is mapped to the medium, but distilled contacts need a type for every cell type: map it to "
            f"one of {', '.join(meta.types[1:])}."
        )
    values = symbolic_values(meta, TARGET, energy_scale=scale)
    number = {name: meta.types.index(learned) for name, learned in matched.items()} | {model.medium: 0}
    edits = [
        *_contacts(model, values, number),
        *(edit for entry in model.cell_types for edit in _constraints(model, meta, values, entry, number[entry.name])),
        *(model.document.removal(element) for entry in model.types for element in entry.learned),
        *_surface_convention(model),
    ]
    notes = (
        f"energies scaled by {scale:g} (temperature {model.temperature} here, {meta.temperature:g} in training)",
        "contacts and constraints of all cell types replaced; ShapeSurface set to order 2 without scaling, in which "
        "they are meant",
    )
    return Injected(model.document.edited(edits), notes)


def _contacts(model: ModelFile, values: SymbolicValues, number: dict[str, int]) -> Iterator[Edit]:
    present = {frozenset((c.type1, c.type2)): c.element for c in model.contacts}
    names = [model.medium, *(entry.name for entry in model.cell_types)]
    missing = []
    for position, first in enumerate(names):
        for second in names[max(position, 1) :]:
            energy = number_text(float(values.contact[number[first], number[second]]))
            element = present.get(frozenset((first, second)))
            if element is not None:
                yield model.document.attribute_edit(element, "value", energy)
            else:
                attributes = {"type1": first, "type2": second, "value": energy}
                missing.append(element_text("Contact", attributes))
    interaction = model.root.find("CPM/Interaction")
    assert interaction is not None  # the checker has seen to it
    if missing:
        yield model.document.append_edit(interaction, missing)


def _constraints(
    model: ModelFile, meta: Metadata, values: SymbolicValues, entry: CellTypeEntry, number: int
) -> Iterator[Edit]:
    assert meta.symbolic is not None
    document = model.document
    for function in entry.element.all("Function"):
        if function.attributes.get("symbol") in FUNCTIONS:
            yield document.removal(function)
    added: list[str] = []
    if values.volume_function is not None:
        if entry.volume is not None:
            yield document.removal(entry.volume)
        added += [
            etree.tostring(element, encoding="unicode")
            for element in volume_function_elements(values.volume_function, number)
        ]
    elif "volume" in meta.symbolic.terms:
        target, strength = values.target_volume[number], values.strength[number]
        yield from _set_constraint(model, entry.volume, "VolumeConstraint", target, strength, added)
    if "surface" in meta.symbolic.terms:
        target, strength = values.target_surface[number], values.surface_strength[number]
        yield from _set_constraint(model, entry.surface, "SurfaceConstraint", target, strength, added, mode="surface")
    if added:
        yield document.append_edit(entry.element, added)


def _set_constraint(
    model: ModelFile, present: Element | None, tag: str, target: float, strength: float, added: list[str], **more: str
) -> Iterator[Edit]:
    """Replaces a constraint, or leaves its text in `added`."""
    attributes = {**more, "target": number_text(float(target)), "strength": number_text(float(strength))}
    text = element_text(tag, attributes)
    if present is not None:
        yield Edit(present.start, present.end, text)
    else:
        added.append(text)


def _surface_convention(model: ModelFile) -> Iterator[Edit]:
    surface = model.root.find("CPM/ShapeSurface")
    neighbourhood = model.root.find("CPM/ShapeSurface/Neighborhood")
    assert surface is not None  # the checker has seen to it
    assert neighbourhood is not None
    yield model.document.attribute_edit(surface, "scaling", "none")
    if model.surface_neighbourhood != f"order {TARGET.neighbor_order}":
        order = f"<Neighborhood><Order>{TARGET.neighbor_order}</Order></Neighborhood>"
        yield Edit(neighbourhood.start, neighbourhood.end, order)
