"""Verbs about one model file: info, energy, verify, import-reference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neuralcpm_bridge.errors import needs_torch

from .options import LARGEST_SEED, MOST, Json, Model

if TYPE_CHECKING:
    from neuralcpm_bridge.artifact import Artifact, Metadata, NeuralEntry


def info(model: Model, as_json: Json = False) -> None:
    """What a model file holds: types, lattice, parameters, receptive field, provenance."""
    from neuralcpm_bridge.artifact import load_artifact

    artifact = load_artifact(model)
    if as_json:
        print(json.dumps(info_json(artifact)))
        return
    _print_info(artifact)


def energy(
    model: Model,
    states: Annotated[Path, typer.Argument(metavar="STATES", help="Data set (.npz).", show_default=False)],
    as_json: Json = False,
) -> None:
    """The energy of every state of a data set, its parts, a committee's spread, and cells unlike the training data."""
    from neuralcpm_bridge.artifact import load_artifact
    from neuralcpm_bridge.delta import open_backend
    from neuralcpm_bridge.snapshots import load_snapshots, on_boundary_of

    artifact = on_boundary_of(str(states), load_artifact(model))
    snapshots = load_snapshots(states, artifact)
    backend = open_backend(artifact, snapshots[0])
    columns: dict[str, list[Any]] = {name: [] for name in ("energy", "symbolic", "neural", "spread", "outside")}
    for state in snapshots:
        backend.reset(state)
        energies, inside = backend.energy(), backend.inside_range()
        outside = [cell for cell, within in enumerate(inside.tolist()) if not within]
        row = (energies.total, energies.symbolic, energies.neural, backend.spread(), outside)
        for column, value in zip(columns.values(), row, strict=True):
            column.append(value)
    if as_json:
        print(json.dumps(columns))
        return
    from rich.console import Console
    from rich.table import Table

    reads = f", which reads {', '.join(artifact.metadata.properties)}" if artifact.metadata.properties else ""
    title = f"{artifact.metadata.name}{reads}, on {backend.name}"
    table = Table("state", "energy", "symbolic", "neural", title=title)
    network = artifact.metadata.neural
    if network is not None and network.members > 1:
        table.add_column("spread")
    if artifact.ranges:
        table.add_column("cells outside the training data's range")
    for number, (*values, spread, outside) in enumerate(zip(*columns.values(), strict=True)):
        more = [f"{spread:.3g}"] if network is not None and network.members > 1 else []
        more += [", ".join(map(str, outside)) or "–"] if artifact.ranges else []
        table.add_row(str(number), *(f"{value:.6g}" for value in values), *more)
    Console(markup=False).print(table)


def verify(
    model: Model,
    states: Annotated[Path | None, typer.Option(help="Data set to verify on; else the model's own examples.")] = None,
    flips: Annotated[int, typer.Option(min=1, max=MOST, help="Random flips to compare.")] = 200,
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Seed of the random flips.")] = 0,
    as_json: Json = False,
) -> None:
    """Compare every back end with float64 torch on random flips; exit code 1 if one disagrees."""
    from neuralcpm_bridge.artifact import load_artifact
    from neuralcpm_bridge.snapshots import load_snapshots

    with needs_torch("verify"):
        from training.verify import verify_backends

    artifact = load_artifact(model)
    chosen = list(load_snapshots(states, artifact)) if states else artifact.metadata.example_states()
    report = verify_backends(artifact, chosen, flips, seed)
    if as_json:
        print(json.dumps(report))
    else:
        _print_verification(artifact.metadata.name, report)
    if not report["ok"]:
        raise typer.Exit(1)


def import_reference(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Weights saved by the paper's authors (.eqx).")],
    experiment: Annotated[str, typer.Option(help="exp1 (Cellular MNIST) or exp2 (bi-polar).")],
    model: Annotated[
        str, typer.Option(help="cellsort_baseline, external_field_baseline, conv_ham, shallow_nh, nh or nch.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The model file to write.")],
) -> None:
    """Turn weights of the paper's authors into a model file."""
    with needs_torch("import-reference"):
        from training.export import export
        from training.reference import import_reference

    hamiltonian = import_reference(file, experiment, model)
    provenance = {"source": f"{experiment} {model} of the paper's authors", "file": file.name}
    artifact = export(hamiltonian, output, name=f"{experiment}_{model}", training=provenance)
    print(f"Wrote {output}: {artifact.metadata.architecture}, {artifact.metadata.parameters:,} parameters.")


def info_json(artifact: Artifact) -> dict[str, Any]:
    """The metadata without its examples; the lattice, an object in the file, is spelled out entry by entry.

    `boundary` is one word where all axes share it, `neighbor_order` that of the contacts; `ranges`: what the training
    data had of every cell type, where the model knows.
    """
    meta = artifact.metadata
    boundary: str | list[str] = meta.boundary[0] if len(set(meta.boundary)) == 1 else list(meta.boundary)
    return meta.model_dump(mode="json", exclude={"examples"}) | {
        "geometry": meta.geometry.name,
        "lattice": meta.lattice.shape,
        "boundary": boundary,
        "orders": meta.orders,
        "neighbor_order": meta.orders.get("contact", meta.geometry.moore_order),
        "ranges": artifact.ranges,
    }


