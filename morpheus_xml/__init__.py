"""Morpheus: writing, reading, checking, injecting into and running its models."""

from __future__ import annotations

from .document import Document, Element, parse_model
from .inject import inject
from .model import MorpheusModel
from .reader import ModelFile, read_model
from .run import RunResult, find_binary, run_model

__all__ = [
    "Document",
    "Element",
    "ModelFile",
    "MorpheusModel",
    "RunResult",
    "find_binary",
    "inject",
    "parse_model",
    "read_model",
    "run_model",
]
