"""What did a cell graph learn? Energies of cells and contacts, response curves, sentences. NumPy only."""

from __future__ import annotations

from .energies import Energies, Panel, energy_panels, energy_picture
from .explanation import Explanation, explain
from .responses import Response
from .sentences import sentence

__all__ = [
    "Energies",
    "Explanation",
    "Panel",
    "Response",
    "energy_panels",
    "energy_picture",
    "explain",
    "sentence",
]
