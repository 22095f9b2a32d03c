"""Verifying a flow: what its state topic says was copied, put before the judge of content equivalence."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from mirror.config.settings import ClusterSettings, FlowSettings
from mirror.control.flow_log import FlowLog
from mirror.engine.mirrors import Mirrors
from mirror.engine.parked_records import parked_contents
from mirror.kafka.channel import EARLIEST, Channel
from mirror.kafka.cluster import Cluster
from mirror.model.absences import absences
from mirror.model.flow_state import state_topic
from mirror.model.partition import TopicPartition
from mirror.model.translation import Exact
from mirror.proof.equivalence import Equivalence, PartitionPair, verify
from mirror.proof.log_reader import LogRange
from mirror.spark import spark_session


def verify_flow(
    settings: FlowSettings, clusters: Mapping[str, ClusterSettings], flows: Sequence[FlowSettings] = ()
) -> Equivalence:
    """Compare every mirrored partition with its copy, up to the position the target has on record now.

    A flow may run meanwhile: what it copies later is not looked at. Heartbeats are left out: their topic is compacted
    on both sides at different times, so that records lack on either without having been lost. What the gap ledger says
    that the copy lacks is counted by itself, if it is so. Left out too are the copies of
    other flows in a topic that is mirrored both ways, or among several clusters, under one name; ``flows`` are all the
    enabled ones of the file.

    Raises
    ------
    ConnectionFailed, BrokerRefused, LeaderUnknown
        if a cluster does not answer.
    """
    pairs = plan_pairs(settings, clusters, flows)
    if not pairs:
        return Equivalence(())
    with tempfile.TemporaryDirectory(prefix="mirror-verify-") as directory:
        return verify(spark_session("verify"), pairs, Path(directory))


def plan_pairs(
    settings: FlowSettings, clusters: Mapping[str, ClusterSettings], flows: Sequence[FlowSettings] = ()
) -> list[PartitionPair]:
    """Return the ranges to compare: from where both sides still have their records, to the recorded position.

    Of topics that the flow does not copy any more nothing is compared.

    The source is read as the flow reads it: where that leaves aborted records out, they lack nowhere (REC-08).
    """
    flow, policy = settings.flow, settings.policy
    source_client, target_client = clusters[flow.source].client, clusters[flow.target].client
    log = FlowLog(target_client, state_topic(flow.source), alias=flow.target)
    source, target = Channel(flow.source, source_client), Channel(flow.target, target_client)
    try:
        state = log.poll()
        copied = {
            partition: TopicPartition(settings.copy_of(partition.topic), partition.partition)
            for partition in sorted(state.positions)
            if settings.replicates(partition.topic) and not policy.is_heartbeats_topic(partition.topic)
        }
        mirrors = _mirrors(settings, clusters, flows, copied)
        starts, copy_starts = source.offsets(copied, EARLIEST), target.offsets(copied.values(), EARLIEST)
        said = {partition: absences(state, partition) for partition in copied}
        parked = parked_contents(target, flow.source, said)
        pairs = []
        for partition, copy in copied.items():
            offset_map = log.offset_map(partition)
            if offset_map is None or offset_map.runs.first is None:
                continue
            start = max(offset_map.origin, starts[partition])
            translated = offset_map.translate(start)
            copy_start = translated.downstream if isinstance(translated, Exact) else offset_map.runs.first.downstream
            pairs.append(
                PartitionPair(
                    LogRange(
                        flow.source,
                        source_client,
                        partition,
                        start,
                        offset_map.upstream_next,
                        read_committed=settings.isolation_level == "read_committed",
                        transform=settings.transform_of(partition.topic),
                        left_out=frozenset[int]().union(
                            *(
                                mirrors.known[name].writers
                                for name in mirrors.left_out(partition.topic)
                                if name in mirrors.known
                            )
                        ),
                    ),
                    LogRange(
                        flow.target,
                        target_client,
                        copy,
                        max(copy_start, copy_starts[copy]),
                        offset_map.downstream_next,
                        # What the flow itself has aborted is not part of the copy (EOS-09).
                        read_committed=bool(state.transactional_ids),
                    ),
                    offset_map.runs,
                    frozenset(state.writers),
                    is_shared=not policy.can_detect_cycles
                    or copy.topic != policy.format_remote_topic(flow.source, partition.topic),
                    absences=said[partition],
                    parked=parked.get(partition, {}),
                )
            )
        return pairs
    finally:
        log.close()
        source.close()
        target.close()


def _mirrors(
    settings: FlowSettings,
    clusters: Mapping[str, ClusterSettings],
    flows: Sequence[FlowSettings],
    copied: Collection[TopicPartition],
) -> Mirrors:
    """Return what the flow leaves out of its source, as it is known there now."""
    flow = settings.flow
    with Cluster.connect(clusters[flow.source]) as source, Cluster.connect(clusters[flow.target]) as target:
        mirrors = Mirrors(settings, flows or (settings,), target.cluster_id)
        try:
            mirrors.look(source.topics() if mirrors.is_concerned and copied else ())
        finally:
            mirrors.close()
    return mirrors
