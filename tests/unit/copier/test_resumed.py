"""Java MirrorMaker copies a topic while a live engine has it paused: resumed, nothing of that is copied once more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.control.tick import TickReport
from mirror.copier.takeover_task import take_over
from mirror.engine import flow_pauses
from mirror.engine.flow_control import FlowControl
from mirror.engine.flow_pauses import take_pauses, take_resumed
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.mm2_traces import Mm2Traces, traces_of
from mirror.engine.taken_producers import TakenProducers
from mirror.engine.takeovers import take_in
from mirror.engine.ticking import Ticking
from mirror.kafka.answers import Found
from mirror.kafka.problems import ConnectionFailed
from mirror.model.flow_state import FlowState
from mirror.model.mm2_trace import Pair, SyncTrail
from mirror.model.partition import TopicPartition
from mirror.model.pause import Pauses, PauseWish
from mirror.model.state_values import source_record
from tests.unit.control.builders import flow_settings
from tests.unit.copier.copying_in_memory import ORDERS, OURS, Copying

PAUSED = Pauses((PauseWish("pause", None, True, "ann", 1),))
COPY = TopicPartition("east.orders", 0)


class Engine:
    """An engine that leads the flow of a :class:`Copying`, as far as that is about what is paused."""

    def __init__(self, copying: Copying, monkeypatch: pytest.MonkeyPatch) -> None:
        self.copying = copying
        #: How far Java MirrorMaker has recorded that it has copied, and its offset syncs.
        self.mm2: int | None = None
        self.syncs = SyncTrail()
        self.append_point = FlowRuntime(flow_settings())
        self.append_point.lead(1, was_settled=True)
        self.append_point.partitions = ((ORDERS, COPY, "", ""),)
        self.append_point.take_state(FlowState(), Mm2Traces(), TakenProducers(producer=OURS, is_first=True))
        self.append_point.handovers = dict(copying.handovers)
        self.is_away = False
        self.traced = 0
        target: Any = SimpleNamespace(cluster_id="west", offsets=self.offsets)
        self.control = FlowControl(
            self.append_point,
            target,
            target,
            Ticking(lambda _: None, self.append_point.settings.flow),
            cast(Any, None),
            matches_mm2=True,
        )
        monkeypatch.setattr(flow_pauses, "read_traces", self.traces)

    def offsets(self, partitions: list[TopicPartition], _: str) -> Found[TopicPartition, int]:
        if self.is_away:
            raise ConnectionFailed("west: hung up")
        return Found({each: self.copying.copy().end for each in partitions})

    def traces(self, _settings: object, state: FlowState, _target: object, *, matches: bool) -> Mm2Traces:
        self.traced += 1
        positions = {ORDERS: self.mm2} if self.mm2 is not None else {}
        return traces_of(positions, {ORDERS: self.syncs}, state, matches=matches, has_run=True)

    def look(self) -> TickReport:
        state = self.copying.state()
        state.apply(*source_record("the east"))
        return self.control._look_at_resumed(cast(Any, SimpleNamespace(poll=lambda: state)))

    def pause_while_java_copies(self, *values: bytes, recorded: bool = True, synced: bool = True) -> None:
        take_pauses(self.append_point, PAUSED)
        for value in values:
            upstream, downstream = self.copying.source().end, self.copying.copy().end
            self.copying.source().write(value)
            (record,) = self.copying.source().log[-1:]
            self.copying.copy().put(bytes(record[0]))
            if synced:
                self.syncs.take(Pair(upstream, downstream))
            if recorded:
                self.mm2 = upstream + 1
        take_pauses(self.append_point, Pauses())

    def copy_on(self) -> None:
        """Take over what is to be taken over, and copy the rest."""
        copying, append_point = self.copying, self.append_point
        copying.handovers = dict(append_point.handovers)
        works = copying.works
        if ORDERS in append_point.takeovers:
            copying.works = {ORDERS: {"mm2": append_point.takeovers[ORDERS]}}
            (found,) = take_over(copying.work(heard=False)).partitions
            assert found.handover is not None, (found.trouble, found.stopped)
            copying.handovers[ORDERS] = found.handover
            take_in(append_point, found)
        copying.works = works | {ORDERS: {"mm2": append_point.mm2.possible(ORDERS, is_known=True)}}
        copying.epoch(2.0)


@pytest.fixture
def engine(copying: Copying, monkeypatch: pytest.MonkeyPatch) -> Engine:
    copying.begin()
    return Engine(copying, monkeypatch)


def test_what_java_has_copied_meanwhile_and_recorded_is_taken_over(engine: Engine) -> None:
    engine.pause_while_java_copies(b"1", b"2")
    engine.copying.source().write(b"3")
    assert engine.append_point.resumed == {ORDERS}, "it is not copied on before that is known"
    assert engine.look().is_ok
    assert engine.append_point.resumed == set()
    assert engine.append_point.takeovers.keys() == {ORDERS}
    engine.copy_on()
    assert engine.copying.copy().values() == [b"0", b"1", b"2", b"3"]


def test_what_it_has_copied_until_it_was_killed_is_found_by_its_syncs(engine: Engine) -> None:
    engine.pause_while_java_copies(b"1", b"2", recorded=False)
    assert engine.look().is_ok
    assert not engine.append_point.handovers[ORDERS].clean
    engine.copying.handovers = dict(engine.append_point.handovers)
    engine.copying.works = {ORDERS: {"mm2": engine.append_point.trace(ORDERS)}}
    assert engine.copying.epoch(60.0)[ORDERS].written_by_mm2
    assert engine.copying.copy().values() == [b"0", b"1", b"2"]


def test_where_nobody_has_written_nothing_is_read(engine: Engine) -> None:
    engine.pause_while_java_copies()
    assert engine.look().is_ok
    assert (engine.traced, engine.append_point.resumed) == (0, set())
    assert engine.append_point.handovers[ORDERS].clean


def test_what_others_have_written_is_passed_by(engine: Engine) -> None:
    """It is told as it is of a topic that was not paused."""
    take_pauses(engine.append_point, PAUSED)
    engine.copying.copy().write(b"theirs")
    take_pauses(engine.append_point, Pauses())
    assert engine.look().is_ok
    assert (engine.append_point.handovers[ORDERS].clean, dict(engine.append_point.takeovers)) == (True, {})


def test_as_long_as_it_cannot_be_looked_at_it_is_not_copied(engine: Engine) -> None:
    engine.pause_while_java_copies(b"1")
    engine.is_away = True
    assert not engine.look().is_ok
    assert engine.append_point.resumed == {ORDERS}
    take_pauses(engine.append_point, PAUSED)
    assert engine.append_point.resumed == set(), "it is paused again"
    assert engine.look().is_ok


def test_a_partition_that_is_not_on_record_any_more_does_not_wait_for_ever(engine: Engine) -> None:
    engine.pause_while_java_copies()
    engine.append_point.handovers.clear()
    assert engine.look().is_ok
    assert engine.append_point.resumed == set()


def test_what_was_never_at_rest_is_not_looked_at(engine: Engine) -> None:
    """The epoch that was planned before the pause goes on: its position is the one of before."""
    engine.append_point.at_work = frozenset({ORDERS})
    engine.pause_while_java_copies()
    assert engine.append_point.resumed == set()
    assert engine.append_point.handovers[ORDERS].clean


def test_what_java_has_begun_before_this_engine_is_not_begun_once_more(
    copying: Copying, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under unchanged names the copy alone does not tell, and when this engine started Java MirrorMaker had not run."""
    engine = Engine(copying, monkeypatch)
    engine.append_point.settings = flow_settings(
        "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    )
    engine.append_point.partitions = ((ORDERS, ORDERS, "", ""),)
    engine.pause_while_java_copies(b"1", b"2")
    assert engine.append_point.resumed == {ORDERS}
    assert engine.look().is_ok
    assert engine.append_point.resumed == set()
    assert engine.append_point.takeovers.keys() == {ORDERS}


def test_where_java_was_killed_before_it_had_recorded_anything_what_was_not_begun_is_looked_at_first(
    engine: Engine,
) -> None:
    engine.append_point.handovers.clear()
    take_pauses(engine.append_point, PAUSED)
    take_pauses(engine.append_point, Pauses())
    take_resumed(engine.append_point, {ORDERS}, Mm2Traces(has_run=True))
    assert engine.append_point.mm2.possible(ORDERS, is_known=False) is not None
