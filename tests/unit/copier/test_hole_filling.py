"""Filling holes of copies with the source's offsets: who may write, what is looked at anew, what is refused."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import kafka.errors
import pytest

from mirror.copier import hole_filling
from mirror.copier.append_point import AppendPoint
from mirror.copier.hole_filling import HoleFiller
from mirror.copier.same_lane import Hole
from mirror.copier.same_offsets import Moved
from mirror.copier.work import FlowWork
from mirror.kafka.answers import PartitionAnswers
from mirror.kafka.batch import PLAIN
from mirror.kafka.problems import BrokerRefused, ConnectionFailed, KafkaProblem
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.same_offsets.filling import (
    Ahead,
    Bounds,
    Copy,
    ManyMarkers,
    OneMarker,
    Padding,
    RaiseEpoch,
    Records,
    Step,
)

ORDERS, PAID = TopicPartition("orders", 0), TopicPartition("paid", 0)
AUDIT = [TopicPartition("audit", number) for number in range(3)]


class StandInMarkers:
    """Holds the transactional id; notes whether many markers are still written at once."""

    def __init__(self, *_: object, writes_many: bool) -> None:
        self.known = writes_many

    def writes_one_at_a_time(self) -> None:
        self.known = False


def test_once_the_right_to_many_markers_is_taken_away_holes_are_filled_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The right was asked for once: every other step was refused, and the copy looked at again after each."""
    written: list[str] = []
    end = 0

    def leave_many(_: object, __: object, counts: dict[Any, int]) -> dict[TopicPartition, BrokerRefused]:
        written.append("many, refused")
        denied = kafka.errors.ClusterAuthorizationFailedError
        return {each.partition: BrokerRefused("markers", denied, "Alter on the cluster") for each in counts}

    def leave_one(*_: object) -> dict[TopicPartition, BrokerRefused]:
        nonlocal end
        written.append("one")
        end += 1
        return {}

    def step(_: int, __: Copy, ahead: Ahead, writes_many: bool) -> object:
        return None if end >= ahead.offset else ManyMarkers(9) if writes_many else OneMarker()

    def copy(*_: object, **__: object) -> SimpleNamespace:
        bounds = SimpleNamespace(start=0, end=end)
        return _Copy(partition=ORDERS, place=SimpleNamespace(copy=SimpleNamespace(bounds=bounds), sequence=0))

    class _Copy(SimpleNamespace):
        __hash__ = object.__hash__

    class StandInAppender:
        channel = SimpleNamespace(
            learn_leaders=lambda _: None,
            leader=lambda _: 1,
            find_offsets=lambda copies, *_: PartitionAnswers(dict.fromkeys(copies, end)),
        )

        def __init__(self, *_: object) -> None: ...

        def may_write_markers(self) -> bool:
            return True

    for name, stand_in in (
        ("Appender", StandInAppender),
        ("Markers", StandInMarkers),
        ("SameOffsetsCopy", copy),
        ("leave_many", leave_many),
        ("leave_one", leave_one),
        ("next_step", step),
    ):
        monkeypatch.setattr(hole_filling, name, stand_in)
    monkeypatch.setattr(hole_filling.partition_state, "unable_to_append", lambda *_: {})
    work = SimpleNamespace(flow=Flow("east", "west"), target_client={})
    filler = HoleFiller(cast(FlowWork, work), lambda: None)
    hole = Hole(ORDERS, AppendPoint(0, 0, is_compacted=False), 4, PLAIN)
    (refused,) = filler.fill([hole]).values()
    assert "ClusterAuthorizationFailed (needs Alter on the cluster)" in str(refused)
    filler.fill([hole])
    assert written == ["many, refused", "one", "one", "one", "one"]


