"""What a flow knows of itself, as records of its compacted state topic ``mm2-state.<source>.internal`` on the target.

Keys are JSON arrays whose first element says what kind of record it is; values are JSON objects. The newest record of
a key counts; one without a value says that there is none any more. The name of the topic matches MirrorMaker 2's
default excludes, so no flow ever mirrors it.

Versions: a value's field ``v`` is the version of its kind, 1 when it is absent. A field may be added to a kind if who
does not know it can do without: it has a default, and positions and gaps are written on with the fields that are not
known. Whatever must not be done without gets a higher version. What a version does not know is never dropped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from enum import StrEnum
from functools import cache
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

from mirror.model.acl import Acl, QuotaKey
from mirror.model.checkpoint import CheckpointedCopy, CopyId
from mirror.model.failover import FailoverEntry
from mirror.model.leader_epochs import EpochEnd
from mirror.model.leadership import Claim, newest
from mirror.model.mm2_trace import Pair
from mirror.model.offset_map import Chunk, OffsetMap, Run, Runs, SparseOffsetMap, runs_before
from mirror.model.partition import TopicPartition
from mirror.model.pause import CUT, PauseReport, Pauses, PauseWish
from mirror.model.placement import Placement
from mirror.model.stretches import Stretch

RUNS_PER_CHUNK = 256

_TERM, _EPOCH = "term", "epoch"
_NOT_KNOWN = -1
_PAUSE = "pause"
# What the number of an incarnation is called in records.
_INCARNATION = "turn"
# What the leader alone says, the last time it says so. All else is added to what was known, by whomever.
_POSITION = b'["position",'
_TRANSACTIONAL_ID = b'["transactional_id",'
_OF_THE_LEADER = (
    _POSITION,
    b'["runs",',
    b'["gap",',
    b'["takeover",',
    b'["producer"]',
    b'["run"]',
    b'["paused"]',
    _TRANSACTIONAL_ID,
)
# Of these the first record counts, whoever wrote it.
_FIRST_COUNTS = (_POSITION, _TRANSACTIONAL_ID)

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]

K = TypeVar("K")
V = TypeVar("V")

# (key, value) of one record of the state topic; without a value it says that the record of that key is gone.
StateRecord: TypeAlias = tuple[bytes, bytes | None]


def term_header(term: int) -> Headers:
    """Return the headers of what an engine writes into the state topic while it leads the flow in ``term``."""
    return ((_TERM, b"%d" % term),)


def stamped(
    records: Iterable[StateRecord], term: int | None, at_ms: int, epoch: int | None = None
) -> list[tuple[bytes, bytes | None, Headers, int]]:
    """Return records as an engine appends them while it leads the flow in ``term``; None: of no term.

    ``epoch``: of tasks, the number of the epoch that the engine runs them in.
    """
    headers = () if term is None else term_header(term)
    if headers and epoch is not None:
        headers += ((_EPOCH, b"%d" % epoch),)
    return [(key, value, headers, at_ms) for key, value in records]


def term_of(headers: Headers) -> int | None:
    """Return the term in which an engine wrote a record with these headers, None if it was no engine."""
    return _number(headers, _TERM)


def epoch_of(headers: Headers) -> int | None:
    """Return in which epoch of its engine a task wrote a record with these headers.

    None if it was no task, or one of a version that does not say.
    """
    return _number(headers, _EPOCH)


def _number(headers: Headers, wanted: str) -> int | None:
    return next((int(value) for name, value in headers if name == wanted and value is not None), None)


def state_topic(source_alias: str) -> str:
    """Return the name of the state topic on the target; like MM2's own names it always uses dots (DED-05)."""
    return f"mm2-state.{source_alias}.internal"


def data_transactional_id(state_topic: str, target_alias: str) -> str:
    """Return the transactional id with which the producer id of a flow without transactions is obtained (ADR 8)."""
    return f"{state_topic}.{target_alias}"


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
        the offsets of the copy, from one up to, not including, another, which are before those of this turn and of
        which it is not on record whether others have written there; what bears the flow's own producer ids is nobody's
        else.
    next_batch
        as whom the flow goes on behind it outside of transactions; None if that is not known. It says nothing of how
        far the partition is copied.
    unknown
        the fields of the record that this version does not know, a JSON object; empty when there are none.
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
            _INCARNATION: self.incarnation,
            "left_out": self.left_out,
            "settled": self.settled,
            # A version that does not know it writes it on, also when the copy has gone back.
            "compared": [self.incarnation, self.compared],
        }
        if self.settled and self.settled_in >= 0:
            value["settled_in"] = self.settled_in
        if self.uncompared is not None:
            value["uncompared"] = [self.incarnation, *self.uncompared]
        if self.next_batch is not None:
            # A version that does not know it writes it on with another position.
            value["next_batch"] = [self.upstream, self.downstream, *astuple(self.next_batch)]
        return _record(["position", source.topic, source.partition], value | _unknown(self.unknown))


