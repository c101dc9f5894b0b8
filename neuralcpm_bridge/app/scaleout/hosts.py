"""What one of many runs is in each host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from neuralcpm_bridge.errors import UserError

from .plan import Files, Run, packed

FILE_ATTRIBUTES = ("model", "filename", "path", "file")
"""By which elements of MorpheusML name files that they read."""


@dataclass(frozen=True)
class MorpheusWork:
    """A Morpheus model and how to run it; `symbols` are those that all runs share."""

    model: Path
    binary: str | None = None
    threads: int = 1
    symbols: dict[str, str] = field(default_factory=dict)

    def check(self, values: Mapping[str, str]) -> None:
        """Attributes by their paths, and symbols; whether those are global Morpheus itself will say."""
        from morpheus_xml.reader import read_model
        from morpheus_xml.run import set_values

        model = read_model(self.model)
        symbols, _ = set_values(model, dict(values), None)
        unknown = sorted(symbols.keys() - {element.attributes.get("symbol") for element in model.root.walk()})
        if unknown:
            raise UserError(
                f"{self.model} has no symbol {unknown[0]!r} to be given a value: name a global symbol, or an attribute "
                "by its path, as in CPM/MonteCarloSampler/MetropolisKinetics/@temperature."
            )

    def files(self) -> Files:
        """The model and what it names, by the paths it names it by."""
        from morpheus_xml.reader import read_model

        found = {self.model.name: self.model.read_bytes()}
        for element in read_model(self.model).root.walk():
            for attribute in FILE_ATTRIBUTES:
                named = Path(element.attributes.get(attribute, ""))
                file = self.model.parent / named
                if named.is_absolute() or not file.is_file():  # where it is absolute all machines have it, or none
                    continue
                if ".." in named.parts:
                    raise UserError(
                        f"{self.model}, {element.where()}: the file {named} lies outside of the model's folder, so "
                        "other machines do not get it: move it there."
                    )
                found[named.as_posix()] = file.read_bytes()
        return found

    def __call__(self, run: Run, source: Path | None, results: Path) -> None:
        from morpheus_xml.run import run_model

        model = self.model if source is None else source / self.model.name
        symbols = self.symbols | run.values
        run_model(model, results, binary=self.binary, symbols=symbols, seed=run.seed, threads=self.threads)


@dataclass(frozen=True)
class CC3DWork:
    """A CompuCell3D project and how to run it; what is scanned are the project's `{{names}}`."""

    project: Path
    steps: int | None = None
    snapshots: int = 10
    patience: float = 600.0

    def check(self, values: Mapping[str, str]) -> None:
        from cc3d_steppables.project import Project
        from cc3d_steppables.run import check_values

        check_values(Project.open(self.project), values)

    def files(self) -> Files:
        """The project's folder."""
        return packed(self.project.parent)

    def __call__(self, run: Run, source: Path | None, results: Path) -> None:
        from cc3d_steppables.run import run_project

        run_project(
            self.project if source is None else source / self.project.name,
            results,
            steps=self.steps,
            snapshots=self.snapshots,
            seed=run.seed,
            values=run.values,
            patience=self.patience,
            say=lambda line: None,
        )
