"""What the machine offers to a verb."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Cores this process may use, which in a container or a batch job are fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
