"""A small analytic model and a Morpheus model of a user."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from neuralcpm_bridge.artifact import Artifact, LatticeEntry
from training.export import export
from training.hamiltonians import Contact, Hamiltonian, Symbolic, Volume, make_preset

USER_MODEL = """<?xml version='1.0' encoding='UTF-8'?>
<MorpheusModel version="4">
    <!-- my notes: do not lose them -->
    <Description>
        <Title>Mine</Title>
        <Details/>
    </Description>
    <Space>
        <Lattice class="square">
            <Size symbol="size" value="60, 50, 0"/>
            <BoundaryConditions>
                <Condition boundary="x"   type='periodic'/>
                <Condition boundary="y" type="periodic"/>
            </BoundaryConditions>
            <Neighborhood><Order>2</Order></Neighborhood>
        </Lattice>
        <SpaceSymbol symbol="l"/>
    </Space>
    <Time>
        <StartTime value="0"/>
        <StopTime value="20"/>
        <TimeSymbol symbol="time"/>
    </Time>
    <Global><Constant symbol="T" value="4"/></Global>
    <CellTypes>
        <CellType class="medium" name="medium"/>
        <CellType class="biological" name="red">
            <VolumeConstraint target="80" strength="1"/>
\t    <Property symbol="p" value="1 > 0"></Property>  <!-- odd, but mine -->
        </CellType>
        <CellType class="biological" name="blue"/>
    </CellTypes>
    <CPM>
        <Interaction default="0.0">
            <Contact type1="red" type2="medium" value="12"/>
        </Interaction>
        <MonteCarloSampler stepper="edgelist">
            <MCSDuration value="1"/>
            <Neighborhood><Order>2</Order></Neighborhood>
            <MetropolisKinetics temperature="T"/>
        </MonteCarloSampler>
        <ShapeSurface scaling="norm">
            <Neighborhood><Order>6</Order></Neighborhood>
        </ShapeSurface>
    </CPM>
    <CellPopulations>
        <Population size="0" type="red"><InitCircle number-of-cells="5"/></Population>
    </CellPopulations>
</MorpheusModel>
"""


@pytest.fixture
def user_model(tmp_path: Path) -> Path:
    path = tmp_path / "user.xml"
    path.write_text(USER_MODEL, encoding="utf-8")
    return path


def analytic(path: Path, boundary: str = "periodic") -> Artifact:
    energies = torch.tensor([[0, 4, 3], [4, 2, 5], [3, 5, 2.5]], dtype=torch.float64)
    volume = Volume(torch.tensor([0.5, 1.0], dtype=torch.float64), torch.tensor([30.0, 40.0], dtype=torch.float64))
    symbolic = Symbolic(Contact(energies), volume, weight=2.0)
    return export(Hamiltonian(("medium", "A", "B"), symbolic, lattice=LatticeEntry.of("square", boundary)), path)


@pytest.fixture(scope="session")
def sorting(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return analytic(tmp_path_factory.mktemp("sorting") / "sorting.onnx")


@pytest.fixture(scope="session")
def free_sorting(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return analytic(tmp_path_factory.mktemp("free") / "free.onnx", "free")


@pytest.fixture(scope="session")
def closure(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    torch.manual_seed(0)
    return export(make_preset("local8-closure"), tmp_path_factory.mktemp("closure") / "closure.onnx")
