"""What a flow knows of itself, as records of its compacted state topic ``mm2-state.<source>.internal`` on the target.

Keys are JSON arrays whose first element says what the record is; values are JSON objects. The newest record of a key
counts. The name of the topic matches MirrorMaker 2's default excludes, so no flow ever mirrors it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

from mirror.model.acl import Acl, QuotaKey
from mirror.model.leader_epochs import EpochEnd
from mirror.model.mm2_trace import Pair
from mirror.model.offset_map import Chunk, OffsetMap, Run, Runs, Sketch, runs_before
from mirror.model.partition import TopicPartition

RUNS_PER_CHUNK = 256

K = TypeVar("K")
V = TypeVar("V")

# (key, value) of one record of the state topic; without a value it says that the record of that key is gone.
StateRecord: TypeAlias = tuple[bytes, bytes | None]


def state_topic(source_alias: str) -> str:
    """Return the name of the state topic on the target; like MM2's own names it always uses dots (DED-05)."""
    return f"mm2-state.{source_alias}.internal"


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
    turn
        how many times the copy has gone back, or begun anew: chunks of another turn are not this one's.
    left_out
        how many of the source's records before it were not copied because other flows have mirrored them there.
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
    turn: int = 0
    left_out: int = 0
    settled: bool = False

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
            "turn": self.turn,
            "left_out": self.left_out,
            "settled": self.settled,
        }
        return _record(["position", source.topic, source.partition], value)


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

    @property
    def key(self) -> GapKey:
        """Return what tells it from every other gap of the flow."""
        return self.source, self.start, self.found_at_ms

    @property
    def count(self) -> int:
        """Return how many offsets it spans: no fewer than the records missing."""
        return self.end - self.start

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
        return _record(["gap", *self.source, self.start, self.found_at_ms], value)


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
    """What the engine last said of the flow: when, what is wrong with it, if anything, and what else is to be known."""

    state: str
    reasons: tuple[str, ...]
    at_ms: int
    notes: tuple[str, ...] = ()

    def record(self) -> StateRecord:
        """Return the record that keeps this report."""
        value = {"state": self.state, "reasons": list(self.reasons), "at_ms": self.at_ms, "notes": list(self.notes)}
        return _record(["run"], value)


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


def sketch_record(source: TopicPartition, sketch: Sketch) -> StateRecord:
    """Return the record that keeps a stretch of the offset map that is known by offset syncs only."""
    value = {
        "end": sketch.end,
        "downstream_start": sketch.downstream_start,
        "downstream_end": sketch.downstream_end,
        "pairs": [list(pair) for pair in sketch.pairs],
    }
    return _record(["sketch", source.topic, source.partition, sketch.start], value)


def chunk_record(source: TopicPartition, chunk: int, runs: Iterable[Run]) -> StateRecord:
    """Return the record that keeps one chunk of the offset map of ``source``."""
    return _compact(["runs", source.topic, source.partition, chunk]), Chunk.of(runs).content


def no_chunk_record(source: TopicPartition, chunk: int) -> StateRecord:
    """Return the record that forgets one chunk of the offset map of ``source``."""
    return _compact(["runs", source.topic, source.partition, chunk]), None


def writer_record(producer_id: int, since_ms: int) -> StateRecord:
    """Return the record that registers a producer id as one of this flow's writers."""
    return _record(["writer", producer_id], {"since_ms": since_ms})


def source_record(cluster_id: str) -> StateRecord:
    """Return the record that says which cluster the flow copies from: aliases may differ from file to file."""
    return _record(["source"], {"cluster_id": cluster_id})


def transactional_id_record(transactional_id: str, since_ms: int) -> StateRecord:
    """Return the record that registers a transactional id before its first use: whoever takes over must fence it."""
    return _record(["transactional_id", transactional_id], {"since_ms": since_ms})


def claim_record(engine: str, since_ms: int) -> StateRecord:
    """Return the record that says which engine runs the flow from now on: the last one to say so."""
    return _record(["claim"], {"engine": engine, "since_ms": since_ms})


def acl_record(acl: Acl, origin: Acl | None) -> StateRecord:
    """Return the record that this flow has created ``acl`` on the target because of ``origin``, on the source.

    With None: it is not this flow's, or not there, any more.
    """
    return _record(["acl", *acl.key], {"origin": None if origin is None else origin.key})


def quota_record(key: QuotaKey, value: float | None) -> StateRecord:
    """Return the record that this flow has set a quota on the target; None: that it has removed it, or gives it up."""
    return _record(["quota", [list(part) for part in key.entity], key.limit], {"value": value})


@dataclass(frozen=True, slots=True)
class DeadChunks:
    """Chunks of the offset map that may be forgotten, if the copy has not gone back since: ``turn`` is the position's.

    Only who copies the partition writes its chunks, so that none is forgotten that was just written anew.
    """

    turn: int
    chunks: tuple[int, ...]


