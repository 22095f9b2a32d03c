"""What an epoch is told of each partition, and of which beginning of the flow its results are taken in."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirror.clock import steady_seconds
from mirror.config.resolving import load
from mirror.copier.epochs import EpochFailed
from mirror.copier.work import Handover, PartitionResult, PartitionWork, Slot, SlotEnd, TaskResult, TaskWork
from mirror.engine import run as module
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.lease import Lease
from mirror.engine.run import Engine
from mirror.engine.taken_producers import Writing
from mirror.kafka.batch import Producer
from mirror.model.flow_state import DeadChunks, FlowState
from mirror.model.mm2_trace import Mm2Trace
from mirror.model.partition import TopicPartition
from mirror.model.position import Position

ORDERS, COPY = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
CLEAN = Handover(Position(5, 5, 0, True), (), clean=True)
FURTHER = replace(CLEAN, position=Position(9, 9, 0, True))


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    file = tmp_path / "mirror.properties"
    file.write_text(
        "clusters = east, west\neast.bootstrap.servers = east:9092\nwest.bootstrap.servers = west:9092\n"
        "east->west.enabled = true\n"
    )
    return Engine(load(file))


@pytest.fixture
def runtime(engine: Engine) -> FlowRuntime:
    """The flow as it is led, with one partition."""
    (found,) = engine._runtimes.values()
    found.lead(1, was_settled=True, lease=Lease())
    found.partitions, found.handovers, found.is_known = ((ORDERS, COPY, "", ""),), {ORDERS: CLEAN}, True
    return found


def planned(engine: Engine) -> list[PartitionWork]:
    return [one for work in engine._plan_epoch(1.0, 1) for one in work.partitions]


def test_a_partition_is_not_planned_before_its_copy_is_fenced(engine: Engine, runtime: FlowRuntime) -> None:
    """Its tail could still grow behind the place to which it was matched."""
    runtime.late.unfenced = {COPY: None}
    assert planned(engine) == []
    runtime.take_fenced({COPY}, {}, FlowState())
    assert [one.source for one in planned(engine)] == [ORDERS]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda runtime: runtime.lease.end(),
        lambda runtime: setattr(runtime, "is_known", False),
        lambda runtime: runtime.takeovers.update({ORDERS: Mm2Trace(5)}),
        lambda runtime: runtime.stopped.update({ORDERS: "at a gap"}),
    ],
    ids=["no right to write", "positions not known", "to be taken over", "stopped"],
)
def test_what_cannot_be_copied_now_is_not_planned(
    engine: Engine, runtime: FlowRuntime, spoil: Callable[[FlowRuntime], object]
) -> None:
    assert len(planned(engine)) == 1
    spoil(runtime)
    assert planned(engine) == []


def test_a_task_goes_on_with_the_sequence_that_its_producer_has_reached(engine: Engine, runtime: FlowRuntime) -> None:
    """One that began again at 0 would be refused, or taken for what was sent before."""
    runtime.writing = Writing(Producer(7, 1), {COPY: 5})
    assert [each.sequence for each in planned(engine)] == [5]


def test_what_of_the_offset_map_is_dead_is_told_to_one_epoch(engine: Engine, runtime: FlowRuntime) -> None:
    dead = DeadChunks(0, (1, 2))
    runtime.take_dead({ORDERS: dead})
    assert [[one.dead for one in planned(engine)] for _ in range(2)] == [[dead], [None]]


def test_where_a_task_of_an_earlier_beginning_got_to_is_past(engine: Engine, runtime: FlowRuntime) -> None:
    """The flow was read back since; others may have written as its producer."""
    flow = runtime.settings.flow
    (work,) = engine._plan_epoch(1.0, 1)
    result = TaskResult((PartitionResult(flow, ORDERS, FURTHER),))
    engine._take_result(work, result, {flow: runtime.begun - 1}, 1.0)
    assert runtime.handovers == {ORDERS: CLEAN}
    engine._take_result(work, result, {flow: runtime.begun}, 1.0)
    assert runtime.handovers == {ORDERS: FURTHER}


def test_tasks_say_in_what_they_write_down_of_which_epoch_they_are(engine: Engine, runtime: FlowRuntime) -> None:
    """What one of an earlier epoch writes late does not count, whether that ended well or failed."""
    said = []
    for engine.epochs_ended, engine.epochs_failed in ((0, 0), (1, 0), (1, 1)):
        (work,) = engine._plan_epoch(1.0, 1)
        said += [(flow.term, flow.epoch) for flow in work.flows]
    assert said == [(runtime.term, 0), (runtime.term, 1), (runtime.term, 2)]


def test_a_slot_that_a_task_of_an_earlier_beginning_has_lost_was_taken_anew_since(
    engine: Engine, runtime: FlowRuntime
) -> None:
    flow = runtime.settings.flow
    runtime.slots.known = (Slot("east-0", Producer(7, 0, is_transactional=True), {}, 1.0, None),)
    result = TaskResult((), {}, {flow: SlotEnd({}, "the transaction was aborted")})
    engine._take_slots([result], {flow: runtime.begun - 1})
    assert runtime.is_known
    engine._take_slots([result], {flow: runtime.begun})
    assert not runtime.is_known


def test_behind_an_epoch_that_failed_nothing_is_planned_before_all_is_read_back(
    engine: Engine, runtime: FlowRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its tasks wrote is on the target, and no result tells of it."""
    stop, known = threading.Event(), list[bool]()

    def fail(_: object) -> Any:
        known.append(runtime.is_known)
        stop.set()
        raise EpochFailed("its executor is lost")

    monkeypatch.setattr(module, "_BACKOFF_SECONDS", 0.0)
    monkeypatch.setattr(engine._epochs, "at_once", lambda: 1)
    monkeypatch.setattr(engine._epochs, "run", fail)
    engine._copy(stop)
    assert (known, runtime.is_known) == ([True], False)
    assert planned(engine) == []


