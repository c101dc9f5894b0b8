"""The report of a fit: one page that answers a biologist's questions in their order, from files in its folder alone."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from math import log
from pathlib import Path

from neuralcpm_bridge import __version__
from neuralcpm_bridge.artifact import Metadata
from neuralcpm_bridge.explain import Explanation, explain
from neuralcpm_bridge.explain.sentences import HARDLY, figure
from neuralcpm_bridge.files import writing
from neuralcpm_bridge.hosting.uncertainty import Limits
from neuralcpm_bridge.timelapse import frame_note

from .report import analytic, html, learned, sections, trust
from .report.fit_folder import HELD_OUT_FILE, MODELS, Facts, FitFolder, read_fit
from .report.forest import forest
from .report.gather import Run, truth_of
from .report.measuring import microseconds

REPORT_FILE = "report.html"
SHOWN, SHOWN_SOLIDS = 6, 2
"""States of each kind, the same number of all; 3D ones are four pictures each."""
CURVES = 3
"""Response curves that are shown before one asks for all."""
SUFFICES = 0.9
"""Share of measures as in the data from which contact and volume energies alone are enough."""
CHAPTERS = {
    "behaves": "Does it behave like my data?",
    "learned": "What did it learn?",
    "trust": "Where can I trust it?",
    "use": "How do I use it in CompuCell3D and Morpheus?",
    "technical": "The technical part",
}


def write_fit_report(
    folder: Path,
    output: Path | None = None,
    *,
    title: str = "",
    tell: Callable[[str], None] = lambda message: None,
) -> Path:
    """Write `report.html` of a finished fit into its folder, or wherever it is asked for; the file's path."""
    target = folder / REPORT_FILE if output is None else output
    tell("reading the fit")
    found = read_fit(folder)
    explained = None
    artifact = found.closure.artifact
    network = artifact.metadata.neural if artifact is not None else None
    if found.facts.adds and artifact is not None and network is not None and network.is_graph:
        tell("what it learned")
        explained = explain(artifact, found.data)
    tell("writing")
    body = "".join((behaves(found), what_it_learned(found, explained), trusted(found), used(found), technical(found)))
    heading = title or f"A model of my data: {folder.resolve().name}"
    page = html.page(heading, _head(found), body)
    with writing(target) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return target


def _head(found: FitFolder) -> str:
    facts = found.facts
    took = f" in {sections.duration(facts.seconds)}" if facts.seconds is not None else ""
    lede = (
        f"Learned{took} from {sections.data_sentence(found.data, facts.states.train)} "
        f"Judged by {_by_which_states(facts)}."
    )
    if facts.like is not None:
        lede += f" Contact and volume energies are those of {facts.like} and stayed as they are."
    wanted, cards = facts.rows("data"), []
    for run in found.runs:
        whose = ", contact and volume alone" if run is found.baseline and facts.adds else ""
        near = sections.reproduced(wanted, facts.rows(run.name))
        cards.append((f"measures as in the data{whose}", f"{near} of {len(wanted)}"))
        if run.name in facts.misfit:
            cards.append((f"mean square distance{whose} (chance: 1)", figure(facts.misfit[run.name])))
    return html.paragraph(lede, "lede") + html.cards(cards) + html.contents(CHAPTERS.items())


def _by_which_states(facts: Facts) -> str:
    count = facts.states.judge
    if facts.kept_apart:
        return f"{count:,} states that were kept apart" if count > 1 else "one state that was kept apart"
    return f"{count:,} of these same snapshots" if count > 1 else "this same snapshot"


# -- does it behave like my data? -------------------------------------------------------------------------------------


def behaves(found: FitFolder) -> str:
    facts, data = found.facts, found.data
    names = {"closure": "Samples of the closure", "baseline": "Samples of contact and volume alone"}
    shown = [("Data", data)]
    shown += [(names[run.name], run.samples) for run in found.runs if run.samples is not None]
    most = SHOWN if data.lattice.dimension == 2 else SHOWN_SOLIDS
    size = "beside" if len(shown) > 2 else "beside two"
    models = {run.name: facts.rows(run.name) for run in found.runs}
    table, _ = sections.measure_table(facts.rows("data"), models)
    return html.section(
        CHAPTERS["behaves"],
        html.paragraph(facts.verdict, "verdict"),
        html.type_key(data.type_names),
        f'<div class="{size}">{sections.states_beside(shown, most)}</div>',
        html.paragraph(_sampled(found), "faint"),
        "<h3>Measure by measure</h3>",
        forest(facts.rows("data"), models),
        html.folded("The same as a table", table),
        key="behaves",
    )


def _sampled(found: FitFolder) -> str:
    facts = found.facts
    return (
        f"{facts.replicates} samples of each model: the data's cells scattered as single sites, then "
        f"{facts.sample_mcs:,} Monte Carlo steps of copies alone."
    )


