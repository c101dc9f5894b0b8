"""The paper's data sets, and ours, drawn by the engine's exact copy dynamics from scattered cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge import __version__
from neuralcpm_bridge._engine import Model, State, run_chains
from neuralcpm_bridge.artifact import LatticeEntry
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.initial import scattered, squared_distances
from neuralcpm_bridge.lattice import Lattice, geometry_named
from neuralcpm_bridge.snapshots import Snapshots
from neuralcpm_bridge.state import CellState

from .engine import engine_model

Progress = Callable[[int, int], None]
"""Called with states finished and states wanted."""

TYPE_NAMES = ("medium", "A", "B")


def contact_matrix(j01: float, j02: float, j11: float, j12: float, j22: float) -> NDArray[np.float64]:
    """`[3, 3]` for a medium and two types."""
    return np.array([[0.0, j01, j02], [j01, j11, j12], [j02, j12, j22]])


@dataclass(frozen=True)
class Recipe:
    """One data set: lattice, cells (half of each type), energies, and how long it relaxes from single pixels.

    `length` = (strength, target) of type 2's length constraint; `field` = strength of the external potential. `radius`
    and lengths are distances in space, `target` is a number of sites.
    """

    name: str
    J: tuple[float, float, float, float, float]
    """J01, J02, J11, J12, J22."""
    strength: float
    target: float
    side: int = 100
    cells: int = 50
    radius: float = 25.0
    temperature: float = 1.0
    mcs: int = 2000
    samples: int = 128
    length: tuple[float, float] | None = None
    field: float = 0.0
    geometry: str = "square"

    @property
    def contact(self) -> NDArray[np.float64]:
        return contact_matrix(*self.J)

    @property
    def lattice(self) -> Lattice:
        """`side` sites along each axis, periodic."""
        return Lattice.of((self.side,) * geometry_named(self.geometry).dimension, self.geometry)

    def on(self, geometry: str) -> Recipe:
        """The same tissue on another lattice: cells of as many sites on hexagons, of the same diameter in 3D."""
        if geometry == self.geometry:
            return self
        if self.geometry != "square" or self.field:
            raise UserError(f"The data set {self.name} exists on square lattices only: leave the lattice out.")
        if geometry == "hexagonal":
            shrink = geometry_named(geometry).site_volume ** 0.5
            length = None if self.length is None else (self.length[0], self.length[1] * shrink)
            return replace(self, geometry=geometry, radius=self.radius * shrink, length=length)
        return replace(self, geometry=geometry, **IN_3D[self.name])


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("cellsort-a", (0.5, 0.5, 1 / 3, 0.2, 4 / 15), 0.1, 60.0, mcs=1000),
        Recipe("cellsort-b", (2.5, 1.0, 1.0, 4.5, 1.0), 0.5, 60.0, mcs=3000),
        Recipe("elongation", (4.0, 4.0, 3.0, 4.0, 3.0), 0.5, 80.0, 60, 12, 16.0, mcs=1000, length=(0.25, 21.0)),
        Recipe("cellular-mnist", (6.0, 6.0, 3.0, 6.0, 3.0), 0.974, 100.0, mcs=400, samples=1280, field=10.0),
        Recipe("bipolar", (8.0, 8.0, 4.0, 8.0, 4.0), 1.0, 150.0, 125, 40, 35.0, 2.0, 2000, 1000, field=0.15),
    )
}

IN_3D: dict[str, dict[str, Any]] = {
    "cellsort-a": {"side": 40, "target": 350.0, "radius": 14.0, "mcs": 500, "samples": 16},
    "cellsort-b": {"side": 40, "target": 350.0, "radius": 14.0, "mcs": 500, "samples": 16},
    # Smaller cells than in 2D: no length may come near to half of the lattice. A constraint must be stronger to stretch
    # them as far, for one site of more changes a length less.
    "elongation": {
        "side": 30,
        "cells": 10,
        "target": 100.0,
        "radius": 7.0,
        "mcs": 500,
        "samples": 96,
        "length": (2.0, 11.0),
    },
}
"""What changes where a recipe goes to a cubic lattice: a state there holds as many flips as a dozen in 2D, and a
Monte Carlo step makes as many more."""

POLE_DISTANCE = 0.23
"""Of each bipolar pole from the middle, as a share of the lattice's side."""


def scattered_cells(lattice: Lattice, cells: int, radius: float, rng: np.random.Generator) -> CellState:
    """Cells of one pixel each, at random in a disc (3D: ball) in the middle: the mixed start of data.

    Which ids are of type 1 and which of type 2 is fixed (first and second half), where they lie is not.
    """
    types = np.r_[0, 1 + (np.arange(cells) >= cells // 2)].astype(np.int32)
    return scattered(lattice, types, np.flatnonzero(squared_distances(lattice) <= radius**2), rng)


def generate(
    recipe: Recipe,
    *,
    samples: int | None = None,
    mcs: int | None = None,
    seed: int = 0,
    threads: int = 1,
    progress: Progress | None = None,
) -> Snapshots:
    """Independent chains from scattered cells, one snapshot of each at its end; the same for any number of threads."""
    wanted, steps = samples or recipe.samples, mcs or recipe.mcs
    if wanted < 1 or steps < 1:
        raise UserError(f"{wanted} samples of {steps} Monte Carlo steps were asked for: give at least one of each.")
    make_chain, lattice = _chain_maker(recipe), recipe.lattice
    done: list[CellState] = []
    labels: list[int] = []
    for start in range(0, wanted, 4 * threads):
        numbers = range(start, min(start + 4 * threads, wanted))
        made = [make_chain(np.random.default_rng([seed, number])) for number in numbers]
        # A chain's seed follows from its number alone: neither batches nor threads change the data.
        seeds = [int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0]) for number in numbers]
        chains = [chain for chain, _ in made]
        run_chains(chains, steps, recipe.temperature, seeds, threads=threads, boundary_only=True)
        done += [CellState(chain.ids, chain.types, lattice) for chain in chains]
        labels += [label for _, label in made]
        if progress is not None:
            progress(len(done), wanted)
    provenance = {
        "generator": recipe.name,
        "recipe": asdict(recipe) | {"samples": wanted, "mcs": steps},
        "seed": seed,
        "program": f"neuralcpm-bridge {__version__}",
    }
    arrays = {"labels": np.array(labels)} if recipe.name == "cellular-mnist" else {}
    return Snapshots.from_states(done, type_names=TYPE_NAMES, provenance=provenance, arrays=arrays)


