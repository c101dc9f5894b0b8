"""Networks of convolutions: Neural Hamiltonian, its CNN variants, Local Neural Hamiltonian (docs/artifact.md).

Module names are the names of the artifact's weights: `neural.` + state_dict key.
Activations are `[B, C, channels, h, w]`: states, cells, features, coarse lattice.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from neuralcpm_bridge.artifact import LatticeEntry, NeuralSpec

from .cell_graph import CellGraph
from .states import type_map_of

Padding = Literal["zeros", "circular"]


def conv3x3(inputs: int, outputs: int, padding: Padding) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, padding=1, padding_mode=padding)


def pointwise(inputs: int, outputs: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 1)


def per_cell(module: nn.Module, h: Tensor) -> Tensor:
    """Apply an image module to every cell of every state."""
    return module(h.flatten(0, 1)).unflatten(0, h.shape[:2])


def max_pool(h: Tensor, size: int) -> Tensor:
    return h if size == 1 else F.max_pool2d(h.flatten(0, -4), size).unflatten(0, h.shape[:-3])


class CellEmbedding(nn.Conv2d):
    """Strided convolution of own occupancy and the one-hot type map; the type part is computed once per state."""

    def __init__(self, types: int, width: int, stride: int) -> None:
        super().__init__(1 + types, width, stride, stride=stride)

    def embed(self, own: Tensor, types: Tensor) -> Tensor:
        """own `[B, C, H, W]`, types `[B, T, H, W]` → `[B, C, width, h, w]`."""
        own_part = F.conv2d(own.flatten(0, 1).unsqueeze(1), self.weight[:, :1], stride=self.stride)
        type_part = F.conv2d(types, self.weight[:, 1:], self.bias, stride=self.stride)
        return own_part.unflatten(0, own.shape[:2]) + type_part.unsqueeze(1)


class NHLayer(nn.Module):
    """φ per cell, sum over cells, ψ on each cell with the sum; relative to slot 0 in a Local NH."""

    def __init__(self, inputs: int, width: int, padding: Padding) -> None:
        super().__init__()
        self.reduce = pointwise(inputs, width)
        self.phi0 = conv3x3(width, width, padding)
        self.phi1 = conv3x3(width, width, padding)
        self.mix = pointwise(width, width)
        self.psi0 = conv3x3(inputs + width, width, padding)
        self.psi1 = conv3x3(width, width, padding)
        self.skip = pointwise(inputs, width) if inputs != width else nn.Identity()

    def forward(self, h: Tensor, counts: Tensor, relative: bool) -> Tensor:
        """h `[B, C, in, h, w]`; counts `[B, C]`: 1 for the cells that take part in sums."""
        phi = per_cell(nn.Sequential(self.reduce, self.phi0, nn.SiLU(), self.phi1, nn.SiLU()), h)
        if relative:
            phi = phi - phi[:, :1]
        total = self.mix((phi * counts[:, :, None, None, None]).sum(1))
        both = torch.cat([h, total.unsqueeze(1).expand(-1, h.shape[1], -1, -1, -1)], dim=2)
        return per_cell(nn.Sequential(self.psi0, nn.SiLU(), self.psi1), both) + per_cell(self.skip, h)


class ConvBlock(nn.Module):
    """Two {3×3, SiLU} with a residual, on summed or stacked cells."""

    def __init__(self, inputs: int, width: int, padding: Padding) -> None:
        super().__init__()
        self.conv0 = conv3x3(inputs, width, padding)
        self.conv1 = conv3x3(width, width, padding)
        self.skip = pointwise(inputs, width) if inputs != width else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return F.silu(self.conv1(F.silu(self.conv0(x)))) + self.skip(x)


class ResidualLinear(nn.Module):
    """{Linear, SiLU} with a residual, in float64: it sits behind a sum over the whole lattice."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.skip = nn.Linear(inputs, outputs) if inputs != outputs else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        skip = linear64(self.skip, x) if isinstance(self.skip, nn.Linear) else x
        return F.silu(linear64(self.linear, x)) + skip


