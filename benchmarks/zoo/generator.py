"""Tissues drawn by a cellular Potts model that is independent of our engine (generator.cpp), compiled on demand.

Dynamics as in both hosts: a site and one of the sites all around it at random, the copy accepted with
min(1, e^(−ΔH/T)), no cell's last pixel taken, periodic borders.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.initial import scattered, sites_from_the_middle
from neuralcpm_bridge.lattice import Lattice, geometry_named
from neuralcpm_bridge.snapshots import Snapshots
from neuralcpm_bridge.state import CellState

TYPE_NAMES = ("medium", "A", "B")
A, B = 1, 2
SOURCES = [Path(__file__).with_name(name) for name in ("generator.cpp", "mechanisms.hpp")]
BUILD = Path(__file__).parents[2] / "build" / "zoo"
GEOMETRIES = ("square", "hexagonal", "cubic")
TERMS = (
    *("none", "length", "thickness", "surface", "neighbours"),
    *("alignment", "exposure", "flattening", "crowding", "spacing"),
)
"""As generator.cpp numbers them."""


@dataclass(frozen=True)
class Tissue:
    """Cells of types A and B on a periodic lattice, their contact and volume energies, and one mechanism.

    `strengths` and `wanted` are the mechanism's, of types A and B; a type without strength has none. `partner` is the
    type of neighbours that count (0: all). mechanisms.hpp has the formulas.
    """

    geometry: str
    side: int
    cells: tuple[int, int]
    target: float
    J: tuple[float, float, float, float, float]
    """J01, J02, J11, J12, J22."""
    strength: float = 0.5
    temperature: float = 1.0
    term: str = "none"
    strengths: tuple[float, float] = (0.0, 0.0)
    wanted: tuple[float, float] = (0.0, 0.0)
    partner: int = 0
    range: float = 0.0

    @property
    def lattice(self) -> Lattice:
        return Lattice.of((self.side,) * geometry_named(self.geometry).dimension, self.geometry)

    @property
    def types(self) -> NDArray[np.int32]:
        return np.repeat([0, A, B], [1, *self.cells]).astype(np.int32)

    def without_mechanism(self) -> Tissue:
        return replace(self, term="none")

    def start(self, random: np.random.Generator) -> CellState:
        """Every cell as a single pixel, in a disc (3D: ball) of the tissue's size in the middle."""
        disc = sites_from_the_middle(self.lattice, round(sum(self.cells) * self.target))
        return scattered(self.lattice, self.types, disc, random)


def sample(
    tissue: Tissue, samples: int, mcs: int, seed: int, *, threads: int = 2, provenance: dict[str, Any] | None = None
) -> Snapshots:
    """Independent chains from scattered cells, one state of each at its end."""
    starts = [tissue.start(np.random.default_rng([seed, number])) for number in range(samples)]
    return run(tissue, starts, mcs, seed, threads=threads, provenance=provenance)


def run(
    tissue: Tissue,
    states: Sequence[CellState],
    mcs: int,
    seed: int,
    *,
    threads: int = 2,
    provenance: dict[str, Any] | None = None,
) -> Snapshots:
    """Every state after so many Monte Carlo steps, each by random numbers of its own."""
    library = compiled()

    def chain(number: int) -> CellState:
        state, ids = states[number], states[number].ids.copy()
        own_seed = int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0])
        setting, _kept = _setting(tissue, state.types)
        library.zoo_run(ctypes.byref(setting), _pointer(ids), mcs, own_seed)
        return CellState(ids, state.types, state.lattice)

    with ThreadPoolExecutor(threads) as pool:  # ctypes lets go of the interpreter
        done = list(pool.map(chain, range(len(states))))
    return Snapshots.from_states(done, type_names=TYPE_NAMES, provenance=provenance or {})


