"""What may still arrive on the target that was sent before, where that is, and whether the target refuses it.

Invariants:

(a) Until the next epoch has left something in a partition, the broker takes requests of the former one there. So the
    tail is matched behind the marker, not behind the answer to InitProducerId. With each epoch sequences begin at 0, in
    every partition.
(b) A partition without enough replicas keeps a transaction of markers open, and every other partition from the next
    one: it is left out and fenced later.
(c) Partitions that nobody has on record are fenced too when a flow is taken over: the engine before may have been about
    to record their first position.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from mirror.copier.work import PartitionResult
from mirror.kafka.batch import Producer
from mirror.model.partition import TopicPartition
from mirror.model.state_values import DataProducer

# A partition with nothing new is not told of again in a fetch session: after so many epochs without a word it has none.
_SILENT_EPOCHS = 2
KEEPS_OFFSETS = (
    "copies with the source's offsets are not fenced, since the marker of a fence takes an offset: a request of the "
    "engine that is gone which is still on its way would be appended. Make sure that its machine is down, or cut off "
    "from the target"
)
FORMER_OFFSETS = (
    "what an engine that was killed had sent to copies with the source's offsets, which are translated now, is "
    "noticed, not refused: grant Alter on the cluster"
)


@dataclass(slots=True)
class LateWrites:
    """What of a flow may arrive late, by partition of the target; of a flow's runtime, and changed under its lock."""

    #: Where something may still arrive, and as whom it was sent; None: by an earlier engine, or in a transaction that
    #: has not ended. Those partitions are copied on once the target refuses it.
    unfenced: dict[TopicPartition, Producer | None] = field(default_factory=dict)
    #: Why some could not be fenced yet.
    troubles: dict[TopicPartition, str] = field(default_factory=dict)
    #: Where the target does not refuse what may still arrive, and the producer id of that: nothing does before
    #: something is copied there with the next epoch of that producer.
    unrefused: dict[TopicPartition, int] = field(default_factory=dict)
    #: Where it does not refuse what was sent while the copy had the source's offsets, for want of rights.
    same_offsets_unrefused: set[TopicPartition] = field(default_factory=set)
    #: Copies with the source's offsets, by source, in which something may still arrive, of an engine before or an epoch
    #: of this one: up to where is to be copied, which is where the source ended behind that, and in how many epochs
    #: nothing was told of it. What was sent is refused once the same is sent again.
    kept: dict[TopicPartition, tuple[int | None, int]] = field(default_factory=dict)
    #: As whom tasks of this term were to write on partitions that have not said that all was answered.
    unanswered: dict[TopicPartition, set[Producer]] = field(default_factory=dict)
    #: Why what arrives late is seen but not refused, None if it is refused.
    weakness: str | None = None
    #: What else is to be said of the fence.
    note: str | None = None

    @property
    def is_settled(self) -> bool:
        """Whether nothing that was sent can arrive late, in any partition."""
        return not (self.unfenced or self.unrefused or self.same_offsets_unrefused or self.kept)

    @property
    def all_unrefused(self) -> frozenset[TopicPartition]:
        """Where the target does not refuse what may still arrive."""
        return frozenset(self.unrefused) | self.same_offsets_unrefused

    @property
    def messages(self) -> tuple[str, ...]:
        """What is to be known of the fence: why what arrives late is not refused, if it is not."""
        former = FORMER_OFFSETS if self.same_offsets_unrefused else None
        return tuple(filter(None, (self.weakness, self.note, former)))

    @property
    def limit(self) -> str:
        """Why what may still arrive is not refused, where it is not."""
        return next(iter(self.messages), KEEPS_OFFSETS)

    def concerns(self, target: TopicPartition) -> bool:
        """Whether something may arrive late in a partition of the target."""
        return target in self.unfenced or target in self.all_unrefused

    def begin_term(self) -> None:
        """Forget what the tasks of an earlier term were to write: it is found out anew what may arrive of it."""
        self.unrefused.clear()
        self.same_offsets_unrefused.clear()
        self.kept.clear()
        self.unanswered.clear()

    def begin(self, unfenced: Iterable[TopicPartition], kept: Iterable[TopicPartition] = ()) -> None:
        """Begin from what earlier engines may have sent, and what transactions have not ended in.

        ``kept``: the partitions of the source whose copies have its offsets, if that was not settled.
        """
        self.unfenced, self.troubles = dict.fromkeys(unfenced), {}
        self.kept = dict.fromkeys(kept, (None, 0))

    def take_copied(self, result: PartitionResult, *, keeps_offsets: bool = False) -> None:
        """Take in how far a copy is by an epoch's result, and with the source's offsets what may arrive late.

        What is sent again has it refused; nothing is, once the partition is paused, or the flow cut.
        """
        if keeps_offsets and result.may_arrive_late:
            self.kept[result.source] = None, 0
            return
        if result.source not in self.kept or result.handover is None or result.trouble or result.stopped:
            return
        position, (until, silent) = result.handover.position, self.kept[result.source]
        if until is None:
            until = position.source_end if silent == _SILENT_EPOCHS else result.source_end
        if until is not None and position.upstream >= until:
            del self.kept[result.source]
        else:
            self.kept[result.source] = until, silent + 1

    def begin_epoch(self, targets: Iterable[TopicPartition], producer: Producer) -> None:
        """Take in where tasks may write as ``producer`` from now on."""
        for target in targets:
            self.unanswered.setdefault(target, set()).add(producer)

    def take_written(self, target: TopicPartition, result: PartitionResult, producer: Producer) -> None:
        """Take in where ``producer`` stands on a partition of the target after an epoch without transactions."""
        if result.records and self.unrefused.get(target) == producer.producer_id:
            # With the first batch of an epoch the target knows of it, and refuses earlier ones.
            del self.unrefused[target]
        if result.may_arrive_late:
            self.unfenced[target] = producer
            return
        # A batch of this epoch has the target refuse those of earlier ones.
        self.unanswered[target] = {
            each
            for each in self.unanswered.get(target, ())
            if each != producer and not (result.records and each.producer_id == producer.producer_id)
        }

    def take_fenced(
        self,
        asked: Collection[TopicPartition],
        troubles: Mapping[TopicPartition, str],
        current: Producer | None,
        former: DataProducer | None,
        *,
        is_own: bool,
    ) -> bool:
        """Take in where the target refuses what was sent before: where there is no trouble; return whether anywhere.

        What was sent as ``former``, the producer of before, is not refused, nor as any with another id than that of
        now, ``current``; nor is anything where the fence is weak. If this engine alone has written as that one
        (``is_own``) it knows where nothing is on its way: all that its tasks sent there was answered.
        """
        self.troubles = dict(troubles)
        fenced = [each for each in asked if each not in troubles]
        for each in fenced:
            sent_as = self.unfenced.pop(each, None)
            if sent_as is None and former is not None:
                if not is_own or any(one.producer_id == former.producer_id for one in self.unanswered.get(each, ())):
                    self.unrefused[each] = former.producer_id
            elif sent_as is not None and (
                self.weakness is not None or current is None or sent_as.producer_id != current.producer_id
            ):
                self.unrefused[each] = sent_as.producer_id
        return bool(fenced)
