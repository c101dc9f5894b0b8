"""The Hamiltonians: analytic terms, the cell graph, the Local Neural Hamiltonian and the paper's networks."""

from .cell_graph import CellGraph
from .graphs import CellGraphs
from .hamiltonian import Energies, Hamiltonian, Symbolic
from .networks import ConvNetwork, LocalNeuralHamiltonian, NeuralHamiltonian, build_network
from .presets import PRESETS, make_preset
from .states import Flips, States, batch_states
from .terms import TERMS, Contact, ExternalPotential, Length, Surface, Term, Volume, VolumeFunction

__all__ = [
    "PRESETS",
    "TERMS",
    "CellGraph",
    "CellGraphs",
    "Contact",
    "ConvNetwork",
    "Energies",
    "ExternalPotential",
    "Flips",
    "Hamiltonian",
    "Length",
    "LocalNeuralHamiltonian",
    "NeuralHamiltonian",
    "States",
    "Surface",
    "Symbolic",
    "Term",
    "Volume",
    "VolumeFunction",
    "batch_states",
    "build_network",
    "make_preset",
]
