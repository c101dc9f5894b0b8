"""Every copy CompuCell3D attempted, against the engine and against exact energies that the caller computes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neuralcpm_bridge._engine import IdMap
from neuralcpm_bridge.artifact import Artifact, load_artifact
from neuralcpm_bridge.backends.full import FullEnergyBackend
from neuralcpm_bridge.conventions import TARGETS, neural_scale, uncarried_terms
from neuralcpm_bridge.delta import DeltaBackend, open_backend
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.hosting.callbacks import REFUSED
from neuralcpm_bridge.hosting.facts import AMPLITUDES
from neuralcpm_bridge.hosting.mapping import UNMAPPED, map_types, unmapped
from neuralcpm_bridge.state import CellState

from .energies import PLUGINS, Energies
from .project import Project
from .reader import ProjectFacts
from .run import Job, prepared_copy, run_job

SYMBOLIC_ALLOWED, NEURAL_ALLOWED, MISMATCH_ALLOWED = 1e-5, 1e-3, 1e-4
BATCH_SITES = 100_000
"""Sites × cells per exact evaluation: small states run fastest in small batches."""


Truth = Callable[[Artifact, CellState], FullEnergyBackend]
"""Opens what computes exact energies of a model: float64 torch."""


def verify_project(
    project_file: str | Path,
    truth: Truth,
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
        recording, copy = record(project_file, Path(name), steps, flips, seed, progress, say)
        return compare(recording, copy, truth, exact)


def record(
    project_file: str | Path,
    folder: Path,
    steps: int | None,
    flips: int,
    seed: int | None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    say: Callable[[str], None] = lambda line: None,
) -> tuple[Recording, Project]:
    """Run a copy of a project in `folder` and write down every attempted copy with the host's energies."""
    copy = prepared_copy(project_file, folder / "project", seed=seed, statistics=True)
    file = folder / "recording.npz"
    job = Job(copy.file, folder / "cc3d", "flips", 0 if steps else flips, file, steps)
    run_job(job, folder / "cc3d.log", progress, say)
    with np.load(file, allow_pickle=False) as archive:
        return Recording(**{key: archive[key] for key in archive.files}), copy


@dataclass
class Recording:
    """What the recorder wrote; n attempts in m steps."""

    ids: NDArray[Any]
    """Host ids at the start of each step, `[m, H, W]` or `[m, D, H, W]`."""
    cells: NDArray[Any]
    """Host id and type number of every cell, step by step, `[Σ cell_counts, 2]`."""
    amplitudes: NDArray[Any]
    """Fluctuation amplitude of each of these."""
    properties: NDArray[Any]
    """And the named ones that `about` lists, `[Σ cell_counts, P]`."""
    cell_counts: NDArray[Any]
    step: NDArray[Any]
    attempts: NDArray[Any]
    """Site, new host id, old host id, `[n, 3]`."""
    energies: NDArray[Any]
    """ΔH of every energy CC3D knows, `[n, energies]`."""
    accepted: NDArray[Any]
    about: NDArray[Any]


