"""What a copy with the source's offsets makes of an end that is not the expected one."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.copier import hole_filling
from mirror.copier.append_point import AppendPoint
from mirror.copier.hole_filling import HoleFiller
from mirror.copier.markers import Markers
from mirror.copier.same_lane import Hole
from mirror.copier.same_offsets import ForeignWrite, Moved, SameOffsetsCopy, leave_many, leave_one
from mirror.copier.work import FlowWork
from mirror.kafka import codes, coordinator, partition_state
from mirror.kafka.answers import PartitionAnswers
from mirror.kafka.appending import Appended, Appender
from mirror.kafka.batch import Producer
from mirror.kafka.channel import EARLIEST, Channel
from mirror.kafka.partition_state import ActiveProducer
from mirror.kafka.problems import BrokerRefused, ConnectionFailed, KafkaProblem, LeaderAway, RequestFailed
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.same_offsets.chain import producer_of
from mirror.same_offsets.filling import Padding, Tombstones

ORDERS, AUDIT, FLOW = TopicPartition("orders", 0), TopicPartition("audit", 0), Flow("east", "west")
DENIED = BrokerRefused("west: audit-0", 29, "Write on the topic")
BUSY = BrokerRefused("west: audit-0", codes.CONCURRENT_TRANSACTIONS)


class StandInMarkers:
    """Holds the transactional id, with the next epoch each time it is taken."""

    def __init__(self, *_: object, **__: object) -> None:
        self.producer, self.before, self.coordinator_epoch = Producer(5, 3), Producer(5, 2), 0


class Target:
    """Tells where the copies end, and answers batches, questions for its producers and for markers as told.

    Attributes
    ----------
    away
        copies whose leader says nothing any more, once they were looked at.
    unmarked
        why copies have got no marker of an empty transaction, or have not when it was waited for.
    """

    alias = "west"

    def __init__(self, end: int) -> None:
        self.end = end
        self.away: set[TopicPartition] = set()
        self.unmarked: dict[TopicPartition, RequestFailed] = {}
        self.asked: list[set[TopicPartition]] = []
        self.code = self.size = 0
        self.known: tuple[ActiveProducer, ...] = ()
        self.channel = self

    def offsets(self, partitions: list[TopicPartition], at: int, _: object) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0 if at == EARLIEST else self.end)

    def offsets_once_led(self, partitions: list[TopicPartition], at: int, view: object) -> PartitionAnswers[int]:
        self.asked.append(set(partitions))
        if self.away >= set(partitions):
            raise ConnectionFailed("west, broker 2: no answer in time")
        away = {each: LeaderAway("broker 2: no answer in time") for each in partitions if each in self.away}
        return PartitionAnswers(self.offsets([each for each in partitions if each not in away], at, view), away)

    def write_markers(self, counts: dict[TopicPartition, int], *_: object) -> dict[TopicPartition, int | KafkaProblem]:
        self.end += max(counts.values())
        return {each: self.unmarked.get(each, 0) for each in counts}

    def abort_empty(self, *_: object) -> dict[TopicPartition, RequestFailed]:
        self.end += 1
        return self.unmarked

    def learn_leaders(self, _: object) -> None: ...

    def leader(self, _: object) -> int:
        return 1

    def append(self, _: TopicPartition, content: memoryview) -> Appended:
        self.size = len(content)
        return Appended(self.code, -1 if self.code else self.end)


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    made = Target(100)
    monkeypatch.setattr(
        partition_state, "active_producers", lambda _, asked: PartitionAnswers(dict.fromkeys(asked, made.known))
    )
    return made


@pytest.fixture
def copy(target: Target) -> SameOffsetsCopy:
    markers = cast(Markers, StandInMarkers())
    return SameOffsetsCopy(producer_of(FLOW), cast(Appender, target), markers, ORDERS, is_compacted=False)


@pytest.mark.parametrize(
    ("end", "was_late", "why"),
    [
        (101, False, None),
        (101, True, None),
        # The log was cut off before, and the marker stands where the source has a record.
        (51, False, Moved),
        (51, True, Moved),
        # Of an engine that was killed, perhaps; or somebody's record beside the marker.
        (102, True, Moved),
        (102, False, ForeignWrite),
    ],
)
def test_a_marker_that_is_not_where_it_was_to_be_fills_nothing(
    copy: SameOffsetsCopy, end: int, was_late: bool, why: type[Exception] | None
) -> None:
    if not was_late:
        copy.got_markers(0, 100, 0)
    assert _raised(lambda: copy.got_marker(end)) is why


@pytest.mark.parametrize(
    ("end", "code", "why"),
    [
        (110, 0, None),
        # All are there, and the copy is shorter than that: it was cut off before.
        (60, 0, Moved),
        (111, 0, ForeignWrite),
        # Not certain; whoever looks again sees how many.
        (105, codes.DUPLICATE_SEQUENCE, BrokerRefused),
        (110, codes.DUPLICATE_SEQUENCE, None),
        # None is there, and it is known by now how they are to be asked for.
        (100, codes.TRANSACTION_COORDINATOR_FENCED, None),
    ],
)
def test_many_markers_that_are_not_where_they_were_to_be_fill_nothing(
    copy: SameOffsetsCopy, target: Target, end: int, code: int, why: type[Exception] | None
) -> None:
    copy.asks_for_markers()
    target.end = end
    assert _raised(lambda: copy.got_markers(10, end, code)) is why


def test_the_latest_epoch_of_the_coordinator_is_taken_from_the_markers_of_its_producer(
    copy: SameOffsetsCopy, target: Target
) -> None:
    markers = copy._markers
    for known, coordinator_epoch in ((7, 7), (6, 7)):
        target.known = ActiveProducer(4, 0, -1, 0, None, 9), ActiveProducer(5, 2, -1, 0, None, known)
        copy.look()
        assert (copy.place.copy.marker_epoch, markers.coordinator_epoch) == (2, coordinator_epoch)


@pytest.mark.parametrize(("end", "why"), [(110, None), (100, ForeignWrite), (50, Moved)])
def test_a_refused_sequence_says_that_more_is_there_or_less(
    copy: SameOffsetsCopy, target: Target, end: int, why: type[Exception] | None
) -> None:
    target.end, target.code = end, codes.OUT_OF_ORDER_SEQUENCE
    assert _raised(lambda: copy.fill(Padding(10), 0)) is why


@pytest.mark.parametrize("step", [Padding(1_000), Tombstones(1_000)])
def test_a_copy_that_takes_no_large_batches_gets_small_ones_and_is_refused_once_one_filler_is_too_large(
    copy: SameOffsetsCopy, target: Target, step: Padding | Tombstones
) -> None:
    target.code = codes.MESSAGE_TOO_LARGE
    sizes = []
    while _raised(lambda: copy.fill(step, 0)) is None:
        sizes.append(target.size)
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) == 9
    target.code = 0
    copy.fill(step, 0)
    assert copy.place.copy.bounds.end == 101


@pytest.mark.parametrize("end", [99, 101, 102])
def test_what_lies_where_a_hole_is_to_be_filled_is_not_taken_for_what_fills_it(
    target: Target, end: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the copy then ends just where the hole does: it may be somebody else's record."""
    monkeypatch.setattr(target, "may_write_markers", lambda: True, raising=False)
    monkeypatch.setattr(hole_filling, "Appender", lambda *_: target)
    monkeypatch.setattr(hole_filling, "Markers", StandInMarkers)
    work = cast(FlowWork, SimpleNamespace(flow=FLOW, target_client={}))
    target.end = end
    filler = HoleFiller(work, lambda: None)
    (found,) = filler.fill([Hole(ORDERS, AppendPoint(100, 0, is_compacted=False), 101, producer_of(FLOW))]).values()
    assert isinstance(found, Moved)
    assert str(found) == f"{ORDERS} ends at {end}, and not at 100: what lies there is looked up"


