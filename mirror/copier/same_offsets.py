"""Writing one copy with the source's offsets: finding out where it stands, and carrying out one step after the other.

Nothing is kept that the target does not know: whoever begins looks first, and looks again whenever an answer is not the
expected one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from mirror.copier.markers import Markers
from mirror.kafka import codes, partition_state
from mirror.kafka.answers import Answers, PartitionAnswers
from mirror.kafka.appending import Appender
from mirror.kafka.batch import Producer, next_sequence
from mirror.kafka.channel import EARLIEST, LATEST, View
from mirror.kafka.partition_state import ActiveProducer
from mirror.kafka.problems import BrokerRefused, ConnectionFailed, KafkaProblem, RequestFailed
from mirror.model.partition import TopicPartition
from mirror.same_offsets.fillers import padding, tombstones
from mirror.same_offsets.filling import (
    FILLERS_A_BATCH,
    Bounds,
    Copy,
    DeleteBefore,
    Padding,
    Tombstones,
)

# What arrives late is not endless.
_LOOKS = 100

Filling: TypeAlias = Padding | Tombstones | DeleteBefore
"""A step that needs nothing of the source, and concerns one copy alone."""


class ForeignWrite(Exception):
    """A copy holds something that this flow did not write there; the message says what and where."""


class Moved(Exception):
    """A copy does not end where it was found to: whose that is, or what was cut off, its log has to say.

    Late requests of an engine that was killed belong there; records of somebody else in the place of a hole do not.
    """

    def __init__(self, copy: TopicPartition, expected: int, found: int) -> None:
        """Say where the copy was to end, and where it does."""
        super().__init__(f"{copy} ends at {found}, and not at {expected}: what lies there is looked up")


NotFilled: TypeAlias = ForeignWrite | Moved | KafkaProblem
"""Why a copy has not got what was to fill a hole in it."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a copy stands, and the sequence of the next batch."""

    copy: Copy
    sequence: int


