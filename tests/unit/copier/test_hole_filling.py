"""Filling holes of copies with the source's offsets: who may write, what is looked at anew, what is refused."""

from __future__ import annotations

from collections.abc import Iterable
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
from mirror.kafka.batch import PLAIN
from mirror.kafka.problems import BrokerRefused, ConnectionFailed
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
        channel = None

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
    """A target whose copies are filled by the steps that a test names: the end of each, and all that was written."""

    def __init__(self) -> None:
        self.bounds = {ORDERS: Bounds(0, 0), PAID: Bounds(0, 0)}
        self.step: Step = Padding(1)
        self.written: list[tuple[str, tuple[TopicPartition, ...]]] = []
        self.looked_at: list[TopicPartition] = []
        self.taken_over = 0
        self.unable: dict[TopicPartition, str] = {}
        self.failure: Exception | None = None
        self.may_write = True
        work = SimpleNamespace(flow=Flow("east", "west"), target_client={})
        self.filler = HoleFiller(cast(FlowWork, work), self.require)

    def require(self) -> None:
        if not self.may_write:
            raise ConnectionFailed("nothing is written")

    def next_step(self, _: int, copy: Copy, ahead: Ahead, __: object) -> Step | None:
        return Records(0) if copy.bounds.end >= ahead.offset else self.step

    def fill(self, kind: str, copies: Iterable[FilledCopy]) -> dict[TopicPartition, Exception]:
        copies = tuple(copies)
        self.written.append((kind, tuple(each.partition for each in copies)))
        if self.failure is not None:
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
        self.partition, self._target = partition, target
        self.stands_at(target.bounds[partition].end, 0)

    def stands_at(self, end: int, sequence: int) -> None:
        bounds = Bounds(self._target.bounds[self.partition].start, end)
        self.place = SimpleNamespace(copy=SimpleNamespace(bounds=bounds), sequence=sequence)

    def ends_at(self, end: int) -> None:
        self.stands_at(end, self.place.sequence)

    def fill(self, _: Step, __: int) -> None:
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
    appender = SimpleNamespace(channel=None, may_write_markers=lambda: True)
    monkeypatch.setattr(hole_filling, "Appender", lambda *_: appender)
    made = Target()

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
    monkeypatch.setattr(hole_filling.partition_state, "unable_to_append", lambda *_: made.unable)
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
    try:
        (found,) = target.filler.fill([target.hole()]).values()
    except ConnectionFailed as failure:
        found = failure
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
    """What had been asked for by then has happened, or never will."""
    target.step, target.failure = OneMarker(), ConnectionFailed("west hung up")
    with pytest.raises(ConnectionFailed):
        target.filler.fill([target.hole(), target.hole(PAID, until=0)])
    target.failure, target.bounds[ORDERS] = None, Bounds(0, 1)
    target.filler.fill([target.hole(end=1), target.hole(PAID)])
    assert target.taken_over == 2
    assert target.looked_at == [ORDERS, PAID] * 2


def test_a_copy_that_can_take_no_marker_now_does_not_keep_the_others_from_theirs(target: Target) -> None:
    """A transaction ends when the last of its partitions has its marker."""
    target.step, target.unable = OneMarker(), {ORDERS: "it has no leader"}
    found = target.filler.fill([target.hole(), target.hole(PAID)])
    assert str(found[ORDERS]) == "orders-0 on west: it has no leader"
    assert found[PAID] == AppendPoint(1, 0, is_compacted=False)
    assert target.written == [("a marker", (PAID,))]


def test_a_copy_that_records_were_appended_to_since_is_filled_behind_them(target: Target) -> None:
    target.filler.fill([target.hole()])
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
