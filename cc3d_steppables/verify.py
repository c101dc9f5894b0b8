"""Every copy CompuCell3D attempted, against the engine and float64 torch. Runs in the training environment."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge.artifact import Artifact, load_artifact
from neuralcpm_bridge.conventions import TARGETS, neural_scale, symbolic_values
from neuralcpm_bridge.errors import UserError

from .callbacks import REFUSED
from .facts import AMPLITUDES, Facts
from .inject import Project
from .mapping import map_types
from .mirror import HostCell, Mirror
from .run import Job, prepared_copy, run_job

SYMBOLIC_ALLOWED, NEURAL_ALLOWED, MISMATCH_ALLOWED = 1e-5, 1e-3, 1e-4
BATCH_SITES = 100_000
"""Sites × cells per torch evaluation: small states run fastest in small batches on one thread."""


def verify_project(
    project_file: str | Path,
    *,
    steps: int | None = None,
    flips: int = 10_000,
    exact: int = 2_000,
    seed: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Run a copy of the project in the host until `flips` copies were attempted (or for `steps`), then compare."""
    with tempfile.TemporaryDirectory(prefix="neuralcpm-verify-") as name:
        folder = Path(name)
        copy = prepared_copy(project_file, folder / "project", seed=seed, statistics=True)
        file = folder / "recording.npz"
        job = Job(copy.file, folder / "cc3d", "flips", 0 if steps else flips, file, steps)
        run_job(job, folder / "cc3d.log", progress, say)
        with np.load(file, allow_pickle=False) as archive:
            recording = Recording(**{key: archive[key] for key in archive.files})
        return compare(recording, copy, exact)


@dataclass
class Recording:
    """What the recorder wrote; n attempts in m steps."""

    ids: NDArray[Any]
    """Host ids at the start of each step, `[m, H, W]`."""
    cells: NDArray[Any]
    """Host id and type number of every cell, step by step, `[Σ cell_counts, 2]`."""
    amplitudes: NDArray[Any]
    """Fluctuation amplitude of each of these."""
    cell_counts: NDArray[Any]
    step: NDArray[Any]
    attempts: NDArray[Any]
    """Row, column, new host id, old host id, `[n, 4]`."""
    energies: NDArray[Any]
    """ΔH of every energy CC3D knows, `[n, energies]`."""
    accepted: NDArray[Any]
    about: NDArray[Any]


def compare(recording: Recording, project: Project, exact: int) -> dict[str, Any]:
    about = json.loads(str(recording.about))
    if len(about["learned"]) != 1:
        raise UserError(
            f"The project registers {len(about['learned'])} learned terms, but one is compared: inject one."
        )
    learned = about["learned"][0]
    facts = project.facts()
    assert facts is not None  # recording changed its CC3DML
    artifact = load_artifact(learned["model"])
    replay = Replay(recording, facts, artifact, learned, exact)
    replay.run()
    names = about["names"]
    host_learned = recording.energies[:, names.index(learned["energy"])]
    host_symbolic = recording.energies[:, [names.index(name) for name in ("Contact", "Volume") if name in names]].sum(1)
    total = recording.energies.sum(axis=1)

    factor = learned["weight"] * replay.scale
    banned = replay.banned
    if (banned != (host_learned >= REFUSED / 2)).any():
        raise UserError("Host and model disagree about which copies would take a cell's last pixel: report this.")
    full = learned["term"] == "full"
    ours = replay.engine.sum(axis=1) if full else replay.engine[:, 1]
    truth = replay.torch.sum(axis=1) if full else replay.torch[:, 1]
    same_energies = not full and carries_model_energies(facts, artifact)
    unit = np.where(factor == 0, 1.0, factor)  # errors in the model's own units; with weight 0 the host must say 0
    errors = [
        np.abs(host_learned - factor * values)[keep] / np.abs(unit)[keep]
        for values, keep in ((ours, ~banned), (truth, ~banned & replay.exact))
    ]
    symbolic_error = None
    expected = total - host_learned + factor * truth
    if same_energies:
        scale = neural_scale(artifact.metadata, about["temperature"])
        both = [
            np.abs(host_symbolic - scale * part[:, 0])[keep]
            for part, keep in ((replay.engine, slice(None)), (replay.torch, replay.exact))
        ]
        symbolic_error = float(max(values.max(initial=0.0) for values in both))
        expected += scale * replay.torch[:, 0] - host_symbolic
    amplitude = replay.scale * artifact.metadata.temperature
    compared = ~banned & replay.exact
    mismatch = np.abs(_acceptance(total, amplitude) - _acceptance(expected, amplitude))[compared]
    neural_error = float(max(values.max(initial=0.0) for values in errors))
    different = float(mismatch.mean()) if mismatch.size else 0.0
    report = {
        "flips": len(recording.step),
        "exact_flips": int(replay.exact.sum()),
        "accepted": int(recording.accepted.sum()),
        "max_abs_error_symbolic": symbolic_error,
        "max_abs_error_neural": neural_error,
        "decision_mismatch": different,
    }
    agreed = (
        (symbolic_error is None or symbolic_error <= SYMBOLIC_ALLOWED)
        and neural_error <= NEURAL_ALLOWED
        and different <= MISMATCH_ALLOWED
    )
    return {"ok": bool(agreed), **report}