class SameOffsetsCopy:
    """One copy, as one engine writes it.

    Attributes
    ----------
    place
        where it stands, as far as is known.
    """

    def __init__(
        self, producer: Producer, appender: Appender, markers: Markers, partition: TopicPartition, *, is_compacted: bool
    ) -> None:
        """Look where the copy stands, which is written as ``producer``; ``markers`` are taken over already.

        Raises
        ------
        KafkaProblem
            if the target does not tell.
        """
        self.partition = partition
        self._appender = appender
        self._markers = markers
        self._producer = producer
        self._most_fillers = FILLERS_A_BATCH
        # What an engine of before has sent may still arrive.
        self.place = Place(Copy(Bounds(0, 0), is_compacted, may_get_markers=True), 0)
        self.look()

    def stands_at(self, end: int, sequence: int) -> None:
        """Take in that records were appended since, in their places."""
        bounds = Bounds(self.place.copy.bounds.start, end)
        self.place = Place(replace(self.place.copy, bounds=bounds), sequence)

    def got_marker(self, end: int) -> None:
        """Take in that an empty transaction has left its marker, behind which the copy ends at ``end``.

        Raises
        ------
        ForeignWrite
            if there is something else, too.
        Moved
            if that may have been sent before, or the log was cut off.
        """
        expected, was_late = self.place.copy.bounds.end + 1, self.place.copy.may_get_markers
        bounds = Bounds(self.place.copy.bounds.start, end)
        self._knows(bounds=bounds, marker_epoch=self._markers.producer.epoch, may_get_markers=False)
        if end < expected or (end > expected and was_late):
            raise Moved(self.partition, expected, end)
        if end > expected:
            raise ForeignWrite(foreign_write(self.partition, expected, end))

    def asks_for_markers(self) -> None:
        """Take in that markers are asked for: until they are answered, and all of them there, some may still arrive."""
        self._knows(may_get_markers=True)

    def got_markers(self, count: int, end: int, code: int) -> None:
        """Take in the answer to the question for so many markers, an error code, and where the copy ends behind it.

        Raises
        ------
        ForeignWrite
            if there is something else, too.
        Moved
            if they are there, and the log was cut off before.
        KafkaProblem
            if they are not all there; :meth:`look` before going on.
        """
        expected = self.place.copy.bounds.end + count
        if code == 0 and end == expected:
            bounds = Bounds(self.place.copy.bounds.start, end)
            self._knows(bounds=bounds, marker_epoch=self._markers.before.epoch, may_get_markers=False)
            return
        self.look()
        end = self.place.copy.bounds.end
        if end > expected:
            raise ForeignWrite(foreign_write(self.partition, expected, end))
        if end == expected:
            self._knows(may_get_markers=False)
        elif not code:
            raise Moved(self.partition, expected, end)
        elif code != codes.TRANSACTION_COORDINATOR_FENCED:
            raise BrokerRefused(f"{self.partition}: markers", code, "Alter on the cluster")

    def look(self) -> None:
        """Find out where the copy ends and with which sequence; if something arrives in between, once more.

        Raises
        ------
        KafkaProblem
            if the target does not tell.
        """
        before = self._producers()
        for _ in range(_LOOKS):
            (start, end) = (self._offset(EARLIEST), self._offset(LATEST))
            after = self._producers()
            if sequence_of(before, self._producer) == sequence_of(after, self._producer):
                copy = replace(self.place.copy, bounds=Bounds(start, end), marker_epoch=self._marker_epoch(after))
                self.place = Place(copy, sequence_of(after, self._producer))
                return
            before = after
        raise RequestFailed(f"{self.partition} gets one late batch after the other")

    def fill(self, step: Filling, timestamp: int) -> None:
        """Carry out a step; ``timestamp`` is that of fillers, in ms.

        Raises
        ------
        ForeignWrite
            if the copy has got something that is not in its place.
        KafkaProblem
            if it is not certain that it is done: :meth:`look` before going on.
        """
        match step:
            case Padding(count):
                self._append_fillers(padding, count, timestamp)
            case Tombstones(count):
                self._append_fillers(tombstones, count, timestamp)
            case DeleteBefore(offset):
                start = self._appender.delete_before(self.partition, offset)
                self._knows(bounds=Bounds(start, self.place.copy.bounds.end))

    def append(self, batch: memoryview, count: int) -> None:
        """Append a batch of ``count`` records, of the flow's producer and the next sequence, to the end of the copy.

        Raises
        ------
        ForeignWrite
            if it has got another offset.
        Moved
            if the log was cut off.
        KafkaProblem
            if it is not certain that it is appended; :meth:`look` before going on.
        """
        end = self.place.copy.bounds.end
        answer = self._appender.append(self.partition, batch)
        if answer.code in codes.SEQUENCE_ERRORS:
            # One that came late was the first: the copy has more than was known.
            self.look()
            if (found := self.place.copy.bounds.end) < end:
                raise Moved(self.partition, end, found)
            if found == end:
                raise ForeignWrite(f"{self.partition} ends at {end} and refuses what comes next: {answer.message}")
            return
        if answer.code:
            raise BrokerRefused(f"{self.partition} {answer.message}".rstrip(), answer.code, "Write on the topic")
        if answer.base_offset != end:
            raise ForeignWrite(foreign_write(self.partition, end, answer.base_offset))
        self.place = Place(
            replace(self.place.copy, bounds=Bounds(self.place.copy.bounds.start, end + count)),
            next_sequence(self.place.sequence, count),
        )

    def _append_fillers(self, made: Callable[..., memoryview], count: int, timestamp: int) -> None:
        """Append a batch of fillers, of as many as the copy takes at once; where it takes fewer the next is smaller."""
        count = min(count, self._most_fillers)
        try:
            self.append(made(count, self._producer, self.place.sequence, timestamp), count)
        except BrokerRefused as refused:
            if refused.code not in codes.TOO_LARGE or count == 1:
                raise
            self._most_fillers = count // 2

    @property
    def producer(self) -> Producer:
        """As whom records are written."""
        return self._producer

    def _knows(self, **changed: object) -> None:
        self.place = replace(self.place, copy=replace(self.place.copy, **changed))  # type: ignore[arg-type]

    def _offset(self, at: int) -> int:
        return self._appender.channel.offsets([self.partition], at, View.WRITTEN)[self.partition]

    def _producers(self) -> tuple[ActiveProducer, ...]:
        found = partition_state.active_producers(self._appender.channel, [self.partition])
        return found.whole()[self.partition]

    def _marker_epoch(self, known: Iterable[ActiveProducer]) -> int:
        markers = self._markers
        for each in known:
            if each.producer_id == markers.producer.producer_id:
                markers.coordinator_epoch = max(markers.coordinator_epoch, each.coordinator_epoch)
                return each.epoch
        return -1


