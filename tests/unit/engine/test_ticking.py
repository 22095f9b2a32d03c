"""What ticks have to say is said aloud when it changes, not every round."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.control.tick import TickReport, run_tick
from mirror.engine.cluster_news import Away, ClusterNews, Outages
from mirror.engine.ticking import Ticking
from mirror.kafka.problems import ClusterError, ConnectionFailed
from mirror.kafka.security import UnsupportedSetting
from tests.flows import EAST_WEST


@pytest.fixture(autouse=True)
def everything(caplog: pytest.LogCaptureFixture) -> None:
    """Keep what the log is told."""
    caplog.set_level("INFO", "mirror")


def test_problems_and_notes_are_told_once_and_a_recovery_too(caplog: pytest.LogCaptureFixture) -> None:
    """ACL-07: a note leaves a report in order."""
    ticking = Ticking(lambda _: None, EAST_WEST)
    reports = [
        TickReport("t", 1, 0, ("a problem",), ("a note",)),
        TickReport("t", 2, 0, ("a problem", "another"), ("a note",)),
        TickReport("t", 3, 0, (), ("a note",)),
        TickReport("t", 4, 0, (), ("a note",)),
    ]
    assert [ticking.once(lambda report=report: report) for report in reports] == [False, False, True, True]  # type: ignore[misc]
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "t: a problem"),
        ("INFO", "t: a note"),
        ("WARNING", "t: another"),
        ("INFO", "t: recovered"),
    ]


def test_where_nothing_is_to_be_done_it_waits_until_something_is() -> None:
    waited, looks = list[float](), iter((False, True))
    never_stops = SimpleNamespace(is_set=lambda: False, wait=waited.append)
    Ticking(lambda _: None, EAST_WEST).until(cast(Any, never_stops), [], lambda: next(looks))
    assert waited == [2.0]


def test_a_problem_that_stays_is_told_again_every_five_minutes(caplog: pytest.LogCaptureFixture) -> None:
    """A flow that nobody led for want of rights had four lines of log, and then none for hours."""
    ticking = Ticking(lambda _: None, EAST_WEST)
    for second in range(0, 11 * 60, 5):
        ticking.once(lambda at=second * 1000: TickReport("leader east->west", at, 0, ("no right", "no other")))  # type: ignore[misc]
    for second in (660, 665):
        ticking.once(lambda at=second * 1000: TickReport("leader east->west", at, 1))  # type: ignore[misc]
    ticking.once(lambda: TickReport("leader east->west", 2_000_000, 0, ("no right",)))
    assert caplog.messages == [
        "leader: no right",
        "leader: no other",
        "leader: for 5 min now: no right (and 1 more)",
        "leader: for 10 min now: no right (and 1 more)",
        "leader: recovered",
        "leader: no right",
    ]


def test_of_very_many_problems_the_first_are_told_and_the_others_counted(caplog: pytest.LogCaptureFixture) -> None:
    problems = tuple(f"group {number}: refused" for number in range(10_000))
    kept: list[TickReport] = []
    Ticking(kept.append, EAST_WEST).once(lambda: TickReport("group offsets east->west", 1, 0, problems))
    assert len(caplog.messages) == 11
    assert caplog.messages[0] == "group offsets: group 0: refused", "the flow stands in the line already"
    assert caplog.messages[-1] == "group offsets: ... and 9,990 more"
    assert kept[0].problems == problems


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (OSError(24, "Too many open files"), "too many open files"),
        (FileNotFoundError(2, "No such file or directory", "k.pem"), "no such file or directory: k.pem"),
        (UnsupportedSetting("ssl.keystore.location", "k.p12", "no such file"), "ssl.keystore.location"),
    ],
)
def test_what_this_machine_lacks_for_a_while_ends_nothing(failure: Exception, said: str) -> None:
    """A key store that is being replaced, descriptors that somebody else holds."""

    def work(_: int) -> tuple[int, Sequence[str]]:
        raise failure

    (problem,) = run_tick("topics", lambda: 5, work).problems
    assert problem.startswith(said)


def test_what_a_cluster_spoils_is_tried_again_and_shown_until_it_works(caplog: pytest.LogCaptureFixture) -> None:
    """CLI-05: no failure of a cluster's ends the thread."""
    stop = threading.Event()
    failures: list[Exception] = [ClusterError("west", "listing", "no"), ConnectionFailed("west, broker 1 hung up")]

    def work(_: int) -> tuple[int, Sequence[str]]:
        if failures:
            raise failures.pop(0)
        stop.set()
        return 1, ()

    kept: list[TickReport] = []
    Ticking(kept.append, EAST_WEST).until(stop, [(0.0, lambda: run_tick("topics", lambda: 5, work))])
    assert [report.problems for report in kept] == [("cluster west: listing: no",), ("west, broker 1 hung up",), ()]
    assert caplog.messages == [
        "topics: cluster west: listing: no",
        "topics: west, broker 1 hung up",
        "topics: recovered",
    ]


def test_an_outage_is_not_told_again_by_each_tick_that_meets_it(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seventeen lines of seven threads told of one cluster that was away for a minute."""
    monkeypatch.setattr("mirror.engine.cluster_news._AGAIN_SECONDS", 0.0)
    reasons: list[Away | None] = [Away("10.0.0.1:9092: connection refused")]
    west = ClusterNews("west", lambda: reasons[-1])
    ticking = Ticking(lambda _: None, EAST_WEST, Outages({"west": west}))
    failed, well = ("west, broker 1: the broker closed the connection",), TickReport("state", 2, 1)

    def tick(*problems: str, unreached: str = "west") -> bool:
        return ticking.once(lambda: TickReport("state", 1, 0, problems, unreached=unreached if problems else ""))

    assert not tick(*failed), "it is a problem all the same"
    assert caplog.messages == [], "whether the cluster is away is not known yet"
    west.look()
    assert not tick(*failed)
    assert not tick("group svc: no coordinator", unreached="")
    reasons.append(None)
    west.look()
    assert not tick("west: no broker of it is connected"), "it is tried again some seconds later"
    assert ticking.once(lambda: well)
    assert caplog.messages == [
        "west does not answer (10.0.0.1:9092: connection refused); trying again",
        "west answers again after 0 s",
    ]


def test_one_broker_of_a_cluster_that_answers_is_told_with_its_recovery(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirror.engine.ticking._ENDING_SECONDS", 0.0)
    west = ClusterNews("west", lambda: None)
    ticking = Ticking(lambda _: None, EAST_WEST, Outages({"west": west}))
    failed = TickReport("state", 1, 0, ("west, broker 2: connection refused",), unreached="west")
    assert not ticking.once(lambda: failed)
    west.look()
    assert not ticking.once(lambda: failed)
    assert ticking.once(lambda: TickReport("state", 2, 1))
    assert caplog.messages == ["state: west, broker 2: connection refused", "state: recovered"]


def test_ticks_that_are_outdated_end_before_the_next_round() -> None:
    """Others are to be run in their place, although nobody has told them to stop."""
    ran = list[str]()

    def tick() -> TickReport:
        ran.append("t")
        return TickReport("t", 1, 0)

    ticking = Ticking(lambda _: None, EAST_WEST)
    ticking.until(threading.Event(), [(0.0, tick)], lambda: len(ran) == 2)
    assert ran == ["t", "t"]