def _print_info(artifact: Artifact) -> None:
    from rich.console import Console
    from rich.table import Table

    from neuralcpm_bridge.lattice import boundary_text, size_text

    meta = artifact.metadata
    lattice = f"trained on {size_text(meta.lattice.shape)}" if meta.lattice.shape else "any size"
    if meta.fixed_lattice:
        lattice = f"fixed to {size_text(meta.fixed_lattice)}"
    cells = f"any (trained with {meta.cells})" if meta.cells else "any"
    if meta.fixed_cells:
        cells = f"fixed to {meta.fixed_cells}"
    field = "the whole lattice" if meta.receptive_field is None else f"{meta.receptive_field} sites across"
    if meta.neural is not None and meta.neural.is_graph:
        field = f"of a cell: {meta.neural.rounds} cell{'s' * (meta.neural.rounds > 1)} to each side"
    table = Table(show_header=False, title=f"{meta.name} (format {meta.format})", title_justify="left")
    rows = {
        "architecture": meta.architecture,
        "parameters": f"{meta.parameters:,}",
        "types": ", ".join(meta.types),
        "lattice": f"{meta.geometry.name}, {lattice}, {boundary_text(meta.boundary)} boundary",
        "neighbours": ", ".join(f"{term} to order {order}" for term, order in meta.orders.items()) or "–",
        "ids": cells,
        "properties": _properties_text(artifact),
        "receptive field": field,
        "temperature": f"{meta.temperature:g}",
        "convention": meta.convention,
        "last pixel": "never taken in training" if meta.extinction else "may be taken",
        "served by": "engine, ONNX Runtime" if artifact.engine_serves else "ONNX Runtime",
        "size": f"{artifact.size_bytes / 1024:.0f} KiB, hash {meta.weights_hash[:12]}…",
        "training": ", ".join(f"{key}: {value}" for key, value in meta.training.items()) or "–",
    }
    for key, value in rows.items():
        table.add_row(key, str(value))
    if meta.symbolic:
        table.add_row("symbolic part", _symbolic_text(meta))
    if meta.neural:
        table.add_row("network", f"w_NN {meta.neural.weight:.4g}, {_network_text(meta.neural)}")
    for cell_type, ranges in artifact.ranges.items():
        known = ", ".join(f"{name} {low:.4g} to {high:.4g}" for name, (low, high) in ranges.items())
        table.add_row(f"training data, {cell_type}", known)
    Console(markup=False).print(table)


def _network_text(network: NeuralEntry) -> str:
    if network.is_graph:
        members = f", a committee of {network.members}" if network.members > 1 else ""
        rounds = f"{network.rounds} round{'s' * (network.rounds > 1)} of messages"
        return f"{rounds}, width {network.width}, contacts to order {network.order}{members}"
    sizes = {"widths": network.widths, "pools": network.pools, "blocks": network.conv_widths}
    shown = ", ".join(f"{key} {'-'.join(map(str, value))}" for key, value in sizes.items() if value)
    return f"stride {network.stride}, {shown}, {network.padding} padding"


def _properties_text(artifact: Artifact) -> str:
    """What it reads of every cell besides its type, with the range over all types of the training data."""
    found = {name: (ends[1:, 0].min(), ends[1:, 1].max()) for name, ends in artifact.property_ranges.items()}
    return ", ".join(f"{name} ({low:.4g} to {high:.4g} in training)" for name, (low, high) in found.items()) or "–"


def _symbolic_text(meta: Metadata) -> str:
    import numpy as np

    from neuralcpm_bridge.conventions import model_terms
    from neuralcpm_bridge.terms import TERMS

    assert meta.symbolic is not None
    lines = [f"w_S {meta.symbolic.weight:.4g}"]
    for term in model_terms(meta):
        for weight, value in term.values.items():
            if TERMS[term.name].weights[weight] == "TT":
                pairs = [(a, b) for a in range(len(value)) for b in range(max(a, 1), len(value))]
                lines += [f"{weight}({meta.types[a]}, {meta.types[b]}) {value[a, b]:.4g}" for a, b in pairs]
            else:
                lines.append(f"{term.name} {weight} {np.array2string(value, precision=4)}")
    return "\n".join(lines)


def _print_verification(name: str, report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    title = f"{name}: {report['flips']} flips against float64 torch"
    table = Table("back end", "max |error| of ΔH", "mean |Δp(accept)|", title=title)
    for backend, values in report["backends"].items():
        table.add_row(backend, f"{values['max_abs_error']:.2e}", f"{values['decision_mismatch']:.2e}")
    Console(markup=False).print(table)
    print("agreed" if report["ok"] else "DISAGREED: do not use this model, export it again")
