"""The sections of the report, in the order in which they are read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from neuralcpm_bridge.artifact import Metadata
from neuralcpm_bridge.conventions import TARGETS, parameter_rows, uncarried_terms
from neuralcpm_bridge.lattice import boundary_text, size_text
from neuralcpm_bridge.metrics.comparing import MEASURES, WITHIN, Measured, comparable_measures, distance
from neuralcpm_bridge.pictures import Line
from neuralcpm_bridge.snapshots import Snapshots
from neuralcpm_bridge.state import CellState

from . import html
from .charts import svg_chart
from .forest import Rows, forest, shared_titles
from .gather import Run
from .measuring import nearest_to_data

SHOWN_STATES = 8
NO_CURVES = (
    "step",
    "loss",
    "energy_data",
    "energy_chains",
    "energy_holdout",
    "gap",
    "acceptance",
    "rate",
    "seconds",
    "evaluations_per_s",
)
"""Columns of metrics.csv that are not parameters."""
NEARER = " Green: the model nearer to the data, where the models differ by more than two standard errors."
HOST_NAMES = {"embedded": "learned", "cc3d": "CompuCell3D", "morpheus": "Morpheus"}


def lede(runs: Sequence[Run], verdict: str) -> str:
    """The sentence under the title."""
    if verdict:
        return verdict
    run = runs[0]
    size = f" with {run.artifact.metadata.parameters:,} parameters" if run.artifact else ""
    time = f", trained for {run.header['step']:,} steps in {duration(run.header['seconds'])}" if run.header else ""
    return f"A model of the kind {_architecture(run)}{size}{time}."


def what_was_trained(runs: Sequence[Run], data: Snapshots | None, snapshots: int | None = None) -> str:
    """`snapshots`: how many it was trained on, where `data` holds others of their kind."""
    rows: list[list[Any]] = [
        ["architecture", *map(_architecture, runs)],
        ["learned numbers", *(f"{run.artifact.metadata.parameters:,}" if run.artifact else "–" for run in runs)],
        ["sees", *map(_window, runs)],
    ]
    if any(_start(run) for run in runs):
        rows.append(["training started from", *(_start(run) or "its own fit to the data" for run in runs)])
    if any(run.header for run in runs):
        rows += [
            ["objective", *(str(run.config.get("objective", {}).get("kind", "–")) for run in runs)],
            ["sampler", *(str(run.config.get("sampler", {}).get("kind", "–")) for run in runs)],
            ["steps", *(html.number(run.header.get("step")) for run in runs)],
            ["training time", *(duration(run.header.get("seconds")) for run in runs)],
            ["ΔH evaluations", *(html.number(run.header.get("evaluations")) for run in runs)],
        ]
    if any(_earlier_training(run) for run in runs):
        rows.append(["trained before, on", *(_earlier_training(run) or "–" for run in runs)])
    notes = "".join(html.paragraph(f"{run.name}: {run.note}", "note") for run in runs if run.note)
    head = ["", *(run.name for run in runs)]
    said = data_sentence(data, snapshots)
    if data is not None and snapshots is None and not any(run.header for run in runs):
        said = f"The models came trained; here they are compared with {said}"
    return html.section("What was trained, on what", html.paragraph(said), html.table(head, rows), notes)


def _architecture(run: Run) -> str:
    return run.artifact.metadata.architecture if run.artifact else str(run.config.get("model", {}).get("preset", "–"))


def _start(run: Run) -> str:
    """The model whose weights a training began with, where it did not begin anew."""
    return str(run.artifact.metadata.training.get("started_from", "")) if run.artifact else ""


def _earlier_training(run: Run) -> str:
    """What a model file without a run says of its own training."""
    facts = run.artifact.metadata.training if run.artifact and not run.header else {}
    if not {"data", "states"} <= facts.keys():
        return ""
    return f"{facts['states']} snapshots ({facts['data']})"


def _window(run: Run) -> str:
    if run.artifact is None:
        return "–"
    network, field = run.artifact.metadata.neural, run.artifact.metadata.receptive_field
    if network is None:
        return "sites and their neighbours"
    if network.is_graph:
        far = "those it touches" if network.rounds == 1 else f"those up to {network.rounds} contacts away"
        return f"each cell and {far}" + (", and how far all others are" if network.knots else "")
    return "the whole lattice" if field is None else f"{field} sites across"


def data_sentence(data: Snapshots | None, snapshots: int | None = None) -> str:
    """`snapshots`: how many there are, where these are only some of them."""
    if data is None:
        return "The data set was not found beside the run: samples and measures of the data are left out."
    cells = np.mean([state.cells.size for state in data])
    names = data.type_names[1:]
    types = f" of the type{'s' if len(names) > 1 else ''} {', '.join(names)}" if names else ""
    lattice = data.lattice
    number = snapshots or len(data)
    text = "1 snapshot" if number == 1 else f"{number} snapshots"
    text += f" of {size_text(lattice.shape)} sites ({lattice.geometry.name}), "
    count = "1 cell" if round(cells) == 1 else f"{cells:.0f} cells"
    text += f"about {count}{types}, {boundary_text(lattice.boundary)} boundary"
    recipe = data.provenance.get("recipe", {})
    if recipe:
        text += f"; generated ({recipe.get('name', 'unnamed')}, {recipe.get('mcs', '?')} MCS each)"
        text += ", with a length constraint that contact and volume cannot express" if recipe.get("length") else ""
    return text + "."


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def curves(runs: Sequence[Run], truth: dict[str, float]) -> str:
    trained = [run for run in runs if len(run.curves.get("step", ()))]
    if not trained:
        return ""

    def lines(key: str, title: str = "") -> list[Line]:
        return [Line(run.name + title, run.curves["step"], run.curves[key]) for run in trained if key in run.curves]

    charts = [svg_chart("Loss", lines("loss")), svg_chart("Acceptance of proposals", lines("acceptance"))]
    for run in trained:
        energies = {"energy_data": "data", "energy_chains": "chains", "energy_holdout": "data never trained on"}
        pairs = [Line(name, run.curves["step"], run.curves[key]) for key, name in energies.items() if key in run.curves]
        charts.append(svg_chart(f"Energy of data and chains, {run.name}", pairs))
    for run in trained:
        charts += parameter_charts(run, truth)
    dashed = any('class="dashed"' in chart for chart in charts)
    known = html.paragraph("Dashed: the true value, which generated the data.", "faint") if dashed else ""
    return html.section("Training curves", known, f'<div class="charts">{"".join(charts)}</div>')


def parameter_charts(run: Run, truth: dict[str, float]) -> list[str]:
    """Contact energies in one chart, every other parameter in its own: their scales differ. Frozen ones have none."""
    named = [key for key, values in run.curves.items() if key not in NO_CURVES and (len(values) < 2 or np.ptp(values))]
    groups = [[key for key in named if key.startswith("J")], *([key] for key in named if not key.startswith("J"))]
    steps = run.curves["step"]
    charts = []
    for keys in filter(None, groups):
        lines = [Line(key, steps, run.curves[key]) for key in keys]
        lines += [Line(key, steps[[0, -1]], np.full(2, truth[key]), dashed=True) for key in keys if key in truth]
        title = "Contact energies w_S·J" if len(keys) > 1 or keys[0].startswith("J") else _spoken(keys[0])
        charts.append(svg_chart(f"{title}, {run.name}", lines))
    return charts


RESULT_NAMES = {
    "norm_t1": "error of the parameters (norm, T = 1)",
    "norm_tstar": "error at the temperature that fits best",
    "rmse_t1": "root mean square error (T = 1)",
    "rmse_tstar": "root mean square error, best temperature",
    "aspect_gap": "aspect ratio, second type less first",
    "aspect_gap_error": "its standard error",
    "aspect_gap_share": "its share of the data's",
    "t_star": "temperature that fits best, T*",
    "seconds": "seconds in all",
    "evaluations_per_s": "ΔH evaluations per second",
}


def _spoken(key: str) -> str:
    spoken = {"push": "What the network charges for a copy, T", "w_NN": "Weight of the network w_NN"}
    return key.replace("lambda", "Volume strength w_S·λ") if key.startswith("lambda") else spoken.get(key, key)


def parameters(runs: Sequence[Run], truth: dict[str, float]) -> str:
    parts = []
    for run in runs:
        if run.artifact is None:
            continue
        parts += [f"<h3>{html.escape(run.name)}</h3>", parameter_table(run.artifact.metadata, truth)]
    words = (
        "Energies of the training convention (H = 2/|N| Σ over neighbour pairs J + Σ λ(V − V*)² + …) and the same in "
        "the words of each host: contact energies J of two types, strengths and targets of cells, temperature T. With "
        "a network, its ΔH (which holds its weight w_NN) is added to them unchanged."
    )
    return html.section("Parameters, in the conventions of the hosts", html.paragraph(words), *parts) if parts else ""


def parameter_table(meta: Metadata, truth: dict[str, float]) -> str:
    """The model's own numbers and the same in every host; what a host cannot carry stays empty and is said below."""
    if meta.symbolic is None:
        return html.paragraph("The model has no analytic terms: its network is the whole energy.", "note")
    rows = [
        [row.title, *(row.values[host] for host in HOST_NAMES), *([truth.get(row.key)] if truth else [])]
        for row in parameter_rows(meta)
    ]
    notes = [
        html.paragraph(f"{target.host}: {term} is left to the learned term, since {why}.", "note")
        for target in TARGETS.values()
        for term, why in uncarried_terms(meta, target).items()
    ]
    return html.table(["", *HOST_NAMES.values(), *(["truth"] if truth else [])], rows) + "".join(notes)