def linear64(layer: nn.Linear | nn.Conv2d, x: Tensor, times: Tensor | float = 1.0) -> Tensor:
    """A dense or 1×1 layer on `[B, in]` in float64; `times`: how many summands share its bias."""
    weight, bias = layer.weight.double().flatten(1), layer.bias
    assert bias is not None
    return F.linear(x, weight) + bias.double() * times


class GlobalHead(nn.Module):
    """The dense layers behind a sum over the whole lattice, named as in the artifact by mixing in."""

    mlp: nn.ModuleList
    out: nn.Linear

    def build_head(self, inputs: int, spec: NeuralSpec) -> None:
        sizes = (inputs, *spec.mlp)
        self.mlp = nn.ModuleList(ResidualLinear(a, b) for a, b in zip(sizes, spec.mlp, strict=False))
        self.out = nn.Linear(sizes[-1], 1)

    def scalar(self, x: Tensor) -> Tensor:
        for layer in self.mlp:
            x = layer(x)
        return linear64(self.out, x).squeeze(1)


def one_hot_types(ids: Tensor, types: Tensor, count: int, dtype: torch.dtype) -> Tensor:
    """`[B, T, H, W]`."""
    return (type_map_of(ids, types).unsqueeze(1) == torch.arange(count, device=ids.device)[:, None, None]).to(dtype)


def own_occupancy(ids: Tensor, cells: int, dtype: torch.dtype, first: int = 0) -> Tensor:
    """`[B, C, H, W]`; ids below `first` own nothing."""
    numbers = torch.arange(cells, device=ids.device)
    numbers = torch.where(numbers < first, -1, numbers)
    return (ids.unsqueeze(1) == numbers[:, None, None]).to(dtype)


class CellwiseNetwork(nn.Module):
    """What NH, NH + CNN and Local NH share: embedding and NH layers on every cell."""

    def __init__(self, spec: NeuralSpec, types: int) -> None:
        super().__init__()
        self.spec, self.types = spec, types
        self.embedding = CellEmbedding(types, spec.widths[0], spec.stride)
        inputs = (spec.widths[0], *spec.widths[:-1])
        self.layers = nn.ModuleList(NHLayer(a, b, spec.padding) for a, b in zip(inputs, spec.widths, strict=True))

    def cell_features(self, ids: Tensor, types: Tensor, relative: bool) -> tuple[Tensor, Tensor]:
        """`[B, C, W, h, w]` and who counts `[B, C]`. Relative: slot 0 is the absent cell, not the medium."""
        dtype = self.embedding.weight.dtype
        own = own_occupancy(ids, types.shape[1], dtype, first=1 if relative else 0)
        h = self.embedding.embed(own, one_hot_types(ids, types, self.types, dtype))
        counts = (types >= 0).to(dtype)
        for layer, pool in zip(self.layers, self.spec.pools or (1,) * len(self.layers), strict=True):
            h = max_pool(layer(h, counts, relative), pool)
        return h, counts


class NeuralHamiltonian(CellwiseNetwork, GlobalHead):
    """The paper's NH (and 1 NH layer + CNN, where convolution blocks follow the sum over cells)."""

    def __init__(self, spec: NeuralSpec, types: int) -> None:
        super().__init__(spec, types)
        self.project = pointwise(spec.widths[-1], spec.project)
        if spec.kind == "nh_cnn":
            sizes = (spec.project, *spec.conv_widths)
            self.blocks = nn.ModuleList(
                ConvBlock(a, b, spec.padding) for a, b in zip(sizes, spec.conv_widths, strict=False)
            )
        self.build_head(spec.conv_widths[-1] if spec.kind == "nh_cnn" else spec.project, spec)

    def forward(self, ids: Tensor, types: Tensor) -> Tensor:
        h, counts = self.cell_features(ids, types, relative=False)
        cells = counts.sum(1, dtype=torch.float64)
        if self.spec.kind == "nh":
            sites = h.shape[-2] * h.shape[-1]
            total = torch.einsum("bckyx,bc->bk", h.double(), counts.double())
            return self.scalar(linear64(self.project, total, times=cells[:, None] * sites))
        assert self.project.bias is not None
        x = F.conv2d((h * counts[:, :, None, None, None]).sum(1), self.project.weight)
        x = x + self.project.bias[:, None, None] * cells.to(x.dtype)[:, None, None, None]
        for block, pool in zip(self.blocks, self.spec.conv_pools, strict=True):
            x = max_pool(block(x), pool)
        return self.scalar(x.double().sum((2, 3)))


