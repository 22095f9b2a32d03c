"""A partition that has stopped at a gap goes on once the gap is acknowledged, and no other does."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.config.resolving import load
from mirror.copier.work import GapPolicy, Handover, PartitionResult
from mirror.engine import flow_messages
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.written_over import write_again
from mirror.model.flow_state import FlowState
from mirror.model.gap import Acknowledgement, Gap, GapKind
from mirror.model.leadership import Claim
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_values import claim_record

ORDERS, BILLS = TopicPartition("orders", 3), TopicPartition("bills", 0)
LOST = Gap(ORDERS, 5, 9, "gone", 1, GapKind.RETENTION, 4, "id", passed=False)
KNOWN = Acknowledgement("ann", "a test", 2)


@pytest.fixture
def runtime(tmp_path: Path) -> FlowRuntime:
    """A flow that stops at gaps, with two partitions stopped."""
    file = tmp_path / "mirror.properties"
    file.write_text(
        "clusters = A,B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\nmirror.gaps = stop"
    )
    (flow,) = load(file).enabled_flows
    found = FlowRuntime(flow)
    for source in (ORDERS, BILLS):
        found.take_result(PartitionResult(flow.flow, source, None, stopped="somebody must look"))
    return found


@pytest.fixture
def ledger() -> FlowState:
    """What is known of the flow: the gap at which orders stopped."""
    state = FlowState()
    state.apply(*LOST.record())
    return state


@pytest.fixture
def lifted(runtime: FlowRuntime, ledger: FlowState) -> FlowRuntime:
    """That flow, with the gap acknowledged and orders still before it."""
    ledger.apply(*KNOWN.record(LOST.key))
    runtime.take_gaps(ledger)
    runtime.handovers[ORDERS] = left_at(5, incarnation=0)
    return runtime


def test_a_partition_of_which_a_record_is_not_understood_stays_stopped_until_it_is(
    runtime: FlowRuntime, ledger: FlowState
) -> None:
    """Nothing else lets it go on: no epoch that was under way, no filter that was narrowed and widened again."""
    new = TopicPartition("new", 0)
    ledger.apply(b'["position","new",0]', b'{"v":9}')
    runtime.take_gaps(ledger)
    runtime.take_result(PartitionResult(runtime.settings.flow, new, None))
    runtime.take_partitions(((ORDERS, ORDERS, "", ""),))
    assert set(runtime.stopped) == {ORDERS, new}
    assert any("not understood" in reason for reason in flow_messages.reasons(runtime))
    ledger.apply(*Position(5, 5, 0, True).record(new))
    runtime.take_gaps(ledger)
    assert new not in runtime.stopped


def left_at(upstream: int, incarnation: int) -> Handover:
    return Handover(Position(upstream, 4, 0, True, incarnation=incarnation), (), clean=True)


def test_an_acknowledged_gap_lets_its_partition_go_on(runtime: FlowRuntime, ledger: FlowState) -> None:
    runtime.take_gaps(ledger)
    assert set(runtime.stopped) == {ORDERS, BILLS}
    assert runtime.gap_policy(ORDERS) == GapPolicy(True, LOST, is_lifted=False)
    assert runtime.gap_policy(BILLS) == GapPolicy(True)
    assert any("1 gap in the copy" in reason for reason in flow_messages.reasons(runtime))
    ledger.apply(*KNOWN.record(LOST.key))
    runtime.take_gaps(ledger)
    assert set(runtime.stopped) == {BILLS}
    assert runtime.gap_policy(ORDERS) == GapPolicy(True, LOST, is_lifted=True)
    assert not any("gap in the copy" in reason for reason in flow_messages.reasons(runtime))


def test_an_older_gap_that_an_earlier_leader_writes_over_takes_no_acknowledgement_its_effect(
    runtime: FlowRuntime,
) -> None:
    """The newest record of the log is the older gap by then."""
    passed, state = Gap(ORDERS, 1, 3, "gone before", 1, GapKind.RETENTION), FlowState()
    for record, term in (
        (claim_record(Claim("former", 1)), None),
        (passed.record(), 1),
        (claim_record(Claim("this", 2)), None),
        (LOST.record(), 2),
        (passed.record(), 1),
    ):
        state.apply(*record, term)
    runtime.follow(state)
    for key in write_again(runtime, state.overwritten):
        state.apply(*state.record_of(key), 2)
    runtime.follow(state)
    state.apply(*KNOWN.record(LOST.key))
    runtime.follow(state)
    assert set(runtime.stopped) == {BILLS}
    assert runtime.gap_policy(ORDERS) == GapPolicy(True, LOST, is_lifted=True)


def test_an_acknowledged_gap_that_is_about_to_be_passed_is_not_written_again_as_open(lifted: FlowRuntime) -> None:
    """That would take the acknowledgement back; the task writes it as passed."""
    other = Gap(ORDERS, 1, 3, "gone before", 1)
    written_over = {LOST.record()[0], other.record()[0]}
    assert write_again(lifted, written_over) == {other.record()[0]}


def test_a_partition_that_has_gone_on_has_no_barrier_any_more(lifted: FlowRuntime) -> None:
    """The ledger says so too, but is read every other second only."""
    lifted.take_result(PartitionResult(lifted.settings.flow, ORDERS, left_at(12, incarnation=1)))
    assert lifted.gap_policy(ORDERS) == GapPolicy(True)


def test_an_epoch_that_is_over_before_it_came_to_a_partition_leaves_its_barrier_lifted(lifted: FlowRuntime) -> None:
    """Otherwise the next would find the gap anew, and somebody had to acknowledge it once more."""
    for nothing_done in (None, left_at(5, incarnation=0)):
        lifted.take_result(PartitionResult(lifted.settings.flow, ORDERS, nothing_done))
        assert lifted.gap_policy(ORDERS) == GapPolicy(True, LOST, is_lifted=True)


def test_a_partition_of_which_a_record_is_not_understood_is_stopped_until_it_is(runtime: FlowRuntime) -> None:
    """A newer version has written it: what is copied of the partition cannot be told."""
    new, key = TopicPartition("new", 0), b'["position","new",0]'
    state = FlowState()
    state.apply(key, b'{"v":9}')
    runtime.take_gaps(state)
    assert "is not understood" in runtime.stopped[new]
    runtime.take_result(PartitionResult(runtime.settings.flow, new, None))
    assert new in runtime.stopped, "whatever a task says of it"
    state.apply(key, None)
    runtime.take_gaps(state)
    assert new not in runtime.stopped


def test_where_a_partition_stands_is_forgotten_with_its_topic_but_not_of_one_that_is_copied_again(
    runtime: FlowRuntime,
) -> None:
    runtime.partitions = ((ORDERS, ORDERS, "new id", "id"),)
    runtime.handovers = {ORDERS: left_at(5, incarnation=1), BILLS: left_at(7, incarnation=0)}
    runtime.forget({ORDERS, BILLS})
    assert set(runtime.handovers) == {ORDERS}
