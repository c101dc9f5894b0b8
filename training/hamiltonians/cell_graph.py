"""The cell graph: an energy of cells and their contacts, on every lattice (docs/artifact.md has the formulas).

Module names are the names of the artifact's weights: `neural.` + state_dict key.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from neuralcpm_bridge.artifact import CELL_INPUTS, LatticeEntry, NeuralSpec
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.lattice import geometry_named

from .graphs import EDGE_INPUTS, CellGraphs, describe
from .states import States

FARTHEST = 3.0
"""Inputs are clamped softly to so many deviations: outside of what it has seen, the energy goes flat."""

LOUDEST, LOUDEST_TOUCH = 255.0, 7.0
"""Of a message's entries, of those weighed by contact and of those of every touch: what the engine's whole numbers
hold."""

TOUCH = 0.5
"""Weight of a touch, however short: half of a message's entries count neighbours instead of measuring contacts."""

MARGIN = 1e-5
"""By which stored ranges are wider than the data, as a share of their values and deviations: rounding is not outside,
not even of a round cell's anisotropy, which is 0."""


class Round(nn.Module):
    """h_i ← h_i + ψ(h_i, Σ_j w_ij φ(h_i, h_j, e_ij) + w_i0 φ(h_i, medium)).

    The weights w of the first half of φ's entries are shares of the cell's border, those of the second half are the
    same for every neighbour."""

    loudest: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.own = nn.Linear(width, width)
        self.other = nn.Linear(width, width, bias=False)
        self.edge = nn.Linear(len(EDGE_INPUTS), width, bias=False)
        self.medium = nn.Parameter(torch.empty(width).uniform_(-1, 1) / width**0.5)
        self.psi0 = nn.Linear(2 * width, width)
        self.psi1 = nn.Linear(width, width)
        loudest = torch.tensor([LOUDEST, LOUDEST_TOUCH]).repeat_interleave(width // 2)
        self.register_buffer("loudest", loudest, persistent=False)

    def forward(self, h: Tensor, weighted: Weighted) -> Tensor:
        """h `[N, W]`."""
        own, other = self.own(h), self.other(h)
        loud = self.sound(own[weighted.receiver] + other[weighted.sender] + self.edge(weighted.edges))
        total = self.weighed(weighted.to_medium, self.sound(own + self.medium))
        total = total.index_add(0, weighted.receiver, self.weighed(weighted.to_cells, loud))
        return h + self.psi1(F.silu(self.psi0(torch.cat([h, total], dim=1))))

    def sound(self, values: Tensor) -> Tensor:
        return F.silu(values).minimum(self.loudest)

    @staticmethod
    def weighed(weights: Tensor, values: Tensor) -> Tensor:
        """Both halves of the entries `[n, W]` times their own weight `[n, 2]`."""
        return (values.unflatten(1, (2, -1)) * weights[:, :, None]).flatten(1)


class Weighted(NamedTuple):
    """Graphs as the members of a committee see them: standardised inputs, contacts as shares."""

    cells: Tensor
    """Types one-hot and inputs, `[N, T−1+F]`."""
    receiver: Tensor
    sender: Tensor
    edges: Tensor
    """`[E, 5]`."""
    to_cells: Tensor
    """w_ij of both halves of a message, `[E, 2]`; `to_medium`: w_i0, `[N, 2]`."""
    to_medium: Tensor


class Member(nn.Module):
    """One network of a committee: the energy of every cell."""

    def __init__(self, inputs: int, width: int, rounds: int, type_pairs: int = 0, knots: int = 0) -> None:
        super().__init__()
        self.embed = nn.Linear(inputs, width)
        self.embed_more = nn.Linear(width, width)
        self.rounds = nn.ModuleList(Round(width) for _ in range(rounds))
        self.hidden = nn.Linear(width, width)
        self.out = nn.Linear(width, 1)
        if knots:
            self.pairs = nn.Parameter(torch.zeros(type_pairs, knots))
            """Energy of a pair of cells by its types and distance, between knots linear."""

    def forward(self, weighted: Weighted) -> Tensor:
        """Of cells and their contacts, `[N]`."""
        h = self.embed_more(F.silu(self.embed(weighted.cells)))
        for message_round in self.rounds:
            h = message_round(h, weighted)
        return self.out(F.silu(self.hidden(h))).squeeze(1)


class CellGraph(nn.Module):
    """The mean of a committee of networks on the same cells and contacts; `lattice`: geometry and boundary."""

    cell_mean: Tensor
    cell_deviation: Tensor
    edge_mean: Tensor
    edge_deviation: Tensor
    surface: Tensor
    low: Tensor
    high: Tensor
    reach: Tensor

    def __init__(self, spec: NeuralSpec, types: int, lattice: LatticeEntry, volume: float = 100.0) -> None:
        """`volume`: a typical one, from which statistics are guessed as long as no data have been seen."""
        super().__init__()
        self.spec, self.types, self.lattice = spec, types, lattice
        inputs = len(CELL_INPUTS) + len(spec.properties)
        for name, value in typical(volume, lattice, spec).items():
            self.register_buffer(name, value)
        for name in ("low", "high"):
            self.register_buffer(name, torch.zeros(types, inputs))
        if spec.knots:
            self.register_buffer("reach", torch.tensor(volume**0.5 * (spec.knots - 1) / 2))
        sizes = (types - 1 + inputs, spec.width, spec.rounds, types * (types - 1) // 2, spec.knots)
        self.members = nn.ModuleList(Member(*sizes) for _ in range(spec.members))

    def forward(self, ids: Tensor, types: Tensor, properties: Tensor | None = None) -> Tensor:
        """Mean over members, `[B]` float64; properties `[B, C, P]` in the order of their names."""
        states = States(ids, types, self.lattice.with_shape(ids.shape[1:]), properties)
        return self.member_energies(self.describe(states)).mean(1)

    def describe(self, states: States) -> CellGraphs:
        given = states.properties.shape[2]
        if given != len(self.spec.properties):
            wanted = ", ".join(self.spec.properties) or "none"
            raise UserError(
                f"The model reads the properties of cells {wanted}, but {given} were given: give exactly those."
            )
        return describe(states, self.spec.order, self.spec.knots > 0)

    def member_energies(self, graphs: CellGraphs) -> Tensor:
        """Of every state by every member, `[B, K]` float64."""
        cells = self.cell_energies(graphs).double()
        return cells.new_zeros(graphs.batch, cells.shape[1]).index_add(0, graphs.state, cells)

    def cell_energies(self, graphs: CellGraphs) -> Tensor:
        """Of every cell by every member, `[N, K]`, in the precision of the weights; half of a pair's is each cell's."""
        weighted = self.weighted(graphs)
        cells = torch.stack([member(weighted) for member in self.members], dim=1)
        if not self.spec.knots:
            return cells
        halves = self.pairs_at_knots(graphs) @ self.pair_energies().flatten(1).T / 2
        return cells.double() + halves

    def pair_energies(self) -> Tensor:
        """By member, pair of types and knot, `[K, P, knots]` float64."""
        return torch.stack([cast(Member, member).pairs for member in self.members]).double()

    @torch.no_grad()
    def pairs_at_knots(self, graphs: CellGraphs) -> Tensor:
        """How many pairs every cell has of each kind at each knot, shares of those between knots included,
        `[N, P · knots]` float64."""
        assert graphs.distances is not None
        receiver, sender, apart = graphs.distances
        at = (apart / (self.reach.double() / (self.spec.knots - 1))).clamp(max=self.spec.knots - 1)
        knot = at.long().clamp(max=self.spec.knots - 2)
        low = torch.minimum(graphs.types[receiver], graphs.types[sender]) - 1
        high = torch.maximum(graphs.types[receiver], graphs.types[sender]) - 1
        row = low * (self.types - 1) - torch.div(low * (low - 1), 2, rounding_mode="floor") + high - low
        size = self.types * (self.types - 1) // 2 * self.spec.knots
        first = receiver * size + row * self.spec.knots + knot
        counts = torch.zeros(len(graphs.types) * size, dtype=torch.float64, device=apart.device)
        counts.index_add_(0, first, 1 - (at - knot)).index_add_(0, first + 1, at - knot)
        return counts.view(len(graphs.types), size)

    def inside_range(self, graphs: CellGraphs) -> Tensor:
        """Of every cell, whether all its inputs lie within what the training data had of its type, `[N]` bool."""
        low, high = self.low[graphs.types].double(), self.high[graphs.types].double()
        return ((graphs.inputs >= low) & (graphs.inputs <= high)).all(1)

    def weighted(self, graphs: CellGraphs) -> Weighted:
        dtype = self.surface.dtype
        one_hot = F.one_hot(graphs.types - 1, self.types - 1)
        cells = standardised(graphs.inputs, self.cell_mean, self.cell_deviation)
        norm = (self.surface.double().square() + graphs.surface.square()).sqrt()
        return Weighted(
            torch.cat([one_hot, cells], dim=1).to(dtype),
            graphs.receiver,
            graphs.sender,
            standardised(graphs.contacts, self.edge_mean, self.edge_deviation).to(dtype),
            heard(graphs.contacts[:, 0], norm[graphs.receiver]).to(dtype),
            heard(graphs.medium, norm).to(dtype),
        )

    @torch.no_grad()
    def learn_statistics(self, graphs: Iterable[CellGraphs]) -> None:
        """Take means, deviations and ranges of the inputs from data."""
        seen = list(graphs)
        inputs, contacts, types = (
            torch.cat([getattr(each, name) for each in seen]) for name in ("inputs", "contacts", "types")
        )
        if not len(inputs):
            raise UserError("The data set has no cells, so it has no typical cell: give states with cells.")
        for name, values in (("cell", inputs), ("edge", contacts)):
            if len(values):
                getattr(self, f"{name}_mean").copy_(values.mean(0))
                deviation = values.std(0, correction=0)
                constant = deviation <= 1e-6 * values.abs().amax(0)
                getattr(self, f"{name}_deviation").copy_(torch.where(constant, 1.0, deviation))
        for statistic in (self.edge_mean, self.edge_deviation):
            statistic[-2:] = statistic[-2:].mean()  # radii of both cells of all contacts: the same, but for rounding
        self.surface.copy_(torch.cat([each.surface for each in seen]).mean().clamp(min=1e-3))
        if self.spec.knots:
            apart = torch.cat([each.distances.apart for each in seen if each.distances is not None])
            self.reach.copy_(apart.max() if len(apart) else self.reach)
        for cell_type in range(1, self.types):
            own = inputs[types == cell_type]
            if len(own):
                least, most = own.amin(0), own.amax(0)
                self.low[cell_type] = least - MARGIN * (least.abs() + self.cell_deviation)
                self.high[cell_type] = most + MARGIN * (most.abs() + self.cell_deviation)


def heard(contact: Tensor, norm: Tensor) -> Tensor:
    """Weights of messages along contacts `[n]`: as a share of the receiver's border, and as a touch; `[n, 2]`."""
    return torch.stack([contact / norm, TOUCH * (contact > 0)], dim=1)


def standardised(values: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
    """Within ± 3, smooth, hardly changed near the data."""
    z = (values - mean.double()) / deviation.double()
    return z / (1 + z.square() / FARTHEST**2).sqrt()


def typical(volume: float, lattice: LatticeEntry, spec: NeuralSpec) -> dict[str, Tensor]:
    """Statistics of round cells of so many sites, before data are seen."""
    geometry, properties = geometry_named(lattice.geometry), len(spec.properties)
    space = volume * geometry.site_volume
    if geometry.dimension == 2:
        radius = (space / torch.pi) ** 0.5
        gyration, surface = radius / 2**0.5, 2 * torch.pi * radius
    else:
        radius = (3 * space / (4 * torch.pi)) ** (1 / 3)
        gyration, surface = radius * 0.6**0.5, 4 * torch.pi * radius**2
    surface *= geometry.pairs_per_length(spec.order) * geometry.pair_weight(spec.order)
    along = gyration / geometry.dimension**0.5
    return {
        "cell_mean": torch.tensor([volume, 0.3, gyration, surface, 0.0] + [0.0] * properties),
        "cell_deviation": torch.tensor([volume / 4, 0.2, gyration / 4, surface / 4, 0.2] + [1.0] * properties),
        "edge_mean": torch.tensor([surface / 6, 2 * radius, 1 / geometry.dimension, along, along]),
        "edge_deviation": torch.tensor([surface / 12, radius / 2, 0.2, along / 4, along / 4]),
        "surface": torch.tensor(surface),
    }
