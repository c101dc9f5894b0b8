"""The readers on what the real programs write (NEURALCPM_MORPHEUS, NEURALCPM_CC3D_PYTHON say where they are)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from neuralcpm_bridge.importers import ImportOptions, import_files
from neuralcpm_bridge.lattice import Lattice
from neuralcpm_bridge.snapshots import Snapshots

MORPHEUS = os.environ.get("NEURALCPM_MORPHEUS")
CC3D = os.environ.get("NEURALCPM_CC3D_PYTHON")

MORPHEUS_MODEL = """<MorpheusModel version="4">
  <Description><Title>import</Title><Details/></Description><Global/>
  <Space><Lattice class="{lattice}"><Size symbol="size" value="{size}"/><BoundaryConditions>{conditions}
    </BoundaryConditions><Neighborhood><Order>2</Order></Neighborhood></Lattice><SpaceSymbol symbol="space"/></Space>
  <Time><StartTime value="0"/><StopTime value="20"/><SaveInterval value="20"/><RandomSeed value="1"/>
    <TimeSymbol symbol="time"/></Time>
  <CellTypes><CellType class="biological" name="ct1"><VolumeConstraint target="80" strength="1"/></CellType>
    {medium}<CellType class="biological" name="ct2"><VolumeConstraint target="80" strength="1"/></CellType></CellTypes>
  <CPM><Interaction default="3"/>
    <ShapeSurface scaling="none"><Neighborhood><Order>2</Order></Neighborhood></ShapeSurface>
    <MonteCarloSampler stepper="edgelist"><MCSDuration value="1"/><MetropolisKinetics temperature="2"/>
      <Neighborhood><Order>2</Order></Neighborhood></MonteCarloSampler></CPM>
  <CellPopulations><Population type="ct1" size="0"><InitCellObjects mode="distance">
      <Arrangement displacements="12, 12, 1" repetitions="3, 2, 1"><Sphere center="10,10,0" radius="5"/></Arrangement>
    </InitCellObjects></Population>
    <Population type="ct2" size="0"><Cell id="50"><Nodes>{nodes}</Nodes></Cell></Population>
  </CellPopulations>
  <Analysis><TiffPlotter time-step="20" format="16bit" compression="{lzw}" timelapse="true" OME-header="false">
    <Channel symbol-ref="cell.id"/><Channel symbol-ref="cell.type"/></TiffPlotter></Analysis>
</MorpheusModel>"""

CC3D_MODEL = """<CompuCell3D Revision="0" Version="4.8.0">
  <Metadata><NumberOfProcessors>1</NumberOfProcessors></Metadata>
  <Potts><Dimensions x="40" y="30" z="{depth}"/><Steps>20</Steps><Temperature>5</Temperature>
    <NeighborOrder>2</NeighborOrder><RandomSeed>3</RandomSeed>{boundary}<LatticeType>{lattice}</LatticeType></Potts>
  <Plugin Name="CellType"><CellType TypeId="0" TypeName="Medium"/><CellType TypeId="1" TypeName="B"/>
    <CellType TypeId="2" TypeName="A"/></Plugin>
  <Plugin Name="Volume"><VolumeEnergyParameters CellType="A" LambdaVolume="2.0" TargetVolume="25"/>
    <VolumeEnergyParameters CellType="B" LambdaVolume="2.0" TargetVolume="25"/></Plugin>
  <Plugin Name="Contact"><Energy Type1="Medium" Type2="A">4</Energy><Energy Type1="Medium" Type2="B">4</Energy>
    <Energy Type1="A" Type2="A">2</Energy><Energy Type1="A" Type2="B">4</Energy><Energy Type1="B" Type2="B">2</Energy>
    <NeighborOrder>2</NeighborOrder></Plugin>
  <Steppable Type="PIFInitializer"><PIFName>Simulation/init.piff</PIFName></Steppable>
