"""How much was lost and how long it took, held against what was promised: RPO and RTO, from the history alone.

*RPO achieved* is reported three ways: the acked records the target lacks, their bytes, and the time between the fault
and the newest instant T such that every record acked up to T is on the target. *RTO achieved* is the length of a chain:
fault -> detected -> fenced -> drained or cut -> offsets applied -> first accepted write -> every group reading new
records.

All instants are milliseconds since 1970 UTC by the clock of the machine that ran applications and drill;
acknowledgements and reads count when the application learnt of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mirror.model.failover_instants import FailoverInstants
from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict

__all__ = ["Objectives"]


@dataclass(frozen=True, slots=True)
class Missing:
    """Acked records of one source partition that the target lacks.

    Attributes
    ----------
    bytes
        of keys, values and headers, uncompressed.
    first_acked_at_ms
        when the first of them was acked; None when none is missing.
    """

    cluster: str
    partition: TopicPartition
    records: int
    bytes: int
    first_acked_at_ms: int | None


@dataclass(frozen=True, slots=True)
class Rpo:
    """The recovery point that was reached."""

    records: int
    bytes: int
    seconds: float


def compute_rpo(missing: Iterable[Missing], fault_at_ms: int) -> Rpo:
    """Return the recovery point from what is missing, per partition, on the target.

    ::

        acked at      10   20   30   40        fault at 50
        on target      x    x         x        T is just before 30: seconds = (50 - 30) / 1000, records = 1

    ``seconds`` is 0 when nothing is missing, and also when all that is missing was acked after the fault, as some
    acknowledgements reach a producer later than the broker's death is known.
    """
    partitions = list(missing)
    firsts = [each.first_acked_at_ms for each in partitions if each.first_acked_at_ms is not None]
    return Rpo(
        records=sum(each.records for each in partitions),
        bytes=sum(each.bytes for each in partitions),
        seconds=max(0, fault_at_ms - min(firsts)) / 1000 if firsts else 0.0,
    )


@dataclass(frozen=True, slots=True)
class Objectives:
    """What was promised; None is no promise."""

    rpo_records: int | None = None
    rpo_bytes: int | None = None
    rpo_seconds: float | None = None
    rto_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ObjectiveResult:
    """One promise, what was achieved (None: not measured) and whether it was kept."""

    name: str
    objective: float
    achieved: float | None
    verdict: Verdict


def judge_objectives(
    objectives: Objectives, *, rpo: Rpo | None, rto: FailoverInstants | None, observed_until_ms: int | None = None
) -> tuple[ObjectiveResult, ...]:
    """Hold what was achieved against what was promised, one result a promise.

    What was not measured is UNKNOWN. A chain that is broken is a FAIL once it was watched (``observed_until_ms``) for
    longer than the promised time.
    """
    results = []
    for name, objective, achieved in (
        ("rpo_records", objectives.rpo_records, rpo.records if rpo else None),
        ("rpo_bytes", objectives.rpo_bytes, rpo.bytes if rpo else None),
        ("rpo_seconds", objectives.rpo_seconds, rpo.seconds if rpo else None),
        ("rto_seconds", objectives.rto_seconds, rto.seconds if rto else None),
    ):
        if objective is None:
            continue
        if achieved is not None:
            verdict = Verdict.PASS if achieved <= objective else Verdict.FAIL
        elif name == "rto_seconds" and rto is not None and observed_until_ms is not None:
            watched_seconds = (observed_until_ms - rto.fault_at_ms) / 1000
            verdict = Verdict.FAIL if watched_seconds > objective else Verdict.UNKNOWN
        else:
            verdict = Verdict.UNKNOWN
        results.append(ObjectiveResult(name, objective, achieved, verdict))
    return tuple(results)
