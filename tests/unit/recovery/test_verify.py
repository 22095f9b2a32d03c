"""What `mirror verify` takes for granted of the engine beside it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mirror.control.status import SILENT_AFTER_MS
from mirror.model.flow_state import FlowState, RunReport
from mirror.proof.equivalence import Equivalence
from mirror.recovery import verify
from tests.unit.config.files import flows_of

FLOW = flows_of("A->B")[0]


@pytest.mark.parametrize("runs", [True, False])
def test_whether_an_engine_runs_is_told_by_what_was_read_before_the_comparison(
    monkeypatch: pytest.MonkeyPatch, *, runs: bool
) -> None:
    """A comparison takes minutes, in which the report that was read grows old."""
    clock = SimpleNamespace(now=1_000_000)
    run = RunReport("RUNNING", (), clock.now - (1 if runs else SILENT_AFTER_MS + 1))
    plan = SimpleNamespace(pairs=["pair"], outside=["outside"], left_out=[], state=FlowState(run=run))
    judged: list[bool] = []

    def compare(*_: object) -> Equivalence:
        clock.now += 10 * SILENT_AFTER_MS
        return Equivalence(("compared",))  # type: ignore[arg-type]

    def judge(*_: object, is_running: bool) -> tuple[Any, list[Any]]:
        judged.append(is_running)
        return "partition", []

    monkeypatch.setattr(verify, "plan_pairs", lambda *_: plan)
    monkeypatch.setattr(verify, "spark_session", lambda _: None)
    monkeypatch.setattr(verify, "verify", compare)
    monkeypatch.setattr(verify, "look_outside", lambda *_: ["seen"])
    monkeypatch.setattr(verify, "judged", judge)
    monkeypatch.setattr(verify, "now_ms", lambda: clock.now)
    verify.verify_flow(FLOW, {})
    assert judged == [runs]