def samples(runs: Sequence[Run], data: Snapshots | None) -> str:
    """As many states of the data as of every run, so that nobody looks more varied than the others."""
    shown = [] if data is None else [("Data", data)]
    for run in runs:
        if run.samples is not None:
            mcs = run.samples.provenance.get("mcs")
            after = f", after {mcs:,} MCS from single pixels" if isinstance(mcs, int) else ""
            shown.append((f"Samples of {run.name}{after}", run.samples))
    if not shown:
        return ""
    figures = states_beside(shown, SHOWN_STATES)
    names = next((states.type_names for _, states in shown if states.type_names), ())
    return html.section("Samples beside data", html.type_key(names), f'<div class="samples">{figures}</div>')


def states_beside(shown: Sequence[tuple[str, Snapshots]], most: int) -> str:
    """The same number of states of each."""
    count = min(most, *(len(states) for _, states in shown))
    return "".join(html.states_figure(title, spread(states, count)) for title, states in shown)


def spread(snapshots: Snapshots, count: int) -> list[CellState]:
    """States from all over a data set."""
    return [snapshots[int(number)] for number in np.linspace(0, len(snapshots) - 1, count).round()]


def measures(runs: Sequence[Run], data: Snapshots | None) -> tuple[str, str]:
    """Every run's measures beside the data's, and what they say in a sentence or two."""
    sampled = {run.name: run.samples for run in runs if run.samples is not None}
    if data is None or not sampled:
        return "", ""
    wanted = comparable_measures(data, data)
    found = {name: comparable_measures(samples, data) for name, samples in sampled.items()}
    table, nearest = measure_table(wanted, found)
    verdict = f"{likeness(wanted, found)} {nearest}".strip()
    content = forest(wanted, found), html.folded("The same as a table", table)
    return html.section("Measures beside the data's", *content), verdict


