"""A host's cell types as a model's: as the user says, else by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from ..errors import UserError

UNMAPPED = -1
"""In place of a model's type: nobody has said how to take this one."""


def map_types(
    host_types: Mapping[int, str], known: Sequence[str], given: Mapping[str, str] | None = None
) -> dict[int, int]:
    """A host's type numbers to a model's: as given, else by name; `UNMAPPED` where there is neither.

    Number 0 is the medium of both.
    """
    given = dict(given or {})
    for host_name, model_name in given.items():
        if host_name not in host_types.values():
            raise UserError(
                f"types names the cell type {host_name!r}, but the project has {listed(host_types.values())}: "
                "correct the name."
            )
        if model_name not in known:
            raise UserError(
                f"types maps {host_name!r} to {model_name!r}, but the model knows {listed(known)}: choose one of these."
            )
    mapped = {}
    for number, name in host_types.items():
        wanted = given.get(name, known[0] if number == 0 else name)
        if number == 0 and wanted != known[0]:
            raise UserError(f"types maps {name} to {wanted!r}, but it is always {known[0]!r}: leave it out.")
        mapped[number] = known.index(wanted) if wanted in known else UNMAPPED
    return mapped


def unmapped(names: Sequence[str], known: Sequence[str]) -> str:
    """The sentence about cells whose types the model was not told how to take: all of them at once."""
    example = {name: known[min(number, len(known) - 1)] for number, name in enumerate(names, 1)}
    return (
        f"There are cells of type {listed(map(repr, names))}, but the model knows {listed(known)}: map "
        f"{'the type' if len(names) == 1 else 'the types'}, for example types={example!r}, or to {known[0]!r} where "
        "the model should not see them."
    )


def type_pairs(options: Iterable[str]) -> dict[str, str]:
    """`--types` of a command line as a mapping: repeated, or several in one, parted by commas or semicolons."""
    pairs: dict[str, str] = {}
    for pair in (pair for option in options for pair in re.split("[,;]", option) if pair.strip()):
        theirs, equals, ours = (part.strip() for part in pair.partition("="))
        if not (theirs and equals and ours):
            raise UserError(f"--types {pair!r} was not understood: write THEIRS=MODEL'S, as in --types Wall=medium.")
        if theirs in pairs:
            raise UserError(f"--types maps {theirs} twice, to {pairs[theirs]} and to {ours}: keep one of them.")
        pairs[theirs] = ours
    return pairs


def listed(names: Iterable[str]) -> str:
    return ", ".join(names)
