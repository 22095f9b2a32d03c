"""Partitions that Java MirrorMaker copied wait, one by one, and are copied as soon as it is known where to go on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import cast

import pytest

from mirror.clock import steady_seconds
from mirror.copier.epochs import EpochFailed, Epochs
from mirror.copier.work import Handover, PartitionResult, TaskResult, TaskWork
from mirror.engine import flow_messages, takeovers
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.lease import Lease
from mirror.engine.mm2_traces import Mm2Traces, traces_of
from mirror.engine.taken_producers import TakenProducers
from mirror.engine.takeovers import Takeovers
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.mm2_trace import Mm2Trace, Pair, SyncTrail
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_values import Takeover
from tests.flows import EAST_WEST, flow_work
from tests.unit.control.builders import flow_settings

ORDERS, BILLS, NEW = (TopicPartition(name, 0) for name in ("orders", "bills", "new"))


@pytest.fixture(autouse=True)
def short_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has failed is tried again at once."""
    monkeypatch.setattr("mirror.engine.takeovers._BACKOFF_SECONDS", 0.01)


def trail_of(*pairs: tuple[int, int]) -> SyncTrail:
    trail = SyncTrail()
    for pair in pairs:
        trail.take(Pair(*pair))
    return trail


def known(source: TopicPartition, upstream: int, downstream: int) -> FlowState:
    return FlowState(positions={source: Position(upstream, downstream, 0, True)})


def test_a_partition_only_java_has_copied_is_taken_over_by_its_position_and_syncs() -> None:
    traces = traces_of(
        {ORDERS: 5}, {ORDERS: trail_of((0, 0)), BILLS: trail_of((3, 3))}, FlowState(), matches=True, has_run=True
    )
    assert traces.certain == {
        ORDERS: Mm2Trace(5, ((Pair(0, 0),),)),
        BILLS: Mm2Trace(None, ((Pair(3, 3),),)),
    }
    assert traces.possible(NEW, is_known=False) == Mm2Trace()
    assert traces.possible(NEW, is_known=True) is None


def test_our_own_positions_and_syncs_are_no_trace_of_java() -> None:
    """MirrorMaker's positions that this engine writes are never ahead of its own."""
    traces = traces_of({ORDERS: 50}, {ORDERS: trail_of((49, 49))}, known(ORDERS, 50, 50), matches=True, has_run=False)
    assert traces == Mm2Traces()
    assert traces.possible(NEW, is_known=False) is None


def test_java_that_got_further_than_we_did_is_taken_over_from() -> None:
    trail = trail_of((49, 49), (50, 50), (70, 70))
    traces = traces_of({ORDERS: 71}, {ORDERS: trail}, known(ORDERS, 50, 50), matches=True, has_run=True)
    assert traces.certain == {ORDERS: Mm2Trace(71, ((Pair(50, 50), Pair(70, 70)),))}


def test_syncs_beyond_our_position_may_be_javas() -> None:
    """It did not live to record a position, or they are of this engine's own tail: the target tells."""
    trail = trail_of((49, 49), (50, 50), (70, 70))
    traces = traces_of({ORDERS: 50}, {ORDERS: trail}, known(ORDERS, 50, 50), matches=True, has_run=True)
    assert traces.certain == {}
    assert traces.possible(ORDERS, is_known=True) == Mm2Trace(None, ((Pair(50, 50), Pair(70, 70)),))
    assert traces.without(ORDERS).possible(ORDERS, is_known=True) is None


def test_by_position_alone_only_positions_count() -> None:
    trails = {ORDERS: trail_of((0, 0)), BILLS: trail_of((3, 3))}
    traces = traces_of({ORDERS: 5}, trails, FlowState(), matches=False, has_run=False)
    assert traces.certain == {ORDERS: Mm2Trace(5, ((Pair(0, 0),),), matches=False)}
    assert traces.possible(BILLS, is_known=False) is None


class Spark:
    """In the place of Spark: answers takeovers as it is told."""

    def __init__(self, *answers: Callable[[TaskWork], TaskResult], stop: threading.Event) -> None:
        self.asked: list[TaskWork] = []
        self.rights: list[float] = []
        self._answers = list(answers)
        self._stop = stop

    def take_over(self, work: TaskWork, write_seconds: Callable[[], float]) -> TaskResult:
        self.asked.append(work)
        self.rights.append(write_seconds())
        answer = self._answers.pop(0)
        if not self._answers:
            self._stop.set()
        return answer(work)


def ready(work: TaskWork) -> TaskResult:
    handover = Handover(Position(9, 9, 0, True), (), clean=True, is_recorded=False)
    return TaskResult(
        tuple(PartitionResult(each.flow, each.source, handover, skipped_by_match=4) for each in work.partitions)
    )


def troubled(work: TaskWork) -> TaskResult:
    return TaskResult(
        tuple(PartitionResult(each.flow, each.source, None, trouble="no leader") for each in work.partitions)
    )


