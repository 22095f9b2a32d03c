"""What the engine keeps of a flow between epochs: where its producers stand, lost slots, and what is told of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from mirror.config.resolving import load
from mirror.control.tick import TickReport
from mirror.copier.work import Handover, PartitionResult, SlotEnd, TaskResult, Throttled
from mirror.engine import flow_messages
from mirror.engine.copied_back import CopiedBack
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.mm2_traces import Mm2Traces
from mirror.engine.settled import settled
from mirror.engine.taken_producers import TakenProducers
from mirror.kafka.batch import Producer
from mirror.model.flow_state import FlowState
from mirror.model.mm2_trace import Mm2Trace
from mirror.model.partition import TopicPartition
from mirror.model.patterns import PatternFilter
from mirror.model.position import Position
from tests.flows import EAST_WEST
from tests.unit.control.builders import flow_settings

ORDERS, BILLS, STATE = (TopicPartition(topic, 0) for topic in ("A.orders", "A.bills", "mm2-state.A.internal"))
PRODUCERS = tuple((f"A-mm2-MirrorSourceConnector-{number}", Producer(40 + number, 1, True)) for number in range(2))


@pytest.fixture
def runtime(tmp_path: Path) -> FlowRuntime:
    """A flow in transactions, of two tasks."""
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = A, B\nA.bootstrap.servers = a:9092\nB.bootstrap.servers = b:9092\nA->B.enabled = true\n"
        "B.exactly.once.source.support = enabled\n"
    )
    (settings,) = load(file).enabled_flows
    found = FlowRuntime(settings)
    found.take_state(FlowState(), Mm2Traces(), TakenProducers(PRODUCERS))
    return found


def test_a_task_is_told_the_sequences_of_what_it_writes_to(runtime: FlowRuntime) -> None:
    assert runtime.writers == {40, 41}
    runtime.take_slot(1, SlotEnd({ORDERS: 5, STATE: 7}))
    runtime.take_slot(1, SlotEnd({BILLS: 9, STATE: 8}))
    slot = runtime.slot(1, {BILLS}, {STATE.topic})
    assert slot is not None
    assert (slot.transactional_id, slot.producer) == PRODUCERS[1]
    assert slot.sequences == {BILLS: 9, STATE: 8}
    former = runtime.slot(1, {ORDERS}, set())
    assert former is not None
    assert former.sequences == {ORDERS: 5}, "what it did not write to this time stands where it stood"
    other = runtime.slot(0, {ORDERS}, {STATE.topic})
    assert other is not None
    assert other.sequences == {}
    assert runtime.is_known


def test_a_lost_slot_makes_the_flow_begin_anew_with_fresh_sequences(runtime: FlowRuntime) -> None:
    runtime.take_slot(0, SlotEnd({ORDERS: 5}))
    runtime.take_slot(0, SlotEnd({ORDERS: 6}, "fenced"))
    assert not runtime.is_known
    runtime.take_state(FlowState(), Mm2Traces(), TakenProducers(PRODUCERS))
    slot = runtime.slot(0, {ORDERS}, set())
    assert slot is not None
    assert slot.sequences == {}


def test_slots_are_given_up_whose_tasks_have_come_back_unless_another_has_taken_them(runtime: FlowRuntime) -> None:
    """Only of these it is certain that nobody writes with them; of an epoch that goes on it is not known."""
    (first, one), (second, another) = PRODUCERS
    runtime.take_slot(0, SlotEnd({}))
    runtime.take_slot(1, SlotEnd({}, "gets nowhere", is_stuck=True))
    runtime.between_epochs()
    assert runtime.slots.given_up == {first: one, second: another}
    runtime.take_state(FlowState(), Mm2Traces(), TakenProducers(PRODUCERS))
    assert runtime.slots.given_up == {}
    runtime.take_slot(0, SlotEnd({}))
    runtime.between_epochs()
    assert runtime.slots.given_up == {}
    runtime.take_slot(0, SlotEnd({}))
    runtime.take_slot(1, SlotEnd({}, "fenced"))
    assert runtime.slots.given_up == {first: one}


def test_a_slot_that_is_lost_again_and_again_waits_longer_each_time(runtime: FlowRuntime) -> None:
    """A cluster that is only slow would never get anything whole otherwise."""
    waits = []
    for _ in range(6):
        runtime.take_slot(1, SlotEnd({}))
        runtime.take_slot(0, SlotEnd({}, "gets nowhere", is_stuck=True))
        runtime.take_state(FlowState(), Mm2Traces(), TakenProducers(PRODUCERS))
        waits.append(runtime.slots.known[0].patience_seconds)
    assert waits == [4, 8, 16, 30, 30, 30]
    assert runtime.slots.known[1].patience_seconds == 2
    runtime.take_slot(0, SlotEnd({}))
    runtime.take_state(FlowState(), Mm2Traces(), TakenProducers(PRODUCERS))
    assert runtime.slots.known[0].patience_seconds == 2


def test_a_lost_slot_keeps_nothing_of_what_its_task_says(runtime: FlowRuntime) -> None:
    """Nobody knows what the target has got: until it is taken over no task is told a sequence of it."""
    runtime.take_slot(0, SlotEnd({ORDERS: 5}))
    runtime.take_slot(0, SlotEnd({ORDERS: 9}, "fenced"))
    slot = runtime.slot(0, {ORDERS}, set())
    assert slot is not None
    assert slot.sequences == {ORDERS: 5}


def test_what_was_on_record_is_looked_up_on_the_target_before_the_copy_goes_on() -> None:
    """Somebody may have written on since; and what former tasks wrote is known by their producer ids."""
    runtime = FlowRuntime(flow_settings())
    runtime.writers = {3}
    runtime.take_state(
        FlowState(positions={ORDERS: Position(9, 9, 0, True)}, writers={5, 6}), Mm2Traces(), TakenProducers()
    )
    assert runtime.handovers == {ORDERS: Handover(Position(9, 9, 0, True), (), clean=False)}
    assert runtime.writers == {3, 5, 6}
    assert runtime.is_known


def test_a_reason_is_told_as_long_as_it_holds() -> None:
    runtime = FlowRuntime(flow_settings())
    for stopped, trouble in (("poison", "no leader"), (None, "no leader"), (None, None)):
        runtime.take_result(PartitionResult(EAST_WEST, ORDERS, None, stopped=stopped, trouble=trouble))
        assert runtime.stopped == ({ORDERS: "poison"} if stopped else {})
        assert runtime.troubles == ({ORDERS: "no leader"} if trouble else {})


def test_of_a_partition_that_is_not_copied_any_more_nothing_is_wrong() -> None:
    runtime = FlowRuntime(flow_settings())
    runtime.take_partitions(tuple((each, each, "id", "copy") for each in (ORDERS, BILLS)))
    for source in (ORDERS, BILLS):
        runtime.take_result(PartitionResult(EAST_WEST, source, None, stopped="poison", trouble="no leader"))
    runtime.take_partitions(((BILLS, BILLS, "id", "copy"),))
    assert (runtime.stopped, runtime.troubles) == ({BILLS: "poison"}, {BILLS: "no leader"})


def test_where_a_topic_was_made_anew_it_is_looked_again_whether_it_can_be_copied() -> None:
    runtime = FlowRuntime(flow_settings())
    runtime.take_partitions(tuple((each, each, "id", "copy") for each in (ORDERS, BILLS)))
    for source in (ORDERS, BILLS):
        runtime.take_result(PartitionResult(EAST_WEST, source, None, stopped="poison"))
    runtime.take_partitions(((ORDERS, ORDERS, "id", "another"), (BILLS, BILLS, "id", "copy")))
    assert runtime.stopped == {BILLS: "poison"}


def test_what_the_flow_back_copies_is_told_to_the_tasks_when_it_is_of_other_topics() -> None:
    changes: list[None] = []
    runtime = FlowRuntime(flow_settings(), lambda: changes.append(None))
    position = Position(5, 5, 0, True, topic_id="id", target_id="copy", same_offsets=True)
    for now, told in (
        (position, 1),
        (replace(position, upstream=9), 1),
        (replace(position, topic_id="another"), 2),
    ):
        runtime.take_mirrors({}, {}, frozenset(), CopiedBack(frozenset({ORDERS.topic}), {ORDERS: now, BILLS: now}))
        assert runtime.copied_back.of(ORDERS) == now
        assert len(changes) == told
    assert runtime.copied_back.of(BILLS) is None


def test_what_is_left_out_is_told_to_the_tasks_when_it_changes() -> None:
    changes: list[None] = []
    runtime = FlowRuntime(flow_settings(), lambda: changes.append(None))
    left_out = {"orders": ("mm2-state.north.internal",)}
    for now, told in ((left_out, 1), (dict(left_out), 1), ({}, 2)):
        runtime.take_mirrors({}, now, frozenset({"orders"}), CopiedBack())
        assert runtime.left_out == now
        assert len(changes) == told


@pytest.mark.parametrize("written_by_mm2", [True, False])
def test_a_partition_is_taken_over_only_if_java_mirrormaker_is_found_to_have_copied_it(written_by_mm2: bool) -> None:
    """What it may have left is not what it has left."""
    runtime = FlowRuntime(flow_settings())
    runtime.take_state(FlowState(), Mm2Traces(has_run=True), TakenProducers())
    runtime.take_result(PartitionResult(EAST_WEST, ORDERS, None, written_by_mm2=written_by_mm2))
    assert runtime.takeovers == ({ORDERS: Mm2Trace(is_alone=True)} if written_by_mm2 else {})
    assert runtime.trace(ORDERS) == Mm2Trace(is_alone=True)


def test_what_the_flow_is_found_to_have_copied_without_a_record_of_it_is_taken_over_too() -> None:
    """Under unchanged names others write as well; nothing is begun there as if it were new."""
    runtime = FlowRuntime(
        flow_settings("replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy")
    )
    runtime.take_state(FlowState(), Mm2Traces(matches=False), TakenProducers())
    assert runtime.trace(ORDERS) is None
    runtime.take_result(PartitionResult(EAST_WEST, ORDERS, None, written_by_mm2=True))
    assert runtime.takeovers == {ORDERS: Mm2Trace(matches=False, is_alone=True)}


def test_what_is_certain_of_java_mirrormaker_comes_before_what_is_possible() -> None:
    runtime = FlowRuntime(flow_settings())
    runtime.take_state(FlowState(), Mm2Traces({ORDERS: Mm2Trace(5)}, has_run=True), TakenProducers())
    assert runtime.trace(ORDERS) == Mm2Trace(5)
    assert runtime.trace(BILLS) == Mm2Trace(is_alone=True)


def test_without_transactions_there_is_no_slot(tmp_path: Path, runtime: FlowRuntime) -> None:
    plain = FlowRuntime(runtime.settings)
    plain.take_state(FlowState(), Mm2Traces(), TakenProducers())
    assert plain.slot(0, {ORDERS}, set()) is None


def test_throttling_is_told_by_cluster_and_only_as_long_as_it_lasts() -> None:
    runtime = FlowRuntime(flow_settings(), lambda: None)
    flow = runtime.settings.flow
    results = [TaskResult((), {flow: Throttled(0, ms)}) for ms in (120, 340)]
    runtime.throttles = flow_messages.throttle_reasons(flow, results, 5.0)
    assert flow_messages.reasons(runtime) == (
        "throttled by west for 0.34 s of the last 5.0 s: a quota of that cluster holds the copy back",
    )
    runtime.throttles = flow_messages.throttle_reasons(flow, [TaskResult((), {flow: Throttled(0, 0)})], 5.0)
    assert flow_messages.reasons(runtime) == ()


def test_it_is_told_that_leaders_are_read_and_not_the_closest_replica_as_long_as_they_are() -> None:
    """Between zones that costs money, and nothing is wrong."""
    runtime = FlowRuntime(flow_settings(), lambda: None)
    for source in (BILLS, ORDERS):
        runtime.take_result(
            PartitionResult(runtime.settings.flow, source, None, leader_alone="east, broker 2: it hung up")
        )
    (note,) = flow_messages.notes(runtime)
    assert note.startswith("2 partitions are read from the leader for now")
    assert f"{min(BILLS, ORDERS)}: east, broker 2: it hung up" in note
    assert flow_messages.reasons(runtime) == ()
    for source in (BILLS, ORDERS):
        runtime.take_result(PartitionResult(runtime.settings.flow, source, None))
    assert flow_messages.notes(runtime) == ()


def test_positions_are_marked_as_settled_at_the_end_where_nothing_of_ours_lies_behind() -> None:
    runtime = FlowRuntime(flow_settings(), lambda: None, is_known=True, term=4)
    position = Position(5, 7, 0, True)
    for topic, (clean, recorded) in {"a": (True, True), "b": (False, True), "c": (True, False)}.items():
        runtime.handovers[TopicPartition(topic, 0)] = Handover(position, (), clean=clean, is_recorded=recorded)
    state = FlowState()
    for key, value in settled(runtime):
        state.apply(key, value)
    assert state.positions == {TopicPartition("a", 0): replace(position, settled=True, settled_in=4)}
    runtime.stand_by()
    assert settled(runtime) == []


def test_a_trouble_that_is_told_while_an_epoch_runs_is_a_reason_until_it_is_told_to_be_over() -> None:
    runtime = FlowRuntime(flow_settings(), lambda: None)
    runtime.take_trouble(ORDERS, "too few replicas")
    assert flow_messages.reasons(runtime) == (f"{ORDERS}: too few replicas",)
    runtime.take_trouble(ORDERS, None)
    assert flow_messages.reasons(runtime) == ()


class Counted:
    """A lock that counts how often it was taken."""

    taken = 0

    def __enter__(self) -> None:
        self.taken += 1

    def __exit__(self, *_: object) -> None:
        pass


_USES: dict[str, Callable[[FlowRuntime], object]] = {
    "reasons": flow_messages.reasons,
    "notes": flow_messages.notes,
    "stand_by": FlowRuntime.stand_by,
    "to_fence": FlowRuntime.to_fence,
    "read_again": FlowRuntime.read_again,
    "between_epochs": FlowRuntime.between_epochs,
    "take_settings": lambda runtime: runtime.take_settings(runtime.settings),
    "settled": settled,
    "is_settled": lambda runtime: runtime.is_settled,
    "is_starting": lambda runtime: runtime.is_starting,
    "lead": lambda runtime: runtime.lead(1, was_settled=True),
    "keep": lambda runtime: runtime.keep(TickReport("topics A->B", 1, 0)),
    "follow": lambda runtime: runtime.follow(FlowState()),
    "take_partitions": lambda runtime: runtime.take_partitions(()),
    "take_mirrors": lambda runtime: runtime.take_mirrors({}, {}, frozenset(), CopiedBack()),
    "take_trouble": lambda runtime: runtime.take_trouble(ORDERS, "no leader"),
    "forget": lambda runtime: runtime.forget([ORDERS]),
}


@pytest.mark.parametrize("use", _USES)
def test_threads_look_at_it_and_change_it_one_at_a_time(use: str) -> None:
    """Reports come from one thread, troubles from another, results from a third; the leader's thread reads them all."""
    lock = Counted()
    _USES[use](FlowRuntime(flow_settings(), lock=cast(Any, lock)))
    assert lock.taken


