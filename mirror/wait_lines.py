"""How far something is that a command waits for: a bar at a terminal, elsewhere a line every quarter of a minute."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from rich.console import Console

from mirror.model.progress import Watch
from mirror.waiting import Counted, Tell, Watcher

LINE_SECONDS = 15.0


def waits_on(
    console: Console,
    progress: Callable[[], AbstractContextManager[Watch]],
    monotonic: Callable[[], float] = time.monotonic,
) -> Watcher:
    """Return who shows, of waits of which it can be counted how far they are, what is left.

    Parameters
    ----------
    progress
        makes the bars of a terminal.
    """

    @contextmanager
    def shown(what: str) -> Iterator[Tell]:
        began = last_line = monotonic()
        watch: Watch | None = None
        with ExitStack() as until_it_is_over:

            def tell(seen: object) -> None:
                nonlocal last_line, watch
                if not isinstance(seen, Counted) or (seen and watch is None):
                    return
                if console.is_terminal:
                    if watch is None:
                        watch = until_it_is_over.enter_context(progress())
                    watch(f"waiting for {what}", seen.done, seen.of)
                elif (now := monotonic()) >= last_line + LINE_SECONDS:
                    last_line = now
                    left = f"{seen.of - seen.done:,} of {seen.of:,} left"
                    console.print(f"waiting for {what}, {now - began:.0f} s: {left}", highlight=False, soft_wrap=True)

            yield tell

    return shown
