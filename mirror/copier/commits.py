"""What a copy task writes down of a flow beside the data: positions, the offset map, and offset syncs."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal

from mirror.copier.lane import Lane
from mirror.copier.streams import Piece, Stream
from mirror.copier.work import FlowWork
from mirror.kafka import batch, codes
from mirror.kafka.batch import Record
from mirror.model import connect_offsets
from mirror.model.flow_state import StateRecord
from mirror.model.partition import TopicPartition

Side = Literal["source", "target"]

_LARGEST_BATCH = 900_000


class SideBatch:
    """A batch for a side topic."""

    __slots__ = ("content",)

    def __init__(self, content: memoryview) -> None:
        """Keep the encoded batch."""
        self.content = content


class FlowCommits:
    """The side topics of one flow, as one task writes them: never two batches of a partition under way at once."""

    def __init__(self, work: FlowWork) -> None:
        """Open no stream before something is written to it."""
        self.work = work
        self.trouble: str | None = None
        self._streams: dict[tuple[Side, TopicPartition], Stream] = {}
        self._new: list[tuple[Side, Stream]] = []

    @property
    def is_idle(self) -> bool:
        """Whether everything written is acknowledged, or cannot be."""
        return all(stream.is_idle or stream.closed for stream in self._streams.values())

    def new_streams(self) -> list[tuple[Side, Stream]]:
        """Return the streams opened since the last call; they need a sender."""
        opened, self._new = self._new, []
        return opened

    def commit(self, lanes: Iterable[Lane]) -> None:
        """Write the positions of ``lanes`` in both formats; does nothing while the last commit is under way."""
        if not self.is_idle:
            return
        state: list[StateRecord] = []
        mm2: dict[int, list[StateRecord]] = defaultdict(list)
        for lane in lanes:
            state += lane.unrecorded()
            if lane.upstream > 0:
                key = connect_offsets.source_key(self.work.flow.source, lane.work.source)
                value = connect_offsets.source_value(lane.upstream - 1)
                mm2[connect_offsets.partition_of(key, self.work.offsets_partitions)].append((key, value))
        self._write("target", TopicPartition(self.work.state_topic, 0), state)
        for partition, records in mm2.items():
            self._write("target", TopicPartition(self.work.offsets_topic, partition), records)

    def emit_syncs(self, lanes: Iterable[Lane]) -> None:
        """Write the offset syncs that have become due, at most one a partition, the newest."""
        if self.work.syncs_topic is None:
            return
        side: Side = "source" if self.work.syncs_on_source else "target"
        address = TopicPartition(self.work.syncs_topic, 0)
        stream = self._streams.get((side, address))
        if stream is not None and not stream.is_idle:
            return
        due = [
            sync
            for lane in lanes
            if lane.work.flow == self.work.flow and lane.syncs is not None and (sync := lane.syncs.take_due()) is not None
        ]
        self._write(side, address, [(sync.key_bytes(), sync.value_bytes()) for sync in due])

    def _write(self, side: Side, address: TopicPartition, records: Sequence[StateRecord]) -> None:
        for content in _batches_of(records):
            self._stream(side, address).put(SideBatch(content))

    def _stream(self, side: Side, address: TopicPartition) -> Stream:
        if (side, address) not in self._streams:

            def refused(code: int, message: str) -> None:
                self.trouble = f"{address} on the {side} refuses what the flow writes down: {codes.name(code)} {message}".rstrip()

            stream = Stream(address, _nothing_more, refused, pipelined=False)
            self._streams[side, address] = stream
            self._new.append((side, stream))
        return self._streams[side, address]


def _nothing_more(_piece: Piece, _base_offset: int) -> None:
    """Nothing waits for the acknowledgement of a side batch but the next one."""


def _batches_of(records: Sequence[StateRecord]) -> Iterable[memoryview]:
    now = int(time.time() * 1000)
    pending: list[Record] = []
    size = 0
    for key, value in records:
        if pending and size + len(key) + len(value) > _LARGEST_BATCH:
            yield batch.encode(pending, 0)
            pending, size = [], 0
        pending.append(Record(len(pending), now, key, value, (), -1))
        size += len(key) + len(value) + 32
    if pending:
        yield batch.encode(pending, 0)
