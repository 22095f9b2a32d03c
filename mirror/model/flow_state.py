"""What a flow knows of itself, as records of its compacted state topic ``mm2-state.<source>.internal`` on the target.

Keys are JSON arrays whose first element says what the record is; values are JSON objects. The newest record of a key
counts. The name of the topic matches MirrorMaker 2's default excludes, so no flow ever mirrors it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from mirror.model.offset_map import OffsetMap, Run, runs_before
from mirror.model.partition import TopicPartition

RUNS_PER_CHUNK = 256

# (key, value) of one record of the state topic.
StateRecord: TypeAlias = tuple[bytes, bytes]


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
    topic_id
        the source topic's id when it was copied; another id means the topic was created anew.
    atomic
        whether it was committed in one transaction with the records before it: then nothing of this flow lies behind
        it but what was aborted.
    """

    upstream: int
    downstream: int
    origin: int
    complete: bool
    chunk: int = 0
    topic_id: str = ""
    atomic: bool = False

    def record(self, source: TopicPartition) -> StateRecord:
        """Return the record that keeps this position of ``source``."""
        value = {
            "upstream": self.upstream,
            "downstream": self.downstream,
            "origin": self.origin,
            "complete": self.complete,
            "chunk": self.chunk,
            "topic_id": self.topic_id,
            "atomic": self.atomic,
        }
        return _record(["position", source.topic, source.partition], value)


@dataclass(frozen=True, slots=True)
class Gap:
    """Upstream offsets that were gone before they could be copied: from ``start`` up to, not including, ``end``."""

    source: TopicPartition
    start: int
    end: int
    reason: str
    found_at_ms: int

    def record(self) -> StateRecord:
        """Return the record that keeps this gap."""
        value = {"end": self.end, "reason": self.reason, "found_at_ms": self.found_at_ms}
        return _record(["gap", self.source.topic, self.source.partition, self.start], value)


@dataclass(frozen=True, slots=True)
class RunReport:
    """What the engine last said of the flow: when, and what is wrong with it, if anything."""

    state: str
    reasons: tuple[str, ...]
    at_ms: int

    def record(self) -> StateRecord:
        """Return the record that keeps this report."""
        return _record(["run"], {"state": self.state, "reasons": list(self.reasons), "at_ms": self.at_ms})


def chunk_record(source: TopicPartition, chunk: int, runs: Iterable[Run]) -> StateRecord:
    """Return the record that keeps one chunk of the offset map of ``source``."""
    return _record(["runs", source.topic, source.partition, chunk], {"runs": [list(run) for run in runs]})


def writer_record(producer_id: int, since_ms: int) -> StateRecord:
    """Return the record that registers a producer id as one of this flow's writers."""
    return _record(["writer", producer_id], {"since_ms": since_ms})


def transactional_id_record(transactional_id: str, since_ms: int) -> StateRecord:
    """Return the record that registers a transactional id before its first use: whoever takes over must fence it."""
    return _record(["transactional_id", transactional_id], {"since_ms": since_ms})


def claim_record(engine: str, since_ms: int) -> StateRecord:
    """Return the record that says which engine runs the flow from now on: the last one to say so."""
    return _record(["claim"], {"engine": engine, "since_ms": since_ms})


@dataclass(slots=True)
class FlowState:
    """The state topic folded: the newest of everything. Filled by :meth:`apply`, in the order of the log."""

    positions: dict[TopicPartition, Position] = field(default_factory=dict)
    chunks: dict[TopicPartition, dict[int, tuple[Run, ...]]] = field(default_factory=dict)
    writers: set[int] = field(default_factory=set)
    gaps: dict[tuple[TopicPartition, int], Gap] = field(default_factory=dict)
    transactional_ids: set[str] = field(default_factory=set)
    claim: str | None = None
    run: RunReport | None = None

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Take in one record of the state topic.

        Raises
        ------
        ValueError
            if it is none that this version writes.
        """
        if key is None or value is None:
            raise ValueError("a record of the state topic has no key or no value")
        try:
            self._apply(json.loads(key), json.loads(value))
        except (KeyError, TypeError, ValueError) as problem:
            raise ValueError(f"unknown record {key!r} in the state topic: {problem}") from problem

    def _apply(self, key: Any, content: Any) -> None:
        match key:
            case ["position", topic, partition]:
                self.positions[TopicPartition(topic, partition)] = Position(**content)
            case ["runs", topic, partition, chunk]:
                runs = tuple(Run(*numbers) for numbers in content["runs"])
                self.chunks.setdefault(TopicPartition(topic, partition), {})[chunk] = runs
            case ["writer", producer_id]:
                self.writers.add(producer_id)
            case ["gap", topic, partition, start]:
                source = TopicPartition(topic, partition)
                self.gaps[source, start] = Gap(source, start, **content)
            case ["transactional_id", transactional_id]:
                self.transactional_ids.add(transactional_id)
            case ["claim"]:
                self.claim = content["engine"]
            case ["run"]:
                self.run = RunReport(content["state"], tuple(content["reasons"]), content["at_ms"])
            case _:
                raise ValueError("no such kind of record")

    def open_runs(self, source: TopicPartition) -> tuple[Run, ...]:
        """Return the runs of the chunk that is still being filled, as far as the position speaks of them."""
        position = self.positions.get(source)
        if position is None:
            return ()
        return runs_before(self.chunks.get(source, {}).get(position.chunk, ()), position.upstream)

    def offset_map(self, source: TopicPartition) -> OffsetMap | None:
        """Return the exact offset map of ``source``, or None when nothing of it was ever copied.

        Of what was written ahead of the position the last commit, perhaps never finished, may be wrong: it is left out.
        """
        position = self.positions.get(source)
        if position is None:
            return None
        chunks = self.chunks.get(source, {})
        runs = (run for number in sorted(chunks) if number <= position.chunk for run in chunks[number])
        return OffsetMap(
            position.origin,
            position.complete,
            runs_before(runs, position.upstream),
            position.upstream,
            position.downstream,
        )


def _record(key: list[Any], value: dict[str, Any]) -> StateRecord:
    return _compact(key), _compact(value)


def _compact(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
