"""Weights of the paper's authors: what their JAX code saves (`*.eqx`), without JAX and without pickle.

Equinox writes a model's leaves one after another as NumPy arrays, in the order of its classes' fields, so the reader
walks the file as those classes are laid out. Where their code departs from the paper's text:

- their energy adds 1e-3 to λ (their fast ΔH of the symbolic models does not): λ here includes it;
- their contact term is periodic while their convolutions pad with zeros;
- the closure leaves out the offset of its symbolic part.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from neuralcpm_bridge.artifact import LatticeEntry, NeuralSpec
from neuralcpm_bridge.errors import UserError

from .hamiltonians import Contact, ExternalPotential, Hamiltonian, Symbolic, Term, Volume, build_network
from .hamiltonians.networks import ConvBlock, ConvNetwork, NeuralHamiltonian, NHLayer, ResidualLinear
from .hamiltonians.presets import LATTICES, NETWORKS
from .hamiltonians.term import Positive

Experiment = Literal["exp1", "exp2"]
EXPERIMENTS: dict[str, str] = {"exp1": "mnist", "exp2": "bipolar"}
NETWORK_OF: dict[str, str | None] = {
    "cellsort_baseline": None,
    "external_field_baseline": None,
    "conv_ham": "cnn",
    "shallow_nh": "nh-cnn",
    "nh": "nh",
    "nch": "nh",
}
LAMBDA_EXTRA = 1e-3
TYPE_NAMES = ("medium", "type1", "type2")


def import_reference(path: str | Path, experiment: str, model: str) -> Hamiltonian:
    """The Hamiltonian stored in one of the authors' weight files."""
    if experiment not in EXPERIMENTS:
        raise UserError(f"There is no experiment {experiment!r}: choose one of {', '.join(EXPERIMENTS)}.")
    if model not in NETWORK_OF:
        raise UserError(f"There is no model {model!r} in the paper: choose one of {', '.join(NETWORK_OF)}.")
    leaves = Leaves(Path(path), f"{experiment} {model}")
    lattice = LatticeEntry.of(shape=LATTICES[EXPERIMENTS[experiment]])
    network_name = NETWORK_OF[model]
    if network_name is None:
        symbolic, cells = read_symbolic(leaves, external=model == "external_field_baseline", with_offset=True)
        hamiltonian = Hamiltonian(TYPE_NAMES, symbolic, lattice=lattice, cells=cells)
    else:
        spec = NETWORKS[f"{EXPERIMENTS[experiment]}-{network_name}"]
        network, cells = read_cnn(leaves, spec) if spec.kind == "cnn" else read_nh(leaves, spec)
        symbolic, weight = None, 1.0
        if model == "nch":
            symbolic, _ = read_symbolic(leaves, external=False, with_offset=False)
            symbolic_weight = leaves.number("the weight of the symbolic part")
            weight = leaves.number("the network's weight")
            if symbolic_weight <= 0:
                raise UserError(
                    f"{path} weighs its symbolic part with {symbolic_weight:g}, but contact and volume energies need "
                    "a positive weight: this training run did not end in a usable model."
                )
            symbolic.weight = Positive(torch.tensor(symbolic_weight, dtype=torch.float64))
        if weight <= 0:  # only the product with the network counts, and weights here are positive
            with torch.no_grad():
                network.out.weight.mul_(weight)
                assert network.out.bias is not None
                network.out.bias.mul_(weight)
            weight = 1.0
        hamiltonian = Hamiltonian(
            TYPE_NAMES,
            symbolic,
            network,
            network_weight=weight,
            train_network_weight=symbolic is not None,
            lattice=lattice,
            cells=cells,
        )
    leaves.finish()
    return hamiltonian


class Leaves:
    """The arrays of a file, in order; every surprise is named."""

    def __init__(self, path: Path, what: str) -> None:
        self.path, self.what, self.taken = path, what, 0
        try:
            content = path.read_bytes()
        except OSError as error:
            raise UserError(f"{path} cannot be read ({error.strerror}): give the path of an .eqx file.") from None
        self._arrays = self._parse(content)

    def _parse(self, content: bytes) -> list[NDArray[Any]]:
        stream = io.BytesIO(content)
        arrays: list[NDArray[Any]] = []
        while stream.tell() < len(content):
            try:
                version = np.lib.format.read_magic(stream)
                read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
                shape, fortran, dtype = read_header[version](stream)
                size = int(np.prod(shape, dtype=object)) * dtype.itemsize
                if dtype.hasobject or size > len(content) - stream.tell():
                    raise ValueError
                array = np.frombuffer(stream.read(size), dtype).reshape(shape, order="F" if fortran else "C")
            except Exception:  # headers are parsed as Python, with whatever its own parsers raise
                raise UserError(
                    f"{self.path} is not a complete file of Equinox leaves (array {len(arrays)} cannot be read): "
                    "give a file saved by the authors' code."
                ) from None
            arrays.append(array)
        return arrays

    def take(self, shape: tuple[int, ...] | None, meaning: str) -> NDArray[Any]:
        """The next array, which must have this shape (None: any)."""
        if self.taken >= len(self._arrays):
            raise UserError(
                f"{self.path} ends after {len(self._arrays)} arrays, before {meaning}: it does not hold the model "
                f"{self.what}."
            )
        array = self._arrays[self.taken]
        if shape is not None and array.shape != shape:
            raise UserError(
                f"Array {self.taken} of {self.path} has shape {array.shape} where {meaning} of shape {shape} was "
                f"expected: it does not hold the model {self.what}."
            )
        self.taken += 1
        return array

    def number(self, meaning: str) -> float:
        """A scalar, saved as an array of one element or as a Python number."""
        array = self.take(None, meaning)
        if array.size != 1:
            raise UserError(
                f"Array {self.taken - 1} of {self.path} has shape {array.shape} where {meaning} was expected: it does "
                f"not hold the model {self.what}."
            )
        return float(array.reshape(()))

    def fill(self, layer: nn.Module, meaning: str) -> None:
        """Weight and bias of a convolution or a linear layer."""
        assert isinstance(layer, (nn.Conv2d, nn.Linear))
        assert layer.bias is not None
        bias_shape = (layer.bias.numel(), *(1,) * (layer.weight.dim() - 2))
        with torch.no_grad():
            layer.weight.copy_(torch.tensor(self.take(tuple(layer.weight.shape), f"the weight of {meaning}")))
            layer.bias.copy_(torch.tensor(self.take(bias_shape, f"the bias of {meaning}")).flatten())

    def finish(self) -> None:
        if self.taken != len(self._arrays):
            raise UserError(
                f"{self.path} holds {len(self._arrays)} arrays, but the model {self.what} has {self.taken}: choose the "
                "experiment and the model it was trained as."
            )


