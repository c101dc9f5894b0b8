"""The ΔH protocol: what every host asks of a Hamiltonian, and the choice of who answers.

A flip is a site (its flat index, `state.lattice.site(row, col)`) and the id copied into it. Energies are in units of
the training temperature's energy scale (docs/conventions.md); hosts convert.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import UserError

if TYPE_CHECKING:
    from .artifact import Artifact
    from .state import CellState

Part = Literal["full", "neural", "symbolic"]


class Energy(NamedTuple):
    """w_S·H_S and w_NN·H_NN."""

    symbolic: float
    neural: float

    @property
    def total(self) -> float:
        return self.symbolic + self.neural


class DeltaBackend(Protocol):
    """Keeps the current state and answers for it; `part` selects which part of H `delta` returns."""

    name: str
    part: Part

    def reset(self, state: CellState) -> None: ...

    def state(self) -> CellState: ...

    def energy(self) -> Energy: ...

    def delta(self, site: int, new_id: int) -> float:
        """ΔH of one flip of the current state, in the selected part."""
        ...

    def spread(self) -> float:
        """How far the members of a committee disagree about the energy: a standard deviation, 0 for one network."""
        ...

    def delta_spread(self, site: int, new_id: int) -> float:
        """How far they disagree about ΔH of one flip."""
        ...

    def inside_range(self) -> NDArray[np.bool_]:
        """Of every id, whether its cell is like those of the training data, `[C]`; true where the model cannot tell."""
        ...

    def deltas(self, sites: ArrayLike, new_ids: ArrayLike) -> NDArray[np.float64]:
        """ΔH of independent flips of the current state, `[n, 2]`: symbolic and neural part."""
        ...

    def commit(self, site: int, new_id: int) -> None:
        """Apply one flip."""
        ...

    def change_pixels(self, sites: ArrayLike, new_ids: ArrayLike) -> None:
        """Apply many pixels at once: a division, a death, a layout."""
        ...

    def set_type(self, cell: int, cell_type: int) -> None:
        """Change a cell's type; an id that does not exist yet appears, type −1 removes one without pixels."""
        ...

    def set_property(self, cell: int, name: str, value: float) -> None:
        """Change one of the named properties that the model reads; a cell that appears has the training data's mean."""
        ...


def property_number(names: Sequence[str], name: str) -> int:
    """Where a property stands among those that a model reads."""
    if name not in names:
        read = f"only {', '.join(names)}" if names else "no properties of cells"
        raise UserError(f"The property {name!r} was to be set, but the model reads {read}: leave it out.")
    return list(names).index(name)


def open_backend(
    artifact: Artifact, state: CellState, *, part: Part = "full", prefer: str | None = None
) -> DeltaBackend:
    """The back end that serves this model: the engine where it can, ONNX Runtime otherwise.

    `prefer` forces "engine" or "onnxruntime".
    """
    choice = prefer or ("engine" if artifact.engine_serves else "onnxruntime")
    if choice == "engine":
        if not artifact.engine_serves:
            raise UserError(
                f"The engine does not serve the architecture {artifact.metadata.architecture!r}: use the back end "
                "'onnxruntime'."
            )
        from .backends.engine import EngineBackend

        return EngineBackend(artifact, state, part=part)
    if choice == "onnxruntime":
        from .backends.onnxruntime import OnnxRuntimeBackend

        return OnnxRuntimeBackend(artifact, state, part=part)
    raise UserError(f"There is no back end {choice!r}: choose 'engine' or 'onnxruntime'.")
