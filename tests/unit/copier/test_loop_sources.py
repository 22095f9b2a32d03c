"""The copy loop when the source fails, refuses, loses records or is another one, and where followers are read."""

from __future__ import annotations

from functools import partial

import pytest

from mirror.config.fetching import FetchLimits
from mirror.copier.epoch_channel import Signal
from mirror.copier.loop import TROUBLED_SECONDS
from mirror.copier.work import GapPolicy
from mirror.kafka.versions import FETCH
from mirror.model.gap import GapKind
from mirror.model.leader_epochs import EpochEnd
from tests.flows import EAST_WEST
from tests.unit.copier.copying_in_memory import ORDERS, PAID, Copying, Driver, stands

UNKNOWN, CORRUPT, TIMED_OUT, TOO_FEW_REPLICAS, DENIED, INVALID_RECORD = -1, 2, 7, 19, 29, 87
SESSION_NOT_FOUND = 70
SILENT = "east: no answer from the leader for some seconds"


def test_what_the_source_removed_before_it_was_copied_is_a_gap(copying: Copying) -> None:
    copying.begin()
    copying.source().write(b"1")
    copying.source().write(b"2")
    copying.source().write(b"3")
    copying.source().delete_records(3)
    result = copying.epoch()[ORDERS]
    assert copying.copy().values() == [b"0", b"3"]
    (gap,) = copying.state().gaps.values()
    assert (gap.start, gap.end, gap.kind, gap.passed) == (1, 3, GapKind.RETENTION, True)
    assert (stands(result), result.stopped, copying.recorded()) == ((4, True), None, 4)


def test_a_source_that_says_nothing_any_more_is_told_within_seconds_and_until_it_answers(copying: Copying) -> None:
    """A site without power hangs up nowhere: for 40 s all passed for seen, and for longer in shorter epochs."""
    copying.begin()
    began = copying.world.now

    def told(driver: Driver) -> bool:
        return bool(driver.told) and (EAST_WEST, ORDERS) in driver.told[-1][0]

    for broker in copying.east.brokers.values():
        copying.world.after(1.0, broker.freeze)
    copying.world.once(lambda: told(copying.driver), partial(copying.driver.say, Signal.END))
    result = copying.epoch(60.0)[ORDERS]
    assert copying.driver.troubles() == [SILENT]
    assert copying.world.now - began < 12.0
    assert result.trouble == SILENT, "an epoch that ends says so too: the next one connects for long before it knows"
    copying.works[ORDERS] = {"is_troubled": True}
    copying.driver.told.clear()
    for broker in copying.east.brokers.values():
        copying.world.after(3.0, broker.thaw)
    copying.source().write(b"1")
    result = copying.epoch(90.0)[ORDERS]
    assert (copying.driver.told[-1][0], result.trouble) == ({}, None)
    assert copying.copy().values() == [b"0", b"1"]


def test_a_silent_source_stays_told_where_epochs_are_shorter_than_it_takes_to_notice_it(copying: Copying) -> None:
    copying.begin()
    for broker in copying.east.brokers.values():
        broker.freeze()
    troubles = [copying.epoch(4.0)[ORDERS].trouble for _ in range(12)]
    assert None not in troubles[2:]


def test_a_source_without_news_and_one_that_waits_for_its_target_are_not_silent(copying: Copying) -> None:
    copying.begin()
    copying.epoch(30.0)
    copying.copy().is_mute = True
    copying.source().write(b"1")
    copying.epoch(30.0)
    assert not [each for each in copying.driver.troubles() if each.startswith("east")]


@pytest.mark.parametrize("fails", ["the cluster", "the leader"])
def test_where_the_source_begins_now_is_asked_again_when_it_cannot_be_told(copying: Copying, fails: str) -> None:
    copying.begin()
    copying.source().write(b"1")
    copying.source().write(b"2")
    copying.source().delete_records(2)
    copying.east.asked.clear()

    def stop() -> None:
        for broker in copying.east.brokers.values():
            broker.stop()
            copying.world.after(0.5, broker.start)

    if fails == "the cluster":
        copying.world.once(lambda: "ListOffsetsRequest" in copying.east.asked, stop)
    else:
        copying.source().not_told = "start"
        copying.world.after(0.5, partial(setattr, copying.source(), "not_told", ""))
    result = copying.epoch(8.0)[ORDERS]
    assert copying.copy().values() == [b"0", b"2"]
    assert (stands(result), result.stopped, result.trouble) == ((3, True), None, None)
    assert [(gap.start, gap.end) for gap in copying.state().gaps.values()] == [(1, 2)]
    assert copying.driver.troubles()


