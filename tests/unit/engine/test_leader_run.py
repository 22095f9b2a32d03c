"""An engine takes part in the election of a flow from its start until it is told to end, whatever the target answers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, cast

import pytest

from mirror.clock import steady_seconds
from mirror.config.settings import ClusterSettings
from mirror.control.tick import TickReport
from mirror.engine import leader as module
from mirror.engine.election import Identity
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.leader import FlowLeader, digests
from mirror.engine.lease import Lease
from mirror.engine.ticking import Ticking
from mirror.kafka.problems import ClusterUnreachable
from mirror.model.pause import PauseReport, Pauses, PauseWish
from mirror.model.state_values import RunReport
from tests.unit.control.builders import flow_settings

TARGET = ClusterSettings("west", {})
PLACE = Identity("engine", "host", 1, "place")


class World:
    """The target and the election there: each round has an answer, behind the last one the engine is told to end.

    Attributes
    ----------
    answers
        of each round: the term this engine leads in, None if another does, or why there is no state topic.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: int | str | None, spark_hangs: bool = False) -> None:
        self.answers = list(answers)
        self.reports: list[TickReport] = []
        self.connected = self.open = self.closed = 0
        self.unreachable = 0
        self.released: list[tuple[RunReport, bool]] = []
        self.elected: tuple[object, ...] = ()
        self.term: int | None = None
        self.was_settled = False
        self.former_seconds = 0.0
        self.was_untroubled_at_ms: int | None = None
        self.settings: dict[str, str] = {}
        self.differs_in: tuple[str, ...] = ()
        self.claim = None
        self.pauses = Pauses()
        self.pause_report: PauseReport | None = None
        self.renewed_at = 0.0
        self.runtime = FlowRuntime(flow_settings())
        self.heard: Callable[[], object] = lambda: None
        self.leader = FlowLeader(
            self.runtime.settings, self.runtime, PLACE, timeout_seconds=600.0, is_stuck=lambda: spark_hangs
        )
        monkeypatch.setattr(module, "_LOOK_SECONDS", 0.0)
        monkeypatch.setattr(module.Cluster, "connect", self.connect)
        monkeypatch.setattr(module, "create_state_topic", self.create)
        monkeypatch.setattr(module, "Election", self.begin)

    def run(self) -> None:
        self.leader.run(TARGET, Ticking(self.keep, self.runtime.settings.flow))
        assert self.open == 0

    def keep(self, report: TickReport) -> None:
        self.reports.append(report)
        self.heard()
        if not self.answers:
            self.leader.end(is_settled=True)

    @contextmanager
    def connect(self, settings: ClusterSettings) -> Any:
        assert settings is TARGET
        if self.unreachable:
            self.unreachable -= 1
            raise ClusterUnreachable("west", "west:9092", "nobody answers")
        self.connected += 1
        self.open += 1
        yield self
        self.open -= 1

    def create(self, target: object, settings: object) -> tuple[bool, tuple[str, ...]]:
        assert (target, settings) == (self, self.runtime.settings)
        if self.answers and isinstance(self.answers[0], str):
            return False, (cast(str, self.answers.pop(0)),)
        return True, ()

    def begin(self, *known: object, **_: object) -> World:
        assert not self.elected, "it stands for election once"
        self.elected = known
        return self

    def round(self, _: Callable[[], RunReport]) -> bool:
        self.term = cast("int | None", self.answers.pop(0))
        self.runtime.has_reported = self.term is not None
        return self.term is not None

    def release(self, report: RunReport, *, is_settled: bool) -> None:
        assert self.runtime.lease.left < 0, "nothing more is written"
        self.released.append((report, is_settled))

    def publish(self, record: object) -> None:
        """What is said of the pause is not looked at here."""

    def close(self) -> None:
        self.closed += 1


def test_it_takes_part_until_it_is_told_to_end_and_releases_the_flow_then(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "mirror")
    world = World(monkeypatch, 1, 1, 1)
    world.run()
    assert [(each.name, each.done, each.problems) for each in world.reports] == [
        *[("leader east->west", 1, ())] * 3,
        ("release east->west", 1, ()),
    ]
    assert PLACE in world.elected
    assert (world.connected, world.closed) == (1, 1)
    assert [(report.state, is_settled) for report, is_settled in world.released] == [("STOPPED", True)]
    assert len([each for each in caplog.messages if each.startswith("the first epoch has reported")]) == 1


