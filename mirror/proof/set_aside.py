"""Logs of a compacted topic that were read whole, without what the log cleaner explains."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mirror.proof.cleaned import COLUMNS, Offsets, explain
from mirror.proof.log_reader import LogOutcome
from mirror.proof.pairs import Cleaned, PartitionPair


@dataclass(frozen=True, slots=True)
class Remaining:
    """What is left to be compared of a pair.

    Attributes
    ----------
    pair
        with the number of records that were set aside.
    source, copy
        where the others are.
    equal
        how many records both sides hold if nothing is left that differs; else None.
    """

    pair: PartitionPair
    source: LogOutcome
    copy: LogOutcome
    equal: int | None


def set_aside(pair: PartitionPair, source: LogOutcome, copy: LogOutcome) -> Remaining:
    """Leave out of a pair, whose logs were read whole and with their keys, what the log cleaner explains."""
    found = explain(pair, *(pq.read_table(outcome.path, columns=list(COLUMNS)) for outcome in (source, copy)))
    pair = replace(pair, cleaned=Cleaned(source=len(found.copies), target=len(found.originals)))
    if found.equal is not None:
        return Remaining(pair, source, copy, found.equal)
    return Remaining(pair, _without(source, found.originals), _without(copy, found.copies), None)


def _without(outcome: LogOutcome, offsets: Offsets) -> LogOutcome:
    """Return what was read without the records at some offsets, in a file of its own."""
    if not len(offsets):
        return outcome
    path = _beside(outcome.path)
    table = pq.read_table(outcome.path, read_dictionary=["cluster", "topic", "producer"])
    is_left = pc.invert(pc.is_in(table["offset"], value_set=pa.array(offsets)))
    pq.write_table(table.filter(is_left), path)
    return replace(outcome, path=path)


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.stem}-left.parquet")