def likeness(wanted: Rows, models: Mapping[str, Rows]) -> str:
    """How many measures each model reproduces."""
    count = len(shared_titles(wanted, models.values()))
    told = [f"{reproduced(wanted, rows)} of {name}" for name, rows in models.items()]
    return f"Of {count} measures within two standard errors of the data's: {', '.join(told)}." if count else ""


def reproduced(wanted: Rows, found: Rows) -> int:
    """How many measures lie within two standard errors of the data's."""
    titles = shared_titles(wanted, [found])
    return sum(abs(distance(found[title], wanted[title], title)) <= WITHIN for title in titles)


def measure_table(wanted: Rows, models: Mapping[str, Rows]) -> tuple[str, str]:
    """Means and their errors, and one sentence about who is nearer to the data."""
    rows, marks = [], []
    for title in wanted:
        near = nearest_to_data(list(models.values()), wanted, title)
        rows.append([title, _with_error(wanted[title]), *(_with_error(row.get(title)) for row in models.values())])
        marks.append([False, *near])
    words = "Means over states and their standard errors." + (NEARER if len(models) > 1 else "")
    table = html.paragraph(words) + html.table(["measure", "data", *models], rows, marks)
    return table, _verdict(list(models), marks)


def _with_error(measured: Measured | None) -> html.Figure | None:
    if measured is None:
        return None
    return html.Figure(f"{html.number(measured.mean)} ±\N{NO-BREAK SPACE}{html.rough(measured.error)}")


