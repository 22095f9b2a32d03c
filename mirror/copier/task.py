"""A copy task as a Spark worker runs it: get ready, copy for an epoch, hand back what stands."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mirror.copier import links, resume
from mirror.copier.lane import Lane
from mirror.copier.links import Cluster, Writer
from mirror.copier.loop import CopyLoop
from mirror.copier.resume import Ends, NotYet, Ready, Refused
from mirror.copier.syncs import PartitionSyncs
from mirror.copier.transactions import Transactions
from mirror.copier.work import FlowWork, PartitionResult, PartitionWork, Slot, SlotEnd, TaskResult, TaskWork
from mirror.kafka.batch import CorruptBatch
from mirror.kafka.channel import EARLIEST, LATEST, BrokerRefused, Channel, ConnectionFailed, LeaderUnknown, View
from mirror.kafka.log import LogWriter, read_batches
from mirror.model.flow import Flow
from mirror.model.flow_state import StateRecord, writer_record
from mirror.model.partition import TopicPartition
from mirror.waiting import WaitTimeout, wait_until

_REPLICATION_SECONDS = 0.5


def copy(work: TaskWork) -> TaskResult:
    """Copy the partitions of ``work`` for an epoch.

    Whatever goes wrong with a partition or a cluster comes back as a value; other partitions are copied all the same.
    """
    cpu, began = time.process_time(), time.monotonic()
    clusters = {
        (flow.flow, side): links.cluster(alias, client)
        for flow in work.flows
        for side, alias, client in (
            ("source", flow.flow.source, flow.source_client),
            ("target", flow.flow.target, flow.target_client),
        )
    }
    shares = [_open(flow, [one for one in work.partitions if one.flow == flow.flow], clusters) for flow in work.flows]
    lanes = [lane for share in shares for lane in share.lanes]
    transactions = {share.flow: share.transactions for share in shares if share.transactions}
    loop = CopyLoop(work.flows, clusters, transactions)
    if lanes:
        loop.run(lanes, max(0.0, work.seconds - (time.monotonic() - began)), work.commit_seconds)
    troubles = loop.troubles()
    slots = {flow.flow: _leave(flow.slot, transactions.get(flow.flow)) for flow in work.flows if flow.slot}
    results = [
        replace(result, trouble=result.trouble or troubles.get(result.flow))
        for share in shares
        for result in [*share.idle, *_close(share, clusters[share.flow, "target"])]
    ]
    return TaskResult(
        tuple(results),
        {share.flow: frozenset([share.writer.producer.producer_id]) for share in shares if share.writer},
        time.process_time() - cpu,
        time.monotonic() - began,
        slots,
    )


@dataclass(frozen=True, slots=True)
class _Share:
    """One flow's part of the task: as whom it is written, what is copied, and what is not and why."""

    flow: Flow
    writer: Writer | None
    lanes: list[Lane]
    idle: list[PartitionResult]
    skipped_by_match: dict[TopicPartition, int]
    transactions: Transactions | None = None


def _leave(slot: Slot, transactions: Transactions | None) -> SlotEnd:
    return transactions.end() if transactions else SlotEnd(slot.sequences)


def _open(flow: FlowWork, partitions: list[PartitionWork], clusters: dict[tuple[Flow, str], Cluster]) -> _Share:
    """Make lanes of what can be copied; the rest comes back as results that say why not."""
    source, target = clusters[flow.flow, "source"], clusters[flow.flow, "target"]
    transactions = Transactions(flow, flow.slot, target) if flow.slot else None
    try:
        writer = transactions.writer if transactions else target.writer(flow.flow)
        places = _find_places(flow, partitions, source, target)
        if transactions:
            # What is written down about the partitions goes into the first transaction, or a fenced task could add it.
            places = {source: _unrecorded(place) for source, place in places.items()}
        records: list[StateRecord] = []
        if writer.producer.producer_id not in flow.writers:
            records.append(writer_record(writer.producer.producer_id, int(time.time() * 1000)))
        for place in places.values():
            if isinstance(place, Ready):
                records += place.records
        # Who writes, and from where, stands on the target before the first batch does.
        _write_state(flow, records)
    except (ConnectionFailed, LeaderUnknown, BrokerRefused) as problem:
        idle = [PartitionResult(flow.flow, one.source, one.handover, trouble=str(problem)) for one in partitions]
        return _Share(flow.flow, None, [], idle, {})
    share = _Share(flow.flow, writer, [], [], {}, transactions)
    for work in partitions:
        match places[work.source]:
            case Ready(handover, _, skipped):
                syncs = PartitionSyncs(work.source, flow.offset_lag_max) if flow.syncs_topic else None
                sequence = writer.sequence(work.target)
                lane = Lane(work, handover, writer.producer, sequence, syncs, transactions)
                if transactions:
                    transactions.serve(lane)
                share.lanes.append(lane)
                share.skipped_by_match[work.source] = skipped
            case NotYet(reason):
                share.idle.append(PartitionResult(flow.flow, work.source, work.handover, trouble=reason))
            case Refused(reason):
                share.idle.append(PartitionResult(flow.flow, work.source, work.handover, stopped=reason))
    return share


