"""Single flips in torch: who is next to whom, what a flip changes in the analytic terms, ΔH of any Hamiltonian."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .hamiltonians import Hamiltonian
from .hamiltonians.terms import volumes_of

MOORE = tuple((down, right) for down in (-1, 0, 1) for right in (-1, 0, 1) if (down, right) != (0, 0))

BATCH_SITES = 4_000_000
"""Sites × cells of changed copies evaluated at once by a network: bounds memory."""


def neighbour_ids(ids: Tensor, periodic: bool) -> Tensor:
    """Ids of the eight neighbours of every site, `[8, B, H, W]`; −1 beyond a free border."""
    if periodic:
        return torch.stack([torch.roll(ids, (-down, -right), (1, 2)) for down, right in MOORE])
    padded = torch.nn.functional.pad(ids, (1, 1, 1, 1), value=-1)
    height, width = ids.shape[1:]
    return torch.stack([padded[:, 1 + d : 1 + d + height, 1 + r : 1 + r + width] for d, r in MOORE])


class FlipFeatures(NamedTuple):
    """What flips change: `contact[B, n, T, T]` unordered pairs of different cells by the types of their ends (the
    flipped site's type first), `volume[B, n, T]` Σ(V − V*)² per type."""

    contact: Tensor
    volume: Tensor


def flip_features(
    ids: Tensor, types: Tensor, sites: Tensor, new_ids: Tensor, target: Tensor, periodic: bool
) -> FlipFeatures:
    """Flips `sites[B, n]` (flat) → `new_ids[B, n]` of ids `[B, H, W]`, types `[B, C]`; `target[T]` is V* per type."""
    batch, count = sites.shape
    kinds = target.numel()
    around = neighbour_ids(ids, periodic).permute(1, 2, 3, 0).flatten(1, 2)  # [B, sites, 8]
    near = torch.gather(around, 1, sites[..., None].expand(-1, -1, 8))
    old_ids = ids.flatten(1).gather(1, sites)
    near_types = types.gather(1, near.clamp(min=0).flatten(1)).view_as(near)
    contact = torch.zeros(batch, count, kinds * kinds, dtype=torch.float64, device=ids.device)
    volume = torch.zeros(batch, count, kinds, dtype=torch.float64, device=ids.device)
    volumes = volumes_of(ids, types.shape[1]).double()
    for owners, sign in ((new_ids, 1.0), (old_ids, -1.0)):
        own_types = types.gather(1, owners)
        counted = ((near != owners[..., None]) & (near >= 0)).double() * sign
        contact.scatter_add_(2, own_types[..., None] * kinds + near_types, counted)
        excess = volumes.gather(1, owners) - target[own_types]
        counts = (owners > 0) & (new_ids != old_ids)
        change = torch.where(counts, 2 * sign * excess + 1, torch.zeros_like(excess))
        volume.scatter_add_(2, own_types[..., None], change[..., None])
    return FlipFeatures(contact.view(batch, count, kinds, kinds), volume)


def flip_deltas(hamiltonian: Hamiltonian, ids: Tensor, types: Tensor, sites: Tensor, new_ids: Tensor) -> Tensor:
    """ΔH `[B, n]` float64 of independent flips: analytic terms from the flip's neighbourhood, a network from copies."""
    total = torch.zeros(sites.shape, dtype=torch.float64, device=ids.device)
    symbolic = hamiltonian.symbolic
    if symbolic is not None:
        kinds = len(hamiltonian.type_names)
        strength = target = torch.zeros(kinds, dtype=torch.float64, device=ids.device)
        if symbolic.volume is not None:
            strength, target = symbolic.volume.of_types(kinds)
        features = flip_features(ids, types, sites, new_ids, target, hamiltonian.boundary == "periodic")
        total = total + features.volume @ strength
        if symbolic.contact is not None:
            total = total + torch.einsum("bnij,ij->bn", features.contact, symbolic.contact.J) / 4
        if symbolic.external is not None:
            field = symbolic.external.field.double().flatten(1).T[sites]  # [B, n, K]
            coupling = symbolic.external.coupling.double()
            old_types = types.gather(1, ids.flatten(1).gather(1, sites))
            change = coupling[types.gather(1, new_ids)] - coupling[old_types]
            total = total + (field * change).sum(2)
        total = symbolic.weight() * total
    if hamiltonian.network is not None:
        total = total + _network_deltas(hamiltonian, ids, types, sites, new_ids)
    return total


def _network_deltas(hamiltonian: Hamiltonian, ids: Tensor, types: Tensor, sites: Tensor, new_ids: Tensor) -> Tensor:
    assert hamiltonian.network is not None
    assert hamiltonian.network_weight is not None
    batch, count = sites.shape
    state = torch.arange(batch, device=ids.device).repeat_interleave(count)
    chunk = max(1, BATCH_SITES // (ids[0].numel() * types.shape[1]))
    before = hamiltonian.network(ids, types)
    parts = []
    for start in range(0, batch * count, chunk):
        which = state[start : start + chunk]
        changed = ids[which].flatten(1)
        flat = slice(start, start + chunk)
        changed.scatter_(1, sites.reshape(-1, 1)[flat], new_ids.reshape(-1, 1)[flat])
        parts.append(hamiltonian.network(changed.view(-1, *ids.shape[1:]), types[which]) - before[which])
    return hamiltonian.network_weight() * torch.cat(parts).view(batch, count)
