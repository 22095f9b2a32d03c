"""What copies with the source's offsets cost, partition by partition, and what keeps a partition from having them."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from mirror.config.settings import FlowSettings, SameOffsets
from mirror.control.topics import ClusterTopics
from mirror.kafka.channel import EARLIEST, LATEST, Channel, View
from mirror.kafka.log import read_batches
from mirror.kafka.topic_ids import differ
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.same_offsets.chain import markers_transactional_id
from mirror.same_offsets.fillers import PADDING_BYTES, TOMBSTONE_BYTES
from mirror.same_offsets.filling import MANY, Bounds, Refused, may_begin, origin, with_caution

#: Less than half of what was seen on two busy cores, with one broker.
FILLERS_A_SECOND = 1_000_000
_MARKERS_A_SECOND = 50
#: So many of the newest offsets of a partition tell how many have no record, and how large records are.
SAMPLE = 1_000


@dataclass(frozen=True, slots=True)
class Logs:
    """Where the logs of a partition begin and end, and what its newest offsets tell.

    Attributes
    ----------
    share_without_record
        how many of the source's newest offsets have no record, of 1.
    offset_bytes
        the bytes of their batches, for each of these offsets on average.
    """

    source: Bounds
    copy: Bounds
    share_without_record: float
    offset_bytes: float = 0.0

    def to_fill(self, *, is_compacted: bool) -> tuple[int, int]:
        """Return how many offsets of the copy get a record that fills them, and how many a marker."""
        holes = math.ceil(self.share_without_record * (self.source.end - self.source.start))
        to_pad = self.source.start - self.copy.end
        return (to_pad + holes, 0) if is_compacted else (to_pad, holes)


class Begun(NamedTuple):
    """What becomes of a copy that holds something already, and what is to be known of that."""

    action: str
    detail: str


def plan_same_offsets(
    pairs: Mapping[TopicPartition, TopicPartition],
    logs: Mapping[TopicPartition, Logs],
    cleaned: frozenset[str],
    wanted: SameOffsets,
    flow: Flow,
    begun: Mapping[TopicPartition, Begun],
    translated: Container[str] = (),
) -> list[dict[str, str]]:
    """Return a row for each partition: what is to be filled, bytes, minutes, or why it cannot be.

    Parameters
    ----------
    pairs
        partitions of the source and of their copies.
    logs
        by partition of the source; of one that is missing it could not be known.
    cleaned
        names of the copies that are cleaned by key, of :func:`compacted`.
    begun
        the partitions whose copies were begun, of :func:`begun_copies`: what becomes of those that hold anything.
    translated
        the topics of the source whose partitions are translated if they cannot have them.
    """
    rows = []
    for source, copy in sorted(pairs.items()):
        found = logs.get(source)
        if found is None:
            rows.append(_problem(source, f"{source} or {copy} does not tell where its log begins and ends"))
            continue
        if source in begun and found.copy.end > 0:
            rows.append({"partition": str(source), "copy": str(copy), **begun[source]._asdict()})
            continue
        refused = may_begin(found.source, found.copy, wanted.pad_limit)
        if isinstance(refused, Refused):
            action = "translate" if source.topic in translated else "problem"
            # The table names the source's partition; what is to be deleted is the copy.
            keeps_name = copy.topic == source.topic
            reason = with_caution(refused.reason, found.copy, flow.source, keeps_name=keeps_name)
            detail = f"{copy} on {flow.target}: {reason}"
            rows.append({"partition": str(source), "action": action, "detail": detail})
            continue
        rows.append(_cost(source, copy, found, is_compacted=copy.topic in cleaned))
    return rows


def needed_rights(flow: Flow, *, pads: bool, writes_many: bool, remakes: bool = False) -> tuple[str, ...]:
    """Say which rights on the target copies with the source's offsets need beside the usual ones.

    ``pads``: a head is filled and removed; ``writes_many``: markers may be written many at once; ``remakes``: copies of
    topics that are created anew are deleted and made anew.
    """
    identity = markers_transactional_id(flow)
    on_copies = " and Delete on the copies whose head is padded" if pads else ""
    if remakes:
        on_copies += "; AlterConfigs, Delete and Create on the copies, to make those of recreated topics anew"
    many = (
        f"{flow.target} lets the flow write many markers at once (Alter on the cluster)"
        if writes_many
        else f"{flow.target} does not let the flow write many markers at once: grant Alter on the cluster, or holes of "
        f"{MANY} offsets and more take an empty transaction for each offset"
    )
    return f"needed on {flow.target}: Write and Describe on the transactional id {identity}{on_copies}", many


def copies_with_same_offsets(upstream: ClusterTopics, settings: FlowSettings) -> dict[TopicPartition, TopicPartition]:
    """Return the partitions whose copies are to have the source's offsets, and those copies."""
    chosen = (name for name in upstream.topics if settings.replicates(name) and settings.pad_limit(name) is not None)
    return {
        TopicPartition(name, each.partition): TopicPartition(settings.copy_of(name), each.partition)
        for name in chosen
        for each in upstream.topics[name].partitions
    }


