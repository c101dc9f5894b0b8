"""A run's records: metrics.csv, and TensorBoard where it is installed."""

from __future__ import annotations

import csv
import importlib
from pathlib import Path
from typing import Any

from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.files import writing

from .hamiltonians import Hamiltonian

METRICS_FILE = "metrics.csv"


def named_parameters(hamiltonian: Hamiltonian) -> dict[str, float]:
    """The analytic parameters as people name them (w_S·J01, w_S·λ, …), and both weights."""
    found: dict[str, float] = {}
    if hamiltonian.symbolic is not None:
        weight = hamiltonian.symbolic.weight().item()
        for term in hamiltonian.terms.values():
            found |= term.readable(weight)
    if hamiltonian.network_weight is not None:
        found["w_NN"] = hamiltonian.network_weight().item()
    return found


class RunLog:
    """Appends rows to `metrics.csv`; without a folder it records nothing."""

    def __init__(self, folder: Path | None) -> None:
        self.path = None if folder is None else folder / METRICS_FILE
        self.board: Any = None
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UserError(f"{folder} cannot be made ({error.strerror}): choose another folder.") from None
            try:
                self.board = importlib.import_module("torch.utils.tensorboard").SummaryWriter(
                    str(folder / "tensorboard")
                )
            except ImportError:
                self.board = None

    def write(self, step: int, values: dict[str, float]) -> None:
        if self.path is None:
            return
        new = not self.path.exists()
        try:
            with self.path.open("a", newline="", encoding="utf-8") as stream:
                table = csv.writer(stream)
                if new:
                    table.writerow(["step", *values])
                table.writerow([step, *(f"{value:.8g}" for value in values.values())])
        except OSError as error:
            raise UserError(
                f"{self.path} cannot be written ({error.strerror}): free space and start the run again."
            ) from None
        if self.board is not None:
            for key, value in values.items():
                self.board.add_scalar(key, value, step)

    def cut_after(self, step: int) -> None:
        """Forget rows beyond a checkpoint that training continues from."""
        if self.path is None or not self.path.exists():
            return
        with self.path.open(newline="", encoding="utf-8") as stream:
            header, *rows = list(csv.reader(stream)) or [[]]
        with writing(self.path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([header, *(row for row in rows if row and int(row[0]) <= step)])
