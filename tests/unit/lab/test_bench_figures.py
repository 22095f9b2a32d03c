"""The figures of a bench follow from what was seen, and from nothing else."""

from __future__ import annotations

import json
import math

import pytest

from mirror.lab.bench.figures import (
    Figures,
    NotMeasurable,
    Replicator,
    Run,
    Sample,
    as_json,
    figures_of,
    medians,
    order,
    ratios,
)

MB = 1_000_000


def figures(**changed: float) -> Figures:
    fields = dict.fromkeys(
        (
            "records_per_second",
            "cpu_seconds_per_gb",
            "cpu_seconds_to_first_record",
            "seconds_to_first_record",
            "peak_resident_mb",
        ),
        1.0,
    )
    return Figures(**fields | changed)


def run(replicator: Replicator, number: int, rate: float) -> Run:
    return Run(replicator, number, 0.5, figures(records_per_second=rate))


def test_the_window_is_from_the_first_records_seen_to_the_first_look_that_saw_all() -> None:
    """What was there at the first look, and what was used before it, belongs to no rate; later looks do not count."""
    samples = [
        Sample(0.0, 0, 0.0, 10 * MB),
        Sample(8.0, 1_000, 5.0, 400 * MB),
        Sample(9.0, 500_000, 6.0, 700 * MB),
        Sample(10.0, 1_001_000, 7.0, 500 * MB),
        Sample(60.0, 1_001_000, 90.0, 300 * MB),
    ]
    assert figures_of(samples, 1_001_000, value_bytes=1000) == Figures(
        records_per_second=500_000,
        cpu_seconds_per_gb=2.0,
        cpu_seconds_to_first_record=5.0,
        seconds_to_first_record=8.0,
        peak_resident_mb=700.0,
    )


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
        figures_of(samples, 100, value_bytes=10)


def test_rounds_are_summed_up_by_the_median_of_each_replicator() -> None:
    runs = [run(Replicator.MM2, number, rate) for number, rate in enumerate((90.0, 100.0, 500.0), 1)]
    runs += [run(Replicator.MIRROR, number, rate) for number, rate in enumerate((400.0, 200.0), 1)]
    assert medians(runs, Replicator.MM2).records_per_second == 100.0
    assert medians(runs, Replicator.MIRROR).records_per_second == 300.0


def test_a_ratio_is_ours_as_a_multiple_of_theirs() -> None:
    ratio = ratios(
        figures(records_per_second=450, peak_resident_mb=1), figures(records_per_second=100, peak_resident_mb=4)
    )
    assert (ratio.records_per_second, ratio.peak_resident_mb, ratio.cpu_seconds_per_gb) == (4.5, 0.25, 1.0)
    assert math.isnan(ratios(figures(), figures(cpu_seconds_per_gb=0)).cpu_seconds_per_gb)


def test_the_replicators_take_turns_in_going_first() -> None:
    assert [order(number)[0] for number in (1, 2, 3)] == [Replicator.MM2, Replicator.MIRROR, Replicator.MM2]
    assert set(order(1)) == set(order(2)) == set(Replicator)


def test_the_json_holds_every_run_the_medians_and_the_ratios() -> None:
    document = json.loads(json.dumps(as_json([run(Replicator.MM2, 1, 100.0), run(Replicator.MIRROR, 1, 400.0)])))
    assert [(each["replicator"], each["round"], each["records_per_second"]) for each in document["runs"]] == [
        ("mm2", 1, 100.0),
        ("mirror", 1, 400.0),
    ]
    assert document["medians"]["mirror"]["records_per_second"] == 400.0
    assert document["ratios"]["records_per_second"] == 4.0
