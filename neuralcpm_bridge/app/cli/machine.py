"""What the machine offers to a verb."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from neuralcpm_bridge.errors import UserError

if TYPE_CHECKING:
    from neuralcpm_bridge.lattice import Lattice

BYTES_PER_SITE = {"layout": 48, "chain": 24, "state": 4}
"""What a site takes at most: while a layout is drawn, in a running chain, in every state that is kept."""

MOST_ATTEMPTS = 2**63 - 1
"""Attempts are counted in 64 bits."""


def usable_cores() -> int:
    """Cores this process may use, which in a container or a batch job are fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory() -> int:
    """Bytes of memory that the machine has."""
    if hasattr(os, "sysconf"):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    import ctypes

    kilobytes = ctypes.c_ulonglong()
    ctypes.windll.kernel32.GetPhysicallyInstalledSystemMemory(ctypes.byref(kilobytes))  # type: ignore[attr-defined]
    return kilobytes.value * 1024


def check_size(lattice: Lattice, mcs: int, chains: int, kept: int = 1) -> None:
    """Refuse runs that no memory holds, before the system starts to end programs, and those that would never end.

    `kept` states of each chain stay in memory.
    """
    from neuralcpm_bridge.lattice import size_text

    attempts = mcs * lattice.sites * chains
    if attempts > MOST_ATTEMPTS:
        raise UserError(
            f"{mcs:,} Monte Carlo steps were asked for, {attempts:.0e} attempts in all, but {MOST_ATTEMPTS:.0e} are "
            "the most that can be counted: ask for fewer."
        )
    per_chain = BYTES_PER_SITE["chain"] + kept * BYTES_PER_SITE["state"]
    needed = lattice.sites * (BYTES_PER_SITE["layout"] + chains * per_chain)
    if needed > memory():
        raise UserError(
            f"Such a run ({size_text(lattice.shape)} sites, replicates: {chains:,}, states kept of each: {kept:,}) "
            f"would take {needed / 1e9:,.0f} GB of memory, but this machine has {memory() / 1e9:.0f} GB: ask for less."
        )
