"""Once a minute the log says how far the copy is behind."""

from __future__ import annotations

from typing import Any, cast

import pytest

from mirror.copier.work import PartitionResult
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.lag_line import LagLine
from mirror.engine.mm2_traces import Mm2Traces
from mirror.engine.taken_producers import TakenProducers
from mirror.kafka.answers import Found
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.pause import Pauses, PauseWish
from mirror.model.position import Position
from tests.flows import EAST_WEST
from tests.unit.control.builders import flow_settings

ORDERS = [TopicPartition("orders", number) for number in range(3)]


class Ends:
    """A source whose logs end there; of others it says nothing."""

    def __init__(self) -> None:
        self.known = {ORDERS[0]: 1_000, ORDERS[1]: 5_000}

        self.stable: dict[TopicPartition, int] = {}

    def offsets(self, partitions: list[TopicPartition], at: str) -> Found[TopicPartition, int]:
        ends = self.known | (self.stable if at == "stable" else {})
        found = {each: end for each, end in ends.items() if each in partitions}
        return Found(found, {each: "no leader" for each in partitions if each not in found})


class Log:
    """A state topic that says where the copies stand."""

    def __init__(self) -> None:
        self.state = FlowState()

    def poll(self) -> FlowState:
        return self.state


def test_the_lag_of_all_partitions_the_worst_of_them_and_what_was_copied(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "mirror")
    now, log, ends = [100.0], Log(), Ends()
    runtime = FlowRuntime(flow_settings())
    line = LagLine(runtime, cast(Any, log), cast(Any, ends), clock=lambda: now[0])
    runtime.lead(1, was_settled=True)
    runtime.take_state(FlowState(), Mm2Traces(), TakenProducers())
    assert line.tick().is_ok
    assert caplog.messages == [], "it is not known yet what there is to copy"
    runtime.take_partitions(())
    line.tick()
    assert caplog.messages.pop() == "lag: 0 records; no topic on east is selected"
    caplog.clear()
    runtime.take_partitions(tuple((each, each, "", "") for each in ORDERS))
    runtime.take_result(PartitionResult(EAST_WEST, ORDERS[0], None))
    log.state.positions = {each: Position(990, 990, 0, True) for each in ORDERS[:2]}
    line.tick()
    now[0] += 60
    log.state.positions = {each: Position(1_000, 1_000, 0, True) for each in ORDERS}
    line.tick()
    ends.known[ORDERS[1]] = 1_000
    line.tick()
    runtime.stopped = dict.fromkeys(ORDERS[:2], "the copy is lost")
    line.tick()
    assert caplog.messages == [
        "lag: 4,020 records in 2 of 3 partitions, most in orders-1 (4,010); not known of 1 partition",
        "lag: 4,000 records in 1 of 3 partitions, most in orders-1 (4,000); not known of 1 partition; 20 copied in 60 s",
        "lag: 0 records in 0 of 3 partitions; not known of 1 partition; 0 copied in 0 s",
        "lag: 0 records in 0 of 3 partitions; not known of 1 partition; 2 stopped, first orders-0; 0 copied in 0 s",
    ]


def test_of_a_flow_that_a_failover_has_cut_no_lag_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Each minute there was a line of what nobody was to copy, with "0 copied in 60 s"."""
    caplog.set_level("INFO", "mirror")
    now, log = [100.0], Log()
    runtime = FlowRuntime(flow_settings())
    line = LagLine(runtime, cast(Any, log), cast(Any, Ends()), clock=lambda: now[0])
    runtime.lead(1, was_settled=True)
    runtime.take_state(FlowState(), Mm2Traces(), TakenProducers())
    runtime.take_partitions(tuple((each, each, "", "") for each in ORDERS))
    runtime.take_result(PartitionResult(EAST_WEST, ORDERS[0], None))
    log.state.positions = {each: Position(990, 990, 0, True) for each in ORDERS[:2]}
    line.tick()
    caplog.clear()
    runtime.pauses = Pauses(cut=PauseWish("wish", None, True, "mirror failover", 5, is_cut=True))
    now[0] += 60
    assert line.tick().is_ok
    assert caplog.messages == []
    runtime.pauses = Pauses()
    now[0] += 60
    line.tick()
    (told,) = caplog.messages
    assert told.startswith("lag: 4,020 records")
    assert "copied in" not in told


def begun(runtime: FlowRuntime, log: Log, ends: Ends) -> LagLine:
    """The line of a flow that has copied a thousand records of two partitions; a minute lies between two looks."""
    line = LagLine(runtime, cast(Any, log), cast(Any, ends), clock=iter(range(0, 6000, 60)).__next__)
    runtime.lead(1, was_settled=True)
    runtime.take_state(FlowState(), Mm2Traces(), TakenProducers())
    runtime.take_partitions(tuple((each, each, "", "") for each in ORDERS))
    runtime.take_result(PartitionResult(EAST_WEST, ORDERS[0], None))
    log.state.positions = {each: Position(1_000, 1_000, 0, True) for each in ORDERS[:2]}
    assert line.tick().is_ok, "it begins"
    return line


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_flow_of_which_nothing_is_copied_for_a_minute_although_records_wait_is_not_well(isolation: str) -> None:
    """Behind a quota that was lifted a flow stood still for minutes, and its status was RUNNING."""
    log, ends = Log(), Ends()
    runtime = FlowRuntime(flow_settings(f"east.consumer.isolation.level = {isolation}"))
    line = begun(runtime, log, ends)
    (problem,) = line.tick().problems
    assert (
        problem
        == "nothing was copied in the last 60 s, and 4,000 records of 1 partition wait, most in orders-1 (4,000)"
    )
    ends.known[ORDERS[0]], ends.known[ORDERS[1]] = 1_010, 1_000
    assert line.tick().is_ok, "what waits has come since"
    log.state.positions[ORDERS[0]] = Position(1_001, 1_001, 0, True)
    assert line.tick().is_ok, "it goes on"
    ends.stable[ORDERS[0]] = 1_001
    assert line.tick().is_ok == (isolation == "read_committed"), "behind an open transaction nobody reads"


def in_transactions(seconds: int) -> FlowRuntime:
    """A flow in transactions that take records in for so long."""
    runtime = FlowRuntime(
        flow_settings(
            "west.exactly.once.source.support = enabled",
            "east->west.transaction.boundary = interval",
            f"east->west.transaction.boundary.interval.ms = {1_000 * seconds}",
            "west.producer.transaction.timeout.ms = 600000",
        )
    )
    assert runtime.settings.transactions is not None
    assert runtime.settings.transactions.seconds == seconds
    return runtime


def test_of_a_transaction_that_takes_longer_than_a_minute_nothing_is_told_before_its_end() -> None:
    log = Log()
    line = begun(in_transactions(80), log, Ends())
    assert line.tick().is_ok, "a transaction is under way"
    log.state.positions[ORDERS[1]] = Position(2_000, 2_000, 0, True)
    assert line.tick().is_ok
    assert line.tick().is_ok, "the next one"
    (problem,) = line.tick().problems
    assert problem.startswith("nothing was copied in the last 120 s, and 3,000 records")


def test_one_that_is_as_long_as_it_is_from_look_to_look_may_end_a_moment_behind_the_next_look() -> None:
    """The one before had ended right before a look; Kafka Connect's default is one a minute."""
    line = begun(in_transactions(59), Log(), Ends())
    assert line.tick().is_ok, "it is being committed"
    assert not line.tick().is_ok
