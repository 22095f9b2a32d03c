"""What was sent to a copy while it had the source's offsets is refused, once it is translated, or it is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mirror.copier.work import Handover
from mirror.engine import same_offsets_fence
from mirror.engine.flow_messages import notes
from mirror.engine.flow_pauses import pause_report
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.lease import Lease
from mirror.engine.same_offsets_fence import fence_same_offsets
from mirror.kafka import codes
from mirror.kafka.batch import Producer
from mirror.kafka.problems import ConnectionFailed, KafkaProblem
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.pause import Pauses, PauseWish
from mirror.model.position import Position
from mirror.same_offsets.chain import producer_of
from tests.unit.control.builders import flow_settings

ORDERS, BILLS, EVER = TopicPartition("orders", 0), TopicPartition("bills", 0), TopicPartition("ever translated", 0)
COPIES = {source: TopicPartition(f"east.{source.topic}", 0) for source in (ORDERS, BILLS, EVER)}
IDS = {ORDERS: "o" * 22, BILLS: "b" * 22, EVER: "e" * 22}
EVERYTHING = frozenset(COPIES.values())


class Target:
    """In the place of the cluster: what it answers, and which markers it has got."""

    def __init__(self) -> None:
        self.grants = True
        self.answers: dict[TopicPartition, int | KafkaProblem] = {}
        self.got: dict[TopicPartition, tuple[Producer, int]] = {}

    def __enter__(self) -> Target:
        return self

    def __exit__(self, *_: object) -> None: ...

    def may_write_markers(self) -> bool:
        return self.grants

    def write_markers(
        self, counts: Mapping[TopicPartition, int], producer: Producer
    ) -> dict[TopicPartition, int | KafkaProblem]:
        self.got |= {copy: (producer, count) for copy, count in counts.items()}
        return {copy: self.answers.get(copy, 0) for copy in counts}


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    found = Target()
    monkeypatch.setattr(same_offsets_fence, "Appender", lambda *_: found)
    return found


@pytest.fixture
def runtime() -> FlowRuntime:
    """Two copies had the source's offsets until now, and one never had."""
    found = FlowRuntime(flow_settings())
    found.lead(1, was_settled=False, lease=Lease())
    for source, copy in COPIES.items():
        position = Position(5, 5, 0, True, target_id=IDS[source], same_offsets=source != EVER)
        found.handovers[source] = Handover(position, (), clean=False)
        found.late.unfenced[copy] = None
    found.is_known = True
    return found


def test_each_copy_gets_a_marker_of_the_epoch_behind_the_one_that_it_was_written_in(
    target: Target, runtime: FlowRuntime
) -> None:
    assert fence_same_offsets(runtime, EVERYTHING) == {}
    flow = Flow("east", "west")
    written = {each: producer_of(flow, IDS[each]) for each in (ORDERS, BILLS)}
    assert target.got == {
        COPIES[each]: (Producer(producer.producer_id, producer.epoch + 1), 1) for each, producer in written.items()
    }
    runtime.late.take_fenced(EVERYTHING, {}, None, None, is_own=False)
    assert runtime.late.is_settled
    assert notes(runtime) == ()


def test_only_what_was_asked_for_gets_one(target: Target, runtime: FlowRuntime) -> None:
    assert fence_same_offsets(runtime, {COPIES[BILLS], COPIES[EVER]}) == {}
    assert target.got.keys() == {COPIES[BILLS]}


@pytest.mark.parametrize("how", ["as the cluster says", "as the broker answers"])
def test_without_the_right_it_is_told_that_nothing_is_refused(target: Target, runtime: FlowRuntime, how: str) -> None:
    if how == "as the cluster says":
        target.grants = False
    else:
        target.answers = dict.fromkeys(COPIES.values(), codes.CLUSTER_AUTHORIZATION_FAILED)
    assert fence_same_offsets(runtime, EVERYTHING) == {}, "nothing would come of another try"
    runtime.late.take_fenced(EVERYTHING, {}, None, None, is_own=False)
    assert not runtime.late.is_settled
    (note,) = notes(runtime)
    assert note.endswith("is noticed, not refused: grant Alter on the cluster")
    runtime.pauses = Pauses((PauseWish("all", None, True, "ann", 1),))
    report = pause_report(runtime, "engine")
    assert report is not None
    assert (report.busy, report.unrefused, report.weakness) == (frozenset(), {ORDERS, BILLS}, note)
    runtime.late.begin_term()
    assert runtime.late.is_settled


def test_where_the_answer_is_no_fence_yet_the_copy_waits(target: Target, runtime: FlowRuntime) -> None:
    silent: Any = ConnectionFailed("west: no answer")
    target.answers = {COPIES[ORDERS]: silent, COPIES[BILLS]: 19}
    troubles = fence_same_offsets(runtime, EVERYTHING)
    assert troubles == {
        COPIES[ORDERS]: "west: no answer",
        COPIES[BILLS]: "it has got no marker: NotEnoughReplicas",
    }


def test_a_later_epoch_is_a_fence_too(target: Target, runtime: FlowRuntime) -> None:
    target.answers = dict.fromkeys(COPIES.values(), codes.INVALID_PRODUCER_EPOCH)
    assert fence_same_offsets(runtime, EVERYTHING) == {}
    assert runtime.late.same_offsets_unrefused == set()