</CompuCell3D>"""


def imported(*paths: Path) -> Snapshots:
    found = import_files(paths, ImportOptions())
    assert not found.problems
    assert found.snapshots is not None
    return found.snapshots


OUTSIDE = '<CellType class="medium" name="outside"/>'


@pytest.mark.skipif(MORPHEUS is None, reason="NEURALCPM_MORPHEUS is not set")
@pytest.mark.parametrize(
    ("lattice", "medium", "lzw"),
    [
        (Lattice.of((50, 60)), OUTSIDE, "true"),
        (Lattice.of((50, 60)), "", "false"),
        (Lattice.of((50, 60), "square", ("free", "periodic")), OUTSIDE, "false"),
        (Lattice.of((50, 60), "hexagonal"), OUTSIDE, "true"),
        (Lattice.of((50, 60), "hexagonal", ("periodic", "free")), "", "false"),
        (Lattice.of((12, 50, 60), "cubic"), OUTSIDE, "false"),
        (Lattice.of((12, 50, 60), "cubic", ("free", "periodic", "periodic")), "", "true"),
    ],
)
def test_morpheus_images_equal_its_checkpoints(lattice: Lattice, medium: str, lzw: str, tmp_path: Path) -> None:
    model, out = tmp_path / "model.xml", tmp_path / "out"
    text = MORPHEUS_MODEL.format(
        lattice=lattice.geometry.name,
        size=", ".join(str(size) for size in [*lattice.shape[::-1], 0][:3]),
        conditions="".join(
            f'<Condition boundary="{axis}" type="{"periodic" if wraps else "noflux"}"/>'
            for axis, wraps in zip("xyz", lattice.periodic[::-1], strict=False)
        ),
        nodes="58 40 0;59 40 0;59 41 0;58 41 0" if not lattice.periodic[-1] else "58 40 0;59 40 0;60 40 0;58 41 0",
        medium=medium,
        lzw=lzw,
    )
    model.write_text(text)
    out.mkdir()
    command = [str(MORPHEUS), "--no-gnuplot", "--outdir", str(out), "-f", str(model)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert "Simulation finished" in said.stdout, said.stderr
    images, checkpoint = imported(out), imported(*out.glob("*.xml.gz"))
    assert len(images) == 2
    assert images.type_names == checkpoint.type_names == ("medium", "ct1", "ct2")
    assert images.lattice == checkpoint.lattice == lattice
    assert (images.ids[-1] == checkpoint.ids[0]).all()
    assert (images.types[-1] == checkpoint.types[0]).all()
    assert images.types[0].tolist() == [0, *[1] * 6, 2]


@pytest.mark.skipif(CC3D is None, reason="NEURALCPM_CC3D_PYTHON is not set")
@pytest.mark.parametrize(
    ("kind", "depth", "periodic", "lattice"),
    [
        ("Square", 1, "xy", Lattice.of((30, 40))),
        ("Square", 1, "", Lattice.of((30, 40), boundary="free")),
        ("Square", 6, "x", Lattice.of((6, 30, 40), "cubic", ("free", "free", "periodic"))),
        ("Hexagonal", 1, "x", Lattice.of((30, 40), "hexagonal", ("free", "periodic"))),
        ("Hexagonal", 1, "", Lattice.of((30, 55), "hexagonal", "free")),
    ],
)
def test_cc3d_begins_with_the_pif_it_was_given(
    kind: str, depth: int, periodic: str, lattice: Lattice, tmp_path: Path
) -> None:
    project, out = tmp_path / "Import", tmp_path / "out"
    simulation = project / "Simulation"
    simulation.mkdir(parents=True)
    (project / "Import.cc3d").write_text(
        '<Simulation version="4.8.0"><XMLScript Type="XMLScript">Simulation/Import.xml</XMLScript>'
        '<PythonScript Type="PythonScript">Simulation/Import.py</PythonScript>'
        '<Resource Type="PIF">Simulation/init.piff</Resource></Simulation>'
    )
    (simulation / "Import.py").write_text("from cc3d import CompuCellSetup\nCompuCellSetup.run()\n")
    words = "".join(f"<Boundary_{axis}>Periodic</Boundary_{axis}>" for axis in periodic)
    (simulation / "Import.xml").write_text(CC3D_MODEL.format(depth=depth, boundary=words, lattice=kind))
    pif = simulation / "init.piff"
    top = depth - 1
    pif.write_text(f"1 A 5 9 5 9 0 {top}\n2 B 10 14 5 9 0 0\n7 A 5 9 10 14 0 {top}\n7 A 10 10 12 14 0 0\n")
    command = [str(CC3D), "-m", "cc3d.run_script", "-i", str(project / "Import.cc3d"), "-o", str(out), "-f", "10"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert (out / "LatticeData").is_dir(), said.stdout + said.stderr
    steps, start = imported(out / "LatticeData"), imported(pif)
    assert len(steps) >= 2
    assert steps.type_names == start.type_names == ("medium", "B", "A")
    assert steps.lattice == start.lattice == lattice
    assert (steps.ids[0] == start.ids[0]).all()
    assert (steps.types[0] == start.types[0]).all()
    assert np.unique(steps.ids[-1]).tolist() == [0, 1, 2, 3]
