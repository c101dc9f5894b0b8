"""Distilling: the energies that stock simulators know, fitted to a learned model's ΔH. NumPy only."""

from __future__ import annotations

from .fit import Distilled, distill
from .report import report_json, report_text
from .sampling import FlipSample, sample_flips

__all__ = ["Distilled", "FlipSample", "distill", "report_json", "report_text", "sample_flips"]
