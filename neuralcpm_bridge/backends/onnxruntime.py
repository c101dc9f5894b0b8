"""ΔH through ONNX Runtime: any architecture, on CUDA where it works and on the CPU otherwise."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..artifact import Artifact
from ..delta import Part
from ..errors import UserError, reading
from ..state import CellState
from .full import FullEnergyBackend


def runtime() -> Any:
    """The onnxruntime module, CPU or GPU build."""
    try:
        import onnxruntime
    except ImportError:
        raise UserError(
            "ONNX Runtime is not installed, but this model needs it: run pip install 'neuralcpm-bridge[cpu]' "
            "(or [gpu] on a machine with CUDA)."
        ) from None
    return onnxruntime


def make_session(artifact: Artifact, threads: int | None = None) -> Any:
    """An inference session on the best provider that opens."""
    onnxruntime = runtime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what it has to say about a file comes as an exception too
    if threads is not None:
        options.intra_op_num_threads = threads
    cpu = "CPUExecutionProvider"
    wanted = [p for p in ("CUDAExecutionProvider",) if p in onnxruntime.get_available_providers()]
    try:
        session = onnxruntime.InferenceSession(str(artifact.path), options, providers=[*wanted, cpu])
    except Exception as error:  # onnxruntime's errors share no base class
        reason = (str(error).splitlines() or ["no reason given"])[0]
        raise UserError(f"ONNX Runtime cannot open {artifact.path} ({reason}): export the model again.") from None
    if wanted and session.get_providers()[0] == cpu:
        warnings.warn("CUDA is installed but does not start: ONNX Runtime uses the CPU.", stacklevel=2)
    return session


class OnnxRuntimeBackend(FullEnergyBackend):
    """Full energies by the artifact's own graph."""

    def __init__(
        self, artifact: Artifact, state: CellState, *, part: Part = "full", threads: int | None = None
    ) -> None:
        self.artifact = artifact
        self.session = make_session(artifact, threads)
        provider = self.session.get_providers()[0].removesuffix("ExecutionProvider")
        self.name = f"onnxruntime ({provider})"
        super().__init__(state, part, artifact.property_means)

    def reset(self, state: CellState) -> None:
        if state.lattice.layout != "axes":
            raise UserError(
                "A hexagonal state in pushed rows was given to ONNX Runtime, whose graph knows skewed axes only: "
                "convert it (lattice.to_skewed), or use the engine."
            )
        super().reset(self.artifact.place(state))

    def energies(
        self, ids: NDArray[np.int64], types: NDArray[np.int64], properties: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        return np.stack(self._run(["symbolic", "neural"], ids, types, properties), axis=1)

    def members(
        self, ids: NDArray[np.int64], types: NDArray[np.int64], properties: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        if not self._is_graph:
            return super().members(ids, types, properties)
        return self._run(["members"], ids, types, properties)[0]

    def inside_range(self) -> NDArray[np.bool_]:
        if not self._is_graph:
            return super().inside_range()
        return self._run(["inside"], self._ids[None], self._types, self._properties)[0][0]

    @property
    def _is_graph(self) -> bool:
        network = self.artifact.metadata.neural
        return network is not None and network.is_graph

    def _run(
        self, outputs: list[str], ids: NDArray[np.int64], types: NDArray[np.int64], properties: NDArray[np.float64]
    ) -> list[NDArray[Any]]:
        inputs: dict[str, NDArray[Any]] = {"ids": ids, "types": np.repeat(types[None], len(ids), axis=0)}
        if self.artifact.metadata.properties:
            inputs["properties"] = np.repeat(properties[None], len(ids), axis=0)
        with reading(self.artifact.path, "a model that ONNX Runtime can compute", "export it again"):
            return self.session.run(outputs, inputs)
