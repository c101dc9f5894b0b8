"""What a model does not know, in the real Morpheus: said, stopped at, weakened, kept for retraining."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from morpheus_xml.new import RunPlan, new_model
from morpheus_xml.run import run_model
from neuralcpm_bridge.artifact import Artifact, LatticeEntry
from neuralcpm_bridge.delta import open_backend
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.hosting.uncertainty import Limits, read_table
from neuralcpm_bridge.initial import initial_state
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.snapshots import load_snapshots
from training.export import export
from training.hamiltonians import Contact, Hamiltonian, Symbolic, Volume, make_preset

from .morpheus_host import TYPES, blocks, plugin_binary
from .test_morpheus_plugin import add_to_types
from .test_morpheus_properties import DIVISION, with_properties

GROWS_AT, STEPS = 60, 140


def learned(
    path: Path, members: int = 1, largest: float = 60.0, weight: float = 1.0, properties: tuple[str, ...] = ()
) -> Artifact:
    """Untrained members, which disagree about everything and know cells of up to `largest` sites; cells have 40."""
    torch.manual_seed(3)
    lattice = LatticeEntry.of("square", "periodic")
    options = {"types": TYPES, "lattice": lattice, "target_volume": 40.0}
    made = make_preset("graph1-closure", members=members, properties=properties, **options)
    with torch.no_grad():
        made.network.low[1:], made.network.high[1:] = 0.0, 1e3
        made.network.high[1:, 0] = largest
    symbolic = Symbolic(Contact(3.0 + torch.rand(3, 3)), Volume(torch.tensor([1.0]), torch.tensor([40.0])))
    return export(Hamiltonian(TYPES, symbolic, made.network, weight, lattice=lattice, cells=21), path)


def growing(artifact: Artifact, folder: Path, limits: Limits, name: str) -> Path:
    """A tissue whose target volumes double in the middle of the run."""
    state = initial_state(artifact, "blob", seed=1, cells=20, lattice=(60, 60))
    model = new_model(artifact, state, RunPlan(steps=STEPS, snapshots=2, seed=2), limits=limits)
    text = re.sub(
        r'(<VolumeConstraint [^>]*target=")([\d.]+)"',
        lambda found: f'{found[1]}if(time &lt; {GROWS_AT}, {found[2]}, {2 * float(found[2])})"',
        model.tobytes().decode(),
    )
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_tissue_out_of_range_is_said_and_kept(tmp_path: Path) -> None:
    binary = plugin_binary()
    artifact = learned(tmp_path / "model.onnx")
    said: list[str] = []
    results = tmp_path / "Ergebnisse für alle"
    ran = run_model(growing(artifact, tmp_path, Limits(), "m ü.xml"), results, binary=binary, say=said.append)
    (warning,) = [line for line in said if "WARNING" in line]
    found = re.search(r"MCS (\d+) is uncertain: (\d+)% of the cells lie outside", warning)
    assert found is not None
    assert GROWS_AT < int(found[1]) <= GROWS_AT + 50
    rows = read_table(results / "uncertainty.csv")
    assert [row["mcs"] for row in rows] == list(range(20, STEPS + 1, 20))
    assert ran.uncertainty == json.loads((results / "results.json").read_text())["uncertainty"]
    assert ran.uncertainty is not None
    assert ran.uncertainty["first_uncertain_mcs"] == int(found[1])
    kept = load_snapshots(results / "uncertain.npz")
    assert len(kept) == ran.uncertainty["uncertain"]
    assert kept.type_names == artifact.metadata.types
    assert ran.snapshots is not None
    last = int(np.flatnonzero(kept.arrays["mcs"] == STEPS)[0])
    np.testing.assert_array_equal(kept[last].ids > 0, ran.snapshots[-1].ids > 0)
    assert (results / "uncertainty.png").is_file()
    assert not (results / "uncertain.lattices").exists()


def test_a_run_stops_where_that_is_asked_for(tmp_path: Path) -> None:
    binary = plugin_binary()
    artifact = learned(tmp_path / "model.onnx")
    model = growing(artifact, tmp_path, Limits("stop"), "m.xml")
    with pytest.raises(UserError, match=r"MCS 80 is uncertain: .* Retrain with lattices like these"):
        run_model(model, tmp_path / "run", binary=binary)
    assert load_snapshots(tmp_path / "run" / "uncertain.npz").arrays["mcs"].tolist() == [80]


def test_the_network_is_weakened_by_doubts(tmp_path: Path) -> None:
    """Every ΔH is the members' mean times (1 − o) / (1 + (d / limit)²), d their disagreement in temperatures, o the
    share of the copy's cells out of range."""
    binary = plugin_binary()
    artifact = learned(tmp_path / "model.onnx", members=3, largest=40.0, weight=30.0)
    limits = Limits("shrink", 0.5)
    state = initial_state(artifact, "blob", seed=1, cells=12, lattice=(40, 40))
    model = new_model(artifact, state, RunPlan(steps=20, snapshots=1), limits=limits)
    for element in model.root.iter("NeuralHamiltonian"):
        element.set("log", "deltas.txt")
    model.write(tmp_path / "model.xml")
    run_model(tmp_path / "model.xml", tmp_path / "run", binary=binary)
    backend = open_backend(artifact, state, part="neural")
    errors, factors, factor, shares = [], [], 1.0, set()
    for kind, x, y, cell, *delta in (line.split() for line in (tmp_path / "run" / "deltas.txt").open()):
        site, new_id = state.lattice.site(int(y), int(x)), int(cell)
        if kind == "c":
            factors.append(factor)  # of the copy that was asked for last
            backend.commit(site, new_id)
            continue
        disagreement = backend.delta_spread(site, new_id) / artifact.metadata.temperature
        cells = [cell for cell in (int(backend.state().ids.ravel()[site]), new_id) if cell]
        outside = np.mean(~backend.inside_range()[cells])
        shares.add(outside)
        factor = (1 - outside) / (1 + (disagreement / limits.disagreement) ** 2)
        errors.append(abs(backend.delta(site, new_id) * factor - float(delta[0])))
    assert len(errors) > 1_000
    assert max(errors) < 1e-4
    assert 0.01 < np.mean(factors) < 0.95
    assert shares == {0, 0.5, 1}
    (row,) = read_table(tmp_path / "run" / "uncertainty.csv")
    assert row["weight"] == pytest.approx(np.mean(factors), rel=1e-4)
    assert 0 < row["outside"] < 1


