"""What comes of translating an upstream position: an exact position, a bounded one, or a refusal with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mirror.model.counts import counted
from mirror.model.partition import TopicPartition


@dataclass(frozen=True, slots=True)
class Exact:
    """The downstream position at which a reader goes on without missing or re-reading a record."""

    downstream: int


@dataclass(frozen=True, slots=True)
class Same(Exact):
    """The upstream position itself: the copy has the source's offsets, and has reached it."""


@dataclass(frozen=True, slots=True)
class Bounded:
    """A safe downstream position that lies before the exact one, which is not known (yet).

    Attributes
    ----------
    behind_records
        upper bound of how many records the exact position lies ahead; a reader meets at most so many again.
    """

    downstream: int
    behind_records: int


@dataclass(frozen=True, slots=True)
class TooOld:
    """The position lies before the oldest upstream offset that anything is known about."""

    oldest: int


@dataclass(frozen=True, slots=True)
class NotMirrored:
    """Nothing of the partition has been copied (OST-07, CKP-10)."""


@dataclass(frozen=True, slots=True)
class NothingRead:
    """The group has read nothing on the source since the flow in the other direction put it at ``position`` there.

    Its own position on the target counts, whatever it is by now.

    Attributes
    ----------
    home
        where it was on the target then.
    bound
        where ``position`` leads to on the target by what is copied now; None if that is not known.
    first_copied
        where on the target the flow has put the first record from ``position`` on; None if that is not known.
    """

    position: int
    home: int
    bound: int | None = None
    first_copied: int | None = None

    @property
    def restart(self) -> int:
        """Where a group goes on that has no position on the target any more: the topic may have been made anew since.

        Before ``home`` it may hold other records then than the group has read.
        """
        return self.home if self.bound is None else min(self.home, self.bound)


Translation = Exact | Bounded | TooOld | NotMirrored | NothingRead


def leads_to(translation: Translation, position: int) -> bool:
    """Tell whether a reader goes on at exactly this downstream position."""
    return isinstance(translation, Exact) and translation.downstream == position


class Translator(Protocol):
    """Whoever can translate positions of source partitions."""

    def translate(self, source: TopicPartition, position: int) -> Translation:
        """Return where a reader at upstream ``position`` of the partition ``source`` goes on downstream."""
        ...


def describe(translation: Translation) -> str:
    """Return the outcome in words, for a table or a report."""
    match translation:
        case Same():
            return "same"
        case Exact(downstream):
            return f"exactly {downstream}"
        case Bounded(downstream, 0):
            return f"{downstream}, so that no record is read again"
        case Bounded(downstream, behind_records):
            return f"{downstream}, at most {counted(behind_records, 'record')} behind"
        case TooOld(oldest):
            return f"too old: nothing is known before offset {oldest}"
        case NotMirrored():
            return "no record of this partition has been mirrored"
        case NothingRead(position, _):
            return (
                f"the group has read nothing on the source since the flow back put it at {position} there: it goes on "
                "where it stands on the target"
            )
