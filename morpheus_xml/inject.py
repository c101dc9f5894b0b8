"""A learned model into a user's Morpheus model: the plugin's element, or Morpheus' own elements for a distilled one.

Edits are spliced into the file's bytes, so that everything else stays as it was; doing it twice changes nothing more.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lxml import etree

from neuralcpm_bridge.artifact import Artifact, Metadata
from neuralcpm_bridge.conventions import HostValues, host_notes, neural_scale, symbolic_values
from neuralcpm_bridge.delta import Part
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.hosting.fit import Blocks, blind_sentence, whole_blocks
from neuralcpm_bridge.hosting.mapping import UNMAPPED, map_types
from neuralcpm_bridge.hosting.own_energies import closes
from neuralcpm_bridge.hosting.uncertainty import Limits

from .check import check_fit, lacking_properties, require_sound
from .document import Edit, element_text
from .elements import VOLUME_SYMBOLS, constraints, contacts, number_text, surface_order
from .new import learned_attributes, needs_plugin
from .own_energies import read_own_energies
from .reader import ELEMENT, TARGET, CellTypeEntry, ModelFile, read_model
from .upgrade import CURRENT


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
    part: Part | None = None,
    weight: float | None = None,
    library: str | None = None,
    file: str | None = None,
    limits: Limits | None = None,
    blocks: Blocks = "keep",
    distilled: bool = False,
) -> Injected:
    """The user's model with the learned term in it.

    `types` maps Morpheus' type names to the model's; types of equal names need no entry. `weight` scales the energy;
    by default so that it does at the user's temperature what it did at that of training. `library`, `file` and
    `limits` as in `new_model`; `blocks` is for networks of blocks on lattices whose sides are no multiples of them.
    """
    meta = artifact.metadata
    chosen = part or ("neural" if meta.neural else "full")
    model = read_model(path)
    require_sound(model, learned=False)
    resized = [] if distilled else _resized(model, artifact, blocks)
    check_fit(model, artifact, "full" if distilled else chosen, blocks)
    matched = match_types(model, meta, types or {})
    require_properties(model, meta, matched)
    scale = weight if weight is not None else _scale(model, meta)
    if distilled:
        return _inject_native(model, meta, matched, scale)
    if chosen == "neural" and meta.neural is None:
        raise UserError(f"The model ({meta.architecture}) has no network: inject it with --term full or --distilled.")
    element = element_text(ELEMENT, learned_attributes(artifact, matched, chosen, scale, library, file, limits))
    edits = [edit for entry in model.cell_types for edit in _placed(model, entry, element)]
    note = f"energies weighted by {scale:g} (temperature {model.temperature} here, {meta.temperature:g} in training)"
    blind = blind_sentence(artifact, whole_blocks(artifact, model.lattice.shape, blocks))
    closed = closes(meta, lambda: read_own_energies(path), matched) if chosen == "neural" else ""
    notes = (note, *_notes(model), *(sentence for sentence in (blind, closed) if sentence))
    return Injected(model.document.edited([*edits, *resized]), notes)


def _resized(model: ModelFile, artifact: Artifact, blocks: Blocks) -> list[Edit]:
    """The lattice with sides that are multiples of a network's blocks."""
    sides = whole_blocks(artifact, model.lattice.shape, blocks)
    size = model.root.find("Space/Lattice/Size")
    if sides == model.lattice.shape or size is None:
        return []
    return [model.document.attribute_edit(size, "value", ", ".join(map(str, [*sides[::-1], 0][:3])))]


def _notes(model: ModelFile) -> Iterator[str]:
    if model.is_upgraded:
        yield f"MorpheusML {model.version} was brought up to {CURRENT}"
    if model.root.find("Space/Lattice/Domain"):
        yield "sites outside of the Domain are medium to the learned model"


