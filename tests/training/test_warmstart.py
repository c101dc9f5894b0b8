"""Single-flip fits, data generators, recovery norms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.metrics import mean_aspect_ratios, mean_of
from neuralcpm_bridge.snapshots import Snapshots
from training.datasets import RECIPES, bundled_digits, digit_potential, generate
from training.hamiltonians import make_preset
from training.recovery import recovery
from training.warmstart import fit_analytic, mean_volume

from .tiny import RECIPE


def test_single_flips_recover_contact_and_volume_energies() -> None:
    recipe = replace(RECIPE, side=40, cells=16, radius=10.0, mcs=400)
    symbolic = make_preset("mnist-cellsort", target_volume=recipe.target).symbolic
    fit = fit_analytic(symbolic, generate(recipe, samples=16))
    fit.put_into(symbolic)
    assert symbolic.volume.strength().item() == pytest.approx(recipe.strength, rel=0.2)
    assert np.abs(symbolic.contact.J.detach().numpy() - recipe.contact).max() < 0.5
    assert fit.flips > 10_000


def test_generated_data_depend_on_the_seed_and_not_on_threads() -> None:
    first, again = generate(RECIPE, samples=5, seed=3), generate(RECIPE, samples=5, seed=3, threads=2)
    assert np.array_equal(first.ids, again.ids)
    assert not np.array_equal(first.ids, generate(RECIPE, samples=5, seed=4).ids)
    assert first.provenance["recipe"]["samples"] == 5
    assert all((state.volumes[1:] > 0).all() for state in first)


def test_the_length_constraint_elongates_type_two() -> None:
    data = generate(RECIPES["elongation"], samples=4, mcs=300)
    of_types = mean_of([mean_aspect_ratios(state, 3) for state in data])
    assert of_types[2] > 1.5 * of_types[1]


def test_digits_become_potentials_and_labels() -> None:
    images, labels = bundled_digits()
    assert images.shape == (2000, 28, 28)
    assert set(labels) == set(range(10))
    field = digit_potential(images[0], 100)
    assert field.shape == (100, 100)
    assert abs(field.min()) < 1.0  # cubic interpolation overshoots a little
    assert field.max() > 5
    data = generate(RECIPES["cellular-mnist"], samples=2, mcs=5)
    assert data.arrays["labels"].shape == (2,)


def test_bipolar_cells_are_drawn_apart() -> None:
    data = generate(
        replace(RECIPES["bipolar"], side=60, cells=10, radius=12.0, target=60.0, field=0.5),
        samples=1,
        mcs=150,
    )
    assert data.ids.shape == (1, 60, 60)


def test_empty_requests_and_data_are_refused() -> None:
    with pytest.raises(UserError, match="no room"):
        generate(replace(RECIPE, radius=0.5), samples=1)
    empty = Snapshots(np.zeros((1, 8, 8), dtype=np.int32), np.array([[0, 1]], dtype=np.int32))
    with pytest.raises(UserError, match="no cells"):
        mean_volume(empty)
    with pytest.raises(UserError, match="no energy can be learned"):
        fit_analytic(make_preset("mnist-cellsort").symbolic, empty)


def test_recovery_norms() -> None:
    truth = {"lambda": 1.0, "J01": 2.0}
    found = recovery(truth, {"lambda": 2.0, "J01": 4.0, "extra": 1.0})
    assert found.norm_t1 == pytest.approx(np.sqrt(5))
    assert found.rmse_t1 == pytest.approx(np.sqrt(2.5))
    assert found.norm_tstar == pytest.approx(0, abs=1e-12)
    assert found.t_star == pytest.approx(2)
