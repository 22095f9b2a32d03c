"""What a run waited for in vain reaches the judge, and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.model.verdict import Verdict
from mirror.proof.delivery import Place
from mirror.scenario import judging, perform, procedure
from mirror.scenario.declaration import Replicator, Scenario
from mirror.scenario.folder import RunFolder
from mirror.scenario.judging import Judgement, ScenarioEvidence
from mirror.scenario.outcome import RunOutcome
from mirror.scenario.plan import plan_run
from tests.unit.scenario.builders import FOUND, small

LATE, UNREAD = "west east.orders-0: p:9 is not there", "west east.orders-0, group billing: 2 records"
PLACES = SimpleNamespace(group="billing", places=(Place("east", "orders"),))


class Stand:
    """A stage on which nothing is played."""

    def __init__(self, folder: RunFolder, scenario: Scenario) -> None:
        self.folder, self.scenario, self.replicator = folder, scenario, Replicator.MIRROR
        self.settings = SimpleNamespace(clusters={"east": SimpleNamespace(alias="east")}, enabled_flows=())
        self.seed, self.written, self.replaced, self.planted, self.readings = 1, [], [], [], (PLACES,)

    def routes(self) -> tuple[Any, ...]:
        return ()

    def tear_down(self) -> tuple[str, ...]:
        return ()

    def __getattr__(self, name: str) -> Callable[..., None]:
        assert name.startswith(("start_", "stop_")), name
        return lambda *_: None


@pytest.mark.parametrize(
    ("late", "unread", "reasons"),
    [
        ([], [], ()),
        ([LATE], [], (f"not caught up in 90 s: {LATE}",)),
        ([], [UNREAD], (f"not read to the end in {judging.READ_SECONDS:g} s: {UNREAD}",)),
    ],
)
def test_a_copy_that_did_not_catch_up_and_a_group_that_did_not_read_on_fail_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: list[str], unread: list[str], reasons: tuple[str, ...]
) -> None:
    asked: list[Mapping[str, Set[str]]] = []

    def await_reading(_: object, wanted: Mapping[str, Set[str]], *, seconds: float) -> list[str]:
        assert seconds == procedure.READ_SECONDS
        asked.append(wanted)
        return unread

    def ask(_: Path, what: object, evidence: ScenarioEvidence) -> Judgement:
        assert what is judging.judge
        return Judgement(*judging.verdict_of(FOUND, evidence), judging.figures_of(FOUND, evidence))

    monkeypatch.setattr(procedure, "TailWatch", lambda *_, **__: SimpleNamespace(behind=None))
    monkeypatch.setattr(procedure, "await_copies", lambda *_, **__: late)
    monkeypatch.setattr(procedure, "await_reading", await_reading)
    monkeypatch.setattr(perform, "ask", ask)
    monkeypatch.setattr(perform.ScenarioStage, "of", lambda folder, scenario, *_: Stand(folder, scenario))
    for wait in ("_wait_until_copying", "_wait_until_read", "_wait_for"):
        monkeypatch.setattr(perform, wait, lambda _: None)
    outcome = _performed(tmp_path)
    assert asked == [{"billing": {"orders"}}]
    assert (outcome.verdict, outcome.reasons) == (Verdict.FAIL if reasons else Verdict.PASS, reasons)


def _performed(folder: Path) -> RunOutcome:
    scenario = small(drain_seconds=90.0)
    plan = plan_run(scenario, Replicator.MIRROR, 1)
    return perform.perform(scenario, plan, RunFolder(folder), cast(Any, None), lambda _: None)
