"""A placement: where a flow has put a group on its target, where the group itself has not read up to there.

Invariants:

(a) Where a flow puts a group goes on record before it is there (a placement). At exactly that position the group has
    read nothing, so the flow back leaves its own position alone; if it was put behind records that the target had
    lost, no flow leads it further than it was before. Otherwise the start of a shorter log, or a position from before
    a reset, would come back as if it had been read.
(b) A placement is pending until the write is answered, and says where the group stood before: there the position was
    not written, which is done again, and what was on record of that position still counts. Who stands elsewhere,
    before it, was set back since.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mirror.model.partition import TopicPartition

# What is before a group's first position.
NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Placement:
    """The last position that a flow has written for ``group`` on its target.

    Attributes
    ----------
    partition
        on the target.
    upstream, downstream
        the group's position on the flow's source, and what it is on the target.
    written
        what was written: more than ``downstream`` where the target's log began behind that.
    target_id
        the id of the topic on the target; positions in another one of that name are not spoken of.
    before
        while it is not known whether it was written: where the group stood on the target before, ``NOWHERE`` if it had
        no position. None: it was written.
    before_upstream, before_downstream
        what the placement at ``before`` said, if it was the flow that had put the group there.
    """

    group: str
    partition: TopicPartition
    upstream: int
    downstream: int
    written: int
    target_id: str = ""
    before: int | None = None
    before_upstream: int | None = None
    before_downstream: int | None = None

    @property
    def is_raised(self) -> bool:
        """Whether the group was put behind records that it had not read, because the target has them no more."""
        return self.written > self.downstream

    @property
    def possible(self) -> tuple[Placement, ...]:
        """Return by which placements the group may stand where the flow has put it: while it is pending, two."""
        if self.before is None or self.before_upstream is None or self.before_downstream is None:
            return (self.answered,)
        former = replace(
            self.answered, upstream=self.before_upstream, downstream=self.before_downstream, written=self.before
        )
        return self.answered, former

    @property
    def answered(self) -> Placement:
        """Return it as it is once the position is known to be written."""
        return replace(self, before=None, before_upstream=None, before_downstream=None)

    def is_unwritten_at(self, present: int | None) -> bool:
        """Whether a group at this position, None if it has none, is still where it was before: nothing was written."""
        return self.before is not None and self.before == (NOWHERE if present is None else present)

    def pending(self, present: int | None, placed: Placement | None) -> Placement:
        """Return it as it is on record before a group at ``present`` is put there; ``placed`` is what was on record."""
        former = next((each for each in (placed.possible if placed else ()) if each.written == present), None)
        return replace(
            self,
            before=NOWHERE if present is None else present,
            before_upstream=former.upstream if former else None,
            before_downstream=former.downstream if former else None,
        )
