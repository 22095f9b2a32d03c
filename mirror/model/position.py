"""How far a partition is copied, as the state topic has it.

Invariants:

(a) A position carries topic ids and the leader epochs of what was copied. Fetches name the last epoch read, so a
    leader whose log parted from ours says so, even when it is longer again; OffsetForLeaderEpoch finds the same after
    a restart.
(b) A position says which topic it is of. With another router or policy its downstream offsets would mean nothing.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, field

from mirror.model.checkpoint import CopyId
from mirror.model.leader_epochs import EpochEnd
from mirror.model.partition import TopicPartition
from mirror.model.state_record import StateRecord, json_record, unknown_fields
from mirror.model.stretches import Stretch

# What the number of an incarnation is called in records.
INCARNATION_KEY = "turn"


@dataclass(frozen=True, slots=True)
class NextBatch:
    """As whom, and with which sequence, the first batch behind a position is written, unless the producer changes.

    The leader of the copy knows the last sequence of a producer: where it is the one before, nothing of that one lies
    behind the position.
    """

    producer_id: int
    epoch: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Position:
    """How far one source partition is copied; all of it acknowledged by the target.

    Attributes
    ----------
    upstream, downstream
        the positions after the last copied record on both sides.
    origin
        the upstream position where copying began.
    complete
        whether nothing older was left upstream at that time.
    chunk
        number of the chunk of the offset map that is still being filled.
    topic_id, target_id
        the ids of the source topic and of its copy when it was copied; another id means the topic was created anew.
    target
        the topic it is copied to; downstream offsets are of that one.
    epochs
        the leader epochs under which the source wrote what was copied, ascending, the newest of them; a source whose
        epochs end elsewhere was truncated and has written something else since.
    source_end
        how far the source's log was seen to reach: what of it was never copied, once it is gone.
    atomic
        whether it was committed in one transaction with the records before it: then nothing of this flow lies behind
        it but what was aborted.
    settled
        whether nothing of this flow lies behind it, because nothing was being copied when it was recorded. A position
        without this mark is recorded before anything more is copied.
    settled_in
        the term at whose end the mark was set; -1 if that is not known.
    incarnation
        how many times the copy has gone back, or begun anew: chunks of another incarnation are not this one's.
    left_out
        how many of the source's records before it were not copied because other flows have mirrored them there.
    compared
        up to which offset of the copy it is on record who else has written there; -1 if that is not known.
    uncompared
        the offsets of the copy, from one up to, not including, another, which are before those of this incarnation, and
        of which it is not on record whether others have written there; what bears the flow's producer ids is its own.
    next_batch
        as whom the flow goes on behind it; None if that is not known. It says nothing of how far the partition is
        copied.
    unknown
        the fields of the record that this version does not know, a JSON object; empty when there are none.
    same_offsets
        whether the copy has the source's offsets, since its first record.
    passed_gaps
        the source's offsets that are on record as gaps which the copy has passed, while ``upstream`` is not behind them
        yet: their records are gone, or were left out.
    """

    upstream: int
    downstream: int
    origin: int
    complete: bool
    chunk: int = 0
    topic_id: str = ""
    target_id: str = ""
    epochs: tuple[EpochEnd, ...] = ()
    source_end: int = 0
    target: str = ""
    atomic: bool = False
    incarnation: int = 0
    left_out: int = 0
    settled: bool = False
    settled_in: int = -1
    compared: int = -1
    uncompared: Stretch | None = None
    next_batch: NextBatch | None = field(default=None, compare=False)
    unknown: str = ""
    same_offsets: bool = False
    passed_gaps: tuple[Stretch, ...] = ()

    @property
    def read_from(self) -> int:
        """The source's offset from which on there are records to copy, or may be: no other gap is found before it."""
        return next((end for start, end in self.passed_gaps if start <= self.upstream < end), self.upstream)

    @property
    def filled_until(self) -> int:
        """The source's offset up to which the copy has all that it is to have, also what fills offsets."""
        return min(self.upstream, self.downstream) if self.same_offsets else self.upstream

    @property
    def copy_id(self) -> CopyId:
        """Which copy its offsets are of."""
        return CopyId(self.topic_id, self.target_id, self.incarnation)

    def record(self, source: TopicPartition) -> StateRecord:
        """Return the record that keeps this position of ``source``."""
        value = {
            "upstream": self.upstream,
            "downstream": self.downstream,
            "origin": self.origin,
            "complete": self.complete,
            "chunk": self.chunk,
            "topic_id": self.topic_id,
            "target": self.target,
            "target_id": self.target_id,
            "epochs": [list(epoch) for epoch in self.epochs],
            "source_end": self.source_end,
            "atomic": self.atomic,
            INCARNATION_KEY: self.incarnation,
            "left_out": self.left_out,
            "settled": self.settled,
            # A version that does not know it writes it on, also when the copy has gone back.
            "compared": [self.incarnation, self.compared],
        }
        if self.settled and self.settled_in >= 0:
            value["settled_in"] = self.settled_in
        if self.same_offsets:
            value["same_offsets"] = True
        if self.passed_gaps:
            value["passed_gaps"] = [self.incarnation, *map(list, self.passed_gaps)]
        if self.uncompared is not None:
            value["uncompared"] = [self.incarnation, *self.uncompared]
        if self.next_batch is not None:
            # A version that does not know it writes it on with another position.
            value["next_batch"] = [self.upstream, self.downstream, *astuple(self.next_batch)]
        return json_record(["position", source.topic, source.partition], value | unknown_fields(self.unknown))
