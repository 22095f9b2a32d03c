"""Showing a series while it runs: a bar and what each run is at in a terminal, plain lines anywhere else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.text import Text

from mirror import terminal
from mirror.evidence.verdict_styles import VERDICT_STYLES
from mirror.scenario.series import Progress, Wanted


@contextmanager
def display_for(console: Console, wanted: Sequence[Wanted]) -> Iterator[Callable[[Progress], None]]:
    """Yield what takes the progress of runs, from any thread, and shows it as suits the console."""
    if console.is_terminal:
        with _bars(console, wanted) as tell:
            yield tell
    else:
        yield _lines(console)


@contextmanager
def _bars(console: Console, wanted: Sequence[Wanted]) -> Iterator[Callable[[Progress], None]]:
    columns = (
        terminal.progress_text(),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        terminal.progress_text("{task.fields[doing]}", "dim"),
    )
    lock = threading.Lock()
    rows: dict[str, TaskID] = {}
    with Bars(*columns, console=console) as bars:
        whole = bars.add_task("series", total=len(wanted), doing="")

        def tell(progress: Progress) -> None:
            name = progress.wanted.plan.name
            with lock:
                if progress.outcome is None:
                    if name not in rows:
                        rows[name] = bars.add_task(f"  {name}", total=None, doing="")
                    bars.update(rows[name], doing=progress.doing)
                    return
                if name in rows:
                    bars.remove_task(rows.pop(name))
                bars.advance(whole)
                outcome = progress.outcome
                style = "bold green" if outcome.is_as_expected else VERDICT_STYLES[outcome.verdict]
                verdict = (f"{outcome.verdict.value:8}", style)
                console.print(Text.assemble(verdict, f" {name}  ", (f"{outcome.seconds:.0f} s", "dim")))

        yield tell


def _lines(console: Console) -> Callable[[Progress], None]:
    def tell(progress: Progress) -> None:
        said = progress.doing if progress.outcome is None else f"{progress.doing}: {progress.outcome.verdict.value}"
        console.print(f"[{progress.wanted.plan.name}] {said}", soft_wrap=True, markup=False, highlight=False)

    return tell