def leave_one(
    appender: Appender, markers: Markers, copies: Sequence[SameOffsetsCopy]
) -> dict[TopicPartition, NotFilled]:
    """Leave a marker in each of some copies, which wait at a hole, by one empty transaction; return who is to wait.

    Raises
    ------
    BrokerRefused, ConnectionFailed
        if it is not certain that each has got it: all copies are to be looked at.
    """
    refused = markers.leave_one([each.partition for each in copies])
    ends = ends_of(
        appender.channel.offsets_once_led, [each.partition for each in copies if each.partition not in refused]
    )
    found: dict[TopicPartition, NotFilled] = {**refused, **ends.problems}
    for copy in copies:
        if copy.partition in ends:
            try:
                copy.got_marker(ends[copy.partition])
            except (ForeignWrite, Moved) as problem:
                found[copy.partition] = problem
    return found


def leave_many(
    appender: Appender, markers: Markers, counts: Mapping[SameOffsetsCopy, int]
) -> dict[TopicPartition, NotFilled]:
    """Leave so many markers in each of some copies, by a request a leader; return of whom it is not certain."""
    for copy in counts:
        copy.asks_for_markers()
    wanted = {copy.partition: count for copy, count in counts.items()}
    answers = appender.write_markers(wanted, markers.before, markers.coordinator_epoch)
    # A leader that has not answered is not asked once more.
    answered = {each: code for each, code in answers.items() if isinstance(code, int)}
    ends = ends_of(appender.channel.offsets_once_led, answered)
    found: dict[TopicPartition, NotFilled] = {
        **{each: problem for each, problem in answers.items() if isinstance(problem, KafkaProblem)},
        **ends.problems,
    }
    for copy, count in counts.items():
        if copy.partition in ends:
            try:
                copy.got_markers(count, ends[copy.partition], answered[copy.partition])
            except (ForeignWrite, Moved, KafkaProblem) as problem:
                found[copy.partition] = problem
    return found


def ends_of(
    ask: Callable[[list[TopicPartition], int, View], PartitionAnswers[int]], copies: Iterable[TopicPartition]
) -> Answers[TopicPartition, int, KafkaProblem]:
    """Return where copies end, as a channel is asked for that, and of the others why that is not told."""
    asked = list(copies)
    try:
        told = ask(asked, LATEST, View.WRITTEN)
    except ConnectionFailed as failure:
        return Answers(problems=dict.fromkeys(asked, failure))
    return Answers(told, told.problems)


def foreign_write(copy: TopicPartition, expected: int, found: int) -> str:
    """Return for people that a copy has got something that is not in its place, and what they can do."""
    return (
        f"{copy} goes on at offset {found}, and its source at {expected}: somebody else writes to it, or a marker came "
        "twice; delete the topic to have it made anew"
    )


def sequence_of(known: Iterable[ActiveProducer], producer: Producer) -> int:
    """Return the next sequence of a producer in its epoch; of one that is not known, the first.

    Of a producer id that is not known any is taken; of a later epoch than the known one the first alone.
    """
    key = producer.producer_id, producer.epoch
    last = (each.last_sequence for each in known if (each.producer_id, each.epoch) == key)
    return next_sequence(max(last, default=-1), 1)