ChainMaker = Callable[[np.random.Generator], tuple[State, int]]
"""A fresh engine state and its label (0 where there is none)."""


def _chain_maker(recipe: Recipe) -> ChainMaker:
    def start(model: Model, rng: np.random.Generator) -> State:
        state = scattered_cells(recipe.lattice, recipe.cells, recipe.radius, rng)
        return State(model, state.ids, state.types, forbid_extinction=True)

    if recipe.name == "cellular-mnist":
        images, labels = bundled_digits()

        def digit_chain(rng: np.random.Generator) -> tuple[State, int]:
            chosen = int(rng.integers(len(images)))
            field = digit_potential(images[chosen], recipe.side)[None]
            model = recipe_model(recipe, external=(field, np.array([[0.0], [0.0], [recipe.field]])))
            return start(model, rng), int(labels[chosen])

        return digit_chain
    if recipe.name == "bipolar":
        return lambda rng: (_bipolar_chain(recipe, start, rng), 0)
    model = recipe_model(recipe)
    return lambda rng: (start(model, rng), 0)


def recipe_model(recipe: Recipe, external: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None) -> Model:
    """The analytic model a data set is drawn from; `external` = (field `[K, *shape]`, coupling `[T, K]`)."""
    cells = np.array([0.0, 1.0, 1.0])
    weights = {
        "symbolic.contact.J": recipe.contact,
        "symbolic.volume.strength": recipe.strength * cells,
        "symbolic.volume.target": recipe.target * cells,
    }
    if recipe.length is not None:
        weights["symbolic.length.strength"] = np.array([0.0, 0.0, recipe.length[0]])
        weights["symbolic.length.target"] = np.array([0.0, 0.0, recipe.length[1]])
    if external is not None:
        weights["symbolic.external.field"], weights["symbolic.external.coupling"] = external
    return engine_model(TYPE_NAMES, LatticeEntry.of(recipe.geometry), weights, temperature=recipe.temperature)


def _bipolar_chain(
    recipe: Recipe, start: Callable[[Model, np.random.Generator], State], rng: np.random.Generator
) -> State:
    """Type-2 cells are drawn, each by its own constant force, to one of two poles on a random axis through the middle.

    The potential of a pole is the distance to it; type 1 feels none.
    """
    angle = rng.uniform(0, np.pi)
    axis = np.array([np.sin(angle), np.cos(angle)]) * POLE_DISTANCE * recipe.side
    rows, cols = np.mgrid[: recipe.side, : recipe.side] - (recipe.side - 1) / 2
    poles = np.stack([np.hypot(rows - sign * axis[0], cols - sign * axis[1]) for sign in (1, -1)])
    chain = start(recipe_model(recipe, external=(poles, np.zeros((3, 2)))), rng)
    drawn = np.flatnonzero(chain.types == 2)
    coupling = np.zeros((chain.types.size, 2))
    coupling[drawn, rng.permutation(np.arange(drawn.size) % 2)] = recipe.field
    chain.set_cell_coupling(coupling)
    return chain


# -- Cellular MNIST ----------------------------------------------------------------------------------------------


def bundled_digits() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """2,000 digits of MNIST: images `[2000, 28, 28]` and labels `[2000]`."""
    with (
        (files("training") / "data" / "mnist_digits_2000.npz").open("rb") as stream,
        np.load(stream) as archive,
    ):
        return archive["images"], archive["labels"]


def digit_potential(image: NDArray[np.uint8], side: int) -> NDArray[np.float64]:
    """Distance to the digit (binarised at half brightness) in its own pixels, cubically interpolated to `side`²."""
    import torch  # for the cubic interpolation alone: every other data set is made without it

    distance = torch.from_numpy(distance_to(image >= 128))[None, None]
    zoomed = torch.nn.functional.interpolate(distance, size=(side, side), mode="bicubic", align_corners=True)
    return zoomed[0, 0].numpy()


def distance_to(mask: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Euclidean distance of every site to the nearest one of the mask: small images, all pairs."""
    if not mask.any():
        raise UserError("A digit without a bright pixel was found, but a potential needs one: leave the image out.")
    sites = np.argwhere(np.ones_like(mask))
    return np.sqrt(((sites[:, None] - np.argwhere(mask)[None]) ** 2).sum(2).min(1)).reshape(mask.shape).astype(float)
