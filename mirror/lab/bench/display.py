"""What a bench shows while it runs: lines of what happened, and on a terminal bars of how far it is."""

from __future__ import annotations

from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from rich import progress as rich_progress
from rich.console import Console

from mirror import terminal
from mirror.lab.progress import Progress


class Display:
    """One bar for the turns of the bench and one for what the present turn does; a context manager."""

    def __init__(self, console: Console, turns: int) -> None:
        """Show on ``console`` how many of ``turns`` are over."""
        self._console = console
        self._bars = rich_progress.Progress(
            terminal.progress_text(),
            rich_progress.BarColumn(),
            rich_progress.MofNCompleteColumn(),
            rich_progress.TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
            # Drawing costs CPU that is being measured.
            refresh_per_second=2,
        )
        self._turns = self._bars.add_task("bench", total=turns)
        self._now = self._bars.add_task("starting", total=None)

    def __enter__(self) -> Self:
        """Begin to draw."""
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Draw a last time."""
        self._bars.stop()

    def tell(self, line: str) -> None:
        """Print a line, with the time, above the bars."""
        self._console.print(f"{datetime.now(UTC):%H:%M:%S} {line}", style="dim", markup=False)

    def on_progress(self, step: Progress) -> None:
        """Show how far the present work is."""
        self._bars.update(self._now, description=step.what, completed=step.done, total=step.total)

    def turn_ended(self) -> None:
        """Count a turn as over."""
        self._bars.advance(self._turns)
