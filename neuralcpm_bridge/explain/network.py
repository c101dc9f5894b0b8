"""The cell graph in NumPy, float64: energies of cells as each member of the committee has them (docs/artifact.md)."""

from __future__ import annotations

import numpy as np

from ..artifact import Artifact
from ..errors import UserError
from .cells import Cells, Floats

FARTHEST = 3.0
LOUDEST, LOUDEST_TOUCH, TOUCH = 255.0, 7.0, 0.5


class Network:
    """The learned part of an artifact, times its weight w_NN."""

    def __init__(self, artifact: Artifact) -> None:
        entry = artifact.metadata.neural
        if entry is None or not entry.is_graph:
            kind = "no network" if entry is None else f"a network of convolutions ({entry.kind})"
            raise UserError(
                f"The model has {kind}, but explain reads cell graphs, whose inputs are properties of cells: train one "
                "(preset graph1-closure), or fit analytic terms to this model (neuralcpm distill)."
            )
        self.order, self.rounds, self.properties = entry.order, entry.rounds, entry.properties
        self.weight, self.members, self.knots = entry.weight, entry.members, entry.knots
        self.types = len(artifact.metadata.types)
        self._weights = {
            key.removeprefix("neural."): np.asarray(value, dtype=np.float64)
            for key, value in artifact.weights.items()
            if key.startswith("neural.")
        }

    def energies(self, cells: Cells) -> Floats:
        """Of every cell in every variant by every member, `[K, G, N]`."""
        known = self._weights
        one_hot = np.broadcast_to(np.eye(self.types)[cells.types, 1:], (*cells.volume.shape, self.types - 1))
        own = standardised(cells.inputs(), known["cell_mean"], known["cell_deviation"])
        inputs = np.concatenate([one_hot, own], axis=-1)
        contacts = standardised(cells.contact_inputs(), known["edge_mean"], known["edge_deviation"])
        norm = np.sqrt(known["surface"] ** 2 + cells.surface**2)
        to_cells, to_medium = heard(cells.contact, norm[:, cells.receiver]), heard(cells.medium, norm)
        found = []
        for member in range(self.members):
            name = f"members.{member}"
            h = self._linear(f"{name}.embed_more", silu(self._linear(f"{name}.embed", inputs)))
            for number in range(self.rounds):
                h = self._round(f"{name}.rounds.{number}", h, cells, contacts, to_cells, to_medium)
            of_cells = self._linear(f"{name}.out", silu(self._linear(f"{name}.hidden", h)))[..., 0]
            found.append(of_cells + (self._of_distances(f"{name}.pairs", cells) if self.knots else 0.0))
        return self.weight * np.stack(found)

    def totals(self, cells: Cells) -> Floats:
        """w_NN·H_NN of every variant by every member, `[K, G]`."""
        return self.energies(cells).sum(axis=2)

    def _of_distances(self, name: str, cells: Cells) -> Floats:
        """Half of what the pairs of every cell cost by their distances, `[N]`."""
        low, high = (extreme(cells.types[:, None], cells.types[None]) - 1 for extreme in (np.minimum, np.maximum))
        kind = low * (self.types - 1) - low * (low - 1) // 2 + high - low
        knots = np.linspace(0.0, float(self._weights["reach"]), self.knots)
        by_kind = np.stack([np.interp(cells.apart, knots, energies) for energies in self._weights[name]])
        costs = np.take_along_axis(by_kind, kind[None], axis=0)[0]
        return np.array((costs.sum(axis=1) - costs.diagonal()) / 2)

    def _round(
        self, name: str, h: Floats, cells: Cells, contacts: Floats, to_cells: Floats, to_medium: Floats
    ) -> Floats:
        own, other = self._linear(f"{name}.own", h), h @ self._weights[f"{name}.other.weight"].T
        edge = contacts @ self._weights[f"{name}.edge.weight"].T
        total = message(to_medium, own + self._weights[f"{name}.medium"])
        total += cells.summed(message(to_cells, own[:, cells.receiver] + other[:, cells.sender] + edge))
        more = silu(self._linear(f"{name}.psi0", np.concatenate([h, total], axis=-1)))
        return h + self._linear(f"{name}.psi1", more)

    def _linear(self, name: str, values: Floats) -> Floats:
        return values @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]


def silu(values: Floats) -> Floats:
    return values / (1 + np.exp(-np.clip(values, -500, None)))


def heard(contact: Floats, norm: Floats) -> Floats:
    """Weights of messages along contacts, as shares of the receiver's border and as touches, `[…, 2]`."""
    return np.stack([contact / norm, TOUCH * (contact > 0)], axis=-1)


def message(weights: Floats, values: Floats) -> Floats:
    """What is heard, `[…, W]`: the first half of the entries by the contact's share, the second by every touch."""
    half = values.shape[-1] // 2
    loud = np.minimum(silu(values), np.repeat([LOUDEST, LOUDEST_TOUCH], half))
    return np.repeat(weights, half, axis=-1) * loud


def standardised(values: Floats, mean: Floats, deviation: Floats) -> Floats:
    """Within ± 3 deviations, smooth, hardly changed near the data."""
    z = (values - mean) / deviation
    return z / np.sqrt(1 + z**2 / FARTHEST**2)


def contact_shares(network: Network, cells: Cells) -> Floats:
    """What every contact is worth: H_NN (mean of the members) less what it would be if both cells touched medium there
    instead, `[E]`, the same from both sides. Negative: the network holds the two together.

    Surfaces, shapes and all other contacts stay. Medium is to contacts what sea level is to heights: simply leaving
    messages out would ask the network about cells with holes in their surface.
    """
    shares = np.zeros(cells.receiver.size)
    for edge in np.flatnonzero(cells.receiver < cells.sender):
        part, ends = cells.around([int(cells.receiver[edge]), int(cells.sender[edge])], 2 * network.rounds)
        lost = np.isin(part.receiver, ends) & np.isin(part.sender, ends)
        both = part.variants(2)
        both.medium[1, ends] += cells.contact[0, edge]
        both.contact[1, lost] = 0
        touching, apart = network.totals(both).mean(axis=0)
        shares[edge] = shares[cells.reverse[edge]] = touching - apart
    return shares