def _verdict(names: Sequence[str], marks: Sequence[Sequence[bool]]) -> str:
    """How often each model is nearest: all of them, so that nobody's count is left out."""
    decided = [row for row in marks if any(row)]
    if len(names) < 2 or not decided:
        return ""
    wins = {name: sum(row[place] for row in decided) for place, name in enumerate(names, start=1)}
    ranked = sorted(wins.items(), key=lambda entry: -entry[1])
    told = ", ".join(f"{name} in {count}" for name, count in ranked)
    return f"Nearest to the data: {told} of {len(decided)} measures that tell the models apart."


def speed(timed: dict[str, dict[str, Any]]) -> str:
    rows = [[name, found["median"], found["p95"], found["by"], found["where"]] for name, found in timed.items()]
    words = "One ΔH of a random copy attempt at a cell boundary, one thread, measured when this report was written."
    head = ["model", "median µs", "95th percentile", "back end", "on"]
    return html.section("Price of one ΔH", html.paragraph(words), html.table(head, rows)) if rows else ""


def results(runs: Sequence[Run]) -> str:
    """Numbers that an experiment kept in results.json, beside the paper's where it states them."""
    kept: list[dict[str, Any]] = []
    for run in runs:
        if run.results and run.results not in kept:
            kept.append(run.results)
    parts = []
    for found in kept:
        stated = found.get("paper")
        paper = stated if isinstance(stated, dict) else {}
        plain = {key: value for key, value in found.items() if isinstance(value, (int, float, str))}
        rows = [[_result_name(key), value, *([paper.get(key)] if paper else [])] for key, value in plain.items()]
        parts += [_own_measures(found), html.table(["", "here", *(["paper"] if paper else [])], rows)]
    return html.section("Results of the experiment", *parts)


def _result_name(key: str) -> str:
    return RESULT_NAMES.get(key, key.replace("_", " "))


def _own_measures(found: dict[str, Any]) -> str:
    """Measures that only this experiment knows, of its data and models side by side."""
    columns = {name: found[name] for name in ("data", "closure", "baseline") if isinstance(found.get(name), dict)}
    known = {*MEASURES, "states", "cells", "axial_rmse"}
    keys = dict.fromkeys(key for values in columns.values() for key in values if key not in known)
    rows = [[_result_name(key), *(values.get(key) for values in columns.values())] for key in keys]
    plain = [row for row in rows if not any(isinstance(value, (list, dict)) for value in row)]
    return html.table(["measure", *columns], plain) if plain else ""


def provenance(runs: Sequence[Run], hashes: dict[str, str]) -> str:
    rows = list(hashes.items())
    shown = []
    for run in runs:
        if run.artifact is not None:
            rows.append((f"weights of {run.name} (SHA-256)", run.artifact.metadata.weights_hash))
        rows += [(f"{what} of {run.name} (SHA-256)", digest) for what, digest in run.hashes.items()]
        if run.config:
            shown.append(html.details(f"Configuration of {run.name}", json.dumps(run.config, indent=1)))
    return html.section("Provenance", html.hash_table(rows), *shown)
