"""Running them: threads that wait for the host's processes, or a Dask cluster's workers; failed ones once more."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuralcpm_bridge.errors import UserError

from .gather import RUNS_FILE, write_table
from .plan import Files, Outcome, Run, Work, packed

ATTEMPTS = 2
"""Of a run before it counts as failed."""
LOCAL = "local"


def run_many(
    work: Work,
    runs: Sequence[Run],
    folder: Path,
    *,
    cluster: str | None = None,
    progress: Callable[[float, float], None] = lambda done, total: None,
    say: Callable[[str], None] = lambda line: None,
) -> list[Outcome]:
    """Run all of them, each into a folder of its own in `folder`, where a table of them grows.

    `cluster`: the address of a Dask scheduler, or `local` for one on this machine; without it threads wait for the
    host's processes, as many as there are cores.
    """
    _make_empty(folder)
    outcomes = {run.number: Outcome(run) for run in runs}
    with _executor(cluster, work, folder) as submit:
        waiting = {submit(run): run for run in runs}
        done = 0
        while waiting:
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                run = waiting.pop(future)
                outcome = outcomes[run.number]
                _take(future, outcome, folder / run.name)
                if outcome.error is not None and outcome.attempts < ATTEMPTS:
                    say(f"{run} failed and is repeated: {outcome.error}")
                    waiting[submit(run)] = run
                    continue
                done += 1
                write_table(folder / RUNS_FILE, list(outcomes.values()))
                progress(done, len(runs))
    return list(outcomes.values())


def _make_empty(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} holds other files already: choose another folder or remove it.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"The folder {folder} cannot be used ({error.strerror}): choose another place.") from None


# -- one run -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Returned:
    """What a run hands back: its files where they are not here already, its time, and why it failed."""

    files: Files
    seconds: float
    error: str | None


def _here(work: Work, run: Run, results: Path) -> Returned:
    """Into its folder, without what an earlier attempt left there."""
    began = time.perf_counter()
    shutil.rmtree(results, ignore_errors=True)
    try:
        work(run, None, results)
    except UserError as error:
        return Returned({}, time.perf_counter() - began, str(error))
    return Returned({}, time.perf_counter() - began, None)


def _there(work: Work, files: Files, run: Run) -> Returned:
    """On a machine that has the programs and nothing else."""
    began, error = time.perf_counter(), None
    with tempfile.TemporaryDirectory(prefix="neuralcpm-run-") as name:
        source, results = Path(name, "source"), Path(name, "results")
        _unpack(files, source)
        try:
            work(run, source, results)
        except UserError as failure:
            error = str(failure)
        return Returned(packed(results), time.perf_counter() - began, error)


def _unpack(files: Files, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)


def _take(future: Future[Returned], outcome: Outcome, results: Path) -> None:
    """Note how a run ended, and put its files where they belong."""
    outcome.attempts += 1
    try:
        returned = future.result()
        if returned.files:
            shutil.rmtree(results, ignore_errors=True)
            _unpack(returned.files, results)
    except OSError as error:
        raise UserError(
            f"{results} cannot be written ({error.strerror}): free space or choose another place."
        ) from None
    except Exception as error:  # whatever a worker died of is no reason to lose the others
        outcome.error = f"{type(error).__name__}: {error}"
    else:
        outcome.seconds, outcome.error = returned.seconds, returned.error


# -- where they run ------------------------------------------------------------------------------------------------


@contextmanager
def _executor(cluster: str | None, work: Work, folder: Path) -> Iterator[Callable[[Run], Future[Returned]]]:
    """A function that submits a run."""
    if cluster is None:
        with ThreadPoolExecutor(max_workers=_cores()) as pool:
            try:
                yield lambda run: pool.submit(_here, work, run, folder / run.name)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return
    with _client(cluster) as client:
        files = client.scatter(work.files(), hash=False)
        pool = client.get_executor(pure=False)
        yield lambda run: pool.submit(_there, work, files, run)


@contextmanager
def _client(cluster: str) -> Iterator[Any]:
    try:
        from distributed import Client, LocalCluster
    except ModuleNotFoundError:
        raise UserError(
            "--cluster needs Dask, which is not installed: run pip install 'neuralcpm-bridge[cluster]'."
        ) from None
    if cluster == LOCAL:
        with (
            LocalCluster(n_workers=_cores(), threads_per_worker=1, dashboard_address=None) as made,
            Client(made) as client,
        ):
            yield client
        return
    try:
        client = Client(cluster, timeout="20s")
    except (OSError, ValueError) as error:
        raise UserError(
            f"No Dask scheduler answers at {cluster} ({error}): give its address, such as tcp://host:8786, or 'local'."
        ) from None
    with client:
        yield client


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