def _close(share: _Share, target: Cluster) -> list[PartitionResult]:
    """Return how the lanes ended; where their producer stands is remembered if it is certain."""
    results = []
    for lane in share.lanes:
        assert share.writer is not None
        share.writer.keep_sequence(lane.work.target, lane.acknowledged_sequence)
        result = replace(lane.result(), skipped_by_match=share.skipped_by_match[lane.work.source])
        if not share.transactions and (result.handover is None or not result.handover.clean):
            target.retire_writer(share.flow)
        results.append(result)
    return results


def _unrecorded(place: Ready | NotYet | Refused) -> Ready | NotYet | Refused:
    """Leave it to the lane to write down what there is to write down."""
    if not isinstance(place, Ready) or not place.records:
        return place
    handover = replace(place.handover, is_recorded=False, unwritten=place.records)
    return replace(place, handover=handover, records=())


def _find_places(
    flow: FlowWork, partitions: Sequence[PartitionWork], source: Cluster, target: Cluster
) -> dict[TopicPartition, Ready | NotYet | Refused]:
    """Find out where to begin with each partition, by source partition."""
    places: dict[TopicPartition, Ready | NotYet | Refused] = {}
    unknown: list[PartitionWork] = []
    for work in partitions:
        refused = resume.changed_topic(work)
        if refused:
            places[work.source] = refused
        elif work.handover is not None and work.handover.clean:
            places[work.source] = Ready(work.handover)
        else:
            unknown.append(work)
    ends = _look_up(flow, unknown, source, target)
    for work in unknown:
        found = ends[work.source]
        if isinstance(found, NotYet):
            places[work.source] = found
        elif work.handover is None:
            places[work.source] = resume.begin(work, flow, found)
        else:
            places[work.source] = _resume(flow, work, found, source.channel(), target.channel())
    return places


def _resume(
    flow: FlowWork, work: PartitionWork, ends: Ends, source: Channel, target: Channel
) -> Ready | NotYet | Refused:
    assert work.handover is not None
    old = work.handover.position
    is_decided = flow.slot is not None and old.atomic
    try:
        return resume.resume(
            work,
            work.handover,
            ends,
            flow.writers.__contains__,
            read_batches(
                source,
                work.source,
                max(old.upstream, ends.source_start),
                ends.source_end,
                read_committed=flow.read_committed,
            ),
            # Behind a position that was committed with its records lies nothing of ours but what was aborted.
            ()
            if is_decided
            else read_batches(target, work.target, max(old.downstream, ends.target_start), ends.target_end),
        )
    except (LeaderUnknown, BrokerRefused, ConnectionFailed) as problem:
        return NotYet(str(problem))
    except CorruptBatch as problem:
        return Refused(f"what lies on the target cannot be compared with the source: {problem}")


def _look_up(
    flow: FlowWork, partitions: Sequence[PartitionWork], source: Cluster, target: Cluster
) -> dict[TopicPartition, Ends | NotYet]:
    """Return where the logs begin and end, with a few requests for all partitions, by source partition."""
    if not partitions:
        return {}
    sources, targets = [one.source for one in partitions], [one.target for one in partitions]
    visible = View.STABLE if flow.read_committed else View.VISIBLE
    source_starts, no_source_start = source.ask(lambda channel: channel.find_offsets(sources, EARLIEST))
    source_ends, no_source_end = source.ask(lambda channel: channel.find_offsets(sources, LATEST, visible))
    target_starts, no_target_start = target.ask(lambda channel: channel.find_offsets(targets, EARLIEST))
    written, no_target_end = target.ask(lambda channel: channel.find_offsets(targets, LATEST, View.WRITTEN))
    replicated = _replicated(target, written)
    ends: dict[TopicPartition, Ends | NotYet] = {}
    for one in partitions:
        problem = (
            no_source_start.get(one.source)
            or no_source_end.get(one.source)
            or no_target_start.get(one.target)
            or no_target_end.get(one.target)
        )
        if problem or one.target not in replicated:
            ends[one.source] = NotYet(str(problem or f"{flow.flow.target}: {one.target} has no leader"))
        else:
            ends[one.source] = Ends(
                source_starts[one.source],
                source_ends[one.source],
                target_starts[one.target],
                replicated[one.target],
                written[one.target],
            )
    return ends


def _replicated(target: Cluster, written: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the ends that readers see, once they see all that was written up to now, or after a short while."""

    def look() -> dict[TopicPartition, int]:
        return target.ask(lambda channel: channel.find_offsets(written, LATEST))[0]

    try:
        return wait_until(
            look,
            "replication of what was written",
            timeout_seconds=_REPLICATION_SECONDS,
            until=lambda seen: all(seen.get(partition, end) >= end for partition, end in written.items()),
        )
    except WaitTimeout:
        return look()


def _write_state(flow: FlowWork, records: Sequence[StateRecord]) -> None:
    if not records:
        return
    now = int(time.time() * 1000)
    writer = LogWriter(flow.target_client, alias=flow.flow.target)
    try:
        writer.append(flow.state_topic, 0, [(key, value, (), now) for key, value in records])
    finally:
        writer.close()
