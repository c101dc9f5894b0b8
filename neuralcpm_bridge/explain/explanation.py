"""The whole explanation of a model: over the states of a data set, or over samples of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..artifact import Artifact
from ..distill import Distilled, distill, sample_flips
from ..embedded import Dynamics, open_chains
from ..initial import initial_state
from ..snapshots import Snapshots
from .cells import Cells, Floats, cells_of
from .energies import Energies, energies_of
from .network import Network
from .responses import Response, responses
from .sentences import closest_sentence, lowest, sentence

MOST_STATES = 48
OWN_STATES, OWN_MCS = 6, 200
"""Where no data are given: samples of the model, and the Monte Carlo steps that they take from a round tissue."""
FLIPS, RUNS = 8_000, (2, 8)
"""Pixel copies that analytic terms are fitted to, in states up to so many steps away from those looked at."""


@dataclass(frozen=True)
class Explanation:
    """`of_data`: whether the states are data; else they are the model's own samples."""

    model: str
    types: tuple[str, ...]
    temperature: float
    of_data: bool
    states: int
    energies: Energies
    responses: list[Response]
    closest: Distilled
    """The analytic terms that come closest to what the network charges for pixel copies."""

    @property
    def sentences(self) -> list[str]:
        """The terms that come closest; then type by type, the strongest response first."""
        ranked = sorted(self.responses, key=lambda r: (self.types.index(r.cell_type), -r.strength))
        return [closest_sentence(self.closest), *(self.sentence(response) for response in ranked)]

    def sentence(self, response: Response) -> str:
        return sentence(response, "the data" if self.of_data else "the model's own samples")

    def json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "temperature": self.temperature,
            "of": "data" if self.of_data else "samples of the model",
            "states": self.states,
            "sentences": self.sentences,
            "responses": [
                _response_json(response) | {"sentence": self.sentence(response)} for response in self.responses
            ],
            "closest": {
                "explained": self.closest.r2_held_out,
                "terms": {
                    name: {"value": value, "share": self.closest.shares[name]}
                    for name, value in self.closest.values.items()
                },
            },
            "state": self.energies.json(self.types),
        }


def explain(
    artifact: Artifact,
    data: Snapshots | None = None,
    *,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Explanation:
    """Look at a cell graph over the cells of data; without data over those of samples of the model itself."""
    network, meta = Network(artifact), artifact.metadata
    if data is None:
        looked_at = own_samples(artifact, seed)
    else:
        looked_at = data.chosen(np.sort(np.random.default_rng(seed).permutation(len(data))[:MOST_STATES]))
    states = [artifact.place(state) for state in looked_at]
    tissues = [cells_of(state, network.order) for state in states]
    flips = sample_flips(artifact, looked_at, FLIPS, seed, RUNS)
    return Explanation(
        meta.name,
        meta.types,
        meta.temperature,
        data is not None,
        len(states),
        energies_of(network, states[0], tissues[0], type_means(network, tissues) / meta.temperature, meta.temperature),
        responses(network, meta, tissues, seed, progress),
        distill(flips, meta, host="embedded", part="neural"),
    )


def own_samples(artifact: Artifact, seed: int) -> Snapshots:
    """States that the model itself finds likely."""
    starts = [initial_state(artifact, "blob", seed=seed + number) for number in range(OWN_STATES)]
    meta = artifact.metadata
    chains = open_chains(artifact, starts, Dynamics(meta.temperature, seed, forbid_extinction=meta.extinction))
    chains.advance(OWN_MCS)
    return Snapshots.from_states(chains.states(), type_names=meta.types)


def type_means(network: Network, tissues: list[Cells]) -> Floats:
    """Mean energy of each type's cells, `[T]`; 0 for types that are not there."""
    energies = np.concatenate([network.energies(tissue).mean(axis=0)[0] for tissue in tissues])
    types = np.concatenate([tissue.types for tissue in tissues])
    counts = np.bincount(types, minlength=network.types)
    return np.bincount(types, energies, minlength=network.types) / np.maximum(counts, 1)


def _response_json(response: Response) -> dict[str, Any]:
    def listed(values: Floats | None) -> list[float] | None:
        return None if values is None else [round(float(value), 6) for value in values]

    least, low, median, high, most = response.coverage.quantiles
    found: dict[str, Any] = {
        "type": response.cell_type,
        "quantity": response.quantity,
        "unit": response.unit,
        "strength": response.strength,
        "lowest": lowest(response),
        "values": listed(response.values),
        "energy": listed(response.energy),
        "low": listed(response.low),
        "high": listed(response.high),
        "members": listed(response.members),
        "whole": listed(response.whole),
        "cells": response.cells,
        "data": {
            "cells": response.coverage.cells,
            "least": least,
            "low": float(low),
            "median": float(median),
            "high": float(high),
            "most": most,
            "histogram": response.coverage.bins.tolist(),
        },
    }
    if response.also is not None:
        found[response.also[0]] = listed(response.also[1])
    return found
