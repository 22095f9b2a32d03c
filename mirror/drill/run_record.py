"""The beginning and the end of a run as its directory records them, whoever runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from mirror.drill.catalogue import LoadedRunbook
from mirror.drill.judgement import Judgement, judge
from mirror.drill.runbook import Step
from mirror.evidence.environment import describe_environment
from mirror.evidence.journal import Event
from mirror.evidence.run_directory import RunDirectory, write_json
from mirror.evidence.run_evidence import read_evidence
from mirror.evidence.run_model import ParameterValue, RunSettings, StepSettings
from mirror.evidence.seals import outside_the_ledger, seal_end, seal_files


class RunStatus(StrEnum):
    """How far a run went; says nothing about whether it was good."""

    COMPLETED = "completed"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"


def create_run(loaded: LoadedRunbook, values: Mapping[str, ParameterValue], runs: Path) -> RunDirectory:
    """Make the directory of a run that begins now, with its ``run.json``; nothing is in its journal yet."""
    started_at = datetime.now(UTC)
    run = RunDirectory.create(runs, loaded.runbook.name, started_at=started_at)
    settings = RunSettings(
        runbook=loaded.runbook.name,
        title=loaded.runbook.title,
        purpose=loaded.runbook.purpose,
        started_at=started_at,
        parameters=dict(values),
        units={parameter.name: parameter.unit for parameter in loaded.runbook.parameters},
        environment=describe_environment(),
        steps=tuple(step_settings(step) for step in loaded.runbook.steps),
    )
    write_json(run.run_json, settings.as_json())
    return run


def record_beginning(run: RunDirectory, loaded: LoadedRunbook, values: Mapping[str, ParameterValue]) -> None:
    """Put the beginning of a run into its journal, and seal what was started."""
    run.journal.append(Event.RUN_STARTED, facts={"runbook": loaded.runbook.name, "parameters": dict(values)})
    seal_files(run, [run.run_json])


def record_end(run: RunDirectory, status: RunStatus) -> Judgement:
    """Judge a run that is over, and put its end into its journal; return the judgement."""
    # What was sealed just now need not be read again.
    seal_files(run, [run.lag])
    judgement = judge(replace(read_evidence(run, checked=outside_the_ledger), is_over=True))
    facts = {"status": status.value, "verdict": judgement.verdict.value, "reasons": list(judgement.reasons)}
    seal_end(run.seal, run.journal.append(Event.RUN_FINISHED, facts=facts))
    return judgement


def step_settings(step: Step) -> StepSettings:
    """Return a step as ``run.json`` holds it."""
    return StepSettings(
        name=step.name,
        title=step.title,
        notebook=step.notebook,
        budget_seconds=step.budget_seconds,
        point_of_no_return=step.point_of_no_return,
        gates=tuple(gate.title for gate in step.gates),
        undo=step.undo,
    )
