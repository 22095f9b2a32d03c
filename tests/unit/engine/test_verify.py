"""What `mirror verify` takes for granted of the engine beside it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mirror.engine import verify
from mirror.model.flow_state import FlowState
from mirror.proof.equivalence import Equivalence
from tests.unit.config.files import flows_of

FLOW = flows_of("A->B")[0]


@pytest.mark.parametrize("runs", [True, False])
def test_whether_an_engine_runs_is_told_by_what_was_read_before_the_comparison(
    monkeypatch: pytest.MonkeyPatch, *, runs: bool
) -> None:
    """A comparison takes minutes, in which the report that was read grows old: the plan keeps it."""
    plan = SimpleNamespace(pairs=["pair"], outside=["outside"], left_out=[], state=FlowState(), is_running=runs)
    judged: list[bool] = []

    def compare(*_: object) -> Equivalence:
        return Equivalence(("compared",))  # type: ignore[arg-type]

    def judge(*_: object, is_running: bool) -> tuple[Any, list[Any]]:
        judged.append(is_running)
        return "partition", []

    monkeypatch.setattr(verify, "plan_pairs", lambda *_: plan)
    monkeypatch.setattr(verify, "spark_session", lambda _: None)
    monkeypatch.setattr(verify, "verify", compare)
    monkeypatch.setattr(verify, "look_outside", lambda *_: ["seen"])
    monkeypatch.setattr(verify, "judged", judge)
    verify.verify_flow(FLOW, {})
    assert judged == [runs]