def read_symbolic(leaves: Leaves, external: bool, with_offset: bool) -> tuple[Symbolic, int]:
    """Contact, volume (and external potential); returns also the number of ids."""
    count = len(TYPE_NAMES)
    for _ in range(count * (count + 1) // 2):
        leaves.number("an initial contact energy")  # superseded by the matrix that follows
    matrix = leaves.take((count, count), "the contact matrix").astype(np.float64)
    target = leaves.number("the target volume")
    strength = leaves.number("the volume strength")
    cells = int(leaves.number("the number of ids"))
    leaves.number("the number of types")
    scale, shift = leaves.number("the contact scale"), leaves.number("the contact shift")
    leaves.number("a flag")
    offset = leaves.number("the energy offset") * leaves.number("the scale of the energy offset")
    contact = softplus(scale) * (matrix + matrix.T) / 2 + shift
    terms: list[Term] = []
    if external:
        field = leaves.take(None, "the external field")
        if field.ndim != 2:
            raise UserError(f"The external field in {leaves.path} has shape {field.shape}, but [H, W] was expected.")
        coupling = leaves.take((count,), "the field's coupling")
        terms.append(ExternalPotential(torch.tensor(field)[None], torch.tensor(coupling)[:, None]))
    # float64, so that folding their parametrisation into ours costs no digits
    terms.append(Contact(torch.tensor(contact, dtype=torch.float64)))
    terms.append(
        Volume(
            torch.tensor([softplus(strength) + LAMBDA_EXTRA], dtype=torch.float64),
            torch.tensor([target], dtype=torch.float64),
            train_target=True,
        )
    )
    return Symbolic(*terms, offset=offset if with_offset else 0.0), cells


def read_nh(leaves: Leaves, spec: NeuralSpec) -> tuple[NeuralHamiltonian, int]:
    cells, types = int(leaves.number("the number of ids")), int(leaves.number("the number of types"))
    if types != len(TYPE_NAMES):
        raise UserError(f"{leaves.path} was trained with {types} types, but the paper's models have {len(TYPE_NAMES)}.")
    network = build_network(spec, types)
    assert isinstance(network, NeuralHamiltonian)
    for number, layer in enumerate(network.layers):
        assert isinstance(layer, NHLayer)
        leaves.number("the residual flag")
        leaves.number("the number of interaction channels")
        for part in (layer.phi0, layer.phi1, layer.psi0, layer.psi1, layer.reduce, layer.mix, layer.skip):
            if not isinstance(part, nn.Identity):
                leaves.fill(part, f"NH layer {number}")
    leaves.fill(network.project, "the projection before the sum")
    for block in network.blocks if spec.kind == "nh_cnn" else ():
        read_block(leaves, block)
    read_head(leaves, network)
    skip_pools(leaves, len(spec.pools) + len(spec.conv_pools))
    leaves.fill(network.embedding, "the embedding")
    leaves.number("a flag")
    return network, cells


def read_cnn(leaves: Leaves, spec: NeuralSpec) -> tuple[ConvNetwork, int]:
    cells, types = int(leaves.number("the number of ids")), int(leaves.number("the number of types"))
    network = build_network(spec, types, cells)
    assert isinstance(network, ConvNetwork)
    leaves.fill(network.project, "the projection before the sum")
    read_head(leaves, network)
    skip_pools(leaves, len(spec.conv_pools))
    leaves.fill(network.embedding, "the embedding")
    leaves.number("a flag")
    for block in network.blocks:
        read_block(leaves, block)
    return network, cells


def read_block(leaves: Leaves, block: nn.Module) -> None:
    assert isinstance(block, ConvBlock)
    leaves.fill(block.conv0, "a convolution block")
    leaves.fill(block.conv1, "a convolution block")
    leaves.number("the block's input channels")
    leaves.number("the block's output channels")
    if not isinstance(block.skip, nn.Identity):
        leaves.fill(block.skip, "a convolution block's residual")
    leaves.number("the residual flag")


def read_head(leaves: Leaves, network: NeuralHamiltonian | ConvNetwork) -> None:
    for layer in network.mlp:
        assert isinstance(layer, ResidualLinear)
        leaves.fill(layer.linear, "a dense layer")
        leaves.number("the layer's inputs")
        leaves.number("the layer's outputs")
        if not isinstance(layer.skip, nn.Identity):
            leaves.fill(layer.skip, "a dense layer's residual")
        leaves.number("the residual flag")
    leaves.fill(network.out, "the output layer")


def skip_pools(leaves: Leaves, count: int) -> None:
    for _ in range(count):
        leaves.number("a pooling layer's initial value")


def softplus(value: float) -> float:
    return float(np.logaddexp(0.0, value))
