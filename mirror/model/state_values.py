"""What a flow's state topic tells besides positions and gaps, each with the record that says it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace

from mirror.model.acl import Acl, QuotaKey
from mirror.model.checkpoint import CheckpointedCopy
from mirror.model.failover import FAILOVER_KEY, FailoverEntry
from mirror.model.leadership import Claim
from mirror.model.offset_map import Chunk, Run, SparseOffsetMap
from mirror.model.partition import TopicPartition
from mirror.model.pause import PauseReport, PauseWish
from mirror.model.placement import Placement
from mirror.model.position import INCARNATION_KEY
from mirror.model.state_record import StateRecord, compact_json, json_record

RUNS_PER_CHUNK = 256


NOT_KNOWN = -1


PAUSE_KEY = "pause"

WERE_PAUSED = "topics were paused: where their logs ended was not seen"
"""What a report of a flow with pauses says to whoever asks when there may be none in force any more."""


@dataclass(frozen=True, slots=True)
class RunReport:
    """What the engine last said of the flow: when, what is wrong with it, if anything, and what else is to be known.

    Attributes
    ----------
    stopped
        why partitions are stopped, by source partition: the first of them, as ``reasons`` name them.
    untroubled_at_ms
        of a report with troubles, or while topics are paused: when engines of the same settings last reported neither;
        None: none has, or that is not on record.
    settings
        the digest of what engines of one flow must have in common, by the file of who reported; empty: not on record.
    """

    state: str
    reasons: tuple[str, ...]
    at_ms: int
    notes: tuple[str, ...] = ()
    stopped: Mapping[TopicPartition, str] = field(default_factory=dict)
    untroubled_at_ms: int | None = None
    settings: str = ""

    @property
    def troubles(self) -> tuple[str, ...]:
        """What was wrong then, in words for people: of an engine that had just started, that it had copied nothing."""
        begun = ("it had copied nothing yet since it was started",) if self.state == "STARTING" else ()
        return (*begun, *self.reasons)

    @property
    def was_untroubled_at_ms(self) -> int | None:
        """When nothing was wrong, and nothing paused, by this report or before it, in ms since the epoch."""
        is_untroubled = self.state in ("RUNNING", "STOPPED") and not self.troubles
        return self.at_ms if is_untroubled else self.untroubled_at_ms

    def record(self) -> StateRecord:
        """Return the record that keeps this report."""
        value = {
            "state": self.state,
            "reasons": list(self.reasons),
            "at_ms": self.at_ms,
            "notes": list(self.notes),
            "stopped": [[*source, reason] for source, reason in self.stopped.items()],
        }
        known = {} if self.untroubled_at_ms is None else {"untroubled_at_ms": self.untroubled_at_ms}
        by = {"settings": self.settings} if self.settings else {}
        return json_record(["run"], value | known | by)

    def left_behind(self) -> RunReport:
        """Return it as that of an engine that is gone: when it last reported, and what was wrong then, still counts."""
        # Whoever asks later may find no pause in force any more.
        paused = (WERE_PAUSED,) if self.state == "PAUSED" else ()
        return replace(self, state="STOPPED", reasons=(*self.troubles, *paused), notes=())


def stopped_reason(source: TopicPartition, why: str) -> str:
    """Return how reports and status say that a partition is stopped."""
    return f"{source} is stopped: {why}"


@dataclass(frozen=True, slots=True)
class Loss:
    """The state topic was deleted, or lost records, and was begun anew.

    Attributes
    ----------
    at_ms
        when that was seen, in ms since the epoch.
    reason
        what was seen, and what could not be restored.
    are_tails_unknown
        whether there may be batches of this flow behind its positions whose writers, or transactions, are not known.
    """

    at_ms: int
    reason: str
    are_tails_unknown: bool = False

    def record(self) -> StateRecord:
        """Return the record that keeps it."""
        return json_record(["lost"], asdict(self))


@dataclass(frozen=True, slots=True)
class Takeover:
    """What became of a partition that Java MirrorMaker had copied: how its tail on the target was understood.

    Attributes
    ----------
    position
        MirrorMaker's recorded position, None when it had none.
    upstream, downstream
        where the copy went on; None while the tail is still being matched.
    seen
        records of the target looked at so far, of ``span`` in all.
    records, doubled, others, gone
        of those: copies; copies that are there for a second time; of other writers; no longer on the source.
    note
        what else there is to know.
    """

    source: TopicPartition
    position: int | None
    upstream: int | None
    downstream: int | None
    seen: int
    span: int
    records: int = 0
    doubled: int = 0
    others: int = 0
    gone: int = 0
    note: str = ""

    def record(self) -> StateRecord:
        """Return the record that keeps it."""
        value = {name: value for name, value in asdict(self).items() if name != "source"}
        return json_record(["takeover", self.source.topic, self.source.partition], value)


@dataclass(frozen=True, slots=True)
class ClosedCopy:
    """A copy that takes no records: an engine is about to delete it, to make it anew.

    On record before it is closed, and until it is deleted or open again, whatever the file says by then.

    Attributes
    ----------
    topic, topic_id
        which topic of the target it is.
    most_bytes
        what its ``max.message.bytes`` was set to before; None: it was not set.
    """

    topic: str
    topic_id: str
    most_bytes: str | None = None

    def record(self) -> StateRecord:
        """Return the record that keeps it."""
        return json_record(["closed", self.topic], {"topic_id": self.topic_id, "most_bytes": self.most_bytes})

    def no_record(self) -> StateRecord:
        """Return the record that forgets it."""
        return compact_json(["closed", self.topic]), None


@dataclass(frozen=True, slots=True)
class ForeignWriter:
    """Somebody who is no mirror, and has written into a partition that mirrors alone should write to.

    Attributes
    ----------
    copy
        the partition on the target.
    producer_id
        whose batches they are; -1 for producers without an id.
    first, end
        between these offsets, ``end`` not included, they lie, as far as seen.
    records
        how many were seen.
    seen_at_ms
        when the last of them was seen, in ms since the epoch.
    """

    copy: TopicPartition
    producer_id: int
    first: int
    end: int
    records: int
    seen_at_ms: int

    def record(self) -> StateRecord:
        """Return the record that keeps it."""
        value = {"first": self.first, "end": self.end, "records": self.records, "seen_at_ms": self.seen_at_ms}
        return json_record(["foreign", *self.copy, self.producer_id], value)

    def no_record(self) -> StateRecord:
        """Return the record that forgets it."""
        return compact_json(["foreign", *self.copy, self.producer_id]), None

    def with_more(self, first: int, end: int, records: int, seen_at_ms: int) -> ForeignWriter:
        """Return it with what was seen since."""
        return ForeignWriter(
            self.copy,
            self.producer_id,
            min(self.first, first),
            max(self.end, end),
            self.records + records,
            seen_at_ms,
        )


def sparse_map_record(source: TopicPartition, sparse_map: SparseOffsetMap) -> StateRecord:
    """Return the record that keeps a stretch of the offset map that is known by offset syncs only."""
    value = {
        "end": sparse_map.end,
        "downstream_start": sparse_map.downstream_start,
        "downstream_end": sparse_map.downstream_end,
        "pairs": [list(pair) for pair in sparse_map.pairs],
    }
    return json_record(["sketch", source.topic, source.partition, sparse_map.start], value)


def chunk_record(source: TopicPartition, chunk: int, runs: Iterable[Run]) -> StateRecord:
    """Return the record that keeps one chunk of the offset map of ``source``."""
    return compact_json(["runs", source.topic, source.partition, chunk]), Chunk.of(runs).content


def no_chunk_record(source: TopicPartition, chunk: int) -> StateRecord:
    """Return the record that forgets one chunk of the offset map of ``source``."""
    return compact_json(["runs", source.topic, source.partition, chunk]), None


def writer_record(producer_id: int, since_ms: int) -> StateRecord:
    """Return the record that registers a producer id as one of this flow's writers."""
    return json_record(["writer", producer_id], {"since_ms": since_ms})


