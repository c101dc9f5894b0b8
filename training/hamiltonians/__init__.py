"""The Hamiltonians of the paper and the Local Neural Hamiltonian, one term one class."""

from .hamiltonian import Energies, Hamiltonian, Symbolic
from .networks import ConvNetwork, LocalNeuralHamiltonian, NeuralHamiltonian, build_network
from .presets import PRESETS, make_preset
from .terms import Contact, ExternalPotential, Surface, Volume, VolumeFunction

__all__ = [
    "PRESETS",
    "Contact",
    "ConvNetwork",
    "Energies",
    "ExternalPotential",
    "Hamiltonian",
    "LocalNeuralHamiltonian",
    "NeuralHamiltonian",
    "Surface",
    "Symbolic",
    "Volume",
    "VolumeFunction",
    "build_network",
    "make_preset",
]
