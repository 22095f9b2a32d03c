"""A placement: where a flow has put a group on its target, where the group itself has not read up to there.

Invariants:

(a) Where a flow puts a group goes on record before it is there (a placement). At exactly that position the group has
    read nothing, so the flow back leaves its own position alone; if it was put behind records that the target had
    lost, no flow leads it further than it was before. Otherwise the start of a shorter log, or a position from before
    a reset, would come back as if it had been read.
"""

from __future__ import annotations

from dataclasses import dataclass

from mirror.model.partition import TopicPartition


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
    """

    group: str
    partition: TopicPartition
    upstream: int
    downstream: int
    written: int
    target_id: str = ""

    @property
    def is_raised(self) -> bool:
        """Whether the group was put behind records that it had not read, because the target has them no more."""
        return self.written > self.downstream
