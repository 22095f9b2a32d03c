"""Whether an engine runs is told by its claim's renewals; clocks count only where they agree, and lie about nothing."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from mirror.control import liveness
from mirror.control.liveness import SILENT_AFTER_MS, LivenessWatch, StandbyWatch, ahead_words
from mirror.kafka.problems import ConnectionFailed
from mirror.model.flow_state import FlowState
from mirror.model.leadership import Claim
from mirror.model.state_values import RunReport, Standby
from tests.pauses import simulate_pauses

TIMEOUT_SECONDS = 6.0


class World:
    """An engine that renews its claim every two seconds, on a machine whose clock may be off; and who looks at it.

    Attributes
    ----------
    now
        seconds since some moment, by the steady clock of who looks.
    off_seconds
        how far the engine's wall clock is ahead of that of who looks.
    dies_at
        the last moment at which it renews.
    reading_seconds
        how long it takes to read its state.
    """

    def __init__(self, off_seconds: float = 0.0, dies_at: float = float("inf"), reading_seconds: float = 0.0) -> None:
        self.now = 1_000.0
        self.off_seconds = off_seconds
        self.dies_at = dies_at
        self.reading_seconds = reading_seconds
        self.polls = 0
        self.claim: Callable[[int], Claim | None] = lambda renewals: Claim(
            "an engine", 1, renewals, host="far", timeout_seconds=TIMEOUT_SECONDS
        )

    def wall_ms(self) -> int:
        return int(1000 * (self.now + 1_000_000))

    def let_pass(self, seconds: float) -> None:
        self.now += seconds

    def poll(self) -> FlowState:
        """What is in the log when it is asked for; the answer comes later."""
        self.polls += 1
        assert self.polls < 1_000, "it is watched for ever"
        renewals = int(min(self.now, self.dies_at) // 2)
        at_ms = int(1000 * (2 * renewals + 1_000_000 + self.off_seconds))
        self.now += self.reading_seconds
        return FlowState(run=RunReport("RUNNING", (), at_ms), claim=self.claim(renewals))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    monkeypatch.setattr(liveness, "now_ms", world.wall_ms)
    monkeypatch.setattr(liveness, "steady_seconds", lambda: world.now)
    simulate_pauses(monkeypatch, world.let_pass)
    return world


def test_an_engine_that_reports_runs_and_it_is_looked_at_once(world: World) -> None:
    _, found = LivenessWatch().look(world.poll)
    assert (found.silence, found.skew, world.polls) == (None, None, 1)


@pytest.mark.parametrize("off_seconds", [-3_600, -20, 20, 3_600])
def test_an_engine_whose_clock_is_off_runs_and_it_is_said_by_how_much(world: World, off_seconds: int) -> None:
    world.off_seconds = off_seconds
    _, found = LivenessWatch().look(world.poll)
    assert found.silence is None
    assert found.skew is not None
    side = "ahead of" if off_seconds > 0 else "behind"
    assert f"on far is {'' if off_seconds > 0 else 'about '}" in found.skew
    assert f"{side} this one's" in found.skew
    assert world.now < 1_000 + TIMEOUT_SECONDS


@pytest.mark.parametrize("off_seconds", [-3_600, 0, 60, 3_600])
def test_an_engine_that_died_does_not_run_whatever_its_clock_says(world: World, off_seconds: int) -> None:
    world.off_seconds, world.dies_at = off_seconds, world.now - 30
    watch = LivenessWatch()
    _, found = watch.look(world.poll)
    assert found.silence is not None
    took = world.now - 1_000
    assert TIMEOUT_SECONDS < took < TIMEOUT_SECONDS + 2
    polls = world.polls
    _, found = watch.look(world.poll)
    assert (found.silence is not None, world.polls) == (True, polls + 1), "it was watched for long enough already"


def test_a_report_from_the_future_that_no_other_follows_says_that_the_clocks_differ(world: World) -> None:
    world.off_seconds, world.dies_at = 60, world.now
    _, found = LivenessWatch().look(world.poll)
    assert found.silence is not None
    assert found.silence.startswith("the last report of the engine is dated 5")
    assert "it has not reported for" in found.silence


def test_an_engine_runs_although_it_takes_long_to_read_what_it_says(world: World) -> None:
    world.reading_seconds = 90
    _, found = LivenessWatch().look(world.poll)
    assert (found.silence, world.polls) == (None, 1)


def test_an_engine_whose_clock_is_off_runs_although_each_reading_takes_long(world: World) -> None:
    world.reading_seconds, world.off_seconds = 90, -100
    _, found = LivenessWatch().look(world.poll)
    assert (found.silence, world.polls) == (None, 2)


def test_an_engine_that_is_followed_is_silent_after_a_while_by_the_steady_clock(world: World) -> None:
    world.off_seconds = 10
    watch = LivenessWatch()
    watch.look(world.poll)
    world.dies_at = world.now
    while world.now < world.dies_at + SILENT_AFTER_MS / 1000 - 1:
        world.now += 2
        assert watch.look(world.poll)[1].silence is None
    world.now += 4
    assert watch.look(world.poll)[1].silence is not None


def test_a_renewal_some_time_between_two_looks_far_apart_does_not_say_that_it_still_runs(world: World) -> None:
    watch = LivenessWatch()
    watch.look(world.poll)
    world.dies_at = world.now + 3
    world.now += 120
    assert watch.look(world.poll)[1].silence is not None


@pytest.mark.parametrize("every_seconds", [2, 7, 14])
@pytest.mark.parametrize("renews_seconds", [0, 2])
def test_an_engine_that_died_between_two_looks_runs_no_longer_than_its_reports_say(
    world: World, every_seconds: int, renews_seconds: int
) -> None:
    watch = LivenessWatch()
    watch.look(world.poll)
    world.dies_at = world.now + renews_seconds
    while (found := watch.look(world.poll)[1]).silence is None:
        assert found.skew is None, "both clocks are right"
        assert world.now <= world.dies_at + SILENT_AFTER_MS / 1000
        world.now += every_seconds


def test_after_an_outage_it_is_watched_anew(world: World) -> None:
    watch = LivenessWatch()
    watch.look(world.poll)
    world.now += 4
    watch.look(world.poll)

    def fail() -> FlowState:
        raise ConnectionFailed("west does not answer")

    with pytest.raises(ConnectionFailed):
        watch.look(fail)
    world.dies_at, world.off_seconds = world.now - 2, 100
    world.now += 5
    assert watch.look(world.poll)[1].silence is not None


@pytest.mark.parametrize("claim", [None, Claim("an engine")])
def test_without_a_claim_that_is_renewed_the_clocks_are_all_there_is(world: World, claim: Claim | None) -> None:
    """As engines of the first versions left it."""
    world.claim = lambda _: claim
    watch = LivenessWatch()
    while world.now < 1_000 + 2 * SILENT_AFTER_MS / 1000:
        assert watch.look(world.poll)[1].silence is None
        world.now += 2
    world.dies_at = world.now - 30
    assert LivenessWatch().look(world.poll)[1].silence == "the engine last reported 30 s ago"


@pytest.mark.parametrize("run", [None, RunReport("STOPPED", (), 5)])
def test_what_has_never_run_or_was_stopped_in_order_is_not_watched(world: World, run: RunReport | None) -> None:
    state = FlowState(run=run, claim=Claim("an engine", 1))
    assert LivenessWatch().look(lambda: state)[1] == liveness.Liveness()
    assert world.now == 1_000


class StandingBy:
    """An engine that stands by, and reports every five seconds until it dies; its clock may be off."""

    def __init__(self, world: World, off_seconds: float) -> None:
        self.world, self.off_seconds = world, off_seconds
        self.dies_at = math.inf
        self.watch = StandbyWatch()

    def is_seen(self) -> bool:
        reported_at = min(self.world.now, self.dies_at) // 5 * 5
        at_ms = int(1000 * (reported_at + 1_000_000 + self.off_seconds))
        return bool(self.watch.standing_by([Standby("second", "far", 7, at_ms)]))


@pytest.mark.parametrize("off_seconds", [-1, 0, 1])
def test_a_standby_whose_clock_is_in_step_is_seen_at_once_and_for_as_long_as_its_last_report_counts(
    world: World, off_seconds: int
) -> None:
    one = StandingBy(world, off_seconds)
    assert one.is_seen()
    one.dies_at = world.now
    world.let_pass(SILENT_AFTER_MS / 1000 - 2)
    assert one.is_seen()
    world.let_pass(4)
    assert not one.is_seen()


@pytest.mark.parametrize("off_seconds", [-3_600, -20, 10, 3_600])
def test_a_standby_whose_clock_is_off_is_seen_when_it_reports_again(world: World, off_seconds: int) -> None:
    one = StandingBy(world, off_seconds)
    assert not one.is_seen()
    world.let_pass(5)
    assert one.is_seen()
    world.let_pass(14)
    assert one.is_seen()


@pytest.mark.parametrize("off_seconds", [10, 3_600])
def test_nobody_waits_for_a_dead_standby_whose_clock_was_ahead(world: World, off_seconds: int) -> None:
    """A pause waited for it to take the flow over for as long as its clock was ahead: for an hour, or its time-out."""
    one = StandingBy(world, off_seconds)
    one.dies_at = world.now
    for _ in range(40):
        assert not one.is_seen()
        world.let_pass(1)


def test_a_standby_that_died_between_two_looks_far_apart_is_not_seen(world: World) -> None:
    """As by ``mirror status --watch --interval 60``: what it had reported since the first look is old by the second."""
    one = StandingBy(world, 0)
    assert one.is_seen()
    world.let_pass(5)
    one.dies_at = world.now
    world.let_pass(55)
    assert not one.is_seen()


def test_of_a_standby_whose_clock_is_ahead_it_is_said_that_nothing_tells_yet(world: World) -> None:
    ahead = Standby("second", "far", 7, world.wall_ms() + 3_600_000)
    (said,) = ahead_words([ahead, Standby("third", "far", 8, world.wall_ms() - 1_000)])
    assert said.startswith("an engine on far (process 7) stood by; its clock is 3600 s ahead")