def test_a_gap_stops_the_copy_where_that_is_wanted(copying: Copying) -> None:
    copying.begin()
    copying.works[ORDERS] = {"gaps": GapPolicy(stops=True)}
    copying.source().write(b"1")
    copying.source().write(b"2")
    copying.source().delete_records(2)
    result = copying.epoch(60.0)[ORDERS]
    assert result.stopped is not None
    assert "no longer had the offsets 1 of orders-0" in result.stopped
    assert copying.copy().values() == [b"0"]
    assert [gap.passed for gap in copying.state().gaps.values()] == [False]
    assert copying.took == pytest.approx(TROUBLED_SECONDS, abs=0.5)


def test_a_source_that_ends_before_the_position_is_looked_up(copying: Copying) -> None:
    copying.begin(b"0", b"1", b"2")
    copying.source().log.clear()
    copying.source().end = 0
    copying.source().write(b"new")
    result = copying.epoch(60.0)[ORDERS]
    assert result.trouble == (
        "orders-0 on the source has the offsets 0 to 1 and does not know the position 3: it was truncated, or the "
        "topic was created anew"
    )
    assert (stands(result), result.stopped) == ((3, False), None)
    assert copying.took < 1.0


def test_a_source_that_parts_from_what_was_read_is_looked_up(copying: Copying) -> None:
    copying.begin(b"0", b"1", b"2")
    copying.source().diverging = EpochEnd(0, 2)
    result = copying.epoch(60.0)[ORDERS]
    assert result.trouble == (
        "orders-0 on the source is no longer the log that was read: it parts from it at the end of leader epoch 0, at "
        "offset 2 at the latest"
    )
    assert stands(result) == (3, False)
    assert copying.took < 1.0


def test_a_topic_that_was_created_anew_is_read_no_further_however_much_it_looks_like_the_old_one(
    copying: Copying,
) -> None:
    copying.begin(b"0", b"1")

    def create_anew() -> None:
        copying.east.create("orders")
        for value in (b"new 0", b"new 1", b"new 2"):
            copying.source().write(value)
        copying.source().elect(2)

    copying.world.after(0.3, create_anew)
    result = copying.epoch(60.0)[ORDERS]
    assert copying.copy().values() == [b"0", b"1"]
    assert result.trouble == "orders on the source was deleted and created anew"
    assert stands(result) == (2, False)
    assert copying.took < 2.0


def test_a_source_that_refuses_to_be_read_is_told_and_asked_again(two: Copying) -> None:
    two.source().refuse_fetch(DENIED)
    for source in two.pairs:
        two.source(source).write(b"1")
    two.world.after(1.0, partial(two.source().refuse_fetch, 0))
    two.epoch(4.0)
    assert two.copy().values() == two.copy(PAID).values() == [b"0", b"1"]
    assert two.driver.troubles() == [
        "the source refuses to read orders-0: TopicAuthorizationFailed (needs Read on the topic)"
    ]
    assert two.driver.troubles(PAID) == []
    assert two.driver.told[-1] == ({}, set())


def test_a_batch_that_cannot_be_read_stops_its_partition_behind_those_before_it(two: Copying) -> None:
    two.source().write(b"1")
    two.world.after(0.3, partial(setattr, two.source(), "is_damaged", True))
    two.world.after(0.4, partial(two.source().write, b"2"))
    two.world.after(0.5, partial(two.source(PAID).write, b"1"))
    results = two.epoch(60.0)
    assert "orders-0 on the source cannot be read further: " in (results[ORDERS].stopped or "")
    assert stands(results[ORDERS]) == (2, True)
    assert two.copy(PAID).values() == [b"0", b"1"]


def test_a_lost_fetch_session_is_begun_anew(copying: Copying) -> None:
    copying.begin()
    lines = copying.east.lines()
    copying.world.after(0.2, partial(setattr, copying.east, "refuses_fetches", SESSION_NOT_FOUND))
    copying.world.after(0.8, partial(copying.source().write, b"1"))
    copying.epoch(2.0)
    assert copying.copy().values() == [b"0", b"1"]
    assert copying.east.lines() == lines, "over the same connection"