def test_the_first_epoch_of_each_flow_is_short_also_of_one_whose_positions_are_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How the copying goes is known once one has ended: an idle flow was STARTING for an epoch of half a minute."""
    file = tmp_path / "mirror.properties"
    file.write_text(
        "clusters = east, west\neast.bootstrap.servers = east:9092\nwest.bootstrap.servers = west:9092\n"
        "east->west.enabled = true\nwest->east.enabled = true\nmirror.epoch.seconds = 30\n"
    )
    engine, stop, seconds = Engine(load(file)), threading.Event(), list[float]()
    first, second = engine._runtimes.values()

    def know(runtime: FlowRuntime) -> None:
        runtime.partitions, runtime.handovers, runtime.is_known = ((ORDERS, COPY, "", ""),), {ORDERS: CLEAN}, True

    def run(works: list[TaskWork]) -> list[TaskResult]:
        seconds.append(works[0].seconds)
        if len(seconds) == 1:
            know(second)
        if len(seconds) == 3:
            stop.set()
        return [TaskResult(()) for _ in works]

    monkeypatch.setattr(engine._epochs, "at_once", lambda: 1)
    monkeypatch.setattr(engine._epochs, "run", run)
    for each in (first, second):
        each.lead(1, was_settled=True, lease=Lease())
    know(first)
    engine._copy(stop)
    assert seconds == [2.0, 2.0, 30.0]


def test_an_epoch_has_no_more_tasks_than_a_flow_has_slots(
    engine: Engine, runtime: FlowRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With exactly once two tasks cannot write with one transactional id."""
    stop, asked = threading.Event(), list[int]()

    def plan(_: float, at_once: int) -> list[TaskWork]:
        asked.append(at_once)
        stop.set()
        return []

    monkeypatch.setattr(engine._epochs, "at_once", lambda: 4)
    monkeypatch.setattr(engine, "_plan_epoch", plan)
    engine._copy(stop)
    slots = [Slot(f"east-{each}", Producer(each, 0, is_transactional=True), {}, 1.0, None) for each in range(3)]
    for runtime.slots.known in (tuple(slots), tuple(slots[:2])):
        stop.clear()
        engine._copy(stop)
    assert asked == [4, 3, 2]


def test_tasks_may_write_for_as_long_as_every_flow_that_they_copy_may_be_written(engine: Engine) -> None:
    """They hear of one time for all."""
    long, short = Lease(600.0), Lease(60.0)
    for each in (long, short):
        each.renew(steady_seconds())
    engine._rights = ((long, 0.0), (short, 5.0))
    assert 60 < engine._write_seconds() <= 65
    short.end()
    assert not engine._write_seconds() > 0


@pytest.mark.parametrize(
    ("is_settled", "has_failed", "said"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_only_an_engine_that_ended_in_order_with_nothing_under_way_tells_its_successor_so(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, *, is_settled: bool, has_failed: bool, said: bool
) -> None:
    """The successor fences nothing then, and does not compare what lies behind the positions."""
    told = list[bool]()

    def copy(stop: threading.Event) -> None:
        stop.set()
        if has_failed:
            raise KeyError("a defect")

    for name in ("check", "_lead", "_control", "_heartbeats", "_settle"):
        monkeypatch.setattr(engine, name, lambda *_: None)
    for name in ("start", "stop", "end_epoch", "abort"):
        monkeypatch.setattr(engine._epochs, name, lambda: None)
    monkeypatch.setattr(module.Takeovers, "run", lambda *_: None)
    monkeypatch.setattr(module, "_watch", lambda *_: None)
    monkeypatch.setattr(module.FlowLeader, "end", lambda _, *, is_settled: told.append(is_settled))
    monkeypatch.setattr(FlowRuntime, "is_settled", is_settled)
    monkeypatch.setattr(engine, "_copy", copy)
    if has_failed:
        with pytest.raises(module.PartEnded):
            engine.run(threading.Event())
    else:
        engine.run(threading.Event())
    assert told == [said]
