"""What an engine does with paused topics: it plans nothing for them but to find out, and says, how far they are copied."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.config.resolving import load
from mirror.control.flow_tick import FlowTick
from mirror.control.tick import TickReport
from mirror.copier.work import Handover
from mirror.engine import leader as leader_module
from mirror.engine.election import Identity
from mirror.engine.flow_control import FlowControl
from mirror.engine.flow_messages import reasons
from mirror.engine.flow_pauses import LEFT_OUT, pause_report, take_pauses, take_resumed, unless_cut, while_uncut
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.late_writes import KEEPS_OFFSETS
from mirror.engine.leader import FlowLeader
from mirror.engine.lease import Lease
from mirror.engine.mm2_traces import Mm2Traces
from mirror.engine.run import Engine
from mirror.engine.ticking import Ticking
from mirror.engine.written_over import write_again
from mirror.kafka.batch import Producer
from mirror.kafka.cluster import Cluster
from mirror.model.flow_state import FlowState
from mirror.model.leadership import Claim
from mirror.model.mm2_trace import Mm2Trace
from mirror.model.offset_map import Run
from mirror.model.partition import TopicPartition
from mirror.model.pause import PauseReport, Pauses, PauseWish
from mirror.model.placement import Placement
from mirror.model.position import Position
from mirror.model.state_record import StateRecord
from mirror.model.state_values import (
    RunReport,
    chunk_record,
    claim_record,
    pause_record,
    pause_report_record,
    placement_record,
)
from mirror.recovery.engine_fencing import report_without_engine

ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 0)
COPIES = {source: TopicPartition(f"east.{source.topic}", 0) for source in (ORDERS, BILLS)}
ALL = PauseWish("all", None, True, "ann", 1)
ONLY_ORDERS = PauseWish("orders only", "orders", True, "ann", 2)
CLEAN = Handover(Position(5, 5, 0, True), (), clean=True)


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
    """The flow as it is led: two topics, both copied as far as is on record."""
    (found,) = engine._runtimes.values()
    found.lead(1, was_settled=True, lease=Lease())
    found.partitions = tuple((source, copy, "", "") for source, copy in COPIES.items())
    found.handovers = dict.fromkeys(COPIES, CLEAN)
    found.is_known = True
    return found


def planned(engine: Engine) -> dict[str, bool]:
    """The topics that the next epoch is about, and whether each is only settled."""
    return {one.source.topic: one.is_paused for work in engine._plan_epoch(1.0, 2) for one in work.partitions}


def test_what_is_paused_is_not_planned_but_to_find_out_how_far_it_is_copied(
    engine: Engine, runtime: FlowRuntime
) -> None:
    assert planned(engine) == {"orders": False, "bills": False}
    take_pauses(runtime, Pauses((ONLY_ORDERS,)))
    assert planned(engine) == {"bills": False}
    runtime.handovers[ORDERS] = replace(CLEAN, clean=False)
    assert planned(engine) == {"orders": True, "bills": False}
    runtime.handovers[ORDERS] = replace(CLEAN, is_recorded=False)
    assert planned(engine) == {"orders": True, "bills": False}
    del runtime.handovers[ORDERS]
    assert planned(engine) == {"orders": True, "bills": False}, "where it begins goes on record before it is resumed"
    runtime.handovers[ORDERS] = CLEAN
    take_pauses(runtime, Pauses((ALL,)))
    assert planned(engine) == {}
    take_pauses(runtime, Pauses())
    assert planned(engine) == {}, "Java MirrorMaker may have copied them meanwhile"
    take_resumed(runtime, {ORDERS}, Mm2Traces())
    assert planned(engine) == {"orders": False}
    take_resumed(runtime, {BILLS}, Mm2Traces())
    assert planned(engine) == {"orders": False, "bills": False}


def test_ticks_that_change_what_the_target_has_are_left_out_while_the_flow_is_failed_over(
    engine: Engine, runtime: FlowRuntime
) -> None:
    rounds: list[int] = []

    class Tick(FlowTick):
        about = "topic configs"

        def _round(self, at_ms: int) -> tuple[int, Sequence[str]]:
            rounds.append(at_ms)
            return 1, ()

    ends = cast(Cluster, None), cast(Cluster, None)
    tick = unless_cut(runtime, Tick(*ends, runtime.settings, clock=lambda: 7), lambda: 7)
    take_pauses(runtime, Pauses((ALL,)))
    assert tick() == TickReport("topic configs east->west", 7, 1)
    take_pauses(runtime, Pauses((ALL,), cut=replace(ALL, is_cut=True)))
    assert tick() == TickReport("topic configs east->west", 7, 0, notes=(LEFT_OUT,))
    assert rounds == [7]


def test_a_round_that_is_under_way_when_the_flow_is_cut_writes_no_more(engine: Engine, runtime: FlowRuntime) -> None:
    cut = Pauses((ALL,), cut=replace(ALL, is_cut=True))
    asked: list[str] = []
    before_writing = while_uncut(runtime, lambda: asked.append("lead"))

    class Tick(FlowTick):
        about = "group offsets"

        def _round(self, _: int) -> tuple[int, Sequence[str]]:
            before_writing()
            take_pauses(runtime, cut)
            before_writing()
            raise AssertionError("the second request is not sent")

    ends = cast(Cluster, None), cast(Cluster, None)
    tick = unless_cut(runtime, Tick(*ends, runtime.settings, clock=lambda: 7), lambda: 7)
    assert tick() == TickReport("group offsets east->west", 7, 0, notes=(LEFT_OUT,))
    assert asked == ["lead", "lead"]


def test_a_pause_is_said_to_hold_once_the_epoch_that_was_planned_before_it_is_over(
    engine: Engine, runtime: FlowRuntime
) -> None:
    ending: list[None] = []
    runtime.changed = lambda: ending.append(None)
    planned(engine)
    assert take_pauses(runtime, Pauses((ONLY_ORDERS,)))
    assert not take_pauses(runtime, Pauses((ONLY_ORDERS,)))
    assert ending == [None]
    assert pause_report(runtime, "me") == PauseReport("me", ("orders only",), frozenset({ORDERS}))
    assert not runtime.pause_changed.is_set()
    runtime.end_epoch()
    assert pause_report(runtime, "me") == PauseReport("me", ("orders only",))
    assert runtime.pause_changed.is_set(), "somebody waits for that to be said"


def test_the_end_of_an_epoch_is_no_news_where_nothing_is_paused(engine: Engine, runtime: FlowRuntime) -> None:
    planned(engine)
    runtime.end_epoch()
    assert not runtime.pause_changed.is_set()


def test_what_may_arrive_late_is_busy_and_what_is_not_compared_unsettled(runtime: FlowRuntime) -> None:
    take_pauses(runtime, Pauses((ALL,)))
    runtime.late.unfenced = {COPIES[ORDERS]: Producer(1, 0)}
    runtime.handovers[BILLS] = replace(CLEAN, clean=False)
    said = pause_report(runtime, "me")
    assert said is not None
    assert (said.busy, list(said.unsettled)) == ({ORDERS}, [BILLS])
    runtime.troubles[BILLS] = "east does not answer"
    said = pause_report(runtime, "me")
    assert said is not None
    assert said.unsettled == {BILLS: "east does not answer"}
    runtime.is_known = False
    assert pause_report(runtime, "me") is None, "what the target has on record is read first"


def test_of_what_is_not_taken_over_yet_and_of_what_was_refused_it_is_not_said_that_nothing_is_copied(
    runtime: FlowRuntime,
) -> None:
    """Java MirrorMaker has copied the one; of the other's copy nobody knows who has made it."""
    runtime.handovers = {}
    take_pauses(runtime, Pauses((ALL,)))
    runtime.takeovers[ORDERS] = cast(Mm2Trace, "its tail")
    runtime.stopped[BILLS] = "it holds records already"
    said = pause_report(runtime, "me")
    assert said is not None
    assert said.unsettled == {ORDERS: "it is to be taken over from Java MirrorMaker", BILLS: "it holds records already"}
    assert not any(map(runtime.is_idle, COPIES))


