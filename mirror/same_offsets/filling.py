"""How the offsets are filled for which the source has no record: pure decisions, one append at a time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from mirror.kafka.topic_ids import differ
from mirror.model.position import Position

FILLERS_A_BATCH = 50_000
"""So many records are one batch. A broker makes an object of each while it validates a batch: one of 1,000,000 has
ended a broker with a small heap (OutOfMemoryError)."""
MARKERS_A_REQUEST = 500
MARKERS_AT_ONCE = 2_000
"""Of all copies that one request is for."""
MANY = 8
"""A hole of fewer offsets is filled by one empty transaction after the other. Many markers take an epoch of the
transactional id, which a question to its coordinator raises, and one more question than these."""


class Refusal(StrEnum):
    """Why a partition cannot have the source's offsets."""

    NOT_EMPTY = "not empty"
    AHEAD = "ahead"
    OVER_LIMIT = "over the limit"


@dataclass(frozen=True, slots=True)
class Refused:
    """A partition cannot have the source's offsets, and what somebody can do about it."""

    refusal: Refusal
    reason: str


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where a log begins and ends."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Copy:
    """What the target has of a partition.

    Attributes
    ----------
    is_compacted
        whether it is cleaned by key: records without one are refused there.
    marker_epoch
        the epoch of the last marker, or batch, of the producer of markers; -1: there is none.
    may_get_markers
        whether markers may still arrive that an engine has sent and got no answer to.
    """

    bounds: Bounds
    is_compacted: bool = False
    marker_epoch: int = -1
    may_get_markers: bool = False


@dataclass(frozen=True, slots=True)
class Ahead:
    """What the source has next, from where the copy ends on: ``count`` records in a row that begin at ``offset``."""

    offset: int
    count: int


@dataclass(frozen=True, slots=True)
class MarkerProducer:
    """As whom markers are written: in which epoch of the flow's transactional id, and whether many at once.

    ``writes_many``: the cluster grants ALTER or CLUSTER_ACTION on itself.
    """

    epoch: int
    writes_many: bool


@dataclass(frozen=True, slots=True)
class Padding:
    """Append a batch of empty records, which are removed once the log has reached the source's start."""

    count: int


@dataclass(frozen=True, slots=True)
class Tombstones:
    """Append a batch of records of the one reserved key, without value: the cleaner removes them."""

    count: int


@dataclass(frozen=True, slots=True)
class OneMarker:
    """Append one marker by an empty transaction: the coordinator writes it once, whoever may have asked for it."""


@dataclass(frozen=True, slots=True)
class ManyMarkers:
    """Append markers of the epoch before, all in one request.

    What is sent twice is appended twice, until a marker of this epoch is there: :class:`OneMarker` closes a hole.
    """

    count: int


@dataclass(frozen=True, slots=True)
class RaiseEpoch:
    """Take the transactional id again: behind a marker of its epoch those of the epoch before are refused."""


@dataclass(frozen=True, slots=True)
class DeleteBefore:
    """Remove what lies before ``offset``, so that the log begins there."""

    offset: int


@dataclass(frozen=True, slots=True)
class Records:
    """Append the next ``count`` records of the source."""

    count: int


Step: TypeAlias = Padding | Tombstones | OneMarker | ManyMarkers | RaiseEpoch | DeleteBefore | Records


def origin(
    source: Bounds, before: Position | None, topic_id: str, *, from_latest: bool, is_two_way: bool
) -> tuple[int, bool]:
    """Return where a copy begins, and whether the source has nothing before that.

    `auto.offset.reset = latest` speaks of partitions that were never copied: a copy that is made anew has all that the
    source has, or all from where the former one began.

    Parameters
    ----------
    before
        how far the former copy got; None: there was none.
    topic_id
        the id of the source topic: another one than was copied is copied whole.
    is_two_way
        whether the flow back copies it, so that it comes home to a topic that is made anew.
    """
    if not from_latest:
        return source.start, True
    if before is None:
        return source.end, False
    if before.complete or is_two_way or differ(before.topic_id, topic_id):
        return source.start, True
    return max(before.origin, source.start), before.origin <= source.start


def may_begin(source: Bounds, copy: Bounds, pad_limit: int) -> Refused | None:
    """Say why a copy that the flow has not begun yet cannot have the source's offsets, None if it can.

    It can if nothing is in it and it does not end behind the source's start.
    """
    if copy.end > copy.start:
        return Refused(
            Refusal.NOT_EMPTY,
            f"the copy holds the offsets {copy.start} to {copy.end}, and nothing says that they are the source's: "
            "delete the topic there to have it made anew, or leave it out of mirror.offsets.topics",
        )
    if copy.end > source.start:
        return Refused(
            Refusal.AHEAD,
            f"the copy is empty and goes on with offset {copy.end}, and the source begins with {source.start}: delete "
            "the topic there to have it made anew",
        )
    to_pad = source.start - copy.end
    if to_pad > pad_limit:
        return Refused(
            Refusal.OVER_LIMIT,
            f"{to_pad} offsets are to be padded before the source's start, and mirror.offsets.pad.limit is {pad_limit}",
        )
    return None


def may_be_original(source: str) -> str:
    """Return what is to be thought of before a topic is deleted that has the name of the one on the cluster ``source``.

    Under unchanged names it may be what applications write to.
    """
    return f"it may be the original: delete it only if all that is to be kept is on {source}"


def with_caution(reason: str, copy: Bounds, source: str, *, keeps_name: bool) -> str:
    """Return why a copy cannot have the offsets, with what is to be thought of before it is deleted, if that holds."""
    return f"{reason}; {may_be_original(source)}" if keeps_name and copy.end > copy.start else reason


def next_step(begins_at: int, copy: Copy, ahead: Ahead | None, markers: MarkerProducer) -> Step | None:
    """Return what is to be appended to a copy next, or removed from it; None: nothing now.

    The head is padded only while the copy has no record of the source: readers see padding until it is removed. Any
    other hole, also one that retention has made, is filled with what they do not see. A compacted copy gets tombstones
    throughout: brokers remove nothing there but what the cleaner does.

    Many markers leave the last offset of a hole to an empty transaction. What an engine had sent of them when it was
    killed still fits into the hole then, with one marker of an empty transaction, behind which the rest is refused.

    Parameters
    ----------
    begins_at
        the source's start when the copy began, which is on record.
    ahead
        the first records of the source at or behind the copy's end; None: none yet.
    """
    end = copy.bounds.end
    if end < begins_at:
        count = min(begins_at - end, FILLERS_A_BATCH)
        return Tombstones(count) if copy.is_compacted else Padding(count)
    if copy.bounds.start < begins_at and not copy.is_compacted:
        return DeleteBefore(begins_at)
    if ahead is None:
        return None
    if ahead.offset == end:
        return Records(ahead.count)
    missing = ahead.offset - end
    if copy.is_compacted:
        return Tombstones(min(missing, FILLERS_A_BATCH))
    if missing < MANY or not markers.writes_many or copy.may_get_markers:
        return OneMarker()
    # The epoch before must be one that there is, and that the partition still takes.
    if markers.epoch < 1 or copy.marker_epoch >= markers.epoch:
        return RaiseEpoch()
    return ManyMarkers(min(missing - 1, MARKERS_A_REQUEST))
