"""The outcome of a step: its verdict, the reasons for it, and the facts it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from mirror.evidence.facts import Json, plain
from mirror.evidence.refusal import Answer
from mirror.model.verdict import Verdict, worst


class StepNotPassed(Answer):
    """A step has written an outcome other than PASS; raised after writing, so that its notebook counts as failed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step says about itself when it ends.

    Attributes
    ----------
    step
        the step's name; ``outcomes/<step>.json`` holds this outcome.
    verdict
        whether the step's objectives were met.
    facts
        measured values as JSON; `mirror.evidence.run_evidence` defines the ones the report reads.
    reasons
        sentences for people: why the verdict is not PASS, or what PASS rests on.
    """

    step: str
    verdict: Verdict
    facts: Mapping[str, Any] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Json]:
        """Return the form of ``outcomes/<step>.json``.

        Raises
        ------
        FactError
            if a fact is not data JSON can hold.
        """
        return {
            "step": self.step,
            "verdict": self.verdict.value,
            "reasons": list(self.reasons),
            "facts": plain(self.facts),
        }

    def worsened(self, verdict: Verdict, reason: str) -> Outcome:
        """Return this outcome with ``verdict`` taken into account and the reason put first; facts are kept."""
        return replace(self, verdict=worst((self.verdict, verdict)), reasons=(reason, *self.reasons))

    def require(self) -> None:
        """Return if this is PASS.

        Raises
        ------
        StepNotPassed
            with the verdict and its reasons.
        """
        if self.verdict is not Verdict.PASS:
            because = "; ".join(self.reasons) or "no reason was given"
            raise StepNotPassed(f"step {self.step}: {self.verdict}: {because}")
