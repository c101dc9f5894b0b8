"""The process inside CompuCell3D: `python -m cc3d_steppables.hostrun JOB.json` runs a project and watches it."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
from pathlib import Path

from neuralcpm_bridge.errors import UserError

TERMINATED = 128 + signal.SIGTERM
"""Exit code of a process that was asked to end."""


def main(job_file: str) -> None:
    """`project`, `output`, `steps` (or null), and `watch`: `snapshots` or `flips` with how many and the `file`."""
    job = json.loads(Path(job_file).read_text(encoding="utf-8"))
    from cc3d import CompuCellSetup
    from cc3d.CompuCellSetup.sim_runner import run_cc3d_project
    from cc3d.core.RollbackImporter import RollbackImporter

    from .recorder import FlipRecorder, SnapshotSteppable

    if job["watch"] == "snapshots":
        watching = SnapshotSteppable(1, job["steps"], job["count"], job["file"])
    else:
        watching = FlipRecorder(1, job["steps"], job["count"], job["file"])
    known = CompuCellSetup.persistent_globals
    known.simulation_file_name = job["project"]
    known.set_output_dir(job["output"])
    known.log_level = "LOG_WARNING"
    CompuCellSetup.register_steppable(steppable=watching)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))  # in Python, so that `save` comes first
    RollbackImporter()  # as CC3D's own run_script: scripts rely on its reading of `from .MySteppables import …`
    try:
        run_cc3d_project(cc3d_sim_fname=job["project"])
    except SystemExit as ended:
        if ended.code == TERMINATED:
            watching.save()
            sys.stdout.flush()
            for process in multiprocessing.active_children():  # that the project started: nobody else would end them
                process.kill()
            os._exit(TERMINATED)  # CC3D's own clean-up would crash in the middle of a step
        raise
    finally:
        saved = watching.save()
    if not saved:
        raise UserError(
            "CompuCell3D ran, but did nothing to be seen: the project needs cells, steps and a valid script."
        )


if __name__ == "__main__":
    main(sys.argv[1])
