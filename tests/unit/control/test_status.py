"""Looking at flows leaves no connection behind."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import kafka.errors
import pytest

from mirror.commands.status_page import partition_row
from mirror.config.resolving import load
from mirror.config.settings import MirrorSettings
from mirror.control import liveness, status
from mirror.control.flow_log import NeverRun
from mirror.control.flow_status import FlowStatus, PartitionStatus, worst_first
from mirror.control.liveness import SILENT_AFTER_MS, Liveness
from mirror.control.status import FlowObserver, fence_in_force, judge_state, look_at_all, observe
from mirror.kafka.answers import PartitionAnswers
from mirror.kafka.problems import BrokerRefused, ConnectionFailed, LeaderAway, LeaderUnknown, RequestFailed
from mirror.model.copied import Waiting
from mirror.model.failover import FailoverEntry, Phase
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.gap import Acknowledgement, Gap
from mirror.model.leadership import Claim
from mirror.model.partition import TopicPartition
from mirror.model.pause import PauseReport, PauseWish
from mirror.model.position import Position
from mirror.model.state_record import StateRecord
from mirror.model.state_values import (
    DataProducer,
    RunReport,
    Standby,
    claim_record,
    failover_record,
    pause_record,
    pause_report_record,
)
from tests.pauses import simulate_pauses
from tests.unit.control.builders import flow_settings


@pytest.fixture
def settings(tmp_path: Path) -> MirrorSettings:
    file = tmp_path / "mirror.properties"
    file.write_text(
        "clusters = east, west\neast.bootstrap.servers = east:9092\nwest.bootstrap.servers = west:9092\n"
        "east->west.enabled = true\nwest->east.enabled = true\n"
    )
    return load(file)


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[FlowObserver]:
    """Every observer that was closed."""
    found: list[FlowObserver] = []

    def close(self: FlowObserver) -> None:
        found.append(self)

    monkeypatch.setattr(FlowObserver, "close", close)
    return found


def test_every_observer_is_closed_also_when_a_look_raises(
    settings: MirrorSettings, closed: list[FlowObserver], monkeypatch: pytest.MonkeyPatch
) -> None:
    def defect(self: FlowObserver) -> None:
        raise ValueError("unknown record in the state topic")

    monkeypatch.setattr(FlowObserver, "look", defect)
    with pytest.raises(ValueError, match="unknown record"), observe(settings) as observers:
        observers[0].look()
    assert len(closed) == 2
    assert set(closed) == set(observers)


def test_only_the_flows_asked_for_are_observed(settings: MirrorSettings, closed: list[FlowObserver]) -> None:
    with observe(settings, {Flow("west", "east")}) as observers:
        assert len(observers) == 1
    assert closed == observers


def test_a_source_that_does_not_answer_is_told_beside_a_flow_that_never_ran(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever read that the flow had never run started an engine, to hear then that nobody answers."""

    def never(_: FlowObserver) -> FlowState:
        raise NeverRun("west", "mm2-state.east.internal")

    def away(alias: str, *_: object, **__: object) -> None:
        raise ConnectionFailed(f"{alias}: east:9092: connection refused", alias)

    monkeypatch.setattr(FlowObserver, "_state", never)
    monkeypatch.setattr(status, "Channel", away)
    with observe(settings, {Flow("east", "west")}) as (observer,):
        found = observer.look()
    assert found.state == "STOPPED"
    assert found.reasons == (
        "this flow has never run: west has no topic mm2-state.east.internal",
        "east: east:9092: connection refused",
    )


