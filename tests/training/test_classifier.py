"""The classifier score, and the experiments' small parts."""

from __future__ import annotations

import numpy as np
import pytest

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.snapshots import Snapshots
from training.classifier import classifier_score, train_classifier
from training.reproduce import EXPERIMENTS, Setting, reproduce
from training.reproduce.bipolar import axial_error
from training.reproduce.elongation import aspect_gap

from .tiny import tiny_data


def bars(count: int, seed: int) -> Snapshots:
    """Type 2 in one of three rows: three classes that anybody can tell apart."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=count)
    ids = np.zeros((count, 32, 32), dtype=np.int32)
    ids[:, 2:30, 2:30] = 1
    for lattice, label in zip(ids, labels, strict=True):
        lattice[4 + 9 * label : 10 + 9 * label, 4:28] = 2
    types = np.tile(np.array([0, 1, 2], dtype=np.int32), (count, 1))
    return Snapshots(ids, types, ("medium", "A", "B"), arrays={"labels": labels})


def test_sharp_and_varied_samples_score_the_number_of_classes() -> None:
    trained = train_classifier(bars(120, 0), epochs=12)
    assert trained.accuracy > 0.95
    varied = classifier_score(trained.classifier, bars(60, 1), bootstrap=100)
    assert varied.low <= varied.score <= varied.high
    assert varied.score > 2.5
    data = bars(60, 2)
    alike = Snapshots(
        data.ids[data.arrays["labels"] == 0], data.types[:1].repeat((data.arrays["labels"] == 0).sum(), 0)
    )
    assert classifier_score(trained.classifier, alike, bootstrap=10).score < 1.2


def test_a_data_set_without_labels_is_refused() -> None:
    with pytest.raises(UserError, match="labels"):
        train_classifier(tiny_data(2))


def test_experiments_are_named_and_unknown_ones_refused() -> None:
    assert "elongation" in EXPERIMENTS
    with pytest.raises(UserError, match="cellsort-a"):
        reproduce("cellsort", Setting())


def test_uncertainties_shrink_with_states() -> None:
    data = tiny_data(8)
    gap, error = aspect_gap(data)
    assert abs(gap) < 1
    assert 0 < error < 1
    assert 0 < axial_error(data, data, seed=0, draws=50) < 100
