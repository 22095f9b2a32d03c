"""The instants of a failover, from the fault until every group reads new records, and the chain of links between them.

All instants are milliseconds since 1970 UTC by the clock of the machine that ran applications and procedure.

Invariants:

(a) When something happened is not when it was noticed. The first write and the first reads of groups are found in the
    ledger afterwards: the journal's entry says when they were (``first_at_ms``), and timeline and chain of a failover
    both take that (``model/failover_instants.py``, read by ``evidence/failover_journal.py``) from the journal of the
    procedure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RtoLink:
    """One link of the chain: how long it took, None if it, or what it waited for, never came about."""

    name: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class FailoverInstants:
    """When what happened in a failover; None is what did not come about.

    Attributes
    ----------
    cut_at_ms
        when the flow was cut, or drained where the source still answers.
    groups_reading_at_ms
        when each group first read a record that was written to the new active cluster.
    """

    fault_at_ms: int
    detected_at_ms: int | None = None
    fenced_at_ms: int | None = None
    cut_at_ms: int | None = None
    offsets_applied_at_ms: int | None = None
    first_write_at_ms: int | None = None
    groups_reading_at_ms: Mapping[str, int | None] = field(default_factory=dict)

    @property
    def all_groups_reading_at_ms(self) -> int | None:
        """When the last group was reading new records; None if one is not, or no group is known."""
        instants = list(self.groups_reading_at_ms.values())
        known = [instant for instant in instants if instant is not None]
        return max(known) if known and len(known) == len(instants) else None

    @property
    def links(self) -> tuple[RtoLink, ...]:
        """Return the links in order; together they are as long as the chain.

        A link that was done before the one in front of it takes no time of its own: the two ran side by side.
        """
        ends = (
            ("detected", self.detected_at_ms),
            ("fenced", self.fenced_at_ms),
            ("drained or cut", self.cut_at_ms),
            ("offsets applied", self.offsets_applied_at_ms),
            ("first accepted write", self.first_write_at_ms),
            ("every group reading new records", self.all_groups_reading_at_ms),
        )
        links = []
        reached: int | None = self.fault_at_ms
        for name, at in ends:
            if at is None or reached is None:
                reached = None
                links.append(RtoLink(name, None))
            else:
                links.append(RtoLink(name, max(0, at - reached) / 1000))
                reached = max(reached, at)
        return tuple(links)

    @property
    def seconds(self) -> float | None:
        """From the fault to the end of the last link; None if the chain is broken."""
        lengths = [link.seconds for link in self.links]
        known = [length for length in lengths if length is not None]
        return sum(known) if len(known) == len(lengths) else None
