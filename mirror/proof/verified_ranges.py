"""What ``mirror verify --remember`` keeps between two runs: up to where each partition was found equal.

Logs only grow, so what was compared need not be compared again, as long as they are still the logs that were compared:
of the same topics, the last batches compared still in their places, and copied in the same incarnation. What a log
cleaner has removed since of what was equal is no difference; where it came by the last batches compared, all is
compared anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from mirror.model.partition import TopicPartition
from mirror.model.stretches import Stretch, united
from mirror.model.verdict import Verdict
from mirror.proof.comparison import PartitionEquivalence
from mirror.proof.pairs import Amount, Mark, PartitionPair, Remembered

FORMAT = "mirror verify 1"


class NotRemembered(ValueError):
    """A text that is not what ``mirror verify`` has written; the message says why."""


@dataclass(frozen=True, slots=True)
class Logs:
    """Which logs a partition and its copy are, and how they are read.

    Attributes
    ----------
    topic_id, remote_topic_id
        topics that were created anew have others.
    incarnation
        how many times the copy has gone back, or begun anew.
    committed, remote_committed
        whether the records of aborted transactions are left out.
    """

    remote_topic: str
    topic_id: str
    remote_topic_id: str
    incarnation: int
    committed: bool
    remote_committed: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """What was found equal of one partition.

    Attributes
    ----------
    upstream_start, upstream_end, downstream_end
        where the comparison began and ended.
    absent
        what was said to be absent from the copy, in upstream offsets.
    records, size_bytes, foreign
        how much it was; records that were absent from the copy, or cleaned there, do not count.
    last, remote_last
        the last batches compared.
    """

    logs: Logs
    upstream_start: int
    upstream_end: int
    downstream_end: int
    absent: tuple[Stretch, ...]
    records: int
    size_bytes: int
    foreign: int
    last: Mark
    remote_last: Mark

    def remembered(self, pair: PartitionPair) -> Remembered:
        """Return what is remembered of a pair; of records that the source has no more nothing is."""
        records = min(self.records, pair.runs.records_between(pair.source.start, self.upstream_end))
        size_bytes = self.size_bytes * records // self.records if self.records else 0
        return Remembered(
            self.upstream_end,
            self.downstream_end,
            Amount(records, size_bytes),
            self.foreign,
            self.last,
            self.remote_last,
        )


@dataclass(frozen=True, slots=True)
class Memory:
    """What is remembered of one flow between two clusters."""

    flow: str
    source_id: str
    target_id: str
    entries: Mapping[TopicPartition, Entry]

    def as_text(self) -> str:
        """Return the content of the file; `parse` undoes it."""
        partitions = [
            {"topic": source.topic, "partition": source.partition, **_content(entry)}
            for source, entry in sorted(self.entries.items())
        ]
        document = {
            "format": FORMAT,
            "flow": self.flow,
            "source_id": self.source_id,
            "target_id": self.target_id,
            "partitions": partitions,
        }
        return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def parse(text: str) -> Memory:
    """Read the content of a file.

    Raises
    ------
    NotRemembered
        if it is damaged, or something else.
    """
    try:
        document = json.loads(text)
    except ValueError as problem:
        raise NotRemembered(f"it is no JSON: {problem}") from problem
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise NotRemembered(f'it has no "format": "{FORMAT}"')
    try:
        entries = {
            TopicPartition(_text(each, "topic"), _number(each, "partition")): _entry(each)
            for each in document["partitions"]
        }
        flow, source_id, target_id = (_text(document, name) for name in ("flow", "source_id", "target_id"))
        return Memory(flow, source_id, target_id, entries)
    except (KeyError, TypeError, ValueError) as problem:
        raise NotRemembered(f"it is damaged: {type(problem).__name__}: {problem}") from problem


def _content(entry: Entry) -> dict[str, Any]:
    logs = asdict(entry.logs)
    return asdict(entry) | {"logs": {"turn" if name == "incarnation" else name: logs[name] for name in logs}}


def _entry(content: Mapping[str, Any]) -> Entry:
    logs = content["logs"]
    return Entry(
        Logs(
            remote_topic=_text(logs, "remote_topic"),
            topic_id=_text(logs, "topic_id"),
            remote_topic_id=_text(logs, "remote_topic_id"),
            incarnation=_number(logs, "turn"),
            committed=bool(logs["committed"]),
            remote_committed=bool(logs["remote_committed"]),
        ),
        upstream_start=_number(content, "upstream_start"),
        upstream_end=_number(content, "upstream_end"),
        downstream_end=_number(content, "downstream_end"),
        absent=tuple((int(start), int(end)) for start, end in content["absent"]),
        records=_number(content, "records"),
        size_bytes=_number(content, "size_bytes"),
        foreign=_number(content, "foreign"),
        last=Mark(*map(int, content["last"])),
        remote_last=Mark(*map(int, content["remote_last"])),
    )


def _text(content: Mapping[str, Any], name: str) -> str:
    value = content[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}")
    return value


def _number(content: Mapping[str, Any], name: str) -> int:
    value = content[name]
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}")
    return value


def misfit(entry: Entry, logs: Logs, pair: PartitionPair, *, lost: bool) -> str | None:
    """Return why what is remembered says nothing of a pair any more; None if it does, as far as can be known by this.

    Parameters
    ----------
    logs
        which logs the pair is of now.
    lost
        whether the target has nothing any more of the first records that are to be compared.
    """
    start, end = pair.source.start, entry.upstream_end
    if entry.logs != logs:
        return "the topics, the copy, or how they are read are not what they were"
    if not entry.upstream_start <= start < end <= pair.source.end or entry.downstream_end > pair.target.end:
        return f"offsets {entry.upstream_start} to {end} were compared, and {start} to {pair.source.end} are to be"
    if lost:
        return f"the copy has lost what it had from {start} on"
    if united(entry.absent, start, end) != united(pair.absent, start, end):
        return "other records are said to be absent"
    if entry.foreign and not pair.is_shared:
        return f"{entry.foreign} records of others were counted as foreign, and others may not write to this copy"
    return None


def updated(
    memory: Memory, logs: Mapping[TopicPartition, Logs], compared: Iterable[tuple[PartitionPair, PartitionEquivalence]]
) -> Memory:
    """Return what is to be remembered after a comparison: all of a pair that is equal; else what was before."""
    entries = {}
    for pair, result in compared:
        source = pair.source.partition
        before = memory.entries.get(source) if pair.remembered is not None else None
        entry = _found(pair, result, logs[source], before) or before
        if entry is not None:
            entries[source] = entry
    return replace(memory, entries=entries)


def _found(pair: PartitionPair, result: PartitionEquivalence, logs: Logs, before: Entry | None) -> Entry | None:
    """Return what a comparison has found of a pair; None if that is nothing to be relied on."""
    how = result.compared
    last = how.last or (before.last if before else None)
    remote_last = how.target_last or (before.remote_last if before else None)
    if result.verdict is not Verdict.PASS or not how.is_by_batches or last is None or remote_last is None:
        return None
    return Entry(
        logs,
        pair.source.start,
        pair.source.end,
        pair.target.end,
        united(pair.absent, pair.source.start, pair.source.end),
        result.records - sum(each.records or 0 for each in result.absences) - result.cleaned.target,
        how.by_bytes.size_bytes + how.by_record.size_bytes + how.remembered.size_bytes,
        result.foreign,
        last,
        remote_last,
    )