class Target:
    """A target whose copies are filled by the steps that a test names: the end of each, and all that was written.

    ``frozen`` is a broker that answers nothing, for which one waits ten seconds.
    """

    alias = "west"

    def __init__(self) -> None:
        self.bounds = dict.fromkeys([ORDERS, PAID, *AUDIT], Bounds(0, 0))
        self.ends = dict.fromkeys(self.bounds, 0)
        self.asked_ends: list[tuple[TopicPartition, ...]] = []
        self.leaders = dict.fromkeys(self.bounds, 1)
        self.frozen: int | None = None
        self.seconds = 0.0
        self.step: Step = Padding(1)
        self.steps: dict[TopicPartition, Step] = {}
        self.written: list[tuple[str, tuple[TopicPartition, ...]]] = []
        self.looked_at: list[TopicPartition] = []
        self.taken_over = 0
        self.unable: dict[TopicPartition, str] = {}
        self.failure: Exception | None = None
        self.fails_at = 0
        self.may_write = True
        work = SimpleNamespace(flow=Flow("east", "west"), target_client={})
        self.filler = HoleFiller(cast(FlowWork, work), self.require)

    def require(self) -> None:
        if not self.may_write:
            raise ConnectionFailed("nothing is written")

    def learn_leaders(self, copies: Iterable[TopicPartition]) -> None:
        assert set(copies) <= self.leaders.keys()

    def leader(self, copy: TopicPartition) -> int:
        return self.leaders[copy]

    def find_offsets(self, copies: Sequence[TopicPartition], *_: object) -> PartitionAnswers[int]:
        for each in copies:
            self.ask_leader(each)
        self.asked_ends.append(tuple(copies))
        return PartitionAnswers({each: self.ends[each] for each in copies})

    def who_is_unable(self, _: object, copies: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        return {each: self.unable[each] for each in copies if each in self.unable}

    def ask_leader(self, copy: TopicPartition) -> None:
        if self.leaders[copy] == self.frozen:
            self.seconds += 10.0
            raise ConnectionFailed("broker 2 says nothing")

    def next_step(self, _: int, copy: Any, ahead: Ahead, __: object) -> Step | None:
        return Records(0) if copy.bounds.end >= ahead.offset else self.steps.get(copy.partition, self.step)

    def fill(self, kind: str, copies: Iterable[FilledCopy]) -> dict[TopicPartition, Exception]:
        copies = tuple(copies)
        self.written.append((kind, tuple(each.partition for each in copies)))
        if self.failure is not None and len(self.written) >= self.fails_at:
            raise self.failure
        for each in copies:
            each.ends_at(each.place.copy.bounds.end + 1)
        return {}

    def hole(self, copy: TopicPartition = ORDERS, until: int = 1, *, end: int = 0, **more: Any) -> Hole:
        return Hole(copy, AppendPoint(end, more.pop("sequence", 0), **{"is_compacted": False, **more}), until, PLAIN)


class FilledCopy:
    """A copy, as it was when it was looked at and as it was filled since."""

    def __init__(self, target: Target, partition: TopicPartition) -> None:
        target.looked_at.append(partition)
        target.ask_leader(partition)
        self.partition, self._target = partition, target
        self.stands_at(target.bounds[partition].end, 0)

    def stands_at(self, end: int, sequence: int) -> None:
        bounds = Bounds(self._target.bounds[self.partition].start, end)
        copy = SimpleNamespace(bounds=bounds, partition=self.partition)
        self.place = SimpleNamespace(copy=copy, sequence=sequence)
        self._target.ends[self.partition] = end

    def ends_at(self, end: int) -> None:
        self.stands_at(end, self.place.sequence)

    def fill(self, _: Step, __: int) -> None:
        self._target.ask_leader(self.partition)
        self._target.fill("fillers", [self])


class TakenMarkers(StandInMarkers):
    """Holds the transactional id of a target, and raises its epoch."""

    def __init__(self, target: Target) -> None:
        super().__init__(writes_many=True)
        self._target = target
        target.taken_over += 1

    def raise_epoch(self) -> None:
        self._target.fill("the next epoch", [])
        self._target.step = OneMarker()


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    appender = SimpleNamespace(may_write_markers=lambda: True)
    monkeypatch.setattr(hole_filling, "Appender", lambda *_: appender)
    made = appender.channel = Target()
    monkeypatch.setattr(hole_filling, "time", SimpleNamespace(monotonic=lambda: made.seconds, time=lambda: 0.0))

    def copy(_: object, __: object, ___: object, partition: TopicPartition, **_more: object) -> FilledCopy:
        return FilledCopy(made, partition)

    for name, stand_in in (
        ("Markers", lambda *_, **__: TakenMarkers(made)),
        ("SameOffsetsCopy", copy),
        ("leave_many", lambda _, __, counts: made.fill("many markers", counts)),
        ("leave_one", lambda _, __, copies: made.fill("a marker", copies)),
        ("next_step", made.next_step),
    ):
        monkeypatch.setattr(hole_filling, name, stand_in)
    monkeypatch.setattr(hole_filling.partition_state, "unable_to_append", made.who_is_unable)
    return made


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (Padding(1), "fillers"),
        (OneMarker(), "a marker"),
        (ManyMarkers(9), "many markers"),
        (RaiseEpoch(), "the next epoch"),
    ],
    ids=["fillers", "a marker", "many markers", "the next epoch"],
)
def test_nothing_is_filled_by_who_may_not_write_any_more(target: Target, step: Step, kind: str) -> None:
    """The transactional id was taken over before that: another engine may lead the flow by now."""
    target.filler.fill([target.hole(until=0)])
    target.step, target.may_write = step, False
    (found,) = target.filler.fill([target.hole()]).values()
    assert (str(found), target.written) == ("nothing is written", [])
    target.may_write = True
    target.filler.fill([target.hole()])
    assert target.written[0][0] == kind


