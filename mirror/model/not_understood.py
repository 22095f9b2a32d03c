"""What this version does not understand of a state topic: a newer kind or version, or a damaged record."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from mirror.model.failover import FAILOVER_KEY
from mirror.model.partition import TopicPartition

# Of a partition of which such a record is not understood it is not known what is copied, and where to.
_VITAL = frozenset({"position", "runs", "sketch", "gap"})


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """A record of the state topic that this version does not understand, and leaves as it is.

    Attributes
    ----------
    kind
        what kind of record its key says that it is.
    problem
        why it is not understood.
    source
        the partition that must not be copied without it, if any.
    fences
        of a run of failover or failback, the files in which it stands what it denies, as far as its record tells.
    """

    kind: str
    problem: str
    source: TopicPartition | None = None
    fences: tuple[str, ...] = ()

    @classmethod
    def of(cls, names: Any, problem: str, value: bytes) -> NotUnderstood:
        """Return it of a record with these parts of its key, and this value."""
        match names:
            case [kind, *_] if kind == FAILOVER_KEY:
                return cls(kind, problem, fences=_fences_of(value))
            case [str(kind), str(topic), int(partition), *_] if kind in _VITAL:
                return cls(kind, problem, TopicPartition(topic, partition))
            case [str(kind), *_]:
                return cls(kind, problem)
        return cls("without a kind", problem)


def _fences_of(value: bytes) -> tuple[str, ...]:
    try:
        fences = json.loads(value)["fences"]
    except (KeyError, TypeError, ValueError):
        return ()
    return tuple(each for each in fences if isinstance(each, str)) if isinstance(fences, list) else ()
