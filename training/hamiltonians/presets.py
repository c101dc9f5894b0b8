"""Named sizes: our cell graphs and Local NHs, and the paper's models for its two neural experiments."""

from __future__ import annotations

from collections.abc import Mapping

from neuralcpm_bridge.artifact import LatticeEntry, NeuralSpec
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.lattice import geometry_named

from .hamiltonian import Hamiltonian, Symbolic
from .networks import build_network
from .term import Start
from .terms import TERMS

CNN_WIDTHS, CNN_POOLS = (16, 16, 32, 32, 64, 64, 128), (1, 2, 1, 2, 1, 2, 1)

NETWORKS: dict[str, NeuralSpec] = {
    **{f"graph{rounds}": NeuralSpec(kind="cell_graph", rounds=rounds) for rounds in (1, 2, 3)},
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
    *("graph1-closure", "graph2-closure", "graph3-closure"),
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
    lattice: LatticeEntry | None = None,
    target_volume: float | None = None,
    padding: str | None = None,
    order: int | None = None,
    terms: Mapping[str, tuple[float, ...]] | None = None,
    members: int = 1,
    properties: tuple[str, ...] = (),
    free_targets: bool = False,
    knots: int = 0,
) -> Hamiltonian:
    """A freshly initialised Hamiltonian of a named size; draws from torch's global generator.

    Where the paper starts its closures: w_S = 0.25, w_NN = 1, λ = 0.05, J around 2. `order`: of contacts and surfaces;
    `terms`: further analytic terms and what each one measures of the data on the mean, by cell type; `members`: of the
    committee of a cell graph; `properties`: of cells that it reads; `free_targets`: those of
    constraints are fitted to flips too; `knots`: of a cell graph's energies of pairs by their distance.
    """
    if name not in PRESETS:
        raise UserError(f"There is no preset {name!r}: choose one of {', '.join(PRESETS)}.")
    experiment, _, rest = name.partition("-")
    family = experiment if experiment in IDS else "mnist"
    ids, where = cells or IDS[family], lattice or LatticeEntry()
    network_name = {"closure": f"{family}-nh"}.get(rest, name) if experiment in IDS else experiment
    analytic = rest in ("cellsort", "external", "closure")
    if terms and not analytic:
        raise UserError(
            f"The preset {name!r} is a network alone, but model.terms asks for {', '.join(terms)}: use a closure."
        )
    symbolic = network = None
    if analytic:
        means = {"volume": (target_volume or TARGET_VOLUME[family],), **(terms or {})}
        start = Start(len(types), where.shape or LATTICES[family], means, order, free_targets)
        chosen = {"contact", "volume", *(terms or ()), *(("external",) if rest == "external" else ())}
        symbolic = Symbolic(
            *(term.fresh(start) for key, term in TERMS.items() if key in chosen),
            weight=0.25 if rest == "closure" else 1.0,
            train_weight=rest == "closure",
        )
    if members > 1 and not network_name.startswith("graph"):
        raise UserError(
            f"A committee of {members} members was asked for, but the preset {name!r} is no cell graph: use one, such "
            "as graph1-closure."
        )
    if knots and not network_name.startswith("graph"):
        raise UserError(
            f"model.knots asks for energies of pairs of cells, but the preset {name!r} is no cell graph, which alone "
            "has them: use one, such as graph1-closure."
        )
    if properties and not network_name.startswith("graph"):
        raise UserError(
            f"model.properties asks for {', '.join(properties)}, but the preset {name!r} is no cell graph, which alone "
            "reads properties of cells: use one, such as graph1-closure."
        )
    if network_name in NETWORKS:
        spec = NETWORKS[network_name]
        if spec.is_graph:
            own_order = order or geometry_named(where.geometry).moore_order
            sizes = {"order": own_order, "members": members, "knots": knots, "properties": properties}
            spec = spec.model_copy(update=sizes)
        elif padding is not None:
            spec = spec.model_copy(update={"padding": padding})
        network = build_network(spec, len(types), ids, where, target_volume or TARGET_VOLUME[family])
    return Hamiltonian(types, symbolic, network, train_network_weight=analytic, lattice=where, cells=ids)