def test_two_learned_models_keep_their_doubts_apart(tmp_path: Path) -> None:
    binary = plugin_binary()
    first, second = learned(tmp_path / "first.onnx"), learned(tmp_path / "second.onnx", members=3)
    path = growing(first, tmp_path, Limits(), "m.xml")
    element = re.compile(r'<NeuralHamiltonian model="[^"]*" types="[^"]*" (.*?)/>')
    other = rf'\g<0><NeuralHamiltonian model="{second.path}" types="ct1=ct1;ct2=ct2" \1/>'
    text, count = element.subn(other, path.read_text(encoding="utf-8"))
    assert count == 2
    path.write_text(text, encoding="utf-8")
    ran = run_model(path, tmp_path / "run", binary=binary)
    tables = [read_table(tmp_path / "run" / name) for name in ("uncertainty.csv", "uncertainty2.csv")]
    assert [[row["mcs"] for row in rows] for rows in tables] == [list(range(20, STEPS + 1, 20))] * 2
    assert {row["disagreement"] is None for row in tables[0]} == {True}  # a single network
    assert {row["disagreement"] is None for row in tables[1]} == {False}
    assert ran.uncertainty is not None
    for file, artifact in (("uncertain.npz", first), ("uncertain2.npz", second)):
        assert load_snapshots(tmp_path / "run" / file).type_names == artifact.metadata.types
    assert not list((tmp_path / "run").glob("*.lattices"))


@pytest.mark.parametrize(("until", "at"), [(38, [20, 40]), (99, [20])])
def test_the_last_lattice_has_daughters_and_properties(until: int, at: list[int], tmp_path: Path) -> None:
    """Looked at when Morpheus is gone: the properties of cells that were born in the last step cannot be asked for, and
    such a lattice is left out."""
    binary = plugin_binary()
    artifact = learned(tmp_path / "model.onnx", members=2, largest=1e3, properties=("age", "marker"))
    state = with_properties(blocks(Lattice.of((40, 40)), 7, gap=1))
    model = new_model(artifact, state, RunPlan(steps=40, snapshots=2, seed=2), limits=Limits("warn", 1e-6))
    add_to_types(model, DIVISION.replace("rand_uni", f"time &lt; {until} and rand_uni", 1))
    model.write(tmp_path / "model.xml")
    ran = run_model(tmp_path / "model.xml", tmp_path / "run", binary=binary)
    kept = load_snapshots(tmp_path / "run" / "uncertain.npz")
    assert ran.snapshots is not None
    assert kept.arrays["mcs"].tolist() == at
    found = {int(mcs): kept[number] for number, mcs in enumerate(kept.arrays["mcs"])}
    for number, mcs in enumerate(ran.snapshots.arrays["mcs"]):
        if mcs not in found:
            continue
        ours, theirs = found[int(mcs)], ran.snapshots[number]
        assert ours.cells.size == theirs.cells.size > state.cells.size
        markers = [np.sort(each.properties["marker"][each.cells]) for each in (ours, theirs)]
        np.testing.assert_allclose(*markers, rtol=1e-8)
