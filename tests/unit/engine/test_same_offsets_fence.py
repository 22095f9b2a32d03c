"""What was sent to a copy while it had the source's offsets is refused, once it is translated, or it is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from mirror.copier.work import Handover, PartitionResult
from mirror.engine import same_offsets_fence
from mirror.engine.flow_messages import notes
from mirror.engine.flow_pauses import pause_report
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.late_writes import KEEPS_OFFSETS
from mirror.engine.lease import Lease
from mirror.engine.mm2_traces import Mm2Traces
from mirror.engine.same_offsets_fence import fence_same_offsets
from mirror.engine.taken_producers import TakenProducers
from mirror.kafka import codes
from mirror.kafka.batch import Producer
from mirror.kafka.partition_state import ActiveProducer
from mirror.kafka.problems import ConnectionFailed, KafkaProblem, LeaderUnknown
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.pause import Pauses, PauseWish
from mirror.model.position import Position
from mirror.same_offsets.chain import producer_of
from tests.unit.control.builders import flow_settings

ORDERS, BILLS, EVER = TopicPartition("orders", 0), TopicPartition("bills", 0), TopicPartition("ever translated", 0)
COPIES = {source: TopicPartition(f"east.{source.topic}", 0) for source in (ORDERS, BILLS, EVER)}
IDS = {ORDERS: "o" * 22, BILLS: "b" * 22, EVER: "e" * 22}
CLUSTER_AUTHORIZATION_FAILED = 31
EVERYTHING = frozenset(COPIES.values())
WRITTEN = {source: producer_of(Flow("east", "west"), copy_id) for source, copy_id in IDS.items()}
FENCED = {source: Producer(each.producer_id, each.epoch + 1) for source, each in WRITTEN.items()}


class Target:
    """In the place of the cluster: what it answers, and which markers it has got."""

    def __init__(self) -> None:
        self.grants = True
        self.answers: dict[TopicPartition, int | KafkaProblem] = {}
        self.got: dict[TopicPartition, tuple[Producer, int]] = {}
        self.gone: set[str] = set()
        self.known: dict[TopicPartition, tuple[ActiveProducer, ...]] = {}
        for source, copy in COPIES.items():
            self.knows(copy, *([WRITTEN[source]] if source != EVER else []))

    def knows(self, copy: TopicPartition, *producers: Producer) -> None:
        self.known[copy] = tuple(ActiveProducer(each.producer_id, each.epoch, 4, -1) for each in producers)

    @property
    def channel(self) -> Target:
        return self

    def has_topic(self, topic: str) -> bool:
        return topic not in self.gone

    def topic_id(self, topic: str) -> str:
        return next(IDS[source] for source, copy in COPIES.items() if copy.topic == topic)

    def active_producers(
        self, _: object, copies: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[ActiveProducer, ...]]:
        """What the leaders tell: as whom each copy was written last; those that are not in it do not tell."""
        return {copy: self.known[copy] for copy in copies if copy in self.known}

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
    monkeypatch.setattr(same_offsets_fence.partition_state, "active_producers", found.active_producers)
    return found


@pytest.fixture
def runtime() -> FlowRuntime:
    """Two copies had the source's offsets until now, and one never had."""
    found = FlowRuntime(flow_settings())
    found.lead(1, was_settled=False, lease=Lease())
    found.writers.add(WRITTEN[ORDERS].producer_id)
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
    assert target.got == {COPIES[each]: (FENCED[each], 1) for each in (ORDERS, BILLS)}
    runtime.late.take_fenced(EVERYTHING, {}, None, None, is_own=False)
    assert runtime.late.is_settled
    assert notes(runtime) == ()


def test_only_what_was_asked_for_gets_one(target: Target, runtime: FlowRuntime) -> None:
    assert fence_same_offsets(runtime, {COPIES[BILLS], COPIES[EVER]}) == {}
    assert target.got.keys() == {COPIES[BILLS]}


def test_of_a_flow_that_never_had_the_source_s_offsets_nobody_is_asked(target: Target, runtime: FlowRuntime) -> None:
    runtime.writers.clear()
    assert fence_same_offsets(runtime, EVERYTHING) == {}
    assert target.got == {}


def test_a_copy_that_was_translated_before_the_right_was_granted_is_fenced_then(
    target: Target, runtime: FlowRuntime
) -> None:
    """Its position tells of the source's offsets no longer; what was sent to them may arrive all the same."""
    for source, handover in runtime.handovers.items():
        runtime.handovers[source] = replace(handover, position=replace(handover.position, same_offsets=False))
    assert fence_same_offsets(runtime, EVERYTHING) == {}
    assert target.got == {COPIES[each]: (FENCED[each], 1) for each in (ORDERS, BILLS)}
    for each in (ORDERS, BILLS):
        target.knows(COPIES[each], FENCED[each])
    target.got.clear()
    target.grants = False
    assert fence_same_offsets(runtime, EVERYTHING) == {}
    assert (target.got, notes(runtime)) == ({}, ()), "it is fenced"


