"""Positions on a topic that two clusters share under one name and copy to one another.

Each log holds the cluster's own records, and copies of the other's among them, in another order on either side. A
reader at a position has read some of both. On the other cluster it goes on where everything before is read, so that it
misses nothing; what of it was read behind that place it meets again, which two maps can count.

Invariants:

(a) On a shared topic the lower of two positions is taken, unless nothing but copies that are read lies between.
(b) In a stretch known by offset syncs only, the next copy is not known: on a shared topic a group goes on behind what
    it has certainly read there, or at the stretch's beginning.
(c) Downstream a position passes a hole of the source, back upstream it does not (`mirror.model.offset_map`). On a
    shared topic most holes are copies of the other side's records, so there both ways lead to the next record.
(d) With the source's offsets both logs are one: whoever has read the one up to an offset has read all of the other
    before it. What fills a hole there (the marker of a transaction) is nobody's record.
"""

from __future__ import annotations

from mirror.model.offset_map import OffsetMap
from mirror.model.translation import Bounded, Exact, TooOld, Translation


def translate_shared(forward: OffsetMap, opposite: OffsetMap, position: int) -> Translation:
    """Return where a reader at ``position`` on the source goes on, on the target.

    Parameters
    ----------
    forward
        where the source's own records lie on the target.
    opposite
        where the target's own records lie on the source.
    """
    ahead = forward.translate(position)
    if not isinstance(ahead, Exact | Bounded) or (forward.same_offsets and position >= forward.origin):
        return ahead
    # Copies of the source's records from here on are not read.
    own = ahead.downstream
    again = ahead.behind_records if isinstance(ahead, Bounded) else 0
    # Of the target's records those from here on are not read.
    theirs, theirs_again = _unread(opposite, position)
    again += theirs_again
    if forward.runs.behind(position) is None and not _is_sparse(forward, position):
        # There is no such copy, but there may be some that were read behind what was not.
        own = max(theirs, forward.downstream_next)
    if own <= theirs:
        return _bounded(own, again + opposite.runs.records_between(own, theirs))
    read = forward.runs.copies_between(theirs, own)
    # Nothing but copies that are read lies between: then nothing is missed by passing them.
    return _bounded(own, again) if read == own - theirs else _bounded(theirs, again + read)


def _unread(opposite: OffsetMap, position: int) -> tuple[int, int]:
    """Return from where on the target's own records are not read, at least, and how many behind it may be."""
    # What lies behind the last copy are records of the source itself.
    position = min(position, opposite.downstream_next)
    back = opposite.translate_back(position)
    if isinstance(back, Bounded):
        return back.downstream, back.behind_records
    sparse_map, at = opposite.sparse_map_behind(position), opposite.source_of(position)
    if sparse_map is not None and at is None:
        # Which of its records comes next is not known, nor, before its first sync, how many were read.
        read = max(0, position - sparse_map.downstream_start)
        return (back.downstream, 0) if read and isinstance(back, Exact) else (sparse_map.start, read)
    if isinstance(back, TooOld) and opposite.is_pruned:
        # Of what was forgotten nobody knows how much was read.
        return opposite.origin, opposite.runs.records_between(opposite.origin, opposite.upstream_next)
    # Not behind the last that was read: what follows it are mostly copies of the source's records, and markers.
    if at is not None:
        return at, 0
    first = opposite.runs.first
    return (opposite.upstream_next if first is None else first.upstream), 0


def _is_sparse(known: OffsetMap, position: int) -> bool:
    return any(sparse_map.start <= position < sparse_map.end for sparse_map in known.sparse_maps)


def _bounded(position: int, behind_records: int) -> Translation:
    return Bounded(position, behind_records) if behind_records > 0 else Exact(position)