class ConvNetwork(GlobalHead):
    """CNN on all one-hot channels stacked: no permutation symmetry, bound to its number of cells."""

    def __init__(self, spec: NeuralSpec, types: int, cells: int) -> None:
        super().__init__()
        self.spec, self.types, self.cells = spec, types, cells
        self.embedding = nn.Conv2d(cells + types, spec.conv_widths[0], spec.stride, stride=spec.stride)
        inputs = (spec.conv_widths[0], *spec.conv_widths[:-1])
        sizes = zip(inputs, spec.conv_widths, strict=True)
        self.blocks = nn.ModuleList(ConvBlock(a, b, spec.padding) for a, b in sizes)
        self.project = pointwise(spec.conv_widths[-1], spec.project)
        self.build_head(spec.project, spec)

    def forward(self, ids: Tensor, types: Tensor) -> Tensor:
        dtype = self.embedding.weight.dtype
        channels = [own_occupancy(ids, self.cells, dtype), one_hot_types(ids, types, self.types, dtype)]
        x = self.embedding(torch.cat(channels, dim=1))
        for block, pool in zip(self.blocks, self.spec.conv_pools, strict=True):
            x = max_pool(block(x), pool)
        sites = x.shape[-2] * x.shape[-1]
        return self.scalar(linear64(self.project, x.double().sum((2, 3)), times=sites))


class SiteHead(nn.Module):
    """Energy of one cell's features at one site: linear, SiLU, linear."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(inputs, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, h: Tensor) -> Tensor:
        """`[..., channels, h, w]` → `[..., h, w]`."""
        hidden = F.silu(self.hidden(h.movedim(-3, -1)))
        return self.out(hidden).squeeze(-1)


class LocalNeuralHamiltonian(CellwiseNetwork):
    """NH layers without pooling whose sums are relative to an absent cell: an extensive, local energy."""

    def __init__(self, spec: NeuralSpec, types: int) -> None:
        super().__init__(spec, types)
        self.cell_head = SiteHead(spec.widths[-1], spec.project)
        self.background_head = SiteHead(spec.widths[-1], spec.project)

    def forward(self, ids: Tensor, types: Tensor) -> Tensor:
        h, counts = self.cell_features(ids, types, relative=True)
        energies = self.cell_head(h).double()
        relative = torch.einsum("bcyx,bc->b", energies - energies[:, :1], counts.double())
        return relative + self.background_head(h[:, 0]).double().sum((1, 2))


Network = CellGraph | CellwiseNetwork | ConvNetwork


def build_network(
    spec: NeuralSpec,
    types: int,
    cells: int | None = None,
    lattice: LatticeEntry | None = None,
    volume: float = 100.0,
) -> Network:
    """The network of these sizes for T types (medium included); a CNN needs its number of ids, a cell graph its
    lattice, and knows cells of a typical volume until it sees data."""
    if spec.kind == "cell_graph":
        return CellGraph(spec, types, lattice or LatticeEntry(), volume)
    if spec.kind == "local_nh":
        return LocalNeuralHamiltonian(spec, types)
    if spec.kind == "cnn":
        if cells is None:
            raise ValueError("a CNN is bound to its number of ids: pass cells")
        return ConvNetwork(spec, types, cells)
    return NeuralHamiltonian(spec, types)
