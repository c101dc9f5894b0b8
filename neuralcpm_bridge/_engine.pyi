"""The compiled module (engine/src/python): exact incremental energy differences and their Metropolis dynamics."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

_Part = Literal["full", "neural", "symbolic"]
_Layout = Literal["axes", "rows"]

class EngineError(ValueError): ...

def isa() -> str:
    """The instruction set the kernels run on."""

def neighbours(
    geometry: str, shape: Sequence[int], boundary: Sequence[str], layout: str, order: int
) -> NDArray[np.int32]:
    """`[sites, n]`; −1 where there is none."""

def reference_energy(model: Model, ids: NDArray[np.int32], types: NDArray[np.int32]) -> float:
    """w_NN·H_NN by plain loops in float64: the slow ground truth."""

class Model:
    """A Hamiltonian: description and weights, checked."""

    def __init__(self, metadata_json: str, weights: Mapping[str, NDArray[Any]]) -> None: ...
    @staticmethod
    def load(path: str) -> Model:
        """Read an artifact; its hash, its description and its stored examples are checked."""

    @property
    def metadata(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def type_names(self) -> list[str]: ...
    @property
    def properties(self) -> list[str]:
        """Named ones of cells that it reads."""

    @property
    def geometry(self) -> str: ...
    @property
    def boundary(self) -> list[str]: ...
    @property
    def temperature(self) -> float: ...
    @property
    def forbids_extinction(self) -> bool: ...
    @property
    def covered(self) -> bool:
        """Whether the engine computes this architecture itself."""

    @property
    def weights(self) -> dict[str, NDArray[Any]]: ...
    @property
    def hash(self) -> str: ...

class State:
    """One state under one model. Used by one thread at a time."""

    def __init__(
        self,
        model: Model,
        ids: NDArray[np.int32],
        types: NDArray[np.int32],
        part: _Part = "full",
        forbid_extinction: bool = False,
        layout: _Layout = "axes",
        boundary: Sequence[str] = ...,
        properties: NDArray[np.float64] | None = None,
    ) -> None:
        """ids `[H, W]` or `[D, H, W]`; boundary: a word per axis, none: the model's; properties `[C, P]` of cells,
        none: the training data's means."""

    def reset(
        self, ids: NDArray[np.int32], types: NDArray[np.int32], properties: NDArray[np.float64] | None = None
    ) -> None: ...
    def rebuild(self) -> None:
        """Compute every cache from scratch."""

    def energy(self) -> tuple[float, float]:
        """(w_S·H_S, w_NN·H_NN)"""

    def delta(self, site: int, new_id: int) -> float:
        """ΔH in the selected part; inf for a forbidden extinction."""

    def delta_parts(self, site: int, new_id: int) -> tuple[float, float]:
        """(symbolic, neural) ΔH, whatever the part."""

    def deltas(self, sites: NDArray[np.int64], new_ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """ΔH of independent flips, `[n, 2]`: symbolic and neural part."""

    def commit(self, site: int, new_id: int) -> None: ...
    def change_pixels(self, sites: NDArray[np.int64], new_ids: NDArray[np.int64]) -> None: ...
    def set_type(self, cell: int, cell_type: int) -> None:
        """A new id appears without pixels; type −1 removes one without pixels."""

    def set_property(self, cell: int, number: int, value: float) -> None: ...
    @property
    def properties(self) -> NDArray[np.float64]:
        """`[C, P]`: the named properties that the model reads."""

    def member_energies(self) -> list[float]: ...
    def member_deltas(self, site: int, new_id: int) -> list[float]: ...
    def spread(self) -> float: ...
    def delta_spread(self, site: int, new_id: int) -> float: ...
    @property
    def inside_range(self) -> NDArray[np.uint8]: ...
    def remove_cell(self, cell: int) -> None:
        """A cell dies: its pixels become medium."""

    def set_cell_coupling(self, coupling: NDArray[np.float64]) -> None:
        """`[C, K]`: couplings of single cells to the external fields; empty: the types'."""

    @property
    def ids(self) -> NDArray[np.int32]: ...
    @property
    def types(self) -> NDArray[np.int32]: ...
    @property
    def volumes(self) -> NDArray[np.int64]: ...
    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of the network's layers so far."""

    attempts: int
    """Attempts made so far: with the seed, the state of the random numbers."""

    def sweep(
        self,
        mcs: int,
        temperature: float,
        seed: int,
        copy_order: int = 0,
        boundary_only: bool = False,
        balanced: bool = False,
        staged: bool = False,
        trades: int = 0,
    ) -> dict[str, int]:
        """Attempts, proposals (between different cells), accepted and traded."""

def run_chains(
    states: Sequence[State],
    mcs: int,
    temperature: float,
    seeds: Sequence[int],
    threads: int = 1,
    copy_order: int = 0,
    boundary_only: bool = False,
    balanced: bool = False,
    staged: bool = False,
    trades: int = 0,
) -> list[dict[str, int]]:
    """Sweep independent chains, one seed each; the result does not depend on the number of threads."""

class IdMap:
    """The model's compact ids of a host's cells; a cell of type 0 is seen as medium."""

    def __init__(self, fixed_ids: int = 0) -> None: ...
    def load(self, cells: NDArray[np.int64], types: NDArray[np.int32]) -> NDArray[np.int32]:
        """Take over all cells; the types of the model's ids."""

    def take(self, cells: NDArray[np.int64], types: NDArray[np.int32]) -> list[tuple[int, int]] | None:
        """New and changed cells as (id, type) of the model; None: only a whole load can tell."""

    def bury(
        self, cells: NDArray[np.int64], types: NDArray[np.int32], volumes: NDArray[np.int64]
    ) -> list[tuple[int, int]] | None:
        """Forget cells that are not among these; None: one of them still has pixels."""

    def knows(self, host_id: int) -> bool: ...
    def at(self, host_id: int) -> int: ...
    def translate(self, host_ids: NDArray[np.int64]) -> NDArray[np.int32]:
        """The model's ids of an array of host ids."""

class Mirror:
    """A state that answers for a host's cells by the host's ids. Used by one thread at a time."""

    def __init__(
        self,
        model: Model,
        shape: Sequence[int],
        part: _Part = "full",
        forbid_extinction: bool = False,
        layout: _Layout = "axes",
        boundary: Sequence[str] = ...,
    ) -> None: ...
    def load(self, host_ids: NDArray[np.int64], cells: NDArray[np.int64], types: NDArray[np.int32]) -> None:
        """Take over a whole lattice and all cells (type 0: seen as medium)."""

    def follow(
        self,
        cells: NDArray[np.int64],
        types: NDArray[np.int32],
        sites: NDArray[np.int64],
        host_ids: NDArray[np.int64],
    ) -> bool:
        """All cells there are now, and pixels written outside of the Metropolis algorithm; False: load again."""

    def set_properties(self, cells: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """`[n, P]`: the properties that the model reads, of the host's cells."""

    def delta(self, site: int, host_id: int) -> float: ...
    def commit(self, site: int, host_id: int) -> None: ...
    def compare(self, host_ids: NDArray[np.int64]) -> tuple[int, float, float, float]:
        """(differing sites, symbolic, neural, drift): with the host's lattice, and with a recomputed energy."""

    def energy(self) -> tuple[float, float]:
        """(w_S·H_S, w_NN·H_NN)"""

    def opinion(self, site: int, host_id: int) -> tuple[float, float]:
        """(mean, standard deviation) of what a committee's members say of a copy"""

    def outside(self, site: int, host_id: int) -> float:
        """share of a copy's cells that are unlike the training data's"""

    def range(self) -> tuple[int, int]:
        """(cells that are seen, those of them that are unlike the training data's)"""

    @property
    def loaded(self) -> bool: ...
    @property
    def ids(self) -> NDArray[np.int32]: ...
    @property
    def types(self) -> NDArray[np.int32]: ...

class HostCalls:
    """A mirror that a host's own compiled code asks, by addresses of its points and cells."""

    answer_entry: int
    change_entry: int
    ignore_entry: int
    """Addresses of functions for a host's energy (object, point, new cell, old cell), its changes, and for neither."""

    def __init__(self, before_next: int) -> None:
        """The address of a function without arguments, called before the first answer after `hold`; 0 refuses all."""

    def object(self, table: Sequence[int]) -> int:
        """The address of an object for a host to call, with this table of functions."""

    def serve(
        self,
        mirror: Mirror,
        addresses: NDArray[np.int64],
        host_ids: NDArray[np.int64],
        factors: NDArray[np.float64],
        *,
        factor: float,
        combine: str,
        temperature: float,
        committee: bool,
        shrink: float,
    ) -> None:
        """Answer for these cells from now on, after `before_next`."""

    def hold(self) -> None: ...
    def keep(self, error: str) -> None:
        """From now on every copy is refused."""

    @property
    def error(self) -> str: ...
    def take_tally(self) -> tuple[int, int, int, float, float, float, float]:
        """(calls, accepted, timed, their seconds, sums over accepted copies: disagreement, its most, weight)"""

    @property
    def has_written(self) -> bool: ...
    def written(self) -> dict[int, int]:
        """Sites written outside of the Metropolis algorithm: addresses of the cells that were put there."""

    def forget_written(self) -> None: ...
