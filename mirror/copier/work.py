"""What is handed to a copy task and what it hands back: plain values, shipped by Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mirror.config.fetching import FetchLimits
from mirror.kafka.batch import Producer
from mirror.model.copied import Ages
from mirror.model.flow import Flow
from mirror.model.flow_state import DeadChunks
from mirror.model.gap import Gap
from mirror.model.mm2_trace import Mm2Trace
from mirror.model.offset_map import Run
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_record import StateRecord
from mirror.model.transforms.chain import TopicTransform
from mirror.model.writers import KnownWriters

# How long the others of a transaction wait for a partition that gets nowhere: at first, and at most. A cluster may just
# be slow, and what is given up is written again.
SLOT_PATIENCE_SECONDS = 2.0
MOST_SLOT_PATIENCE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Slot:
    """As whom a task writes transactions: one transactional id a flow and task, held by this engine alone.

    Attributes
    ----------
    sequences
        the producer's next sequence on each partition that it has written to.
    seconds
        how long a transaction takes records in.
    idle_seconds
        how long after the last commit a transaction ends that has nothing more to write; None: when its time is over.
    patience_seconds
        how long a transaction waits for a partition that gets nowhere before the slot is given up.
    """

    transactional_id: str
    producer: Producer
    sequences: Mapping[TopicPartition, int]
    seconds: float
    idle_seconds: float | None
    patience_seconds: float = SLOT_PATIENCE_SECONDS


@dataclass(frozen=True, slots=True)
class SlotEnd:
    """How a task leaves its slot.

    Attributes
    ----------
    sequences
        where the producer stands now.
    lost
        why the slot cannot be used any more before it is taken over anew; None when it can.
    is_stuck
        whether it is lost because a partition gets nowhere, and not because another has taken the slot over.
    """

    sequences: Mapping[TopicPartition, int]
    lost: str | None = None
    is_stuck: bool = False


@dataclass(frozen=True, slots=True)
class FlowWork:
    """What a task must know of a flow.

    Attributes
    ----------
    source_client, target_client
        Java client properties of both clusters.
    writers
        producer ids this flow has written with, as far as is known.
    producer
        as whom all tasks write what is not written in transactions; None: with them.
    term
        the term in which this engine leads the flow, None without an election.
    epoch
        the number of the epoch, for the engine that runs it; None without one.
    syncs_topic
        where offset syncs go, None when they are off; ``syncs_on_source`` says on which cluster it lies.
    offset_lag_max
        ``offset.lag.max``: at most so many records lie between two syncs of a partition (CFG-033).
    read_committed
        whether aborted transactions are left out.
    fetch_limits
        how much of the source is read at once.
    from_latest
        whether a partition never copied before begins at its end instead of its beginning.
    parked_topic
        where records go that are too large for the target; None: they stop their partition.
    slot
        as whom to write inside transactions (``exactly.once.source.support``); None: without.
    mirrors
        the producer ids with which other flows write into the source, as far as known, by their state topic there.
    """

    flow: Flow
    source_client: Mapping[str, str]
    target_client: Mapping[str, str]
    state_topic: str
    offsets_topic: str
    offsets_partitions: int
    syncs_topic: str | None
    syncs_on_source: bool
    offset_lag_max: int
    read_committed: bool
    from_latest: bool
    writers: frozenset[int]
    fetch_limits: FetchLimits = FetchLimits()  # noqa: RUF009  # frozen
    parked_topic: str | None = None
    slot: Slot | None = None
    producer: Producer | None = None
    term: int | None = None
    epoch: int | None = None
    mirrors: Mapping[str, KnownWriters] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ForeignUntil:
    """An offset of a copy before which others alone have written, as its leader in ``leader_epoch`` said."""

    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Handover:
    """Where one partition stands.

    Attributes
    ----------
    position
        the position last acknowledged.
    runs
        the chunk of the offset map that is still being filled.
    clean
        whether nothing can have been written beyond the position; otherwise the tail is matched first.
    is_recorded
        whether the state topic is known to say the same.
    unwritten
        records that the state topic may still lack: full chunks of the map, gaps.
    target_ended_at
        the offset at which the target appended a batch although it lies before the position: its log ended there.
    owes_sync
        whether the newest pair of the map may not have been written as an offset sync, although it was due (ERR-11).
    is_marker_next
        whether the copy has a transaction marker of this flow right behind the position.
    foreign_until
        up to where, from the position on, the copy has nothing of this flow; None if that is not known.
    looked_until
        up to where, from the position on, a look in pieces has read and found nothing that is certain; 0: it has not.
    read_from
        the source's offset to read from; None: as the position says.
    """

    position: Position
    runs: tuple[Run, ...]
    clean: bool
    is_recorded: bool = True
    unwritten: tuple[StateRecord, ...] = ()
    target_ended_at: int | None = None
    owes_sync: bool = False
    is_marker_next: bool = False
    foreign_until: ForeignUntil | None = None
    looked_until: int = 0
    read_from: int | None = None


@dataclass(frozen=True, slots=True)
class GapPolicy:
    """What a gap does to a partition.

    Attributes
    ----------
    stops
        whether every gap stops the copy until it is acknowledged (``mirror.gaps=stop``).
    barrier
        the gap at which the copy has stopped before.
    is_lifted
        whether that one is acknowledged, so that the copy goes on behind it.
    """

    stops: bool = False
    barrier: Gap | None = None
    is_lifted: bool = False


@dataclass(frozen=True, slots=True)
class PartitionWork:
    """One partition to copy: from ``source`` to ``target``, on from ``handover``, or from its start when there is none.

    Attributes
    ----------
    topic_id, target_id
        the ids that the topics of ``source`` and ``target`` have now; empty when the cluster gives none.
    mm2
        what Java MirrorMaker has left of this partition, if it may have copied it since this engine did.
    transform
        what is done to each record, None if nothing is.
    dead
        what of the offset map is to be forgotten.
    left_out
        the state topics on the source of the flows whose copies there are not copied on.
    is_watched
        whether nobody but mirrors is to write into ``target``, so that it is reported where somebody has.
    sequence
        the flow's producer's next sequence on ``target``; without transactions.
    is_paused
        whether it is only found out, and recorded, how far it is copied: nothing is appended to its copy.
    is_troubled
        whether something kept it from being copied until now: that it goes on is to be reported.
    pad_limit
        given for a copy that is to have the source's offsets: so many are filled in a row at most.
    is_two_way
        whether the file has the flow back copied to the same offsets, between the same two topics.
    copied_back
        how far the flow back has copied ``target`` into ``source``; None: not at all, or that is not known.
    is_outdated
        whether the topic of ``target`` has the source's offsets of a former topic of that name in other partitions.
    is_made_anew
        whether the engine deletes a copy with the source's offsets once ``source`` was created anew.
    """

    flow: Flow
    source: TopicPartition
    target: TopicPartition
    topic_id: str
    handover: Handover | None
    mm2: Mm2Trace | None = None
    transform: TopicTransform | None = None
    target_id: str = ""
    gaps: GapPolicy = GapPolicy()
    dead: DeadChunks | None = None
    left_out: tuple[str, ...] = ()
    is_watched: bool = False
    sequence: int = 0
    is_paused: bool = False
    is_troubled: bool = False
    pad_limit: int | None = None
    is_two_way: bool = False
    copied_back: Position | None = None
    is_outdated: bool = False
    is_made_anew: bool = False

    @property
    def is_original(self) -> bool:
        """Whether ``source`` has, at the same offsets, what ``target`` had up to where that was copied back."""
        back = self.copied_back
        return (
            back is not None
            and back.same_offsets
            and bool(back.topic_id and back.target_id)
            and (back.topic_id, back.target_id) == (self.target_id, self.topic_id)
        )

    def begins_with_copy(self, source_start: int) -> bool:
        """Whether the source's log starts just where the flow back began, by whose record the head is not whole yet.

        What is not there any more is padding then, which that flow has removed: no record was there.
        """
        back = self.copied_back
        return back is not None and self.is_original and back.filled_until < back.origin == source_start


@dataclass(frozen=True, slots=True)
class TaskWork:
    """What one task copies for ``seconds``, or until the driver ends the epoch.

    ``epoch_channel`` is the address (host, port) of the driver's end of the epoch channel; without one a task writes
    for as long as it runs. ``reports_copied``: it reports to the driver meanwhile how much is copied.
    """

    flows: tuple[FlowWork, ...]
    partitions: tuple[PartitionWork, ...]
    seconds: float
    commit_seconds: float
    epoch_channel: tuple[str, int] | None = None
    reports_copied: bool = False


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """What became of one partition in an epoch. ``bytes`` as on the wire.

    Attributes
    ----------
    stopped
        why it cannot go on without somebody's help, None when it can.
    trouble
        what kept it from going on for now; it is tried again.
    skipped_by_match
        records found on the target already, when the tail was matched.
    written_by_mm2
        whether Java MirrorMaker has copied it, so that it is to be taken over from that first.
    foreign
        offsets of the target (from, up to but not including) at which somebody else has written meanwhile.
    sequence
        the flow's producer's next sequence on the target, None if nothing was written.
    may_arrive_late
        whether something that was sent is neither acknowledged nor refused, so that the log may still get it.
    note
        what people should know of where it begins.
    followed_to
        as `mirror.copier.resume.Ready` has it.
    cannot_have_offsets
        whether it is stopped because its copy cannot have the source's offsets, and could have its own.
    leader_alone
        why it is read from its leader although another replica may be closer (``client.rack``).
    read, acknowledged
        how old records were then, as far as that was not reported while the epoch ran.
    source_end
        where the source ended when it first told in this epoch; None: it has not, as where nothing has come since.
    """

    flow: Flow
    source: TopicPartition
    handover: Handover | None
    records: int = 0
    bytes: int = 0
    batches: int = 0
    slow_records: int = 0
    skipped_by_match: int = 0
    stopped: str | None = None
    trouble: str | None = None
    written_by_mm2: bool = False
    foreign: tuple[tuple[int, int], ...] = ()
    sequence: int | None = None
    may_arrive_late: bool = False
    note: str = ""
    followed_to: int | None = None
    cannot_have_offsets: bool = False
    leader_alone: str | None = None
    read: Ages = field(default_factory=Ages)
    acknowledged: Ages = field(default_factory=Ages)
    source_end: int | None = None


@dataclass(frozen=True, slots=True)
class Throttled:
    """For how long, in ms, the quotas of a flow's clusters asked a task to be silent."""

    source_ms: int
    target_ms: int


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What one task did; ``slots`` has the flows that were copied in transactions."""

    partitions: tuple[PartitionResult, ...]
    throttled: Mapping[Flow, Throttled] = field(default_factory=dict)
    slots: Mapping[Flow, SlotEnd] = field(default_factory=dict)
