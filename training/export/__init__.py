"""Export: from a Hamiltonian to an artifact and back, each time checked."""

from .artifact import export, hamiltonian_from_artifact, write_artifact

__all__ = ["export", "hamiltonian_from_artifact", "write_artifact"]