@dataclass(slots=True)
class FlowState:
    """The state topic folded: the newest of everything. Filled by :meth:`apply`, in the order of the log."""

    positions: dict[TopicPartition, Position] = field(default_factory=dict)
    chunks: dict[TopicPartition, dict[int, Chunk]] = field(default_factory=dict)
    writers: set[int] = field(default_factory=set)
    gaps: dict[GapKey, Gap] = field(default_factory=dict)
    acknowledgements: dict[GapKey, Acknowledgement] = field(default_factory=dict)
    sketches: dict[TopicPartition, dict[int, Sketch]] = field(default_factory=dict)
    takeovers: dict[TopicPartition, Takeover] = field(default_factory=dict)
    transactional_ids: set[str] = field(default_factory=set)
    acls: dict[Acl, Acl] = field(default_factory=dict)
    quotas: dict[QuotaKey, float] = field(default_factory=dict)
    claim: str | None = None
    source_id: str = ""
    foreign: dict[tuple[TopicPartition, int], ForeignWriter] = field(default_factory=dict)
    run: RunReport | None = None

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Take in one record of the state topic.

        Raises
        ------
        ValueError
            if it is none that this version writes.
        """
        if key is None:
            raise ValueError("a record of the state topic has no key")
        try:
            self._apply_chunk(json.loads(key), value)
        except (KeyError, TypeError, ValueError) as problem:
            raise ValueError(f"unknown record {key!r} in the state topic: {problem}") from problem

    def _apply_chunk(self, key: Any, value: bytes | None) -> None:
        match key:
            case ["runs", topic, partition, chunk] if value is None:
                self.chunks.get(TopicPartition(topic, partition), {}).pop(chunk, None)
            case ["foreign", topic, partition, producer_id] if value is None:
                self.foreign.pop((TopicPartition(topic, partition), producer_id), None)
            case ["runs", topic, partition, chunk] if value is not None:
                self.chunks.setdefault(TopicPartition(topic, partition), {})[chunk] = Chunk.parse(value)
            case _ if value is None:
                raise ValueError("it has no value")
            case _:
                self._apply(key, json.loads(value))

    def _apply(self, key: Any, content: Any) -> None:
        match key:
            case ["position", topic, partition]:
                epochs = tuple(EpochEnd(*numbers) for numbers in content["epochs"])
                self.positions[TopicPartition(topic, partition)] = Position(**(content | {"epochs": epochs}))
            case ["writer", producer_id]:
                self.writers.add(producer_id)
            case ["gap", topic, partition, start, found_at_ms]:
                source, kind = TopicPartition(topic, partition), GapKind(content["kind"])
                gap = Gap(source, start, found_at_ms=found_at_ms, **(content | {"kind": kind}))
                self.gaps[gap.key] = gap
            case ["acknowledged", topic, partition, start, found_at_ms]:
                key = TopicPartition(topic, partition), start, found_at_ms
                self.acknowledgements[key] = Acknowledgement(**content)
            case ["sketch", topic, partition, start]:
                pairs = tuple(Pair(*numbers) for numbers in content["pairs"])
                sketch = Sketch(start, **(content | {"pairs": pairs}))
                self.sketches.setdefault(TopicPartition(topic, partition), {})[start] = sketch
            case ["takeover", topic, partition]:
                source = TopicPartition(topic, partition)
                self.takeovers[source] = Takeover(source, **content)
            case ["transactional_id", transactional_id]:
                self.transactional_ids.add(transactional_id)
            case ["foreign", topic, partition, producer_id]:
                copy = TopicPartition(topic, partition)
                self.foreign[copy, producer_id] = ForeignWriter(copy, producer_id, **content)
            case ["source"]:
                self.source_id = content["cluster_id"]
            case ["claim"]:
                self.claim = content["engine"]
            case ["run"]:
                notes = tuple(content.get("notes", ()))
                self.run = RunReport(content["state"], tuple(content["reasons"]), content["at_ms"], notes)
            case ["acl", *names]:
                _keep(self.acls, Acl.of_key(names), content["origin"] and Acl.of_key(content["origin"]))
            case ["quota", entity, limit]:
                _keep(self.quotas, QuotaKey(tuple((kind, name) for kind, name in entity), limit), content["value"])
            case _:
                raise ValueError("no such kind of record")

    @property
    def open_gaps(self) -> list[Gap]:
        """Return the gaps that nobody has acknowledged, in order."""
        return [self.gaps[key] for key in sorted(self.gaps) if key not in self.acknowledgements]

    @property
    def barriers(self) -> dict[TopicPartition, Gap]:
        """Return the gap before which the copy of a partition has stopped, by source.

        A gap that was found later and is passed says that the copy has gone on.
        """
        newest: dict[TopicPartition, Gap] = {}
        for gap in self.gaps.values():
            if gap.source not in newest or gap.found_at_ms >= newest[gap.source].found_at_ms:
                newest[gap.source] = gap
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
        """Return the exact offset map of ``source``, or None when nothing of it was ever copied.

        Of what was written ahead of the position the last commit, perhaps never finished, may be wrong: it is left out.
        """
        position = self.positions.get(source)
        if position is None:
            return None
        chunks = self.chunks.get(source, {})
        runs = Runs(chunks[number] for number in sorted(chunks) if number <= position.chunk)
        return OffsetMap(
            position.origin,
            position.complete,
            runs.before(position.upstream),
            position.upstream,
            position.downstream,
            tuple(sketch for _, sketch in sorted(self.sketches.get(source, {}).items())),
            is_pruned=min(chunks, default=0) > 0,
        )

    def dead_chunks(self, source: TopicPartition, target_start: int) -> DeadChunks | None:
        """Return the chunks of which the target, whose log begins at ``target_start``, has nothing any more.

        A position that they speak of, on either side, leads a reader before the log; without them it leads to what is
        left. The chunk that is still being filled is never among them. None if there are none.
        """
        position = self.positions[source]
        dead = tuple(
            number
            for number, chunk in sorted(self.chunks.get(source, {}).items())
            if number < position.chunk and chunk.downstream_end <= target_start
        )
        return DeadChunks(position.turn, dead) if dead else None


def _keep(known: dict[K, V], key: K, value: V | None) -> None:
    if value is None:
        known.pop(key, None)
    else:
        known[key] = value


def _record(key: list[Any], value: dict[str, Any]) -> StateRecord:
    return _compact(key), _compact(value)


def _compact(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
