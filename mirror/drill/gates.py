"""Gates: what must hold before a step may act. A gate measures and says what it saw; unmeasured is not passed."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import Protocol

from mirror.evidence.facts import FactError
from mirror.evidence.run_directory import RunDirectory
from mirror.evidence.seals import broken, outside_the_ledger, read_sealed
from mirror.model.verdict import Verdict

__all__ = ["FreeSpace", "JournalIntact", "StepsPassed"]


@dataclass(frozen=True, slots=True)
class GateResult:
    """What a gate saw, and whether the step may begin: only PASS opens it."""

    verdict: Verdict
    observed: str


class Gate(Protocol):
    """A precondition of a step."""

    @property
    def title(self) -> str:
        """Return the condition as a sentence."""
        ...

    def check(self, run: RunDirectory) -> GateResult:
        """Measure the condition now."""
        ...


@dataclass(frozen=True, slots=True)
class StepsPassed:
    """Earlier steps ended with PASS."""

    steps: tuple[str, ...]

    @property
    def title(self) -> str:
        """Return the condition as a sentence."""
        return f"passed before: {', '.join(self.steps)}"

    def check(self, run: RunDirectory) -> GateResult:
        """Read the outcomes of the steps; one that is missing, unreadable or not as it was sealed closes the gate."""
        names = {str(run.outcome_path(step).relative_to(run.path)): step for step in self.steps}
        wrong = {each.file: each for each in broken(run, run.journal.read().entries, names.__contains__)}
        unmet: list[str] = []
        for name, step in names.items():
            if name in wrong and run.outcome_path(step).exists():
                unmet.append(str(wrong[name]))
                continue
            try:
                outcome = run.read_outcome(step)
            except (FactError, ValueError) as unreadable:
                unmet.append(f"{step} has an unreadable outcome ({unreadable})")
                continue
            if outcome is None:
                unmet.append(f"{step} has not been run")
            elif outcome.verdict is not Verdict.PASS:
                unmet.append(f"{step} is {outcome.verdict}")
        if unmet:
            return GateResult(Verdict.FAIL, "; ".join(unmet))
        return GateResult(Verdict.PASS, f"{', '.join(self.steps)}: PASS")


@dataclass(frozen=True, slots=True)
class JournalIntact:
    """The journal's chain of hashes holds, and what it has sealed is as it was."""

    @property
    def title(self) -> str:
        """Return the condition as a sentence."""
        return "the journal is intact"

    def check(self, run: RunDirectory) -> GateResult:
        """Read the journal, check every link, and what it has sealed but for the ledger, which no step goes by."""
        reading = read_sealed(run)
        if reading.problem is not None:
            return GateResult(Verdict.FAIL, reading.problem)
        wrong = broken(run, reading.entries, outside_the_ledger)
        if wrong:
            return GateResult(Verdict.FAIL, "; ".join(map(str, wrong)))
        return GateResult(Verdict.PASS, f"{len(reading.entries)} entries, every hash matches")


@dataclass(frozen=True, slots=True)
class FreeSpace:
    """The disk of the run directory has room for clusters, ledger and evidence."""

    gigabytes: float

    @property
    def title(self) -> str:
        """Return the condition as a sentence."""
        return f"at least {self.gigabytes:g} GB free on the disk of the run directory"

    def check(self, run: RunDirectory) -> GateResult:
        """Ask the file system."""
        free = shutil.disk_usage(run.path).free / 1e9
        return GateResult(Verdict.PASS if free >= self.gigabytes else Verdict.FAIL, f"{free:.1f} GB free")