def test_partitions_that_wait_for_the_same_are_told_of_together() -> None:
    """The outage of a cluster was a reason a partition."""
    runtime = FlowRuntime(flow_settings())
    for number in range(3):
        runtime.take_trouble(TopicPartition("orders", number), "east: connection refused")
    runtime.take_trouble(TopicPartition("orders", 3), "west: NotEnoughReplicas")
    assert flow_messages.reasons(runtime) == (
        "orders-0 (and 2 more): east: connection refused",
        "orders-3: west: NotEnoughReplicas",
    )


@pytest.mark.parametrize(
    ("changes", "is_read_again"),
    [
        ({"topic_filter": PatternFilter(("orders",), ())}, True),
        ({"heartbeats_replication": False}, True),
        ({"offset_lag_max": 7}, False),
    ],
)
def test_topics_that_are_chosen_anew_are_looked_up_before_they_are_copied(
    changes: dict[str, Any], *, is_read_again: bool
) -> None:
    """Whoever led before may have copied them, or Java MirrorMaker; nobody has looked."""
    ending = list[str]()
    runtime = FlowRuntime(flow_settings(), lambda: ending.append("rung"))
    runtime.is_known = True
    runtime.take_settings(replace(runtime.settings, **changes))
    assert ending == ["rung"], "the epoch that runs goes by the settings of before"
    runtime.between_epochs()
    assert runtime.is_known is not is_read_again
