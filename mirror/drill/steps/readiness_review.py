"""The step of the readiness review: could one fail over now? Every difference of the two sides; nothing is changed."""

from __future__ import annotations

import pandas as pd

from mirror.drill.steps import practice
from mirror.drill.steps.flow_in_use import FlowInUse
from mirror.evidence.outcome import Outcome
from mirror.evidence.run_model import Factual
from mirror.model.verdict import Verdict
from mirror.recovery.readiness import Readiness, judge
from mirror.recovery.readiness_reader import read_facts
from mirror.recovery.readiness_rows import summed_up

__all__ = ["STEP", "conclude", "differences", "review"]

STEP = "readiness_review"


def review(used: FlowInUse, rpo_seconds: float) -> Readiness:
    """Look at both sides of the flow."""
    return judge(read_facts(used.settings, used.chosen, rpo_seconds=rpo_seconds))


def differences(found: Readiness) -> pd.DataFrame:
    """Return a row for all that one rule has found in the same words, the worst first."""
    return pd.DataFrame([each.as_json() for each in summed_up(found.differences)])


def conclude(used: FlowInUse, found: Readiness) -> None:
    """Write the outcome: the verdict of the review, with what blocks a failover or loses records."""
    against = [
        f"{each.impact}{'' if each.is_looked_at else '?'}: {each.where}: {each.what}; to mend: {each.mend}"
        for each in summed_up(found.differences)
    ]
    reasons = (found.closing(), *(against if found.verdict is not Verdict.PASS else ()))
    if used.practice is not None and found.verdict is Verdict.PASS:
        practice.end(used.practice)
    facts: Factual = {
        "flow": str(found.flow),
        "score": found.score,
        "would_lose_records": found.lag_records,
        "would_lose_seconds": found.lag_seconds,
        "would_read_again": found.read_again,
        "differences": [each.as_json() for each in found.differences],
    }
    used.conclude(Outcome(STEP, found.verdict, facts, reasons))
