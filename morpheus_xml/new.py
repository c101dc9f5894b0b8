"""A learned model and a state as a complete Morpheus model."""

from __future__ import annotations

import re
from dataclasses import dataclass

from neuralcpm_bridge import __version__
from neuralcpm_bridge.artifact import Artifact, Metadata
from neuralcpm_bridge.conventions import symbolic_values, uncarried_terms
from neuralcpm_bridge.delta import Part
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.hosting.uncertainty import Limits
from neuralcpm_bridge.state import CellState
from neuralcpm_bridge.timelapse import frame_note

from .elements import constraints, contacts, number_text, surface_order
from .model import BORDER, MorpheusModel, Stepper
from .reader import TARGET


@dataclass(frozen=True)
class RunPlan:
    """How long a written model runs and what it keeps."""

    steps: int = 1000
    snapshots: int = 10
    seed: int = 0
    stepper: Stepper = "edgelist"
    temperature: float | None = None


def new_model(
    artifact: Artifact,
    state: CellState,
    plan: RunPlan,
    library: str | None = None,
    file: str | None = None,
    limits: Limits | None = None,
) -> MorpheusModel:
    """The analytic terms as Morpheus' own elements, exactly; the network, if any, through the plugin.

    Where Morpheus' elements cannot carry one of the terms all of the energy goes through the plugin. `library`: the
    engine's, where the plugin should not look for it itself. `file`: what the model file is called from where the XML
    will lie (portable.name_beside); by default its absolute path. `limits`: when the model is not sure enough.
    """
    state = artifact.place(state)
    meta = artifact.metadata
    names = type_names(meta)
    values = symbolic_values(meta, TARGET) if native_terms(meta) else None
    model = MorpheusModel(
        meta.name,
        state.lattice,
        surface_order=surface_order(values, meta.geometry) if values is not None else None,
        temperature=plan.temperature if plan.temperature is not None else meta.temperature,
        steps=plan.steps,
        seed=plan.seed,
        stepper=plan.stepper,
        medium=names[0],
        details=_details(meta),
        properties=artifact.property_means,
    )
    for number, name in enumerate(names[1:], start=1):
        model.add_type(name, constraints(values, number) if values is not None else ())
    if values is not None:
        for first, second, energy in contacts(values, {name: number for number, name in enumerate(names)}):
            model.add_contact(first, second, energy)
    if needs_plugin(meta):
        types = dict(zip(names[1:], meta.types[1:], strict=True))
        part: Part = "neural" if meta.symbolic is None or values is not None else "full"
        model.add_learned_term(learned_attributes(artifact, types, part, 1.0, library, file, limits))
    model.add_cells(state, names)
    model.add_snapshots(plan.steps / max(plan.snapshots, 1), largest_id=state.types.size)
    return model


def _details(meta: Metadata) -> str:
    note = frame_note(meta.training)
    of_movie = f" The movie that it learned from: {note}." if note else ""
    return f"{meta.name} ({meta.architecture}), written by neuralcpm-bridge {__version__}.{of_movie}"


def native_terms(meta: Metadata) -> bool:
    """Whether the analytic part fits into Morpheus' own elements."""
    return meta.symbolic is not None and not uncarried_terms(meta, TARGET)


def needs_plugin(meta: Metadata) -> bool:
    return meta.neural is not None or not native_terms(meta)


def learned_attributes(
    artifact: Artifact,
    types: dict[str, str],
    part: Part,
    weight: float,
    library: str | None = None,
    file: str | None = None,
    limits: Limits | None = None,
) -> dict[str, str]:
    """Attributes of the plugin's element; `types`: Morpheus' name of each cell type and the model's."""
    if not artifact.engine_serves:
        raise UserError(
            f"The plugin runs on the engine, which does not serve the architecture {artifact.metadata.architecture!r}: "
            "distil the model (neuralcpm distill) or use another one."
        )
    attributes = {
        "model": file if file is not None else str(artifact.path.resolve()),
        "types": ";".join(f"{mine}={learned}" for mine, learned in types.items()),
        "term": part,
        "weight": repr(weight),
    }
    return attributes | ({"library": library} if library else {}) | _limits(artifact, limits or Limits())


def _limits(artifact: Artifact, limits: Limits) -> dict[str, str]:
    """Attributes of what is not as the plugin does it by itself."""
    limits.check(artifact)
    usual = Limits()
    chosen = {
        "uncertain": (limits.policy, usual.policy),
        "uncertainty-limit": (number_text(limits.disagreement), number_text(usual.disagreement)),
        "outside-limit": (number_text(limits.outside), number_text(usual.outside)),
    }
    return {name: value for name, (value, otherwise) in chosen.items() if value != otherwise}


def type_names(meta: Metadata) -> tuple[str, ...]:
    """The model's type names as Morpheus takes them: letters, digits and underscores, all different."""
    names: list[str] = []
    for name in meta.types:
        plain = re.sub(r"\W", "_", name) or "type"
        while plain in (*names, BORDER):
            plain += "_"
        names.append(plain)
    return tuple(names)