class GapKind(StrEnum):
    """What became of the records in a gap."""

    RETENTION = "retention"
    """The source removed them before they were copied: retention, or deleted records."""
    TRUNCATED = "truncated"
    """The source no longer has what was copied and has, or will have, something else at these offsets."""
    RECREATED = "recreated"
    """The source topic was deleted and created anew: what was not copied of the old one is gone."""
    TARGET_LOST = "target-lost"
    """The target no longer has the copies: its log was truncated, or the topic deleted and created anew."""
    UNMATCHED = "unmatched"
    """What this flow wrote behind its last recorded position is not what the source has there."""
    SKIPPED = "skipped"
    """They were left out because they could not be copied."""
    PARKED = "parked"
    """The target does not take them; they lie in the topic of parked records instead."""
    UNKNOWN_ORIGIN = "unknown-origin"
    """The copy holds records already, and nothing says which of the source's they are."""
    OTHER = "other"
    """Something that this version does not know; :attr:`Gap.unknown` has the word."""


GapKey: TypeAlias = tuple[TopicPartition, int, int]
"""What tells gaps apart: the source partition, the first offset, and when it was found."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Upstream offsets, from ``start`` up to, not including, ``end``, whose records the copy lacks, or has differently.

    Attributes
    ----------
    found_at_ms
        when it was found, in ms since the epoch.
    downstream
        where it lies on the target: the copy goes on there; for ``TARGET_LOST`` the target's log ended there. None
        when that is not known.
    topic_id
        the source topic's id, which the offsets belong to.
    passed
        whether the copy has gone on behind it; otherwise the partition is stopped until the gap is acknowledged.
    is_repeated
        whether it was written again behind gaps of the partition that were found after it: its place in the log says
        nothing then.
    unknown
        the fields of the record that this version does not know, a JSON object; empty when there are none.
    """

    source: TopicPartition
    start: int
    end: int
    reason: str
    found_at_ms: int
    kind: GapKind = GapKind.SKIPPED
    downstream: int | None = None
    topic_id: str = ""
    passed: bool = True
    is_repeated: bool = False
    unknown: str = ""

    @property
    def key(self) -> GapKey:
        """Return what tells it from every other gap of the flow."""
        return self.source, self.start, self.found_at_ms

    @property
    def count(self) -> int:
        """Return how many offsets it spans: no fewer than the records missing."""
        return self.end - self.start

    @property
    def where(self) -> str:
        """Return its partition and offsets for people, the last one included."""
        return f"{self.source} {self.start}..{self.end - 1}" if self.count > 1 else f"{self.source} {self.start}"

    def record(self) -> StateRecord:
        """Return the record that keeps this gap."""
        value = {
            "end": self.end,
            "reason": self.reason,
            "kind": self.kind.value,
            "downstream": self.downstream,
            "topic_id": self.topic_id,
            "passed": self.passed,
        }
        if self.is_repeated:
            value["is_repeated"] = True
        return _record(["gap", *self.source, self.start, self.found_at_ms], value | _unknown(self.unknown))


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Somebody knows of a gap and takes it as it is: who, why, and when in ms since the epoch."""

    by: str
    reason: str
    at_ms: int

    def record(self, gap: GapKey) -> StateRecord:
        """Return the record that keeps this acknowledgement of ``gap``."""
        source, start, found_at_ms = gap
        return _record(["acknowledged", *source, start, found_at_ms], asdict(self))


@dataclass(frozen=True, slots=True)
class RunReport:
    """What the engine last said of the flow: when, what is wrong with it, if anything, and what else is to be known.

    Attributes
    ----------
    stopped
        why partitions are stopped, by source partition: the first of them, as ``reasons`` name them.
    """

    state: str
    reasons: tuple[str, ...]
    at_ms: int
    notes: tuple[str, ...] = ()
    stopped: Mapping[TopicPartition, str] = field(default_factory=dict)

    def record(self) -> StateRecord:
        """Return the record that keeps this report."""
        value = {
            "state": self.state,
            "reasons": list(self.reasons),
            "at_ms": self.at_ms,
            "notes": list(self.notes),
            "stopped": [[*source, reason] for source, reason in self.stopped.items()],
        }
        return _record(["run"], value)


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
        return _record(["lost"], asdict(self))


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
        return _record(["takeover", self.source.topic, self.source.partition], value)


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
        return _record(["foreign", *self.copy, self.producer_id], value)

    def no_record(self) -> StateRecord:
        """Return the record that forgets it."""
        return _compact(["foreign", *self.copy, self.producer_id]), None

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
    return _record(["sketch", source.topic, source.partition, sparse_map.start], value)


def chunk_record(source: TopicPartition, chunk: int, runs: Iterable[Run]) -> StateRecord:
    """Return the record that keeps one chunk of the offset map of ``source``."""
    return _compact(["runs", source.topic, source.partition, chunk]), Chunk.of(runs).content


def no_chunk_record(source: TopicPartition, chunk: int) -> StateRecord:
    """Return the record that forgets one chunk of the offset map of ``source``."""
    return _compact(["runs", source.topic, source.partition, chunk]), None


def writer_record(producer_id: int, since_ms: int) -> StateRecord:
    """Return the record that registers a producer id as one of this flow's writers."""
    return _record(["writer", producer_id], {"since_ms": since_ms})


