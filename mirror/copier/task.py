"""A copy task as a Spark worker runs it: get ready, copy for an epoch, hand back what stands."""

from __future__ import annotations

import time
from dataclasses import replace

from mirror.copier import links
from mirror.copier.lane import Lane
from mirror.copier.loop import CopyLoop
from mirror.copier.resume import Ready, Refused, prepare
from mirror.copier.syncs import PartitionSyncs
from mirror.copier.work import FlowWork, PartitionResult, PartitionWork, TaskResult, TaskWork
from mirror.kafka.channel import BrokerRefused, ConnectionFailed, LeaderUnknown
from mirror.kafka.log import LogWriter
from mirror.model.flow import Flow
from mirror.model.flow_state import StateRecord, writer_record


def copy(work: TaskWork) -> TaskResult:
    """Copy the partitions of ``work`` for an epoch.

    Whatever goes wrong with a partition or a cluster comes back as a value; other partitions are copied all the same.
    """
    cpu, began = time.process_time(), time.monotonic()
    flows = {flow.flow: flow for flow in work.flows}
    clusters = {
        (flow.flow, side): links.cluster(alias, client)
        for flow in work.flows
        for side, alias, client in (
            ("source", flow.flow.source, flow.source_client),
            ("target", flow.flow.target, flow.target_client),
        )
    }
    lanes: list[Lane] = []
    results: list[PartitionResult] = []
    matched: dict[tuple[Flow, object], int] = {}
    writers: set[int] = set()
    for flow in work.flows:
        partitions = [one for one in work.partitions if one.flow == flow.flow]
        opened, idle, used = _open(flow, partitions, clusters)
        results += idle
        for lane, skipped in opened:
            lanes.append(lane)
            matched[flow.flow, lane.work.source] = skipped
        writers |= used
    loop = CopyLoop(work.flows, clusters)
    if lanes:
        loop.run(lanes, max(0.0, work.seconds - (time.monotonic() - began)), work.commit_seconds)
    for lane in lanes:
        result = lane.result()
        results.append(replace(result, skipped_by_match=matched[lane.work.flow, lane.work.source]))
        target = clusters[lane.work.flow, "target"]
        target.keep_sequence(lane.work.target, lane.acknowledged_sequence)
        if result.handover is None or not result.handover.clean:
            target.retire_producer()
    troubles = loop.troubles()
    return TaskResult(
        tuple(
            replace(result, trouble=result.trouble or troubles.get(result.flow)) if result.flow in flows else result
            for result in results
        ),
        frozenset(writers),
        time.process_time() - cpu,
        time.monotonic() - began,
    )


def _open(
    flow: FlowWork, partitions: list[PartitionWork], clusters: dict[tuple[Flow, str], links.Cluster]
) -> tuple[list[tuple[Lane, int]], list[PartitionResult], set[int]]:
    """Make lanes of what can be copied; the rest comes back as results that say why not."""
    source, target = clusters[flow.flow, "source"], clusters[flow.flow, "target"]
    idle: list[PartitionResult] = []
    ready: list[tuple[PartitionWork, Ready]] = []
    records: list[StateRecord] = []
    try:
        source_channel, target_channel = source.channel(), target.channel()
        producer = target.producer()
        if producer.producer_id not in flow.writers:
            records.append(writer_record(producer.producer_id, int(time.time() * 1000)))
        for work in partitions:
            try:
                outcome = prepare(work, flow, source_channel, target_channel)
            except (LeaderUnknown, BrokerRefused) as problem:
                idle.append(PartitionResult(flow.flow, work.source, work.handover, trouble=str(problem)))
                continue
            if isinstance(outcome, Refused):
                idle.append(PartitionResult(flow.flow, work.source, work.handover, stopped=outcome.reason))
            else:
                ready.append((work, outcome))
                records += outcome.records
        if records:
            # Who writes, and from where, stands on the target before the first batch does.
            writer = LogWriter(flow.target_client, alias=flow.flow.target)
            now = int(time.time() * 1000)
            writer.append(flow.state_topic, 0, [(key, value, (), now) for key, value in records])
            writer.close()
    except (ConnectionFailed, LeaderUnknown, BrokerRefused) as problem:
        done = {result.source for result in idle}
        untouched = [
            PartitionResult(flow.flow, work.source, work.handover, trouble=str(problem))
            for work in partitions
            if work.source not in done
        ]
        return [], [*idle, *untouched], set()
    opened = [
        (
            Lane(work, outcome.handover, producer, target.sequence(work.target), _syncs_of(flow, work)),
            outcome.skipped_by_match,
        )
        for work, outcome in ready
    ]
    return opened, idle, {producer.producer_id}


def _syncs_of(flow: FlowWork, work: PartitionWork) -> PartitionSyncs | None:
    return PartitionSyncs(work.source, flow.offset_lag_max) if flow.syncs_topic else None
