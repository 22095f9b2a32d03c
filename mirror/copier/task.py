"""A copy task as a Spark worker runs it: get ready, copy for an epoch, hand back what stands."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing, nullcontext
from dataclasses import replace

from mirror.copier import links
from mirror.copier.epoch_channel import EpochChannelListener
from mirror.copier.links import ClusterLinks, Silences
from mirror.copier.loop import CopyLoop
from mirror.copier.placing import always
from mirror.copier.share import Share
from mirror.copier.transactions import Transactions
from mirror.copier.work import PartitionResult, Slot, SlotEnd, TaskResult, TaskWork, Throttled
from mirror.model.flow import Flow

# What is asked of the clusters on either side of a flow.
_PURPOSES = {"source": "fetch", "target": "produce"}


def copy(work: TaskWork) -> TaskResult:
    """Copy the partitions of ``work`` for an epoch.

    Whatever goes wrong with a partition or a cluster comes back as a value; other partitions are copied all the same.
    """
    return heard_by_driver(work, lambda epoch_channel: _copy(work, epoch_channel))


def heard_by_driver(work: TaskWork, act: Callable[[EpochChannelListener | None], TaskResult]) -> TaskResult:
    """Do it with the connection to the driver, if the work names one; nothing is begun where that is gone."""
    try:
        epoch_channel = EpochChannelListener.answered(work.epoch_channel) if work.epoch_channel else None
    except OSError as problem:
        # Whoever sent this task is gone; its successor may be at work.
        trouble = f"the driver cannot be reached from its task: {problem}"
        left = [PartitionResult(one.flow, one.source, one.handover, trouble=trouble) for one in work.partitions]
        return TaskResult(tuple(left))
    with nullcontext() if epoch_channel is None else closing(epoch_channel):
        return act(epoch_channel)


def _copy(work: TaskWork, epoch_channel: EpochChannelListener | None) -> TaskResult:
    began = time.monotonic()
    clusters = {
        (flow.flow, side): links.cluster(alias, client)
        for flow in work.flows
        for side, alias, client in (
            ("source", flow.flow.source, flow.source_client),
            ("target", flow.flow.target, flow.target_client),
        )
    }
    silences = _silences(clusters)
    before = epoch_channel.require if epoch_channel is not None else always
    shares = [
        Share(flow, [one for one in work.partitions if one.flow == flow.flow], clusters, before) for flow in work.flows
    ]
    transactions = {share.flow: share.transactions for share in shares if share.transactions}
    loop = CopyLoop(work.flows, clusters, transactions)
    try:
        if work.partitions:
            left = max(0.0, work.seconds - (time.monotonic() - began))
            loop.run(shares, left, work.commit_seconds, epoch_channel, reports_copied=work.reports_copied)
    finally:
        loop.close()
    troubles = loop.troubles()
    slots = {flow.flow: _leave(flow.slot, transactions.get(flow.flow)) for flow in work.flows if flow.slot}
    results = [
        replace(
            result,
            trouble=result.trouble or troubles.get(result.flow),
            leader_alone=clusters[result.flow, "source"].leader_alone(result.source),
        )
        for share in shares
        for result in share.close()
    ]
    now = _silences(clusters)
    throttled = {
        flow.flow: Throttled(*(_longest_ms(now[flow.flow, side], silences[flow.flow, side]) for side in _PURPOSES))
        for flow in work.flows
    }
    return TaskResult(tuple(results), throttled, slots)


def _silences(clusters: Mapping[tuple[Flow, str], ClusterLinks]) -> dict[tuple[Flow, str], Silences]:
    """Return for how many seconds so far quotas of each flow's clusters have held back each connection to them."""
    now = time.monotonic()
    return {(flow, side): each.silences(now, _PURPOSES[side]) for (flow, side), each in clusters.items()}


def _longest_ms(now: Silences, before: Silences) -> int:
    return round(1000 * max((seconds - before.get(place, 0.0) for place, seconds in now.items()), default=0.0))


def _leave(slot: Slot, transactions: Transactions | None) -> SlotEnd:
    return transactions.end() if transactions else SlotEnd(slot.sequences)
