"""Where a history is kept: a folder of Parquet files, written whole, and removed when they are too old or too many.

Whoever records, the **writer**, has a file of each table open: its rows are kept in memory, and every `WRITE_SECONDS`
the whole of it is written under a temporary name and renamed. So whatever is killed loses no more than that, and leaves
no half of a file under its name. Such a pair is closed after an hour, or when it is large enough, and the next one
begins. Several writers may share a folder.

Invariants:

(a) A history is written again and again until its file is closed: a Parquet file cannot be appended to, and files of
    a minute would be thousands. Rows of a partition stand together, so a sample takes a few bytes. It is the last to
    know of trouble and never the cause of any: a folder that is full or gone is a note of the flow, and rows wait in
    memory within bounds.
"""

from __future__ import annotations

import re
import tempfile
import threading
import time
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from mirror.history.kept import Bounds, Kept
from mirror.history.samples import Sample
from mirror.parts import write_table

WRITE_SECONDS: Final = 60.0
_CLOSE_SECONDS = 3600.0
_MOST_ROWS = 500_000
# No pair takes more than that share of what the folder may hold, so that removing the oldest leaves most of it.
_PAIR_SHARE = 8
# What a writer that was killed has left under a temporary name; no writing lasts so long.
_ABANDONED_SECONDS = 3600.0

#: Which table a file is of, when its first sample was, and who has written it.
FILE_NAME: Final = re.compile(r"(partitions|flows)-(\d{13})-([0-9a-f]{8})\.parquet")
_UNFINISHED = re.compile(rf"\.{FILE_NAME.pattern}\.unfinished")

# Neighbours of a sorted column differ little: offsets take two bytes a sample instead of eight.
_ENCODINGS = {
    "at_ms": "DELTA_BINARY_PACKED",
    "position": "DELTA_BINARY_PACKED",
    "source_end": "DELTA_BINARY_PACKED",
    "copy_position": "DELTA_BINARY_PACKED",
}


@dataclass(slots=True)
class _Pair:
    """The two files that are being written: their rows so far."""

    began_ms: int
    flows: list[pa.Table] = field(default_factory=list)
    partitions: list[pa.Table] = field(default_factory=list)
    size: int = 0

    @property
    def rows(self) -> int:
        return sum(table.num_rows for table in self.partitions)