def test_a_copy_that_could_not_be_filled_is_looked_at_before_it_is_filled_again(target: Target) -> None:
    """What it was thought to hold is no longer so; the others are known."""
    target.filler.fill([target.hole(PAID, until=0)])
    target.failure = Moved(ORDERS, 1, 5)
    assert target.filler.fill([target.hole()]) == {ORDERS: target.failure}
    target.failure, target.bounds[ORDERS] = None, Bounds(0, 5)
    assert target.filler.fill([target.hole(until=6, end=5), target.hole(PAID)]) == {
        ORDERS: AppendPoint(6, 0, is_compacted=False),
        PAID: AppendPoint(1, 0, is_compacted=False),
    }
    assert target.looked_at == [PAID, ORDERS, ORDERS]


def test_after_a_failure_of_the_cluster_the_transactional_id_is_taken_anew_and_every_copy_looked_at(
    target: Target,
) -> None:
    """What had been asked for by then has happened, or never will; what others have got stays theirs."""
    target.step, target.failure = OneMarker(), ConnectionFailed("west hung up")
    found = target.filler.fill([target.hole(), target.hole(PAID, until=0)])
    assert found == {ORDERS: target.failure, PAID: AppendPoint(0, 0, is_compacted=False)}
    target.failure, target.bounds[ORDERS] = None, Bounds(0, 1)
    target.filler.fill([target.hole(end=1), target.hole(PAID)])
    assert target.taken_over == 2
    assert target.looked_at == [ORDERS, PAID] * 2


def test_once_it_is_not_certain_whose_the_transactional_id_is_nothing_more_is_asked_as_its_producer(
    target: Target,
) -> None:
    """A coordinator that says nothing was waited for twice."""
    target.step, target.steps[PAID], target.failure = OneMarker(), RaiseEpoch(), ConnectionFailed("west hung up")
    found = target.filler.fill([target.hole(), target.hole(PAID)])
    assert found == {ORDERS: target.failure, PAID: AppendPoint(0, 0, is_compacted=False)}
    assert target.written == [("a marker", (ORDERS,))]


def test_a_copy_that_can_take_no_marker_now_does_not_keep_the_others_from_theirs(target: Target) -> None:
    """A transaction ends when the last of its partitions has its marker."""
    target.step, target.unable = OneMarker(), {ORDERS: "it has no leader"}
    found = target.filler.fill([target.hole(), target.hole(PAID)])
    assert str(found[ORDERS]) == "orders-0 on west: it has no leader"
    assert found[PAID] == AppendPoint(1, 0, is_compacted=False)
    assert target.written == [("a marker", (PAID,))]


def test_copies_of_a_broker_that_says_nothing_keep_the_others_waiting_for_one_answer(target: Target) -> None:
    """Each was asked for by itself, ten seconds long; and the others got one step then."""
    target.leaders |= dict.fromkeys(AUDIT, 2)
    target.step, target.frozen = OneMarker(), 2
    found = target.filler.fill([*(target.hole(each) for each in AUDIT), target.hole(PAID, until=5)])
    assert found[PAID] == AppendPoint(5, 0, is_compacted=False)
    assert [str(found[each]) for each in AUDIT] == ["broker 2 says nothing"] * len(AUDIT)
    assert (target.seconds, target.looked_at) == (10.0, [AUDIT[0], PAID])
    target.frozen = None
    assert target.filler.fill([target.hole(AUDIT[1])]) == {AUDIT[1]: AppendPoint(1, 0, is_compacted=False)}


@pytest.mark.parametrize("step", [Padding(1), OneMarker(), ManyMarkers(9)], ids=["fillers", "a marker", "many markers"])
def test_nothing_is_asked_for_known_copies_of_a_broker_that_has_just_said_nothing(target: Target, step: Step) -> None:
    """A transaction would end once that broker has written its marker, and keep the others from theirs."""
    target.leaders |= dict.fromkeys(AUDIT, 2)
    target.filler.fill([target.hole(each, until=0) for each in (PAID, *AUDIT[:2])])
    target.step, target.frozen = step, 2
    found = target.filler.fill([target.hole(each) for each in (PAID, *AUDIT)])
    assert (target.seconds, target.written[0][1], found[PAID]) == (10.0, (PAID,), AppendPoint(1, 0, is_compacted=False))
    assert [str(found[each]) for each in AUDIT] == ["broker 2 says nothing"] * len(AUDIT)


def test_a_copy_that_can_take_no_marker_keeps_none_waiting_that_the_same_broker_leads(target: Target) -> None:
    target.step, target.unable = OneMarker(), {ORDERS: "1 of its replicas are in sync"}
    assert target.filler.fill([target.hole(), target.hole(PAID, until=3)])[PAID] == AppendPoint(
        3, 0, is_compacted=False
    )


