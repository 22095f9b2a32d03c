"""A source that loses records and a target that numbers densely, as a copy with the source's offsets meets them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import NamedTuple
from unittest import mock

from mirror.copier import hole_filling, same_places
from mirror.copier.tail_match import Batch
from mirror.kafka import batch, coordinator, partition_state
from mirror.kafka.answers import PartitionAnswers
from mirror.kafka.appending import Appended
from mirror.kafka.batch import Producer, Record
from mirror.kafka.channel import EARLIEST
from mirror.kafka.partition_state import ActiveProducer
from mirror.kafka.problems import ConnectionFailed, KafkaProblem
from mirror.model.partition import TopicPartition
from mirror.same_offsets import filling
from mirror.same_offsets.fillers import RESERVED_KEY
from tests.unit.copier.builders import dense, flagged, record, sparse
from tests.unit.copier.lanes import TARGET, Target

_CONTROL = 0x20
_INVALID_PRODUCER_EPOCH = 47


class Killed(Exception):
    """The engine is gone, whatever has become of what it asked for last."""


class Failure(NamedTuple):
    """What becomes of a request: so many of its steps are carried out, and instead of an answer there is this."""

    steps: int
    outcome: Exception


class SourceLog:
    """The source's log: its batches from ``start`` on, and all that was ever written to it.

    Attributes
    ----------
    follower
        where the log of another replica begins, and its batches: it has cleaned and removed what it had when it led.
    written
        every record, by its offset, whether it is still there or not.
    compacted
        the offsets whose records compaction has taken from a replica.
    removed
        the offset before which a replica has removed all.
    again
        the offsets that were gone, and that a replica still had which led then.
    """

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self.batches: list[Batch] = []
        self.follower: tuple[int, list[Batch]] = (start, [])
        self.removed = start
        self.again: set[int] = set()
        self.written: dict[int, Record] = {}
        self.compacted: set[int] = set()

    def write(self, values: Sequence[bytes | None]) -> None:
        """Write a batch; None: whatever no other record has the like of."""
        records = [record(self.end + number, value) for number, value in enumerate(values)]
        self.written |= {each.offset: each for each in records}
        self._put(dense(records))

    def mark(self) -> None:
        """Write the marker of a transaction."""
        self._put(flagged(dense([record(self.end)]), _CONTROL))

    def _put(self, one: Batch) -> None:
        for batches in (self.batches, self.follower[1]):
            batches.append(one)
        self.end = one[1].next_offset

    def compact(self, number: int, kept: set[int]) -> None:
        """Leave of a batch only some of its records, by their numbers in it; nothing, if none of them is kept."""
        content, header = self.batches[number]
        records = [] if header.is_control else list(batch.records(content))
        left = [each for each in records if each.offset - header.base_offset in kept]
        self.compacted |= {each.offset for each in records if each not in left}
        self.batches[number : number + 1] = [sparse(left, header.base_offset, header.next_offset)] if left else []

    def remove_before(self, offset: int) -> None:
        """Remove what retention, or somebody, removes; a batch in the middle of which the log begins stays whole."""
        self.start, self.removed = offset, max(self.removed, offset)
        self.batches = [each for each in self.batches if each[1].next_offset > offset]

    def lead_by_follower(self) -> None:
        """Have the other replica lead."""
        here = self.start, self.batches
        self.again |= {*range(self.follower[0], self.start)}
        self.start, self.batches = self.follower
        self.follower = here

    def follow(self) -> None:
        """Have the other replica clean and remove what the leader has."""
        self.follower = self.start, list(self.batches)

    def fetch(self, position: int, most: int) -> list[Batch]:
        """Return so many batches from a position on, markers too."""
        return [each for each in self.batches if each[1].next_offset > position][:most]

    def read(self, start: int, end: int) -> Iterator[Batch]:
        """Yield the batches of records that reach into a stretch."""
        for one in self.fetch(start, len(self.batches)):
            if one[1].base_offset < end and not one[1].is_control:
                yield one


class TargetLog(Target):
    """The copy's log, with what its leader, and the coordinator of the markers' producer, tell and do.

    Attributes
    ----------
    start
        where it begins; what was removed before that is kept, for it took its offsets.
    markers
        as whom markers are written now.
    marker_epoch
        the epoch of the newest marker there.
    """

    def __init__(self) -> None:
        super().__init__()
        self.start = 0
        self.markers = Producer(5, -1)
        self.marker_epoch = -1
        self._is_transaction_open = False

    @property
    def visible(self) -> list[Record]:
        """What readers see."""
        return [each for each in self.records() if each.offset >= self.start]

    def read(self, start: int, end: int) -> Iterator[Batch]:
        """Yield the batches that reach into a stretch."""
        for one in self.log:
            if one[1].next_offset > max(start, self.start) and one[1].base_offset < end:
                yield one

    def offsets(self, copies: Sequence[TopicPartition], at: int, _view: object) -> dict[TopicPartition, int]:
        """Tell where it begins, or ends, as a channel would."""
        return dict.fromkeys(copies, self.start if at == EARLIEST else self.end)

    def find_offsets(self, copies: Sequence[TopicPartition], at: int, view: object) -> PartitionAnswers[int]:
        return self.offsets_once_led(copies, at, view)

    def offsets_once_led(self, copies: Sequence[TopicPartition], at: int, view: object) -> PartitionAnswers[int]:
        return PartitionAnswers(self.offsets(copies, at, view))

    def learn_leaders(self, _: object) -> None:
        """Be the leader."""

    def leader(self, _: object) -> int:
        return 1

    def producers(self) -> tuple[ActiveProducer, ...]:
        """Tell as whom it was written to: as one producer of records, and that of the markers."""
        headers = [header for _, header in self.log]
        last = sum(each.record_count for each in headers) - 1
        ours = [ActiveProducer(each.producer_id, each.producer_epoch, last, 0) for each in headers[-1:]]
        return *ours, ActiveProducer(self.markers.producer_id, self.marker_epoch, -1, 0)

    def lose(self, count: int) -> None:
        """Lose the last offsets: a replica leads that did not have them (an unclean election)."""
        self.end -= count
        self.log = [each for each in self.log if each[1].next_offset <= self.end]
        self.forget()

    def take_over(self) -> Producer:
        """Give the markers' producer its next epoch; a transaction that is open is ended by that."""
        self.markers = Producer(self.markers.producer_id, self.markers.epoch + 1)
        if self._is_transaction_open:
            self.end_transaction()
        return self.markers

    def begin_transaction(self) -> None:
        self._is_transaction_open = True

    def end_transaction(self) -> None:
        self._is_transaction_open = False
        self.mark(self.markers.epoch)

    def mark(self, epoch: int) -> None:
        self.marker_epoch = epoch
        self.end += 1


