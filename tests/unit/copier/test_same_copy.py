"""What a copy with the source's offsets makes of an end that is not the expected one."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.copier import hole_filling
from mirror.copier.append_point import AppendPoint
from mirror.copier.hole_filling import HoleFiller
from mirror.copier.markers import Markers
from mirror.copier.same_lane import Hole
from mirror.copier.same_offsets import ForeignWrite, Moved, SameOffsetsCopy
from mirror.copier.work import FlowWork
from mirror.kafka import codes, partition_state
from mirror.kafka.answers import PartitionAnswers
from mirror.kafka.appending import Appended, Appender
from mirror.kafka.batch import Producer
from mirror.kafka.channel import EARLIEST
from mirror.kafka.partition_state import ActiveProducer
from mirror.kafka.problems import BrokerRefused
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.same_offsets.chain import producer_of
from mirror.same_offsets.filling import Padding, Tombstones

ORDERS, FLOW = TopicPartition("orders", 0), Flow("east", "west")


class StandInMarkers:
    """Holds the transactional id, with the next epoch each time it is taken."""

    def __init__(self, *_: object, **__: object) -> None:
        self.producer, self.before, self.coordinator_epoch = Producer(5, 3), Producer(5, 2), 0


class Target:
    """Tells where the copy ends, and answers batches and questions for its producers as told."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.code = self.size = 0
        self.known: tuple[ActiveProducer, ...] = ()
        self.channel = self

    def offsets(self, partitions: list[TopicPartition], at: int, _: object) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0 if at == EARLIEST else self.end)

    def append(self, _: TopicPartition, content: memoryview) -> Appended:
        self.size = len(content)
        return Appended(self.code, -1 if self.code else self.end)


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    made = Target(100)
    monkeypatch.setattr(partition_state, "active_producers", lambda *_: PartitionAnswers({ORDERS: made.known}))
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


def _raised(call: Callable[[], Any]) -> type[BaseException] | None:
    try:
        call()
    except (Moved, ForeignWrite, BrokerRefused) as problem:
        return type(problem)
    return None