def test_a_source_that_the_engine_has_told_to_be_away_is_not_told_a_second_time(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But who asks for the status may be the only one that it does not answer."""

    def away(alias: str, *_: object, **__: object) -> None:
        raise ConnectionFailed(f"{alias}: east:9092: connection refused", alias)

    monkeypatch.setattr(status, "Channel", away)
    told = "connection of east->west to east: cluster east: connecting to east:9092: connection refused"
    state = FlowState(run=RunReport("DEGRADED", (told,), int(time.time() * 1000)))
    monkeypatch.setattr(FlowObserver, "_state", lambda _: state)
    with observe(settings, {Flow("east", "west")}) as (observer,):
        assert observer.look().reasons == (told,)
        state.run = RunReport("RUNNING", (), int(time.time() * 1000))
        assert observer.look().reasons == ("east: east:9092: connection refused",)


def test_an_outage_that_the_engine_has_told_in_the_words_of_its_log_is_not_told_a_second_time(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(alias: str, *_: object, **__: object) -> None:
        raise ConnectionFailed(f"{alias}: east:9092: connection refused", alias)

    monkeypatch.setattr(status, "Channel", away)
    told = "east does not answer (east:9092: connection refused); for it wait orders-0"
    state = FlowState(run=RunReport("DEGRADED", (told,), int(time.time() * 1000)))
    monkeypatch.setattr(FlowObserver, "_state", lambda _: state)
    with observe(settings, {Flow("east", "west")}) as (observer,):
        assert observer.look().reasons == (told,)


def test_the_worst_partitions_come_first() -> None:
    def one(partition: int, lag: int | None, gaps: int = 0, stopped: str | None = None) -> PartitionStatus:
        return PartitionStatus("orders", partition, 1, 1, 1, lag, None, gaps=gaps, stopped=stopped)

    fine, late, later = one(0, 0), one(1, 5), one(2, 50)
    silent, holed, stopped = one(3, None), one(4, 0, gaps=2), one(5, 0, stopped="why")
    assert worst_first([fine, late, later, silent, holed, stopped]) == [stopped, holed, silent, later, late, fine]


class Source:
    """A source that has every topic, and ends at 9."""

    def __init__(self, alias: str, *_: object, **__: object) -> None:
        self.alias = alias

    def find_offsets(self, partitions: Iterable[TopicPartition], _: int) -> PartitionAnswers[int]:
        return PartitionAnswers(dict.fromkeys(partitions, 9))

    def absent(self, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        assert not partitions
        return frozenset()

    def topic_id(self, _: str) -> str:
        return ""


def seen_with(
    channel: type[Source], state: FlowState, settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch
) -> FlowStatus:
    """Return what a look sees of a flow in a state, whose source is behind such a channel."""
    monkeypatch.setattr(status, "Channel", channel)
    monkeypatch.setattr(FlowObserver, "_state", lambda _: state)
    with observe(settings, [Flow("east", "west")]) as (observer,):
        monkeypatch.setattr(observer, "close", lambda: None)
        found = observer.look()
        observer._source = None
    return found


def test_topics_that_are_no_longer_selected_do_not_lag(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their positions are kept, they are named, and what stops them stops nobody."""
    settings.path.write_text(f"{settings.path.read_text()}topics = orders\n")
    kept, left = TopicPartition("orders", 0), TopicPartition("bills", 3)
    state = FlowState(positions={kept: Position(9, 9, 0, complete=True), left: Position(1, 1, 0, complete=True)})
    monkeypatch.setattr(status, "Channel", Source)
    monkeypatch.setattr(FlowObserver, "_state", lambda _: state)
    with observe(load(settings.path), [Flow("east", "west")]) as (observer,):
        monkeypatch.setattr(observer, "close", lambda: None)
        found = observer.look()
        observer._source = None
    assert [each.topic for each in found.partitions] == ["orders"]
    assert found.deselected == (left,)
    assert found.as_json()["no_longer_selected"] == [{"topic": "bills", "partition": 3}]
    assert any("no longer selected" in note and "bills" in note for note in found.notes)


class Recreated(Source):
    """A source with another topic of each name than before."""

    def topic_id(self, _: str) -> str:
        return "N" * 22


def test_how_far_the_copy_of_a_topic_that_was_created_anew_is_behind_is_not_known(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was copied up to 100, the new one ends at 9, and none of that is copied."""
    state = FlowState(positions={ORDERS: Position(100, 100, 0, complete=True, topic_id="O" * 22)})
    (found,) = seen_with(Recreated, state, settings, monkeypatch).partitions
    assert (found.source_end, found.lag_records, found.lag_seconds) == (9, None, None)


class HalfGone(Source):
    """A source that has lost a topic, a partition of another, and the leader of a third."""

    def find_offsets(self, partitions: Iterable[TopicPartition], _: int) -> PartitionAnswers[int]:
        left = (each for each in partitions if each != ORDERS)
        return PartitionAnswers({ORDERS: 9}, {each: LeaderUnknown(f"east: {each} has no leader") for each in left})

    def absent(self, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        return frozenset(each for each in partitions if each.topic == "bills" or each.partition == 7)


ORDERS = TopicPartition("orders", 0)


def test_a_partition_that_is_gone_or_has_no_leader_keeps_no_other_from_being_told(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RUN-07: the copies of what is gone are left as they are."""
    sources = (ORDERS, TopicPartition("orders", 1), TopicPartition("orders", 7), TopicPartition("bills", 3))
    state = FlowState(positions=dict.fromkeys(sources, Position(9, 9, 0, complete=True)))
    found = seen_with(HalfGone, state, settings, monkeypatch)
    told = {each.partition: (each.source_end, each.lag_records, each.unanswered) for each in found.partitions}
    assert told == {0: (9, 0, None), 1: (None, None, "no leader on east")}
    assert "east: orders-1 has no leader" in found.reasons
    assert [note for note in found.notes if "any more" in note] == [
        "bills is not on east any more; its copy east.bills on west is left as it is",
        "orders-7 is not on east any more; its copy east.orders-7 on west is left as it is",
    ]


def test_a_partition_without_a_leader_that_the_engine_has_told_of_is_not_told_a_second_time(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = "orders-1: east: orders-1 has no leader"
    sources = (TopicPartition("orders", 1), TopicPartition("orders", 11))
    state = FlowState(
        positions=dict.fromkeys(sources, Position(9, 9, 0, complete=True)),
        run=RunReport("DEGRADED", (told,), int(time.time() * 1000)),
    )
    assert seen_with(HalfGone, state, settings, monkeypatch).reasons == (told, "east: orders-11 has no leader")


class HalfLed:
    """The log of a flow's state on a target of which two copies have no leader; the engine has told of one."""

    def __init__(self, *_: object, **__: object) -> None:
        self._state = FlowState(
            positions=dict.fromkeys((ORDERS, *SICK), Position(9, 9, 0, complete=True)),
            run=RunReport("DEGRADED", ("orders-1: west: east.orders-1 has no leader",), int(time.time() * 1000)),
        )

    def observe(self) -> FlowState:
        return self._state

    def leaderless(self, copies: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        return frozenset({TopicPartition("east.orders", each.partition) for each in SICK} & {*copies})

    def close(self) -> None:
        pass


SICK = (TopicPartition("orders", 1), TopicPartition("orders", 2))


def test_a_copy_without_a_leader_is_told_beside_its_partition(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "Channel", Source)
    monkeypatch.setattr(status, "FlowLog", HalfLed)
    with observe(settings, [Flow("east", "west")]) as (observer,):
        found = observer.look()
        observer._source = None
    assert [each.unanswered for each in found.partitions] == [None, *["no leader on west"] * 2]
    assert found.reasons == ("orders-1: west: east.orders-1 has no leader", "west: east.orders-2 has no leader")
    assert [partition_row(each)["trouble"] for each in found.partitions] == ["", *["no leader on west"] * 2]
    assert worst_first(found.partitions)[-1].partition == 0


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (LeaderUnknown("east: orders-1 has no leader"), "no leader on east"),
        (LeaderAway("east: the leader of orders-1: east:9092: connection refused"), "leader on east away"),
        (BrokerRefused("east: offsets of orders-1", 29), "TopicAuthorizationFailedError on east"),
    ],
)
def test_why_the_source_does_not_tell_of_a_partition_stands_beside_it(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch, problem: RequestFailed, words: str
) -> None:
    class Silent(Source):
        def find_offsets(self, partitions: Iterable[TopicPartition], _: int) -> PartitionAnswers[int]:
            return PartitionAnswers({}, dict.fromkeys(partitions, problem))

        def absent(self, _: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
            return frozenset()

    state = FlowState(positions={SICK[0]: Position(9, 9, 0, complete=True)})
    (found,) = seen_with(Silent, state, settings, monkeypatch).partitions
    assert found.unanswered == words


def test_what_lies_on_the_source_behind_a_pause_is_told(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not on the standby: whoever has failed over wants to know that somebody still writes to the old side."""
    orders, bills = TopicPartition("orders", 0), TopicPartition("bills", 3)
    state = FlowState(positions={orders: Position(7, 7, 0, complete=True), bills: Position(1, 1, 0, complete=True)})
    state.apply(*claim_record(Claim("engine", 1)))
    state.apply(*pause_record(PauseWish("one", "orders", True, "ann", 5)))
    state.apply(*pause_report_record(PauseReport("engine", ("one",))))
    monkeypatch.setattr(status, "Channel", Source)
    monkeypatch.setattr(FlowObserver, "_state", lambda _: state)
    monkeypatch.setattr(status, "_first_record", lambda *_: Waiting(1, 1.0))
    monkeypatch.setattr(status, "topic_settings", lambda *_: {})
    with observe(settings, [Flow("east", "west")]) as (observer,):
        monkeypatch.setattr(observer, "close", lambda: None)
        found = observer.look()
        observer._source = None
    assert {each.topic: each.is_paused for each in found.partitions} == {"orders": True, "bills": False}
    assert found.is_pause_confirmed
    (note,) = [note for note in found.notes if "paused partition" in note]
    assert note.startswith("2 offsets of 1 paused partition on east beyond what is copied")
    assert found.as_json()["pauses"] == [
        {"topics": "orders", "paused": True, "by": "ann", "since": "1970-01-01T00:00:00Z"}
    ]


CUT = PauseWish("cut", None, True, "mirror failover", 5, is_cut=True)
DONE = FailoverEntry("run", "planned", Phase.DONE, "run directory runs/one on host", 7_000)
WHERE = "planned, 1970-01-01T00:00:07Z, run directory runs/one on host"


@dataclass
class Moved:
    """A flow of which runs of a failover are on record."""

    settings: MirrorSettings
    state: FlowState

    def look(self, *entries: FailoverEntry, cut: bool = True) -> FlowStatus:
        for each in entries:
            self.state.apply(*failover_record(each))
        self.state.apply(*pause_record(replace(CUT, is_pause=cut)))
        with observe(self.settings, [Flow("east", "west")]) as (observer,):
            return observer.look()


@pytest.fixture
def moved(settings: MirrorSettings, closed: list[FlowObserver], monkeypatch: pytest.MonkeyPatch) -> Moved:
    found = Moved(settings, FlowState(run=RunReport("RUNNING", (), int(time.time() * 1000))))
    monkeypatch.setattr(status, "Channel", Source)
    monkeypatch.setattr(FlowObserver, "_state", lambda _: found.state)
    return found


def test_a_flow_that_is_failed_over_says_so_and_when_and_where_its_run_is(moved: Moved) -> None:
    found = moved.look(DONE)
    assert found.state == "PAUSED"
    assert found.reasons == (f"failed over: the applications are on west; mirror failback moves them back ({WHERE})",)
    assert found.as_json()["failovers"] == [
        {
            "run": "run",
            "mode": "planned",
            "phase": "done",
            "since": "1970-01-01T00:00:07Z",
            "where": "run directory runs/one on host",
        }
    ]


def test_a_flow_that_is_copied_although_it_is_failed_over_is_not_in_order(moved: Moved) -> None:
    found = moved.look(DONE, cut=False)
    assert found.state == "DEGRADED"
    assert "and yet it is not cut" in found.reasons[0]
    # Nor with a pause by hand, which may be of one topic of many.
    moved.state.apply(*pause_record(PauseWish("hand", "orders", True, "ann", 6)))
    assert moved.look(DONE, cut=False).state == "DEGRADED"


def test_a_failover_under_way_is_a_note_until_the_flow_is_cut(moved: Moved) -> None:
    begun = replace(DONE, phase=Phase.UNDER_WAY)
    told = (
        f"a failover is under way ({WHERE}); if it has stopped, applications may be stopped too: mirror failover FILE "
        f"--flow 'east->west' --mode {DONE.mode} --run-directory, with that directory, and --applications, --groups, "
        "--fence as it was begun, goes on, and with --take-back undoes it until it has started the applications"
    )
    found = moved.look(begun, cut=False)
    assert (found.state, found.reasons, found.notes) == ("RUNNING", (), (told,))
    found = moved.look(begun)
    assert (found.state, found.reasons) == ("PAUSED", (told,))


def test_the_way_home_is_told_beside_the_failover_that_it_undoes(moved: Moved) -> None:
    home = FailoverEntry("home", "failback", Phase.RETURNING, "runs/one/failback on host", 9_000)
    _, second = moved.look(DONE, home).reasons
    assert second == (
        "a failback is under way, from west back to east (failback, 1970-01-01T00:00:09Z, runs/one/failback on host); "
        "if it has stopped, applications may be stopped too: mirror failback FILE --flow 'east->west' --run-directory, "
        "with that directory, and --applications, --groups, --make-anew and --leave-behind as it was begun, goes on, "
        "and with --take-back undoes it until it has started the applications"
    )


def test_an_engine_that_is_gone_does_not_hide_a_failover(moved: Moved) -> None:
    moved.state.run = RunReport("STOPPED", ("stopped",), 1)
    found = moved.look(DONE)
    assert (found.state, found.reasons[0][:11], found.reasons[1]) == ("STOPPED", "failed over", "stopped")


HOUR = 3_600.0


@pytest.fixture
def lagging(settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch) -> Lagging:
    """Three partitions of a topic that keeps records for ten hours; their source ends at 9."""
    found = Lagging({TopicPartition("orders", number): 5 - number for number in range(3)})

    def read(_: object, source: TopicPartition, position: int, __: int) -> Waiting:
        found.read.append((source.partition, position))
        return Waiting(int((time.time() - found.hours * HOUR) * 1000), 10.0)

    monkeypatch.setattr(status, "Channel", Source)
    monkeypatch.setattr(status, "_first_record", read)
    monkeypatch.setattr(status, "topic_settings", lambda *_: {"orders": {"retention.ms": "36000000"}})
    monkeypatch.setattr(FlowObserver, "_state", lambda _: found.state())
    return found


@dataclass
class Lagging:
    """Where partitions stand, and what of them was read."""

    positions: dict[TopicPartition, int]
    hours: float = 7.0
    read: list[tuple[int, int]] = field(default_factory=list)
    times: dict[TopicPartition, Waiting] = field(default_factory=dict)
    moving: set[TopicPartition] = field(default_factory=set)

    def state(self) -> FlowState:
        run = RunReport("RUNNING", (), int(time.time() * 1000))
        return FlowState(positions={each: Position(at, at, 0, True) for each, at in self.positions.items()}, run=run)

    def waiting(self, source: TopicPartition) -> Waiting | None:
        return self.times.get(source)

    def is_moving(self, source: TopicPartition) -> bool:
        return source in self.moving


def observer_of(settings: MirrorSettings, lagging: Lagging, **more: Any) -> FlowObserver:
    clusters = settings.clusters
    return FlowObserver(settings.flows[0], clusters["east"], clusters["west"], underway=lagging, **more)


RECORD = r"the oldest unmirrored record of orders-\d is deleted in"


def test_when_the_source_deletes_what_is_not_copied_is_told_if_that_is_soon(
    settings: MirrorSettings, lagging: Lagging
) -> None:
    found = observer_of(settings, lagging).look()
    assert found.state == "RUNNING"
    assert [each.deleted_in_seconds for each in found.partitions] == pytest.approx([3 * HOUR] * 3, abs=60)
    (note,) = found.notes
    assert re.fullmatch(rf"{RECORD} (3 h 0|2 h 59) min at this rate", note)
    assert found.as_json()["partitions"][0]["deleted_in_seconds"] == found.partitions[0].deleted_in_seconds
    lagging.hours = 9.5
    found = observer_of(settings, lagging).look()
    assert found.state == "DEGRADED"
    (reason,) = found.reasons
    assert re.fullmatch(rf"{RECORD} (30|29) min \d+ s at this rate", reason)
    assert observer_of(settings, lagging, cliff_seconds=60).look().reasons == ()


def test_what_the_source_has_deleted_is_known_by_its_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Reader:
        """A log that begins at 4, and has only markers."""

        def __init__(self, _: object, source: TopicPartition, position: int) -> None:
            self.position = position

        def fetch(self, *, most_bytes: int) -> list[Any]:
            if self.position < 4:
                raise BrokerRefused("east: orders-2", kafka.errors.OffsetOutOfRangeError)
            self.position = 9
            return []

    monkeypatch.setattr(status, "LogReader", Reader)
    channel: Any = None
    assert status._first_record(channel, TopicPartition("orders", 2), 3, 9) is status._DELETED
    assert status._first_record(channel, TopicPartition("orders", 1), 4, 9).record_bytes == 0


def test_what_the_source_has_deleted_before_it_was_copied_is_told_and_hides_nothing_else(
    settings: MirrorSettings, lagging: Lagging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lag of no partition of the flow was told any more once one had fallen behind the start of its log."""
    read = status._first_record

    def read_or_deleted(channel: Any, source: TopicPartition, position: int, end: int) -> Waiting:
        return status._DELETED if position < 4 else read(channel, source, position, end)

    monkeypatch.setattr(status, "_first_record", read_or_deleted)
    lagging.hours = 1
    found = observer_of(settings, lagging).look()
    lags = [(each.deleted_in_seconds == 0, each.lag_seconds is None) for each in found.partitions]
    assert lags == [(False, False), (False, False), (True, True)]
    assert found.reasons == ("the oldest unmirrored record of orders-2 is deleted by now",)


def test_what_stands_still_is_read_once_and_of_much_that_lags_only_some(
    settings: MirrorSettings, lagging: Lagging
) -> None:
    """The largest lag first; a look is not to cost more the more there is to copy."""
    observer = observer_of(settings, lagging, most_read=2)
    lags = [round(each.lag_seconds / HOUR) if each.lag_seconds else None for each in observer.look().partitions]
    assert (lags, lagging.read) == ([None, 7, 7], [(2, 3), (1, 4)])
    observer.look()
    assert lagging.read == [(2, 3), (1, 4), (0, 5)], "the others are known"
    lagging.positions[TopicPartition("orders", 1)] = 7
    observer.look()
    assert lagging.read[3:] == [(1, 7)], "it has moved"


def test_what_is_on_its_way_is_not_read_and_what_moves_is_of_now(settings: MirrorSettings, lagging: Lagging) -> None:
    first, second, third = lagging.positions
    lagging.times[first] = Waiting(int((time.time() - 2 * HOUR) * 1000), 10.0)
    lagging.moving = {second}
    observer = observer_of(settings, lagging)
    found = observer.look().partitions
    assert [round((each.lag_seconds or 0) / HOUR) for each in found] == [2, 0, 7]
    assert [number for number, _ in lagging.read] == [third.partition]
    observer.look()
    assert [number for number, _ in lagging.read] == [third.partition, second.partition], "it does not move after all"


def test_what_stops_a_partition_and_its_gaps_are_told_before_it_has_a_position(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = TopicPartition("orders", 0)
    known, found = Gap(source, 0, 0, "known", 4), Gap(source, 0, 0, "holds records", 5, passed=False)
    state = FlowState(run=RunReport("DEGRADED", ("it stands",), 1, stopped={source: "holds records"}))
    for record in (known.record(), found.record(), Acknowledgement("ann", "so be it", 6).record(known.key)):
        state.apply(*record)
    seen = seen_with(Source, state, settings, monkeypatch)
    assert (seen.partitions, len(seen.gaps), seen.open_gaps) == ((), 2, (found,))
    assert seen.stops == {source: "holds records"}


@pytest.mark.parametrize(
    ("state", "reasons", "silence", "judged"),
    [
        ("STARTING", (), None, "STARTING"),
        ("STARTING", ("the source does not answer",), None, "DEGRADED"),
        ("STARTING", (), "the engine last reported 16 s ago", "STOPPED"),
        ("RUNNING", (), None, "RUNNING"),
        ("STOPPED", (), None, "STOPPED"),
    ],
)
def test_a_flow_runs_only_once_an_epoch_has_reported(
    state: str, reasons: tuple[str, ...], silence: str | None, judged: str
) -> None:
    run = RunReport(state, reasons, 1_000_000)
    assert judge_state(run, Liveness(silence), ())[0] == judged


def test_engines_that_have_died_are_watched_together(
    settings: MirrorSettings, closed: list[FlowObserver], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One engine may have run all the flows of a file: each was watched for seconds after the other."""
    now = [1_000.0]
    monkeypatch.setattr(liveness, "steady_seconds", lambda: now[0])
    simulate_pauses(monkeypatch, lambda seconds: now.__setitem__(0, now[0] + seconds))
    died = FlowState(run=RunReport("RUNNING", (), 5), claim=Claim("an engine", 1, 7))
    monkeypatch.setattr(FlowObserver, "_state", lambda _: died)
    monkeypatch.setattr(FlowObserver, "_partitions", lambda *_: ((), (), ()))
    with observe(settings) as observers:
        found = look_at_all(observers)
    assert [(each.flow, each.state) for each in found] == [(each.flow, "STOPPED") for each in settings.enabled_flows]
    assert 6 < now[0] - 1_000 < 8
    assert len(closed) == 2


def test_a_flow_that_was_stopped_in_order_says_since_when_no_engine_runs_it() -> None:
    """STOPPED stood there alone: whoever had not stopped it had to guess."""
    assert judge_state(RunReport("STOPPED", (), 1_000_000), Liveness(), ("a gap",)) == (
        "STOPPED",
        ("no engine runs it: the last one stopped at 1970-01-01T00:16:40Z", "a gap"),
    )


def test_a_flow_of_which_something_is_paused_is_paused_if_nothing_is_wrong_and_an_engine_runs() -> None:
    run = RunReport("PAUSED", (), 1_000)
    assert judge_state(run, Liveness(), [], is_paused=True) == ("PAUSED", ())
    assert judge_state(run, Liveness(), ["a gap"], is_paused=True) == ("DEGRADED", ("a gap",))
    assert judge_state(run, Liveness("silent"), [], is_paused=True)[0] == "STOPPED"
    assert judge_state(run, Liveness(), []) == ("RUNNING", ()), "it was resumed since the report"
    begun = RunReport("STARTING", (), 1_000)
    assert judge_state(begun, Liveness(), [], is_paused=True) == ("STARTING", ()), "some of it may not be paused"


def test_a_pause_is_confirmed_by_who_leads_the_flow_now_or_led_it_last() -> None:
    """Whoever leads by now may be of a version that knows no pauses, and copies."""

    def said_by(engine: str, claim: Claim, *others: StateRecord) -> bool:
        state = FlowState()
        wish = PauseWish("all", None, True, "ann", 1)
        report = PauseReport(engine, ("all",))
        for record in (pause_record(wish), claim_record(claim), pause_report_record(report), *others):
            state.apply(*record)
        return status._is_pause_confirmed(state)

    assert said_by("me", Claim("me", 1))
    assert said_by("me", Claim("me", 1).released(is_settled=True))
    assert not said_by("me", Claim("another", 2))
    obscure = (b'["pause","b.*"]', b'{"v":2}')
    assert not said_by("me", Claim("me", 1), obscure), "the report may be older than what pauses all the rest"


def test_what_the_confirmation_of_a_pause_does_not_promise_is_told() -> None:
    state = FlowState()
    report = PauseReport("me", ("all",), unrefused=frozenset({TopicPartition("orders", 0)}), weakness="grant Write")
    wish = pause_record(PauseWish("all", None, True, "ann", 1))
    for record in (wish, claim_record(Claim("me", 1)), pause_report_record(report)):
        state.apply(*record)
    limit = status._pause_limit(state)
    assert limit is not None
    (note,) = status._paused(state, limit, is_confirmed=True)
    assert "nothing more is sent to its copies" in note
    assert note.endswith("would still be appended (orders-0): grant Write)")
    (note,) = status._paused(state, None, is_confirmed=True)
    assert "nothing more is appended to its copies" in note


@pytest.mark.parametrize(
    ("producer", "said"),
    [
        (None, None),
        (
            DataProducer(7, 2, "mm2-state.east.internal.west"),
            "refused by west (transactional id mm2-state.east.internal.west)",
        ),
        (
            DataProducer(7, 2),
            "noticed, not refused; grant Write and Describe on the transactional id mm2-state.east.internal.west on west",
        ),
    ],
)
def test_which_fence_is_in_force_is_told_and_which_acl_gives_the_better_one(
    producer: DataProducer | None, said: str | None
) -> None:
    state = FlowState()
    if producer is not None:
        state.apply(*producer.record())
    assert fence_in_force(flow_settings(), state) == said


def test_before_its_first_run_a_flow_is_said_to_have_had_none() -> None:
    assert judge_state(None, Liveness(), ()) == ("STOPPED", ("this flow has never run",))


def test_engines_that_stand_by_are_told_as_long_as_they_say_so(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what keeps one from taking over as the leader would, and until their last word is too old."""
    state = FlowState()
    state.claim = Claim("leading", 3, host="one", pid=5)
    for name, age_ms, differs_in in (("fine", SILENT_AFTER_MS - 1, ()), ("other", 0, ("topics",)), ("gone", 10**6, ())):
        state.standbys[name] = Standby(name, "two", 6, 10**9 - age_ms, differs_in)
    monkeypatch.setattr(status, "Channel", Source)
    monkeypatch.setattr(liveness, "now_ms", lambda: 10**9)
    monkeypatch.setattr(liveness, "steady_seconds", lambda: 0.0)
    monkeypatch.setattr(FlowObserver, "_state", lambda _: state)
    with observe(settings, [Flow("east", "west")]) as (observer,):
        monkeypatch.setattr(observer, "close", lambda: None)
        found = observer.look()
        observer._source = None
    assert [each for each in found.notes if "stands by" in each] == [
        "an engine on two (process 6) stands by",
        "an engine on two (process 6) stands by; of the settings that engines of a flow must share its file differs from the leader's in topics",
    ]
    told = found.as_json()
    assert told["standbys"] == [
        {"engine": "fine", "host": "two", "pid": 6, "differs_in": []},
        {"engine": "other", "host": "two", "pid": 6, "differs_in": ["topics"]},
    ]
    assert told["leader"] == {"engine": "leading", "host": "one", "pid": 5, "term": 3}
    state.claim = Claim("leading", 3, is_released=True)
    assert FlowStatus(found.flow, "STOPPED", (), (), claim=state.claim).as_json()["leader"] is None