# -- what did it learn? ---------------------------------------------------------------------------------------------


def what_it_learned(found: FitFolder, explained: Explanation | None) -> str:
    if explained is None:
        return html.section(CHAPTERS["learned"], *_analytic(found), key="learned")
    ranked = explained.sentences
    strong = [explained.sentence(r) for r in explained.responses if r.strength >= HARDLY]
    first = [line for line in ranked if line == ranked[0] or line in strong]
    rest = [line for line in ranked if line not in first]
    quantities = len({response.quantity for response in explained.responses})
    every = learned.curves(explained) if quantities > CURVES else ""
    return html.section(
        CHAPTERS["learned"],
        html.paragraph("What the network adds to contact and volume energies, in units of the temperature T."),
        learned.sentences(first),
        html.folded("What hardly matters", learned.sentences(rest)),
        "<h3>The strongest responses</h3>",
        learned.curves(explained, CURVES),
        html.folded("All response curves", every),
        "<h3>One state as the network sees it</h3>",
        learned.state_energies(explained),
        html.folded("Analytic terms that come closest", learned.closest_terms(explained.closest)),
        html.folded("What contact and volume energies alone would say", "".join(_energies(found))),
        key="learned",
    )


def _analytic(found: FitFolder) -> Iterator[str]:
    """Without a network to explain."""
    facts = found.facts
    wanted, near = facts.rows("data"), sections.reproduced(facts.rows("data"), facts.rows("baseline"))
    if not facts.adds and near >= SUFFICES * len(wanted):
        yield html.paragraph(
            "Contact and volume energies suffice: nothing in these data asks for more, and the model has none. What "
            "they say:"
        )
    elif not facts.adds:
        yield html.paragraph(
            f"The model is contact and volume energies alone, and with them {near} of {len(wanted)} measures come out "
            "as in the data: what is missing was not learned. What they say, as far as it goes:"
        )
    else:
        yield html.paragraph("The network is none that can be explained; its contact and volume energies say:")
    yield from _energies(found)


def _energies(found: FitFolder) -> Iterator[str]:
    meta = _meta(found.baseline)
    medium = bool((found.data.ids == 0).any())
    yield html.bullets([*analytic.contact_sentences(meta, medium), *analytic.volume_sentences(meta)])
    yield analytic.contact_table(meta)


def _meta(run: Run) -> Metadata:
    assert run.artifact is not None
    return run.artifact.metadata


# -- where can I trust it? --------------------------------------------------------------------------------------------


def trusted(found: FitFolder) -> str:
    run = found.closure if found.facts.adds else found.baseline
    parts = []
    meta = _meta(run)
    if meta.neural is not None and run.artifact is not None and run.samples is not None:
        called = "held-out data" if found.facts.kept_apart else "the data"
        doubts = trust.doubts(run.artifact, found.data, run.samples, called)
        parts = [html.bullets([*trust.doubt_sentences(doubts), _watched()]), trust.doubt_chart(doubts)]
    else:
        parts = [
            html.paragraph(
                "No network is there to be unsure: trust contact and volume energies as far as the measures agree."
            )
        ]
    return html.section(
        CHAPTERS["trust"],
        *parts,
        "<h3>The samples and the data</h3>",
        html.bullets(
            [*_settling(found), *_returning(found), *_more_data(found), *_not_read(found), *found.facts.remarks]
        ),
        key="trust",
    )


def _watched() -> str:
    """What hosts do on their own."""
    limits = Limits()
    return (
        f"In CompuCell3D and Morpheus a run warns where members differ by more than {limits.disagreement:g} T about "
        f"copies or {100 * limits.outside:.0f} % of the cells lie outside, and keeps those lattices for another fit."
    )


def _settling(found: FitFolder) -> Iterator[str]:
    facts = found.facts
    if facts.relaxation_mcs is None:
        return
    about = "about" if facts.settled is not False else "more than"
    mcs = f"{about} {facts.relaxation_mcs:,} Monte Carlo steps"
    said = f"Scattered cells settle in {mcs}"
    if facts.settled is False or facts.sample_mcs < facts.relaxation_mcs:
        yield (
            f"{said}, and samples ran for {facts.sample_mcs:,}: of what forms more slowly they show as much as forms "
            "by then. A longer fit (--minutes) runs longer samples."
        )
    else:
        yield f"{said}; samples ran for {facts.sample_mcs:,}, so the tissue had settled."


def _returning(found: FitFolder) -> Iterator[str]:
    if (again := found.facts.refit) is not None:
        yield (
            f"Chains that leave the {again.lattices} uncertain lattices of a host end at a mean square distance of "
            f"{again.misfit.after:.1f} from the data; before they were trained with it was {again.misfit.before:.1f}."
        )


def _not_read(found: FitFolder) -> Iterator[str]:
    yield from (f"Not read from {found.facts.like}, and so not in H_S: {each}." for each in found.facts.not_read)


