"""What brokers in memory keep: the log of each partition, and the transactions that are open."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.producer import AddPartitionsToTxnResponse, EndTxnResponse

from mirror.kafka import batch
from mirror.kafka.batch import HEADER, Header, Producer, Record
from mirror.model.leader_epochs import EpochEnd
from mirror.model.partition import TopicPartition
from tests.unit.copier.builders import TIME, as_logged, dense, flagged
from tests.unit.copier.lanes import Target

INVALID_TXN_STATE = 48


class Partition(Target):
    """A partition and its log.

    Attributes
    ----------
    start, high
        where the log begins, and what readers see of it; None: all.
    refuses
        the error that every produce request, or fetch, is answered with; 0: none.
    is_held
        whether batches that come in are neither appended nor answered for now.
    is_mute
        whether they are appended, and that is not answered for now.
    not_told
        which of ``start``, ``end`` and ``written`` its leader does not tell for now.
    most_bytes
        how much of it one answer brings.
    preferred
        the replica that the leader names to readers of a rack.
    diverging
        from where on the log is not the one that was read, as the leader says.
    is_damaged
        whether a reader gets batches that do not hold together.
    """

    def __init__(self, address: TopicPartition, replicas: tuple[int, ...]) -> None:
        super().__init__()
        self.address = address
        self.replicas = replicas
        self.leader: int | None = replicas[0]
        self.leader_epoch = 0
        self.start = 0
        self.high: int | None = None
        self.refuses = self.refuses_fetch = 0
        self.is_held = self.is_mute = self.is_damaged = False
        self.not_told = ""
        self.most_bytes = 1 << 30
        self.preferred = -1
        self.diverging: EpochEnd | None = None
        #: Where the open transaction of a producer begins.
        self.open: dict[int, int] = {}
        #: What was written from where on, by whom, and does not count.
        self.aborted: list[tuple[int, int, int]] = []
        #: From where on it was read, in turn.
        self.reads: list[int] = []

    def append(self, content: bytes) -> tuple[int, int]:
        kept = bytearray(content)
        struct.pack_into(">i", kept, 12, self.leader_epoch)
        return super().append(bytes(kept))

    def write(self, *values: bytes, producer: Producer = batch.PLAIN, codec: int = 0) -> None:
        """Append records as one batch, whoever has written what before."""
        records = [Record(0, TIME + self.end, None, value, (), -1) for value in values]
        self.put(bytes(batch.encode(records, codec, producer, -1)))

    def put(self, content: bytes) -> None:
        kept = bytearray(content)
        struct.pack_into(">i", kept, 12, self.leader_epoch)
        self._take(*as_logged(kept, self.end))

    def hold(self) -> None:
        """Neither append nor answer what comes in, for now."""
        self.is_held = True

    def mute(self) -> None:
        """Append what comes in, and do not answer that for now."""
        self.is_mute = True

    def release(self) -> None:
        """Answer again."""
        self.is_held = self.is_mute = False

    def refuse(self, code: int) -> None:
        """Answer every produce request with an error, or none if that is 0."""
        self.refuses = code

    def refuse_fetch(self, code: int) -> None:
        """Answer every fetch with an error, or none if that is 0."""
        self.refuses_fetch = code

    def mark(self, producer: Producer, *, is_abort: bool = False) -> None:
        """Append the marker of a commit, or of what is aborted."""
        key = b"\0\0\0\0" if is_abort else b"\0\0\0\1"
        marker = dense([Record(0, TIME, key, b"\0\0\0\0\0\0", (), -1)], producer=producer)
        self.put(bytes(flagged(marker, 0x30)[0]))
        self.open.pop(producer.producer_id, None)

    def abort(self, producer_id: int) -> None:
        """Let what a producer has open count for nothing."""
        self.aborted.append((producer_id, self.open[producer_id], self.end))
        self.mark(Producer(producer_id, 0), is_abort=True)

    def committed(self) -> list[bytes | None]:
        """The values of all records that were not aborted, and are not open."""
        return [
            each.value
            for content, header in self.log
            if not header.is_control
            and not any(
                producer == header.producer_id and start <= header.base_offset < end
                for producer, start, end in (*self.aborted, *((one, at, self.end) for one, at in self.open.items()))
            )
            for each in batch.records(content)
        ]

    def delete_records(self, before: int) -> None:
        """Remove what lies before an offset."""
        self.start = before
        self.log = [each for each in self.log if each[1].next_offset > before]

    def truncate(self, end: int) -> None:
        """Lose what lies from an offset on, as by an unclean election."""
        self.log = [each for each in self.log if each[1].next_offset <= end]
        self.end = end
        self.elect(self.leader)

    def elect(self, leader: int | None) -> None:
        """Have another leader, in another epoch."""
        self.leader = leader
        self.leader_epoch += 1

    @property
    def visible(self) -> int:
        return self.end if self.high is None else self.high

    @property
    def stable(self) -> int:
        return min([self.visible, *self.open.values()])

    def read(self, position: int, most_bytes: int, end: int) -> bytes:
        """Return whole batches from the one with a position on, the first one however large."""
        found: list[bytes] = []
        size = 0
        for content, header in self.log:
            if header.next_offset <= position or header.base_offset >= end:
                continue
            if found and size + len(content) > most_bytes:
                break
            found.append(bytes(content[:-1]) + b"?" if self.is_damaged else bytes(content))
            size += len(content)
        return b"".join(found)

    def parts_from(self, epoch: int, position: int) -> EpochEnd | None:
        """Return up to where the log can be the one that was read up to a position, last under a leader's epoch."""
        if self.diverging is not None or epoch < 0:
            return self.diverging
        end = self.epoch_end(epoch)
        return end if end.epoch < epoch or end.end < position else None

    def epoch_end(self, epoch: int) -> EpochEnd:
        """Return the newest epoch of the log that is not newer, and where it ends."""
        epochs = [(header.leader_epoch, header.next_offset) for _, header in self.log]
        known = [each for each in epochs if each[0] <= epoch]
        if not known:
            return EpochEnd(-1, -1)
        return EpochEnd(known[-1][0], self.end if len(known) == len(epochs) else known[-1][1])

    def values(self) -> list[bytes | None]:
        """The values of all records, but for markers."""
        return [each.value for content, header in self.log if not header.is_control for each in batch.records(content)]