def deltas(tissue: Tissue, state: CellState, sites: NDArray[np.int32], to: NDArray[np.int32]) -> NDArray[np.float64]:
    """ΔH of every copy of an id into a site, all from one state; NaN where no neighbour has that id."""
    found, ids = np.empty(sites.size), state.ids.copy()
    setting, _kept = _setting(tissue, state.types)
    at, new = (np.ascontiguousarray(values, dtype=np.int32) for values in (sites, to))
    compiled().zoo_deltas(
        ctypes.byref(setting),
        _pointer(ids),
        at.size,
        _pointer(at),
        _pointer(new),
        found.ctypes.data_as(ctypes.POINTER(ctypes.c_double)),
    )
    return found


# -- the compiled half ---------------------------------------------------------------------------------------------


class _Setting(ctypes.Structure):
    """`Setting` of mechanisms.hpp."""

    _fields_ = (
        ("geometry", ctypes.c_int32),
        ("term", ctypes.c_int32),
        ("ids", ctypes.c_int32),
        ("shape", ctypes.c_int32 * 3),
        ("types", ctypes.POINTER(ctypes.c_int32)),
        ("J", ctypes.c_double * 9),
        ("strength", ctypes.c_double * 3),
        ("target", ctypes.c_double * 3),
        ("temperature", ctypes.c_double),
        ("mechanism", ctypes.c_double * 6),
        ("partner", ctypes.c_int32),
        ("range", ctypes.c_double),
    )


def _setting(tissue: Tissue, types: NDArray[np.int32]) -> tuple[_Setting, NDArray[np.int32]]:
    """With the array that it points into, which must outlive it."""
    kept = np.ascontiguousarray(types, dtype=np.int32)
    shape = (1,) * (3 - tissue.lattice.dimension) + tissue.lattice.shape
    j01, j02, j11, j12, j22 = tissue.J
    return _Setting(
        GEOMETRIES.index(tissue.geometry),
        TERMS.index(tissue.term),
        kept.size,
        (ctypes.c_int32 * 3)(*shape),
        _pointer(kept),
        (ctypes.c_double * 9)(0, j01, j02, j01, j11, j12, j02, j12, j22),
        (ctypes.c_double * 3)(0, tissue.strength, tissue.strength),
        (ctypes.c_double * 3)(0, tissue.target, tissue.target),
        tissue.temperature,
        (ctypes.c_double * 6)(
            0, 0, *(each for pair in zip(tissue.strengths, tissue.wanted, strict=True) for each in pair)
        ),
        tissue.partner,
        tissue.range,
    ), kept


def _pointer(array: NDArray[np.int32]) -> Any:
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))


def compiler() -> str | None:
    """The system's C++ compiler."""
    return shutil.which(os.environ.get("CXX", "c++"))


@lru_cache(maxsize=1)
def compiled() -> ctypes.CDLL:
    """The generator as a library, kept under the hash of its sources."""
    content = hashlib.sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()[:16]
    library = BUILD / f"generator-{content}.so"
    if not library.exists():
        program = compiler()
        if program is None:
            raise UserError("The zoo's generator is C++, but no compiler was found: install one (c++) or set CXX.")
        BUILD.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILD) as temporary:
            made = Path(temporary) / library.name
            command = [program, "-std=c++17", "-O3", "-shared", "-fPIC", str(SOURCES[0]), "-o", str(made)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                first = (done.stderr.splitlines() or ["no message"])[0]
                raise UserError(f"{program} could not compile the zoo's generator ({first}): use a C++17 compiler.")
            made.replace(library)
    found = ctypes.CDLL(str(library))
    integers, doubles = ctypes.POINTER(ctypes.c_int32), ctypes.POINTER(ctypes.c_double)
    setting = ctypes.POINTER(_Setting)
    found.zoo_run.argtypes = [setting, integers, ctypes.c_int64, ctypes.c_uint64]
    found.zoo_deltas.argtypes = [setting, integers, ctypes.c_int, integers, integers, doubles]
    found.zoo_run.restype = found.zoo_deltas.restype = None
    return found