def compare(recording: Recording, project: Project, truth: Truth, exact: int) -> dict[str, Any]:
    about = json.loads(str(recording.about))
    if len(about["learned"]) != 1:
        raise UserError(
            f"The project registers {len(about['learned'])} learned terms, but one is compared: inject one."
        )
    learned = about["learned"][0]
    facts = project.facts()
    assert facts is not None  # recording changed its CC3DML
    artifact = load_artifact(learned["model"]).on(facts.lattice.boundary)
    replay = Replay(recording, facts, artifact, learned, truth, exact)
    replay.run()
    names = about["names"]
    host_learned = recording.energies[:, names.index(learned["energy"])]
    full = learned["term"] == "full"
    native = [] if full else native_plugins(facts, artifact, learned["types"])
    host_symbolic = recording.energies[:, [names.index(name) for name in native]].sum(axis=1)
    total = recording.energies.sum(axis=1)

    factor = learned["weight"] * replay.scale
    banned = replay.banned
    if (banned != (host_learned >= REFUSED / 2)).any():
        raise UserError("Host and model disagree about which copies are forbidden: report this.")
    ours = replay.engine.sum(axis=1) if full else replay.engine[:, 1]
    true = replay.true.sum(axis=1) if full else replay.true[:, 1]
    unit = np.where(factor == 0, 1.0, factor)  # errors in the model's own units; with weight 0 the host must say 0
    errors = [
        np.abs(host_learned - factor * values)[keep] / np.abs(unit)[keep]
        for values, keep in ((ours, ~banned), (true, ~banned & replay.exact))
    ]
    symbolic_error = None
    expected = total - host_learned + factor * true
    if native:
        scale = neural_scale(artifact.metadata, about["temperature"])
        both = [
            np.abs(host_symbolic - scale * part[:, 0])[keep]
            for part, keep in ((replay.engine, slice(None)), (replay.true, replay.exact))
        ]
        symbolic_error = float(max(values.max(initial=0.0) for values in both))
        expected += scale * replay.true[:, 0] - host_symbolic
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
    """The recorded flips once more: `engine` and `true` hold `[n, 2]` symbolic and neural ΔH in the model's units."""

    def __init__(
        self,
        recording: Recording,
        facts: ProjectFacts,
        artifact: Artifact,
        learned: dict[str, Any],
        truth: Truth,
        exact: int,
    ) -> None:
        self.recording, self.facts, self.artifact, self.learned = recording, facts, artifact, learned
        self.properties: list[str] = json.loads(str(recording.about))["properties"]
        count = len(recording.step)
        self.engine, self.true = np.zeros((count, 2)), np.full((count, 2), np.nan)
        self.scale, self.banned = np.zeros(count), np.zeros(count, dtype=bool)
        self._open_truth = truth
        self._truth: FullEnergyBackend | None = None
        self.exact = np.zeros(count, dtype=bool)
        self.exact[np.unique(np.linspace(0, count - 1, min(exact, count)).round().astype(int))] = True

    def run(self) -> None:
        first_cell = np.concatenate([[0], np.cumsum(self.recording.cell_counts)])
        type_of = map_types(self.facts.type_names, self.artifact.metadata.types, self.learned["types"])
        for step, ids in enumerate(self.recording.ids):
            part = slice(first_cell[step], first_cell[step + 1])
            cells, host_types = self.recording.cells[part].T
            amplitudes = dict(zip(cells.tolist(), self.recording.amplitudes[part], strict=True))
            types = np.array([self._model_type(type_of, int(number)) for number in host_types], dtype=np.int32)
            numbers = IdMap(self.artifact.metadata.fixed_cells or 0)
            model_types = numbers.load(np.ascontiguousarray(cells), types)
            table = np.zeros((model_types.size, len(self.properties)))
            table[numbers.translate(np.ascontiguousarray(cells))] = self.recording.properties[part]
            columns = dict(zip(self.properties, table.T, strict=True))
            state = CellState(numbers.translate(ids), model_types, self.facts.lattice, columns)
            attempts = np.flatnonzero(self.recording.step == step)
            self._step(open_backend(self.artifact, state), numbers, ids.copy().ravel(), amplitudes, attempts)

    def _step(
        self,
        backend: DeltaBackend,
        numbers: IdMap,
        ids: NDArray[Any],
        amplitudes: dict[int, float],
        attempts: NDArray[np.intp],
    ) -> None:
        """One Monte Carlo step from the host ids it began with, flat."""
        combine = AMPLITUDES[self.facts.amplitude_function]
        volumes = np.bincount(ids)
        start = backend.state()
        states = [start.ids]
        pairs: list[tuple[int, int, int]] = []
        current = 0
        for attempt in attempts:
            site, new_id, old_id = (int(value) for value in self.recording.attempts[attempt])
            if ids[site] != old_id:
                raise UserError(f"The recording does not fit together at attempt {attempt}: record again.")
            cell = numbers.at(new_id)
            self.engine[attempt] = backend.deltas([site], [cell])[0]
            own = [amplitudes[host_id] for host_id in (new_id, old_id) if host_id]
            self.scale[attempt] = neural_scale(self.artifact.metadata, combine(own[0], own[-1]))
            last_pixel = numbers.at(old_id) != 0 and volumes[old_id] == 1
            # A copy with which a cell would have no shape (half a ring) is forbidden by the model itself.
            shapeless = not np.isfinite(backend.delta(site, cell))
            self.banned[attempt] = shapeless or (bool(self.learned["extinction"]) and last_pixel)
            accepted = bool(self.recording.accepted[attempt])
            if self.exact[attempt] or accepted:
                changed = states[current].copy()
                changed.ravel()[site] = cell
                if self.exact[attempt]:
                    pairs.append((int(attempt), current, len(states)))
                states.append(changed)
            if accepted:
                current = len(states) - 1
                backend.commit(site, cell)
                ids[site] = new_id
                volumes[old_id] -= 1
                volumes[new_id] += 1
        if not pairs:
            return
        energies = self._exact_energies(states, start)
        for attempt, before, after in pairs:
            self.true[attempt] = energies[after] - energies[before]

    def _exact_energies(self, states: list[NDArray[np.int32]], start: CellState) -> NDArray[np.float64]:
        """Exact energies of many states with the cells of `start`, `[n, 2]`."""
        types, properties = start.types.astype(np.int64), start.property_table()
        if self._truth is None:
            self._truth = self._open_truth(self.artifact, start)
        ids = np.stack(states).astype(np.int64)
        batch = max(1, BATCH_SITES // (ids[0].size * types.size))
        parts = [
            self._truth.energies(ids[first : first + batch], types, properties) for first in range(0, len(ids), batch)
        ]
        return np.concatenate(parts)

    def _model_type(self, type_of: dict[int, int], number: int) -> int:
        cell_type = type_of.get(number, UNMAPPED)
        if cell_type == UNMAPPED:
            name = self.facts.type_names.get(number, f"number {number}")
            raise UserError(unmapped([name], self.artifact.metadata.types))
        return cell_type


def native_plugins(facts: ProjectFacts, artifact: Artifact, mapped: Mapping[str, str]) -> list[str]:
    """The plugins that carry all of the model's own terms, converted, on its boundary; none where they do not."""
    meta = artifact.metadata
    if meta.symbolic is None or uncarried_terms(meta, TARGETS["cc3d"]) or facts.lattice.boundary != meta.boundary:
        return []
    type_of = map_types(facts.type_names, meta.types, mapped)
    if sorted(type_of.values()) != list(range(len(meta.types))):
        return []
    types = {facts.type_names[number]: own for number, own in type_of.items()}
    learned = Energies.of_model(meta, types, neural_scale(meta, facts.temperature))
    return [PLUGINS[term][0] for term in learned.terms] if learned.within(facts.energies, facts.names) else []


def _acceptance(delta: NDArray[np.float64], amplitude: NDArray[np.float64]) -> NDArray[np.float64]:
    """min(1, e^{−ΔH/T}) with every flip's own T; at T = 0 only what does not cost is accepted."""
    cost = np.maximum(delta, 0.0)
    return np.where(amplitude > 0, np.exp(-cost / np.where(amplitude > 0, amplitude, 1.0)), cost == 0)
