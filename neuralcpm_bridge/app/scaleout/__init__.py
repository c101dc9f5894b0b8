"""Many runs of a host's model: replicates and scanned values, over the cores of this machine or a Dask cluster.

A host says what one run is (`Work`); here they are numbered, dealt out, repeated where they fail, and gathered into one
data set. Runs on other machines get their files and send back theirs, so that nothing needs to be shared with them but
the installed programs.
"""

from __future__ import annotations

from .execute import run_many
from .gather import gather, summary
from .hosts import CC3DWork, MorpheusWork
from .plan import Files, Outcome, Run, Work, packed, planned

__all__ = [
    "CC3DWork",
    "Files",
    "MorpheusWork",
    "Outcome",
    "Run",
    "Work",
    "gather",
    "packed",
    "planned",
    "run_many",
    "summary",
]
