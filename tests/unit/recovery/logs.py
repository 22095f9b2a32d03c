"""A cluster's logs as batches, for what asks where they end and reads the headers of what lies in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from mirror.kafka.answers import PartitionAnswers
from mirror.kafka.batch import Header
from mirror.kafka.channel import LATEST
from mirror.kafka.partition_state import ActiveProducer
from mirror.kafka.problems import LeaderUnknown
from mirror.model.partition import TopicPartition
from mirror.recovery import fenced_side, recent_writers

_CONTROL = 0x20
_FETCHED = 100


@dataclass(frozen=True)
class Batch:
    """Records at consecutive offsets, or a marker; ``size`` in bytes."""

    start: int
    at_ms: int
    producer_id: int = -1
    is_control: bool = False
    records: int = 1
    size: int = 100

    @property
    def end(self) -> int:
        """One past its last offset."""
        return self.start + self.records

    @property
    def header(self) -> Header:
        """What its header says."""
        attributes = _CONTROL if self.is_control else 0
        more = (self.at_ms, self.at_ms, self.producer_id, 0, 0, self.records)
        return Header(self.start, self.size, 0, 2, 0, attributes, self.records - 1, *more)


@dataclass
class Logs:
    """The logs of a cluster.

    ``later`` is appended once the ends were asked for, ``leaderless`` tells of nothing, ``transactional_ids`` are by
    producer id.
    """

    batches: Mapping[TopicPartition, tuple[Batch, ...]]
    later: Mapping[TopicPartition, tuple[Batch, ...]] = field(default_factory=dict)
    producers: Mapping[TopicPartition, tuple[ActiveProducer, ...]] = field(default_factory=dict)
    leaderless: frozenset[TopicPartition] = frozenset()
    transactional_ids: Mapping[int, str] = field(default_factory=dict)

    def find_offsets(self, partitions: Iterable[TopicPartition], at: int) -> PartitionAnswers[int]:
        """As `Channel.find_offsets`."""
        wanted = list(partitions)
        found = {}
        for each in (each for each in wanted if each not in self.leaderless):
            held = self.batches.get(each, ())
            if at == LATEST:
                found[each] = held[-1].end if held else 0
            else:
                found[each] = next((one.start for one in held if one.at_ms >= at), -1)
        if at == LATEST:
            self.batches = {
                each: (*self.batches.get(each, ()), *self.later.get(each, ())) for each in {*self.batches, *self.later}
            }
            self.later = {}
        left = (each for each in wanted if each in self.leaderless)
        return PartitionAnswers(found, {each: LeaderUnknown(f"{each} has no leader") for each in left})

    def serve(self, patched: pytest.MonkeyPatch) -> None:
        """Have the modules that look for writers read these logs."""

        def producers(_: object, wanted: Iterable[TopicPartition]) -> PartitionAnswers[Any]:
            return PartitionAnswers({each: self.producers[each] for each in wanted if each in self.producers})

        for module in (fenced_side, recent_writers):
            patched.setattr(module, "LogReader", Reader, raising=False)
        patched.setattr(recent_writers, "active_producers", producers)
        patched.setattr(recent_writers, "transactional_ids", lambda *_: dict(self.transactional_ids))


class Reader:
    """As `LogReader`, of at most a hundred batches a fetch."""

    def __init__(self, logs: Logs, partition: TopicPartition, position: int) -> None:
        self._logs, self._partition, self.position = logs, partition, position

    def fetch(self, wait_ms: int = 0, *, most_bytes: int = 1 << 20) -> list[tuple[bytes, Header]]:
        """As `LogReader.fetch`."""
        found, read = [], 0
        for each in self._logs.batches.get(self._partition, ()):
            if each.end <= self.position:
                continue
            if len(found) == _FETCHED or (read and read + each.size > most_bytes):
                break
            read += each.size
            self.position = each.end
            if not each.is_control:
                found.append((bytes(each.size), each.header))
        return found


def batches(start: int, count: int, *, from_ms: int, every_ms: int = 0, producer_id: int = -1) -> tuple[Batch, ...]:
    """Return batches of a record each."""
    first = Batch(start, from_ms, producer_id)
    return tuple(replace(first, start=start + n, at_ms=from_ms + n * every_ms) for n in range(count))
