"""What a run left behind, read back typed: the contract between the steps that write it and the report that shows it.

Steps build the dataclasses below and write ``as_facts()`` of them into their outcome; `read_evidence` reads the same
form. Whatever is absent is None or empty and is shown as "not measured"; whatever is there in another form than agreed
is a problem, named with file and key, and keeps the run from being PASS.

``run.json``
    `RunSettings`, written by the runner.
``outcomes/<step>.json``
    ``{"step", "verdict": PASS|FAIL|UNKNOWN, "reasons": [text], "facts": {...}}``. The report reads these facts wherever
    they stand (a later step's over an earlier one's), and shows every other single value beside its step::

        "clusters":   [{"alias", "cluster_id", "bootstrap_servers", "brokers"}]               Cluster
        "versions":   {name: text}                                                             e.g. kafka, java
        "totals":     {"acked", "mirrored", "stranded", "lost", "duplicated", "reordered",
                       "altered", "indeterminate": records or null}                            Totals
        "rehearsed":  [{"group", "verdict", "partitions", "records", "forecast_skipped", "skipped",
                        "forecast_read_again", "read_again": [least, most], "seconds_to_first"}]  RehearsedGroup
        "findings":   [{"kind", "topic", "partition", "record_offset", "producer", "sequence", "note"}]   Finding

    failover_drill also writes `Failover`::

        "fault_at_ms", "detected_at_ms", "fenced_at_ms", "cut_at_ms", "offsets_applied_at_ms", "first_write_at_ms":
            milliseconds or null
        "groups_reading_at_ms": {group: ms or null}                                              FailoverInstants
        "rpo":        {"records", "bytes", "seconds", "objective_records", "objective_seconds"}          RecoveryPoint
        "rto_chain":  [{"link", "seconds"}]    those that came about, as these instants give them
        "rto_objective_seconds": seconds or null
        "partitions": [{"topic", "partition", "last_mirrored_upstream", "stranded_records"}]             PartitionCut

    failback also writes `Failback`::

        "account":    [{"class", "records", "note"}]   disjoint classes; together they are every acknowledged record
        "acked_records": what the classes must add up to
        "balances":   true or false
        "stranded_file": path in the run directory of the list of every stranded record, or null
``lag.jsonl``
    one sample a line: ``{"at_ms", "flow", "topic", "partition", "lag_records", "lag_seconds"}``; the two lags are null
    when they could not be measured (the source is down).
``journal.jsonl``
    `mirror.evidence.journal`, as are those of the procedure's runs (``failover/``, ``failback/``), which say when the
    links of the chain happened; the fault interval lies between ``fault_injected`` (facts ``cluster``, ``fault``) and
    ``fault_healed``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Self

from mirror.evidence.facts import FactError, Facts, Json, plain
from mirror.evidence.journal import Entry, Event, JournalReading, read_journal
from mirror.evidence.outcome import Outcome
from mirror.evidence.run_directory import RunDirectory, read_json
from mirror.evidence.seals import Broken, broken, is_finished, read_sealed
from mirror.model.failover_instants import FailoverInstants, RtoLink
from mirror.model.verdict import Verdict

if TYPE_CHECKING:
    import pandas as pd

LAG_COLUMNS = ("at_ms", "flow", "topic", "partition", "lag_records", "lag_seconds")

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
            units=_texts(document.object("units")),
            environment=_texts(document.object("environment")),
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
class Cluster:
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


@dataclass(frozen=True, slots=True)
class Evidence:
    """All a run left behind that the report needs.

    Attributes
    ----------
    lag
        one row a sample, columns `LAG_COLUMNS`; lags are NaN where they could not be measured.
    problems
        what was there in another form than agreed; each names file and key.
    broken
        what is not as the journal has sealed it.
    procedures
        the journals of the procedure's runs that are kept in this one.
    is_over
        whether whoever ran it has come to its end; a person who goes through the notebooks alone is at any.
    """

    run: RunDirectory
    settings: RunSettings
    steps: tuple[StepEvidence, ...]
    journal: JournalReading
    fault: FaultInterval | None
    lag: pd.DataFrame
    clusters: tuple[Cluster, ...]
    versions: Mapping[str, str]
    totals: Totals | None
    findings: tuple[Finding, ...]
    failover: Failover | None
    failback: Failback | None
    problems: tuple[str, ...]
    rehearsed: tuple[RehearsedGroup, ...] = ()
    broken: tuple[Broken, ...] = ()
    is_over: bool = True
    procedures: tuple[JournalReading, ...] = ()

    @property
    def happened(self) -> tuple[Entry, ...]:
        """Return the entries of the run's journal, and of the procedure's, in the order in which they happened."""
        entries = [*self.journal.entries, *(entry for each in self.procedures for entry in each.entries)]
        return tuple(sorted(entries, key=lambda entry: entry.happened_at_ms))

    @property
    def began_at_ms(self) -> int:
        """Return the start of the run in milliseconds since the epoch."""
        return round(self.settings.started_at.timestamp() * 1000)

    @property
    def ended_at_ms(self) -> int:
        """Return the time of the last thing that is known of the run."""
        last = [self.began_at_ms, *(entry.at_ms for entry in self.journal.entries[-1:])]
        if len(self.lag):
            last.append(int(self.lag["at_ms"].max()))
        return max(last)


def read_settings(run: RunDirectory) -> RunSettings:
    """Read ``run.json``.

    Raises
    ------
    FactError
        naming the key that is missing or wrong.
    """
    return RunSettings.from_json(read_json(run.run_json))


def read_evidence(run: RunDirectory, *, checked: Callable[[str], bool] = lambda _: True) -> Evidence:
    """Read all a run left behind; parts that are absent or damaged are left out, and the damaged ones are named.

    What is ``checked``, by its path in the run, is held against its seal.

    Raises
    ------
    FactError
        only for ``run.json``, without which there is no run.
    """
    settings = read_settings(run)
    journal = read_sealed(run)
    wrong = broken(run, journal.entries, checked)
    problems: list[str] = []
    steps = tuple(_step(run, step, journal, wrong, problems) for step in settings.steps)
    parts = _Parts(problems)
    for step in steps:
        if step.outcome is not None:
            parts.add(step.outcome)
    return Evidence(
        run=run,
        settings=settings,
        steps=steps,
        journal=journal,
        fault=_fault(journal, parts.failover),
        lag=_lag(run, problems),
        clusters=parts.clusters,
        versions=parts.versions,
        totals=parts.totals,
        findings=tuple(parts.findings),
        failover=parts.failover,
        failback=parts.failback,
        problems=tuple(problems),
        rehearsed=parts.rehearsed,
        broken=wrong,
        is_over=is_finished(run.seal, journal)
        or not any(entry.event is Event.RUN_STARTED for entry in journal.entries),
        procedures=tuple(map(read_journal, run.procedures)),
    )


class _Parts:
    """Collects the agreed facts out of outcomes, in the order of the steps."""

    def __init__(self, problems: list[str]) -> None:
        self.clusters: tuple[Cluster, ...] = ()
        self.versions: dict[str, str] = {}
        self.totals: Totals | None = None
        self.findings: list[Finding] = []
        self.failover: Failover | None = None
        self.failback: Failback | None = None
        self.rehearsed: tuple[RehearsedGroup, ...] = ()
        self._problems = problems

    def add(self, outcome: Outcome) -> None:
        """Take over what a step wrote; a part that is not as agreed is named and left out."""
        facts = Facts(outcome.facts, f"outcomes/{outcome.step}.json facts")
        for part in (
            *(self._clusters, self._versions, self._totals, self._findings),
            *(self._failover, self._failback, self._rehearsed),
        ):
            try:
                part(facts)
            except FactError as wrong:
                self._problems.append(str(wrong))

    def _clusters(self, facts: Facts) -> None:
        if "clusters" in facts:
            self.clusters = tuple(
                Cluster(
                    alias=cluster.text("alias"),
                    cluster_id=cluster.text("cluster_id"),
                    bootstrap_servers=cluster.text("bootstrap_servers"),
                    brokers=cluster.integer("brokers"),
                )
                for cluster in facts.objects("clusters")
            )

    def _versions(self, facts: Facts) -> None:
        if "versions" in facts:
            self.versions.update(_texts(facts.object("versions")))

    def _totals(self, facts: Facts) -> None:
        if "totals" in facts:
            self.totals = Totals.from_facts(facts.object("totals"))

    def _findings(self, facts: Facts) -> None:
        self.findings.extend(Finding.from_facts(finding) for finding in facts.objects("findings"))

    def _failover(self, facts: Facts) -> None:
        if "rto_chain" in facts or "rpo" in facts or "fault_at_ms" in facts:
            self.failover = Failover.from_facts(facts)

    def _rehearsed(self, facts: Facts) -> None:
        if "rehearsed" in facts:
            self.rehearsed = tuple(RehearsedGroup.from_facts(group) for group in facts.objects("rehearsed"))

    def _failback(self, facts: Facts) -> None:
        if "account" in facts:
            self.failback = Failback.from_facts(facts)


def _step(
    run: RunDirectory,
    settings: StepSettings,
    journal: JournalReading,
    wrong: Sequence[Broken],
    problems: list[str],
) -> StepEvidence:
    file = str(run.outcome_path(settings.name).relative_to(run.path))
    try:
        outcome = run.read_outcome(settings.name)
    except (FactError, ValueError) as unreadable:
        problems.append(str(unreadable))
        outcome = None
    touched = next((each for each in wrong if each.file == file), None)
    if outcome is not None and touched is not None:
        # Nothing that it says is taken for what the step has found.
        outcome = Outcome(settings.name, Verdict.UNKNOWN, reasons=(str(touched),))
    own = [entry for entry in journal.entries if entry.step == settings.name]
    began = next((entry for entry in reversed(own) if entry.event is Event.STEP_STARTED), None)
    ended = next((entry for entry in reversed(own) if entry.event is Event.STEP_FINISHED), None)
    if began is not None and ended is not None and ended.n < began.n:
        ended = None
    executed = run.notebooks / settings.notebook
    page = executed.with_suffix(".html")
    return StepEvidence(
        settings=settings,
        outcome=outcome,
        began_at_ms=began.at_ms if began else None,
        ended_at_ms=ended.at_ms if began and ended else None,
        seconds=ended.monotonic_seconds - began.monotonic_seconds if began and ended else None,
        executed=str(executed.relative_to(run.path)) if executed.exists() else None,
        page=str(page.relative_to(run.path)) if page.exists() else None,
    )


def _fault(journal: JournalReading, failover: Failover | None) -> FaultInterval | None:
    """Return the fault by the journal; its beginning by the failover step's facts when the journal does not tell."""
    injected = next((entry for entry in journal.entries if entry.event is Event.FAULT_INJECTED), None)
    healed = next((entry for entry in journal.entries if entry.event is Event.FAULT_HEALED), None)
    until = healed.at_ms if healed else None
    if injected is not None:
        what = " ".join(str(injected.facts[key]) for key in ("cluster", "fault") if key in injected.facts)
        at_ms = failover.instants.fault_at_ms if failover and failover.instants else injected.at_ms
        return FaultInterval(at_ms, until, what or "fault")
    if failover is not None and failover.instants is not None:
        return FaultInterval(failover.instants.fault_at_ms, until, "fault")
    return None