def source_record(cluster_id: str, brokers: Sequence[str] = ()) -> StateRecord:
    """Return the record that says which cluster the flow copies from: aliases may differ from file to file.

    ``brokers``: where its brokers are, for who has to find out whether it is gone; none if that is not known yet.
    """
    known = {"brokers": list(brokers)} if brokers else {}
    return _record(["source"], {"cluster_id": cluster_id} | known)


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
    said = {"unended": list(unended)} if unended is not None else {}
    if written_as is not None:
        said["written_as"] = [written_as.producer_id, written_as.epoch, written_as.term]
    if fencing is not None:
        said["fencing"] = list(fencing)
    return _record(["transactional_id", transactional_id], {"since_ms": since_ms} | said)


def claim_record(claim: Claim) -> StateRecord:
    """Return the record of an engine that leads the flow, or wants to."""
    return _record(["claim"], claim.content())


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
        return _record(["standby", self.engine], value)


def no_standby_record(engine: str) -> StateRecord:
    """Return the record that says that an engine stands by no longer."""
    return _compact(["standby", engine]), None


def pause_record(wish: PauseWish) -> StateRecord:
    """Return the record that keeps what somebody wishes of the flow's topics."""
    is_end = wish.is_cut and not wish.is_pause
    return (_compact(wish.key), None) if is_end else _record(wish.key, wish.content())


def pause_report_record(report: PauseReport) -> StateRecord:
    """Return the record of what the leader says of the paused topics."""
    return _record(["paused"], report.content())


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
        return _record(["producer"], asdict(self))


def producer_asked_for_record(transactional_id: str) -> StateRecord:
    """Return the record that the first producer of the flow is about to be obtained; that takes its place."""
    return DataProducer(_NOT_KNOWN, _NOT_KNOWN, transactional_id).record()


def acl_record(acl: Acl, origin: Acl | None) -> StateRecord:
    """Return the record that this flow has created ``acl`` on the target because of ``origin``, on the source.

    With None: it is not this flow's, or not there, any more.
    """
    return _record(["acl", *acl.key], {"origin": None if origin is None else origin.key})


def checkpointed_record(copy: CheckpointedCopy) -> StateRecord:
    """Return the record that says of which copy the checkpoints of a partition are; it goes before them."""
    source_id, target_id, incarnation = astuple(copy.copy)
    value = {"source_id": source_id, "target_id": target_id, _INCARNATION: incarnation, "since": copy.since}
    return _record(["checkpointed", *copy.partition], value)


def placement_record(placement: Placement) -> StateRecord:
    """Return the record that this flow puts a group at a position on the target; it goes before the position."""
    value = {
        "upstream": placement.upstream,
        "downstream": placement.downstream,
        "written": placement.written,
        "target_id": placement.target_id,
    }
    return _record(["placement", placement.group, *placement.partition], value)


def no_placement_record(placement: Placement) -> StateRecord:
    """Return the record that forgets where a group was to be put: it was not."""
    return _compact(["placement", placement.group, *placement.partition]), None


def failover_record(entry: FailoverEntry) -> StateRecord:
    """Return the record of a run that moves the applications of the flow."""
    return _record(["failover", entry.run], entry.content())


def no_failover_record(run: str) -> StateRecord:
    """Return the record that says that the applications are where they were before that run."""
    return _compact(["failover", run]), None


def quota_record(key: QuotaKey, value: float | None) -> StateRecord:
    """Return the record that this flow has set a quota on the target; None: that it has removed it, or gives it up."""
    return _record(["quota", [list(part) for part in key.entity], key.limit], {"value": value})


