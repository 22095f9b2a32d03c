"""The command ``mirror`` in processes that end at their writes, each at one where none has ended before.

A write is what goes to disk or to a cluster: an entry of a journal, a small file, a state record, a position of a group,
an ACL, a command of the applications. They are found while the command runs, so that a new one is covered.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mirror import atomic_file, cli
from mirror.evidence.journal import Event, Journal
from mirror.kafka.cluster import Cluster
from mirror.kafka.log import LogWriter
from mirror.recovery import fence, procedure  # noqa: F401  the processes are forked of one that has it all

_SECONDS = 300.0
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([__name__])


@dataclass(frozen=True)
class Ended:
    """A process that has ended.

    Attributes
    ----------
    at
        the write at which it was ended; None: by itself.
    code
        its exit code; that of a signal is negative.
    said
        what it has printed, standard error with it.
    """

    at: str | None
    code: int
    said: str


def ended_at_each_write(
    argv: tuple[str, ...], directory: Path, by: signal.Signals = signal.SIGKILL, *, inside: Path = Path()
) -> Iterator[Ended]:
    """Yield a command's processes, one after the other, up to the first that no signal has ended.

    Parameters
    ----------
    directory
        in which it is kept at which writes they have ended.
    inside
        the directory in which the command works.
    """
    directory.mkdir(exist_ok=True)
    kept, said = directory / "writes", directory / "said"
    kept.touch()
    while True:
        before = kept.read_text().splitlines()
        process = _FORKS.Process(target=_carry_out, args=(argv, kept, said, by, inside.absolute()))
        process.start()
        process.join(_SECONDS)
        if process.is_alive():
            process.kill()
            raise TimeoutError(f"it has not ended after {_SECONDS:g} s: {said.read_text()}")
        writes = kept.read_text().splitlines()[len(before) :]
        yield Ended(writes[0] if writes else None, int(process.exitcode or 0), said.read_text())
        if not writes:
            return


def _carry_out(argv: tuple[str, ...], kept: Path, said: Path, by: signal.Signals, inside: Path) -> None:
    os.chdir(inside)
    with said.open("w") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    _watch_writes(_Switch(kept, by))
    sys.argv = ["mirror", *argv]
    cli.main()


class _Switch:
    """Ends this process at the first write that is not kept yet."""

    def __init__(self, kept: Path, by: signal.Signals) -> None:
        self.step = "no step"
        # Whoever is interrupted leaves nothing half written; whoever is killed may.
        self.tears = by is signal.SIGKILL
        self._kept = kept
        self._by = by
        self._known = set(kept.read_text().splitlines())
        self._is_used = False

    def is_due(self, write: str) -> bool:
        return not self._is_used and write not in self._known

    def reach(self, write: str) -> None:
        if self.is_due(write):
            self._is_used = True
            with self._kept.open("a") as file:
                file.write(f"{write}\n")
            signal.raise_signal(self._by)

    def around(self, of: Any, name: str, told: Callable[..., str | None], *, tears: bool = False) -> None:
        """Have a function end the process before and after it; with ``tears``, when half its file is written."""
        original = getattr(of, name)

        @functools.wraps(original)
        def wrapped(*positional: Any, **named: Any) -> Any:
            what = told(*positional, **named)
            if what is None:
                return original(*positional, **named)
            self.reach(f"{self.step}: before {what}")
            found = original(*positional, **named)
            if tears and self.tears and self.is_due(half := f"{self.step}: half of {what}"):
                os.truncate(found, found.stat().st_size // 2)
                self.reach(half)
            self.reach(f"{self.step}: after {what}")
            return found

        setattr(of, name, wrapped)


def _watch_writes(switch: _Switch) -> None:
    append = Journal.append

    def appended(journal: Journal, event: Event, *, step: str | None = None, **more: Any) -> Any:
        # That a step is skipped is said again by each process.
        if event is not Event.STEP_SKIPPED:
            switch.reach(f"{step}: before {event}")
        size = journal.path.stat().st_size if journal.path.exists() else 0
        entry = append(journal, event, step=step, **more)
        if switch.tears and switch.is_due(half := f"half of an entry {event}"):
            os.truncate(journal.path, (size + journal.path.stat().st_size) // 2)
            switch.reach(half)
        if event is Event.STEP_STARTED:
            switch.step = str(step)
        return entry

    Journal.append = appended
    switch.around(atomic_file, "_unfinished", lambda path, _: f"the file {_numberless(path)}", tears=True)
    switch.around(atomic_file, "force_names", lambda path: f"the name in {_numberless(path)} is forced")
    switch.around(Path, "replace", lambda path, to: None if path.name[0] == "." else f"{_numberless(path)} is renamed")
    switch.around(LogWriter, "append", lambda _, topic, *more: f"a record of {topic}")
    for name in ("write_positions_of_groups", "delete_positions_of_groups", "create_topics", "delete_topics"):
        switch.around(Cluster, name, lambda *_, name=name, **__: name)
    for name in ("create_acls", "delete_acls", "alter_client_quotas"):
        switch.around(fence, name, lambda *_, name=name: name)
    switch.around(subprocess, "Popen", _command_of_applications)


def _command_of_applications(argv: Any, *_: Any, **named: Any) -> str | None:
    return f"the command {argv[3]} {argv[-1]}" if "tests.brokers.lab_applications" in argv else None


def _numberless(path: Path) -> str:
    return re.sub(r"\d+", "N", path.name)
