"""Who still writes to a cluster that nobody should write to: two looks at its logs, and what differs.

Brokers tell of producers with an id: the id, its epoch, its last sequence, and the transactional id if it has one. Of
clients without idempotence they tell nothing, and of no producer its client id or address: those are in the brokers'
own logs of requests.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from mirror.config.settings import ClusterSettings
from mirror.control.gaps import iso_time
from mirror.kafka.channel import LATEST, Channel, View
from mirror.kafka.partition_state import ActiveProducer, active_producers, transactional_ids
from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict
from mirror.recovery.late_writers import LateWriter
from mirror.waiting import WaitTimeout, wait_until


@dataclass(frozen=True, slots=True)
class Look:
    """What the leaders of some partitions said at one time.

    Attributes
    ----------
    ends
        where the logs end.
    producers
        the producers with an id that they know.
    unknown
        the partitions of which one or the other is not reported, and why.
    earlier
        the producers that they knew right before they said where the logs end, where that was asked: who has written
        in between is in what the log has grown by at the next look, and is not news of it.
    """

    ends: Mapping[TopicPartition, int]
    producers: Mapping[TopicPartition, tuple[ActiveProducer, ...]] = field(default_factory=dict)
    unknown: Mapping[TopicPartition, str] = field(default_factory=dict)
    earlier: Mapping[TopicPartition, tuple[ActiveProducer, ...]] = field(default_factory=dict)

    def then(self, now: Look, unknown: Mapping[TopicPartition, str]) -> Look:
        """Return what is known at a later look: what that could not tell this one could; ``unknown`` is said of it."""
        earlier = {**self.earlier, **now.earlier}
        return Look({**self.ends, **now.ends}, {**self.producers, **now.producers}, unknown, earlier)

    def known(self, partition: TopicPartition) -> dict[int, ActiveProducer]:
        """Return, by id, the producers of which nothing is news that stands before the end of the log."""
        return {each.producer_id: each for each in self.earlier.get(partition, self.producers.get(partition, ()))}


@dataclass(frozen=True, slots=True)
class StillWritten:
    """A partition that was written to between two looks.

    Attributes
    ----------
    start, end
        where its log ended at the first look and at the second; -1 where the first could not tell.
    producers
        who has written meanwhile, with an id; none: a client without one, or a marker that ended a transaction.
    is_marker
        whether a transaction has ended there, which appends a marker and no record.
    """

    partition: TopicPartition
    start: int
    end: int
    producers: tuple[ActiveProducer, ...] = ()
    is_marker: bool = False

    def late_writers(self, cluster: str, names: Mapping[int, str]) -> tuple[LateWriter, ...]:
        """Return who it was; ``names`` has the transactional ids of producer ids."""
        where = cluster, self.partition, self.start, self.end
        return tuple(
            LateWriter(*where, each.producer_id, each.epoch, names.get(each.producer_id), each.last_timestamp_ms)
            for each in self.producers
        ) or (LateWriter(*where),)

    @property
    def newest_ms(self) -> float:
        """The timestamp of the last batch of a producer with an id; of clients without one it is not known: infinite.

        Where the first look could not tell the producers of a partition, all that its leader remembers are named.
        """
        return max((each.last_timestamp_ms for each in self.producers), default=math.inf)

    def as_json(self, cluster: str, names: Mapping[int, str], mirrors: Mapping[int, str]) -> dict[str, Any]:
        """Return it for programs; of producer ids ``names`` has transactional ids, ``mirrors`` the flows."""
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "from": self.start,
            "to": self.end,
            "end_of_a_transaction": self.is_marker,
            "producers": [
                writer.as_json() | {"last_sequence": each.last_sequence, "flow": mirrors.get(each.producer_id)}
                for writer, each in zip(self.late_writers(cluster, names), self.producers, strict=False)
            ],
        }

    def is_of(self, mirrors: Collection[int]) -> bool:
        """Whether nobody else has written there; who has no id is somebody else."""
        return bool(self.producers) and all(each.producer_id in mirrors for each in self.producers)

    def describe(self, names: Mapping[int, str], mirrors: Mapping[int, str]) -> str:
        """Return it for people, who take an end that is named for the last offset."""
        where = f"{self.partition} from {self.start} to {self.end - 1}"
        if self.is_marker:
            return f"{where}: a transaction has ended"
        who = ", ".join(
            (f"the flow {mirrors[each.producer_id]}, " if each.producer_id in mirrors else "")
            + f"producer {each.producer_id} (epoch {each.epoch}"
            + (f", transactional id {names[each.producer_id]}" if each.producer_id in names else "")
            + (f", last at {iso_time(each.last_timestamp_ms)})" if each.last_timestamp_ms >= 0 else ")")
            for each in sorted(self.producers, key=lambda one: -one.last_timestamp_ms)
        )
        return f"{where}: {who or 'a client without a producer id'}"


@dataclass(frozen=True, slots=True)
class Watched:
    """What was seen while a cluster was watched.

    Attributes
    ----------
    written
        the partitions that were written to, at last.
    names
        the transactional ids of the producers among them.
    unknown
        the partitions of which it is not known, and why.
    lacking
        why nothing, or not everything, was watched, in words for people; None: everything was.
    mirrors
        the flows that some producer ids are of, where those may write.
    """

    written: tuple[StillWritten, ...] = ()
    names: Mapping[int, str] = field(default_factory=dict)
    unknown: Mapping[TopicPartition, str] = field(default_factory=dict)
    lacking: str | None = None
    mirrors: Mapping[int, str] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """PASS: nobody has written but mirrors that may."""
        if any(not each.is_of(self.mirrors) for each in self.written):
            return Verdict.FAIL
        return Verdict.UNKNOWN if self.unknown or self.lacking is not None else Verdict.PASS

    def as_json(self, cluster: str) -> list[dict[str, Any]]:
        """Return what was written to, for programs."""
        return [each.as_json(cluster, self.names, self.mirrors) for each in self.written]

    def messages(self) -> tuple[str, ...]:
        """Return what was seen, for people: who writes now first, who wrote long ago last."""
        newest = sorted(self.written, key=lambda each: (each.is_of(self.mirrors), -each.newest_ms, each.partition))
        return (
            *(each.describe(self.names, self.mirrors) for each in newest),
            *(f"{partition} is not known: {why}" for partition, why in sorted(self.unknown.items())),
            *([self.lacking] if self.lacking is not None else ()),
        )


def still_written(before: Look, now: Look) -> tuple[StillWritten, ...]:
    """Return the partitions that were written to between two looks, and by whom."""
    found = []
    for partition, end in sorted(now.ends.items()):
        start = before.ends.get(partition, -1)
        if start == end or (start < 0 and partition in before.unknown):
            continue
        known = before.known(partition)
        changed = [each for each in now.producers.get(partition, ()) if known.get(each.producer_id) != each]
        wrote = [each for each in changed if _has_written(known.get(each.producer_id), each)]
        ended = [each for each in changed if each not in wrote]
        is_marker = not wrote and bool(ended) and end - start <= len(ended)
        if end - start > len(ended):
            wrote += [each for each in ended if _may_have_written(known.get(each.producer_id), each, alone=not wrote)]
        found.append(StillWritten(partition, start, end, tuple(wrote), is_marker))
    return tuple(found)


def look(channel: Channel, partitions: Collection[TopicPartition]) -> Look:
    """Look at partitions of a cluster once.

    Raises
    ------
    ConnectionFailed
        if no broker can be reached.
    """
    earlier = active_producers(channel, partitions)
    # With what is not replicated yet: of that, too, the leader knows the producer.
    ends = channel.find_offsets(list(partitions), LATEST, View.WRITTEN)
    producers = active_producers(channel, partitions)
    return Look(ends, producers, {partition: str(why) for partition, why in ends.problems.items()}, earlier)


def watch(
    settings: ClusterSettings, partitions: Collection[TopicPartition], *, quiet_seconds: float, most_seconds: float
) -> Watched:
    """Watch partitions until none was written to for ``quiet_seconds``, or ``most_seconds`` have passed.

    Returns
    -------
    what was written to at last, if it did not end; of which partitions it is not known

    Raises
    ------
    ConnectionFailed
        if no broker can be reached.
    """
    with closing(Channel(settings.alias, settings.client)) as channel:
        written, last = until_quiet(lambda: look(channel, partitions), quiet_seconds, most_seconds)
        ids = {each.producer_id for one in written for each in one.producers}
        return Watched(written, transactional_ids(channel, ids) if ids else {}, last.unknown)


def watch_for(settings: ClusterSettings, partitions: Collection[TopicPartition], seconds: float) -> Watched:
    """Watch partitions for so long; return all that was written to meanwhile, whether or not it has ended.

    Raises
    ------
    ConnectionFailed
        if no broker can be reached.
    """
    with closing(Channel(settings.alias, settings.client)) as channel:
        written, last = seen_in(lambda: look(channel, partitions), seconds)
        ids = {each.producer_id for one in written for each in one.producers}
        return Watched(written, transactional_ids(channel, ids) if ids else {}, last.unknown)


def seen_in(look_once: Callable[[], Look], seconds: float) -> tuple[tuple[StillWritten, ...], Look]:
    """Look again and again for so long; return what was written to meanwhile, and the last look.

    Of what the first look could not tell it is not known whether it grew before a later one.
    """
    first = last = look_once()
    written: dict[TopicPartition, StillWritten] = {}

    def see() -> bool:
        nonlocal last
        now = look_once()
        for each in still_written(last, now):
            written[each.partition] = _joined(written.get(each.partition), each)
        # What one look could not tell the one before could.
        last = last.then(now, {**first.unknown, **now.unknown})
        return False

    with suppress(WaitTimeout):
        wait_until(see, f"a log to grow, for {seconds:g} s", timeout_seconds=seconds)
    return tuple(each for _, each in sorted(written.items()) if not each.is_marker), last


def _joined(before: StillWritten | None, now: StillWritten) -> StillWritten:
    if before is None:
        return now
    producers = {each.producer_id: each for each in (*before.producers, *now.producers)}
    is_marker = before.is_marker and now.is_marker
    return StillWritten(now.partition, before.start, now.end, tuple(producers.values()), is_marker)


def until_quiet(
    look_once: Callable[[], Look],
    quiet_seconds: float,
    most_seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[tuple[StillWritten, ...], Look]:
    """Look until nothing was written for ``quiet_seconds``; return what still was, and the last look.

    For so long each log must have been seen, too: what a look could not tell may have been written to before the next.
    """
    before = look_once()
    quiet_since = clock()
    written: tuple[StillWritten, ...] = ()
    unseen: Mapping[TopicPartition, str] = {}

    def is_quiet() -> bool:
        nonlocal before, quiet_since, written, unseen
        now = look_once()
        # A marker is the end of what was written, not more of it.
        found = tuple(each for each in still_written(before, now) if not each.is_marker)
        told = {each: why for each, why in before.unknown.items() if each not in now.unknown}
        if found or told:
            written, unseen, quiet_since = found or written, told, clock()
        before = before.then(now, now.unknown)
        return clock() - quiet_since >= quiet_seconds

    with suppress(WaitTimeout):
        wait_until(is_quiet, f"no log to grow for {quiet_seconds:g} s", timeout_seconds=most_seconds)
        return (), before
    return written, replace(before, unknown={**unseen, **before.unknown})


def _has_written(before: ActiveProducer | None, now: ActiveProducer) -> bool:
    if before is None or before.epoch != now.epoch:
        return now.last_sequence >= 0
    return (before.last_sequence, before.last_timestamp_ms) != (now.last_sequence, now.last_timestamp_ms)


def _may_have_written(before: ActiveProducer | None, now: ActiveProducer, *, alone: bool) -> bool:
    """Tell whether a producer has written that the last marker took the sequences of, with the epoch they were of.

    From Kafka 4 each transaction ends with such a marker (KIP-890). Of one that was open before it is not known,
    unless the producer is ``alone``: nobody else has written.
    """
    return now.last_sequence < 0 and (
        before is None or (before.epoch != now.epoch and (before.open_since is None or alone))
    )
