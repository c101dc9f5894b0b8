"""Named sizes: the paper's models for its two neural experiments, and our Local NHs."""

from __future__ import annotations

import torch

from neuralcpm_bridge.artifact import Boundary, NeuralSpec
from neuralcpm_bridge.errors import UserError

from .hamiltonian import Hamiltonian, Symbolic
from .networks import build_network
from .terms import Contact, ExternalPotential, Volume

CNN_WIDTHS, CNN_POOLS = (16, 16, 32, 32, 64, 64, 128), (1, 2, 1, 2, 1, 2, 1)

NETWORKS: dict[str, NeuralSpec] = {
    "mnist-nh": NeuralSpec(kind="nh", stride=3, widths=(8, 16, 32, 32), pools=(3, 2, 1, 1)),
    "mnist-nh-cnn": NeuralSpec(
        kind="nh_cnn", stride=3, widths=(8,), pools=(3,), conv_widths=(32, 64, 128), conv_pools=(1, 2, 2)
    ),
    "mnist-cnn": NeuralSpec(kind="cnn", stride=3, project=64, conv_widths=CNN_WIDTHS, conv_pools=CNN_POOLS),
    "bipolar-nh": NeuralSpec(kind="nh", stride=5, widths=(16, 32, 32, 64, 64, 64), pools=(2, 1, 2, 1, 2, 1)),
    "bipolar-nh-cnn": NeuralSpec(
        kind="nh_cnn", stride=5, widths=(16,), pools=(2,), conv_widths=(32, 64, 64, 128), conv_pools=(1, 2, 1, 2)
    ),
    "bipolar-cnn": NeuralSpec(kind="cnn", stride=3, project=64, conv_widths=CNN_WIDTHS, conv_pools=CNN_POOLS),
    "local8": NeuralSpec(kind="local_nh", stride=3, widths=(8,), pools=(1,), project=8, mlp=()),
    "local16": NeuralSpec(kind="local_nh", stride=3, widths=(16,), pools=(1,), project=16, mlp=()),
    "local8s5": NeuralSpec(kind="local_nh", stride=5, widths=(8,), pools=(1,), project=8, mlp=()),
    "local8s8": NeuralSpec(kind="local_nh", stride=8, widths=(8,), pools=(1,), project=8, mlp=()),
    "local16s8": NeuralSpec(kind="local_nh", stride=8, widths=(16,), pools=(1,), project=16, mlp=()),
    "local8x2": NeuralSpec(kind="local_nh", stride=3, widths=(8, 8), pools=(1, 1), project=8, mlp=()),
}

PRESETS: tuple[str, ...] = (
    *("mnist-cellsort", "mnist-external", "mnist-closure"),
    *("bipolar-cellsort", "bipolar-external", "bipolar-closure"),
    *NETWORKS,
    *("local8-closure", "local8s5-closure", "local8s8-closure"),
    *("local16-closure", "local16s8-closure", "local8x2-closure"),
)

LATTICES = {"mnist": (100, 100), "bipolar": (149, 149)}
IDS = {"mnist": 51, "bipolar": 41}
TARGET_VOLUME = {"mnist": 97.0, "bipolar": 150.0}


def make_preset(
    name: str,
    types: tuple[str, ...] = ("medium", "A", "B"),
    *,
    cells: int | None = None,
    lattice: tuple[int, int] | None = None,
    target_volume: float | None = None,
    boundary: Boundary = "periodic",
    padding: str | None = None,
) -> Hamiltonian:
    """A freshly initialised Hamiltonian of a named size; draws from torch's global generator.

    Where the paper starts its closures: w_S = 0.25, w_NN = 1, λ = 0.05, J around 2.
    """
    if name not in PRESETS:
        raise UserError(f"There is no preset {name!r}: choose one of {', '.join(PRESETS)}.")
    experiment, _, rest = name.partition("-")
    family = experiment if experiment in IDS else "mnist"
    ids = cells or IDS[family]
    network_name = {"closure": f"{family}-nh"}.get(rest, name) if experiment in IDS else experiment
    analytic = rest in ("cellsort", "external", "closure")
    symbolic = network = None
    if analytic:
        count = len(types)
        field = torch.zeros(1, *(lattice or LATTICES[family]))
        symbolic = Symbolic(
            contact=Contact(2 + 2 * torch.rand(count, count) - 1, periodic=boundary == "periodic"),
            volume=Volume(torch.tensor([0.05]), torch.tensor([target_volume or TARGET_VOLUME[family]])),
            external=ExternalPotential(field, torch.ones(count, 1)) if rest == "external" else None,
            weight=0.25 if rest == "closure" else 1.0,
            train_weight=rest == "closure",
        )
    if network_name in NETWORKS:
        spec = NETWORKS[network_name]
        if padding is not None:
            spec = spec.model_copy(update={"padding": padding})
        network = build_network(spec, len(types), ids)
    return Hamiltonian(types, symbolic, network, train_network_weight=analytic, boundary=boundary, cells=ids)
