"""A project as users have them, without torch: for the tests that every wheel has to pass, too."""

from __future__ import annotations

import re
from pathlib import Path

XML = """<?xml version='1.0'?>
<CompuCell3D Version="4.4.0">
 <!-- <Plugin Name="Contact"/> an old try -->
 <Metadata>
   <NumberOfProcessors>4</NumberOfProcessors>
 </Metadata>
 <Potts>
   <Dimensions x="60"   y="40" z="1"/>
   <Steps>100</Steps>
   <Temperature>10</Temperature>   <!-- hot -->
   <NeighborOrder>2</NeighborOrder>
 </Potts>
 <Plugin Name="Volume">
   <TargetVolume>25</TargetVolume>
   <LambdaVolume>2.0</LambdaVolume>
 </Plugin>
 <Plugin Name="CellType">
   <CellType TypeName="Medium" TypeId="0"/>
   <CellType TypeName="Condensing" TypeId="1"/>
   <CellType TypeName="Other" TypeId="2"/>
   <CellType TypeName="Wall" TypeId="3" Freeze=""/>
 </Plugin>
 <Plugin Name="Contact">
   <Energy Type1="Medium" Type2="Condensing">16</Energy>
   <Energy Type1="Wall" Type2="Condensing">30</Energy>
   <NeighborOrder>1</NeighborOrder>
 </Plugin>
</CompuCell3D>
"""
SCRIPT = "from cc3d import CompuCellSetup\r\n\r\nfrom .SortSteppables import Mine\r\nCompuCellSetup.run()\r\n"


def own_cc3d_project(folder: Path) -> None:
    """The reader's project, with the cell types that the guide speaks of."""
    (folder / "Simulation").mkdir(parents=True)
    xml = re.sub(r".*Other.*\n", "", XML)
    periodic = "<Boundary_x>Periodic</Boundary_x><Boundary_y>Periodic</Boundary_y></Potts>"
    (folder / "Simulation" / "MyProject.xml").write_text(xml.replace("</Potts>", periodic), encoding="utf-8")
    (folder / "Simulation" / "MyProject.py").write_text(SCRIPT, encoding="utf-8")
    (folder / "MyProject.cc3d").write_text(
        "<Simulation><XMLScript>Simulation/MyProject.xml</XMLScript>"
        "<PythonScript>Simulation/MyProject.py</PythonScript></Simulation>",
        encoding="utf-8",
    )