class Replay:
    """The recorded flips once more: `engine` and `torch` hold `[n, 2]` symbolic and neural ΔH in the model's units."""

    def __init__(
        self, recording: Recording, facts: Facts, artifact: Artifact, learned: dict[str, Any], exact: int
    ) -> None:
        self.recording, self.facts, self.artifact, self.learned = recording, facts, artifact, learned
        count = len(recording.step)
        self.engine, self.torch = np.zeros((count, 2)), np.full((count, 2), np.nan)
        self.scale, self.banned = np.zeros(count), np.zeros(count, dtype=bool)
        self._truth: Any = None
        self.exact = np.zeros(count, dtype=bool)
        self.exact[np.unique(np.linspace(0, count - 1, min(exact, count)).round().astype(int))] = True

    def run(self) -> None:
        first_cell = np.concatenate([[0], np.cumsum(self.recording.cell_counts)])
        type_of = map_types(self.facts, self.artifact, self.learned["types"])
        for step, ids in enumerate(self.recording.ids):
            part = slice(first_cell[step], first_cell[step + 1])
            amplitudes = dict(zip(self.recording.cells[part, 0].tolist(), self.recording.amplitudes[part], strict=True))
            mirror = Mirror(self.artifact, self.facts.type_names, type_of, term="full")
            mirror.load(ids, [HostCell(int(cell), int(kind)) for cell, kind in self.recording.cells[part]])
            self._step(mirror, ids.copy(), amplitudes, np.flatnonzero(self.recording.step == step))

    def _step(
        self, mirror: Mirror, ids: NDArray[Any], amplitudes: dict[int, float], attempts: NDArray[np.intp]
    ) -> None:
        backend = mirror.opened()
        combine = AMPLITUDES[self.facts.amplitude_function]
        volumes = np.bincount(ids.ravel())
        states = [backend.state().ids.astype(np.int64)]
        pairs: list[tuple[int, int, int]] = []
        current = 0
        for attempt in attempts:
            row, col, new_id, old_id = (int(value) for value in self.recording.attempts[attempt])
            if ids[row, col] != old_id:
                raise UserError(f"The recording does not fit together at attempt {attempt}: record again.")
            index = mirror.index_of[new_id]
            self.engine[attempt] = backend.deltas([row], [col], [index])[0]
            own = [amplitudes[cell] for cell in (new_id, old_id) if cell]
            amplitude = combine(own[0], own[-1])
            self.scale[attempt] = neural_scale(self.artifact.metadata, amplitude)
            last_pixel = mirror.index_of[old_id] != 0 and volumes[old_id] == 1
            self.banned[attempt] = bool(self.learned["extinction"]) and last_pixel
            accepted = bool(self.recording.accepted[attempt])
            if self.exact[attempt] or accepted:
                changed = states[current].copy()
                changed[row, col] = index
                if self.exact[attempt]:
                    pairs.append((int(attempt), current, len(states)))
                states.append(changed)
            if accepted:
                current = len(states) - 1
                backend.commit(row, col, index)
                ids[row, col] = new_id
                volumes[old_id] -= 1
                volumes[new_id] += 1
        if pairs:
            energies = self._exact_energies(np.stack(states), backend.state().types.astype(np.int64))
            for number, before, after in pairs:
                self.torch[number] = energies[after] - energies[before]

    def _exact_energies(self, ids: NDArray[np.int64], types: NDArray[np.int64]) -> NDArray[np.float64]:
        """Energies of many states in float64 torch, `[n, 2]`."""
        import torch

        from neuralcpm_bridge.state import CellState
        from training.backend import TorchBackend

        if self._truth is None:
            torch.set_num_threads(1)
            self._truth = TorchBackend.exact(self.artifact, CellState(ids[0].astype(np.int32), types.astype(np.int32)))
        batch = max(1, BATCH_SITES // (ids[0].size * types.size))
        parts = [
            self._truth.energies(ids[start : start + batch], np.repeat(types[None], len(ids[start : start + batch]), 0))
            for start in range(0, len(ids), batch)
        ]
        return np.concatenate(parts)


def carries_model_energies(facts: Facts, artifact: Artifact) -> bool:
    """Whether the project's own contact and volume energies are the model's, converted."""
    symbolic = artifact.metadata.symbolic
    if symbolic is None or set(symbolic.terms) - {"contact", "volume"} or facts.contact_order != 2:
        return False
    values = symbolic_values(artifact.metadata, TARGETS["cc3d"], neural_scale(artifact.metadata, facts.temperature))
    names, wraps = list(facts.type_names.values()), artifact.metadata.boundary == "periodic"
    if len(names) != len(artifact.metadata.types) or facts.periodic != (wraps, wraps):
        return False
    contact = [[facts.contact.get(frozenset((one, other)), 0.0) for other in names] for one in names]
    volume = [facts.volume.get(name, (0.0, 0.0)) for name in names[1:]]
    learned = np.stack([values.strength, values.target_volume], axis=1)[1:]
    return bool(np.allclose(contact, values.contact, rtol=1e-9) and np.allclose(volume, learned, rtol=1e-9))


def _acceptance(delta: NDArray[np.float64], amplitude: NDArray[np.float64]) -> NDArray[np.float64]:
    """min(1, e^{−ΔH/T}) with every flip's own T; at T = 0 only what does not cost is accepted."""
    cost = np.maximum(delta, 0.0)
    return np.where(amplitude > 0, np.exp(-cost / np.where(amplitude > 0, amplitude, 1.0)), cost == 0)