@dataclass
class Coordinator:
    """The transactions of a cluster.

    Attributes
    ----------
    found_with, added_with, ended_with
        the errors that are answered, in turn, before it is found, adds partitions, or ends a transaction.
    is_silent
        whether it answers nothing for now.
    asked
        what it was asked to do, in turn.
    """

    partitions: Mapping[TopicPartition, Partition]
    node: int = 1
    found_with: list[int] = field(default_factory=list)
    added_with: list[int] = field(default_factory=list)
    ended_with: list[int] = field(default_factory=list)
    is_silent: bool = False
    asked: list[str] = field(default_factory=list)
    _added: dict[str, set[TopicPartition]] = field(default_factory=dict)

    def next_refusal(self) -> int:
        return self.found_with.pop(0) if self.found_with else 0

    def add(self, request: Any) -> Any:
        self.asked.append("add")
        code = self.added_with.pop(0) if self.added_with else 0
        topic = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
        partition = topic.AddPartitionsToTxnPartitionResult
        asked = [
            TopicPartition(each.name, number) for each in request.v3_and_below_topics for number in each.partitions
        ]
        if not code:
            self._added.setdefault(request.v3_and_below_transactional_id, set()).update(asked)
        return AddPartitionsToTxnResponse(
            throttle_time_ms=0,
            results_by_topic_v3_and_below=[
                topic(
                    name=each.topic,
                    results_by_partition=[partition(partition_index=each.partition, partition_error_code=code)],
                )
                for each in asked
            ],
        )

    def end(self, request: Any) -> Any:
        code = self.ended_with.pop(0) if self.ended_with else 0
        self.asked.append("commit" if request.committed else "abort")
        if not code:
            for address in self._added.pop(request.transactional_id, set()):
                self.partitions[address].mark(Producer(request.producer_id, request.producer_epoch))
        return EndTxnResponse(throttle_time_ms=0, error_code=code)

    def take_over(self, transactional_id: str) -> None:
        """Abort what the transactional id has left open."""
        for address in self._added.pop(transactional_id, set()):
            log = self.partitions[address]
            for producer_id in tuple(log.open):
                log.abort(producer_id)

    def append(self, log: Partition, content: bytes) -> tuple[int, int]:
        """Append a batch; one of a transaction only where that was added."""
        header = Header._make(HEADER.unpack_from(content))
        if header.is_transactional:
            if not any(log.address in added for added in self._added.values()):
                return INVALID_TXN_STATE, -1
            log.open.setdefault(header.producer_id, log.end)
        return log.append(content)
