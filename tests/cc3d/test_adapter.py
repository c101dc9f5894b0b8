"""The learned term in a stand-in for CompuCell3D: it follows every change and survives every error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from neuralcpm_bridge.artifact import Artifact
from neuralcpm_bridge.backends.engine import EngineBackend
from neuralcpm_bridge.delta import Part
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.hosting.callbacks import REFUSED, Scaling
from neuralcpm_bridge.snapshots import load_snapshots
from neuralcpm_bridge.state import CellState

from .fake_host import FakeHost


def expected(host: FakeHost, model: Artifact, place: tuple[int, ...], new_id: int, part: Part = "neural") -> float:
    """The ΔH of a copy, from the lattice alone."""
    ids, inverse = np.unique(host.lattice, return_inverse=True)
    number = {0: 0} | {int(cell): index for index, cell in enumerate(ids[ids > 0], 1)}
    numbered = np.array([number[int(cell)] for cell in ids])[inverse].reshape(host.lattice.shape)
    types = np.array([0, *(host.alive[int(cell)].type for cell in ids[ids > 0])])
    backend = EngineBackend(model, CellState(numbered, types, host.known.lattice), part=part)
    return backend.delta(host.known.lattice.site(*place), number[new_id])


def test_row_is_y_and_ids_may_be_anything(host: FakeHost, tissue: Artifact) -> None:
    host.begin()
    host.term.before_step(0)
    for place, new_id in (((4, 9), 7), ((10, 9), 7), ((12, 10), 1000), ((20, 19), 90000), ((5, 3), 0)):
        assert host.ask(place, new_id) == pytest.approx(10 * expected(host, tissue, place, new_id), abs=1e-4)


def test_weight_and_steering(host: FakeHost, tissue: Artifact) -> None:
    host.begin(weight=0.5)
    host.term.before_step(0)
    full = 10 * expected(host, tissue, (4, 9), 7)
    assert host.ask((4, 9), 7) == pytest.approx(0.5 * full, abs=1e-4)
    host.term.before_step(1, weight=0.0)
    assert host.ask((4, 9), 7) == 0.0
    host.degrees = 20.0
    host.term.before_step(2, weight=1.0)
    assert host.ask((4, 9), 7) == pytest.approx(2 * full, abs=2e-4)


@pytest.mark.parametrize(("function", "amplitude"), [("Min", 4.0), ("Max", 10.0), ("ArithmeticAverage", 7.0)])
def test_amplitudes_by_cell_and_type(host: FakeHost, tissue: Artifact, function: str, amplitude: float) -> None:
    host.known = type(host.known)(**{**vars(host.known), "amplitude_function": function})
    host.alive[7].amplitude = 4.0
    host.begin(weight=0.5)
    host.term.before_step(0)
    delta = expected(host, tissue, (4, 9), 7)
    assert host.ask((4, 9), 7) == pytest.approx(0.5 * amplitude * delta, abs=1e-4)  # into cell 1000, which has T = 10
    assert host.ask((3, 5), 7) == pytest.approx(
        0.5 * 4.0 * expected(host, tissue, (3, 5), 7), abs=1e-4
    )  # into the medium
    host.by_type = {1: 3.0, 2: 10.0}
    host.term.before_step(1)
    assert host.ask((17, 5), 1001) == pytest.approx(0.5 * 3.0 * expected(host, tissue, (17, 5), 1001), abs=1e-4)


def test_follows_whatever_happens(host: FakeHost, tissue: Artifact, capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(0)
    host.begin(check_every=1, log_every=3, types={"Wall": "medium"})
    host.add(90001, 1, slice(26, 29), slice(2, 9))  # before the first step
    for mcs in range(12):
        host.term.before_step(mcs)
        host.sweep(300, random)
        if mcs == 2:  # a division: the child's type comes after its pixels
            host.add(90002, 1, slice(20, 26), slice(24, 28))
            host.alive[90002].type = 2
        if mcs == 4:  # a death, written pixel by pixel
            for place in np.argwhere(host.lattice == 1000).tolist():
                host.write(tuple(place), 0)
        if mcs == 5:
            host.alive[1001].type = 2
        if mcs == 6:
            host.add(90003, 3, slice(0, 2), slice(0, 33))  # a wall, which the model takes for medium
        if mcs == 8:
            host.alive[90003].type = 1  # the wall comes alive
        if mcs == 9:  # the same pixel twice, the second time as the last copy that was asked about
            host.ask((15, 20), 0)
            host.write((15, 20), 90002)
            host.write((15, 20), 0)
        if mcs == 10:
            host.lattice = np.roll(host.lattice, 3, axis=1)  # a shifted lattice says nothing,
            host.term.stale = True  # but CC3D calls the steppable's __init__
    host.term.end()
    said = capsys.readouterr().out
    assert "FAILED" not in said
    assert host.term.last_check.ok
    assert "NeuralHamiltonian: MCS 9" in said


def test_a_forgotten_write_is_found(host: FakeHost, capsys: pytest.CaptureFixture[str]) -> None:
    host.begin(check_every=1, log_every=0)
    host.term.before_step(0)
    host.lattice[25:28, 30] = 90000
    host.term.before_step(1)
    assert "check FAILED: 3 pixels differed" in capsys.readouterr().out
    host.term.before_step(2)
    assert host.term.last_check.ok


def test_ids_are_reused(host: FakeHost) -> None:
    host.begin()
    host.term.before_step(0)
    for number in range(20):
        host.add(91000 + number, 1, slice(0, 2), slice(0, 2))  # kills the one before
        host.term.before_step(1 + number)
    assert host.term.mirror._loaded.types.size <= 7


def test_extinction_rule(host: FakeHost) -> None:
    host.add(5, 1, slice(28, 29), slice(30, 31))
    host.begin(extinction=True, weight=0.0)
    host.term.before_step(0)
    assert host.ask((28, 30), 0) == REFUSED
    assert host.ask((4, 9), 7) == 0.0
    host.term.before_step(1)  # a refusal is no error


@pytest.mark.parametrize("weight", [1.0, 0.5])
def test_errors_are_kept_and_the_lattice_saved(interpreted: FakeHost, tmp_path: Path, weight: float) -> None:
    host = interpreted
    host.begin(weight=weight)
    host.term.before_step(0)

    def broken(site: int, host_id: int) -> float:
        raise ZeroDivisionError("on purpose")

    host.term.mirror.calls = lambda: (broken, broken, broken, broken)  # type: ignore[method-assign]
    host.term.before_step(1)
    assert host.ask((4, 9), 7) == REFUSED
    assert host.ask((4, 9), 7) == REFUSED
    with pytest.raises(UserError, match="stopped at MCS 2: unexpected ZeroDivisionError: on purpose The lattice was"):
        host.term.before_step(2)
    saved = load_snapshots(tmp_path / "out" / "neuralcpm_rescued_mcs2.npz")
    assert saved.provenance["host_ids"] == [7, 1000, 1001, 90000]
    assert saved.type_names == ("Medium", "A", "B", "Wall")
    assert np.array_equal(saved.ids[0] > 0, host.lattice > 0)
    pif = (tmp_path / "out" / "neuralcpm_rescued_mcs2.piff").read_text().splitlines()
    assert pif[0] == "7 A 3 8 4 4 0 0"


def serving(host: FakeHost, answer: Callable[[int, int], float]) -> None:
    """Every ΔH from a function instead of the model."""
    others = (lambda site, host_id: None, lambda site, host_id: (0.0, 0.0), lambda site, host_id: 0.0)
    host.term.mirror.calls = lambda: (answer, *others)  # type: ignore[method-assign]
    host.called.serve(host.term.mirror, host.cells(), Scaling())


def test_undefined_energies(interpreted: FakeHost) -> None:
    host = interpreted
    host.begin()
    host.term.before_step(0)
    serving(host, lambda site, host_id: float("nan"))
    assert host.ask((4, 9), 7) == REFUSED
    with pytest.raises(UserError, match="not a number"):
        host.term.end()


def test_interrupts_are_not_swallowed(interpreted: FakeHost) -> None:
    host = interpreted
    host.begin()
    host.term.before_step(0)

    def interrupted(site: int, host_id: int) -> float:
        raise KeyboardInterrupt

    serving(host, interrupted)
    assert host.ask((4, 9), 7) == REFUSED
    with pytest.raises(KeyboardInterrupt):
        host.term.before_step(1)


def test_a_type_that_was_never_mapped(host: FakeHost) -> None:
    host.begin()
    host.term.before_step(0)
    host.alive[7].type = 3
    with pytest.raises(UserError, match=r"cells of type 'Wall', but the model knows medium, A, B: map the type"):
        host.term.before_step(1)


def test_a_second_thread_is_refused(host: FakeHost) -> None:
    from threading import Thread

    host.begin()
    host.term.before_step(0)
    host.ask((4, 9), 7)
    other = Thread(target=host.ask, args=((4, 9), 7))
    other.start()
    other.join()
    with pytest.raises(UserError, match="several work nodes"):
        host.term.before_step(1)


def test_missing_model(host: FakeHost) -> None:
    with pytest.raises(UserError, match=r"before the first step: There is no model file nowhere.onnx"):
        host.begin(model="nowhere.onnx")


def test_a_model_the_engine_does_not_serve(host: FakeHost, tmp_path: Path) -> None:
    """A CNN, fixed to its number of ids, through ONNX Runtime: slower, but the same term and the same rules."""
    pytest.importorskip("onnxruntime")
    import torch

    from training.export import export
    from training.hamiltonians import make_preset

    torch.manual_seed(0)
    artifact = export(make_preset("mnist-cnn", cells=7), tmp_path / "cnn.onnx")
    host.add(5, 1, slice(28, 29), slice(30, 31))
    host.begin(model="cnn.onnx", extinction=True, check_every=1)
    host.term.before_step(0)
    assert host.ask((28, 30), 0) == REFUSED
    host.sweep(15, np.random.default_rng(0))
    for place in np.argwhere(host.lattice == 90000).tolist():
        host.write(tuple(place), 0)
    host.term.before_step(1)
    host.add(90001, 1, slice(20, 23), slice(20, 23))  # takes the place that 90000 left
    host.term.before_step(2)
    assert host.term.last_check.ok
    host.add(90002, 2, slice(24, 26), slice(20, 23))
    host.term.before_step(3)
    assert artifact.metadata.fixed_cells == 7
    host.add(90003, 2, slice(24, 26), slice(24, 26))
    with pytest.raises(UserError, match="more than 6 cells"):
        host.term.before_step(4)


def test_a_console_without_greek_letters(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import sys

    stream = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    monkeypatch.setattr(sys, "stdout", stream)
    host.begin(log_every=1)
    host.term.before_step(1)
    stream.flush()
    assert b"?H at" in stream.buffer.getvalue()
