"""The figures of a bench follow from what was seen, and from nothing else."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.bench import figures
from mirror.bench.contenders import Contender
from mirror.bench.figures import (
    Latencies,
    NotMeasurable,
    Run,
    Sample,
    as_json,
    copy_figures,
    latency_figures,
    of_contender,
    percentile,
    ratios,
)
from mirror.evidence.statistics import Spread, spread

MB = 1_000_000
MIRROR, MM2, FLOOR = Contender.MIRROR, Contender.MM2, Contender.FLOOR


def run(contender: Contender, number: int, rate: float, **more: float) -> Run:
    return Run(contender, number, 0.5, {figures.RATE: rate, **more})


def test_the_window_is_from_the_first_records_seen_to_the_first_look_that_saw_all() -> None:
    """What was there at the first look, and what was used before it, belongs to no rate; later looks do not count."""
    samples = [
        Sample(0.0, 0, 0.0, 10 * MB),
        Sample(8.0, 1_000, 5.0, 400 * MB),
        Sample(9.5, 501_000, 6.0, 700 * MB),
        Sample(10.0, 1_001_000, 7.0, 500 * MB),
        Sample(60.0, 1_001_000, 90.0, 300 * MB),
    ]
    assert copy_figures(samples, 1_001_000, 1000, MIRROR) == {
        figures.RATE: 500_000,
        figures.SECOND_HALF_RATE: 1_000_000,
        figures.CPU_PER_GB: 2.0,
        figures.CPU_BEFORE: 5.0,
        figures.FIRST_RECORD: 8.0,
        figures.MEMORY: 700.0,
    }


def test_a_bare_producer_has_no_start_and_no_memory_worth_a_figure() -> None:
    """It reads everything into memory before it begins."""
    samples = [Sample(0.0, 0, 0.0, MB), Sample(1.0, 10, 1.0, MB), Sample(2.0, 60, 2.0, MB), Sample(3.0, 110, 3.0, MB)]
    assert set(copy_figures(samples, 110, 1000, FLOOR)) == {
        figures.RATE,
        figures.SECOND_HALF_RATE,
        figures.CPU_PER_GB,
    }


def test_a_second_half_that_no_look_began_has_no_rate() -> None:
    samples = [Sample(0.0, 0, 0.0, MB), Sample(1.0, 10, 1.0, MB), Sample(2.0, 110, 2.0, MB)]
    assert figures.SECOND_HALF_RATE not in copy_figures(samples, 110, 1000, MIRROR)


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        ([], "0 of 100 records"),
        ([0, 0], "0 of 100 records"),
        ([0, 40, 99], "99 of 100 records"),
        ([0, 100, 100], "more --records"),
        ([0, 40, 101], "some are there twice"),
    ],
)
def test_a_copy_that_shows_no_rate_has_none(seen: list[int], told: str) -> None:
    samples = [Sample(float(at), records, 0.0, 0) for at, records in enumerate(seen)]
    with pytest.raises(NotMeasurable, match=told):
        copy_figures(samples, 100, 10, MIRROR)


def test_latencies_become_percentiles_by_rate() -> None:
    hundred = tuple(float(value) for value in range(100, 0, -1))
    assert latency_figures(Latencies(200, 199.5, hundred, cpu_percent=7.0)) == {
        "latency_ms_p50_at_200": 50.0,
        "latency_ms_p90_at_200": 90.0,
        "latency_ms_p99_at_200": 99.0,
        "sent_per_second_at_200": 199.5,
        "cpu_percent_at_200": 7.0,
    }
    assert figures.cpu_key(200) not in latency_figures(Latencies(200, 200.0, (1.0,)))


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(1, 100))
def test_a_percentile_is_the_smallest_value_with_so_many_at_or_below_it(values: list[float], percent: float) -> None:
    ordered = sorted(values)
    found = percentile(ordered, percent)
    needed = len(ordered) * percent / 100
    assert sum(value <= found for value in ordered) >= needed
    assert sum(value < found for value in ordered) < needed


def test_rounds_are_summed_up_by_their_smallest_middle_and_largest() -> None:
    runs = [run(MM2, number, rate) for number, rate in enumerate((500.0, 90.0, 100.0), 1)]
    runs += [run(MIRROR, number, rate) for number, rate in enumerate((400.0, 200.0), 1)]
    assert spread(of_contender(runs, MM2, figures.RATE)) == Spread(90.0, 100.0, 500.0)
    assert spread(of_contender(runs, MIRROR, figures.RATE)) == Spread(200.0, 300.0, 400.0)
    assert of_contender(runs, FLOOR, figures.RATE) == ()
    assert of_contender(runs, MM2, figures.MEMORY) == ()


def test_a_ratio_compares_what_was_measured_in_the_same_round() -> None:
    """A slow hour slows both: the ratios agree although the medians of the rates say something else."""
    runs = [
        run(MM2, 1, 100.0),
        run(MIRROR, 1, 400.0),
        run(MIRROR, 2, 40.0),
        run(MM2, 2, 10.0),
        run(MIRROR, 3, 77.0),
        run(MM2, 4, 77.0),
    ]
    assert ratios(runs, MIRROR, MM2, figures.RATE) == (4.0, 4.0)
    assert ratios(runs, MIRROR, FLOOR, figures.RATE) == ()


def test_nothing_is_compared_with_nothing() -> None:
    runs = [
        run(MM2, 1, 100.0, **{figures.CPU_PER_GB: 0.0}),
        run(MIRROR, 1, 400.0, **{figures.CPU_PER_GB: 1.0}),
    ]
    assert ratios(runs, MIRROR, MM2, figures.CPU_PER_GB) == ()


def test_the_json_holds_every_run_the_spreads_and_the_ratios() -> None:
    runs = [run(MM2, 1, 100.0), run(MIRROR, 1, 400.0), run(MIRROR, 2, 600.0), run(MM2, 2, 100.0)]
    document = json.loads(json.dumps(as_json(runs)))
    assert [(each["contender"], each["round"], each["records_per_second"]) for each in document["runs"]] == [
        ("mm2", 1, 100.0),
        ("mirror", 1, 400.0),
        ("mirror", 2, 600.0),
        ("mm2", 2, 100.0),
    ]
    assert document["spreads"]["mirror"]["records_per_second"] == {"low": 400.0, "median": 500.0, "high": 600.0}
    assert document["ratios"] == {
        "mirror/mm2": {"records_per_second": {"rounds": [4.0, 6.0], "low": 4.0, "median": 5.0, "high": 6.0}}
    }
    assert not any(math.isnan(each["records_per_second"]) for each in document["runs"])
