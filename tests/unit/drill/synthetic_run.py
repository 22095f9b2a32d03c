"""Builds the directory of a made-up failover drill, with the files and figures a real one has."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import nbformat

from mirror.evidence.digests import seal_of
from mirror.evidence.facts import Json, plain_object
from mirror.evidence.journal import Event, Journal
from mirror.evidence.outcome import Outcome
from mirror.evidence.run_directory import RunDirectory, write_json
from mirror.evidence.run_model import (
    AccountClass,
    Failback,
    Failover,
    Finding,
    PartitionCut,
    RecoveryPoint,
    RunSettings,
    StepSettings,
    Totals,
)
from mirror.evidence.seals import seal_end
from mirror.model.failover_instants import FailoverInstants
from mirror.model.verdict import Verdict

STARTED_AT = datetime(2026, 3, 14, 9, 26, 53, tzinfo=UTC)
PARTITIONS = 6
STRANDED = (212, 187, 240, 201, 0, 178)

STEPS = (
    StepSettings(
        name="setup",
        title="Set up two clusters and the mirror's file",
        notebook="10_setup.ipynb",
        budget_seconds=120.0,
        point_of_no_return=False,
        gates=("at least 2 GB free on the disk of the run directory",),
        undo="stop the clusters and delete the run's lab folder",
    ),
    StepSettings(
        name="mirror",
        title="Mirror east to west under load",
        notebook="20_mirror.ipynb",
        budget_seconds=120.0,
        point_of_no_return=False,
        gates=("passed before: setup",),
        undo="stop the load and the mirror; nothing on east has changed",
    ),
    StepSettings(
        name="verify",
        title="Verify the copy, record by record",
        notebook="30_verify.ipynb",
        budget_seconds=120.0,
        point_of_no_return=False,
        gates=("passed before: setup, mirror",),
        undo="nothing to undo: it only reads",
    ),
    StepSettings(
        name="failover_drill",
        title="Fail over: kill east, promote west",
        notebook="40_failover_drill.ipynb",
        budget_seconds=180.0,
        point_of_no_return=True,
        gates=("passed before: setup, mirror, verify", "the journal is intact"),
        undo="failback, which is the next step: from here on west holds records that east does not have",
    ),
    StepSettings(
        name="failback",
        title="Fail back to east and account for every record",
        notebook="50_failback.ipynb",
        budget_seconds=240.0,
        point_of_no_return=False,
        gates=("passed before: failover_drill", "the journal is intact"),
        undo="stay on west; repeat the step when the cause is removed",
    ),
)


@dataclass
class Clock:
    """A clock for the journal that the builder moves by hand; `at` are seconds since the run began."""

    at: float = 0.0

    def now(self) -> datetime:
        return STARTED_AT + timedelta(seconds=self.at)

    def monotonic(self) -> float:
        return 41_000.0 + self.at

    def ms(self, at: float) -> int:
        return round((STARTED_AT + timedelta(seconds=at)).timestamp() * 1000)


class SyntheticRun:
    """Writes a run step by step; each method returns the run directory as it stands then."""

    def __init__(self, runs: Path) -> None:
        self.run = RunDirectory.create(runs, "failover-drill", started_at=STARTED_AT)
        self._clock = Clock()
        self._procedure = self.run.path / "failover" / "journal.jsonl"
        self._journal = Journal(self.run.journal.path, now=self._clock.now, monotonic=self._clock.monotonic)
        self._random = random.Random(7)
        settings = RunSettings(
            runbook="failover-drill",
            title="Failover drill",
            purpose="Prove that the standby takes over, what that costs, and that nothing is lost on the way back.",
            started_at=STARTED_AT,
            parameters={
                "records_per_second": 2000,
                "load_seconds": 20.0,
                "partitions": PARTITIONS,
                "seed": 1,
                "rpo_objective_seconds": 5.0,
                "rto_objective_seconds": 30.0,
            },
            units={
                "records_per_second": "records/s",
                "load_seconds": "s",
                "rpo_objective_seconds": "s",
                "rto_objective_seconds": "s",
            },
            environment={
                "python": "3.11.7",
                "system": "Linux 6.8.0 x86_64",
                "cores": "2",
                "memory": "16.0 GB",
                "mirrorbook": "0.1.0",
                "pyspark": "4.3.0",
                "kafka-python": "3.0.12",
            },
            steps=STEPS,
        )
        write_json(self.run.run_json, settings.as_json())
        self.note(0.0, Event.RUN_STARTED, None, {"runbook": "failover-drill"})

    def note(self, at: float, event: Event, step: str | None, facts: Mapping[str, object] | None = None) -> None:
        """Append to the journal as if it were `at` seconds into the run."""
        self._clock.at = at
        self._journal.append(event, step=step, facts=facts)

    def moved(self, at: float, event: Event, step: str, facts: Mapping[str, object] | None = None) -> None:
        """Append to the journal of the procedure."""
        self._clock.at = at
        self._procedure.parent.mkdir(exist_ok=True)
        journal = Journal(self._procedure, now=self._clock.now, monotonic=self._clock.monotonic)
        journal.append(event, step=step, facts=facts)

    def step(self, name: str, began: float, ended: float, outcome: Outcome) -> None:
        """Leave behind what a step leaves behind; its events must have been noted in order between the two calls."""
        self._begin(name, began)
        self._end(name, ended, outcome)

    def _begin(self, name: str, began: float) -> None:
        self.note(began, Event.STEP_STARTED, name, {"notebook": _settings(name).notebook})

    def _end(self, name: str, ended: float, outcome: Outcome) -> None:
        facts = {"verdict": outcome.verdict.value, "reasons": list(outcome.reasons)}
        self.note(ended, Event.STEP_FINISHED, name, facts)
        self.run.write_outcome(outcome)
        self._notebook(name)

    def _notebook(self, name: str) -> None:
        settings = _settings(name)
        cells = [
            nbformat.v4.new_markdown_cell(f"# {settings.title}\n\nWhy this step exists."),
            nbformat.v4.new_code_cell("run_directory = ''", metadata={"tags": ["parameters"]}),
        ]
        path = self.run.notebooks / settings.notebook
        nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
        path.with_suffix(".html").write_text(f"<!DOCTYPE html><title>{settings.title}</title>", encoding="utf-8")

    def until_verified(self) -> RunDirectory:
        """Set up, mirror, verify."""
        facts: dict[str, Json] = {
            "clusters": [
                _cluster("east", "kA9xW0vQRmuZ1bX8p5yT2g", 19092),
                _cluster("west", "t3LqVb7hSUu0mJf4KcWn9A", 29092),
            ],
            "versions": {"kafka": "4.3.1", "java": "17.0.12", "replicator": "mirror 0.1.0"},
            "cluster_start_seconds": 4.871,
        }
        self.step("setup", 0.4, 13.9, Outcome("setup", Verdict.PASS, facts, ("two clusters answer; flow east->west",)))
        self._begin("mirror", 14.1)
        self.note(22.0, Event.LOAD_STARTED, "mirror", {"cluster": "east"})
        mirrored = Outcome("mirror", Verdict.PASS, {"records_mirrored": 41_237, "worst_lag_records": 612})
        self._end("mirror", 38.2, mirrored)
        verified: dict[str, Json] = {"records_compared": 41_237, "missing": 0, "altered": 0, "reordered": 0}
        self.step(
            "verify", 38.4, 51.7, Outcome("verify", Verdict.PASS, verified, ("every record is where it belongs",))
        )
        return self.run

    def until_failed_over(self) -> RunDirectory:
        """And fail over."""
        self.until_verified()
        ms, name = self._clock.ms, "failover_drill"
        self.note(51.9, Event.POINT_OF_NO_RETURN, name, {"undo": _settings(name).undo})
        self._begin(name, 51.95)
        self.note(60.0, Event.FAULT_INJECTED, name, {"cluster": "east", "fault": "brokers killed"})
        self.moved(62.13, Event.FAULT_DETECTED, "detect")
        self.moved(62.41, Event.FENCED, "stop", {"cluster": "east"})
        self.moved(64.02, Event.CUT, "cut", {"flow": "east->west"})
        self.moved(65.2, Event.OFFSETS_APPLIED, "groups")
        # Read in the ledger once all had come about: noticed later than it happened, and in another order.
        self.moved(70.1, Event.GROUP_READING, "first reads", {"group": "shipping", "first_at_ms": ms(69.94)})
        self.moved(70.2, Event.GROUP_READING, "first reads", {"group": "billing", "first_at_ms": ms(67.3)})
        self.moved(70.3, Event.FIRST_WRITE, "first write", {"cluster": "west", "first_at_ms": ms(66.07)})
        failover = Failover(
            FailoverInstants(
                fault_at_ms=ms(60.0),
                detected_at_ms=ms(62.13),
                fenced_at_ms=ms(62.41),
                cut_at_ms=ms(64.02),
                offsets_applied_at_ms=ms(65.2),
                first_write_at_ms=ms(66.07),
                groups_reading_at_ms={"billing": ms(67.3), "shipping": ms(69.94)},
            ),
            rpo=RecoveryPoint(sum(STRANDED), 1_081_340, 0.83, objective_seconds=5.0),
            rto_objective_seconds=30.0,
            partitions=tuple(
                PartitionCut("orders", index, 12_904 + 37 * index, stranded) for index, stranded in enumerate(STRANDED)
            ),
        )
        facts = {
            **failover.as_facts(),
            "totals": Totals(acked=97_004, mirrored=76_418, stranded=sum(STRANDED)),
            "findings": [
                Finding("stranded", "orders", 0, 12_905, "load-1", 6_411, "key customer-0417"),
                Finding("stranded", "orders", 2, 12_979, "load-2", 6_398, "key customer-0033"),
            ],
        }
        self._end(name, 78.3, Outcome(name, Verdict.PASS, facts, ("west took over within its objectives",)))
        self._lag("east->west", 15.0, 78.0)
        return self.run

    def passed(self) -> RunDirectory:
        """And fail back; every step passed."""
        self.until_failed_over()
        self._fail_back(lost=0)
        self._finish(123.0, {"status": "completed", "verdict": "PASS"})
        return self.run

    def lost(self) -> RunDirectory:
        """And fail back, with three records that are nowhere."""
        self.until_failed_over()
        self._fail_back(lost=3)
        self._finish(123.0, {"status": "stopped", "verdict": "FAIL"})
        return self.run

    def crashed(self) -> RunDirectory:
        """Fail over, with a notebook that crashed in the middle; no failback."""
        self.until_verified()
        name = "failover_drill"
        self.note(51.9, Event.POINT_OF_NO_RETURN, name)
        self._begin(name, 51.95)
        self.note(60.0, Event.FAULT_INJECTED, name, {"cluster": "east", "fault": "brokers killed"})
        reason = (
            "crashed in cell 9 (Move the groups): WaitTimeout: waited 30.0 s for group billing to be empty on west; "
            "last seen: GroupDescription(state='Stable', members=2)"
        )
        self._end(name, 96.4, Outcome(name, Verdict.UNKNOWN, {}, (reason,)))
        self._lag("east->west", 15.0, 62.0)
        self._finish(96.5, {"status": "stopped", "verdict": "UNKNOWN"})
        return self.run

    def _finish(self, at: float, facts: Mapping[str, object]) -> None:
        self._clock.at = at
        samples = {str(self.run.lag.relative_to(self.run.path)): seal_of(self.run.lag)}
        self._journal.append(Event.EVIDENCE_SEALED, facts={"files": samples})
        seal_end(self.run.seal, self._journal.append(Event.RUN_FINISHED, facts=facts))

    def _fail_back(self, lost: int) -> None:
        name, stranded = "failback", sum(STRANDED)
        self._begin(name, 78.6)
        self.note(84.9, Event.FAULT_HEALED, name, {"cluster": "east"})
        self.note(98.0, Event.LOAD_STOPPED, name, {"cluster": "west"})
        self.note(104.2, Event.DRAINED, name, {"flow": "west->east"})
        account = Failback(
            account=(
                AccountClass("mirrored to west before the fault", 75_400 - lost),
                AccountClass("stranded on east, brought back", stranded, "listed, compared, replayed in order"),
                AccountClass("written on west after the failover, mirrored back", 20_586),
            ),
            acked_records=75_400 + stranded + 20_586,
            balances=not lost,
            stranded_file="ledger/stranded.parquet",
        )
        totals = Totals(
            acked=account.acked_records,
            mirrored=75_400 - lost + 20_586,
            stranded=stranded,
            lost=lost,
            duplicated=0,
            reordered=0,
            altered=0,
        )
        findings = [
            Finding("lost", "orders", 3, 9_001 + index, "load-1", 3_311 + index, "acked by east at 09:27:31.204")
            for index in range(lost)
        ]
        facts: dict[str, Json] = {
            **plain_object(account),
            "totals": totals,
            "findings": list(findings),
        }
        reasons = ("every acknowledged record is accounted for",) if not lost else (f"{lost} records are lost",)
        outcome = Outcome(name, Verdict.FAIL if lost else Verdict.PASS, facts, reasons)
        self._end(name, 122.8, outcome)
        self._lag("west->east", 86.0, 120.0)

    def _lag(self, flow: str, began: float, ended: float) -> None:
        """Sample lag twice a second: a ripple, a spike, and nothing measurable once the source is dead."""
        with self.run.lag.open("a", encoding="utf-8") as file:
            at = began
            while at < ended:
                for partition in range(PARTITIONS):
                    file.write(json.dumps(self._sample(flow, at, began, partition)) + "\n")
                at += 0.5

    def _sample(self, flow: str, at: float, began: float, partition: int) -> Mapping[str, Json]:
        is_dead = flow == "east->west" and at > 60.3
        ripple = 40 + 30 * math.sin(at * 1.3 + partition) + self._random.uniform(0, 40)
        spike = 700 * math.exp(-((at - began - 9 - partition * 0.3) ** 2) / 3)
        backlog = max(0.0, 3400 - 300 * (at - began)) if flow == "west->east" else 0.0
        records = max(0, round(ripple + spike + backlog * (0.8 + partition * 0.07)))
        return {
            "at_ms": self._clock.ms(at),
            "flow": flow,
            "topic": "orders",
            "partition": partition,
            "lag_records": None if is_dead else records,
            "lag_seconds": None if is_dead else round(records / 333, 3),
        }


def _cluster(alias: str, cluster_id: str, port: int) -> dict[str, Json]:
    return {"alias": alias, "cluster_id": cluster_id, "bootstrap_servers": f"localhost:{port}", "brokers": 1}


def _settings(name: str) -> StepSettings:
    return next(step for step in STEPS if step.name == name)


def with_more_lag_partitions(run: RunDirectory, partitions: Sequence[int]) -> None:
    """Add idle partitions to the samples, so that there are more than a picture has colours for."""
    lines = [json.loads(line) for line in run.lag.read_text(encoding="utf-8").splitlines()]
    extra = [
        {**line, "partition": partition, "lag_records": 1, "lag_seconds": 0.001}
        for line in lines
        if line["partition"] == 0
        for partition in partitions
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines + extra)
    run.lag.write_text(text, encoding="utf-8")


def without_objectives(failover: Failover) -> Failover:
    """Return the same measurement, held against nothing."""
    rpo = replace(failover.rpo, objective_seconds=None, objective_records=None) if failover.rpo else None
    return replace(failover, rpo=rpo, rto_objective_seconds=None)
