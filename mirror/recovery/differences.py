"""A difference of the two sides of a flow, what it would do to a failover, and the rules that find such differences."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from mirror.recovery.readiness_facts import Facts


class Impact(StrEnum):
    """What a difference would do to a failover now; the worst stands first."""

    BLOCKS = "blocks"
    LOSES = "loses"
    DUPLICATES = "duplicates"
    DEGRADES = "degrades"
    COSMETIC = "cosmetic"

    @property
    def rank(self) -> int:
        """Where it stands among all: 0 is the worst."""
        return list(Impact).index(self)


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference.

    Attributes
    ----------
    what
        in words that hold for every place where the rule finds it.
    where
        the topic, partition, group, principal or setting.
    source, target
        what the two sides have there; None if that says nothing.
    mend
        the command to run, or the key to set.
    rule
        the id of the rule that has found it.
    is_looked_at
        False: this is not a difference, but something that could not be looked at and may hide one of this impact.
    """

    impact: Impact
    what: str
    where: str
    source: str | None
    target: str | None
    mend: str
    rule: str = ""
    is_looked_at: bool = True

    def as_json(self) -> dict[str, Any]:
        """Return the form ``mirror readiness --json`` prints."""
        return {
            "class": self.impact.value,
            "what": self.what,
            "where": self.where,
            "source": self.source,
            "target": self.target,
            "mend": self.mend,
            "rule": self.rule,
            "looked_at": self.is_looked_at,
        }


Find: TypeAlias = Callable[[Facts], Iterable[Difference]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that is looked for; ``worst`` is the impact of the worst that it may find."""

    id: str
    worst: Impact
    find: Find
