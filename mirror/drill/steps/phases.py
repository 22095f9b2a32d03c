"""The procedure of a failover or a failback, carried out cell by cell: each names the step up to which it goes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from mirror.drill.steps.stage import DrillStage
from mirror.evidence.journal import Event
from mirror.evidence.outcome import Outcome
from mirror.evidence.run_model import Factual
from mirror.evidence.seals import seal_files
from mirror.lab_applications import LabApplications
from mirror.model.verdict import Verdict
from mirror.recovery.procedure import Procedure, UnderWay
from mirror.recovery.steps import StepResult

_EVIDENCE = {".json", ".jsonl"}


@dataclass(slots=True)
class Phases:
    """A procedure under way; ``step`` is that of the runbook."""

    stage: DrillStage
    step: str
    applications: LabApplications
    procedure: Procedure
    _under_way: UnderWay = field(init=False)
    _failed: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        """Refuse what must not begin.

        Raises
        ------
        StepNotPassed
            if the plan says so; nothing was done.
        """
        if against := self.procedure.against:
            self._conclude("nothing was begun", *against)
        facts = {"procedure": self.procedure.procedure, "run_directory": self._directory.name}
        self.stage.run.journal.append(Event.ACTION, step=self.step, facts=facts)
        self._under_way = self.procedure.under_way()

    def through(self, name: str) -> pd.DataFrame:
        """Carry out what is left up to a step; return a row for each step that this took.

        Raises
        ------
        StepNotPassed
            if one failed, now or in an earlier call, which is the end of the runbook's step.
        """
        # Nothing is taken behind a step that failed; what another process has taken up meanwhile counts anew.
        if taken := self._under_way.through(name):
            failed = (each for each in taken if each.result.verdict is Verdict.FAIL)
            self._failed = tuple(f"{each.name}: {each.result.detail}" for each in failed)
        self.require_no_failure()
        return pd.DataFrame([_row(each) for each in taken])

    def require_no_failure(self) -> None:
        """Refuse whatever rests on the procedure where a step of it has failed.

        Raises
        ------
        StepNotPassed
            with the reasons for which it failed.
        """
        if self._failed:
            self._conclude(*self._failed)

    @property
    def unsettled(self) -> tuple[str, ...]:
        """What nobody has observed, in words for people."""
        return tuple(
            f"{each.name}: {each.result.detail}"
            for each in self._under_way.results
            if each.result.verdict is Verdict.UNKNOWN
        )

    def facts(self) -> Factual:
        """Return what the outcome of the runbook's step says of it."""
        last = self.procedure.run.directory.journal.read().entries[-1]
        return {
            "procedure_directory": str(self._directory.relative_to(self.stage.run.path)),
            "journal_entries": last.n,
            "journal_head": last.hash,
            "procedure_steps": [each.as_json() for each in self._under_way.results],
        }

    def seal(self) -> None:
        """Seal what it has left behind with the evidence of the run."""
        files = [each for each in self._directory.iterdir() if each.suffix in _EVIDENCE]
        seal_files(self.stage.run, files, step=self.step)

    @property
    def _directory(self) -> Path:
        return self.procedure.run.directory.path

    def _conclude(self, *reasons: str) -> None:
        self.stage.conclude(Outcome(self.step, Verdict.FAIL, {}, reasons))


def _row(taken: StepResult) -> dict[str, object]:
    row = taken.as_json()
    return {**row, "seconds": None if taken.was_proven else row["seconds"]}
