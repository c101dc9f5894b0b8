"""ΔH through ONNX Runtime: any architecture, CPU or CUDA, proposals in batches; full energies, so not fast."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..artifact import Artifact
from ..delta import Energy, Term
from ..errors import UserError
from ..state import CellState

BATCH_SITES = 2_000_000
"""Sites × cells per run: bounds the memory of a batch of proposals."""


def make_session(artifact: Artifact, threads: int | None = None) -> Any:
    """An inference session on CUDA where it works, on the CPU otherwise."""
    try:
        import onnxruntime
    except ImportError:
        raise UserError(
            "ONNX Runtime is not installed, but this model needs it: run pip install 'neuralcpm-bridge[cpu]' "
            "(or [gpu] on a machine with CUDA)."
        ) from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if threads is not None:
        options.intra_op_num_threads = threads
    for providers in provider_choices(onnxruntime.get_available_providers()):
        try:
            return onnxruntime.InferenceSession(str(artifact.path), options, providers=providers)
        except Exception as error:  # onnxruntime has no common base class for its errors
            failure = str(error).splitlines()[0]
    raise UserError(f"ONNX Runtime cannot open {artifact.path} ({failure}): export the model again.")


def provider_choices(available: list[str]) -> list[list[str]]:
    """What to try, best first."""
    cuda, cpu = ["CUDAExecutionProvider", "CPUExecutionProvider"], ["CPUExecutionProvider"]
    return [cuda, cpu] if cuda[0] in available else [cpu]


class OnnxRuntimeBackend:
    """Keeps the state in NumPy and asks the graph for the energies of changed copies."""

    def __init__(self, artifact: Artifact, state: CellState, *, term: Term = "full", threads: int | None = None) -> None:
        self.artifact, self.term = artifact, term
        self.session = make_session(artifact, threads)
        provider = self.session.get_providers()[0].removesuffix("ExecutionProvider")
        self.name = f"onnxruntime ({provider})"
        self.reset(state)

    def reset(self, state: CellState) -> None:
        self.artifact.check_state(state)
        self._ids, self._types = state.ids.astype(np.int64), state.types.astype(np.int64)
        self._current = self._energies(self._ids[None])[0]

    def state(self) -> CellState:
        return CellState(self._ids, self._types)

    def energy(self) -> Energy:
        return Energy(*map(float, self._current))

    def delta(self, row: int, col: int, new_id: int) -> float:
        return float(self._select(self.deltas([row], [col], [new_id])[0]))

    def deltas(self, rows: ArrayLike, cols: ArrayLike, new_ids: ArrayLike) -> NDArray[np.float64]:
        rows, cols, new_ids = np.asarray(rows), np.asarray(cols), np.asarray(new_ids)
        batch = max(1, BATCH_SITES // (self._ids.size * self._types.size))
        parts = []
        for start in range(0, rows.size, batch):
            chosen = slice(start, start + batch)
            changed = np.repeat(self._ids[None], rows[chosen].size, axis=0)
            changed[np.arange(len(changed)), rows[chosen], cols[chosen]] = new_ids[chosen]
            parts.append(self._energies(changed))
        return np.concatenate(parts) - self._current if parts else np.empty((0, 2))

    def commit(self, row: int, col: int, new_id: int) -> None:
        self.change_pixels([row], [col], [new_id])

    def change_pixels(self, rows: ArrayLike, cols: ArrayLike, new_ids: ArrayLike) -> None:
        self._ids[np.asarray(rows), np.asarray(cols)] = new_ids
        self._current = self._energies(self._ids[None])[0]

    def set_type(self, cell: int, cell_type: int) -> None:
        if cell >= self._types.size:
            self._types = np.concatenate([self._types, np.full(cell + 1 - self._types.size, -1)])
        self._types[cell] = cell_type
        self.reset(self.state())

    def _energies(self, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """`[n, H, W]` → `[n, 2]`."""
        types = np.repeat(self._types[None], len(ids), axis=0)
        return np.stack(self.session.run(["symbolic", "neural"], {"ids": ids, "types": types}), axis=1)

    def _select(self, parts: NDArray[np.float64]) -> float:
        return {"full": parts[0] + parts[1], "symbolic": parts[0], "neural": parts[1]}[self.term]
