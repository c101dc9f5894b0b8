"""A training run's configuration: TOML, checked before anything starts; unknown keys are named with the nearest one.

`EXAMPLE` is the commented file that `neuralcpm train --example` prints and the tests read.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from neuralcpm_bridge.errors import UserError, reading
from neuralcpm_bridge.sampling import GROWTH_MCS
from neuralcpm_bridge.terms import TERMS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found]

Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class DataSection(_Section):
    path: Path | None = None
    holdout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    symmetries: bool = False


class ModelSection(_Section):
    preset: str = "graph1-closure"
    members: Annotated[int, Field(ge=1)] = 1
    target_volume: Positive | None = None
    freeze_symbolic: bool = False
    head_gain: Positive = 1.0
    padding: Literal["zeros", "circular"] | None = None
    order: Annotated[int, Field(ge=1)] | None = None
    by_type: bool = False
    terms: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()
    knots: Annotated[int, Field(ge=2)] | None = None

    @field_validator("terms")
    @classmethod
    def _are_further_terms(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        known = [name for name in TERMS if name not in ("contact", "volume")]
        for name in names:
            if name not in known:
                raise ValueError(f"{name!r} is no further term beside contact and volume, which are {', '.join(known)}")
        return names

    @field_validator("properties")
    @classmethod
    def _are_different_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) != len(names):
            raise ValueError(f"{', '.join(names)} names a property twice")
        return names


class WarmstartSection(_Section):
    symbolic: bool = True
    steps: Annotated[int, Field(ge=0)] = 0
    sweeps: tuple[Positive, ...] = (1.0, 4.0, 16.0, 64.0)


class ObjectiveSection(_Section):
    kind: Literal["pcd", "conditional"] = "pcd"
    regularizer: Annotated[float, Field(ge=0)] = 0.0
    regularize: Literal["total", "neural", "gap"] = "total"
    push: Positive | None = None
    bootstrap: bool = False


class SamplerSection(_Section):
    kind: Literal["exact", "parallel", "gibbs", "gwg"] = "exact"
    temperature: Positive = 1.0
    flips: Annotated[int, Field(ge=1)] = 50
    threads: Annotated[int, Field(ge=1, le=1024)] = 1
    balanced: bool = False
    staged: bool = False
    trades: Annotated[int, Field(ge=0)] = 0
    pool: Annotated[int, Field(ge=1)] = 16


class ChainSection(_Section):
    share: Positive = 1.0
    start: Literal["data", "permuted", "mixed"] = "permuted"
    reset: Share = 0.025
    sweeps: tuple[Positive, ...] = (1.0,)
    settle: Annotated[int, Field(ge=1)] = GROWTH_MCS


class OptimizerSection(_Section):
    steps: Annotated[int, Field(ge=1)] = 1000
    batch: Annotated[int, Field(ge=1)] = 16
    refresh: Annotated[int, Field(ge=1)] = 1
    lr: Positive = 1e-3
    symbolic_lr: Positive | None = None
    decay: Share = 0.0
    clip: Positive | None = None
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    averaging: Annotated[float, Field(ge=0, lt=1)] = 0.0


class RunSection(_Section):
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    log_every: Annotated[int, Field(ge=1)] = 10
    checkpoint_every: Annotated[int, Field(ge=1)] = 100
    max_gap: Positive = 1e6
    min_acceptance: Share = 1e-4
    rollbacks: Annotated[int, Field(ge=0)] = 4


class Config(_Section):
    """Everything a run depends on; the data and this give the same weights again on the same machine."""

    data: DataSection = DataSection()
    model: ModelSection = ModelSection()
    warmstart: WarmstartSection = WarmstartSection()
    objective: ObjectiveSection = ObjectiveSection()
    sampler: SamplerSection = SamplerSection()
    chains: tuple[ChainSection, ...] = (ChainSection(),)
    optimizer: OptimizerSection = OptimizerSection()
    run: RunSection = RunSection()

    @model_validator(mode="after")
    def _fits_together(self) -> Config:
        if not self.chains:
            raise ValueError("[[chains]] is empty, but training needs chains")
        if self.optimizer.batch > self.sampler.pool:
            raise ValueError(
                f"optimizer.batch is {self.optimizer.batch}, but a batch is drawn from sampler.pool = "
                f"{self.sampler.pool} chains"
            )
        if self.sampler.kind == "exact" and any(s != int(s) for group in self.chains for s in group.sweeps):
            raise ValueError("chains.sweeps of the exact sampler are whole Monte Carlo steps")
        if self.sampler.kind != "exact":
            exact_only = [key for key in ("balanced", "staged", "trades") if getattr(self.sampler, key)]
            if exact_only:
                raise ValueError(
                    f"sampler.{exact_only[0]} belongs to exact chains, the {self.sampler.kind} sampler does not know "
                    "it: leave it out, or set sampler.kind = 'exact'"
                )
        return self


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Read a TOML file and apply `section.key=value` overrides (values as in TOML)."""
    path = Path(path)
    if not path.exists():
        raise UserError(f"There is no configuration {path}: write one (neuralcpm train --example prints a template).")
    with reading(path, "a readable TOML file", "correct it"):
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    data = tree.get("data")
    if isinstance(data, dict) and isinstance(data.get("path"), str):
        data["path"] = str(path.parent / data["path"])  # relative to the file that says it
    return make_config(tree, overrides)


