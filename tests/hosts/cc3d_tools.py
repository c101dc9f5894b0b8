"""The real CompuCell3D for tests: where it is, small projects of our own, and running them."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cc3d_steppables.run import INTERPRETER, run_project
from cc3d_steppables.verify import verify_project
from neuralcpm_bridge.errors import UserError
from neuralcpm_bridge.snapshots import Snapshots, load_snapshots

needs_cc3d = pytest.mark.skipif(
    not os.environ.get(INTERPRETER), reason=f"{INTERPRETER} is not set: no CompuCell3D to test with"
)

XML = """<CompuCell3D Revision="0" Version="4.8.0">
   <Potts>
      <Dimensions x="{width}" y="{height}" z="{depth}"/>
      <Steps>{steps}</Steps>
      {amplitude}
      <NeighborOrder>2</NeighborOrder>
      <Boundary_x>{boundary}</Boundary_x>
      <Boundary_y>{boundary}</Boundary_y>
      <RandomSeed>11</RandomSeed>
   </Potts>
   <Plugin Name="CellType">
      <CellType TypeId="0" TypeName="Medium"/>
      <CellType TypeId="1" TypeName="A"/>
      <CellType TypeId="2" TypeName="B"/>
      <CellType TypeId="3" TypeName="Wall"{frozen}/>
   </Plugin>
   <Plugin Name="Volume"/>
   <Plugin Name="PixelTracker"/>
   <Plugin Name="Contact">
      <Energy Type1="Medium" Type2="A">10</Energy>
      <Energy Type1="Medium" Type2="B">10</Energy>
      <Energy Type1="A" Type2="A">6</Energy>
      <Energy Type1="A" Type2="B">9</Energy>
      <Energy Type1="B" Type2="B">7</Energy>
      <NeighborOrder>2</NeighborOrder>
   </Plugin>
   <Steppable Type="UniformInitializer">
      <Region>
         <BoxMin x="6" y="8" z="0"/>
         <BoxMax x="36" y="33" z="{depth}"/>
         <Gap>0</Gap>
         <Width>5</Width>
         <Types>A,B</Types>
      </Region>
   </Steppable>
</CompuCell3D>
"""

SCRIPT = """from cc3d import CompuCellSetup
from {name}Steppables import LifeSteppable

CompuCellSetup.register_steppable(steppable=LifeSteppable(frequency=1))

CompuCellSetup.run()
"""

STEPPABLE = """from cc3d.core.PySteppables import MitosisSteppableBase


class LifeSteppable(MitosisSteppableBase):
    def __init__(self, frequency=1):
        MitosisSteppableBase.__init__(self, frequency)

    def start(self):
        for cell in self.cell_list:
            cell.targetVolume, cell.lambdaVolume = 25, 2

    def step(self, mcs):
        {step}

    def update_attributes(self):
        self.clone_parent_2_child()
"""


@dataclass
class Ran:
    """What a run left behind."""

    folder: Path
    said: list[str] = field(default_factory=list)
    error: str = ""

    @property
    def log(self) -> str:
        return (self.folder / "cc3d.log").read_text()

    @property
    def snapshots(self) -> Snapshots:
        return load_snapshots(self.folder / "snapshots.npz")

    @property
    def last_check(self) -> str:
        return next(line.partition(", check ")[2] for line in reversed(self.said) if ", check " in line)


def run(project: Path, folder: Path, **options: object) -> Ran:
    """Run a project in the host; a refusal is kept, a segmentation fault fails the test."""
    ran = Ran(folder)
    try:
        run_project(project, folder, say=ran.said.append, **options)  # type: ignore[arg-type]
    except UserError as error:
        ran.error = str(error)
        assert "signal" not in ran.error, ran.log[-2000:]
    return ran


def verified(project: Path, **options: Any) -> dict[str, Any]:
    """Every attempted copy of a project in the host against the engine and float64 torch."""
    from training.backend import TorchBackend

    return verify_project(project, TorchBackend.exact, **options)


def life_project(
    folder: Path,
    step: str = "pass",
    *,
    width: int = 45,
    height: int = 39,
    depth: int = 1,
    steps: int = 100,
    boundary: str = "NoFlux",
    amplitude: str = "<Temperature>8</Temperature>",
    frozen: bool = False,
) -> Path:
    """A project of our own with 30 cells, whose steppable's `step` has this body."""
    simulation = folder / "Simulation"
    simulation.mkdir(parents=True)
    name = folder.name
    values = {
        "width": width,
        "height": height,
        "depth": depth,
        "steps": steps,
        "boundary": boundary,
        "amplitude": amplitude,
    }
    (simulation / f"{name}.xml").write_text(XML.format(**values, frozen=' Freeze=""' if frozen else ""))
    (simulation / f"{name}.py").write_text(SCRIPT.format(name=name))
    (simulation / f"{name}Steppables.py").write_text(STEPPABLE.format(step=step.replace("\n", "\n        ")))
    project = folder / f"{name}.cc3d"
    project.write_text(
        '<Simulation version="4.8.0">\n'
        f'   <XMLScript Type="XMLScript">Simulation/{name}.xml</XMLScript>\n'
        f'   <PythonScript Type="PythonScript">Simulation/{name}.py</PythonScript>\n'
        f'   <Resource Type="Python">Simulation/{name}Steppables.py</Resource>\n'
        "</Simulation>\n"
    )
    return project


def edit_script(project: Path, old: str, new: str) -> None:
    """Change a line of a project's main script."""
    script = next(path for path in (project.parent / "Simulation").glob("*.py") if "Steppables" not in path.name)
    text = script.read_text()
    assert old in text
    script.write_text(text.replace(old, new))


def demos() -> Path:
    """CC3D's demos: where NEURALCPM_CC3D_DEMOS says, or near the interpreter."""
    named = os.environ.get("NEURALCPM_CC3D_DEMOS")
    places = [Path(named)] if named else []
    interpreter = os.environ.get(INTERPRETER)
    if interpreter:
        for above in list(Path(shutil.which(interpreter) or interpreter).resolve().parents)[:4]:
            places += [above / "cc3d-src" / "CompuCell3D" / "core" / "Demos", above / "Demos"]
    for place in places:
        if (place / "Models").is_dir():
            return place
    pytest.skip("CC3D's demos were not found: set NEURALCPM_CC3D_DEMOS to the folder that holds Models")
