"""Showing how far long work is: a bar for each piece in a terminal, a line when it begins and ends anywhere else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rich import progress as rich_progress
from rich.console import Console

from mirror import terminal
from mirror.lab.progress import OnProgress, Progress


@contextmanager
def shown(console: Console) -> Iterator[OnProgress]:
    """Yield what takes the progress of work, from any thread, and shows it as suits the console."""
    if console.is_terminal:
        with _bars(console) as show:
            yield show
    else:
        yield _lines(console)


@contextmanager
def _bars(console: Console) -> Iterator[OnProgress]:
    bars: dict[str, rich_progress.TaskID] = {}
    lock = threading.Lock()
    columns = (
        terminal.progress_text(),
        rich_progress.BarColumn(),
        rich_progress.MofNCompleteColumn(),
        rich_progress.TimeElapsedColumn(),
    )
    with rich_progress.Progress(*columns, console=console) as display:

        def show(step: Progress) -> None:
            with lock:
                if step.what not in bars:
                    bars[step.what] = display.add_task(step.what, total=step.total)
                display.update(bars[step.what], completed=step.done)

        yield show


def _lines(console: Console) -> OnProgress:
    begun: set[str] = set()
    lock = threading.Lock()

    def show(step: Progress) -> None:
        with lock:
            if step.what not in begun:
                begun.add(step.what)
                console.print(f"{step.what}: begun", markup=False, highlight=False, soft_wrap=True)
            if step.done == step.total:
                console.print(f"{step.what}: done", markup=False, highlight=False, soft_wrap=True)

    return show
