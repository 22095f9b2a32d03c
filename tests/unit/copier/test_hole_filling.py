"""Filling holes of copies with the source's offsets: what many markers at once are refused for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import kafka.errors
import pytest

from mirror.copier import hole_filling
from mirror.copier.append_point import AppendPoint
from mirror.copier.hole_filling import HoleFiller
from mirror.copier.same_lane import Hole
from mirror.copier.work import FlowWork
from mirror.kafka.batch import PLAIN
from mirror.kafka.problems import BrokerRefused
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.same_offsets.filling import Ahead, Copy, ManyMarkers, OneMarker

ORDERS = TopicPartition("orders", 0)


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
