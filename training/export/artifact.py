"""Writing an artifact, always checked against torch; reading one back for fine-tuning."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import helper

from neuralcpm_bridge import __version__
from neuralcpm_bridge.artifact import (
    Artifact,
    Boundary,
    Example,
    Metadata,
    NeuralEntry,
    NeuralSpec,
    SymbolicSpec,
    load_artifact,
)
from neuralcpm_bridge.artifact import check_against_examples as check_backend
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.files import writing
from neuralcpm_bridge.state import CellState

from ..hamiltonians import (
    Contact,
    ExternalPotential,
    Hamiltonian,
    Surface,
    Symbolic,
    Volume,
    VolumeFunction,
    build_network,
)
from .examples import example_flips, example_states
from .graph import build_model


def export(
    hamiltonian: Hamiltonian,
    path: str | Path,
    *,
    name: str = "",
    lattice: tuple[int, int] | None = None,
    temperature: float = 1.0,
    extinction: bool = True,
    training: dict[str, Any] | None = None,
    examples: Sequence[CellState] = (),
) -> Artifact:
    """Write the artifact of a Hamiltonian; it exists only if every back end agrees with float64 torch.

    `examples`: states to keep in the file (training data); random tissues where there are none.
    """
    path = Path(path)
    weights = weights_of(hamiltonian)
    network = hamiltonian.network
    symbolic = symbolic_spec(hamiltonian, weights)
    external = hamiltonian.symbolic.external if hamiltonian.symbolic is not None else None
    fixed_cells = hamiltonian.cells if network is not None and network.spec.kind == "cnn" else None
    metadata = Metadata(
        name=name or path.stem,
        architecture=hamiltonian.architecture,
        parameters=sum(p.numel() for p in hamiltonian.parameters() if p.requires_grad),
        types=hamiltonian.type_names,
        cells=hamiltonian.cells,
        fixed_cells=fixed_cells,
        fixed_lattice=None if external is None else (external.field.shape[1], external.field.shape[2]),
        lattice=lattice,
        boundary=hamiltonian.boundary,
        temperature=temperature,
        extinction=extinction,
        receptive_field=3 if network is None else network.spec.receptive_field,
        symbolic=symbolic,
        neural=None
        if network is None
        else NeuralEntry(**network.spec.model_dump(), weight=float(weights["neural.weight"])),
        training={"program": f"neuralcpm-bridge {__version__}", **(training or {})},
    )
    states = list(examples) or example_states(metadata)
    metadata = metadata.model_copy(update={"examples": examples_of(hamiltonian, states)})
    return write_artifact(metadata, weights, path)


def write_artifact(metadata: Metadata, weights: dict[str, NDArray[Any]], path: str | Path) -> Artifact:
    """Write metadata and weights as one ONNX file; refused where a back end disagrees with the examples."""
    path = Path(path)
    metadata = metadata.model_copy(update={"weights_hash": weights_hash(weights)})
    model = build_model(metadata, weights)
    with writing(path) as temporary:
        temporary.write_bytes(model.SerializeToString())
        written = load_artifact(temporary)
        check_backend(written, "onnxruntime")
    return Artifact(path, written.metadata, written.weights)


def weights_of(hamiltonian: Hamiltonian) -> dict[str, NDArray[Any]]:
    """Every named initialiser: effective values of the analytic terms (float64), the network's (float32)."""
    named: dict[str, torch.Tensor] = {}
    symbolic, network = hamiltonian.symbolic, hamiltonian.network
    with torch.no_grad():
        if symbolic is not None:
            named |= {"symbolic.weight": symbolic.weight(), "symbolic.offset": symbolic.offset.double()}
            if symbolic.contact is not None:
                named["symbolic.contact.J"] = symbolic.contact.J
            if symbolic.volume is not None:
                strength, target = symbolic.volume.of_types(len(hamiltonian.type_names))
                named |= {"symbolic.volume.strength": strength, "symbolic.volume.target": target}
            if symbolic.surface is not None:
                named["symbolic.surface.strength"] = symbolic.surface.strength.double()
                named["symbolic.surface.target"] = symbolic.surface.target.double()
            if symbolic.volume_function is not None:
                for part in VolumeFunction.PARTS:
                    named[f"symbolic.volume_function.{part}"] = getattr(symbolic.volume_function, part).double()
            if symbolic.external is not None:
                named["symbolic.external.field"] = symbolic.external.field.double()
                named["symbolic.external.coupling"] = symbolic.external.coupling.double()
        if network is not None and hamiltonian.network_weight is not None:
            named |= {f"neural.{key}": value.float() for key, value in network.state_dict().items()}
            named["neural.weight"] = hamiltonian.network_weight()
    weights = {key: value.detach().cpu().numpy() for key, value in named.items()}
    bad = [key for key, value in weights.items() if not np.isfinite(value).all()]
    if bad:
        raise UserError(f"The weight {bad[0]} is not finite, so the model is unusable: export an earlier checkpoint.")
    return weights


