"""States and flips as tensors, with what the terms of an energy ask about them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import torch
from torch import Tensor

from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.state import CellState

Kept = TypeVar("Kept")

BATCH_SITES = 4_000_000
"""Sites × ids of changed copies evaluated at once: bounds memory."""


class States:
    """A batch on one lattice: `ids[B, *shape]`, `types[B, C]` int64 (−1 = no such cell) and, where a model asks for
    some, named properties of cells `[B, C, P]`; not to be changed."""

    def __init__(self, ids: Tensor, types: Tensor, lattice: Lattice, properties: Tensor | None = None) -> None:
        self.ids, self.types, self.lattice = ids, types, lattice
        self.properties = self.types.new_zeros((*types.shape, 0)).double() if properties is None else properties
        self._kept: dict[Hashable, Any] = {}

    @classmethod
    def of(cls, states: Sequence[CellState], properties: Sequence[str] = ()) -> States:
        """States of one lattice with the named properties; missing ids are filled up as non-existent."""
        ids, types = batch_states(states)
        tables = torch.zeros((*types.shape, len(properties)), dtype=torch.float64)
        for table, state in zip(tables, states, strict=True):
            table[: state.types.size] = torch.from_numpy(state.reading(properties).property_table())
        return cls(ids, types, states[0].lattice, tables)

    def chosen(self, which: Tensor) -> States:
        """Some of them, by number."""
        return States(self.ids[which], self.types[which], self.lattice, self.properties[which])

    def once(self, key: Hashable, compute: Callable[[], Kept]) -> Kept:
        """What was computed under this key, computed at its first use."""
        if key not in self._kept:
            self._kept[key] = compute()
        kept: Kept = self._kept[key]
        return kept

    def order(self, order: int | None) -> int:
        """A term's neighbour order; where it states none, that of the sites all around."""
        return self.lattice.geometry.moore_order if order is None else order

    def pair_weight(self, order: int | None) -> float:
        """2/|N|."""
        return self.lattice.geometry.pair_weight(self.order(order))

    @cached_property
    def no_energy(self) -> Tensor:
        """`[B]` float64."""
        return torch.zeros(self.ids.shape[0], dtype=torch.float64, device=self.ids.device)

    @cached_property
    def flat(self) -> Tensor:
        """Ids by site, `[B, sites]`."""
        return self.ids.flatten(1)

    @cached_property
    def type_map(self) -> Tensor:
        """Type of every site, `[B, *shape]`."""
        return type_map_of(self.ids, self.types)

    @cached_property
    def volumes(self) -> Tensor:
        """Sites of every id, `[B, C]`."""
        return self.count(self.flat, None)

    def count(self, ids: Tensor, where: Tensor | None) -> Tensor:
        """How often every id occurs in `ids[B, …]` (where a mask says so), `[B, C]`."""
        batch, cells = self.types.shape
        of_state = torch.arange(batch, device=ids.device).view(-1, *(1,) * (ids.dim() - 1)) * cells
        numbered = (ids + of_state).flatten() if where is None else (ids + of_state)[where]
        return torch.bincount(numbered, minlength=batch * cells).view(batch, cells)

    def pairs(self, field: Tensor, order: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Both ends of every unordered pair of neighbours of `field[B, *shape]`, direction by direction."""
        for offset in self.lattice.geometry.half_offsets(order).tolist():
            if self.lattice.layout == "axes":
                yield _ends(field, offset, self.lattice.periodic)
                continue
            for ends in self.lattice.windows(offset):
                here, there = ((slice(None), *window) for window in ends)
                yield field[here], field[there]

    def around(self, sites: Tensor, order: int) -> Tensor:
        """Ids of the neighbours of `sites[B, n]`, `[B, n, neighbours]`; −1 where there is none."""
        near = neighbour_table(self.lattice, order).to(sites.device)[sites]
        found = self.flat.gather(1, near.clamp(min=0).flatten(1)).view_as(near)
        return torch.where(near >= 0, found, -1)

    def around_all(self, order: int) -> Tensor:
        """Ids of the neighbours of every site, `[B, sites, neighbours]`; −1 where there is none."""
        near = neighbour_table(self.lattice, order).to(self.ids.device)
        return torch.where(near >= 0, self.flat[:, near.clamp(min=0)], -1)

    def boundary(self, order: int) -> Tensor:
        """Sites with a neighbour of another cell, `[B, sites]` bool."""
        found = torch.zeros_like(self.flat, dtype=torch.bool)
        for there in neighbour_table(self.lattice, order).to(self.ids.device).T:
            found |= (self.flat[:, there.clamp(min=0)] != self.flat) & (there >= 0)
        return found

    def over_cells(self, energies: Tensor) -> Tensor:
        """The sum of `[B, C]` over the cells that exist, `[B]`."""
        return torch.where(self.types >= 1, energies, torch.zeros_like(energies)).sum(1)


class Flips:
    """Independent flips of states: `new_ids[B, n]` copied into `sites[B, n]`."""

    def __init__(self, states: States, sites: Tensor, new_ids: Tensor) -> None:
        self.states, self.sites, self.new_ids = states, sites, new_ids
        self._around: dict[int, Tensor] = {}

    @cached_property
    def old_ids(self) -> Tensor:
        return self.states.flat.gather(1, self.sites)

    @cached_property
    def sides(self) -> tuple[Side, Side]:
        """The cell that gains the site and the one that loses it."""
        return Side(self, self.new_ids, 1), Side(self, self.old_ids, -1)

    def around(self, order: int) -> Tensor:
        """Ids of the sites' neighbours, `[B, n, neighbours]`; −1 where there is none."""
        if order not in self._around:
            self._around[order] = self.states.around(self.sites, order)
        return self._around[order]

    def differences(self, energy: Callable[[States], Tensor]) -> Tensor:
        """ΔH `[B, n]` of any energy of states, from copies of them with one site changed."""
        states, (batch, count) = self.states, self.sites.shape
        chunk = max(1, BATCH_SITES // (states.lattice.sites * states.types.shape[1]))
        before, parts = energy(states).repeat_interleave(count), []
        for first in range(0, batch * count, chunk):
            part = slice(first, first + chunk)
            parts.append(energy(self.changed(part)) - before[part])
        return torch.cat(parts).view(batch, count)

    def changed(self, part: slice = slice(None)) -> States:
        """Copies of the states with one site changed each: flip by flip, state by state."""
        states, (batch, count) = self.states, self.sites.shape
        which = torch.arange(batch, device=self.sites.device).repeat_interleave(count)[part]
        sites, new_ids = (values.reshape(-1, 1)[part] for values in (self.sites, self.new_ids))
        ids = states.flat[which].scatter_(1, sites, new_ids).view(-1, *states.lattice.shape)
        return States(ids, states.types[which], states.lattice, states.properties[which])


class Side:
    """What one of the two cells of every flip is, `[B, n]` each; `sign`: +1 where it gains the site, −1 otherwise."""

    def __init__(self, flips: Flips, ids: Tensor, sign: int) -> None:
        self.flips, self.ids, self.sign = flips, ids, sign

    @cached_property
    def types(self) -> Tensor:
        return self.flips.states.types.gather(1, self.ids)

    @cached_property
    def changes(self) -> Tensor:
        """Whether a cell (and not the medium) changes at all."""
        return (self.ids > 0) & (self.flips.new_ids != self.flips.old_ids)

    def of(self, values: Tensor) -> Tensor:
        """The cell's entry of `values[B, C]` or `[B, C, k]`."""
        if values.dim() == 2:
            return values.gather(1, self.ids)
        return values.gather(1, self.ids[..., None].expand(-1, -1, values.shape[2]))


def _ends(field: Tensor, offset: Sequence[int], periodic: Sequence[bool]) -> tuple[Tensor, Tensor]:
    here = there = field
    rolled: dict[int, int] = {}
    for axis, (step, wraps) in enumerate(zip(offset, periodic, strict=True), start=1):
        if step and wraps:
            rolled[axis] = -step
        elif step:
            left = max(field.shape[axis] - abs(step), 0)
            low, high = (0, min(step, field.shape[axis])) if step > 0 else (min(-step, field.shape[axis]), 0)
            here, there = here.narrow(axis, low, left), there.narrow(axis, high, left)
    if rolled:
        there = torch.roll(there, tuple(rolled.values()), tuple(rolled))
    return here, there


@lru_cache(maxsize=8)
def neighbour_table(lattice: Lattice, order: int) -> Tensor:
    """Neighbours of every site, `[sites, n]` int64; −1 where there is none."""
    return torch.from_numpy(lattice.neighbours(order))


def type_map_of(ids: Tensor, types: Tensor) -> Tensor:
    """Type of every site, in the shape of `ids[B, …]`."""
    return torch.gather(types, 1, ids.flatten(1)).view_as(ids)


def batch_states(states: Sequence[CellState]) -> tuple[Tensor, Tensor]:
    """ids `[B, *shape]` and types `[B, C]` of states of one lattice; missing ids are filled up as non-existent."""
    cells = max(state.types.size for state in states)
    types = torch.full((len(states), cells), -1, dtype=torch.int64)
    for row, state in zip(types, states, strict=True):
        row[: state.types.size] = torch.from_numpy(state.types)
    ids = torch.stack([torch.from_numpy(state.ids).long() for state in states])
    return ids, types