def _more_data(found: FitFolder) -> Iterator[str]:
    facts = found.facts
    more = facts.more_snapshots
    if more == "no":
        yield "More snapshots would hardly help: a network trained on half of them does as well."
    elif more:
        why = "a network trained on half of them does worse" if more == "yes" else more
        yield f"More snapshots would help: {why}."
    elif facts.adds:
        yield "Whether more snapshots would help was not tried: there was no time, or there are too few to halve."
    if facts.lattice.coarser > 1:
        yield f"The model lives on a lattice {facts.lattice.coarser} times coarser than the data: scale states to it."
    if note := frame_note(facts.model_dump()):
        yield f"{note}, from how cells of the movies move."
    yield from facts.time_notes


# -- how do I use it? -------------------------------------------------------------------------------------------------


def used(found: FitFolder) -> str:
    run = found.recommended
    model, samples = MODELS[run.name]
    why = "" if run is found.closure else " Contact and volume energies alone are the better model here: baseline.onnx."
    words = f"In a terminal, in the folder of this fit. The simulations start from a sample of the model.{why}"
    folder = shlex.quote(str(found.path.resolve()))
    blocks = [
        ("Watch it live in the browser, beside the data", [f"neuralcpm view {model} --state {HELD_OUT_FILE}"]),
        (
            "CompuCell3D: a project of its own",
            [
                f"neuralcpm cc3d new {model} --state {samples} -o Fitted",
                "neuralcpm cc3d run Fitted/Fitted.cc3d -o fitted-cc3d",
            ],
        ),
        (
            "Morpheus: a model of its own",
            [
                f"neuralcpm morpheus new {model} --state {samples} -o fitted.xml",
                "neuralcpm morpheus run fitted.xml -o fitted-morpheus",
            ],
        ),
        ("Without either", [f"neuralcpm simulate {model} --state {samples} -o fitted-simulated"]),
    ]
    if run is found.closure:
        blocks.insert(
            3, ("Into a project or model of your own, beside its energies", _injections(model, found.facts.like))
        )
        blocks += [
            ("Everything about what it learned", [f"neuralcpm explain {model} --data {HELD_OUT_FILE} -o explained"]),
            ("Which cells of a data set lie outside of what it knows", [f"neuralcpm energy {model} {HELD_OUT_FILE}"]),
        ]
    parts = [f"<h3>{html.escape(title)}</h3>{html.commands(lines)}" for title, lines in blocks]
    return html.section(CHAPTERS["use"], html.paragraph(words), html.commands([f"cd {folder}"]), *parts, key="use")


def _injections(model: str, like: str | None) -> list[str]:
    """Into the project that it is the closure of, where there is one."""
    own = {Path(like).suffix: shlex.quote(like)} if like is not None else {}
    commands = {
        ".cc3d": f"neuralcpm cc3d inject {own.get('.cc3d', 'PROJECT.cc3d')} {model} -o WITH-TERM",
        ".xml": f"neuralcpm morpheus inject {own.get('.xml', 'MODEL.xml')} {model} -o with-term.xml",
    }
    return [command for suffix, command in commands.items() if not own or suffix in own]


# -- the technical part -----------------------------------------------------------------------------------------------


def technical(found: FitFolder) -> str:
    facts, runs, truth = found.facts, found.runs, truth_of(found.data)
    pairs = facts.pairs
    timed = {run.name: microseconds(run.artifact, found.data) for run in runs if run.artifact is not None}
    settings: dict[str, float | None] = {
        "neighbour order of contacts": facts.order,
        "members of the committee": facts.members if facts.adds else None,
        "rounds of messages": facts.rounds if facts.adds else None,
        "known of what copies kept apart can tell": None if pairs is None else pairs.gain / log(2),
        "standard errors of it above nothing": None if pairs is None else pairs.standard_errors or None,
        "training steps": facts.steps,
        "time given, minutes": facts.minutes,
        "seed": facts.seed,
        "mean square distance from the data, closure": facts.misfit.get("closure") if facts.adds else None,
        "mean square distance from the data, baseline": facts.misfit.get("baseline"),
    }
    rows: list[list[str | float | None]] = [[name, value] for name, value in settings.items() if value is not None]
    events = html.bullets(facts.events) or html.paragraph("Training ran through without going back.")
    return html.section(
        CHAPTERS["technical"],
        html.paragraph("A mean square distance of 1, in standard errors, is what chance alone makes."),
        html.table(["", "value"], rows),
        events if facts.steps else "",
        '<div class="technical">',
        sections.what_was_trained(runs, found.data, facts.states.train),
        sections.parameters(runs, truth),
        sections.curves(runs, truth),
        sections.speed(timed),
        sections.provenance(runs, {"program": f"neuralcpm-bridge {__version__}", **found.hashes}),
        "</div>",
        key="technical",
    )
