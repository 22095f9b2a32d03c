"""What follows from an analysed history: percentiles, bad times with their causes, catching up, what an outage deletes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from mirror.history.analysis import Findings, Span
from mirror.history.findings import (
    Speed,
    catching_up,
    episodes,
    met_share,
    percentiles,
    speed,
    summary,
    unknown_share,
    what_if,
)
from tests.unit.history.builders import NOW_MS

FIRST_MS = NOW_MS - NOW_MS % 60_000


def costs(*seconds: float | None) -> pd.DataFrame:
    """What a disaster would have cost, second by second: ten records for each second; None: not known."""
    known = [0.0 if each is None else each for each in seconds]
    return pd.DataFrame(
        {
            "at_ms": FIRST_MS + 1000 * np.arange(len(seconds)),
            "records": [10 * each for each in known],
            "seconds": known,
            "unknown": [int(each is None) for each in seconds],
        }
    )


def flow_rows(*rows: tuple[float, str, tuple[str, ...], int | None]) -> pd.DataFrame:
    found = [
        {
            "at_ms": FIRST_MS + int(1000 * at),
            "flow": "east->west",
            "state": state,
            "reasons": [*reasons],
            "notes": [],
            "term": term,
        }
        for at, state, reasons, term in rows
    ]
    return pd.DataFrame(found, columns=["at_ms", "flow", "state", "reasons", "notes", "term"])


def minutes(*written_and_copied: tuple[int, int]) -> pd.DataFrame:
    rows = [
        {"topic": "orders", "at_ms": FIRST_MS + 60_000 * number, "written": written, "copied": copied}
        for number, (written, copied) in enumerate(written_and_copied)
    ]
    return pd.DataFrame(rows, columns=["topic", "at_ms", "written", "copied"])


def partitions(**more: Any) -> pd.DataFrame:
    given = {
        "topic": "orders", "partition": 0, "rate": 10.0, "lag": 0.0, "kept": np.nan, "retention_ms": 3_600_000.0,
        "retention_bytes": -1.0, **more,
    }  # fmt: skip
    return pd.DataFrame([given])


def findings(found: pd.DataFrame, flows: pd.DataFrame | None = None, **more: Any) -> Findings:
    last = int(found["at_ms"].max())
    peaks = found.assign(topic="orders", partition=2)
    every_second = flow_rows(*((at, "RUNNING", (), 1) for at in range(len(found))))
    span = Span("east->west", FIRST_MS, last, 1.0, 1000, 1000)
    given = {"minutes": minutes((600, 600), (600, 600), (600, 600)), "partitions": partitions(), **more}
    return Findings(span, every_second if flows is None else flows, found, peaks, given["minutes"], given["partitions"])


def test_percentiles_are_of_the_moments_that_are_known() -> None:
    found = costs(*range(101), None, None)
    told = percentiles(found).set_index("percentile")
    assert (told.loc[50.0, "seconds"], told.loc[99.0, "records"], told.loc[100.0, "seconds"]) == (50, 990, 100)
    assert unknown_share(found) == pytest.approx(2 / 103)
    assert met_share(found, 50.0) == pytest.approx(51 / 101)


def test_of_a_time_of_which_nothing_is_known_no_percentile_is_told() -> None:
    found = findings(costs(None, None))
    assert percentiles(found.costs).empty
    assert np.isnan(met_share(found.costs, 5.0))
    assert "At no moment" in summary(found, 5.0)[1]


def test_bad_times_are_those_beyond_the_objective_the_costliest_first() -> None:
    found = findings(costs(*[0] * 5, *[7] * 3, *[0] * 20, *[9] * 2, *[0] * 3, 8, *[0] * 20))
    told = [
        ((each.from_ms - FIRST_MS) // 1000, (each.until_ms - FIRST_MS) // 1000, each.seconds)
        for each in episodes(found, 5.0)
    ]
    assert told == [(28, 33, 9), (5, 7, 7)], "what is ten seconds apart is one"
    assert [each.worst for each in episodes(found, 5.0)] == ["orders-2", "orders-2"]
    assert episodes(found, 10.0) == ()


def test_a_time_of_which_nobody_knows_is_bad_too() -> None:
    (found,) = episodes(findings(costs(*[0] * 5, *[None] * 3, *[0] * 5)), 5.0)
    assert (found.is_known, found.seconds) == (False, 0)


@pytest.mark.parametrize(
    ("rows", "more", "told"),
    [
        ([(at, "RUNNING", (), 1) for at in range(60)], {}, ()),
        (
            [(at, "FAILED" if at > 30 else "RUNNING", ("west: refused",) if at > 30 else (), 1) for at in range(60)],
            {},
            ("FAILED for 19 s: west: refused",),
        ),
        (
            [(at, "STOPPED" if at > 30 else "RUNNING", (f"last reported {at} s ago",) if at > 30 else (), 1) for at in range(60)],
            {},
            ("STOPPED for 19 s: last reported 31 s ago",),
        ),
        ([(at, "RUNNING", (), 1 if at < 35 else 2) for at in range(60)], {}, ("another engine took the flow over (term 2)",)),
        ([(at, "RUNNING", (), 1) for at in (*range(30), *range(45, 60))], {}, ("nothing was recorded for 16 s",)),
        (
            [(at, "RUNNING", (), 1) for at in range(60)],
            {"minutes": minutes((3_000, 600), *[(600, 600)] * 4)},
            ("5.0 times as much was written as usual",),
        ),
    ],
)  # fmt: skip
def test_what_happened_in_a_bad_time_is_what_is_on_record(rows: Any, more: Any, told: tuple[str, ...]) -> None:
    found = findings(costs(*[0] * 30, *[9] * 20, *[0] * 10), flow_rows(*rows), **more)
    ((causes,),) = ([each.causes for each in episodes(found, 5.0)],)
    assert causes == told


def test_a_copy_that_stands_still_is_told_also_beside_a_replicator_that_says_nothing() -> None:
    found = findings(costs(*[0] * 60, *[9] * 130), minutes=minutes((600, 600), (600, 0), (600, 0), (600, 0)))
    (episode,) = episodes(found, 5.0)
    assert episode.causes == ("nothing was copied in 2 minutes in which records were written",)


def test_what_happened_long_before_is_no_cause() -> None:
    rows = [(at, "FAILED" if at < 5 else "RUNNING", ("west: refused",), 1) for at in range(120)]
    (found,) = episodes(findings(costs(*[0] * 60, *[9] * 20, *[0] * 40), flow_rows(*rows)), 5.0)
    assert found.causes == ()


def test_speed_is_that_of_whole_minutes() -> None:
    found = speed(minutes((0, 0), (600, 600), (600, 3000), (600, 600), (10, 10_000)))
    assert found == Speed(written=10.0, fastest=50.0)
    assert [found.seconds_to_copy(each) for each in (0, 400)] == [0, 10]
    assert Speed(10.0, 10.0).seconds_to_copy(1) == float("inf")
    assert speed(minutes((600, 600))) == Speed(0.0, 0.0)


def test_after_an_outage_what_was_written_meanwhile_is_to_be_copied() -> None:
    pace = minutes((0, 0), (600, 600), (600, 3000), (600, 600), (0, 0))
    table = catching_up(findings(costs(0), minutes=pace, partitions=partitions(lag=80.0)), (1.0,))
    assert table.to_dict("records") == [
        {"when": "now", "records_behind": 80, "caught_up_after_s": 2.0},
        {"when": "after 1 h without a copy", "records_behind": 36_000, "caught_up_after_s": 900.0},
    ]


@pytest.mark.parametrize(
    ("given", "hours", "deleted", "lasts", "is_known"),
    [
        ({}, 1.0, 0, 1.0, True),
        ({}, 3.0, 72_000, 1.0, True),
        ({"retention_ms": -1.0}, 1000.0, 0, None, True),
        ({"retention_ms": np.nan}, 3.0, 0, None, False),
        ({"retention_bytes": 1e6, "kept": 18_000.0}, 1.0, 18_000, 0.5, True),
        ({"retention_bytes": 1e6}, 3.0, 72_000, 1.0, False),
        ({"rate": 0.0}, 100.0, 0, 1.0, True),
        ({"rate": np.nan}, 100.0, 0, 1.0, True),
    ],
)
def test_an_outage_deletes_what_the_source_does_not_keep_so_long(
    given: dict[str, float], hours: float, deleted: int, lasts: float | None, is_known: bool
) -> None:
    (row,) = what_if(partitions(**given), hours).to_dict("records")
    told = None if pd.isna(row["first_deleted_after_h"]) else row["first_deleted_after_h"]
    assert (row["deleted_unread"], told, row["limits"] == "") == (deleted, lasts, is_known)