class FillingRequests:
    """Carries out what a filler of holes asks for, step by step: what only appends to the log, or removes from it.

    ``failure`` is what becomes of the next request; None: it is answered.
    """

    def __init__(self, log: TargetLog, *, writes_many: bool) -> None:
        self.channel = log
        self.failure: Failure | None = None
        self._writes_many = writes_many

    def may_write_markers(self) -> bool:
        return self._writes_many

    def append(self, _copy: TopicPartition, content: memoryview) -> Appended:
        answers: list[Appended] = []
        self._carry_out(lambda: answers.append(Appended(*self.channel.append(bytes(content)))))
        return answers[0]

    def delete_before(self, _copy: TopicPartition, offset: int) -> int:
        self._carry_out(lambda: setattr(self.channel, "start", max(self.channel.start, offset)))
        return self.channel.start

    def leave_marker(self) -> dict[TopicPartition, str]:
        self._carry_out(self.channel.begin_transaction, self.channel.end_transaction)
        return {}

    def write_markers(
        self, counts: Mapping[TopicPartition, int], producer: Producer, _coordinator_epoch: int
    ) -> dict[TopicPartition, int | KafkaProblem]:
        if producer.epoch < self.channel.marker_epoch:
            return {TARGET: _INVALID_PRODUCER_EPOCH}
        try:
            self._carry_out(*[lambda: self.channel.mark(producer.epoch)] * counts[TARGET])
        except ConnectionFailed as problem:
            return {TARGET: problem}
        return {TARGET: 0}

    def _carry_out(self, *steps: Callable[[], object]) -> None:
        failure, self.failure = self.failure, None
        for step in steps[: failure.steps] if failure is not None else steps:
            step()
        if failure is not None:
            raise failure.outcome


def stand_ins(requests: FillingRequests) -> AbstractContextManager[object]:
    """Have what goes on with a copy read these logs, and what fills its holes ask for one thing a call, and little."""
    stack = ExitStack()
    for place, name, stand_in in (
        (same_places, "read_batches", lambda log, _, start, end, **__: log.read(start, end)),
        (partition_state, "active_producers", lambda log, _: PartitionAnswers({TARGET: log.producers()})),
        (partition_state, "unable_to_append", lambda *_: {}),
        (coordinator, "take_over", lambda log, *_, **__: log.take_over()),
        (coordinator, "abort_empty", lambda *_: requests.leave_marker()),
        (hole_filling, "Appender", lambda *_: requests),
        (hole_filling, "_SECONDS", -1.0),
        (filling, "FILLERS_A_BATCH", 4),
        (filling, "MARKERS_A_REQUEST", 3),
    ):
        stack.enter_context(mock.patch.object(place, name, stand_in))
    return stack


def is_filler(one: Record) -> bool:
    """Tell padding, and tombstones of the reserved key, from records of the source, which all have a value."""
    return one.value is None and one.key in (None, RESERVED_KEY)