@dataclass(frozen=True, slots=True)
class DeadChunks:
    """Chunks of the offset map that may be forgotten, if the copy has not gone back since ``incarnation``.

    Only who copies the partition writes its chunks, so that none is forgotten that was just written anew.
    """

    incarnation: int
    chunks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Unread:
    """A record of the state topic that this version does not understand, and leaves as it is.

    Attributes
    ----------
    kind
        what kind of record its key says that it is.
    problem
        why it is not understood.
    source
        the partition that must not be copied without it, if any.
    """

    kind: str
    problem: str
    source: TopicPartition | None = None


# The version of each kind of record that this version of the program reads and writes, if it is not 1.
_VERSIONS: dict[str, int] = {}
# Of a partition of which such a record is not understood it is not known what is copied, and where to.
_VITAL = frozenset({"position", "runs", "sketch", "gap"})
# Of these what was understood before still holds.
_KEPT = frozenset({"claim", "producer", "transactional_id", "writer"})


@dataclass(slots=True)
class FlowState:
    """The state topic folded: the newest of everything. Filled by :meth:`apply`, in the order of the log.

    ``unread`` has, by key, what this version does not understand; it never ends anything but the partition concerned.
    """

    positions: dict[TopicPartition, Position] = field(default_factory=dict)
    chunks: dict[TopicPartition, dict[int, Chunk]] = field(default_factory=dict)
    writers: set[int] = field(default_factory=set)
    gaps: dict[GapKey, Gap] = field(default_factory=dict)
    acknowledgements: dict[GapKey, Acknowledgement] = field(default_factory=dict)
    sparse_maps: dict[TopicPartition, dict[int, SparseOffsetMap]] = field(default_factory=dict)
    takeovers: dict[TopicPartition, Takeover] = field(default_factory=dict)
    #: Since when each transactional id is registered, in ms since the epoch.
    registered: dict[str, int] = field(default_factory=dict)
    #: Those of them with which nobody writes for now: producer id and epoch of a transaction that has not ended.
    unended: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: As whom an engine has written with them since it took them over.
    written_as: dict[str, WrittenAs] = field(default_factory=dict)
    #: With which producer the last transaction was written of an id that an engine was about to take over.
    fencing: dict[str, tuple[int, int]] = field(default_factory=dict)
    acls: dict[Acl, Acl] = field(default_factory=dict)
    quotas: dict[QuotaKey, float] = field(default_factory=dict)
    placements: dict[tuple[str, TopicPartition], Placement] = field(default_factory=dict)
    checkpointed: dict[TopicPartition, CheckpointedCopy] = field(default_factory=dict)
    #: By run, in the order in which they came on record.
    failovers: dict[str, FailoverEntry] = field(default_factory=dict)
    claim: Claim | None = None
    standbys: dict[str, Standby] = field(default_factory=dict)
    producer: DataProducer | None = None
    #: Whether an engine has obtained that, or was about to.
    is_producer_asked_for: bool = False
    # Keys of which a record came from an engine that no longer led, or from a task of an epoch that was over: what
    # counts is to be written again.
    overwritten: set[bytes] = field(default_factory=set)
    # In which term, and epoch, a task has written the newest of a key.
    _written_in: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    # How far such engines had copied, of partitions of which such a position came.
    late: dict[TopicPartition, int] = field(default_factory=dict)
    source_id: str = ""
    #: Where its brokers were last, for who has to find out whether it is gone.
    source_brokers: tuple[str, ...] = ()
    foreign: dict[tuple[TopicPartition, int], ForeignWriter] = field(default_factory=dict)
    run: RunReport | None = None
    #: What is wished of the flow's topics, as far as it is understood; see :attr:`pauses`.
    wishes: Pauses = field(default_factory=Pauses)
    #: Whether the newest that was read of a cut has ended it.
    is_cut_ended: bool = False
    #: None also behind the end of a cut, until the leader has said something that knows of it.
    pause_report: PauseReport | None = None
    loss: Loss | None = None
    #: The partitions whose tails are not known since the last loss: nothing was recorded of them behind it.
    unsettled: set[TopicPartition] = field(default_factory=set)
    unread: dict[bytes, Unread] = field(default_factory=dict)

    def apply(self, key: bytes | None, value: bytes | None, term: int | None = None, epoch: int | None = None) -> bool:
        """Take in one record of the state topic; one that this version does not understand goes to ``unread``.

        One of an engine that led in an earlier ``term`` than the flow's leader by then does not count, if there is
        one that does: it was on its way when the other took over. None: it is not of an engine, or of a version without
        terms.

        Nor does one of a task behind one of a task of a later ``epoch`` in that term: who is cut off from its engine,
        or was stopped, goes on for a while.

        Returns
        -------
        whether it counts
        """
        if key is not None and key.startswith(_OF_THE_LEADER):
            is_late = term is not None and self.claim is not None and term < self.claim.term
            if term is not None and epoch is not None:
                is_late |= (term, epoch) < self._written_in.get(key, (term, epoch))
            # The first position of a partition stands there before its first record does, which may have come too; and
            # a transactional id before its first transaction.
            if is_late and (not key.startswith(_FIRST_COUNTS) or self.record_of(key)[1] is not None):
                self.overwritten.add(key)
                self._note_late(key, value)
                return False
            self.overwritten.discard(key)
            if term is not None and epoch is not None:
                self._written_in[key] = term, epoch
        self.unread.pop(key or b"", None)
        names: Any = None
        try:
            names = json.loads(key or b"")
            if value is None or names[0] not in _KEPT:
                self._forget(names)
            if value is not None:
                content = json.loads(value)
                version, known = content.pop("v", 1), _VERSIONS.get(names[0], 1)
                if version > known:
                    raise ValueError(f"it is of version {version}, and this program knows version {known}")
                self._apply(names, content, value)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as problem:
            if value is not None:
                self.unread[key or b""] = _unread(names, f"{type(problem).__name__}: {problem}")
        return True

    def _note_late(self, key: bytes, value: bytes | None) -> None:
        """Remember how far an engine had copied that did not lead any more: MirrorMaker's position may say so too."""
        with suppress(KeyError, TypeError, ValueError):
            if key.startswith(_POSITION) and value is not None:
                source = TopicPartition(*json.loads(key)[1:])
                self.late[source] = max(self.late.get(source, 0), json.loads(value)["upstream"])

    def _forget(self, key: Any) -> None:
        """Forget what was said under a key: the newest record of it counts alone."""
        match key:
            case ["position", topic, partition]:
                self.positions.pop(TopicPartition(topic, partition), None)
                self.unsettled.discard(TopicPartition(topic, partition))
            case ["runs", topic, partition, chunk]:
                self.chunks.get(TopicPartition(topic, partition), {}).pop(chunk, None)
            case ["sketch", topic, partition, start]:
                self.sparse_maps.get(TopicPartition(topic, partition), {}).pop(start, None)
            case ["takeover", topic, partition]:
                self.takeovers.pop(TopicPartition(topic, partition), None)
            case ["gap", topic, partition, start, found_at_ms]:
                self.gaps.pop((TopicPartition(topic, partition), start, found_at_ms), None)
            case ["acknowledged", topic, partition, start, found_at_ms]:
                self.acknowledgements.pop((TopicPartition(topic, partition), start, found_at_ms), None)
            case ["foreign", topic, partition, producer_id]:
                self.foreign.pop((TopicPartition(topic, partition), producer_id), None)
            case ["checkpointed", topic, partition]:
                self.checkpointed.pop(TopicPartition(topic, partition), None)
            case ["placement", group, topic, partition]:
                self.placements.pop((group, TopicPartition(topic, partition)), None)
            case ["writer", producer_id]:
                self.writers.discard(producer_id)
            case ["transactional_id", transactional_id]:
                self.registered.pop(transactional_id, None)
                self._forget_marks(transactional_id)
            case ["acl", *names]:
                self.acls.pop(Acl.of_key(names), None)
            case ["quota", entity, limit]:
                self.quotas.pop(_quota_key(entity, limit), None)
            case ["source"]:
                self.source_id, self.source_brokers = "", ()
            case ["failover", run]:
                self.failovers.pop(run, None)
            case ["claim"]:
                self.claim = None
            case ["standby", engine]:
                self.standbys.pop(engine, None)
            case ["producer"]:
                self.producer, self.is_producer_asked_for = None, False
            case ["run"]:
                self.run = None
            case ["pause"]:
                self.wishes = self.wishes.without(None)
            case ["pause", None, "cut"]:
                self.wishes, self.is_cut_ended, self.pause_report = self.wishes.without_cut(), True, None
            case ["pause", topics]:
                self.wishes = self.wishes.without(topics)
            case ["paused"]:
                self.pause_report = None
            case ["lost"]:
                self.loss = None
                self.unsettled.clear()

    def _forget_marks(self, transactional_id: str) -> None:
        self.unended.pop(transactional_id, None)
        self.written_as.pop(transactional_id, None)
        self.fencing.pop(transactional_id, None)

    def _apply(self, key: Any, content: Any, value: bytes) -> None:
        match key:
            case ["runs", topic, partition, chunk]:
                self.chunks.setdefault(TopicPartition(topic, partition), {})[chunk] = Chunk.parse(value)
            case ["position", topic, partition]:
                epochs = tuple(EpochEnd(*numbers) for numbers in content.get("epochs", ()))
                incarnation, compared = content.get("compared", (-1, -1))
                compared = compared if incarnation == content.get(_INCARNATION, 0) else -1
                incarnation, *stretch = content.get("uncompared", (-1, 0, 0))
                uncompared = (stretch[0], stretch[1]) if incarnation == content.get(_INCARNATION, 0) else None
                *at, producer_id, epoch, sequence = content.get("next_batch", (-1, -1, -1, -1, -1))
                is_its_own = at == [content["upstream"], content["downstream"]]
                next_batch = NextBatch(producer_id, epoch, sequence) if is_its_own else None
                read = {
                    "epochs": epochs,
                    "compared": compared,
                    "uncompared": uncompared,
                    "next_batch": next_batch,
                }
                position = Position(**_known(Position, content) | read)
                self.positions[TopicPartition(topic, partition)] = position
            case ["writer", producer_id]:
                self.writers.add(producer_id)
            case ["gap", topic, partition, start, found_at_ms]:
                found = {"source": TopicPartition(topic, partition), "start": start, "found_at_ms": found_at_ms}
                gap = Gap(**_known(Gap, content) | found)
                self.gaps[gap.key] = gap
                if not gap.passed:
                    # Found after it, at the same offset and by a clock that stepped back at the same time.
                    self.acknowledgements.pop(gap.key, None)
            case ["acknowledged", topic, partition, start, found_at_ms]:
                key = TopicPartition(topic, partition), start, found_at_ms
                self.acknowledgements[key] = Acknowledgement(**_known(Acknowledgement, content))
            case ["sketch", topic, partition, start]:
                pairs = tuple(Pair(*numbers) for numbers in content["pairs"])
                sparse_map = SparseOffsetMap(**_known(SparseOffsetMap, content) | {"start": start, "pairs": pairs})
                self.sparse_maps.setdefault(TopicPartition(topic, partition), {})[start] = sparse_map
            case ["takeover", topic, partition]:
                source = TopicPartition(topic, partition)
                self.takeovers[source] = Takeover(**_known(Takeover, content) | {"source": source})
            case ["transactional_id", transactional_id]:
                self.registered[transactional_id] = content.get("since_ms", 0)
                self._forget_marks(transactional_id)
                if content.get("unended"):
                    producer_id, epoch = content["unended"]
                    self.unended[transactional_id] = producer_id, epoch
                if content.get("written_as"):
                    self.written_as[transactional_id] = WrittenAs(*content["written_as"])
                if content.get("fencing"):
                    producer_id, epoch = content["fencing"]
                    self.fencing[transactional_id] = producer_id, epoch
            case ["foreign", topic, partition, producer_id]:
                copy = TopicPartition(topic, partition)
                found = {"copy": copy, "producer_id": producer_id}
                self.foreign[copy, producer_id] = ForeignWriter(**_known(ForeignWriter, content) | found)
            case ["checkpointed", topic, partition]:
                copy, since = TopicPartition(topic, partition), content["since"]
                self.checkpointed[copy] = CheckpointedCopy(copy, CopyId(**_known(CopyId, content)), since)
            case ["placement", group, topic, partition]:
                copy = TopicPartition(topic, partition)
                self.placements[group, copy] = Placement(
                    **_known(Placement, content) | {"group": group, "partition": copy}
                )
            case ["source"]:
                self.source_id, self.source_brokers = content["cluster_id"], tuple(content.get("brokers", ()))
            case ["failover", run]:
                self.failovers[run] = FailoverEntry.of_content(run, content)
            case ["claim"]:
                self.claim = newest(self.claim, Claim.of_content(content))
            case ["standby", engine]:
                differs_in = tuple(content.get("differs_in", ()))
                self.standbys[engine] = Standby(
                    **_known(Standby, content) | {"engine": engine, "differs_in": differs_in}
                )
            case ["producer"]:
                producer = DataProducer(**_known(DataProducer, content))
                self.producer = producer if producer.producer_id != _NOT_KNOWN else None
                self.is_producer_asked_for = True
            case ["run"]:
                notes = tuple(content.get("notes", ()))
                stopped = {TopicPartition(topic, number): why for topic, number, why in content.get("stopped", ())}
                self.run = RunReport(content["state"], tuple(content["reasons"]), content["at_ms"], notes, stopped)
            case ["pause"]:
                self.wishes = self.wishes.with_wish(PauseWish.of(None, content))
                # Whatever was wished by hand before, it is over. A cut is ended by its own wish alone.
                self.unread = {
                    key: each
                    for key, each in self.unread.items()
                    if each.kind != _PAUSE or json.loads(key) == ["pause", None, CUT]
                }
            case ["pause", None, "cut"]:
                self.wishes = self.wishes.with_wish(PauseWish.of(None, content, is_cut=True))
                self.is_cut_ended = not self.wishes.is_cut
            case ["pause", str(topics)]:
                self.wishes = self.wishes.with_wish(PauseWish.of(topics, content))
            case ["paused"]:
                self.pause_report = PauseReport.of(content)
            case ["lost"]:
                self.loss = Loss(**_known(Loss, content))
                self.unsettled = set(self.positions) if self.loss.are_tails_unknown else set()
            case ["acl", *names]:
                _keep(self.acls, Acl.of_key(names), content["origin"] and Acl.of_key(content["origin"]))
            case ["quota", entity, limit]:
                _keep(self.quotas, _quota_key(entity, limit), content["value"])
            case _:
                raise ValueError("this program knows no such kind of record")

    @property
    def pauses(self) -> Pauses:
        """Return what is paused; everything, if there is a wish that this version does not understand."""
        problem = next((each.problem for each in self.unread.values() if each.kind == _PAUSE), None)
        return replace(self.wishes, obscure=problem)

    @property
    def leaders_pause_report(self) -> PauseReport | None:
        """Return what is said of paused topics by the engine that leads the flow, or led it last; None: nothing.

        An engine of a version that knows of no pauses says nothing, and copies.
        """
        report, claim = self.pause_report, self.claim
        return report if report is not None and claim is not None and report.engine == claim.engine else None

    @property
    def stops(self) -> dict[TopicPartition, str]:
        """Return the partitions that must not be copied because of what is not understood of them, and why."""
        newer = {
            source: f"a gap of a kind that this version does not know ({gap.reason}): run the version that found it, "
            "or acknowledge it (mirror gaps FILE --acknowledge)"
            for source, gap in self.barriers.items()
            if gap.kind is GapKind.OTHER and gap.key not in self.acknowledgements
        }
        return newer | {
            each.source: f"the record {key.decode(errors='replace')} of the state topic is not understood "
            f"({each.problem}), so what is copied of the partition cannot be told: run the version that wrote it, or, "
            "if none did, write a record with that key and no value"
            for key, each in self.unread.items()
            if each.source is not None
        }

    @property
    def stopped(self) -> dict[TopicPartition, str]:
        """Return why partitions are stopped: :attr:`stops`, and the first of those that the engine has named."""
        return self.stops | (dict(self.run.stopped) if self.run is not None else {})

    def record_of(self, key: bytes) -> StateRecord:
        """Return the record of a key that counts, of those that the leader alone writes; with no value if none does."""
        match json.loads(key):
            case ["position", topic, partition] if (source := TopicPartition(topic, partition)) in self.positions:
                return self.positions[source].record(source)
            case ["runs", topic, partition, number]:
                chunk = self.chunks.get(TopicPartition(topic, partition), {}).get(number)
                return key, chunk.content if chunk is not None else None
            case ["gap", topic, partition, start, found_at_ms]:
                gap = self.gaps.get((TopicPartition(topic, partition), start, found_at_ms))
                return self._repeated(gap).record() if gap is not None else (key, None)
            case ["takeover", topic, partition] if (source := TopicPartition(topic, partition)) in self.takeovers:
                return self.takeovers[source].record()
            case ["producer"] if self.producer is not None:
                return self.producer.record()
            case ["transactional_id", name] if name in self.registered:
                marks = self.unended.get(name), self.written_as.get(name), self.fencing.get(name)
                return transactional_id_record(name, self.registered[name], *marks)
            case ["run"] if self.run is not None:
                return self.run.record()
            case ["paused"] if self.pause_report is not None:
                return pause_report_record(self.pause_report)
            case _:
                return key, None

    def _repeated(self, gap: Gap) -> Gap:
        """Return a gap as it is written again: it is not to look newer than one that was found after it."""
        of_partition = [each for each in self.gaps.values() if each.source == gap.source and not each.is_repeated]
        return replace(gap, is_repeated=gap.is_repeated or of_partition[-1] != gap)

    @property
    def transactional_ids(self) -> set[str]:
        """Return the transactional ids that the flow has written transactions with, or may have."""
        return set(self.registered)

    @property
    def open_gaps(self) -> list[Gap]:
        """Return the gaps that nobody has acknowledged, in order."""
        return [self.gaps[key] for key in sorted(self.gaps) if key not in self.acknowledgements]

    @property
    def barriers(self) -> dict[TopicPartition, Gap]:
        """Return the gap before which the copy of a partition has stopped, by source.

        A gap that was recorded later and is passed says that the copy has gone on. Clocks have no say: the ledger is in
        the order of the log, but for those that were written again.
        """
        newest = {gap.source: gap for gap in self.gaps.values() if not gap.is_repeated}
        return {source: gap for source, gap in newest.items() if not gap.passed}

    def open_runs(self, source: TopicPartition) -> tuple[Run, ...]:
        """Return the runs of the chunk that is still being filled, as far as the position speaks of them."""
        position = self.positions.get(source)
        if position is None:
            return ()
        chunk = self.chunks.get(source, {}).get(position.chunk)
        return runs_before(chunk.runs(), position.upstream) if chunk else ()

    def chunk_before(self, source: TopicPartition, upstream: int) -> tuple[int, tuple[Run, ...]]:
        """Return the chunk that is open again, and what is left in it, once the copy goes back to ``upstream``.

        With it and that position written, all that the map says of later offsets is forgotten; so runs stay in order
        although the copy goes over the same upstream offsets a second time.
        """
        position, chunks = self.positions[source], self.chunks.get(source, {})
        for number in sorted((one for one in chunks if one <= position.chunk), reverse=True):
            runs = runs_before(chunks[number].runs(), min(upstream, position.upstream))
            if runs:
                return number, runs
        return 0, ()

    def offset_map(self, source: TopicPartition) -> OffsetMap | None:
        """Return the exact offset map of ``source``, or None when nothing of it was copied, or that cannot be told.

        Of what was written ahead of the position the last commit, perhaps never finished, may be wrong: it is left out.
        """
        position = self.positions.get(source)
        if position is None or any(each.source == source for each in self.unread.values()):
            return None
        chunks = self.chunks.get(source, {})
        runs = Runs(chunks[number] for number in sorted(chunks) if number <= position.chunk)
        return OffsetMap(
            position.origin,
            position.complete,
            runs.before(position.upstream),
            position.upstream,
            position.downstream,
            tuple(sparse_map for _, sparse_map in sorted(self.sparse_maps.get(source, {}).items())),
            is_pruned=min(chunks, default=0) > 0,
        )

    def dead_chunks(self, source: TopicPartition, target_start: int) -> DeadChunks | None:
        """Return the chunks of which the target, whose log begins at ``target_start``, has nothing any more.

        A position that they speak of, on either side, leads a reader before the log; without them it leads to what is
        left. The last chunk that begins before the log is kept: by it a reader at the log's start is led back. The
        chunk that is still being filled is never among them. None if there are none.
        """
        position = self.positions[source]
        known = sorted(self.chunks.get(source, {}).items())
        dead = tuple(
            number
            for (number, _), (following, chunk) in pairwise(known)
            if following <= position.chunk and chunk.downstream < target_start
        )
        return DeadChunks(position.incarnation, dead) if dead else None