@pytest.mark.parametrize(
    ("reset", "said"),
    [
        ("earliest", {}),
        ("latest", {ORDERS: "it is not on record yet where its copy is to begin (auto.offset.reset = latest)"}),
    ],
)
def test_of_what_is_to_begin_at_the_end_of_the_source_a_pause_is_final_once_that_is_on_record(
    runtime: FlowRuntime, reset: str, said: dict[TopicPartition, str]
) -> None:
    clients = runtime.settings.clients
    consumer = {**clients.source_consumer, "auto.offset.reset": reset}
    runtime.settings = replace(runtime.settings, clients=replace(clients, source_consumer=consumer))
    take_pauses(runtime, Pauses((ALL,)))
    del runtime.handovers[ORDERS]
    report = pause_report(runtime, "me")
    assert report is not None
    assert (report.busy, report.unsettled) == (frozenset(), said)
    runtime.handovers[ORDERS] = CLEAN
    report = pause_report(runtime, "me")
    assert report is not None
    assert report.unsettled == {}


def test_that_nothing_is_wished_is_said_too_since_the_end_of_a_cut_leaves_no_record(runtime: FlowRuntime) -> None:
    assert pause_report(runtime, "me") == PauseReport("me", ())


def test_the_leader_takes_pauses_in_before_it_may_write_and_says_once_what_became_of_them(
    runtime: FlowRuntime,
) -> None:
    said: list[StateRecord] = []
    renewed_with: list[Pauses] = []

    def publish(record: StateRecord) -> None:
        said.append(record)
        state.apply(*record)
        election.pause_report = state.pause_report

    state = FlowState()
    election = SimpleNamespace(
        term=1,
        pauses=Pauses((ALL,)),
        claim=None,
        renewed_at=0.0,
        was_settled=True,
        former_seconds=0.0,
        was_untroubled_at_ms=None,
        settings={},
        differs_in=(),
        round=lambda _: True,
        publish=publish,
        pause_report=None,
    )
    lease = SimpleNamespace(renew=lambda _: renewed_with.append(runtime.pauses), left=1.0)
    runtime.lease = cast(Lease, lease)
    runtime.has_looked = True
    leader = FlowLeader(runtime.settings, runtime, Identity("me", "host", 1, "place"), timeout_seconds=6)
    leader._election = election  # type: ignore[assignment]
    leader._round(cast("object", None))  # type: ignore[arg-type]
    leader._round(cast("object", None))  # type: ignore[arg-type]
    assert renewed_with == [Pauses((ALL,))] * 2
    assert said == [pause_report_record(PauseReport("me", ("all",)))]
    election.pause_report = PauseReport("an earlier leader", ())
    leader._round(cast("object", None))  # type: ignore[arg-type]
    leader._round(cast("object", None))  # type: ignore[arg-type]
    assert said == [pause_report_record(PauseReport("me", ("all",)))] * 2, "since it was written over"
    assert leader._report().state == "PAUSED"


