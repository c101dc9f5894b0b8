"""The list of verbs in a help text."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

WHOLE_SENTENCE = 300
"""Letters of a verb's first sentence that are shown: all of them."""


class VerbGroup(TyperGroup):
    """Shows whole sentences, wrapped, where Click would cut them off at the end of the line."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        verbs = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, verb.get_short_help_str(WHOLE_SENTENCE)) for name, verb in verbs if verb is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