def make_config(tree: dict[str, Any], overrides: Sequence[str] = ()) -> Config:
    """A checked configuration from nested dictionaries."""
    for override in overrides:
        _set(tree, override)
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        raise UserError(_sentence(error)) from None


def _set(tree: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise UserError(f"--set got {override!r}, but section.key=value is needed, for example optimizer.lr=0.001.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    node: Any = tree
    for part in parts[:-1]:
        node = node[int(part)] if isinstance(node, list) and part.isdigit() and int(part) < len(node) else node
        if isinstance(node, dict) and not part.isdigit():
            node = node.setdefault(part, {})
    if not isinstance(node, dict):
        raise UserError(f"--set {key.strip()} leads into a value, not a section: see the keys of the configuration.")
    node[parts[-1]] = value


def _sentence(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = _keys_at(first["loc"][:-1])
        nearest = difflib.get_close_matches(str(first["loc"][-1]), known, n=1, cutoff=0.4)
        hint = f"did you mean {nearest[0]!r}?" if nearest else f"the keys there are {', '.join(known)}."
        return f"The configuration has the unknown key {where!r}: {hint}"
    found = "" if first["type"] == "value_error" else f" (found {first['input']!r})"
    return f"The configuration is wrong at {where or 'its whole'}: {first['msg']}{found}."


def _keys_at(location: tuple[Any, ...]) -> list[str]:
    """Valid keys of the section at a location of the configuration."""
    section: Any = Config
    for part in location:
        if isinstance(part, str):
            section = ChainSection if part == "chains" else section.model_fields[part].annotation
    return list(section.model_fields)


EXAMPLE = """\
# A cell graph as a closure of contact and volume energies, on two CPU cores: the setting that learned elongated cells
# (docs/results.md), a minute for a dozen cells. docs/architectures.md says when to take another preset.
[data]
path = "data.npz"        # relative to this file
holdout = 0.1            # share of states never trained on
symmetries = false       # turn and mirror states at random, as the lattice allows

[model]
preset = "graph1-closure"   # cellsort, graph2-closure, local8-closure, mnist-nh, … (neuralcpm train --help)
# members = 4               # of a cell graph: a committee, which says where it is unsure
freeze_symbolic = true      # keep contact and volume energies at their warm start
head_gain = 1.0             # factor on the initial output layer of the network
# by_type = true            # a volume constraint of its own for every cell type, its target fitted too
# order = 2                 # of the neighbours that touch: 1, 2, 3 …; by default all around a site
# terms = ["length"]        # further analytic terms: volume_function, surface, length, external
# properties = ["age"]      # of a cell graph: columns of the data that it reads of every cell, besides its type
# knots = 12                # of a cell graph: energies of all pairs of cells by their distance, between so many knots

[warmstart]
symbolic = true          # J and λ from single flips (conditional noise contrast) before the first step
steps = 64               # first steps, in which chains leave the data under the analytic part alone: no network to run
sweeps = [1, 4, 16, 64]  # how far they go

[objective]
kind = "conditional"     # pcd: the paper's; conditional: bounded, samples are used for several steps
regularizer = 0.0        # on squared …
regularize = "gap"       # … differences of chain and datum; or energies: "total", "neural" (the network's alone)
push = 3.0               # of a cell graph: typical ΔH that it may add to a single copy, in units of the temperature
# bootstrap = true       # of a committee: every member weighs the data in its own way

[sampler]
kind = "exact"           # exact: serial chains on the engine; parallel: the paper's approximate sampler; or gibbs, gwg
temperature = 1.0
threads = 2
staged = false           # exact: ask the network only about copies that contact and volume energies let pass
balanced = false         # exact: sample e^{-H/T} itself instead of what the hosts' copies sample
trades = 0               # exact: pairs of cells that may trade places, per Monte Carlo step: many cells, slow to sort
pool = 24                # chains

[[chains]]               # one table per kind of chain
share = 1
start = "data"           # data, permuted (cell types shuffled) or mixed (single pixels in a disc)
reset = 1.0              # probability per round of starting anew
sweeps = [1, 2, 4]       # Monte Carlo steps per round, drawn from this list

[[chains]]
share = 2
start = "mixed"
reset = 0.01
sweeps = [12]
# settle = 30            # of mixed starts: Monte Carlo steps before a chain that started anew is compared with data

[optimizer]
steps = 900
batch = 12
refresh = 2              # steps per round of sampling
lr = 0.003
decay = 0.5              # share of the steps, at the end, over which the rate falls to zero
clip = 10.0              # largest gradient norm
# weight_decay = 0.0     # of the network's weights, per unit of the rate: keeps it from learning few states by heart
averaging = 0.97         # of the weights, per step

[run]
seed = 0
log_every = 10
checkpoint_every = 50
# rollbacks = 4          # how often a run that left the rails goes back to its last good weights, at half the rate
"""
