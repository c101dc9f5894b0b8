"""The zoo: mechanisms that contact and volume energies cannot express, each with its tissue and its statistic."""

from __future__ import annotations

from dataclasses import dataclass

from .generator import A, B, Tissue
from .statistics import (
    Statistic,
    elongation,
    flatness,
    flattened_at_medium,
    lengths_apart,
    nearest_of_own,
    off_exposure,
    parallel,
    roughness,
    volume_per_neighbour,
    with_neighbours,
)


@dataclass(frozen=True)
class Mechanism:
    """What cells do, in which tissue, and the one number that tells it."""

    name: str
    about: str
    """The cell's own shape, its neighbours, or its place in the tissue."""
    sentence: str
    tissue: Tissue
    statistic: Statistic
    statistic_name: str
    mcs: int = 1000
    samples: int = 192


SHAPE, NEIGHBOURS, PLACE = "own shape", "neighbours", "place"

STIFF = (6.0, 6.0, 4.5, 6.0, 4.5)
"""Each type sticks to its own a little more than to the other, and cells are hard to tear."""
COHESIVE = (4.0, 4.0, 3.0, 4.0, 3.0)
"""The same, softer."""
MIXED = (4.0, 4.0, 3.0, 3.0, 3.0)
"""Cells stick together, whatever their types."""
FLUID = (2.4, 2.4, 1.8, 1.8, 1.8)
"""The same for cells that find other neighbours soon."""
SLACK = (1.0, 1.0, 0.8, 0.8, 0.8)
"""The same for cells with wavy borders."""

MECHANISMS = {
    each.name: each
    for each in (
        Mechanism(
            name="long-b",
            about=SHAPE,
            sentence="B cells want a length",
            tissue=Tissue("hexagonal", 64, (9, 9), 80, STIFF, term="length", strengths=(0, 0.25), wanted=(0, 19)),
            statistic=elongation(B),
            statistic_name="longest over shortest extent of B",
            mcs=1000,
        ),
        Mechanism(
            name="taut-a",
            about=SHAPE,
            sentence="A cells want a short border",
            tissue=Tissue("square", 70, (14, 14), 60, SLACK, term="surface", strengths=(0.1, 0), wanted=(18, 0)),
            statistic=roughness(A),
            statistic_name="border of A over the root of its volume",
            mcs=1000,
        ),
        Mechanism(
            name="discs-b",
            about=SHAPE,
            sentence="B cells want to be thin in one direction",
            tissue=Tissue("cubic", 28, (6, 6), 80, COHESIVE, term="thickness", strengths=(0, 3), wanted=(0, 2.5)),
            statistic=flatness(B),
            statistic_name="middle over shortest extent of B",
            mcs=500,
            samples=96,
        ),
        Mechanism(
            name="two-lengths",
            about=SHAPE,
            sentence="A and B cells want two different lengths",
            tissue=Tissue("cubic", 28, (6, 6), 80, STIFF, term="length", strengths=(2, 2), wanted=(7.5, 10)),
            statistic=lengths_apart,
            statistic_name="longest extent of B less that of A",
            mcs=500,
            samples=96,
        ),
        Mechanism(
            name="aligned-b",
            about=NEIGHBOURS,
            sentence="B cells that touch lie in parallel",
            tissue=Tissue("square", 70, (10, 18), 70, MIXED, term="alignment", strengths=(0, 1)),
            statistic=parallel(B),
            statistic_name="order of the long axes of touching B",
            mcs=1000,
        ),
        Mechanism(
            name="chains-b",
            about=NEIGHBOURS,
            sentence="B cells want two neighbours of their own type",
            tissue=Tissue(
                "square", 70, (15, 15), 60, FLUID, term="neighbours", strengths=(0, 3), wanted=(0, 2), partner=B
            ),
            statistic=with_neighbours(B, B, 2),
            statistic_name="share of B with exactly two B",
            mcs=4000,
        ),
        Mechanism(
            name="chains-b-hexagonal",
            about=NEIGHBOURS,
            sentence="B cells want two neighbours of their own type",
            tissue=Tissue(
                "hexagonal", 70, (12, 12), 60, FLUID, term="neighbours", strengths=(0, 3), wanted=(0, 2), partner=B
            ),
            statistic=with_neighbours(B, B, 2),
            statistic_name="share of B with exactly two B",
            mcs=4000,
        ),
        Mechanism(
            name="one-partner",
            about=NEIGHBOURS,
            sentence="A cells want to touch one B cell, in a tissue that fills most of the lattice",
            tissue=Tissue(
                "square", 60, (27, 13), 70, FLUID, term="neighbours", strengths=(3, 0), wanted=(1, 0), partner=B
            ),
            statistic=with_neighbours(A, B, 1),
            statistic_name="share of A with exactly one B",
            mcs=4000,
        ),
        Mechanism(
            name="pairs-b",
            about=NEIGHBOURS,
            sentence="B cells want one neighbour of their own type",
            tissue=Tissue(
                "cubic", 28, (14, 8), 80, FLUID, term="neighbours", strengths=(0, 4), wanted=(0, 1), partner=B
            ),
            statistic=with_neighbours(B, B, 1),
            statistic_name="share of B with exactly one B",
            mcs=1500,
            samples=96,
        ),
        Mechanism(
            name="half-exposed",
            about=PLACE,
            sentence="B cells want half of their border at the medium",
            tissue=Tissue("hexagonal", 70, (14, 10), 70, FLUID, term="exposure", strengths=(0, 120), wanted=(0, 0.5)),
            statistic=off_exposure(B, 0.5),
            statistic_name="distance of B's share at the medium from one half",
            mcs=2000,
        ),
        Mechanism(
            name="flat-at-medium",
            about=PLACE,
            sentence="cells at the medium flatten along it",
            tissue=Tissue("square", 70, (12, 12), 70, FLUID, term="flattening", strengths=(3, 3)),
            statistic=flattened_at_medium,
            statistic_name="extent along the medium over that towards it",
            mcs=2000,
        ),
        Mechanism(
            name="crowded-grow",
            about=PLACE,
            sentence="cells want to be the larger the more cells they touch",
            tissue=Tissue(
                "square", 70, (14, 14), 60, COHESIVE, term="crowding", strengths=(0.1, 0.1), wanted=(6, 6), range=4
            ),
            statistic=volume_per_neighbour,
            statistic_name="sites of volume per neighbour",
            mcs=1000,
        ),
        Mechanism(
            name="spaced-b",
            about=PLACE,
            sentence="B cells repel each other up to two diameters",
            tissue=Tissue("square", 70, (20, 8), 60, FLUID, term="spacing", strengths=(0, 60), range=18),
            statistic=nearest_of_own(B),
            statistic_name="distance to the nearest B in diameters",
            mcs=4000,
        ),
    )
}
