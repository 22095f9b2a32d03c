"""Copies that cannot have the source's offsets: they stop, or are translated from then on, as the file says."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.config.resolving import load
from mirror.copier.work import PartitionResult
from mirror.engine import flow_messages
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.mm2_traces import Mm2Traces
from mirror.engine.taken_producers import TakenProducers
from mirror.kafka.batch import Producer
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.position import Position

ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 0)
COPY = TopicPartition("A.orders", 0)
REFUSED = "A.orders-0 on B cannot get the source's offsets: it holds something"


@pytest.fixture
def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> FlowRuntime:
    """A flow whose copies are to have the source's offsets, with what the parameter says of those that cannot."""
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = A, B\nA.bootstrap.servers = a:9092\nB.bootstrap.servers = b:9092\nA->B.enabled = true\n"
        f"mirror.offsets = same\nmirror.offsets.refused = {getattr(request, 'param', 'translate')}\n"
    )
    (settings,) = load(file).enabled_flows
    made = FlowRuntime(settings)
    made.take_state(FlowState(), Mm2Traces(), TakenProducers((), Producer(1, 0)))
    return made


def refused(runtime: FlowRuntime, *, cannot: bool) -> PartitionResult:
    return PartitionResult(runtime.settings.flow, ORDERS, None, stopped=REFUSED, cannot_have_offsets=cannot)


def test_what_is_refused_is_translated_from_then_on_and_told_once_nothing_can_arrive_late(runtime: FlowRuntime) -> None:
    runtime.take_result(refused(runtime, cannot=True))
    assert runtime.stopped == {}
    assert (runtime.has_source_offsets(ORDERS), runtime.has_source_offsets(BILLS)) == (False, True)
    assert COPY in runtime.late.unfenced
    assert any("1 partition is translated" in note and REFUSED in note for note in flow_messages.notes(runtime))


def test_what_an_engine_has_translated_the_next_one_does_too_behind_a_fence(runtime: FlowRuntime) -> None:
    state = FlowState()
    state.positions[ORDERS] = Position(5, 8, 0, True, target=COPY.topic)
    state.positions[BILLS] = Position(5, 5, 0, True, target="A.bills", same_offsets=True)
    # Heartbeats are always translated, and nothing to be told of.
    state.positions[TopicPartition("heartbeats", 0)] = Position(5, 8, 0, True, target="A.heartbeats")
    runtime.take_state(state, Mm2Traces(), TakenProducers((), Producer(1, 1)))
    assert set(runtime.translated.reasons) == {ORDERS}
    assert (runtime.has_source_offsets(ORDERS), runtime.has_source_offsets(BILLS)) == (False, True)
    assert set(runtime.late.unfenced) == {COPY, TopicPartition("A.heartbeats", 0)}


def test_what_is_stopped_for_another_reason_stays_stopped(runtime: FlowRuntime) -> None:
    runtime.take_result(refused(runtime, cannot=False))
    assert runtime.stopped == {ORDERS: REFUSED}
    assert runtime.has_source_offsets(ORDERS)


@pytest.mark.parametrize("runtime", ["stop"], indirect=True)
def test_unless_the_file_says_so_nothing_is_translated(runtime: FlowRuntime) -> None:
    runtime.take_result(refused(runtime, cannot=True))
    assert runtime.stopped == {ORDERS: REFUSED}
    assert runtime.has_source_offsets(ORDERS)