def refused(work: TaskWork) -> TaskResult:
    return TaskResult(
        tuple(PartitionResult(each.flow, each.source, None, stopped="unclear") for each in work.partitions)
    )


def broken(_: TaskWork) -> TaskResult:
    raise EpochFailed("a worker died")


class Run:
    """Takeovers of two partitions, of which Java MirrorMaker has copied one."""

    def __init__(self, *answers: Callable[[TaskWork], TaskResult]) -> None:
        self.stop = threading.Event()
        self.ending = 0
        self.runtime = FlowRuntime(flow_settings(), self._ring)
        self.runtime.partitions = tuple(
            (each, TopicPartition(f"east.{each.topic}", 0), "id", "copy") for each in (ORDERS, NEW)
        )
        self.runtime.take_state(FlowState(), Mm2Traces({ORDERS: Mm2Trace(5)}), TakenProducers())
        self.spark = Spark(*answers, stop=self.stop)
        self.takeovers = Takeovers(cast(Epochs, self.spark), {EAST_WEST: self.runtime}, lambda _: flow_work())

    def _ring(self) -> None:
        self.ending += 1

    def go(self) -> None:
        self.ending = 0
        self.takeovers.run(self.stop)


def test_what_is_taken_over_is_copied_at_once_and_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "mirror")
    run = Run(ready)
    assert flow_messages.reasons(run.runtime) == ("1 partition is to be taken over from Java MirrorMaker",)
    run.go()
    assert [each.source for each in run.spark.asked[0].partitions] == [ORDERS]
    assert run.runtime.takeovers == {}
    assert run.runtime.handovers[ORDERS].position.upstream == 9
    assert run.ending == 1
    assert flow_messages.reasons(run.runtime) == ()
    assert "upstream offset 9; 4 records" in caplog.messages[0]


def test_a_trouble_is_told_and_tried_again() -> None:
    run = Run(troubled, ready)
    run.go()
    assert len(run.spark.asked) == 2
    assert run.runtime.takeovers == {}
    only_trouble = Run(troubled)
    only_trouble.go()
    assert "orders-0: no leader" in flow_messages.reasons(only_trouble.runtime)


def test_what_is_unclear_stops_its_partition(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "mirror")
    run = Run(refused)
    run.go()
    assert run.runtime.stopped == {ORDERS: "unclear"}
    # Should the stop be lifted, it is not begun as if nothing were known of it.
    assert set(run.runtime.takeovers) == {ORDERS}
    assert caplog.messages == []


def test_a_job_that_failed_is_seen_and_tried_again() -> None:
    run = Run(broken)
    run.go()
    assert any("a worker died" in reason for reason in flow_messages.reasons(run.runtime))
    assert run.runtime.takeovers == {ORDERS: Mm2Trace(5)}


def test_a_job_that_went_well_ends_the_trouble() -> None:
    run = Run(broken, ready)
    run.go()
    assert flow_messages.reasons(run.runtime) == ()


def test_while_the_engine_has_lost_its_place_nothing_is_taken_over() -> None:
    """An answer that comes then is dropped, and no question is asked."""
    run: Run

    def lost(work: TaskWork) -> TaskResult:
        run.runtime.is_known = False
        return ready(work)

    run = Run(lost)
    run.go()
    assert run.runtime.handovers == {}
    assert run.runtime.takeovers == {ORDERS: Mm2Trace(5)}
    assert run.takeovers._plan() is None


def test_a_partition_whose_copy_is_not_fenced_yet_is_not_asked_about() -> None:
    """Its tail may still grow behind what is found now."""
    run = Run(ready)
    run.runtime.late.unfenced = {TopicPartition("east.orders", 0): None}
    assert run.takeovers._plan() is None
    run.runtime.late.unfenced = {}
    assert run.takeovers._plan() is not None


