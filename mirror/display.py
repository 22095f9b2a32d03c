"""How far work is, for people who look on: bars at a terminal, lines in a log. A notebook has `mirror.drill.live`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import Self, TypeAlias

from rich import progress as rich_progress
from rich.console import Console
from rich.text import Text

from mirror import terminal
from mirror.escaping import printable_lines
from mirror.waiting import Counted, OnLook, Watcher, outermost

LINE_SECONDS = 15.0
# A wait that is over by then is not worth a bar.
_SOON_SECONDS = 3.0
_BAR_WIDTH = 24

Part: TypeAlias = str | tuple[str, str]
"""Words of a line, or words and their style."""


class Bars:
    """A bar for each piece of work that is under way, by its name, and one for how many are over; from any thread."""

    def __init__(self, console: Console, *, transient: bool = False) -> None:
        """Draw on ``console`` once there is something to draw; what is ``transient`` leaves nothing there."""
        self._console = console
        self._bars = rich_progress.Progress(
            terminal.progress_text(),
            rich_progress.BarColumn(bar_width=_BAR_WIDTH),
            rich_progress.MofNCompleteColumn(),
            rich_progress.TimeElapsedColumn(),
            terminal.progress_text("{task.fields[doing]}", "dim"),
            console=console,
            transient=transient,
            # Drawing costs CPU, which a bench measures.
            refresh_per_second=2,
        )
        self._rows: dict[str, rich_progress.TaskID] = {}
        self._whole: rich_progress.TaskID | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Draw a last time."""
        self._bars.stop()

    def count(self, what: str, total: int) -> None:
        """Show how many of ``total`` pieces of work are over."""
        self._bars.start()
        self._whole = self._bars.add_task(what, total=total, doing="")

    def watch(self, doing: str, done: int, total: int) -> None:
        """Show how far a piece of work is; a `mirror.model.progress.Watch`."""
        self.at(doing, "", done, total)

    def goes_on(self, doing: str) -> None:
        """Show that a piece of work goes on of which it is not known how far it is."""
        self.at(doing, "")

    def at(self, what: str, doing: str, done: int = 0, total: int | None = None) -> None:
        """Show what a piece of work is at."""
        with self._lock:
            if what not in self._rows:
                self._bars.start()
                self._rows[what] = self._bars.add_task(what, total=total, doing=doing)
            self._bars.update(self._rows[what], doing=doing, completed=done, total=total)

    def end(self, what: str, *outcome: Part) -> None:
        """Take the bar of a piece of work away, and print what came of it."""
        with self._lock:
            if what in self._rows:
                self._bars.remove_task(self._rows.pop(what))
            if self._whole is not None:
                self._bars.advance(self._whole)
        self.print((what, "bold"), "  ", *outcome)

    def print(self, *line: Part) -> None:
        """Print a line above the bars."""
        self._console.print(_line(line), soft_wrap=True, highlight=False)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Draw nothing meanwhile, so that a question can be asked."""
        self._bars.stop()
        try:
            yield
        finally:
            self._bars.start()


class Lines:
    """A line when a piece of work begins, ends, or turns to something else, and now and then how much is left of it."""

    def __init__(
        self, console: Console, *, brief: bool = False, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Print to ``console``; ``brief``: of work that can be counted only what is left of it now and then."""
        self._console = console
        self._brief = brief
        self._monotonic = monotonic
        self._began = monotonic()
        self._printed_at: dict[str, float] = {}
        self._doing: dict[str, str] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Have nothing to clear away."""

    def count(self, what: str, total: int) -> None:
        """Say how many pieces of work there are."""
        self.print(f"{what}: {total:,}")

    def watch(self, doing: str, done: int, total: int) -> None:
        """Say that a piece of work begins, what is left of it, and that it is done; a `mirror.model.progress.Watch`."""
        with self._lock:
            now, is_new = self._monotonic(), doing not in self._printed_at
            printed_at = self._printed_at.setdefault(doing, self._began if self._brief else now)
            if is_new and not self._brief:
                self.print(f"{doing}: begun")
            if done < total and now >= printed_at + LINE_SECONDS:
                self._printed_at[doing] = now
                # Of a single piece a count says nothing.
                left = f": {total - done:,} of {total:,} left" if total > 1 else ""
                self.print(f"{doing}, {now - self._began:.0f} s{left}")
            if done >= total and not self._brief:
                self.print(f"{doing}: done")

    def goes_on(self, doing: str) -> None:
        """Say now and then that a piece of work goes on of which it is not known how far it is."""
        with self._lock:
            now = self._monotonic()
            if now >= self._printed_at.setdefault(doing, self._began) + LINE_SECONDS:
                self._printed_at[doing] = now
                self.print(f"{doing}, {now - self._began:.0f} s")

    def at(self, what: str, doing: str, done: int = 0, total: int | None = None) -> None:  # noqa: ARG002
        """Say what a piece of work has turned to."""
        with self._lock:
            if self._doing.get(what) != doing:
                self._doing[what] = doing
                self.print(f"[{what}] {doing}")

    def end(self, what: str, *outcome: Part) -> None:
        """Say what came of a piece of work."""
        self.print(f"[{what}] ", *outcome)

    def print(self, *line: Part) -> None:
        """Print a line."""
        self._console.print(_line(line), soft_wrap=True, highlight=False)

    def paused(self) -> AbstractContextManager[None]:
        """Have nothing to stop for a question."""
        return nullcontext()


Display: TypeAlias = Bars | Lines
"""Where progress is shown: a context manager whose methods may be called from any thread."""


def display_for(console: Console, *, brief: bool = False) -> Display:
    """Return what suits the console; ``brief``: nothing that stays, and lines only of what takes long."""
    is_drawn = console.is_terminal or console.is_jupyter
    return Bars(console, transient=brief) if is_drawn else Lines(console, brief=brief)


def _line(parts: Sequence[Part]) -> Text:
    """Return a line that a terminal prints as it is, whatever names of others are in it."""
    styled = ((each, "") if isinstance(each, str) else each for each in parts)
    return Text.assemble(*((printable_lines(words), style) for words, style in styled))


def waits_on(
    console: Console, display: Callable[[], Display] | None = None, monotonic: Callable[[], float] = time.monotonic
) -> Watcher:
    """Return who shows waits: what is left where it can be counted, else, once it takes long, that it goes on."""

    @outermost
    @contextmanager
    def shown(what: str) -> Iterator[OnLook]:
        began, doing = monotonic(), f"waiting for {what}"
        with display() if display else display_for(console, brief=True) as on:
            is_shown = False

            def on_look(seen: object) -> None:
                nonlocal is_shown
                if not isinstance(seen, Counted):
                    if monotonic() - began >= _SOON_SECONDS:
                        on.goes_on(doing)
                # What is there at once is not worth a bar.
                elif is_shown or not seen:
                    is_shown = True
                    on.watch(doing, seen.done, seen.of)

            yield on_look

    return shown


@contextmanager
def going_on(
    console: Console, doing: str, display: Callable[[], Display] | None = None, seconds: float = _SOON_SECONDS
) -> Iterator[None]:
    """Show, once it takes ``seconds``, that something goes on of which it is not known how far it is."""
    over = threading.Event()
    with display() if display else display_for(console, brief=True) as on:

        def show() -> None:
            while not over.wait(seconds):
                on.goes_on(doing)

        shown = threading.Thread(target=show, name="progress", daemon=True)
        shown.start()
        try:
            yield
        finally:
            over.set()
            shown.join()