def source_record(cluster_id: str, brokers: Sequence[str] = (), former: Sequence[str] = ()) -> StateRecord:
    """Return the record that says which cluster the flow copies from: aliases may differ from file to file.

    ``brokers``: where its brokers are, for who has to find out whether it is gone; none if that is not known yet.
    ``former``: the ids of the clusters that it copied from before.
    """
    known = {"brokers": list(brokers)} if brokers else {}
    before = {"former": list(former)} if former else {}
    return json_record(["source"], {"cluster_id": cluster_id} | known | before)


@dataclass(frozen=True, slots=True)
class WrittenAs:
    """The producer that a transactional id gave to the engine that led in ``term``: it writes its transactions so."""

    producer_id: int
    epoch: int
    term: int

    @property
    def key(self) -> tuple[int, int]:
        """Return producer id and epoch."""
        return self.producer_id, self.epoch


def transactional_id_record(
    transactional_id: str,
    since_ms: int,
    unended: tuple[int, int] | None = None,
    written_as: WrittenAs | None = None,
    fencing: tuple[int, int] | None = None,
) -> StateRecord:
    """Return the record that registers a transactional id before its first use: whoever takes over must fence it.

    ``unended``: nobody writes with it any more, and its last transaction, of this producer id and epoch, is decided;
    the cluster has not ended it in all partitions yet. ``written_as`` is on record before the first transaction with
    that producer: whoever finds its last one knows by it whose it is. ``fencing``: an engine was about to take the id
    over while its last transaction was of this producer id and epoch, so it is that one which is aborted with the next.
    """
    more = {"unended": list(unended)} if unended is not None else {}
    if written_as is not None:
        more["written_as"] = [written_as.producer_id, written_as.epoch, written_as.term]
    if fencing is not None:
        more["fencing"] = list(fencing)
    return json_record(["transactional_id", transactional_id], {"since_ms": since_ms} | more)