def test_so_many_partitions_are_asked_about_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others need not wait to be copied until all are through."""
    monkeypatch.setattr("mirror.engine.takeovers._MOST_PARTITIONS", 1)
    run = Run(ready)
    run.runtime.takeovers = {ORDERS: Mm2Trace(5), NEW: Mm2Trace(7)}
    plan = run.takeovers._plan()
    assert plan is not None
    assert [each.source for each in plan.partitions] == [ORDERS]


def test_of_several_flows_is_written_only_as_long_as_each_may_be() -> None:
    """One job decides for all of them."""
    runtimes = {}
    for flow, right in ((EAST_WEST, 100.0), (Flow("west", "east"), 10.0)):
        runtime = FlowRuntime(flow_settings(f"{flow}.enabled = true", flow=str(flow)))
        runtime.partitions, runtime.is_known = ((ORDERS, ORDERS, "id", "id"),), True
        runtime.takeovers = {ORDERS: Mm2Trace()}
        runtime.lease = Lease(right)
        runtime.lease.renew(steady_seconds())
        runtimes[flow] = runtime
    takeovers = Takeovers(cast(Epochs, None), runtimes, lambda flow: flow_work(flow=flow))
    plan = takeovers._plan()
    assert plan is not None
    assert len(plan.partitions) == 2
    assert takeovers._write_seconds() <= 10.0


def test_a_partition_that_has_stopped_is_not_asked_about_and_not_waited_for() -> None:
    run = Run(ready)
    run.runtime.stopped[ORDERS] = "unclear"
    assert run.takeovers._plan() is None
    assert flow_messages.reasons(run.runtime) == ("orders-0 is stopped: unclear",)


def test_only_what_can_be_copied_on_is_said_to_be_taken_over(caplog: pytest.LogCaptureFixture) -> None:
    """A trouble leaves it to be tried again."""

    def unsure(work: TaskWork) -> TaskResult:
        (result,) = ready(work).partitions
        return TaskResult((replace(result, trouble="no leader"),))

    caplog.set_level("INFO", "mirror")
    run = Run(unsure)
    run.go()
    assert caplog.messages == []
    assert run.runtime.takeovers == {ORDERS: Mm2Trace(5)}


def test_an_answer_to_a_question_that_no_longer_stands_is_dropped() -> None:
    """The engine lost its place meanwhile and has read it back."""
    run: Run

    def late(work: TaskWork) -> TaskResult:
        run.runtime.take_state(FlowState(), Mm2Traces({ORDERS: Mm2Trace(7)}), TakenProducers())
        return ready(work)

    run = Run(late)
    run.go()
    assert run.runtime.takeovers == {ORDERS: Mm2Trace(7)}
    assert run.runtime.handovers == {}


def test_a_partition_found_to_be_javas_during_the_copy_waits_too() -> None:
    run = Run(ready)
    run.runtime.take_state(
        known(ORDERS, 50, 50), Mm2Traces({}, {ORDERS: Mm2Trace(None, ((Pair(50, 50),),))}), TakenProducers()
    )
    found = PartitionResult(EAST_WEST, ORDERS, run.runtime.handovers[ORDERS], written_by_mm2=True)
    run.runtime.take_result(found)
    assert run.runtime.takeovers == {ORDERS: Mm2Trace(None, ((Pair(50, 50),),))}
    run.go()
    # It is ours again: what follows is no trace of Java any more.
    assert run.runtime.trace(ORDERS) is None


def test_a_position_of_a_topic_that_is_not_copied_any_more_is_no_trouble() -> None:
    run = Run(ready)
    run.runtime.take_state(FlowState(), Mm2Traces({BILLS: Mm2Trace(5)}), TakenProducers())
    assert flow_messages.reasons(run.runtime) == ()


def test_the_status_says_how_far_a_long_match_is() -> None:
    run = Run(ready)
    run.runtime.taking = {ORDERS: Takeover(ORDERS, 5, None, None, 1000, 6000)}
    assert flow_messages.reasons(run.runtime) == (
        "orders-0: matching the tail that Java MirrorMaker left: 1,000 of about 6,000 records",
    )
    # One that is decided is no match that goes on, until its partition is copied.
    run.runtime.taking = {ORDERS: Takeover(ORDERS, 5, 9, 9, 1000, 6000)}
    assert flow_messages.reasons(run.runtime) == ("1 partition is to be taken over from Java MirrorMaker",)


def test_that_a_result_counts_is_looked_at_and_taken_in_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begun anew in between, the flow would go on from what was found before another engine had led it."""
    run, alone = Run(ready), list[bool]()
    take_in = takeovers.take_in

    def is_free(runtime: FlowRuntime) -> bool:
        is_taken = runtime.lock.acquire(blocking=False)
        if is_taken:
            runtime.lock.release()
        return is_taken

    def taken(runtime: FlowRuntime, result: PartitionResult) -> None:
        with ThreadPoolExecutor(1) as pool:
            alone.append(not pool.submit(is_free, runtime).result())
        take_in(runtime, result)

    monkeypatch.setattr(takeovers, "take_in", taken)
    run.takeovers.run(run.stop)
    assert alone == [True]


class Watched(dict[TopicPartition, Mm2Trace]):
    """What waits, and whether any other thread could have changed it while it was looked at."""

    runtime: FlowRuntime
    could_change = False

    def __contains__(self, source: object) -> bool:
        def change() -> bool:
            is_free = self.runtime.lock.acquire(blocking=False)
            if is_free:
                self.runtime.lock.release()
            return is_free

        with ThreadPoolExecutor(1) as other:
            self.could_change |= other.submit(change).result()
        return super().__contains__(source)


def test_what_waits_cannot_change_while_it_is_looked_at() -> None:
    """A flow that is begun anew in between would end the engine, by a partition that waits no more."""
    runtime = FlowRuntime(flow_settings())
    runtime.partitions, runtime.is_known = ((ORDERS, ORDERS, "id", "id"),), True
    runtime.takeovers = watched = Watched({ORDERS: Mm2Trace()})
    watched.runtime = runtime
    plan = Takeovers(cast(Epochs, None), {EAST_WEST: runtime}, lambda _: flow_work())._plan()
    assert plan is not None
    assert [one.source for one in plan.partitions] == [ORDERS]
    assert not watched.could_change
