"""Could we fail over now? Every difference of the two sides of a flow, judged by what it would do to a failover.

Pure: what is known of the two sides goes in (`Facts`), a verdict comes out. PASS is ready. FAIL: something is known
that blocks a failover or loses records. UNKNOWN: nothing such is known, but something could not be looked at. What
duplicates records or makes the standby a lesser cluster is reported, and keeps nobody from failing over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from mirror.model.counts import counted
from mirror.model.flow import Flow
from mirror.model.verdict import Verdict
from mirror.recovery.differences import Difference, Impact, Rule
from mirror.recovery.readiness_facts import Facts, NotLookedAt, NotSeen
from mirror.recovery.readiness_rows import summed_up
from mirror.recovery.readiness_rules import access, flow, groups, standby, topics

RULES: Final = (*flow.RULES, *standby.RULES, *topics.RULES, *groups.RULES, *access.RULES)

#: What a rule that finds something takes off the score, and what all rules of an impact may take off together.
WEIGHTS: Final = {
    Impact.BLOCKS: (40, 100),
    Impact.LOSES: (20, 60),
    Impact.DUPLICATES: (5, 15),
    Impact.DEGRADES: (3, 15),
    Impact.COSMETIC: (1, 5),
}
_FULL_SCORE = 100
_UNREADY = (Impact.BLOCKS, Impact.LOSES)
_NOT_LOOKED_AT = "not-looked-at"
_PARTLY = "partly-not-looked-at"


@dataclass(frozen=True, slots=True)
class Deduction:
    """What the differences of one impact take off the score, and the rules that have found them."""

    impact: Impact
    points: int
    rules: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.impact} -{self.points} ({', '.join(self.rules)})"


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether one could fail over now.

    Attributes
    ----------
    differences
        the worst first.
    lag_records, lag_seconds
        how far the copy is behind: what a failover now would lose; None if that is not known.
    read_again
        how many records all groups together would read again; None if that is not known.
    """

    flow: Flow
    differences: tuple[Difference, ...]
    lag_records: int | None
    lag_seconds: float | None
    read_again: int | None

    @property
    def verdict(self) -> Verdict:
        """PASS if one could, FAIL if one could not, UNKNOWN if something that matters could not be looked at."""
        if any(each.is_looked_at and each.impact in _UNREADY for each in self.differences):
            return Verdict.FAIL
        return Verdict.PASS if all(each.is_looked_at for each in self.differences) else Verdict.UNKNOWN

    @property
    def deductions(self) -> tuple[Deduction, ...]:
        """What keeps the score from being full: each rule that has found something counts once, whatever it found."""
        found = []
        for impact, (weight, most) in WEIGHTS.items():
            rules = tuple(dict.fromkeys(each.rule for each in self.differences if each.impact is impact))
            if rules:
                found.append(Deduction(impact, min(most, weight * len(rules)), rules))
        return tuple(found)

    @property
    def score(self) -> int:
        """100, less the deductions; never below 0."""
        return max(0, _FULL_SCORE - sum(each.points for each in self.deductions))

    def closing(self, shown: Sequence[Difference] | None = None) -> str:
        """Return the answer in a few sentences; it counts what is ``shown`` beside it: the differences summed up."""
        rows = summed_up(self.differences) if shown is None else shown
        answer = {
            Verdict.PASS: "Ready: nothing is known that would block a failover",
            Verdict.FAIL: f"Not ready: {' and '.join(_against(rows))}",
            Verdict.UNKNOWN: (
                "Unknown: nothing is known that would block a failover, but "
                f"{_things(sum(not each.is_looked_at for each in rows))} could not be looked at"
            ),
        }[self.verdict]
        return f"{answer}. {self._forecast()} Score {self.score} of {_FULL_SCORE}{self._why()}."

    def _forecast(self) -> str:
        if self.lag_records is None:
            return "What a failover now would lose is not known."
        behind = f", up to {self.lag_seconds:,.1f} s old" if self.lag_records and self.lag_seconds is not None else ""
        again = "" if self.read_again is None else f", and groups would read {counted(self.read_again, 'record')} again"
        lost = f"{counted(self.lag_records, 'record')} not copied yet" if self.lag_records else "no record"
        return f"A failover now would lose {lost}{behind}{again}."

    def _why(self) -> str:
        message = ", ".join(f"{each.impact} -{each.points}" for each in self.deductions)
        return f" ({message})" if message else ""

    def as_json(self) -> dict[str, Any]:
        """Return the form ``mirror readiness --json`` prints."""
        return {
            "verdict": self.verdict.value,
            "score": self.score,
            "flow": str(self.flow),
            "deductions": [
                {"class": each.impact.value, "points": each.points, "rules": list(each.rules)}
                for each in self.deductions
            ],
            "would_lose": {"records": self.lag_records, "seconds": self.lag_seconds},
            "would_read_again": self.read_again,
            "differences": [each.as_json() for each in self.differences],
        }


def judge(facts: Facts, rules: Sequence[Rule] = RULES) -> Readiness:
    """Return whether one could fail over by what is known of both sides."""
    found: list[Difference] = []
    hidden: dict[NotSeen, Impact] = {}
    for rule in rules:
        try:
            found += (replace(each, rule=rule.id) for each in rule.find(facts))
        except NotLookedAt as missing:
            known = hidden.setdefault(missing.not_seen, rule.worst)
            hidden[missing.not_seen] = min(known, rule.worst, key=lambda impact: impact.rank)
    # That the target does not answer is a difference of its own, and says it all.
    hidden.pop(facts.target, None) if isinstance(facts.target, NotSeen) else None
    found += (_not_looked_at(each, impact, _NOT_LOOKED_AT) for each, impact in hidden.items())
    for side in (facts.source, facts.target):
        if not isinstance(side, NotSeen):
            found += (_not_looked_at(each, Impact.BLOCKS, _PARTLY) for each in side.partly)
    lag_records, lag_seconds = flow.lag(facts)
    return Readiness(
        facts.settings.flow, tuple(worst_first(found)), lag_records, lag_seconds, groups.records_read_again(facts)
    )


def worst_first(differences: Iterable[Difference]) -> list[Difference]:
    """Return differences by their impact, of one rule together, in the order of their places."""
    return sorted(differences, key=lambda each: (each.impact.rank, each.rule, each.where))


def _not_looked_at(missing: NotSeen, impact: Impact, rule: str) -> Difference:
    what = f"not looked at: {missing.what}: {missing.reason}"
    return Difference(impact, what, missing.where, None, None, missing.mend, rule, is_looked_at=False)


def _against(rows: Sequence[Difference]) -> list[str]:
    """Return what keeps one from failing over, counted."""
    messages = []
    for impact, one, several in (
        (Impact.BLOCKS, "blocks a failover", "block a failover"),
        (Impact.LOSES, "loses records", "lose records"),
    ):
        count = sum(each.is_looked_at and each.impact is impact for each in rows)
        if count:
            messages.append(f"{_things(count)} {one if count == 1 else several}")
    return messages


def _things(count: int) -> str:
    return "1 thing" if count == 1 else f"{count:,} things"
