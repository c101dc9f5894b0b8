"""The Hamiltonians of the paper and the Local Neural Hamiltonian, one term one class."""

from .hamiltonian import Energies, Hamiltonian, Symbolic
from .networks import ConvNetwork, LocalNeuralHamiltonian, NeuralHamiltonian, build_network
from .presets import PRESETS, make_preset
from .states import Flips, States, batch_states
from .terms import TERMS, Contact, ExternalPotential, Length, Surface, Term, Volume, VolumeFunction

__all__ = [
    "PRESETS",
    "TERMS",
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