def symbolic_spec(hamiltonian: Hamiltonian, weights: dict[str, NDArray[Any]]) -> SymbolicSpec | None:
    if hamiltonian.symbolic is None:
        return None
    terms: dict[str, dict[str, Any]] = {term: {} for term in Symbolic.TERMS}
    for key, value in weights.items():
        prefix, *rest = key.split(".")
        if prefix == "symbolic" and len(rest) == 2 and rest[1] != "field":
            terms[rest[0]][rest[1]] = value.tolist()
    if "symbolic.external.field" in weights:
        terms["external"]["fields"] = weights["symbolic.external.field"].shape[0]
    return SymbolicSpec(
        weight=float(weights["symbolic.weight"]),
        offset=float(weights["symbolic.offset"]),
        terms={term: values for term, values in terms.items() if values},
    )


def weights_hash(weights: dict[str, NDArray[Any]]) -> str:
    """SHA-256 as docs/artifact.md defines it."""
    digest = hashlib.sha256()
    for name in sorted(weights, key=lambda text: text.encode()):
        array = np.asarray(weights[name], order="C")
        digest.update(name.encode() + b"\0" + bytes([helper.np_dtype_to_tensor_dtype(array.dtype), array.ndim]))
        digest.update(np.array(array.shape, dtype="<u8").tobytes() + array.tobytes())
    return digest.hexdigest()


def examples_of(hamiltonian: Hamiltonian, states: Sequence[CellState]) -> list[Example]:
    """Energies and flip differences in float64, of the float32 weights that the file holds."""
    exact = float64_copy(hamiltonian)
    examples = []
    for number, state in enumerate(states):
        flips = example_flips(state, number)
        flipped = [state]
        for row, col, new_id in flips:
            ids = state.ids.copy()
            ids[row, col] = new_id
            flipped.append(CellState(ids, state.types))
        with torch.no_grad():
            symbolic, neural = (part.cpu().numpy() for part in exact.of_states(flipped))
        total = symbolic + neural
        examples.append(
            Example(
                shape=state.shape,
                runs=Example.encode(state.ids),
                types=state.types.tolist(),
                energy=total[0],
                symbolic=symbolic[0],
                neural=neural[0],
                flips=[(*flip, float(total[i + 1] - total[0])) for i, flip in enumerate(flips)],
            )
        )
    return examples


def float64_copy(hamiltonian: Hamiltonian) -> Hamiltonian:
    """The ground truth: the weights as the file holds them, computed with in float64."""
    spec = hamiltonian.network.spec if hamiltonian.network is not None else None
    names, boundary, cells = hamiltonian.type_names, hamiltonian.boundary, hamiltonian.cells
    return from_weights(names, boundary, cells, weights_of(hamiltonian), spec).double()


def hamiltonian_from_artifact(artifact: Artifact) -> Hamiltonian:
    """The torch model of an artifact, to fine-tune or to check against."""
    metadata = artifact.metadata
    spec = metadata.neural.spec if metadata.neural is not None else None
    return from_weights(metadata.types, metadata.boundary, metadata.cells, artifact.weights, spec)


def from_weights(
    types: tuple[str, ...],
    boundary: Boundary,
    cells: int | None,
    weights: dict[str, NDArray[Any]],
    spec: NeuralSpec | None,
) -> Hamiltonian:
    """A Hamiltonian with these named weights."""
    tensors = {key: torch.tensor(value) for key, value in weights.items()}
    symbolic = network = None
    if "symbolic.weight" in tensors:
        symbolic = Symbolic(weight=float(tensors["symbolic.weight"]), train_weight=spec is not None)
        symbolic.offset.data = tensors["symbolic.offset"].clone()
        if "symbolic.contact.J" in tensors:
            symbolic.contact = Contact(tensors["symbolic.contact.J"], periodic=boundary == "periodic")
        if "symbolic.volume.strength" in tensors:
            strength, target = (shared_or_all(tensors[f"symbolic.volume.{part}"]) for part in ("strength", "target"))
            symbolic.volume = Volume(strength, target)
        if "symbolic.surface.strength" in tensors:
            strength, target = tensors["symbolic.surface.strength"], tensors["symbolic.surface.target"]
            symbolic.surface = Surface(strength, target, periodic=boundary == "periodic")
        if "symbolic.volume_function.coefficients" in tensors:
            symbolic.volume_function = VolumeFunction(
                *(tensors[f"symbolic.volume_function.{part}"] for part in VolumeFunction.PARTS)
            )
        if "symbolic.external.field" in tensors:
            parts = (tensors[f"symbolic.external.{part}"] for part in ("field", "coupling"))
            symbolic.external = ExternalPotential(*parts)
    if spec is not None:
        network = build_network(spec, len(types), cells)
        expected = {f"neural.{key}" for key in network.state_dict()}
        if expected != {key for key in tensors if key.startswith("neural.") and key != "neural.weight"}:
            raise UserError("The model's weights are not those its architecture needs: export the model again.")
        network.load_state_dict({key: tensors[f"neural.{key}"] for key in network.state_dict()})
    weight = float(tensors["neural.weight"]) if spec is not None else 1.0
    return Hamiltonian(
        types,
        symbolic,
        network,
        network_weight=weight,
        train_network_weight=symbolic is not None,
        boundary=boundary,
        cells=cells,
    )


def shared_or_all(of_types: torch.Tensor) -> torch.Tensor:
    """Per-type values without the medium's; one entry where all types share it, so that they stay shared."""
    cells = of_types[1:]
    return cells[:1] if bool((cells == cells[0]).all()) else cells