@pytest.mark.parametrize("step", [Padding(1), OneMarker(), ManyMarkers(9)], ids=["fillers", "a marker", "many markers"])
def test_what_was_filled_stays_so_when_a_later_step_of_the_same_fill_fails(target: Target, step: Step) -> None:
    """It was told as not filled; what was there by then was not taken for what had filled it before the next epoch."""
    target.step, target.fails_at, target.failure = step, 3, ConnectionFailed("west hung up")
    (point,) = target.filler.fill([target.hole(until=9)]).values()
    assert point == AppendPoint(2, 0, is_compacted=False)
    target.bounds[ORDERS] = Bounds(0, 2)
    assert target.filler.fill([target.hole(until=9, end=2)]) == {ORDERS: target.failure}


@pytest.mark.parametrize(
    ("step", "failure"),
    [(RaiseEpoch(), ConnectionFailed("west hung up")), (Padding(1), Moved(ORDERS, 1, 5))],
    ids=["nothing was filled", "something else is there"],
)
def test_a_problem_is_told_where_nothing_was_filled_before_or_something_else_is_there(
    target: Target, step: Step, failure: Exception
) -> None:
    target.step, target.fails_at, target.failure = step, 2, failure
    assert target.filler.fill([target.hole(until=9)]) == {ORDERS: failure}


def test_a_copy_that_has_lost_its_end_since_it_was_filled_before_gets_nothing_in_the_place_of_records(
    target: Target,
) -> None:
    """A marker lay where an unclean election had taken a record away, and nobody missed that."""
    target.filler.fill([target.hole(), target.hole(PAID)])
    target.ends[ORDERS] = 7
    found = target.filler.fill([target.hole(until=9, end=8, sequence=7), target.hole(PAID, until=2, end=1)])
    assert str(found[ORDERS]) == "orders-0 ends at 7, and not at 8: what lies there is looked up"
    assert found[PAID] == AppendPoint(2, 0, is_compacted=False)
    assert target.asked_ends == [(ORDERS, PAID)], "all of a broker at once"


def test_a_copy_that_records_were_appended_to_since_is_filled_behind_them(target: Target) -> None:
    target.filler.fill([target.hole()])
    target.ends[ORDERS] = 8
    found = target.filler.fill([target.hole(until=9, end=8, sequence=7)])
    assert found == {ORDERS: AppendPoint(9, 7, is_compacted=False)}
    assert target.looked_at == [ORDERS]


@pytest.mark.parametrize(
    ("start", "end", "is_compacted", "is_done"),
    [(5, 5, False, True), (0, 5, False, False), (0, 4, False, False), (0, 5, True, True), (0, 4, True, False)],
    ids=["removed", "not removed", "not reached", "the cleaner removes it", "not reached by tombstones"],
)
def test_what_fills_a_copy_up_to_the_source_s_start_is_to_be_removed_before_that_is_done(
    target: Target, start: int, end: int, *, is_compacted: bool, is_done: bool
) -> None:
    target.bounds[ORDERS] = Bounds(start, end)
    hole = target.hole(until=end, end=end, is_compacted=is_compacted, begins_at=5)
    assert target.filler.fill([hole]) == {
        ORDERS: AppendPoint(end, 0, is_compacted=is_compacted, begins_at=-1 if is_done else 5)
    }


@pytest.mark.parametrize(
    ("fails_at", "failure", "may_arrive"),
    [
        (1, None, False),
        (1, ConnectionFailed("west hung up"), True),
        # Some of it was acknowledged before.
        (2, ConnectionFailed("west hung up"), True),
        (1, BrokerRefused("west", kafka.errors.TopicAuthorizationFailedError), False),
    ],
)
def test_what_was_sent_without_an_answer_may_arrive_and_what_was_refused_does_not(
    target: Target, fails_at: int, failure: KafkaProblem | None, *, may_arrive: bool
) -> None:
    target.step, target.fails_at, target.failure = Padding(1), fails_at, failure
    target.filler.fill([target.hole(ORDERS, 3)])
    assert (ORDERS in target.filler.unanswered) is may_arrive
    target.failure = None
    target.filler.fill([target.hole(ORDERS, 6)])
    assert not target.filler.unanswered, "what the broker takes has it refuse what was sent before"


def test_to_a_copy_that_can_take_no_marker_nothing_was_sent(target: Target) -> None:
    """A cut stayed UNKNOWN for a copy with too few replicas in sync."""
    target.step, target.unable = OneMarker(), {ORDERS: "1 replica in sync, min.insync.replicas is 2"}
    target.filler.fill([target.hole(ORDERS)])
    assert not target.filler.unanswered
