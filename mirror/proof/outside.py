"""What lies in a copy outside of the range that is compared: in front of it, and behind it up to the end of the log.

Only headers are looked at: whose batches these are follows from their producer ids. Markers are no records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from mirror.kafka.batch import Header
from mirror.kafka.channel import Channel
from mirror.kafka.failures import error_message
from mirror.kafka.log import read_stretches
from mirror.model.progress import Watch, nobody
from mirror.model.stretches import Stretch
from mirror.proof.log_reader import LogRange
from mirror.proof.spark_progress import in_tasks

# So many partitions at most are looked at by one task: connecting does not matter then.
_MOST_A_TASK = 50


@dataclass(frozen=True, slots=True)
class Seen:
    """How many records were seen, and the offsets between which they lie, ``end`` not included."""

    records: int = 0
    start: int = -1
    end: int = -1

    def also(self, header: Header, within: Stretch) -> Seen:
        """Return the same with the records of a batch, as far as they lie in a stretch."""
        start, end = max(header.base_offset, within[0]), min(header.next_offset, within[1])
        # Of a batch across the edge it is not known which of its offsets have records.
        count = min(header.record_count, end - start)
        if count <= 0:
            return self
        return Seen(self.records + count, start if self.records == 0 else self.start, end)


@dataclass(frozen=True, slots=True)
class Outside:
    """Where to look in a copy: ``wanted`` is its log, of which only the stretches are looked at.

    ``writers`` are the producer ids of the flow.
    """

    wanted: LogRange
    before: Stretch
    behind: Stretch
    writers: frozenset[int]


@dataclass(frozen=True, slots=True)
class Found:
    """What was found outside: records of the flow, those of them that came late, and records of others.

    Attributes
    ----------
    own_before, foreign_before
        in front of what is compared.
    own_behind, late_behind, foreign_behind
        behind it; late are those of an epoch of the flow's producer that another had followed already.
    problem
        why not all of it was seen.
    """

    own_before: Seen = Seen()
    foreign_before: Seen = Seen()
    own_behind: Seen = Seen()
    late_behind: Seen = Seen()
    foreign_behind: Seen = Seen()
    problem: str | None = None


def look_outside(spark: SparkSession, places: Sequence[Outside], watch: Watch = nobody) -> list[Found]:
    """Look at all places, in Spark tasks, and return what was found at each."""
    # Mostly there is nothing.
    wanted = [place for place in places if any(start < end for start, end in (place.before, place.behind))]
    shares = [wanted[first : first + _MOST_A_TASK] for first in range(0, len(wanted), _MOST_A_TASK)]
    found = (each for share in in_tasks(spark, shares, _look_at, "looking outside", watch) for each in share)
    seen = dict(zip(map(id, wanted), found, strict=True))
    return [seen.get(id(place), Found()) for place in places]


def _look_at(places: Sequence[Outside]) -> list[Found]:
    """Look at some places, one after the other; runs inside a Spark task."""
    channels: dict[str, Channel] = {}
    try:
        return [_look(place, channels) for place in places]
    finally:
        for channel in channels.values():
            channel.close()


def _look(place: Outside, channels: dict[str, Channel]) -> Found:
    wanted = place.wanted
    found = Found()
    try:
        if wanted.cluster not in channels:
            channels[wanted.cluster] = Channel(wanted.cluster, wanted.client)
        for stretch, judge in ((place.before, in_front), (place.behind, behind)):
            with closing(
                read_stretches(
                    channels[wanted.cluster], wanted.partition, [stretch], read_committed=wanted.read_committed
                )
            ) as batches:
                found = judge(found, (header for _, header in batches), stretch, place.writers)
    except Exception as stopped:  # noqa: BLE001  # whatever it is, it is said; the other partitions are still looked at
        return replace(found, problem=error_message(stopped))
    return found


def late_of(looked_at: Iterable[Found]) -> Seen:
    """Return what is of the flow among what was found where, by the offset map, none of its records is."""
    seen = [each for found in looked_at for each in (found.own_behind, found.late_behind) if each.records]
    if not seen:
        return Seen()
    return Seen(sum(each.records for each in seen), min(each.start for each in seen), max(each.end for each in seen))


def in_front(found: Found, headers: Iterable[Header], within: Stretch, writers: frozenset[int]) -> Found:
    """Return what was found with the batches in front of what is compared."""
    own, others = found.own_before, found.foreign_before
    for header in headers:
        if header.producer_id in writers:
            own = own.also(header, within)
        else:
            others = others.also(header, within)
    return replace(found, own_before=own, foreign_before=others)


def behind(found: Found, headers: Iterable[Header], within: Stretch, writers: frozenset[int]) -> Found:
    """Return what was found with the batches behind what is compared."""
    own, late, others = found.own_behind, found.late_behind, found.foreign_behind
    newest: dict[int, int] = {}
    for header in headers:
        if header.producer_id not in writers:
            others = others.also(header, within)
            continue
        epoch = newest[header.producer_id] = max(newest.get(header.producer_id, -1), header.producer_epoch)
        if header.producer_epoch < epoch:
            late = late.also(header, within)
        else:
            own = own.also(header, within)
    return replace(found, own_behind=own, late_behind=late, foreign_behind=others)
