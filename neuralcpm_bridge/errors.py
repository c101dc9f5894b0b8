"""The one exception a user meets: a sentence saying what was found, what was expected and what to do."""

from __future__ import annotations


class UserError(Exception):
    """Wrong input or environment; the command line prints it as one sentence and exits with code 2."""