@pytest.mark.parametrize("leader", ["has forgotten it", "does not tell"])
def test_where_no_leader_tells_a_copy_is_fenced_as_the_position_says(
    target: Target, runtime: FlowRuntime, leader: str
) -> None:
    """What a leader has forgotten it would take with any sequence."""
    for each in COPIES.values():
        if leader == "has forgotten it":
            target.knows(each)
        else:
            del target.known[each]
    fence_same_offsets(runtime, EVERYTHING)
    fenced = {ORDERS, BILLS} if leader == "has forgotten it" else COPIES.keys()
    assert target.got.keys() == {COPIES[each] for each in fenced}


def test_a_copy_of_which_nothing_is_on_record_yet_is_fenced(target: Target, runtime: FlowRuntime) -> None:
    """The engine before may have been about to begin it, and to record that."""
    runtime.partitions = ((ORDERS, COPIES[ORDERS], "", ""),)
    target.knows(COPIES[ORDERS])
    runtime.handovers.clear()
    assert fence_same_offsets(runtime, EVERYTHING) == {}
    assert target.got == {COPIES[ORDERS]: (FENCED[ORDERS], 1)}


@pytest.mark.parametrize("how", ["as the cluster says", "as the broker answers"])
def test_without_the_right_it_is_told_that_nothing_is_refused(target: Target, runtime: FlowRuntime, how: str) -> None:
    if how == "as the cluster says":
        target.grants = False
    else:
        target.answers = dict.fromkeys(COPIES.values(), CLUSTER_AUTHORIZATION_FAILED)
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


def test_a_copy_that_is_gone_is_not_waited_for(target: Target, runtime: FlowRuntime) -> None:
    """The partition waited for ever, and whoever paused the flow with it."""
    target.answers = {COPIES[each]: LeaderUnknown(f"west: {COPIES[each]} has no leader") for each in (ORDERS, BILLS)}
    target.gone = {COPIES[ORDERS].topic}
    assert fence_same_offsets(runtime, EVERYTHING) == {COPIES[BILLS]: f"west: {COPIES[BILLS]} has no leader"}
    assert runtime.late.same_offsets_unrefused == set()


def test_a_later_epoch_is_a_fence_too(target: Target, runtime: FlowRuntime) -> None:
    target.answers = dict.fromkeys(COPIES.values(), codes.INVALID_PRODUCER_EPOCH)
    assert fence_same_offsets(runtime, EVERYTHING) == {}
    assert runtime.late.same_offsets_unrefused == set()


def after_a_kill(*, was_settled: bool = False) -> FlowRuntime:
    """A flow with the source's offsets that was taken over, paused, before anything was copied."""
    found = FlowRuntime(flow_settings("mirror.offsets = same"))
    found.lead(2, was_settled=was_settled, lease=Lease())
    state = FlowState()
    state.apply(*Position(5, 5, 0, True, target_id=IDS[ORDERS], same_offsets=True, source_end=5).record(ORDERS))
    found.take_state(state, Mm2Traces(), TakenProducers(producer=Producer(7, 2)))
    found.pauses = Pauses((PauseWish("all", None, True, "ann", 1),))
    return found


def ended(upstream: int = 5, **more: Any) -> PartitionResult:
    position = Position(upstream, upstream, 0, True, target_id=IDS[ORDERS], same_offsets=True, source_end=9)
    return PartitionResult(Flow("east", "west"), ORDERS, Handover(position, (), clean=True), **more)


def unrefused(runtime: FlowRuntime) -> frozenset[TopicPartition]:
    report = pause_report(runtime, "engine")
    assert report is not None
    assert report.weakness == (KEEPS_OFFSETS if report.unrefused else "")
    assert runtime.late.is_settled == (not report.unrefused)
    return report.unrefused


def test_what_a_killed_engine_had_sent_to_the_source_s_offsets_is_told_until_this_one_has_sent_the_same() -> None:
    """A pause that the next engine confirmed said that nothing more is appended, and something was."""
    runtime = after_a_kill()
    for result in (
        ended(9, trouble="the source does not answer", source_end=9),
        ended(9, stopped="why", source_end=9),
        ended(5, source_end=7),
        ended(6, source_end=9),
    ):
        runtime.take_result(result)
        assert unrefused(runtime) == {ORDERS}
    runtime.take_result(ended(7, source_end=20))
    assert unrefused(runtime) == frozenset(), "what has come since the former one cannot have sent"


def test_a_source_that_is_silent_for_some_epochs_has_nothing_new() -> None:
    runtime = after_a_kill()
    for _ in range(2):
        runtime.take_result(ended(9))
        assert unrefused(runtime) == {ORDERS}
    runtime.take_result(ended(9))
    assert unrefused(runtime) == frozenset()


def test_after_a_clean_stop_nothing_of_it_is_on_its_way() -> None:
    report = pause_report(after_a_kill(was_settled=True), "engine")
    assert report is not None
    assert report.unrefused == frozenset()
