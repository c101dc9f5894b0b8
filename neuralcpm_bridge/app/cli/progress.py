"""The progress bar of every verb."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Bar:
    """`bar(done, total)` shows how far it is: from the first call on, so that what is refused before it remains one
    sentence."""

    def __init__(self, bar: Any, task: Any) -> None:
        self._bar, self._task = bar, task

    def __call__(self, done: float, total: float | None = None, text: str | None = None) -> None:
        """`total` and `text` stay what they were where they are not given."""
        self._bar.start()
        self._bar.update(self._task, completed=done, total=total, description=text)

    def say(self, line: str) -> None:
        """A line above the bar."""
        self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)


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

    columns = (TextColumn("{task.description}"), BarColumn(), Count(""), TimeElapsedColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=not keep)
    try:
        yield Bar(bar, bar.add_task(title, total=total))
    finally:
        if bar.live.is_started:
            bar.stop()
