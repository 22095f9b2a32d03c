"""The figures of a bench, computed from what was seen while a replicator copied; pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from statistics import median
from typing import Any

from mirror.lab.errors import LabError

_GB = 1e9


class Replicator(StrEnum):
    """Who copies."""

    MM2 = "mm2"
    MIRROR = "mirror"


class NotMeasurable(LabError):
    """What was seen of a copy holds no rate."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at a copy.

    Attributes
    ----------
    at_seconds
        since the replicator was started.
    records
        in the remote topic.
    cpu_seconds
        of all the replicator's processes since it was started.
    resident_bytes
        of all the replicator's processes; what they share is counted for each.
    """

    at_seconds: float
    records: int
    cpu_seconds: float
    resident_bytes: int


@dataclass(frozen=True, slots=True)
class Figures:
    """What one copy took, or the medians of several.

    Attributes
    ----------
    records_per_second
        between the first records on the target and the last one.
    cpu_seconds_per_gb
        CPU of the replicator in that time, per 10^9 uncompressed bytes of values.
    cpu_seconds_to_first_record
        CPU of the replicator before that time.
    seconds_to_first_record
        from the replicator's start to the first record seen on the target.
    peak_resident_mb
        the most memory its processes held together, in 10^6 bytes.
    """

    records_per_second: float
    cpu_seconds_per_gb: float
    cpu_seconds_to_first_record: float
    seconds_to_first_record: float
    peak_resident_mb: float


@dataclass(frozen=True, slots=True)
class Run:
    """One copy by one replicator; ``load_average`` is the machine's, of the minute before."""

    replicator: Replicator
    round: int
    load_average: float
    figures: Figures


def figures_of(samples: Sequence[Sample], records: int, value_bytes: int) -> Figures:
    """Return what a copy of ``records`` records of ``value_bytes`` bytes took.

    The rate counts from the first look that saw records, without those it saw, to the first that saw all of them.

    Raises
    ------
    NotMeasurable
        if the looks do not show the whole copy, or show more than that, or one look saw it begin and end.
    """
    begun = next((sample for sample in samples if sample.records > 0), None)
    done = next((sample for sample in samples if sample.records >= records), None)
    if begun is None or done is None:
        seen = max((sample.records for sample in samples), default=0)
        raise NotMeasurable(f"{seen} of {records} records were seen on the target: the copy was not complete")
    if done.records > records:
        raise NotMeasurable(
            f"{done.records} records were seen on the target instead of {records}: some are there twice"
        )
    if begun is done:
        raise NotMeasurable(f"all {records} records arrived between two looks: measure with more --records")
    counted = done.records - begun.records
    return Figures(
        records_per_second=counted / (done.at_seconds - begun.at_seconds),
        cpu_seconds_per_gb=(done.cpu_seconds - begun.cpu_seconds) / (counted * value_bytes / _GB),
        cpu_seconds_to_first_record=begun.cpu_seconds,
        seconds_to_first_record=begun.at_seconds,
        peak_resident_mb=max(sample.resident_bytes for sample in samples) / 1e6,
    )


def medians(runs: Sequence[Run], replicator: Replicator) -> Figures:
    """Return the median of each figure over the replicator's runs."""
    own = [run.figures for run in runs if run.replicator is replicator]
    return _each(lambda name: median(getattr(figures, name) for figures in own))


def ratios(ours: Figures, theirs: Figures) -> Figures:
    """Return each figure of ours as a multiple of theirs."""

    def ratio(name: str) -> float:
        base = getattr(theirs, name)
        return float(getattr(ours, name) / base) if base else math.nan

    return _each(ratio)


def _each(value_of: Callable[[str], float]) -> Figures:
    """Return figures with the value of each by its name."""
    return Figures(**{field.name: value_of(field.name) for field in fields(Figures)})


def as_json(runs: Sequence[Run]) -> dict[str, Any]:
    """Return runs, medians and ratios as ``mirror bench --json`` prints them."""
    mm2, mirror = medians(runs, Replicator.MM2), medians(runs, Replicator.MIRROR)
    return {
        "runs": [
            {
                "replicator": run.replicator.value,
                "round": run.round,
                "load_average": run.load_average,
                **asdict(run.figures),
            }
            for run in runs
        ],
        "medians": {Replicator.MM2.value: asdict(mm2), Replicator.MIRROR.value: asdict(mirror)},
        "ratios": asdict(ratios(mirror, mm2)),
    }


def order(round_number: int) -> tuple[Replicator, ...]:
    """Return who runs first in a round, counted from 1: they take turns, as brokers get faster with use."""
    forward = (Replicator.MM2, Replicator.MIRROR)
    return forward if round_number % 2 else forward[::-1]