def claim_record(claim: Claim) -> StateRecord:
    """Return the record of an engine that leads the flow, or wants to."""
    return json_record(["claim"], claim.content())


@dataclass(frozen=True, slots=True)
class Standby:
    """An engine that would lead the flow if its leader did not.

    Attributes
    ----------
    engine, host, pid
        its id, its machine and its process there.
    at_ms
        when it last said so, in ms since the epoch.
    differs_in
        the settings in which its file differs from the leader's.
    """

    engine: str
    host: str
    pid: int
    at_ms: int
    differs_in: tuple[str, ...] = ()

    def record(self) -> StateRecord:
        """Return the record that keeps it."""
        value = {"host": self.host, "pid": self.pid, "at_ms": self.at_ms, "differs_in": list(self.differs_in)}
        return json_record(["standby", self.engine], value)


def no_standby_record(engine: str) -> StateRecord:
    """Return the record that says that an engine stands by no longer."""
    return compact_json(["standby", engine]), None


def pause_record(wish: PauseWish) -> StateRecord:
    """Return the record that keeps what somebody wishes of the flow's topics."""
    is_end = wish.is_cut and not wish.is_pause
    return (compact_json(wish.key), None) if is_end else json_record(wish.key, wish.content())


def pause_report_record(report: PauseReport) -> StateRecord:
    """Return the record of what the leader says of the paused topics."""
    return json_record(["paused"], report.content())


@dataclass(frozen=True, slots=True)
class DataProducer:
    """The producer id with which a flow writes its copies when it uses no transactions, as its tasks share it.

    Attributes
    ----------
    transactional_id
        with which it was obtained, so that the cluster can fence it; empty when the cluster gave none of that kind.
    """

    producer_id: int
    epoch: int
    transactional_id: str = ""

    def record(self) -> StateRecord:
        """Return the record that keeps it; to be written before anything is written with that epoch."""
        return json_record(["producer"], asdict(self))


def producer_asked_for_record(transactional_id: str) -> StateRecord:
    """Return the record that the first producer of the flow is about to be obtained; that takes its place."""
    return DataProducer(NOT_KNOWN, NOT_KNOWN, transactional_id).record()


def acl_record(acl: Acl, origin: Acl | None) -> StateRecord:
    """Return the record that this flow has created ``acl`` on the target because of ``origin``, on the source.

    With None: it is not this flow's, or not there, any more.
    """
    return json_record(["acl", *acl.key], {"origin": None if origin is None else origin.key})


def checkpointed_record(copy: CheckpointedCopy) -> StateRecord:
    """Return the record that says of which copy the checkpoints of a partition are; it goes before them."""
    source_id, target_id, incarnation = astuple(copy.copy)
    value = {"source_id": source_id, "target_id": target_id, INCARNATION_KEY: incarnation, "since": copy.since}
    return json_record(["checkpointed", *copy.partition], value)


def placement_record(placement: Placement) -> StateRecord:
    """Return the record that this flow puts a group at a position on the target; it goes before the position."""
    value: dict[str, int | str | None] = {
        "upstream": placement.upstream,
        "downstream": placement.downstream,
        "written": placement.written,
        "target_id": placement.target_id,
    }
    if placement.before is not None:
        value["before"] = placement.before
        value["before_upstream"] = placement.before_upstream
        value["before_downstream"] = placement.before_downstream
    return json_record(["placement", placement.group, *placement.partition], value)


def no_placement_record(placement: Placement) -> StateRecord:
    """Return the record that forgets where a group was to be put: it was not."""
    return compact_json(["placement", placement.group, *placement.partition]), None


def failover_record(entry: FailoverEntry) -> StateRecord:
    """Return the record of a run that moves the applications of the flow."""
    return json_record([FAILOVER_KEY, entry.run], entry.content())


def no_failover_record(run: str) -> StateRecord:
    """Return the record that says that the applications are where they were before that run."""
    return compact_json([FAILOVER_KEY, run]), None


def quota_record(key: QuotaKey, value: float | None) -> StateRecord:
    """Return the record that this flow has set a quota on the target; None: that it has removed it, or gives it up."""
    return json_record(["quota", [list(part) for part in key.entity], key.limit], {"value": value})
