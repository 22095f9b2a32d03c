"""Who has written to a cluster lately, and for how long such a writer must be silent before it counts as stopped.

That no log grows for some seconds says nothing of a producer that sends every half minute. The leaders of partitions
tell which producers with an id have written, and when last (KIP-664); the ends of the logs tell at which intervals,
also of clients without an id. A writer counts as stopped when it is silent for twice the longest of its intervals.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from mirror.control.gaps import iso_time
from mirror.kafka.channel import LATEST, Channel
from mirror.kafka.log import LogReader
from mirror.kafka.partition_state import active_producers, transactional_ids
from mirror.model.counts import counted
from mirror.model.partition import TopicPartition
from mirror.recovery.late_writers import NO_ID
from mirror.same_offsets.chain import is_markers_transactional_id

# Whoever has last written longer ago has stopped, or is as good as unknown.
RECENT_MS = 300_000
_LOOK_BACK = 200
_LOOK_BACK_BYTES = 4_000_000
# Of less than that, one burst, no interval can be known.
_LEAST_SPAN_MS = 3_000


@dataclass(frozen=True, slots=True)
class RecentWriter:
    """A producer that has written to a partition lately.

    Attributes
    ----------
    producer_id, epoch
        -1 for clients without an id, which are not told apart.
    last_ms
        the timestamp of its last batch, in ms since the epoch.
    interval_ms
        the longest time between two of its last batches; None where too few are known.
    """

    partition: TopicPartition
    producer_id: int
    epoch: int
    last_ms: int
    interval_ms: int | None = None
    transactional_id: str | None = None

    def silence(self, least: float, most: float) -> float:
        """Return for how many seconds it must be silent to count as stopped, of at most ``most``."""
        return most if self.interval_ms is None else min(most, max(least, 2 * self.interval_ms / 1000))

    def is_doubtful(self, most: float) -> bool:
        """Tell whether it may write on all the same when it has been silent for ``most`` seconds."""
        return self.interval_ms is None or 2 * self.interval_ms > 1000 * most

    def __str__(self) -> str:
        """Return it for people."""
        name = f", transactional id {self.transactional_id}" if self.transactional_id else ""
        who = (
            f"producer {self.producer_id} (epoch {self.epoch}{name})"
            if self.producer_id != NO_ID
            else "clients without a producer id"
        )
        every = (
            "at intervals not known" if self.interval_ms is None else f"every {self.interval_ms / 1000:.1f} s or less"
        )
        return f"{self.partition}: {who}, last at {iso_time(self.last_ms)}, {every}"


@dataclass(frozen=True, slots=True)
class Writers:
    """Who has written lately.

    Attributes
    ----------
    recent
        who has written last first.
    unknown
        the partitions of which no leader tells, or not of all, and why.
    cut_short
        the partitions of which only the last batches of the time were read, and the offsets that were not: clients
        without an id that write rarely, or before a burst, may be hidden there behind those that write often.
    """

    recent: tuple[RecentWriter, ...] = ()
    unknown: Mapping[TopicPartition, str] = field(default_factory=dict)
    cut_short: Mapping[TopicPartition, tuple[range, ...]] = field(default_factory=dict)

    def messages(self, partitions: Collection[TopicPartition] | None = None) -> list[str]:
        """Return who has written, for people, and of how much that is not known; None: to all partitions."""
        return [
            *(str(each) for each in self.recent if partitions is None or each.partition in partitions),
            *self.unread(partitions),
        ]

    def unread(self, partitions: Collection[TopicPartition] | None = None) -> list[str]:
        """Return, for people, how much was not read in which clients without an id may have written."""
        return [
            f"{each}: {unread_words(sum(map(len, offsets)))}"
            for each, offsets in sorted(self.cut_short.items(), key=lambda cut: cut[0])
            if partitions is None or each in partitions
        ]


def unread_words(count: int) -> str:
    """Return, for people, that only a sample of what was written was read."""
    return (
        f"and {counted(count, 'more offset')} that {'was' if count == 1 else 'were'} not read for clients without an id"
    )


def find_writers(
    channel: Channel, partitions: Collection[TopicPartition], *, own: Collection[int], since_ms: int
) -> Writers:
    """Ask who has written to partitions since then, in ms since the epoch; ``own`` are the producer ids of mirrors.

    Raises
    ------
    KafkaProblem
        if the cluster does not answer.
    """
    producers = active_producers(channel, partitions)
    found: dict[tuple[TopicPartition, int], RecentWriter] = {
        (each, one.producer_id): RecentWriter(each, one.producer_id, one.epoch, one.last_timestamp_ms)
        for each, known in producers.items()
        for one in known
        if one.last_timestamp_ms >= since_ms and one.producer_id not in own
    }
    starts = channel.find_offsets(list(partitions), since_ms)
    ends = channel.find_offsets(list(partitions), LATEST)
    cut_short: dict[TopicPartition, tuple[range, ...]] = {}
    seen: set[int] = set()
    for each, start in starts.items():
        # No offset: nothing is there that is as young as that.
        if start < 0 or each not in ends or start >= ends[each]:
            continue
        batches, unread = _times(channel, each, start, ends[each])
        if unread:
            cut_short[each] = unread
        for producer_id, times in batches.items():
            if producer_id in own or max(times) < since_ms:
                continue
            seen.add(producer_id)
            known = found.get((each, producer_id)) or RecentWriter(each, producer_id, NO_ID, max(times))
            last_ms = max(known.last_ms, *times)
            found[each, producer_id] = replace(known, last_ms=last_ms, interval_ms=longest_interval(times))
    names = transactional_ids(channel, {one for _, one in found if one != NO_ID})
    # A mirror's producer of markers has no producer id on record; leaders tell of it as of one that writes records.
    markers = {each for each, name in names.items() if is_markers_transactional_id(name)} - seen
    writers = (
        replace(each, transactional_id=names.get(each.producer_id))
        for each in found.values()
        if each.producer_id not in markers
    )
    newest = sorted(writers, key=lambda each: (-each.last_ms, each.partition, each.producer_id))
    unknown = {each: str(why) for each, why in (ends.problems | starts.problems | producers.problems).items()}
    return Writers(tuple(newest), unknown, cut_short)


def longest_interval(times: Iterable[int]) -> int | None:
    """Return the longest time between two batches, by their timestamps in ms; None: of one burst, or one batch."""
    ordered = sorted(times)
    if len(ordered) < 2 or ordered[-1] - ordered[0] < _LEAST_SPAN_MS:
        return None
    return max(later - earlier for earlier, later in pairwise(ordered))


def _times(
    channel: Channel, partition: TopicPartition, start: int, end: int
) -> tuple[dict[int, list[int]], tuple[range, ...]]:
    """Return, by producer id, the timestamps of the last batches between two offsets, and which were not read."""
    first = max(start, end - _LOOK_BACK)
    reader = LogReader(channel, partition, first)
    times: dict[int, list[int]] = {}
    read = 0
    while reader.position < end and read < _LOOK_BACK_BYTES:
        before = reader.position
        for content, header in reader.fetch(wait_ms=0):
            read += len(content)
            times.setdefault(header.producer_id, []).append(header.max_timestamp)
        if reader.position == before:
            break
    return times, tuple(each for each in (range(start, first), range(reader.position, end)) if each)


def open_transactions(channel: Channel, partitions: Collection[TopicPartition]) -> tuple[str, ...]:
    """Return which transactions are open in partitions of a cluster, and of which that is not told, for people."""
    found = active_producers(channel, partitions)
    return (
        *(
            f"{each}: producer id {producer.producer_id} has a transaction open from {producer.open_since} on"
            for each, producers in sorted(found.items())
            for producer in producers
            if producer.open_since is not None
        ),
        *(f"{each}: its leader does not list open transactions: {why}" for each, why in sorted(found.problems.items())),
    )
