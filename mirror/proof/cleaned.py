"""What the log cleaner explains of two logs of a compacted topic: records that one side has, and the other no more.

A cleaner removes a record only for a later one of its key, the oldest of a key first, and keeps the newest; but for a
tombstone, which may go when it is the newest, after everything older of its key. So what is left of a key is the end of
what was written of it, and of two logs that were cleaned at different times one has some more of the oldest records.
The cleaner therefore explains that a side lacks a record if that side

* has a later one of the key, which is known to be no stray, and has nothing of the key that is as old or older (the
  later one may lie behind the range: both logs go on while they are read);
* or has nothing of the key at all, and the newest that the other side has is a tombstone.

It does not explain a record whose place is taken by another one: that was altered. Nor one that the other side has at
another place: that was moved. Nor one without a key, nor one in front of where the log begins now.

Which of two records is the older one follows from the exact offset map. Where there is none nothing is explained.

Two things that a cleaner goes by are not seen, so that what it removed for them counts as a difference: records that
the flow leaves out of its source, or its transforms do; and keys that transforms make out of values. Nor is it any
cleaner's doing that a copy keeps what a tombstone deleted that went from the source before it was copied: the deletion
is lost, and shows as extra.

Invariants:

(a) A cleaner removes the oldest of a key first: so a side that lacks a record and still has an older one of its key
    has lost it, and where another record has its place it was altered. What would be a difference is read once more:
    a cleaner at work during a reading leaves what no log has ever held.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mirror.model.offset_map import Runs
from mirror.proof.declared_gaps import in_range
from mirror.proof.pairs import PartitionPair

Offsets: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

COLUMNS = ("offset", "timestamp_ms", "digest", "producer_id", "key", "is_tombstone")
"""What the law needs to know of a record."""

_NEVER = np.iinfo(np.int64).max
_NOWHERE = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Explained:
    """The offsets of the records that only one side has, and the cleaner of the other one explains.

    Attributes
    ----------
    originals
        in the source, upstream offsets: the cleaner of the target has removed the copies.
    copies
        in the copy, downstream offsets: the cleaner of the source has removed the originals.
    equal
        how many records both sides hold if all others are explained; None if some are not.
    """

    originals: Offsets
    copies: Offsets
    equal: int | None


def explain(pair: PartitionPair, original: pa.Table, copied: pa.Table) -> Explained:
    """Return what the cleaners of both sides explain.

    Parameters
    ----------
    pair
        whose offset map is known, and which of its sides are compacted; without what is said to be absent, a record of
        the source must be in the copy.
    original, copied
        all records of both ranges in order, with `COLUMNS`. Records behind them are for what they say of older ones of
        their keys.
    """
    compaction = pair.compaction
    if compaction is None or not pair.runs:
        raise ValueError(f"{pair.source.partition}: not compacted, or no offset map")
    later_keys = original["key"].filter(pc.greater_equal(original["offset"], pair.source.end))
    later = copied.filter(pc.greater_equal(copied["offset"], pair.target.end))
    later_copies = later.filter(pa.array(_written_by(later, pair.writers) | pair.is_shared))["key"]
    original, copied = in_range(original, pair.source), in_range(copied, pair.target)
    up_key, down_key, later_key, later_copy_key = _numbered(original["key"], copied["key"], later_keys, later_copies)
    up_content, down_content = _contents(original, copied)
    up, down = _offsets(original), _offsets(copied)
    keys = _Keys(
        1 + max((int(each.max()) for each in (up_key, down_key, later_key, later_copy_key) if len(each)), default=0)
    )

    place, is_placed = _places(pair.runs, up)
    # Copies from here on are later than the record; those before `place` are older.
    past = place + is_placed
    at = np.searchsorted(down, place)
    is_met = is_placed & (at < len(down))
    is_met[is_met] = down[at[is_met]] == place[is_met]
    is_ours = _written_by(copied, pair.writers)
    is_absent = _absent(pair, up)
    is_pair = is_met & ~is_absent
    is_pair[is_pair] = is_ours[at[is_pair]] & (up_content[is_pair] == down_content[at[is_pair]])
    is_paired, is_taken = np.zeros(len(down), bool), np.zeros(len(down), bool)
    is_paired[at[is_pair]] = True
    is_taken[at[is_met]] = True
    alone, copy_alone = ~is_pair & ~is_absent, ~is_paired & is_ours

    candidate = alone & ~is_met & (up_key >= 0) & (place >= pair.target.start)
    candidate &= ~np.isin(up_content, down_content[copy_alone])
    copy_candidate = copy_alone & ~is_taken & (down_key >= 0) & ~np.isin(down_content, up_content[alone])

    first_copy = keys.first(down_key, down)
    # What others wrote into the copy replaces there what is the same key, as it may.
    is_foreign = ~is_ours & pair.is_shared
    is_replaced = (
        (keys.last(up_key[is_pair], up[is_pair])[up_key] > up)
        | (keys.last(down_key[is_foreign], down[is_foreign])[up_key] >= past)
        | (keys.count(later_copy_key)[up_key] > 0)
    )
    is_deleted = keys.newest(up_key, original["is_tombstone"])[up_key] & (first_copy[up_key] == _NEVER)
    removed = candidate & ((is_replaced & (first_copy[up_key] >= past)) | is_deleted)

    first_original = keys.first(up_key, place)
    # The source has cleaned by the keys that it has, not by those that transforms make of them.
    is_oldest = (first_original[down_key] > down) | (pair.source.transform is not None)
    is_replaced = (keys.last(up_key, place)[down_key] > down) | (keys.count(later_key)[down_key] > 0)
    is_deleted = keys.newest(down_key, copied["is_tombstone"])[down_key] & (first_original[down_key] == _NEVER)
    copy_removed = copy_candidate & ((is_replaced & is_oldest) | is_deleted)

    removed &= compaction.target
    copy_removed &= compaction.source
    is_whole = bool(is_ours.all() and (removed == alone).all() and (copy_removed == copy_alone).all())
    return Explained(up[removed], down[copy_removed], int(is_pair.sum()) if is_whole else None)


class _Keys:
    """What there is of each key; keys are numbers, and -1 stands for none."""

    def __init__(self, count: int) -> None:
        # The last place is that of records without a key, of which nothing is known.
        self._places = count + 1

    def first(self, keys: Offsets, values: Offsets) -> Offsets:
        """Return the least value of each key."""
        found = np.full(self._places, _NEVER)
        np.minimum.at(found, keys, values)
        return found

    def last(self, keys: Offsets, values: Offsets) -> Offsets:
        """Return the greatest value of each key."""
        found = np.full(self._places, _NOWHERE)
        np.maximum.at(found, keys, values)
        return found

    def count(self, keys: Offsets) -> Offsets:
        """Return how many there are of each key."""
        return np.bincount(keys % self._places, minlength=self._places)

    def newest(self, keys: Offsets, values: pa.ChunkedArray) -> Flags:
        """Return the last value of each key."""
        found = np.zeros(self._places, bool)
        places = np.full(self._places, -1)
        np.maximum.at(places, keys, np.arange(len(keys)))
        is_known = places >= 0
        found[is_known] = np.asarray(values.to_numpy(), bool)[places[is_known]]
        return found


def _places(runs: Runs, upstream: Offsets) -> tuple[Offsets, Flags]:
    """Return where the copies of records are, and whether they were copied; else where that of the next one is."""
    starts, copies, lengths = np.array(list(runs), np.int64).reshape(-1, 3).T
    at = np.searchsorted(starts, upstream, "right") - 1
    behind = np.where(at < 0, 0, upstream - starts[at])
    is_placed = (at >= 0) & (behind < lengths[at])
    return copies[np.maximum(at, 0)] + np.minimum(behind, lengths[at]), is_placed


def _numbered(*columns: pa.ChunkedArray) -> list[Offsets]:
    """Return a number for each value, the same in all columns; -1 for none."""
    chunks = [pa.array([], pa.binary()), *(chunk for column in columns for chunk in column.chunks)]
    numbers = pa.concat_arrays(chunks).dictionary_encode().indices
    found: Offsets = numbers.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return np.split(found, np.cumsum([len(column) for column in columns])[:-1])


def _contents(*tables: pa.Table) -> list[Offsets]:
    """Return a number for each content and timestamp."""
    times: Any = np.concatenate([table["timestamp_ms"].to_numpy() for table in tables])
    distinct, numbers = np.unique(times, return_inverse=True)
    digests = np.concatenate(_numbered(*(table["digest"] for table in tables)))
    return np.split(digests * len(distinct) + numbers, [tables[0].num_rows])


def _offsets(table: pa.Table) -> Offsets:
    found: Offsets = table["offset"].to_numpy()
    return found


def _written_by(table: pa.Table, writers: frozenset[int]) -> Flags:
    if not writers:
        return np.ones(table.num_rows, bool)
    return np.isin(table["producer_id"].to_numpy(), list(writers))


def _absent(pair: PartitionPair, upstream: Offsets) -> Flags:
    found = np.zeros(len(upstream), bool)
    for start, end in pair.absent:
        first, last = np.searchsorted(upstream, [start, end])
        found[first:last] = True
    return found