def _lag(run: RunDirectory, problems: list[str]) -> pd.DataFrame:
    """Read the samples; a torn last line (the sampler was killed) is left out, any other bad line is named."""
    import pandas as pd  # every command knows runs, and few read samples: without it they start sooner

    samples: list[Mapping[str, Json]] = []
    if run.lag.exists():
        lines = run.lag.read_text(encoding="utf-8").splitlines(keepends=True)
        whole = lines if not lines or lines[-1].endswith("\n") else lines[:-1]
        for number, line in enumerate(whole, start=1):
            try:
                sample = Facts.of(json.loads(line), f"lag.jsonl line {number}")
                samples.append(
                    {
                        "at_ms": sample.integer("at_ms"),
                        "flow": sample.text("flow"),
                        "topic": sample.text("topic"),
                        "partition": sample.integer("partition"),
                        "lag_records": sample.optional_number("lag_records"),
                        "lag_seconds": sample.optional_number("lag_seconds"),
                    }
                )
            except ValueError as wrong:
                problems.append(f"lag.jsonl line {number}: {wrong}")
                break
    frame = pd.DataFrame(samples, columns=list(LAG_COLUMNS))
    return frame.astype({"at_ms": "int64", "partition": "int64", "lag_records": "float64", "lag_seconds": "float64"})


def _texts(facts: Facts) -> dict[str, str]:
    return {key: facts.text(key) for key in facts.values}


def _object(value: Mapping[str, object]) -> Factual:
    document = plain(value)
    assert isinstance(document, dict), "a mapping becomes an object"
    return document
