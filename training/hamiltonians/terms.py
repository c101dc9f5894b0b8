"""The analytic terms of the cellular Potts model: ids `[B, H, W]` and types `[B, C]` → `[B]` float64."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from neuralcpm_bridge.state import MOORE_HALF


class Positive(nn.Module):
    """A parameter that is positive by construction: softplus of an unconstrained tensor."""

    def __init__(self, value: Tensor, trainable: bool = True) -> None:
        super().__init__()
        if not bool((value >= 0).all()):
            raise ValueError(f"a positive parameter was given {value.min().item()}")
        raw = torch.where(value > 20, value, torch.log(torch.expm1(value.double().clamp(max=20))).to(value.dtype))
        self.raw = nn.Parameter(raw, requires_grad=trainable)

    def forward(self) -> Tensor:
        return F.softplus(self.raw.double())


def pair_views(field: Tensor, periodic: bool) -> list[tuple[Tensor, Tensor]]:
    """Both ends of every unordered Moore pair of `[..., H, W]`, one entry per direction."""
    height, width = field.shape[-2:]
    pairs = []
    for down, right in MOORE_HALF:
        if periodic:
            pairs.append((field, torch.roll(field, (-down, -right), (-2, -1))))
        else:
            left, stop = max(0, -right), width - max(0, right)
            here = field[..., : height - down, left:stop]
            there = field[..., down:, left + right : stop + right]
            pairs.append((here, there))
    return pairs


class Contact(nn.Module):
    """1/4 Σ over unordered Moore pairs of different cells J[type, type]; J symmetric, medium with itself 0."""

    def __init__(self, J: Tensor, periodic: bool = True) -> None:
        super().__init__()
        self.periodic = periodic
        self.types = J.shape[0]
        self.pairs: list[tuple[int, int]] = [(a, b) for a in range(self.types) for b in range(a, self.types) if b > 0]
        self.energies = nn.Parameter(torch.stack([(J[a, b] + J[b, a]) / 2 for a, b in self.pairs]))

    @property
    def J(self) -> Tensor:
        """`[T, T]`, float64."""
        rows, cols = zip(*self.pairs, strict=True)
        matrix = torch.zeros(self.types, self.types, dtype=torch.float64, device=self.energies.device)
        values = self.energies.double()
        matrix = matrix.index_put((torch.tensor(rows), torch.tensor(cols)), values)
        return matrix.index_put((torch.tensor(cols), torch.tensor(rows)), values)

    def counts(self, ids: Tensor, types: Tensor) -> Tensor:
        """Unordered pairs of different cells by the types of their ends, `[B, T, T]` (not symmetrised)."""
        batch = ids.shape[0]
        # Narrow integers: half of the time is memory.
        own, kind = ids.int(), type_map_of(ids, types).int()
        total = torch.zeros(batch * self.types**2, dtype=torch.int64, device=ids.device)
        for (id_a, id_b), (type_a, type_b) in zip(
            pair_views(own, self.periodic), pair_views(kind, self.periodic), strict=True
        ):
            where = (id_a != id_b).nonzero(as_tuple=True)
            index = (where[0] * self.types + type_a[where]) * self.types + type_b[where]
            total += torch.bincount(index, minlength=total.numel())
        return total.view(batch, self.types, self.types)

    def forward(self, ids: Tensor, types: Tensor) -> Tensor:
        return (self.J * self.counts(ids, types)).sum((1, 2)) / 4


class Volume(nn.Module):
    """Σ over cells λ[type] (V − V*[type])²; a cell without pixels counts, an id of type −1 does not."""

    def __init__(self, strength: Tensor, target: Tensor, train_target: bool = False) -> None:
        super().__init__()
        # one entry per cell type (medium excluded), or one shared by all
        self.strength = Positive(strength)
        self.target = nn.Parameter(target.clone(), requires_grad=train_target)

    def of_types(self, count: int) -> tuple[Tensor, Tensor]:
        """λ and V* per type, medium (0) first, `[T]` float64 each."""
        values = []
        for value in (self.strength(), self.target.double()):
            cells = value.expand(count - 1) if value.numel() == 1 else value
            values.append(torch.cat([torch.zeros_like(cells[:1]), cells]))
        return values[0], values[1]

    def forward(self, ids: Tensor, types: Tensor, count: int) -> Tensor:
        strength, target = self.of_types(count)
        volumes = volumes_of(ids, types.shape[1]).double()
        of_cell = types.clamp(min=0)
        energies = strength[of_cell] * (volumes - target[of_cell]) ** 2
        return torch.where(types >= 1, energies, torch.zeros_like(energies)).sum(1)


class Surface(nn.Module):
    """Σ over cells strength[type] (S − target[type])², S a quarter of the ordered Moore pairs that leave the cell."""

    def __init__(self, strength: Tensor, target: Tensor, periodic: bool = True) -> None:
        super().__init__()
        # [T], medium first; a fit may find any sign of the strength
        self.strength, self.target = nn.Parameter(strength.clone()), nn.Parameter(target.clone())
        self.periodic = periodic

    def surfaces(self, ids: Tensor, cells: int) -> Tensor:
        """S of every id, `[B, C]`."""
        total = torch.zeros(ids.shape[0] * cells, dtype=torch.int64, device=ids.device)
        of_state = torch.arange(ids.shape[0], device=ids.device)[:, None, None] * cells
        for here, there in pair_views(ids, self.periodic):
            differs = here != there
            for end in (here, there):
                total += torch.bincount((of_state + end)[differs], minlength=total.numel())
        return total.view(ids.shape[0], cells).double() / 4

    def forward(self, ids: Tensor, types: Tensor) -> Tensor:
        of_cell = types.clamp(min=0)
        excess = self.surfaces(ids, types.shape[1]) - self.target.double()[of_cell]
        energies = self.strength.double()[of_cell] * excess**2
        return torch.where(types >= 1, energies, torch.zeros_like(energies)).sum(1)


class VolumeFunction(nn.Module):
    """Σ over cells f(V), any f per type (neuralcpm_bridge.conventions.VolumeFunction): what distilling finds.

    All parts are `[T]`, medium first; coefficients are `[T, K]`, of the powers 1 to K.
    """

    PARTS = ("center", "low", "high", "coefficients", "stiffness")

    def __init__(self, center: Tensor, low: Tensor, high: Tensor, coefficients: Tensor, stiffness: Tensor) -> None:
        super().__init__()
        self.coefficients, self.stiffness = nn.Parameter(coefficients.clone()), nn.Parameter(stiffness.clone())
        self.center: Tensor
        self.low: Tensor
        self.high: Tensor
        for name, value in (("center", center), ("low", low), ("high", high)):
            self.register_buffer(name, value.clone())

    def forward(self, ids: Tensor, types: Tensor) -> Tensor:
        volumes, of_cell = volumes_of(ids, types.shape[1]).double(), types.clamp(min=0)
        inside = torch.minimum(torch.maximum(volumes, self.low.double()[of_cell]), self.high.double()[of_cell])
        x, beyond = inside - self.center.double()[of_cell], volumes - inside
        coefficients = self.coefficients.double()[of_cell]
        powers = torch.arange(1, coefficients.shape[-1] + 1, device=ids.device)
        value = (coefficients * x[..., None] ** powers).sum(-1)
        slope = (coefficients * powers * x[..., None] ** (powers - 1)).sum(-1)
        energies = value + beyond * (slope + self.stiffness.double()[of_cell] * beyond)
        return torch.where(types >= 1, energies, torch.zeros_like(energies)).sum(1)


class ExternalPotential(nn.Module):
    """Σ over sites and fields field[k, site] · coupling[type, k]; bound to the lattice of its fields."""

    def __init__(self, field: Tensor, coupling: Tensor) -> None:
        super().__init__()
        self.field = nn.Parameter(field.clone())
        self.coupling = nn.Parameter(coupling.clone())

    def forward(self, ids: Tensor, types: Tensor) -> Tensor:
        coupling = self.coupling.double()[type_map_of(ids, types)]
        return torch.einsum("bhwk,khw->b", coupling, self.field.double())


def type_map_of(ids: Tensor, types: Tensor) -> Tensor:
    """Type of every site, `[B, H, W]`."""
    return torch.gather(types, 1, ids.flatten(1)).view_as(ids)


def volumes_of(ids: Tensor, cells: int) -> Tensor:
    """Sites of every id, `[B, C]`."""
    batch = ids.shape[0]
    index = ids.flatten(1) + torch.arange(batch, device=ids.device)[:, None] * cells
    return torch.bincount(index.flatten(), minlength=batch * cells).view(batch, cells)
