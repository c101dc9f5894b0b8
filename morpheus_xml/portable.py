"""A learned model beside the Morpheus model that names it, so that both can be moved, sent and archived together."""

from __future__ import annotations

import hashlib
from pathlib import Path

from neuralcpm_bridge.files import writing


def name_beside(learned: Path, xml: Path) -> str:
    """How a Morpheus model names a learned one: by its path from the XML's folder, or, where it lies elsewhere, by the
    name of a copy there, which is another one where a different file has that name."""
    learned, folder = learned.resolve(), xml.parent.resolve()
    if learned.is_relative_to(folder):
        return learned.relative_to(folder).as_posix()
    copy, content = folder / learned.name, learned.read_bytes()
    if copy.is_file() and copy.read_bytes() != content:
        copy = copy.with_stem(f"{copy.stem}-{hashlib.sha256(content).hexdigest()[:8]}")
    return copy.name


def copy_beside(learned: Path, xml: Path) -> None:
    """Put the learned model where `name_beside` says it is."""
    place = xml.parent / name_beside(learned, xml)
    if not place.is_file():
        with writing(place) as temporary:
            temporary.write_bytes(learned.read_bytes())
