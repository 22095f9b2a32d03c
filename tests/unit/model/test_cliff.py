"""When the source deletes what is not mirrored: by time, by size, and what is near."""

from __future__ import annotations

import math

import pytest

from mirror.model.cliff import Retention, duration_words, is_near

_HOUR = 3_600
_WEEK_MS = 7 * 24 * _HOUR * 1_000


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"cleanup.policy": "delete", "retention.ms": "1000", "retention.bytes": "-1"}, Retention(1000)),
        ({"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "9"}, Retention(None, 9)),
        ({"cleanup.policy": "compact,delete", "retention.ms": "1000", "retention.bytes": "9"}, Retention(1000, 9)),
        ({"cleanup.policy": "compact", "retention.ms": "1000", "retention.bytes": "9"}, Retention()),
        ({"cleanup.policy": None, "retention.ms": None}, Retention()),
    ],
)
def test_a_topic_says_how_long_it_keeps_records(settings: dict[str, str | None], kept: Retention) -> None:
    assert Retention.of(settings) == kept


def test_a_record_is_kept_until_it_is_as_old_as_the_topic_allows() -> None:
    assert Retention(_WEEK_MS).seconds_left(5, 100 * _HOUR, 0) == 68 * _HOUR
    assert Retention(1_000).seconds_left(5, 100, 0) == 0.0, "it may be gone by now"
    assert Retention().seconds_left(5, 100, 10) is None


def test_a_full_log_loses_its_oldest_records_at_the_rate_at_which_it_grows() -> None:
    """600 records of 10 bytes in a minute: 4,000 bytes more are 40 seconds."""
    kept = Retention(None, 10_000)
    assert kept.seconds_left(600, 60, 10) == pytest.approx(40)
    assert kept.seconds_left(2_000, 60, 10) == 0.0
    assert kept.seconds_left(600, 60, 0) is None, "how large records are is not known"
    assert Retention(45_000 + 60_000, 10_000).seconds_left(600, 60, 10) == pytest.approx(40)


def test_a_burst_of_a_moment_is_no_rate() -> None:
    assert Retention(None, 10_000).seconds_left(100, 0.001, 10) == pytest.approx(90)


@pytest.mark.parametrize(
    ("left", "lag", "near"), [(600, 7_200, True), (600, 60, False), (7_200, 90_000, False), (0, 0, True)]
)
def test_what_is_near_is_soon_and_has_most_of_its_time_behind_it(left: float, lag: float, near: bool) -> None:
    assert is_near(left, lag, _HOUR) is near


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(11_520, "3 h 12 min"), (90_000, "1 d 1 h"), (61, "1 min 1 s"), (59.9, "59 s"), (0, "0 s"), (3_600, "1 h 0 min")],
)
def test_times_are_told_in_two_units(seconds: float, words: str) -> None:
    assert duration_words(seconds) == words


def test_no_time_is_near_without_a_limit() -> None:
    assert not is_near(0, math.inf, 0)
