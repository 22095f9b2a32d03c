"""The figures of a bench, computed from what was seen of each contender, and their ratios round by round; pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mirror.bench.contenders import Contender
from mirror.evidence.statistics import spread
from mirror.lab.errors import LabError

RATE = "records_per_second"
SECOND_HALF_RATE = "records_per_second_in_second_half"
CPU_PER_GB = "cpu_seconds_per_gb"
FIRST_RECORD = "seconds_to_first_record"
CPU_BEFORE = "cpu_seconds_to_first_record"
MEMORY = "peak_resident_mb"
#: What means something only of a program that is started to go on copying.
OF_REPLICATORS = frozenset({FIRST_RECORD, CPU_BEFORE, MEMORY})
PERCENTS = (50, 90, 99)

_GB = 1e9


class NotMeasurable(LabError):
    """What was seen of a copy holds no rate."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at a copy.

    Attributes
    ----------
    at_seconds
        since the contender was started.
    records
        in the remote topic.
    cpu_seconds
        of all the contender's processes since it was started.
    resident_bytes
        of all the contender's processes; what they share is counted for each.
    """

    at_seconds: float
    records: int
    cpu_seconds: float
    resident_bytes: int


@dataclass(frozen=True, slots=True)
class Latencies:
    """What was measured at a rate.

    Attributes
    ----------
    rate
        records a second that were to be sent; ``sent_per_second`` is what it came to.
    milliseconds
        from the producer to the reader, of every record in the order of their sending.
    cpu_percent
        CPU of the contender meanwhile, in hundredths of a core.
    """

    rate: int
    sent_per_second: float
    milliseconds: tuple[float, ...]
    cpu_percent: float | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """What one contender did in a round: figures by their keys, without those it has not.

    ``load_average`` is the machine's, of the minute before.
    """

    contender: Contender
    round: int
    load_average: float
    figures: Mapping[str, float]


def copy_figures(samples: Sequence[Sample], records: int, record_bytes: int, contender: Contender) -> dict[str, float]:
    """Return what a copy of ``records`` records of ``record_bytes`` bytes took.

    The rate counts from the first look that saw records, without those it saw, to the first that saw all of them; the
    rate of the second half from the first look that saw half of them. CPU is that of the same time as the rate.

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
    figures = {
        RATE: counted / (done.at_seconds - begun.at_seconds),
        CPU_PER_GB: (done.cpu_seconds - begun.cpu_seconds) / (counted * record_bytes / _GB),
        FIRST_RECORD: begun.at_seconds,
        CPU_BEFORE: begun.cpu_seconds,
        MEMORY: max(sample.resident_bytes for sample in samples) / 1e6,
    }
    half = next(sample for sample in samples if 2 * sample.records >= records)
    if half is not done:
        figures[SECOND_HALF_RATE] = (done.records - half.records) / (done.at_seconds - half.at_seconds)
    return {key: value for key, value in figures.items() if contender.is_replicator or key not in OF_REPLICATORS}


def latency_figures(latencies: Latencies) -> dict[str, float]:
    """Return percentiles, and the rate and CPU they were measured at."""
    ordered = sorted(latencies.milliseconds)
    figures = {latency_key(latencies.rate, percent): percentile(ordered, percent) for percent in PERCENTS}
    figures[f"sent_per_second_at_{latencies.rate}"] = latencies.sent_per_second
    if latencies.cpu_percent is not None:
        figures[cpu_key(latencies.rate)] = latencies.cpu_percent
    return figures


def latency_key(rate: int, percent: int) -> str:
    """Return the key of a percentile of the latency at a rate, in milliseconds."""
    return f"latency_ms_p{percent}_at_{rate}"


def cpu_key(rate: int) -> str:
    """Return the key of the CPU used at a rate, in hundredths of a core."""
    return f"cpu_percent_at_{rate}"


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the smallest value that ``percent`` of a hundred are not above (nearest rank), of values in order."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def of_contender(runs: Iterable[Run], contender: Contender, key: str) -> tuple[float, ...]:
    """Return a figure of a contender, of each round in which it has it."""
    return tuple(run.figures[key] for run in runs if run.contender is contender and key in run.figures)


def ratios(runs: Iterable[Run], ours: Contender, theirs: Contender, key: str) -> tuple[float, ...]:
    """Return a figure of ours as a multiple of theirs, for each round in which both have it.

    Only values of one round are compared: the machine may have been another in the next one.
    """
    by_round: dict[int, dict[Contender, float]] = {}
    for run in runs:
        if key in run.figures:
            by_round.setdefault(run.round, {})[run.contender] = run.figures[key]
    return tuple(
        values[ours] / values[theirs] for _, values in sorted(by_round.items()) if ours in values and values.get(theirs)
    )


def keys_of(runs: Iterable[Run]) -> tuple[str, ...]:
    """Return every figure that any run has, in the order of their first appearance."""
    return tuple(dict.fromkeys(key for run in runs for key in run.figures))


def contenders_of(runs: Iterable[Run]) -> tuple[Contender, ...]:
    """Return who ran, in the order of their first appearance in the first round."""
    return tuple(dict.fromkeys(run.contender for run in runs))


def as_json(runs: Sequence[Run]) -> dict[str, Any]:
    """Return runs, spreads over the rounds, and the ratios of ``mirror`` to each other contender.

    ``{"runs": [{"contender", "round", "load_average", figure: value...}], "spreads": {contender: {figure: {"low",
    "median", "high"}}}, "ratios": {"mirror/mm2": {figure: {"rounds": [...], "low", "median", "high"}}}}``
    """
    who = contenders_of(runs)
    spreads: dict[str, dict[str, Any]] = {}
    compared: dict[str, dict[str, Any]] = {}
    for contender in who:
        for key in keys_of(runs):
            found = spread(of_contender(runs, contender, key))
            if found is not None:
                spreads.setdefault(contender.value, {})[key] = asdict(found)
            multiples = ratios(runs, Contender.MIRROR, contender, key)
            between = spread(multiples)
            if between is not None and contender is not Contender.MIRROR:
                name = f"{Contender.MIRROR}/{contender}"
                compared.setdefault(name, {})[key] = {"rounds": list(multiples), **asdict(between)}
    return {
        "runs": [
            {
                "contender": run.contender.value,
                "round": run.round,
                "load_average": run.load_average,
                **run.figures,
            }
            for run in runs
        ],
        "spreads": spreads,
        "ratios": compared,
    }
