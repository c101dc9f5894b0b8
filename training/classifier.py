"""The classifier score of Cellular MNIST: exp E KL(p(y|x) ‖ p(y)) with a classifier trained on the data set.

1 when samples say nothing about a digit or all say the same, 10 when they are sharp and show all ten alike.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.lattice import size_text
from neuralcpm_bridge.snapshots import Snapshots

COARSE = 4
"""Sites per side averaged into one input of the classifier: digits are 28 wide, lattices 100."""


class DigitClassifier(nn.Module):
    """Share of each cell type in blocks of 4×4 sites → two convolutions with pooling → log p(y|x)."""

    def __init__(self, types: int, shape: tuple[int, ...], classes: int = 10) -> None:
        super().__init__()
        self.types = types
        sides = [size // COARSE // 2 // 2 for size in shape]
        if min(sides) < 1 or len(sides) != 2:
            raise UserError(
                f"The lattice has {size_text(shape)} sites, but a classifier of digits needs a 2D one of at least 16 "
                "sites per side: use data cellular-mnist."
            )
        self.layers = nn.Sequential(
            nn.Conv2d(types - 1, 16, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Linear(32 * sides[0] * sides[1], classes),
        )

    def forward(self, shares: Tensor) -> Tensor:
        """shares `[B, types − 1, h, w]` → log-probabilities `[B, classes]`."""
        return F.log_softmax(self.layers(shares), dim=1)


def type_shares(snapshots: Snapshots, types: int) -> Tensor:
    """Share of every cell type (medium left out) in blocks of sites, `[N, types − 1, h, w]`."""
    maps = np.take_along_axis(snapshots.types, snapshots.ids.reshape(len(snapshots), -1), axis=1)
    maps = maps.reshape(snapshots.ids.shape)
    one_hot = np.stack([maps == cell_type for cell_type in range(1, types)], axis=1).astype(np.float32)
    return F.avg_pool2d(torch.from_numpy(one_hot), COARSE)


class Trained(NamedTuple):
    """A classifier and its accuracy on states it was not trained on."""

    classifier: DigitClassifier
    accuracy: float


def train_classifier(data: Snapshots, *, epochs: int = 20, seed: int = 0, holdout: float = 0.15) -> Trained:
    """On the labels of a data set."""
    if "labels" not in data.arrays:
        raise UserError("The data set has no 'labels', but a classifier score needs them: use data cellular-mnist.")
    torch.manual_seed(seed)
    rng = np.random.default_rng([seed, 5])
    types = len(data.type_names)
    inputs, labels = type_shares(data, types), torch.from_numpy(np.asarray(data.arrays["labels"])).long()
    order = rng.permutation(len(data))
    held, kept = np.split(order, [max(1, round(holdout * len(data)))])
    classifier = DigitClassifier(types, data.lattice.shape, int(labels.max()) + 1)
    optimizer = torch.optim.Adam(classifier.parameters(), lr=2e-3, weight_decay=1e-4)
    for _ in range(epochs):
        for batch in np.array_split(rng.permutation(kept), max(1, len(kept) // 32)):
            optimizer.zero_grad()
            F.nll_loss(classifier(inputs[batch]), labels[batch]).backward()
            optimizer.step()
    classifier.eval()
    with torch.no_grad():
        right = classifier(inputs[held]).argmax(1) == labels[held]
    return Trained(classifier, right.float().mean().item())


class Score(NamedTuple):
    """The classifier score and its bootstrap 95 % interval."""

    score: float
    low: float
    high: float


def classifier_score(classifier: DigitClassifier, samples: Snapshots, *, bootstrap: int = 1000, seed: int = 0) -> Score:
    """Score of sampled states."""
    with torch.no_grad():
        logs = classifier(type_shares(samples, classifier.types)).double().numpy()
    rng = np.random.default_rng([seed, 13])
    again = [_score(logs[rng.integers(len(logs), size=len(logs))]) for _ in range(bootstrap)]
    low, high = np.quantile(again, [0.025, 0.975])
    return Score(_score(logs), float(low), float(high))


def _score(logs: NDArray[np.float64]) -> float:
    chances = np.exp(logs)
    marginal = np.log(chances.mean(axis=0))
    return float(np.exp((chances * (logs - marginal)).sum(axis=1).mean()))
