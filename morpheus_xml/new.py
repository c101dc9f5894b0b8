"""A learned model and a state as a complete Morpheus model."""

from __future__ import annotations

import re
from dataclasses import dataclass

from neuralcpm_bridge import __version__
from neuralcpm_bridge.artifact import Artifact, Metadata
from neuralcpm_bridge.conventions import symbolic_values, uncarried_terms
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.state import CellState

from .model import BORDER, TARGET, MorpheusModel, Stepper


@dataclass(frozen=True)
class RunPlan:
    """How long a written model runs and what it keeps."""

    steps: int = 1000
    snapshots: int = 10
    seed: int = 0
    stepper: Stepper = "edgelist"
    temperature: float | None = None


def new_model(artifact: Artifact, state: CellState, plan: RunPlan, library: str | None = None) -> MorpheusModel:
    """Contacts, volumes and surfaces as Morpheus' own elements, exactly; the network, if any, through the plugin.

    Terms that Morpheus' elements cannot carry go through the plugin as well, then all of the energy does.
    """
    artifact.check_state(state)
    meta = artifact.metadata
    names = type_names(meta)
    model = MorpheusModel(
        meta.name,
        state.shape,
        boundary=meta.boundary,
        temperature=plan.temperature if plan.temperature is not None else meta.temperature,
        steps=plan.steps,
        seed=plan.seed,
        stepper=plan.stepper,
        medium=names[0],
        details=f"{meta.name} ({meta.architecture}), written by neuralcpm-bridge {__version__}.",
    )
    for name in names[1:]:
        model.add_type(name)
    native = native_terms(meta)
    if native:
        add_native_terms(model, meta, names)
    if meta.neural is not None or not native:
        types = dict(zip(names[1:], meta.types[1:], strict=True))
        term = "neural" if meta.symbolic is None or native else "full"
        model.add_learned_term(learned_attributes(artifact, types, term, 1.0, library))
    model.add_cells(state, names)
    first = 0 if meta.boundary == "periodic" else 1
    model.add_snapshots(plan.steps / max(plan.snapshots, 1), largest_id=state.types.size + first)
    return model


def native_terms(meta: Metadata) -> bool:
    """Whether the analytic part fits into Morpheus' own elements."""
    return meta.symbolic is not None and not uncarried_terms(meta, TARGET)


def needs_plugin(meta: Metadata) -> bool:
    return meta.neural is not None or not native_terms(meta)


def add_native_terms(model: MorpheusModel, meta: Metadata, names: tuple[str, ...]) -> None:
    assert meta.symbolic is not None
    values = symbolic_values(meta, TARGET)
    for a in range(len(names)):
        for b in range(max(a, 1), len(names)):
            model.add_contact(names[a], names[b], float(values.contact[a, b]))
    for number, name in enumerate(names[1:], start=1):
        if values.volume_function is not None:
            model.add_volume_function(name, values.volume_function, number)
        elif "volume" in meta.symbolic.terms:
            model.add_volume_constraint(name, float(values.target_volume[number]), float(values.strength[number]))
        if "surface" in meta.symbolic.terms:
            model.add_surface_constraint(
                name, float(values.target_surface[number]), float(values.surface_strength[number])
            )


def learned_attributes(
    artifact: Artifact, types: dict[str, str], term: str, weight: float, library: str | None
) -> dict[str, str]:
    """Attributes of the plugin's element; `types`: Morpheus' name of each cell type and the model's."""
    if not artifact.engine_serves:
        raise UserError(
            f"The plugin runs on the engine, which does not serve the architecture {artifact.metadata.architecture!r}: "
            "distil the model (neuralcpm distill) or use another one."
        )
    attributes = {
        "model": str(artifact.path.resolve()),
        "types": ";".join(f"{mine}={learned}" for mine, learned in types.items()),
        "term": term,
        "weight": repr(weight),
    }
    return attributes | ({"library": library} if library else {})


def type_names(meta: Metadata) -> tuple[str, ...]:
    """The model's type names as Morpheus takes them: letters, digits and underscores, all different."""
    names: list[str] = []
    for name in meta.types:
        plain = re.sub(r"\W", "_", name) or "type"
        while plain in (*names, BORDER):
            plain += "_"
        names.append(plain)
    return tuple(names)
