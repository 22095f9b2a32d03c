"""How a flow stands, as values: partitions, lag, reasons, verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from mirror.control.gaps import iso_time
from mirror.model.cliff import duration_words, is_near
from mirror.model.failover import FailoverEntry
from mirror.model.flow import Flow
from mirror.model.gap import Gap
from mirror.model.leadership import Claim
from mirror.model.partition import TopicPartition
from mirror.model.pause import Pauses
from mirror.model.state_values import ForeignWriter, Standby

State = Literal["STARTING", "RUNNING", "PAUSED", "DEGRADED", "FAILED", "STOPPED"]
# What the source deletes sooner than that is reported, unless it keeps nothing for long.
CLIFF_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition of a flow.

    Attributes
    ----------
    topic, partition
        on the source.
    upstream_next
        position up to which it is copied.
    source_end
        end of the source's log, None when the source does not tell.
    downstream_next
        position on the target behind the last copied record.
    lag_records
        upstream offsets still to be copied; transaction markers count, so an upper bound.
    lag_seconds
        age of the oldest record still to be copied; 0 when there is none, None when the source does not tell or the
        record bears no time.
    left_out
        records of the source before that position that were not copied because other flows had mirrored them there.
    gaps
        how many gaps in it nobody has acknowledged.
    stopped
        why it is stopped, None while it is not.
    is_paused
        whether somebody has paused its topic.
    unanswered
        why it cannot be asked about or copied now, by the name of the cluster (``no leader on east``); None if it can.
    deleted_in_seconds
        how long the source still keeps the oldest record to be copied, at the rate at which the log grows; None if
        there is none, it is kept without end, or that is not known.
    """

    topic: str
    partition: int
    upstream_next: int
    source_end: int | None
    downstream_next: int
    lag_records: int | None
    lag_seconds: float | None
    left_out: int = 0
    gaps: int = 0
    stopped: str | None = None
    is_paused: bool = False
    unanswered: str | None = None
    deleted_in_seconds: float | None = None

    def is_near_cliff(self, limit_seconds: float) -> bool:
        """Whether the source soon deletes what is not copied, as :func:`mirror.model.cliff.is_near` has it."""
        left, lag = self.deleted_in_seconds, math.inf if self.lag_seconds is None else self.lag_seconds
        return left is not None and is_near(left, lag, limit_seconds)

    @property
    def cliff_words(self) -> str:
        """Say when the source deletes the oldest record to be copied, of which it is known."""
        where, left = TopicPartition(self.topic, self.partition), self.deleted_in_seconds
        when = f"in {duration_words(left)} at this rate" if left else "by now"
        return f"the oldest unmirrored record of {where} is deleted {when}"


def nearest_cliff(partitions: Iterable[PartitionStatus], limit_seconds: float) -> PartitionStatus | None:
    """Return the partition of which the source soonest deletes what is not copied; None: none so soon."""
    near = [each for each in partitions if each.is_near_cliff(limit_seconds)]
    return min(near, key=lambda each: each.deleted_in_seconds or 0.0, default=None)


def worst_first(partitions: Iterable[PartitionStatus]) -> list[PartitionStatus]:
    """Return partitions in the order in which they need somebody: stopped, with gaps, no answer, lag not known, lag."""

    def need(each: PartitionStatus) -> tuple[bool, bool, bool, bool, int]:
        lag = each.lag_records
        return each.stopped is None, not each.gaps, not each.unanswered, lag is not None, -(lag or 0)

    return sorted(partitions, key=lambda each: (*need(each), each.topic, each.partition))


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """One flow: its state, why it is not simply running, its partitions, and what else there is to know.

    ``claim`` is that of the engine that leads it, or led it last; ``standbys`` would lead it if that did not.
    ``deselected`` are partitions that were copied once and that the file no longer selects: their positions are kept.
    ``pauses`` is what is paused, and ``is_pause_confirmed`` whether nothing more is appended to the copies of that, by
    the word of who led the flow since; ``pause_limit`` is what that does not promise. ``open_gaps`` are those of the
    ``gaps`` that nobody has acknowledged, and ``stops`` says why partitions are stopped: both also of partitions that
    have no position yet. ``failovers`` are the runs of the procedure on record, in the order of the log. ``fence`` says
    what becomes of requests of an earlier engine that arrive late. ``reported_ms`` is when an engine last reported.
    """

    flow: Flow
    state: State
    reasons: tuple[str, ...]
    partitions: tuple[PartitionStatus, ...]
    gaps: tuple[Gap, ...] = ()
    foreign: tuple[ForeignWriter, ...] = ()
    notes: tuple[str, ...] = ()
    claim: Claim | None = None
    standbys: tuple[Standby, ...] = ()
    deselected: tuple[TopicPartition, ...] = ()
    pauses: Pauses = Pauses()  # noqa: RUF009  # frozen
    is_pause_confirmed: bool = False
    pause_limit: str | None = None
    open_gaps: tuple[Gap, ...] = ()
    stops: Mapping[TopicPartition, str] = field(default_factory=dict)
    failovers: tuple[FailoverEntry, ...] = ()
    fence: str | None = None
    reported_ms: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the form ``mirror status --json`` prints; the status address of an engine serves the same."""
        return {
            "flow": str(self.flow),
            "state": self.state,
            "reasons": list(self.reasons),
            "notes": list(self.notes),
            "leader": _leader(self.claim) if self.claim and not self.claim.is_released else None,
            "standbys": [
                {"engine": each.engine, "host": each.host, "pid": each.pid, "differs_in": list(each.differs_in)}
                for each in self.standbys
            ],
            "fence": self.fence,
            "pauses": [
                {"topics": each.topics, "paused": each.is_pause, "by": each.by, "since": iso_time(each.at_ms)}
                for each in self.pauses.shown
            ],
            "cut": self.pauses.is_cut,
            "failovers": [
                {
                    "run": each.run,
                    "mode": each.mode,
                    "phase": each.phase.value,
                    "since": iso_time(each.at_ms),
                    "where": each.where,
                }
                for each in self.failovers
            ],
            "pause_confirmed": self.is_pause_confirmed,
            "pause_limit": self.pause_limit,
            "partitions": [asdict(partition) for partition in self.partitions],
            "no_longer_selected": [{"topic": each.topic, "partition": each.partition} for each in self.deselected],
            "foreign_writers": [
                {
                    "topic": each.copy.topic,
                    "partition": each.copy.partition,
                    "producer_id": each.producer_id,
                    "first_offset": each.first,
                    "last_offset": each.end - 1,
                    "records": each.records,
                    "seen_at": iso_time(each.seen_at_ms),
                }
                for each in self.foreign
            ],
        }


def _leader(claim: Claim) -> dict[str, Any]:
    return {"engine": claim.engine, "host": claim.host, "pid": claim.pid, "term": claim.term}
