"""What a copy lacks and the flow says so, held against what was read: only what is as it says explains anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mirror.model.absences import Absence, AbsenceKind
from mirror.proof.log_reader import Filtered, LogRange


@dataclass(frozen=True, slots=True)
class ParkedContent:
    """What lies in the topic of parked records of one record: the digest of its content, and its time in ms."""

    digest: bytes
    timestamp_ms: int


def held(
    absences: Sequence[Absence], parked: Mapping[int, ParkedContent], wanted: LogRange, path: Path
) -> tuple[Absence, ...]:
    """Return the absences that hold for a source range, each with how many records the source has there.

    A record that is said to be parked must lie there, with its content: otherwise it is as good as lost.

    Parameters
    ----------
    parked
        by upstream offset.
    path
        the file that the source range was read into.
    """
    if not absences:
        return ()
    table = in_range(pq.read_table(path, columns=["offset", "digest", "timestamp_ms"]), wanted)
    offsets = table["offset"].to_numpy()
    found = []
    for absence in absences:
        first, end = np.searchsorted(offsets, [absence.start, absence.end])
        rows = zip(*(table[name].slice(first, end - first).to_pylist() for name in table.column_names), strict=True)
        if absence.kind is AbsenceKind.PARKED and not all(
            parked.get(offset) == ParkedContent(digest, timestamp_ms) for offset, digest, timestamp_ms in rows
        ):
            continue
        if end > first:
            found.append(replace(absence, records=int(end - first)))
    return tuple(found)


def filtered(found: Filtered) -> tuple[Absence, ...]:
    """Return what transforms left out, as one absence; none if there is nothing."""
    if not found.records:
        return ()
    reason = "left out by the transforms of the flow"
    return (Absence(AbsenceKind.FILTERED, found.first, found.last + 1, reason, None, found.records),)


def in_range(table: pa.Table, wanted: LogRange) -> pa.Table:
    """Return the rows whose offsets lie in the range."""
    offsets = table["offset"]
    return table.filter(pc.and_(pc.greater_equal(offsets, wanted.start), pc.less(offsets, wanted.end)))


def without(table: pa.Table, absent: Sequence[Absence]) -> pa.Table:
    """Return the rows, in order of their offsets, that are not said to be absent from the copy."""
    if not absent:
        return table
    offsets = table["offset"].to_numpy()
    keeps = np.ones(len(offsets), bool)
    for each in absent:
        first, end = np.searchsorted(offsets, [each.start, each.end])
        keeps[first:end] = False
    return table.filter(pa.array(keeps))