def begun_copies(
    pairs: Mapping[TopicPartition, TopicPartition],
    upstream: ClusterTopics,
    settings: FlowSettings,
    back: FlowSettings | None,
    positions: Mapping[TopicPartition, Position],
) -> dict[TopicPartition, Begun]:
    """Return the partitions that are copied to the source's offsets already, by this flow or by the flow ``back``."""
    found = {}
    for source, copy in pairs.items():
        may_be_original = _is_two_way(source, copy, back)
        position = positions.get(source)
        if position is not None and position.same_offsets:
            is_recreated = differ(position.topic_id, upstream.topics[source.topic].topic_id) and not may_be_original
            found[source] = _recreated(source, settings) if is_recreated else Begun("go on", "copied already")
        elif may_be_original:
            is_known = f"once {settings.flow.target}->{settings.flow.source} has copied it to {settings.flow.source}"
            found[source] = Begun("go on", f"{is_known}; else it may be the original, and waits")
    return found


def _is_two_way(source: TopicPartition, copy: TopicPartition, back: FlowSettings | None) -> bool:
    return (
        back is not None and source == copy and back.keeps_name(copy.topic) and back.pad_limit(copy.topic) is not None
    )


def from_origins(
    logs: Mapping[TopicPartition, Logs],
    pairs: Mapping[TopicPartition, TopicPartition],
    upstream: ClusterTopics,
    settings: FlowSettings,
    back: FlowSettings | None,
    positions: Mapping[TopicPartition, Position],
) -> dict[TopicPartition, Logs]:
    """Return logs with the source from where on it is copied: `auto.offset.reset = latest` begins at its end."""
    found = {}
    for source, of_source in logs.items():
        begin, _ = origin(
            of_source.source,
            positions.get(source),
            upstream.topics[source.topic].topic_id,
            from_latest=settings.auto_offset_reset == "latest",
            is_two_way=_is_two_way(source, pairs[source], back),
        )
        found[source] = replace(of_source, source=Bounds(begin, of_source.source.end))
    return found


def _recreated(source: TopicPartition, settings: FlowSettings) -> Begun:
    happened = f"{source.topic} on {settings.flow.source} was deleted and created anew"
    if settings.makes_recreated_anew(source.topic):
        return Begun("make anew", f"{happened}; the copy is deleted, with what it has of the old one")
    return Begun("problem", f"{happened}: delete the copy to have it made anew; until then the partition stops")


def compacted(upstream: ClusterTopics, downstream: ClusterTopics, settings: FlowSettings) -> frozenset[str]:
    """Return the names of copies that are cleaned by key, or will be: one that is to be made gets the source's way."""
    found = set()
    for name in upstream.topics:
        copy = settings.copy_of(name)
        entries = downstream.configs.get(copy) or upstream.configs.get(name) or ()
        if any(each.name == "cleanup.policy" and "compact" in (each.value or "") for each in entries):
            found.add(copy)
    return frozenset(found)


def read_logs(
    pairs: Mapping[TopicPartition, TopicPartition],
    present: Sequence[TopicPartition],
    source: Channel,
    target: Channel,
    *,
    read_committed: bool,
) -> dict[TopicPartition, Logs]:
    """Return what both ends tell; a copy that is not among the ``present`` ones is about to be made, and empty.

    With ``read_committed`` records of aborted transactions are none.

    Raises
    ------
    KafkaProblem
        if a cluster cannot be asked.
    """
    sources, copies = _bounds(source, list(pairs)), _bounds(target, present)
    found = {}
    for original, copy in pairs.items():
        if original in sources and (copy in copies or copy not in present):
            of_source = sources[original]
            sample = _sampled(source, original, of_source, read_committed=read_committed)
            found[original] = Logs(of_source, copies.get(copy, Bounds(0, 0)), *sample)
    return found


def _bounds(channel: Channel, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Bounds]:
    starts = channel.find_offsets(partitions, EARLIEST)
    ends = channel.find_offsets(starts, LATEST)
    return {each: Bounds(starts[each], end) for each, end in ends.items()}


def _sampled(
    channel: Channel, partition: TopicPartition, bounds: Bounds, *, read_committed: bool
) -> tuple[float, float]:
    """Return how many of the newest offsets have no record, of 1, and the bytes of batches for each of them.

    What is in a batch counts as if it were spread evenly.
    """
    # What is behind the start of an open transaction is not decided.
    ends = channel.find_offsets([partition], LATEST, View.STABLE) if read_committed else {}
    end = min(bounds.end, ends.get(partition, bounds.end))
    start = max(bounds.start, end - SAMPLE)
    if start >= end:
        return 0.0, 0.0
    records = size = 0.0
    for content, header in read_batches(channel, partition, start, end, read_committed=read_committed):
        inside = (min(header.next_offset, end) - max(header.base_offset, start)) / (
            header.next_offset - header.base_offset
        )
        records += header.record_count * inside
        size += len(content) * inside
    return max(0.0, 1.0 - records / (end - start)), size / (end - start)


def _cost(source: TopicPartition, copy: TopicPartition, logs: Logs, *, is_compacted: bool) -> dict[str, str]:
    fillers, markers = logs.to_fill(is_compacted=is_compacted)
    size = math.ceil(fillers * (TOMBSTONE_BYTES if is_compacted else PADDING_BYTES))
    seconds = fillers / FILLERS_A_SECOND + markers / _MARKERS_A_SECOND
    return {
        "partition": str(source),
        "copy": str(copy),
        "action": "fill" if fillers or markers else "copy",
        "to pad": f"{logs.source.start - logs.copy.end:,}",
        "bytes": f"{size:,}",
        "markers": f"about {markers:,}" if markers else "none",
        "minutes": f"{seconds / 60:.1f}",
        "detail": "tombstones of a reserved key: the copy is compacted" if is_compacted and fillers else "",
    }


def _problem(source: TopicPartition, reason: str) -> dict[str, str]:
    return {"partition": str(source), "action": "problem", "detail": reason}
