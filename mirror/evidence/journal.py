"""The journal of a run: what happened, when, in which step; append-only, each entry chained to the one before.

A line is one entry in canonical JSON (sorted keys, no spaces): ``n`` (from 1), ``at`` (UTC, ISO 8601),
``monotonic_seconds`` (the machine's monotonic clock: durations are computed from it, never from ``at``), ``step``,
``event``, ``facts``, ``previous`` (the hash of the entry before; 64 zeros in the first) and ``hash`` (SHA-256 of the
entry's canonical JSON without ``hash``).

An altered, inserted or removed line breaks the chain and is named by `read_journal`. Lines removed from the end leave
a shorter chain that is whole in itself: against that the head, the hash of the last entry, is kept elsewhere, as are
digests of what the run has left behind inside (`mirror.evidence.seals`).

The orchestrating process and the notebooks' kernels append to the same file; a file lock keeps their entries apart.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO

from mirror.evidence.facts import FactError, Facts, Json, plain

GENESIS = "0" * 64
"""What the first entry names as the hash of its predecessor."""


class Event(StrEnum):
    """Everything a journal can say has happened."""

    RUN_STARTED = "run_started"
    RUN_RESUMED = "run_resumed"
    RUN_FINISHED = "run_finished"
    STEP_STARTED = "step_started"
    STEP_SKIPPED = "step_skipped"
    STEP_FINISHED = "step_finished"
    STEP_UNDONE = "step_undone"
    GATE_CHECKED = "gate_checked"
    POINT_OF_NO_RETURN = "point_of_no_return"
    JOURNAL_MENDED = "journal_mended"
    EVIDENCE_SEALED = "evidence_sealed"

    LOAD_STARTED = "load_started"
    LOAD_STOPPED = "load_stopped"
    FAULT_INJECTED = "fault_injected"
    FAULT_DETECTED = "fault_detected"
    FENCED = "fenced"
    DRAINED = "drained"
    CUT = "cut"
    OFFSETS_APPLIED = "offsets_applied"
    FIRST_WRITE = "first_write"
    GROUP_READING = "group_reading"
    FAULT_HEALED = "fault_healed"
    ACTION = "action"
    PROBE = "probe"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the journal."""

    n: int
    at: datetime
    monotonic_seconds: float
    step: str | None
    event: Event
    facts: Mapping[str, Any]
    previous: str
    hash: str

    @property
    def at_ms(self) -> int:
        """Return ``at``, when it was written, in milliseconds since the epoch, Kafka's unit."""
        return round(self.at.timestamp() * 1000)

    @property
    def happened_at_ms(self) -> int:
        """Return when it happened: where that was found in the ledger afterwards, before the entry was written."""
        at_ms = self.facts.get("first_at_ms")
        return at_ms if isinstance(at_ms, int) else self.at_ms


@dataclass(frozen=True, slots=True)
class JournalReading:
    """A journal read back: the entries that could be read, and the first thing wrong with the chain, if any.

    Attributes
    ----------
    head
        the hash of the last entry; quote it elsewhere and nobody can shorten the journal unseen.
    problem
        None for a whole chain; otherwise the first broken line and what is wrong with it.
    torn_tail
        what a writer that died in the middle of it left of a last line; normally empty. Not a break of the chain.
    """

    path: Path
    entries: tuple[Entry, ...]
    head: str
    problem: str | None
    torn_tail: str = ""

    def with_problem(self, problem: str | None) -> JournalReading:
        """Return it with what else is wrong."""
        return replace(self, problem=problem)


class JournalBroken(Exception):
    """The chain of a journal does not hold; the message names the line."""