def _keep(known: dict[K, V], key: K, value: V | None) -> None:
    if value is None:
        known.pop(key, None)
    else:
        known[key] = value


@cache
def _names(kind: type) -> frozenset[str]:
    return frozenset(each.name for each in fields(kind)) - {"unknown"}


def _known(kind: type, content: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a value that a class knows; the others as its ``unknown``, if it keeps them."""
    names = _names(kind)
    if "incarnation" in names and _INCARNATION in content:
        content = {name: value for name, value in content.items() if name != _INCARNATION} | {
            "incarnation": content[_INCARNATION]
        }
    known = {name: value for name, value in content.items() if name in names}
    more = {name: value for name, value in content.items() if name not in names}
    if kind is Gap and known.setdefault("kind", GapKind.SKIPPED) not in set(GapKind):
        more["kind"], known["kind"] = known["kind"], GapKind.OTHER
    if kind is Gap:
        known["kind"] = GapKind(known["kind"])
    return known | ({"unknown": _compact(more).decode()} if more and kind in (Gap, Position) else {})


def _unknown(fields: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(fields or "{}")
    return found


def _unread(names: Any, problem: str) -> Unread:
    match names:
        case [str(kind), str(topic), int(partition), *_] if kind in _VITAL:
            return Unread(kind, problem, TopicPartition(topic, partition))
        case [str(kind), *_]:
            return Unread(kind, problem)
    return Unread("without a kind", problem)


def _quota_key(entity: Any, limit: str) -> QuotaKey:
    return QuotaKey(tuple((kind, name) for kind, name in entity), limit)


def _record(key: list[Any], value: dict[str, Any]) -> StateRecord:
    return _compact(key), _compact(value)


def _compact(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