@pytest.fixture
def markers(target: Target, monkeypatch: pytest.MonkeyPatch) -> Markers:
    epochs = itertools.count()
    monkeypatch.setattr(coordinator, "take_over", lambda *_, **__: Producer(5, next(epochs)))
    monkeypatch.setattr(coordinator, "abort_empty", target.abort_empty)
    return Markers(FLOW, cast(Channel, target), writes_many=True)


def _two(target: Target, markers: Markers) -> list[SameOffsetsCopy]:
    appender = cast(Appender, target)
    return [SameOffsetsCopy(producer_of(FLOW), appender, markers, each, is_compacted=False) for each in (ORDERS, AUDIT)]


@pytest.mark.parametrize(
    ("unmarked", "told", "epoch"),
    [
        ({AUDIT: DENIED}, {AUDIT: DENIED}, 0),
        ({AUDIT: BUSY}, {AUDIT: BUSY}, 1),
        (dict.fromkeys((ORDERS, AUDIT), RequestFailed("waited for 5 s")), {}, 1),
    ],
    ids=["denied", "perhaps in the transaction", "not ended in time"],
)
def test_a_copy_that_can_get_no_marker_keeps_no_other_from_its_own(
    target: Target,
    markers: Markers,
    unmarked: dict[TopicPartition, RequestFailed],
    told: dict[TopicPartition, RequestFailed],
    epoch: int,
) -> None:
    """One topic without the right to Write had all copies told that they had got none, again and again.

    A transaction that took too long has ended once the id is taken again; without that the next might not begin.
    """
    copies, target.unmarked = _two(target, markers), unmarked
    assert leave_one(cast(Appender, target), markers, copies) == told
    assert [each.place.copy.bounds.end for each in copies] == [101, 100 if told else 101]
    assert markers.producer.epoch == epoch


@pytest.mark.parametrize("is_many", [False, True])
@pytest.mark.parametrize("away", [{AUDIT}, {ORDERS, AUDIT}])
def test_a_leader_that_does_not_tell_where_its_copies_end_keeps_no_other_copy_from_its_markers(
    target: Target, markers: Markers, away: set[TopicPartition], *, is_many: bool
) -> None:
    copies, target.away, appender = _two(target, markers), away, cast(Appender, target)
    found = leave_many(appender, markers, dict.fromkeys(copies, 9)) if is_many else leave_one(appender, markers, copies)
    assert found.keys() == away
    assert all("broker 2: no answer in time" in str(why) for why in found.values())
    assert markers.producer.epoch == 0


def test_a_leader_that_has_not_answered_to_many_markers_is_not_waited_for_once_more(
    target: Target, markers: Markers
) -> None:
    copies, target.unmarked = _two(target, markers), {AUDIT: RequestFailed("no answer for 30 s")}
    assert leave_many(cast(Appender, target), markers, dict.fromkeys(copies, 9)) == target.unmarked
    assert target.asked == [{ORDERS}]
    assert copies[0].place.copy.bounds.end == 109


def _raised(call: Callable[[], Any]) -> type[BaseException] | None:
    try:
        call()
    except (Moved, ForeignWrite, BrokerRefused) as problem:
        return type(problem)
    return None