class Journal:
    """Appends entries to one journal file; safe from several processes at once."""

    def __init__(
        self,
        path: Path,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self._now = now
        self._monotonic = monotonic

    def append(self, event: Event, *, step: str | None = None, facts: Mapping[str, object] | None = None) -> Entry:
        """Append one entry and force it to disk; return it.

        A torn last line (a writer died in the middle of it) is cut off first and kept in an entry of its own.

        Raises
        ------
        JournalBroken
            if the last line is not an entry, so that nothing could be chained to it.
        """
        plain_facts = plain(facts or {})
        assert isinstance(plain_facts, dict)
        with _locked(self.path) as file:
            torn = _cut_torn_tail(file)
            n, head = _last(self.path, file)
            if torn:
                mended = self._entry(n + 1, head, None, Event.JOURNAL_MENDED, {"torn_line": torn})
                file.write(_line(mended))
                n, head = mended.n, mended.hash
            entry = self._entry(n + 1, head, step, event, plain_facts)
            file.write(_line(entry))
            file.flush()
            os.fsync(file.fileno())
        return entry

    def read(self) -> JournalReading:
        """Read every entry and check the chain."""
        return read_journal(self.path)

    def _entry(self, n: int, previous: str, step: str | None, event: Event, facts: Mapping[str, Json]) -> Entry:
        at = self._now().astimezone(UTC)
        unsealed = Entry(n, at, round(self._monotonic(), 6), step, event, facts, previous, "")
        return Entry(n, at, unsealed.monotonic_seconds, step, event, facts, previous, _digest(unsealed))


def read_journal(path: Path) -> JournalReading:
    """Read a journal and check its chain; never raises for a damaged one, but says what is wrong and where.

    A missing file is an empty journal whose problem is that it is missing.
    """
    if not path.exists():
        return JournalReading(path, (), GENESIS, f"{path.name} is missing")
    lines = path.read_bytes().splitlines(keepends=True)
    torn = lines.pop().decode(errors="replace") if lines and not lines[-1].endswith(b"\n") else ""
    entries: list[Entry] = []
    problem: str | None = None
    head = GENESIS
    for number, line in enumerate(lines, start=1):
        try:
            entry = _parse(line, f"{path.name} line {number}")
        except (FactError, ValueError) as unreadable:
            problem = problem or f"{path.name} line {number} is not a journal entry: {unreadable}"
            continue
        problem = problem or _link_problem(path.name, number, line, entry, entries[-1] if entries else None, head)
        entries.append(entry)
        head = entry.hash
    if not lines:
        problem = f"{path.name} is empty"
    return JournalReading(path, tuple(entries), head, problem, torn)


def _link_problem(name: str, number: int, line: bytes, entry: Entry, before: Entry | None, head: str) -> str | None:
    """Return what is wrong between this line and the one before, or None."""
    expected = (before.n if before else 0) + 1
    if entry.n != expected:
        gone = f"entry {expected} is" if entry.n == expected + 1 else f"entries {expected} to {entry.n - 1} are"
        message = f"{gone} missing before it" if entry.n > expected else f"entry {expected} was expected"
        return f"{name} line {number} is entry {entry.n}: {message}"
    if entry.hash != _digest(entry) or line != _line(entry):
        return f"{name} line {number} (entry {entry.n}, {entry.event}) was altered: its hash does not match its content"
    if entry.previous != head:
        return f"{name} line {number - 1} was altered or replaced: entry {entry.n} is chained to another predecessor"
    return None


def _content(entry: Entry) -> dict[str, Json]:
    return {
        "n": entry.n,
        "at": entry.at.isoformat(timespec="microseconds"),
        "monotonic_seconds": entry.monotonic_seconds,
        "step": entry.step,
        "event": entry.event.value,
        "facts": dict(entry.facts),
        "previous": entry.previous,
    }


def _canonical(content: Mapping[str, Json]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _digest(entry: Entry) -> str:
    return hashlib.sha256(_canonical(_content(entry))).hexdigest()


def _line(entry: Entry) -> bytes:
    return _canonical({**_content(entry), "hash": entry.hash}) + b"\n"


def _parse(line: bytes, where: str) -> Entry:
    return Facts.of(json.loads(line), where).read(Entry)


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO]:
    try:
        with path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file
    except OSError as problem:
        # A disk that is full does not say which file it was.
        problem.filename = problem.filename or str(path)
        raise


def _cut_torn_tail(file: BinaryIO) -> str:
    """Cut an incomplete last line off and return its text; empty when the file ends with a whole line."""
    file.seek(0)
    content = file.read()
    whole = content.rfind(b"\n") + 1
    if whole == len(content):
        return ""
    file.truncate(whole)
    return content[whole:].decode(errors="replace")


def _last(path: Path, file: BinaryIO) -> tuple[int, str]:
    """Return number and hash of the last entry: 0 and `GENESIS` of an empty journal."""
    file.seek(0)
    lines = file.read().splitlines(keepends=True)
    if not lines:
        return 0, GENESIS
    try:
        entry = _parse(lines[-1], f"{path.name} line {len(lines)}")
    except (FactError, ValueError) as unreadable:
        raise JournalBroken(
            f"{path}: line {len(lines)} is not a journal entry, nothing can be chained to it: {unreadable}"
        ) from None
    return entry.n, entry.hash