def test_that_nothing_more_is_appended_to_what_is_paused_is_said_at_once_and_not_at_the_next_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next look is an hour away; so it is when it is told to end."""
    world = World(monkeypatch, 1, 1)
    monkeypatch.setattr(module, "_LOOK_SECONDS", 3600.0)
    world.runtime.pauses = Pauses((PauseWish("all", None, True, "ann", 1),))
    world.pauses = world.runtime.pauses
    world.heard = world.runtime.end_epoch
    world.run()
    assert [each.name for each in world.reports] == ["leader east->west"] * 2 + ["release east->west"]


def test_a_target_that_does_not_answer_or_takes_no_topic_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, "no rights to create it", 2)
    world.unreachable = 1
    world.run()
    told = [(each.done, each.problems) for each in world.reports[:-1]]
    assert "nobody answers" in told[0][1][0]
    unled = "nothing is copied until mm2-state.east.internal can be used on west"
    assert told[1:] == [(0, (unled, "no rights to create it")), (1, ())]
    assert (world.connected, world.closed, len(world.released)) == (1, 1, 1)


def test_an_engine_that_never_came_to_stand_for_election_has_nothing_to_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, "no rights to create it")
    world.run()
    assert [each.name for each in world.reports] == ["leader east->west", "release east->west"]
    assert (world.released, world.closed) == ([], 0)


def test_that_it_stands_by_is_said_once_each_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "mirror")
    World(monkeypatch, None, None, 3, None, None).run()
    told = [each for each in caplog.messages if each.startswith(("stands by", "leads"))]
    assert [each.split()[0] for each in told] == ["stands", "leads", "stands"]


def test_who_has_never_led_has_nothing_to_give_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lost: list[None] = []
    world = World(monkeypatch, None, None)
    world.leader._lost = lambda: lost.append(None)
    world.runtime.late.weakness = "no rights"
    world.runtime.lease = Lease(600.0)
    world.renewed_at = steady_seconds()
    left: list[float] = []
    world.heard = lambda: left.append(world.runtime.lease.left)
    world.run()
    assert lost == []
    assert len(left) == 3
    assert max(left) < 0, "it has no right to write"
    assert not any(each.levelname == "WARNING" for each in caplog.records)


def test_an_engine_that_ends_does_not_say_that_it_stands_by(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "mirror")
    world = World(monkeypatch, None)
    world.leader.end(is_settled=True)
    world.run()
    assert not any(each.startswith("stands by") for each in caplog.messages)


def test_an_engine_that_leads_in_another_term_begins_anew(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It was stopped for so long that another has led meanwhile: what that one wrote is looked up."""
    caplog.set_level("INFO", "mirror")
    world = World(monkeypatch, 1, 1, 3)
    renewed: list[tuple[int, int | None]] = []

    class OfOneTerm(Lease):
        def __init__(self, *of: float, former_seconds: float) -> None:
            super().__init__(*of, former_seconds=former_seconds)
            self.term = world.term or 0

        def renew(self, at: float) -> None:
            renewed.append((self.term, world.term))
            super().renew(at)

    monkeypatch.setattr(module, "Lease", OfOneTerm)
    world.run()
    assert renewed == [(1, 1), (1, 1), (3, 3)], "the right to write in a term goes by renewals of that term"
    told = [each for each in caplog.messages if each.startswith(("stands by", "leads"))]
    assert told == [
        "leads the flow, term 1",
        "stands by: another engine led the flow meanwhile",
        "leads the flow, term 3",
    ]


def test_an_engine_whose_spark_hangs_gives_the_flow_up_once_with_what_it_had_to_report(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(monkeypatch, 1)
    world.leader._is_stuck = lambda: not world.answers
    released: list[tuple[str, bool]] = []

    def release(report: RunReport, *, is_settled: bool) -> None:
        released.append((report.state, is_settled))

    def keep(report: TickReport) -> None:
        world.reports.append(report)
        if len(world.reports) == 3:
            world.leader.end(is_settled=True)

    monkeypatch.setattr(world, "release", release)
    monkeypatch.setattr(world, "keep", keep)
    world.run()
    assert [state for state, _ in released] == ["STARTING", "STOPPED"]
    assert not released[0][1], "what was sent may arrive late"
    assert [each.done for each in world.reports] == [1, 0, 0, 1]
    assert [each for each in caplog.messages if each.startswith("stands by")] == [
        "stands by: Spark has not answered for minutes; another engine may lead the flow"
    ]


def test_an_engine_whose_spark_hangs_leads_nothing_and_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, spark_hangs=True)
    world.run()
    (report, _) = world.reports
    assert report.done == 0
    assert "end this engine, and start it again" in report.problems[0]


def test_in_what_the_files_of_two_engines_differ_is_said_by_who_stands_by_and_by_who_takes_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "mirror")
    World(monkeypatch, None, 1, None).run()
    assert not any("differs" in each for each in caplog.messages)
    caplog.clear()
    world = World(monkeypatch, None, 1, None)
    world.differs_in = ("topics", "groups")
    world.run()
    told = [each for each in caplog.messages if "differs" in each]
    # What else differs in the files is not compared, and must not be taken for the same.
    shared = "of the settings that engines of a flow must share"
    assert told == [
        f"stands by; engine  leads the flow; {shared} its file differs from this one in topics, groups",
        f"leads the flow, term 1; {shared} the file of the engine that led it before differs in topics, groups",
        f"stands by: engine  leads the flow; {shared} its file differs from this one in topics, groups",
    ]


@pytest.mark.parametrize("weak_fence", [None, "no rights"])
def test_who_stands_by_lets_no_control_begin_and_where_late_requests_are_not_refused_stops_writing_at_once(
    monkeypatch: pytest.MonkeyPatch, weak_fence: str | None
) -> None:
    class Looked(threading.Event):
        """Is set once somebody has looked."""

        def is_set(self) -> bool:
            was, _ = super().is_set(), self.set()
            return was

    lost: list[None] = []
    world = World(monkeypatch, 1, None)
    world.leader._lost = lambda: lost.append(None)
    world.runtime.late.weakness = weak_fence
    world.runtime.lease = Lease(600.0)
    world.renewed_at = steady_seconds()
    world.run()
    assert world.leader.await_lease(Looked()) is None
    assert lost == [None] * (weak_fence is not None)


def test_whether_a_flow_is_written_in_transactions_is_the_same_for_all_its_engines() -> None:
    once = flow_settings("west.exactly.once.source.support = enabled")
    assert once.transactions is not None
    first, second = digests(flow_settings(), 6.0), digests(once, 6.0)
    assert [key for key in first if first[key] != second[key]] == ["exactly.once"]
