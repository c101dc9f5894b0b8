"""Writing an artifact, always checked against torch; reading one back for fine-tuning."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import ModelProto, StringStringEntryProto, helper

from neuralcpm_bridge import __version__
from neuralcpm_bridge.artifact import (
    Artifact,
    Example,
    LatticeEntry,
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
from neuralcpm_bridge.terms import described_terms

from ..hamiltonians import TERMS, ExternalPotential, Hamiltonian, Symbolic, build_network
from .examples import example_flips, example_states
from .graph import build_model

SEAL = "neuralcpm.sha256"
"""Key of the entry with which a file ends."""


def export(
    hamiltonian: Hamiltonian,
    path: str | Path,
    *,
    name: str = "",
    temperature: float = 1.0,
    extinction: bool = True,
    training: dict[str, Any] | None = None,
    examples: Sequence[CellState] = (),
) -> Artifact:
    """Write the artifact of a Hamiltonian; it exists only if every back end agrees with float64 torch.

    `examples`: states to keep in the file (training data); random tissues where there are none.
    """
    path = Path(path)
    weights, network = weights_of(hamiltonian), hamiltonian.network
    external = hamiltonian.terms.get("external")
    metadata = Metadata(
        name=name or path.stem,
        architecture=hamiltonian.architecture,
        parameters=sum(p.numel() for p in hamiltonian.parameters() if p.requires_grad),
        types=hamiltonian.type_names,
        cells=hamiltonian.cells,
        fixed_cells=hamiltonian.cells if network is not None and network.spec.kind == "cnn" else None,
        fixed_lattice=external.shape if isinstance(external, ExternalPotential) else None,
        lattice=hamiltonian.lattice,
        temperature=temperature,
        extinction=extinction,
        receptive_field=neighbourhood_width(hamiltonian) if network is None else network.spec.receptive_field,
        symbolic=symbolic_spec(hamiltonian, weights),
        neural=None
        if network is None
        else NeuralEntry(**network.spec.model_dump(), weight=float(weights["neural.weight"])),
        training={"program": f"neuralcpm-bridge {__version__}", **(training or {})},
    )
    states = list(examples) or example_states(metadata, hamiltonian.property_spreads)
    metadata = metadata.model_copy(update={"examples": examples_of(hamiltonian, states)})
    return write_artifact(metadata, weights, path)


def neighbourhood_width(hamiltonian: Hamiltonian) -> int:
    """Sites across the widest neighbourhood that a term looks at."""
    offsets = [hamiltonian.geometry.offsets(order) for order in hamiltonian.orders.values()]
    return 1 + 2 * max((int(np.abs(each).max()) for each in offsets), default=0)


def write_artifact(metadata: Metadata, weights: dict[str, NDArray[Any]], path: str | Path) -> Artifact:
    """Write metadata and weights as one ONNX file; refused where a back end disagrees with the examples."""
    path = Path(path)
    metadata = metadata.model_copy(update={"weights_hash": weights_hash(weights)})
    model = build_model(metadata, weights)
    with writing(path) as temporary:
        temporary.write_bytes(sealed(model))
        written = load_artifact(temporary)
        check_backend(written, "onnxruntime")
    return replace(written, path=path)


def sealed(model: ModelProto) -> bytes:
    """A file that ends with an entry of the SHA-256 of all that is before, so that no byte of it changes unseen."""
    content = model.SerializeToString()
    seal = StringStringEntryProto(key=SEAL, value=hashlib.sha256(content).hexdigest())
    return content + ModelProto(metadata_props=[seal]).SerializeToString()  # messages add up


def weights_of(hamiltonian: Hamiltonian) -> dict[str, NDArray[Any]]:
    """Every named initialiser: effective values of the analytic terms (float64), the network's (float32)."""
    named: dict[str, torch.Tensor] = {}
    symbolic, network = hamiltonian.symbolic, hamiltonian.network
    with torch.no_grad():
        if symbolic is not None:
            named |= {"symbolic.weight": symbolic.weight(), "symbolic.offset": symbolic.offset.double()}
            for term, module in symbolic.terms.items():
                own = module.weights(len(hamiltonian.type_names))
                named |= {f"symbolic.{term}.{key}": value for key, value in own.items()}
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
    return SymbolicSpec(
        weight=float(weights["symbolic.weight"]),
        offset=float(weights["symbolic.offset"]),
        terms=described_terms(weights, hamiltonian.orders),
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
    for number, given in enumerate(states):
        state = given.reading(hamiltonian.properties)
        sites, new_ids = example_flips(state, number)
        changed = np.repeat(state.ids.reshape(1, -1), 1 + len(sites), axis=0)
        changed[1 + np.arange(len(sites)), sites] = new_ids
        ids = torch.from_numpy(changed.reshape(-1, *state.shape)).long()
        with torch.no_grad():
            types = torch.from_numpy(state.types).long().expand(len(ids), -1)
            properties = torch.from_numpy(state.property_table()).expand(len(ids), -1, -1)
            symbolic, neural = (part.cpu().numpy() for part in exact(ids, types, properties))
        total = symbolic + neural
        examples.append(
            Example(
                shape=state.shape,
                runs=Example.encode(state.ids),
                types=state.types.tolist(),
                properties={name: values.tolist() for name, values in state.properties.items()},
                energy=total[0],
                symbolic=symbolic[0],
                neural=neural[0],
                flips=list(zip(sites.tolist(), new_ids.tolist(), (total[1:] - total[0]).tolist(), strict=True)),
            )
        )
    return examples


def float64_copy(hamiltonian: Hamiltonian) -> Hamiltonian:
    """The ground truth: the weights as the file holds them, computed with in float64."""
    spec = hamiltonian.network.spec if hamiltonian.network is not None else None
    names, lattice, cells = hamiltonian.type_names, hamiltonian.lattice, hamiltonian.cells
    return from_weights(names, lattice, cells, weights_of(hamiltonian), hamiltonian.orders, spec).double()


def hamiltonian_from_artifact(artifact: Artifact) -> Hamiltonian:
    """The torch model of an artifact, to fine-tune or to check against."""
    meta = artifact.metadata
    spec = meta.neural.spec if meta.neural is not None else None
    return from_weights(meta.types, meta.lattice, meta.cells, artifact.weights, meta.orders, spec)


def from_weights(
    types: tuple[str, ...],
    lattice: LatticeEntry,
    cells: int | None,
    weights: Mapping[str, NDArray[Any]],
    orders: Mapping[str, int],
    spec: NeuralSpec | None,
) -> Hamiltonian:
    """A Hamiltonian with these named weights."""
    tensors = {key: torch.tensor(value) for key, value in weights.items()}
    symbolic = network = None
    if "symbolic.weight" in tensors:
        terms = []
        for name, term in TERMS.items():
            start = f"symbolic.{name}."
            if own := {key.removeprefix(start): value for key, value in tensors.items() if key.startswith(start)}:
                terms.append(term.from_weights(own, orders.get(name)))
        symbolic = Symbolic(
            *terms,
            weight=float(tensors["symbolic.weight"]),
            offset=float(tensors["symbolic.offset"]),
            train_weight=spec is not None,
        )
    if spec is not None:
        network = build_network(spec, len(types), cells, lattice)
        expected = {f"neural.{key}" for key in network.state_dict()}
        if expected != {key for key in tensors if key.startswith("neural.") and key != "neural.weight"}:
            raise UserError("The model's weights are not those its architecture needs: export the model again.")
        network.load_state_dict({key: tensors[f"neural.{key}"] for key in network.state_dict()})
    return Hamiltonian(
        types,
        symbolic,
        network,
        network_weight=float(tensors["neural.weight"]) if spec is not None else 1.0,
        train_network_weight=symbolic is not None,
        lattice=lattice,
        cells=cells,
    )
