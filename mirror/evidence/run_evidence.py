"""What a run left behind, read back typed: the contract between the steps that write it and the report that shows it.

Steps put the dataclasses below into the facts of their outcome; `read_evidence` reads them back. Whatever is absent is
None or empty and is shown as "not measured"; whatever is there in another form than agreed is a problem, named with
file and key, and keeps the run from being PASS.

``run.json``
    `RunSettings`, written by the runner.
``outcomes/<step>.json``
    ``{"step", "verdict": PASS|FAIL|UNKNOWN, "reasons": [text], "facts": {...}}``. The report reads these facts wherever
    they stand (a later step's over an earlier one's), and shows every other single value beside its step::

        "clusters":   [{"alias", "cluster_id", "bootstrap_servers", "brokers"}]               RunCluster
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
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from mirror.evidence.facts import FactError, Facts
from mirror.evidence.journal import Entry, Event, JournalReading, read_journal
from mirror.evidence.outcome import Outcome
from mirror.evidence.run_directory import RunDirectory, read_json
from mirror.evidence.run_model import (
    Failback,
    Failover,
    FaultInterval,
    Finding,
    RehearsedGroup,
    RunCluster,
    RunSettings,
    StepEvidence,
    StepSettings,
    Totals,
)
from mirror.evidence.seals import Broken, broken, is_finished, read_sealed
from mirror.model.verdict import Verdict

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class LagSample:
    """A line of ``lag.jsonl``."""

    at_ms: int
    flow: str
    topic: str
    partition: int
    lag_records: float | None = None
    lag_seconds: float | None = None


LAG_COLUMNS = tuple(each.name for each in fields(LagSample))


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
    clusters: tuple[RunCluster, ...]
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
    return read_json(run.run_json).read(RunSettings)


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
        procedures=tuple(sorted(map(read_journal, run.procedures), key=_began_at_ms)),
    )


def _began_at_ms(journal: JournalReading) -> int:
    return journal.entries[0].at_ms if journal.entries else 0


class _Parts:
    """Collects the agreed facts out of outcomes, in the order of the steps."""

    def __init__(self, problems: list[str]) -> None:
        self.clusters: tuple[RunCluster, ...] = ()
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
        self.clusters = facts.get("clusters", tuple[RunCluster, ...]) or self.clusters

    def _versions(self, facts: Facts) -> None:
        self.versions.update(facts.get("versions", dict[str, str]) or {})

    def _totals(self, facts: Facts) -> None:
        self.totals = facts.get("totals", Totals) or self.totals

    def _findings(self, facts: Facts) -> None:
        self.findings.extend(facts.get("findings", tuple[Finding, ...]) or ())

    def _failover(self, facts: Facts) -> None:
        if "rto_chain" in facts or "rpo" in facts or "fault_at_ms" in facts:
            self.failover = Failover.from_facts(facts)

    def _rehearsed(self, facts: Facts) -> None:
        self.rehearsed = facts.get("rehearsed", tuple[RehearsedGroup, ...]) or self.rehearsed

    def _failback(self, facts: Facts) -> None:
        if "account" in facts:
            self.failback = facts.read(Failback)


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

    samples: list[LagSample] = []
    if run.lag.exists():
        lines = run.lag.read_text(encoding="utf-8").splitlines(keepends=True)
        whole = lines if not lines or lines[-1].endswith("\n") else lines[:-1]
        for number, line in enumerate(whole, start=1):
            try:
                samples.append(Facts.of(json.loads(line), f"lag.jsonl line {number}").read(LagSample))
            except ValueError as wrong:
                problems.append(f"lag.jsonl line {number}: {wrong}")
                break
    frame = pd.DataFrame(samples, columns=list(LAG_COLUMNS))
    return frame.astype({"at_ms": "int64", "partition": "int64", "lag_records": "float64", "lag_seconds": "float64"})