def match_types(model: ModelFile, meta: Metadata, given: dict[str, str]) -> dict[str, str]:
    """The model's type of every cell type of the file; nothing is guessed."""
    names = [entry.name for entry in model.cell_types]
    mapped = map_types(dict(enumerate([model.medium, *names])), meta.types, given)
    unmapped = [name for name, number in zip(names, list(mapped.values())[1:], strict=True) if number == UNMAPPED]
    if unmapped:
        example = " ".join(f"--types {shlex.quote(f'{name}={meta.types[-1]}')}" for name in unmapped)
        raise UserError(
            f"Cell types of {model.path} that the learned model ({', '.join(meta.types)}) does not have: "
            f"{', '.join(unmapped)}: say what each of them is, for example {example} (={meta.types[0]}: the model does "
            "not see such cells)."
        )
    return {name: meta.types[number] for name, number in zip(names, list(mapped.values())[1:], strict=True)}


def require_properties(model: ModelFile, meta: Metadata, matched: dict[str, str]) -> None:
    """Refuse a file whose cell types do not define what the learned model reads of every cell."""
    for finding in lacking_properties(model, meta, matched):
        raise UserError(f"{model.path}, {finding}")


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
    """Contacts and constraints replaced by the distilled ones."""
    if needs_plugin(meta):
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
    order = surface_order(values, meta.geometry)
    numbers = {model.medium: 0} | {name: meta.types.index(learned) for name, learned in matched.items()}
    edits = [
        *_contacts(model, values, numbers),
        *(edit for entry in model.cell_types for edit in _constraints(model, values, entry, numbers[entry.name])),
        *(model.document.removal(element) for entry in model.types for element in entry.learned),
        *_surface_convention(model, order),
    ]
    notes = [
        f"energies scaled by {scale:g} (temperature {model.temperature} here, {meta.temperature:g} in training)",
        f"contacts and constraints of all cell types replaced; ShapeSurface set to order {order} without scaling, in "
        "which they are meant",
    ]
    if not all(model.lattice.periodic):
        notes.append("cells at a free border touch what your model has there, which training did not charge")
    return Injected(model.document.edited(edits), (*notes, *host_notes(meta, TARGET), *_notes(model)))


def _contacts(model: ModelFile, values: HostValues, numbers: dict[str, int]) -> Iterator[Edit]:
    present = {frozenset((c.type1, c.type2)): c.element for c in model.contacts}
    missing = []
    for first, second, energy in contacts(values, numbers):
        element = present.get(frozenset((first, second)))
        if element is not None:
            yield model.document.attribute_edit(element, "value", number_text(energy))
        else:
            attributes = {"type1": first, "type2": second, "value": number_text(energy)}
            missing.append(element_text("Contact", attributes))
    interaction = model.root.find("CPM/Interaction")
    assert interaction is not None  # the checker has seen to it
    if missing:
        yield model.document.append_edit(interaction, missing)


def _constraints(model: ModelFile, values: HostValues, entry: CellTypeEntry, number: int) -> Iterator[Edit]:
    """Elements of the distilled terms, each in place of the one it stands for, the others behind all that is there."""
    document = model.document
    present = {_role(child.tag, child.attributes.get("symbol", "")): child for child in entry.element.children}
    added = []
    for element in constraints(values, number):
        text = etree.tostring(element, encoding="unicode")
        taken = present.pop(_role(str(element.tag), element.get("symbol", "")), None)
        if taken is None:
            added.append(text)
        else:
            yield Edit(taken.start, taken.end, text)
    yield from (
        document.removal(present[role]) for symbol in VOLUME_SYMBOLS if (role := ("Function", symbol)) in present
    )
    if added:
        yield document.append_edit(entry.element, added)


def _role(tag: str, symbol: str) -> tuple[str, str]:
    """What an element is in its CellType: functions go by their symbols, constraints are there once."""
    return tag, symbol if tag == "Function" else ""


def _surface_convention(model: ModelFile, order: int) -> Iterator[Edit]:
    surface = model.root.find("CPM/ShapeSurface")
    neighbourhood = model.root.find("CPM/ShapeSurface/Neighborhood")
    assert surface is not None  # the checker has seen to it
    assert neighbourhood is not None
    yield model.document.attribute_edit(surface, "scaling", "none")
    found = model.surface_neighbourhood
    if found is None or found.order(model.lattice.geometry) != order:
        yield Edit(neighbourhood.start, neighbourhood.end, f"<Neighborhood><Order>{order}</Order></Neighborhood>")
