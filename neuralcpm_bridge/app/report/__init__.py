"""One self-contained HTML file about one or several trained models: no scripts, no requests, readable everywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from neuralcpm_bridge import __version__
from neuralcpm_bridge.files import writing
from neuralcpm_bridge.snapshots import Snapshots, load_snapshots

from . import html, sections
from .gather import Run, find_runs, sha256, truth_of
from .measuring import Sampling, draw_samples, microseconds

__all__ = ["Sampling", "write_report"]


def write_report(
    places: Sequence[str | Path],
    output: Path,
    *,
    data: Path | None = None,
    title: str = "",
    summary: str = "",
    sampling: Sampling | None = None,
    tell: Callable[[str], None] = lambda message: None,
) -> list[str]:
    """Write the report of runs (folders of training or experiments, model files); the names of the runs in it.

    `summary` stands under the title, before the count of measures in which each model is nearest to the data.
    Where a run has no `samples.npz` and data is known, its model is sampled as `sampling` says (`None`: not at all).
    """
    with TemporaryDirectory() as scratch:
        tell("reading the runs")
        runs = find_runs(places, Path(scratch))
        source = data or next((run.data_path for run in runs if run.data_path is not None), None)
        artifact = next((run.artifact for run in runs if run.artifact is not None), None)
        snapshots = None if source is None else load_snapshots(source, artifact)
        for run in runs:
            if run.samples is None and run.artifact is not None and snapshots is not None and sampling is not None:
                tell(f"sampling {run.name}")
                run.samples = draw_samples(run.artifact, snapshots, sampling)
        tell("writing")
        hashes = {} if source is None else {"data set (SHA-256)": sha256(source)}
        text = _page(runs, snapshots, title, summary, hashes)
    with writing(output) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="replace")
    return [run.name for run in runs]


def _page(runs: list[Run], data: Snapshots | None, title: str, summary: str, hashes: dict[str, str]) -> str:
    truth = truth_of(data)
    timed = {run.name: microseconds(run.artifact, data) for run in runs if run.artifact is not None}
    measured, verdict = sections.measures(runs, data)
    facts = []
    for run in runs[:2]:
        meta = run.artifact.metadata if run.artifact else None
        if meta is not None:
            facts.append((f"{run.name}: parameters", f"{meta.parameters:,}"))
            facts.append((f"{run.name}: one ΔH", f"{timed[run.name]['median']:.3g} µs"))
    if data is not None:
        facts.insert(0, ("snapshots of data", f"{len(data):,}"))
    names = ", ".join(run.name for run in runs)
    heading = title or f"Learned cell energies: {names}"
    lede = f"{summary} {sections.lede(runs, verdict)}".strip()
    body = "".join(
        (
            sections.samples(runs, data),
            measured,
            sections.what_was_trained(runs, data),
            sections.curves(runs, truth),
            sections.parameters(runs, truth),
            sections.results(runs),
            sections.speed(timed),
            sections.provenance(runs, {"program": f"neuralcpm-bridge {__version__}", **hashes}),
        )
    )
    return html.page(heading, html.paragraph(lede, "lede") + html.cards(facts), body)