def test_a_fetch_that_fails_as_a_whole_goes_on_over_another_connection(copying: Copying) -> None:
    copying.begin()
    lines = copying.east.lines()
    copying.world.after(0.2, partial(setattr, copying.east, "refuses_fetches", UNKNOWN))
    copying.world.after(0.8, partial(copying.source().write, b"1"))
    copying.epoch(3.0)
    assert copying.copy().values() == [b"0", b"1"]
    assert len(set(copying.east.lines()) & set(lines)) == 1, "that of the offset syncs"
    assert copying.driver.troubles() == ["the broker answered a fetch with error -1"]


def test_a_source_that_is_away_for_a_while_is_told_and_read_when_it_is_back(copying: Copying) -> None:
    copying.begin()
    for broker in copying.east.brokers.values():
        copying.world.after(0.2, broker.stop)
        copying.world.after(1.5, broker.start)
    copying.world.after(1.6, partial(copying.source().write, b"1"))
    result = copying.epoch(6.0)[ORDERS]
    assert copying.copy().values() == [b"0", b"1"]
    assert stands(result) == (2, True)
    assert copying.driver.troubles()
    assert copying.driver.told[-1] == ({}, set())


def test_a_fetch_that_is_not_answered_does_not_hold_up_the_end(copying: Copying) -> None:
    copying.begin()
    copying.world.after(0.2, copying.east.brokers[1].freeze)
    result = copying.epoch(1.0)[ORDERS]
    assert copying.took == pytest.approx(0.2 + 0.5 + 2.0, abs=0.6)
    assert stands(result) == (1, True)
    copying.east.brokers[1].thaw()
    copying.source().write(b"1")
    copying.epoch()
    assert copying.copy().values() == [b"0", b"1"]


def test_a_source_that_is_silent_for_long_is_read_over_another_connection(copying: Copying) -> None:
    copying.begin()
    copying.world.after(0.2, copying.east.brokers[1].freeze)
    copying.world.after(42.0, copying.east.brokers[1].thaw)
    copying.world.after(42.1, partial(copying.source().write, b"1"))
    copying.epoch(150.0)
    assert copying.copy().values() == [b"0", b"1"]
    assert copying.driver.troubles()[:2] == [SILENT, "east, broker 1: no answer for 40 s"]


# Followers.


@pytest.fixture
def near(copying: Copying) -> Copying:
    """A leader that names a closer replica."""
    copying.told(fetch_limits=FetchLimits(rack="here"))
    copying.source().preferred = 2
    copying.begin()
    return copying


def test_a_partition_is_read_from_the_follower_that_its_leader_names(near: Copying) -> None:
    near.east.frames.clear()
    near.source().write(b"1")
    result = near.epoch()[ORDERS]
    assert near.copy().values() == [b"0", b"1"]
    assert near.east.frames.count((1, FETCH.key)) == 1
    assert (2, FETCH.key) in near.east.frames
    assert result.leader_alone is None


@pytest.mark.parametrize("wrong", ["refuses", "parts", "damaged", "goes away", "is not reached"])
def test_what_is_wrong_with_a_follower_says_nothing_of_the_log(near: Copying, wrong: str) -> None:
    def go_wrong() -> None:
        match wrong:
            case "refuses":
                near.source().preferred = -1
            case "parts":
                near.source().diverging = EpochEnd(0, 1)
            case "damaged":
                near.source().is_damaged = True
            case _:
                near.east.brokers[2].stop()

    def mend() -> None:
        near.source().diverging, near.source().is_damaged = None, False

    if wrong == "is not reached":
        for line in near.east.lines(2):
            line.cut()
        go_wrong()
    else:
        near.world.after(0.2, go_wrong)
    near.world.after(0.25, partial(near.source().write, b"1"))
    near.world.after(0.3, mend)
    result = near.epoch(3.0)[ORDERS]
    assert near.copy().values() == [b"0", b"1"]
    assert (stands(result), result.stopped, result.trouble) == ((2, True), None, None)
    assert result.leader_alone is not None
    assert "broker 2" in result.leader_alone


def test_a_follower_that_cannot_be_reached_is_not_asked_for_again(copying: Copying) -> None:
    copying.told(fetch_limits=FetchLimits(rack="here"))
    copying.source().preferred = 2
    copying.source().write(b"0")
    copying.east.brokers[2].stop()
    result = copying.epoch(3.0)[ORDERS]
    assert copying.copy().values() == [b"0"]
    assert result.leader_alone == "east, broker 2: nobody answers"
    assert (result.stopped, result.trouble) == (None, None)