def test_why_a_pause_does_not_promise_everything_is_logged_once_for_as_long_as_it_is_so(
    runtime: FlowRuntime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A sentence of three lines on copies with the source's offsets was repeated at each pause."""
    caplog.set_level(logging.WARNING)
    election = SimpleNamespace(pause_report=None, publish=lambda _: None)
    leader = FlowLeader(runtime.settings, runtime, Identity("me", "host", 1, "place"), timeout_seconds=6)
    take_pauses(runtime, Pauses((ALL,)))
    late = frozenset({ORDERS})
    for unrefused, weakness in (
        (late, KEEPS_OFFSETS),
        (late, KEEPS_OFFSETS),
        ((), ""),
        (late, KEEPS_OFFSETS),
        (late, "x"),
    ):
        report = PauseReport("me", (), unrefused=frozenset(unrefused), weakness=weakness)
        monkeypatch.setattr(leader_module, "pause_report", lambda *_, report=report: report)
        leader._answer_pauses(election)  # type: ignore[arg-type]
    before = "but for what was sent before to the copies of 1 partition: "
    again = f"{before}as reported at an earlier pause"
    assert caplog.messages == [f"{before}{KEEPS_OFFSETS}", again, f"{before}{KEEPS_OFFSETS}", f"{before}x"]


def test_what_an_earlier_leader_has_written_over_is_said_again_by_who_says_it(
    engine: Engine, runtime: FlowRuntime
) -> None:
    """What was read of it may be older than what a task has committed since, or the leader said."""
    chunk, full = (chunk_record(ORDERS, number, [Run(0, 0, 5)])[0] for number in (7, 0))
    last = replace(CLEAN, position=replace(CLEAN.position, chunk=7))
    runtime.handovers[ORDERS] = last
    gone, report = Position(1, 1, 0, True).record(TopicPartition("gone", 0))[0], RunReport("RUNNING", (), 5).record()[0]
    paused = pause_report_record(PauseReport("me", ()))[0]
    ending: list[None] = []
    runtime.changed = lambda: ending.append(None)
    placed = placement_record(Placement("billing", ORDERS, 5, 6, 6))[0]
    left = write_again(runtime, {CLEAN.position.record(ORDERS)[0], chunk, full, gone, report, paused, placed})
    assert (left, ending) == ({full, gone, report}, [None])
    works = [one for work in engine._plan_epoch(1.0, 2) for one in work.partitions]
    recorded = {one.source: one.handover is not None and one.handover.is_recorded for one in works}
    assert recorded == {ORDERS: False, BILLS: True}
    works = [one for work in engine._plan_epoch(1.0, 2) for one in work.partitions]
    assert {one.source: one.handover for one in works} == {ORDERS: last, BILLS: CLEAN}, "once"
    take_pauses(runtime, Pauses((ALL,)))
    assert planned(engine) == {}
    write_again(runtime, {CLEAN.position.record(ORDERS)[0]})
    assert planned(engine) == {"orders": True}, "also of what is paused"


def test_a_chunk_that_a_running_task_has_begun_is_not_written_again_from_what_was_read_of_it(
    runtime: FlowRuntime,
) -> None:
    """What the task handed over last is of the chunk before; its epoch ends, and the next writes it."""
    asked: list[None] = []
    runtime.changed = lambda: asked.append(None)
    begun = chunk_record(ORDERS, CLEAN.position.chunk + 1, [Run(0, 0, 5)])[0]
    assert write_again(runtime, {begun}) == set()
    assert (runtime.to_record, asked) == (set(), [None]), "nothing that it could record now"
    position = replace(CLEAN.position, chunk=CLEAN.position.chunk + 1)
    runtime.handovers[ORDERS] = replace(CLEAN, position=position)
    assert write_again(runtime, {begun}) == set()
    assert (runtime.to_record, asked) == ({ORDERS}, [None, None])


def test_epochs_are_not_cut_short_for_as_long_as_a_partition_waits_that_was_written_over(
    runtime: FlowRuntime,
) -> None:
    asked: list[None] = []
    runtime.changed = lambda: asked.append(None)
    key = CLEAN.position.record(ORDERS)[0]
    for _ in range(3):
        assert write_again(runtime, {key}) == set()
    assert asked == [None]
    write_again(runtime, set())
    write_again(runtime, {key})
    assert asked == [None, None], "written over once more"


def test_the_control_writes_no_position_again_that_a_task_may_have_moved_on(runtime: FlowRuntime) -> None:
    """In transactions a position that is older than the records is taken for the end of what was copied."""
    state = FlowState(overwritten={CLEAN.position.record(ORDERS)[0]}, positions={ORDERS: Position(3, 3, 0, True)})
    target: Any = SimpleNamespace(cluster_id="west")
    log: Any = SimpleNamespace(poll=lambda: state, state=state)
    written: list[object] = []
    writer: Any = SimpleNamespace(append=lambda *records: written.extend(records[-1]))
    ticking = Ticking(lambda _: None, lambda _: None)
    control = FlowControl(runtime, target, target, ticking, cast(Any, None), matches_mm2=False)
    assert control._follow(log, writer).problems == ()
    assert written == []
    assert runtime.to_record == {ORDERS}


def test_an_engine_of_which_some_is_paused_has_begun_once_it_has_copied_the_rest(runtime: FlowRuntime) -> None:
    leader = FlowLeader(runtime.settings, runtime, Identity("me", "host", 1, "place"), timeout_seconds=6)
    runtime.has_looked = True
    take_pauses(runtime, Pauses((ONLY_ORDERS,)))
    assert leader._report().state == "STARTING", "whether the others can be copied is not known"
    runtime.has_reported = True
    assert leader._report().state == "PAUSED"
    runtime.has_reported = False
    take_pauses(runtime, Pauses((ALL,)))
    assert leader._report().state == "PAUSED", "of what is paused no epoch reports"
    runtime.is_known = False
    assert leader._report().state == "STARTING"


def test_of_a_flow_without_an_engine_only_positions_of_a_clean_stop_or_of_transactions_are_final() -> None:
    def state(claim: Claim, position: Position) -> FlowState:
        found = FlowState()
        for record in (pause_record(ALL), claim_record(claim), position.record(ORDERS)):
            found.apply(*record)
        return found

    led = Claim("me", 1)
    stopped, killed = led.released(is_settled=True), led
    settled, open_end = Position(5, 5, 0, True, settled=True), Position(5, 5, 0, True)
    assert report_without_engine("who", state(stopped, settled)).unsettled == {}
    assert set(report_without_engine("who", state(stopped, open_end)).unsettled) == {ORDERS}
    assert set(report_without_engine("who", state(killed, settled)).unsettled) == {ORDERS}
    not_clean = led.released(is_settled=False)
    assert set(report_without_engine("who", state(not_clean, settled)).unsettled) == {ORDERS}
    assert report_without_engine("who", state(killed, replace(open_end, atomic=True))).unsettled == {}
    late = report_without_engine("who", state(killed, open_end), frozenset({ORDERS}))
    assert (late.busy, late.unsettled) == ({ORDERS}, {})


def test_what_a_paused_partition_had_met_last_is_no_reason_any_more(runtime: FlowRuntime) -> None:
    """It is not tried again, so it would be one for as long as the pause lasts: the source was back by then."""
    runtime.troubles = dict.fromkeys(COPIES, "east: connection refused")
    assert len(reasons(runtime)) == 1
    take_pauses(runtime, Pauses((ONLY_ORDERS,)))
    (left,) = reasons(runtime)
    assert left.startswith(f"{BILLS}: ")
    take_pauses(runtime, Pauses((ALL,)))
    assert reasons(runtime) == ()
    take_pauses(runtime, Pauses(()))
    assert reasons(runtime) == (), "nobody has tried since it was resumed"