def check_writable(directory: Path) -> None:
    """Make a folder for a history, if there is none, and try to write there.

    Raises
    ------
    OSError
        if that cannot be.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=directory):
        pass


class HistoryWriter:
    """Takes samples in and writes them; for several threads at once. Nothing it meets on the disk is raised."""

    def __init__(self, directory: Path, bounds: Bounds) -> None:
        """Write to ``directory``, which is made when there is something to write."""
        self._directory = directory
        self._bounds = bounds
        self._writer = uuid.uuid4().hex[:8]
        self._pair: _Pair | None = None
        self._written_ms = 0
        self._kept = Kept(str(directory))
        self._lock = threading.Lock()

    @property
    def kept(self) -> Kept:
        """What was done so far."""
        return self._kept

    def take(self, sample: Sample) -> tuple[str, ...]:
        """Take a sample in, and write if it is time to; return what the log is to say of it."""
        with self._lock:
            messages: tuple[str, ...] = ()
            if self._pair is not None and sample.at_ms - self._pair.began_ms >= 1000 * _CLOSE_SECONDS:
                messages += self._close(sample.at_ms)
            if self._pair is None:
                self._pair = _Pair(sample.at_ms)
            rows = sample.partition_rows()
            self._pair.flows.append(sample.flow_row())
            self._pair.partitions.append(rows)
            self._kept = replace(self._kept, samples=self._kept.samples + 1, rows=self._kept.rows + rows.num_rows)
            if sample.at_ms - self._written_ms >= 1000 * WRITE_SECONDS:
                messages += self._write(sample.at_ms)
            is_full = self._pair.rows >= _MOST_ROWS or self._pair.size >= self._bounds.bytes / _PAIR_SHARE
            return messages + (self._close(sample.at_ms) if is_full else ())

    def close(self) -> tuple[str, ...]:
        """Write what is left; return what the log is to say."""
        with self._lock:
            return self._close(time.time_ns() // 1_000_000)

    def _close(self, at_ms: int) -> tuple[str, ...]:
        if self._pair is None:
            return ()
        problem = self._write(at_ms)
        if self._kept.trouble is not None:
            self._kept = replace(self._kept, lost_rows=self._kept.lost_rows + self._pair.rows)
        self._pair = None
        return problem

    def _write(self, at_ms: int) -> tuple[str, ...]:
        """Write the pair as it is now, and keep the bounds."""
        assert self._pair is not None
        before, self._written_ms = self._kept.trouble, at_ms
        pair = self._pair
        try:
            self._pair.size = sum(
                self._write_one(name, pa.concat_tables(tables), pair.began_ms)
                for name, tables in (("partitions", pair.partitions), ("flows", pair.flows))
            )
            removed = keep_bounds(self._directory, self._bounds, at_ms, self._names(pair.began_ms))
            there = list(files(self._directory))
        except OSError as problem:
            self._kept = replace(self._kept, trouble=problem.strerror or str(problem))
            return self._kept.words if before != self._kept.trouble else ()
        self._kept = replace(
            self._kept,
            files=len(there),
            bytes=sum(each.size for each in there),
            removed=self._kept.removed + len(removed),
            trouble=None,
        )
        messages = [f"{self._directory} is written to again"] if before is not None else []
        if removed:
            size, last = sum(each.size for each in removed) / 1e6, removed[-1].path.name
            messages.append(
                f"{self._directory}: {len(removed)} files ({size:,.1f} MB) removed, up to {last}: "
                "older or more than is to be kept"
            )
        return tuple(messages)

    def _names(self, began_ms: int) -> frozenset[str]:
        return frozenset(f"{table}-{began_ms:013d}-{self._writer}.parquet" for table in ("partitions", "flows"))

    def _write_one(self, name: str, table: pa.Table, began_ms: int) -> int:
        path = self._directory / f"{name}-{began_ms:013d}-{self._writer}.parquet"
        how = {} if name == "flows" else {"column_encoding": _ENCODINGS, "use_dictionary": ["flow", "topic"]}
        write_table(table if name == "flows" else _by_partition(table), path, compression="zstd", **how)
        return path.stat().st_size


def _by_partition(table: pa.Table) -> pa.Table:
    """Return rows of partitions with those of each partition together, in the order of time."""
    whole = table.unify_dictionaries().combine_chunks()
    names = [whole.column(name).chunk(0).indices.to_numpy() for name in ("topic", "flow")] if len(whole) else []
    numbers = [whole.column(name).to_numpy() for name in ("at_ms", "partition")]
    return whole.take(np.lexsort([*numbers, *names]))


@dataclass(frozen=True, slots=True, order=True)
class HistoryFile:
    """A file of a history, ordered by when its first sample was."""

    began_ms: int
    path: Path
    table: str
    size: int
    written_ms: int


def files(directory: Path) -> Iterable[HistoryFile]:
    """Yield the files of a history that are there now, in the order of their first samples; others are passed over.

    Raises
    ------
    OSError
        if the folder cannot be read.
    """
    found = []
    for path in directory.iterdir():
        if (name := FILE_NAME.fullmatch(path.name)) is not None:
            # Another writer of the folder may remove it now.
            with suppress(FileNotFoundError):
                status = path.stat()
                found.append(HistoryFile(int(name[2]), path, name[1], status.st_size, status.st_mtime_ns // 1_000_000))
    return sorted(found)


def keep_bounds(
    directory: Path, bounds: Bounds, at_ms: int, open_now: frozenset[str] = frozenset()
) -> list[HistoryFile]:
    """Remove what is older than is to be kept, and then the oldest beyond the size; return what was removed.

    ``open_now`` are names of files that are written to: those stay.
    """
    there = [each for each in files(directory) if each.path.name not in open_now]
    left = sum(each.size for each in files(directory))
    removed = []
    for each in there:
        if at_ms - each.written_ms > 1000 * bounds.seconds or left > bounds.bytes:
            each.path.unlink(missing_ok=True)
            removed.append(each)
            left -= each.size
    for path in directory.iterdir():
        if _UNFINISHED.fullmatch(path.name):
            with suppress(FileNotFoundError):
                if at_ms - path.stat().st_mtime * 1000 > 1000 * _ABANDONED_SECONDS:
                    path.unlink()
    return removed
