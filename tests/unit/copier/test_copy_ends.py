"""Where copies end: asked beside the loop, and once more of whoever leads them then where that is before they did."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from mirror.copier.append_point import AppendPoint
from mirror.copier.connections import Connections
from mirror.copier.copy_ends import CopyEnds
from mirror.copier.hole_filling import HoleFiller
from mirror.copier.lane import Lane
from mirror.copier.links import ClusterLinks
from mirror.copier.same_lane import SameOffsetsLane
from mirror.copier.work import Handover, PartitionWork
from mirror.kafka.answers import PartitionAnswers
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.same_offsets.chain import producer_of
from tests.unit.copier.builders import dense, record
from tests.unit.copier.lanes import take

FLOW, ORDERS = Flow("east", "west"), TopicPartition("orders", 0)


class Asked:
    """Connections that keep what is to be told the answer, and a cluster whose leaders are forgotten."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[Any], None]] = []
        self.forgotten: list[set[str]] = []

    def is_asking(self, _: object) -> bool:
        return bool(self.waiting)

    def ask(self, _: object, __: object, told: Callable[[Any], None]) -> None:
        self.waiting.append(told)

    def forget_leaders(self, topics: set[str]) -> None:
        self.forgotten.append(topics)

    def answer(self, end: int) -> None:
        answers: PartitionAnswers[int] = PartitionAnswers()
        answers[ORDERS] = end
        self.waiting.pop()(answers)


def test_who_says_that_a_copy_is_shorter_is_looked_up_and_asked_again_after_a_moment() -> None:
    position = Position(10, 10, 0, True, same_offsets=True)
    work = PartitionWork(FLOW, ORDERS, ORDERS, "id", None, pad_limit=1_000)
    handover = Handover(position, (), clean=True)
    lane = SameOffsetsLane(work, handover, producer_of(FLOW), AppendPoint(10, 0, False), None)
    take(lane, dense([record(10)]))
    asked, lanes = Asked(), cast(list[Lane], [lane])
    share = SimpleNamespace(flow=FLOW, lanes=lanes, filler=cast(HoleFiller, object()))
    ends = CopyEnds(cast(Connections, asked), lambda _: None)

    def look(now: float) -> None:
        ends.look(now, [share], {(FLOW, "target"): cast(ClusterLinks, asked)})

    look(lane.look_at)
    asked.answer(10)
    assert (lane.stream.can_send(float("inf")), asked.forgotten) == (True, [])
    lane.stream.take()
    lane.stream.answered(0, 10, "")
    take(lane, dense([record(11)]))
    look(lane.look_at)
    asked.answer(9)
    assert (lane.is_lost, asked.forgotten) == (False, [{"orders"}])
    look(lane.look_at - 0.1)
    assert asked.waiting == []
    look(lane.look_at)
    asked.answer(9)
    assert lane.is_lost
