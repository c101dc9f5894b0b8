"""The progress bar of every verb."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SILENT_SECONDS = 60.0
"""Where no terminal shows a bar (a log, a batch job), a line as often as this tells that it goes on."""


class Bar:
    """`bar(done, total)` shows how far it is: from the first call on, so that what is refused before it remains one
    sentence."""

    def __init__(self, bar: Any, task: Any) -> None:
        self._bar, self._task, self._told = bar, task, time.monotonic()

    def __call__(self, done: float, total: float | None = None, text: str | None = None) -> None:
        """`total` and `text` stay what they were where they are not given."""
        self._bar.start()
        self._bar.update(self._task, completed=done, total=total, description=text)
        if not self._bar.console.is_terminal and time.monotonic() - self._told >= SILENT_SECONDS:
            self._told = time.monotonic()
            self.say(self._line())

    def _line(self) -> str:
        """The bar in words: how far, since when, how long still."""
        task = self._bar.tasks[0]
        of = "" if task.total is None else f" of {task.total:g}"
        left = "" if task.time_remaining is None else f", {duration(task.time_remaining)} to go"
        return f"{task.description} {task.completed:g}{of} after {duration(task.elapsed or 0)}{left}".strip()

    def say(self, line: str) -> None:
        """A line above the bar."""
        self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)


def duration(seconds: float) -> str:
    """In the largest unit that fits: seconds, minutes, hours or days."""
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} seconds"


@contextmanager
def progress(title: str = "", total: float | None = None, *, unit: str = "", keep: bool = False) -> Iterator[Bar]:
    """A bar on standard error; `keep`: it stays when all is done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    class Count(TextColumn):
        def render(self, task: Any) -> Any:
            from rich.text import Text

            of = "" if task.total is None else f"/{task.total:g}"
            return Text(f"{task.completed:g}{of} {unit}".rstrip())

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        Count(""),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True, markup=False), transient=not keep)
    try:
        yield Bar(bar, bar.add_task(title, total=total))
    finally:
        if bar.live.is_started:
            bar.stop()
