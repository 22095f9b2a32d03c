"""What a drill's run directory tells, as values: settings, steps, findings, failover and failback."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Self

from mirror.evidence.facts import FactError, Facts, Json, plain
from mirror.evidence.outcome import Outcome
from mirror.model.failover_instants import FailoverInstants, RtoLink
from mirror.model.verdict import Verdict

ParameterValue = bool | int | float | str
"""What a parameter of a run can be: a JSON scalar."""
Factual = dict[str, Json]
"""Facts in the form of an outcome file."""


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
        return _object({**asdict(self), "started_at": self.started_at.isoformat(timespec="milliseconds")})

    @classmethod
    def from_json(cls, document: Facts) -> Self:
        """Read ``run.json`` back.

        Raises
        ------
        FactError
            naming the key that is missing or wrong.
        """
        parameters: dict[str, ParameterValue] = {}
        for name, value in document.object("parameters").values.items():
            if not isinstance(value, bool | int | float | str):
                raise FactError(f"{document.where}.parameters.{name}: expected a single value, found {value!r}")
            parameters[name] = value
        return cls(
            runbook=document.text("runbook"),
            title=document.text("title"),
            purpose=document.text("purpose"),
            started_at=datetime.fromisoformat(document.text("started_at")),
            parameters=parameters,
            units=texts(document.object("units")),
            environment=texts(document.object("environment")),
            steps=tuple(
                StepSettings(
                    name=step.text("name"),
                    title=step.text("title"),
                    notebook=step.text("notebook"),
                    budget_seconds=step.number("budget_seconds"),
                    point_of_no_return=step.flag("point_of_no_return"),
                    gates=step.texts("gates"),
                    undo=step.text("undo"),
                )
                for step in document.objects("steps")
            ),
        )


@dataclass(frozen=True, slots=True)
class RunCluster:
    """A cluster of the run."""

    alias: str
    cluster_id: str
    bootstrap_servers: str
    brokers: int

    def as_facts(self) -> Factual:
        """Return the form of an item of ``facts.clusters``."""
        return _object(asdict(self))


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
        acknowledged by the failed cluster and not on the target when it was cut off; they come home at failback.
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

    def as_facts(self) -> Factual:
        """Return the form of ``facts.totals``."""
        return _object(asdict(self))

    @classmethod
    def from_facts(cls, facts: Facts) -> Self:
        """Read ``facts.totals``."""
        return cls(**{name: facts.optional_integer(name) for name in cls.__slots__})


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

    def as_facts(self) -> Factual:
        """Return the form of an item of ``facts.findings``."""
        return _object(asdict(self))

    @classmethod
    def from_facts(cls, facts: Facts) -> Self:
        """Read an item of ``facts.findings``."""
        return cls(
            kind=facts.text("kind"),
            topic=facts.text("topic"),
            partition=facts.integer("partition"),
            record_offset=facts.optional_integer("record_offset"),
            producer=facts.optional_text("producer"),
            sequence=facts.optional_integer("sequence"),
            note=facts.optional_text("note") or "",
        )


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
    seconds_to_first: float | None

    @classmethod
    def from_facts(cls, facts: Facts) -> Self:
        """Read an item of ``facts.rehearsed``.

        Raises
        ------
        FactError
            naming the key that is missing or wrong.
        """
        span = facts.values.get("read_again")
        match span:
            case [int() as least, int() as most]:
                again = least, most
            case _:
                raise FactError(f"{facts.where}.read_again: expected two numbers, found {span!r}")
        return cls(
            group=facts.text("group"),
            verdict=Verdict(facts.text("verdict")),
            partitions=facts.integer("partitions"),
            records=facts.integer("records"),
            forecast_skipped=facts.integer("forecast_skipped"),
            skipped=facts.integer("skipped"),
            forecast_read_again=facts.integer("forecast_read_again"),
            read_again=again,
            seconds_to_first=facts.optional_number("seconds_to_first"),
        )


@dataclass(frozen=True, slots=True)
class RecoveryPoint:
    """RPO achieved: what the target lacked at the fault, with the objectives it is held against."""

    records: int
    bytes: int
    seconds: float
    objective_records: int | None = None
    objective_seconds: float | None = None

    def as_facts(self) -> Factual:
        """Return the form of ``facts.rpo``."""
        return _object(asdict(self))


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

    def as_facts(self) -> Factual:
        """Return the form of an item of ``facts.partitions``."""
        return _object(asdict(self))


@dataclass(frozen=True, slots=True)
class Failover:
    """What the failover step measured; of its instants every link of the chain is told."""

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
        chain = [{"link": link.name, "seconds": link.seconds} for link in self.links]
        facts = {**asdict(self), **(asdict(self.instants) if self.instants else {}), "rto_chain": chain}
        return _object({key: value for key, value in facts.items() if key != "instants"})

    @classmethod
    def from_facts(cls, facts: Facts) -> Self:
        """Read the failover step's facts.

        Raises
        ------
        FactError
            naming the key that is missing or wrong, or a link of the chain that the instants contradict.
        """
        rpo = facts.object("rpo") if "rpo" in facts else None
        failover = cls(
            instants=_instants(facts),
            rpo=None
            if rpo is None
            else RecoveryPoint(
                records=rpo.integer("records"),
                bytes=rpo.integer("bytes"),
                seconds=rpo.number("seconds"),
                objective_records=rpo.optional_integer("objective_records"),
                objective_seconds=rpo.optional_number("objective_seconds"),
            ),
            rto_objective_seconds=facts.optional_number("rto_objective_seconds"),
            partitions=tuple(
                PartitionCut(
                    topic=cut.text("topic"),
                    partition=cut.integer("partition"),
                    last_mirrored_upstream=cut.optional_integer("last_mirrored_upstream"),
                    stranded_records=cut.integer("stranded_records"),
                )
                for cut in facts.objects("partitions")
            ),
        )
        told = [link.number("seconds") for link in facts.objects("rto_chain")]
        known = [link.seconds for link in failover.links]
        if "rto_chain" in facts and told != known:
            raise FactError(f"{facts.where}.rto_chain: links of {told} s, and the instants beside it give {known}")
        return failover


def _instants(facts: Facts) -> FailoverInstants | None:
    fault_at_ms = facts.optional_integer("fault_at_ms")
    if fault_at_ms is None:
        return None
    groups = facts.object("groups_reading_at_ms") if "groups_reading_at_ms" in facts else Facts({}, facts.where)
    return FailoverInstants(
        fault_at_ms,
        detected_at_ms=facts.optional_integer("detected_at_ms"),
        fenced_at_ms=facts.optional_integer("fenced_at_ms"),
        cut_at_ms=facts.optional_integer("cut_at_ms"),
        offsets_applied_at_ms=facts.optional_integer("offsets_applied_at_ms"),
        first_write_at_ms=facts.optional_integer("first_write_at_ms"),
        groups_reading_at_ms={group: groups.optional_integer(group) for group in groups.values},
    )


@dataclass(frozen=True, slots=True)
class AccountClass:
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

    def as_facts(self) -> Factual:
        """Return the failback step's facts."""
        return _object(
            {
                "account": [{"class": row.name, "records": row.records, "note": row.note} for row in self.account],
                "acked_records": self.acked_records,
                "balances": self.balances,
                "stranded_file": self.stranded_file,
            }
        )

    @classmethod
    def from_facts(cls, facts: Facts) -> Self:
        """Read the failback step's facts."""
        return cls(
            account=tuple(
                AccountClass(row.text("class"), row.integer("records"), row.optional_text("note") or "")
                for row in facts.objects("account")
            ),
            acked_records=facts.integer("acked_records"),
            balances=facts.flag("balances"),
            stranded_file=facts.optional_text("stranded_file"),
        )


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


def texts(facts: Facts) -> dict[str, str]:
    """Return facts that are all text."""
    return {key: facts.text(key) for key in facts.values}


def _object(value: Mapping[str, object]) -> Factual:
    document = plain(value)
    assert isinstance(document, dict), "a mapping becomes an object"
    return document
