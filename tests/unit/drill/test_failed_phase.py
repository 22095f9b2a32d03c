"""Behind a step of the procedure that failed, each further cell of the runbook fails too: none goes on."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mirror.drill.steps.failback import serve_at_home
from mirror.drill.steps.phases import Phases
from mirror.evidence.journal import Journal
from mirror.evidence.outcome import Outcome
from mirror.model.verdict import Verdict
from mirror.recovery.failover import Mode, steps_of
from mirror.recovery.procedure import UnderWay
from mirror.recovery.run import FAILOVER, Run, Wanted
from tests.unit.recovery.world import HOME, THERE, StandInEnds, World, move_of


class NotPassed(Exception):
    """What a stage raises for an outcome that is not PASS."""


@dataclass
class StandInStage:
    """A stage that keeps what was concluded."""

    run: Any
    concluded: list[Outcome] = field(default_factory=list)

    def conclude(self, outcome: Outcome) -> None:
        self.concluded.append(outcome)
        raise NotPassed(*outcome.reasons)


def test_a_cell_behind_a_failed_one_is_refused_for_the_same_reason(tmp_path: Path) -> None:
    world = World()  # the source still answers, so it is not gone
    run = Run.of(tmp_path / "failover", Wanted(FAILOVER, THERE.flow, "unplanned", ".*"))
    steps = steps_of(
        Mode.UNPLANNED, move_of(world, run.directory.path, mode="unplanned"), StandInEnds(world, HOME.flow)
    )
    procedure = SimpleNamespace(
        against=(),
        procedure=FAILOVER,
        run=run,
        under_way=lambda: UnderWay(run, steps, goes_back=False, on_result=lambda _: None),
    )
    stage = StandInStage(SimpleNamespace(journal=Journal(tmp_path / "journal.jsonl"), path=tmp_path))
    phases = Phases(stage, "failover", None, procedure)  # type: ignore[arg-type]
    for name in ("begin", "cut", "finish"):
        with pytest.raises(NotPassed, match=r"detect: .*east still answers"):
            phases.through(name)
    with pytest.raises(NotPassed, match=r"detect: .*east still answers"):
        serve_at_home(stage, phases, rate=1.0, seconds=1.0)  # type: ignore[arg-type]
    assert [each.verdict for each in stage.concluded] == [Verdict.FAIL] * 4
    assert world.done == []
