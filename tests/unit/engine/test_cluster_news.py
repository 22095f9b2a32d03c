"""Whether a cluster is away is found out once, by one thread, and said once."""

from __future__ import annotations

import pytest

from mirror.engine.cluster_news import NO_OUTAGES, Away, ClusterNews, Outages

REFUSED = Away("10.0.0.1:9092: authentication failed for user svc with PLAIN: no", is_refusal=True)
SILENT = Away("10.0.0.1:9092: connection refused")


class Watched:
    """A cluster called west that is as it is told to be; of each look the time is kept."""

    def __init__(self) -> None:
        self.why: Away | Exception | None = None
        self.at = 0.0
        self.looks: list[float] = []
        self.news = ClusterNews("west", self._ask, lambda: self.at)

    def _ask(self) -> Away | None:
        self.looks.append(self.at)
        if isinstance(self.why, Exception):
            raise self.why
        return self.why

    def look(self, at: float, why: Away | Exception | None) -> None:
        self.at, self.why = at, why
        self.news.look()


@pytest.fixture
def west(caplog: pytest.LogCaptureFixture) -> Watched:
    caplog.set_level("INFO", "mirror")
    return Watched()


def test_a_cluster_that_nobody_asks_about_is_left_alone(west: Watched) -> None:
    west.look(1, SILENT)
    assert west.looks == []


def test_only_an_answer_that_was_asked_for_later_clears_a_cluster(west: Watched) -> None:
    """A broker that ends hangs up first, and for a moment still takes new connections."""
    assert west.news.is_away(5.0) is None
    west.look(4, None)
    assert west.news.is_away(5.0) is None, "it was looked at too early"
    west.look(6, None)
    assert west.news.is_away(5.0) is False


def test_an_outage_has_two_lines_and_explains_what_fails_for_a_while_longer(
    west: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    west.news.is_away(0.0)
    for second in range(10, 70):
        west.look(float(second), SILENT)
        assert west.news.is_away(float(second)) is True
    west.look(73, None)
    assert caplog.messages == [
        "west does not answer (10.0.0.1:9092: connection refused); trying again",
        "west answers again after 63 s",
    ]
    west.at = 80.0
    assert west.news.is_away(80.0) is True, "connections are tried again some seconds apart"
    west.at = 100.0
    assert west.news.is_away(100.0) is None


def test_who_is_refused_is_told_so_and_does_not_try_all_the_time(
    west: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    """Many a broker locks an account."""
    west.news.is_away(0.0)
    for second in range(30):
        west.look(float(second), REFUSED)
    assert west.looks == [0.0, 10.0, 20.0]
    west.look(31, None)
    assert caplog.messages == [
        f"west does not let this engine in ({REFUSED.reason}); trying again",
        "west lets this engine in again after 31 s",
    ]


def test_what_this_machine_lacks_says_nothing_of_the_cluster(west: Watched, caplog: pytest.LogCaptureFixture) -> None:
    west.news.is_away(0.0)
    west.look(1, SILENT)
    west.look(5, OSError(24, "Too many open files"))
    assert west.news.is_known_away
    assert len(caplog.messages) == 1


def test_while_this_machine_keeps_one_from_looking_every_failure_speaks_for_itself(west: Watched) -> None:
    """Whoever waits to be told whether the cluster is away would never say what has happened to it."""
    assert west.news.is_away(0.0) is None
    west.look(1, OSError(24, "Too many open files"))
    assert west.news.is_away(0.0) is False
    assert west.news.is_away(2.0) is None
    west.look(3, SILENT)
    assert west.news.is_away(2.0) is True


def test_a_cluster_that_was_away_at_the_start_is_told_as_any_other(
    west: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    west.news.begin_away(SILENT)
    west.look(20, SILENT)
    west.look(30, None)
    assert [line.split(" (")[0] for line in caplog.messages] == [
        "west does not answer",
        "west answers again after 30 s",
    ]


def test_of_a_cluster_that_nobody_watches_every_failure_speaks_for_itself(west: Watched) -> None:
    assert NO_OUTAGES.explain("west") is False
    assert not NO_OUTAGES.is_known("west")
    assert Outages({"west": west.news}).explain("north") is False
