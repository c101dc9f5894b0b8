"""A Hamiltonian: w_S · (analytic terms) + w_NN · (network)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn

from neuralcpm_bridge.artifact import CELL_INPUTS, LatticeEntry, architecture_name
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.lattice import Geometry, Layout, geometry_named
from neuralcpm_bridge.state import CellState
from neuralcpm_bridge.terms import TERMS as DECLARED

from .cell_graph import CellGraph
from .networks import Network
from .states import Flips, States
from .term import TERMS, Positive, Term

AnyTerm = TypeVar("AnyTerm", bound=Term)


class Energies(NamedTuple):
    """w_S·H_S and w_NN·H_NN of every state, `[B]` float64."""

    symbolic: Tensor
    neural: Tensor

    @property
    def total(self) -> Tensor:
        return self.symbolic + self.neural


class Symbolic(nn.Module):
    """w_S · (offset + the sum of terms); each term is also an attribute under its name."""

    def __init__(self, *terms: Term, weight: float = 1.0, offset: float = 0.0, train_weight: bool = False) -> None:
        super().__init__()
        for term in sorted(terms, key=lambda term: list(TERMS).index(term.name)):
            self.add_module(term.name, term)
        self.weight = Positive(torch.tensor(weight, dtype=torch.float64), trainable=train_weight)
        self.offset = nn.Parameter(torch.tensor(offset, dtype=torch.float64), requires_grad=False)

    @property
    def terms(self) -> dict[str, Term]:
        """By name, in the order in which their energies are added."""
        return {name: cast(Term, self._modules[name]) for name in TERMS if name in self._modules}

    def find(self, kind: type[AnyTerm]) -> AnyTerm | None:
        """The term of this class, if there is one."""
        return cast("AnyTerm | None", self.terms.get(kind.name))

    def forward(self, states: States) -> Tensor:
        energy = self.offset.double().expand(states.ids.shape[0])
        for term in self.terms.values():
            energy = energy + term(states)
        return self.weight() * energy

    def flip_delta(self, flips: Flips) -> Tensor:
        """ΔH `[B, n]` of independent flips."""
        total = torch.zeros(flips.sites.shape, dtype=torch.float64, device=flips.sites.device)
        for term in self.terms.values():
            total = total + term.flip_delta(flips)
        return self.weight() * total


class Hamiltonian(nn.Module):
    """H of a state; what training optimises and export writes. `lattice`: where it is defined, on any size."""

    def __init__(
        self,
        types: tuple[str, ...],
        symbolic: Symbolic | None = None,
        network: Network | None = None,
        network_weight: float = 1.0,
        train_network_weight: bool = False,
        lattice: LatticeEntry | None = None,
        cells: int | None = None,
    ) -> None:
        super().__init__()
        if symbolic is None and network is None:
            raise ValueError("a Hamiltonian needs analytic terms, a network or both")
        self.type_names, self.lattice, self.cells = types, lattice or LatticeEntry(), cells
        if network is not None and not network.spec.is_graph and self.lattice.geometry != "square":
            raise UserError(
                f"A network of convolutions was chosen for a {self.lattice.geometry} lattice, but it exists on 2D "
                "square ones only: choose a cell graph, such as the preset graph1-closure, or analytic terms."
            )
        self.symbolic, self.network = symbolic, network
        self.network_weight = None
        if network is not None:
            weight = torch.tensor(network_weight, dtype=torch.float64)
            self.network_weight = Positive(weight, trainable=train_network_weight)

    @property
    def terms(self) -> dict[str, Term]:
        """The analytic terms by name."""
        return self.symbolic.terms if self.symbolic is not None else {}

    @property
    def geometry(self) -> Geometry:
        return geometry_named(self.lattice.geometry)

    @property
    def orders(self) -> dict[str, int]:
        """Neighbour order of every term that has one."""
        found = {name: term.order for name, term in self.terms.items() if DECLARED[name].ordered}
        return {name: self.geometry.moore_order if order is None else order for name, order in found.items()}

    @property
    def architecture(self) -> str:
        return architecture_name(set(self.terms), self.network.spec.kind if self.network is not None else None)

    @property
    def properties(self) -> tuple[str, ...]:
        """Named properties of cells that it reads."""
        return self.network.spec.properties if self.network is not None else ()

    @property
    def property_spreads(self) -> dict[str, tuple[float, float]]:
        """Mean and deviation of these over the training data."""
        if not isinstance(self.network, CellGraph):
            return {}
        statistics = (self.network.cell_mean, self.network.cell_deviation)
        columns = (values[len(CELL_INPUTS) :].tolist() for values in statistics)
        return dict(zip(self.properties, zip(*columns, strict=True), strict=True))

    def states(self, ids: Tensor, types: Tensor, properties: Tensor | None = None, layout: Layout = "axes") -> States:
        """ids `[B, *shape]`, types `[B, C]` and properties `[B, C, P]` on this Hamiltonian's lattice."""
        return States(ids, types, replace(self.lattice.with_shape(ids.shape[1:]), layout=layout), properties)

    def forward(self, ids: Tensor, types: Tensor, properties: Tensor | None = None) -> Energies:
        """ids `[B, *shape]` int64, types `[B, C]` int64 (−1 = no such cell)."""
        return self.of(self.states(ids, types, properties))

    def of(self, states: States) -> Energies:
        """Energies of states; what was measured about them before is not measured again."""
        return Energies(self.symbolic_energies(states), self.member_energies(states).mean(1))

    def symbolic_energies(self, states: States) -> Tensor:
        """w_S·H_S, `[B]`."""
        return states.no_energy if self.symbolic is None else self.symbolic(states)

    def member_energies(self, states: States) -> Tensor:
        """w_NN·H_NN as every member of a committee has it, `[B, K]`; other networks are their only member."""
        if self.network is None or self.network_weight is None:
            return states.no_energy[:, None]
        if isinstance(self.network, CellGraph):
            members = self.network.member_energies(self.network.describe(states))
        else:
            members = self.network(states.ids, states.types)[:, None]
        return self.network_weight() * members

    def flip_deltas(self, states: States, sites: Tensor, new_ids: Tensor) -> Tensor:
        """ΔH `[B, n]` float64 of independent flips `sites[B, n]` → `new_ids[B, n]`: analytic terms from what a flip
        changes, a network from changed copies."""
        flips = Flips(states, sites, new_ids)
        total = torch.zeros(sites.shape, dtype=torch.float64, device=sites.device)
        if self.symbolic is not None:
            total = total + self.symbolic.flip_delta(flips)
        if self.network is not None and self.network_weight is not None:
            total = total + flips.differences(lambda states: self.member_energies(states).mean(1))
        return total

    def slopes(self, states: States) -> Tensor:
        """∂H/∂x `[B, sites, C]` of occupancies x[site, id], continued from 0 and 1 to what is between; refused where
        the energy of one of its parts is not."""
        total = torch.zeros(*states.flat.shape, states.types.shape[1], dtype=torch.float64, device=states.ids.device)
        for name, term in self.terms.items():
            slopes = term.slopes(states)
            if slopes is None:
                raise UserError(_no_slopes(f"the term {name}"))
            total = total + slopes
        if self.symbolic is None or self.network is not None:
            raise UserError(_no_slopes(f"a network ({self.architecture})"))
        return self.symbolic.weight() * total

    def of_states(self, states: Sequence[CellState]) -> Energies:
        """Energies of states of one lattice size; missing ids are filled up as non-existent."""
        device, batch = next(self.parameters()).device, States.of(states, self.properties)
        return self(*(tensor.to(device) for tensor in (batch.ids, batch.types, batch.properties)))


def _no_slopes(part: str) -> str:
    return (
        f"The sampler gwg follows the slopes of contact, volume and external energies, but the model has {part}: set "
        "sampler.kind = 'exact', 'parallel' or 'gibbs'."
    )
