"""What a drill's run directory tells, as values: settings, steps, findings, failover and failback."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Self

import msgspec

from mirror.evidence.facts import FactError, Facts, plain_object
from mirror.evidence.outcome import Outcome
from mirror.model.failover_instants import FailoverInstants, RtoLink
from mirror.model.verdict import Verdict

ParameterValue = bool | int | float | str
"""What a parameter of a run can be: a JSON scalar."""
Factual = dict[str, Any]
"""Facts of an outcome: data and records of this module."""


@dataclass(frozen=True, slots=True)
class StepSettings:
    """A step as it stood in the runbook when the run was started."""

    name: str
    title: str
    notebook: str
    budget_seconds: float
    point_of_no_return: bool
    gates: tuple[str, ...]
    undo: str


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What was started: the content of ``run.json``."""

    runbook: str
    title: str
    purpose: str
    started_at: datetime
    parameters: Mapping[str, ParameterValue]
    units: Mapping[str, str]
    environment: Mapping[str, str]
    steps: tuple[StepSettings, ...]

    def as_json(self) -> Factual:
        """Return the form of ``run.json``."""
        return plain_object({**asdict(self), "started_at": self.started_at.isoformat(timespec="milliseconds")})


@dataclass(frozen=True, slots=True)
class RunCluster:
    """A cluster of the run."""

    alias: str
    cluster_id: str
    bootstrap_servers: str
    brokers: int


@dataclass(frozen=True, slots=True)
class Totals:
    """Records of the whole run, by what became of them; None is not measured.

    Attributes
    ----------
    acked
        acknowledged by any cluster.
    mirrored
        of those the source acknowledged, found on the target.
    stranded
        acknowledged by the failed cluster and not on the target when it was cut off; they come back at failback.
    lost
        acknowledged and nowhere at the end.
    """

    acked: int | None = None
    mirrored: int | None = None
    stranded: int | None = None
    lost: int | None = None
    duplicated: int | None = None
    reordered: int | None = None
    altered: int | None = None
    indeterminate: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One anomaly, located: an example out of possibly many.

    Attributes
    ----------
    kind
        lost, stranded, duplicated, reordered, altered, unseen, redelivered, rewound.
    record_offset
        offset of the record where it was found or should be, None when it has none.
    """

    kind: str
    topic: str
    partition: int
    record_offset: int | None = None
    producer: str | None = None
    sequence: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class RehearsedGroup:
    """What a test failover showed of one group; records it would skip and read again, as forecast and as measured.

    Attributes
    ----------
    partitions
        tried, and not.
    records
        that its shadow was handed.
    read_again
        at least and at most: apart where the group went on meanwhile.
    seconds_to_first
        from the start of its reader to the first record; None if it was handed none.
    """

    group: str
    verdict: Verdict
    partitions: int
    records: int
    forecast_skipped: int
    skipped: int
    forecast_read_again: int
    read_again: tuple[int, int]
    seconds_to_first: float | None = None


@dataclass(frozen=True, slots=True)
class RecoveryPoint:
    """RPO achieved: what the target lacked at the fault, with the objectives it is held against."""

    records: int
    bytes: int
    seconds: float
    objective_records: int | None = None
    objective_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class PartitionCut:
    """Where the mirror of a partition ended when the source failed.

    Attributes
    ----------
    topic
        name on the source.
    last_mirrored_upstream
        offset on the source of the last record that reached the target; None when none did.
    stranded_records
        acknowledged by the source after it.
    """

    topic: str
    partition: int
    last_mirrored_upstream: int | None
    stranded_records: int


@dataclass(frozen=True, slots=True)
class Failover:
    """What the failover step measured; of its instants every link of the chain is reported."""

    instants: FailoverInstants | None = None
    rpo: RecoveryPoint | None = None
    rto_objective_seconds: float | None = None
    partitions: tuple[PartitionCut, ...] = ()

    @property
    def rto_seconds(self) -> float | None:
        """Return the whole chain's length; None when it was not measured."""
        return self.instants.seconds if self.instants else None

    @property
    def links(self) -> tuple[RtoLink, ...]:
        """Return the links of the chain that came about."""
        return tuple(link for link in self.instants.links if link.seconds is not None) if self.instants else ()

    def as_facts(self) -> Factual:
        """Return the failover step's facts."""
        facts = plain_object(self)
        instants = facts.pop("instants")
        chain = [{"link": link.name, "seconds": link.seconds} for link in self.links]
        return {**facts, **(instants if isinstance(instants, dict) else {}), "rto_chain": chain}

    @classmethod
    def from_facts(cls, facts: Facts) -> Self:
        """Read the failover step's facts.

        Raises
        ------
        FactError
            naming the key that is missing or wrong, or a link of the chain that the instants contradict.
        """
        instants = facts.read(FailoverInstants) if "fault_at_ms" in facts else None
        failover = replace(facts.read(cls), instants=instants)
        recorded = [link.seconds for link in facts.get("rto_chain", tuple[_ToldLink, ...]) or ()]
        known = [link.seconds for link in failover.links]
        if "rto_chain" in facts and recorded != known:
            raise FactError(f"{facts.where}.rto_chain: links of {recorded} s, and the instants beside it give {known}")
        return failover


@dataclass(frozen=True, slots=True)
class _ToldLink:
    """A link of the chain, as a failover step has written it."""

    seconds: float


class AccountClass(msgspec.Struct, frozen=True, rename={"name": "class"}):
    """One class of acknowledged records in the final account; the classes are disjoint."""

    name: str
    records: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Failback:
    """The final account: every acknowledged record in exactly one class."""

    account: tuple[AccountClass, ...]
    acked_records: int
    balances: bool
    stranded_file: str | None = None

    @property
    def accounted_records(self) -> int:
        """Return the sum of the classes."""
        return sum(row.records for row in self.account)

    @property
    def adds_up(self) -> bool:
        """Return whether the classes are together exactly the acknowledged records, whatever ``balances`` claims."""
        return self.accounted_records == self.acked_records


@dataclass(frozen=True, slots=True)
class StepEvidence:
    """A step of the run: as it was planned, and what became of it.

    Attributes
    ----------
    outcome
        None when the step has not been run.
    began_at_ms, ended_at_ms
        of its latest attempt, by the journal.
    seconds
        its duration by the monotonic clock.
    executed, page
        paths, relative to the run directory, of the executed notebook and its page; None when they are not there.
    """

    settings: StepSettings
    outcome: Outcome | None
    began_at_ms: int | None
    ended_at_ms: int | None
    seconds: float | None
    executed: str | None
    page: str | None

    @property
    def verdict(self) -> Verdict:
        """Return the step's verdict; what was not run is UNKNOWN."""
        return self.outcome.verdict if self.outcome else Verdict.UNKNOWN


@dataclass(frozen=True, slots=True)
class FaultInterval:
    """From the fault to its healing; ``until_ms`` is None while it has not been healed."""

    from_ms: int
    until_ms: int | None
    what: str
