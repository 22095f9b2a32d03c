"""The two ranges of a partition that are compared, and what of the flow's state the comparison goes by."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from mirror.config.settings import FlowSettings
from mirror.engine.mirrors import Mirrors
from mirror.model.absences import Absence
from mirror.model.flow_state import FlowState
from mirror.model.offset_map import OffsetMap
from mirror.model.partition import TopicPartition
from mirror.proof.declared_gaps import ParkedContent
from mirror.proof.log_reader import LogRange
from mirror.proof.pairs import Compaction, PartitionPair
from mirror.recovery.uncompared import Begin, given_up
from mirror.same_offsets.fillers import RESERVED_KEY


@dataclass(frozen=True, slots=True)
class Compacted:
    """Which source partitions, or their copies, are compacted.

    Attributes
    ----------
    sides
        whether the source is, and whether the copy is; partitions of which neither is are not there.
    notes
        of the partitions of which that could not be known.
    """

    sides: Mapping[TopicPartition, tuple[bool, bool]]
    notes: Mapping[TopicPartition, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Looked:
    """What was known of a flow when its ranges were fixed.

    Attributes
    ----------
    source_client, target_client
        how the clusters are reached.
    shared
        the copies that others write to as well.
    unknown
        what is not known of what others mirror to the target, for people.
    declared, parked
        by source partition, the offsets that the state says have no copy, and what of that was parked.
    ends, copy_ends
        where the logs end, by partition of the source and of the copy.
    """

    settings: FlowSettings
    source_client: Mapping[str, str]
    target_client: Mapping[str, str]
    state: FlowState
    mirrors: Mirrors
    compacted: Compacted
    shared: Container[TopicPartition]
    unknown: tuple[str, ...]
    declared: Mapping[TopicPartition, tuple[Absence, ...]]
    parked: Mapping[TopicPartition, Mapping[int, ParkedContent]]
    ends: Mapping[TopicPartition, int]
    copy_ends: Mapping[TopicPartition, int]


def pair_of(
    looked: Looked,
    partition: TopicPartition,
    copy: TopicPartition,
    offset_map: OffsetMap,
    begin: Begin,
    anew: Sequence[str] = (),
) -> PartitionPair:
    """Return the ranges of a partition and of its copy, from where ``begin`` says; ``anew`` are notes on the topic."""
    settings, state, mirrors = looked.settings, looked.state, looked.mirrors
    takeover = state.takeovers.get(partition)
    back = mirrors.flow_back(partition.topic)
    with_keys = partition in looked.compacted.sides
    reserved_key = RESERVED_KEY if offset_map.same_offsets else None
    left_out = (mirrors.known[name].writers for name in mirrors.left_out(partition.topic) if name in mirrors.known)
    return PartitionPair(
        LogRange(
            *(settings.flow.source, looked.source_client, partition, begin.upstream),
            min(offset_map.upstream_next, looked.ends[partition]),
            read_committed=settings.reads_committed,
            transform=settings.transform_of(partition.topic),
            with_keys=with_keys,
            reserved_key=reserved_key,
            left_out=frozenset[int]().union(*left_out),
        ),
        LogRange(
            *(settings.flow.target, looked.target_client, copy, begin.downstream),
            min(offset_map.downstream_next, looked.copy_ends[copy]),
            read_committed=is_read_committed(state, back),
            with_keys=with_keys,
            reserved_key=reserved_key,
        ),
        offset_map.expected_runs,
        # What is copied both ways is there whoever wrote it, at its offset.
        frozenset() if back is not None else frozenset(state.writers),
        is_shared=copy in looked.shared,
        absences=looked.declared[partition],
        parked=looked.parked.get(partition, {}),
        compaction=Compaction(*looked.compacted.sides[partition]) if with_keys else None,
        notes=(*anew, *_notes(looked, partition, copy, offset_map, begin)),
        unmapped=tuple((each.start, each.end) for each in offset_map.sparse_maps),
        own_from=(takeover.downstream or 0) if takeover is not None else 0,
    )


def is_read_committed(state: FlowState, back: FlowSettings | None) -> bool:
    """Tell whether a copy is looked at without what was aborted there, given the flow by which it goes both ways.

    What the flow itself has aborted is not part of the copy (EOS-09), and what applications there have aborted is
    nowhere else if the flow back leaves it out (REC-08).
    """
    return bool(state.transactional_ids) or (back is not None and back.reads_committed)


def _notes(
    looked: Looked, partition: TopicPartition, copy: TopicPartition, offset_map: OffsetMap, begin: Begin
) -> tuple[str, ...]:
    """Return what there is to say of a pair, for people."""
    settings, end, copy_end = looked.settings, looked.ends[partition], looked.copy_ends[copy]
    notes = [*given_up(looked.state, partition, begin.upstream), *looked.compacted.notes.get(partition, ())]
    if not (copy in looked.shared or settings.is_alone(partition.topic)):
        notes += looked.unknown
    if (now_to := settings.copy_of(partition.topic)) != copy.topic:
        message = f"it was copied to {copy.topic}, which is compared; by the settings now it would go to {now_to}"
        notes.append(f"{message}, where nothing of it is")
    # Whatever the map speaks of was there: a log that ends before was cut, or is another one.
    if end < offset_map.upstream_next:
        notes.append(f"{settings.flow.source} ends at {end}, and {offset_map.upstream_next} was copied up to")
    if copy_end < offset_map.downstream_next:
        notes.append(f"the copy ends at {copy_end}, and went on to {offset_map.downstream_next}")
    return tuple(notes)
