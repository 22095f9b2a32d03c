"""Verifying a flow: what its state topic says was copied, put before the judge of content equivalence.

Invariants:

(a) The source side of ``mirror verify`` is read with the flow's isolation level, so that what the flow was told to
    leave out is not missed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path

from mirror.atomic_file import write_atomically
from mirror.config.errors import ConfigError
from mirror.config.settings import ClusterSettings, FlowSettings
from mirror.control.flow_log import FlowLog
from mirror.control.liveness import LivenessWatch, is_engine_running
from mirror.engine.mirrors import Mirrors
from mirror.kafka.answers import Found
from mirror.kafka.channel import EARLIEST, LATEST, Channel, View
from mirror.kafka.cluster import Cluster
from mirror.model.absences import absences
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.progress import Watch, nobody
from mirror.model.state_record import state_topic
from mirror.model.translation import Exact
from mirror.proof.comparison import Equivalence
from mirror.proof.equivalence import verify
from mirror.proof.left_out import LeftOut
from mirror.proof.outside import Found as FoundOutside
from mirror.proof.outside import Outside, Seen, late_of, look_outside
from mirror.proof.pairs import PartitionPair
from mirror.proof.verified_ranges import Logs, Memory, updated
from mirror.recovery.compared_pair import Compacted, Looked, is_read_committed, pair_of
from mirror.recovery.parked_records import parked_contents
from mirror.recovery.removed_copies import RemovedCopies
from mirror.recovery.shared_copies import mirrored_by_other_flows, shared_copies
from mirror.recovery.uncompared import (
    begin_of,
    held_back,
    judged,
    left_by_java,
    nothing_to_compare,
    recreated,
    uncopied,
    undecided,
)
from mirror.recovery.verify_memory import clusters_of, recalled_from, with_memory
from mirror.spark import spark_asked, spark_session
from mirror.waiting import WaitTimeout, wait_until

# An engine records what it has copied once a second, and passes by what others have written within some seconds.
_RECORD_SECONDS = 20.0
# So often logs may lose their beginning while they are read before it is reported that they were not compared.
_LOOKS = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """What of a flow is to be compared.

    Attributes
    ----------
    pairs
        the ranges of both sides; what is remembered of them is known to hold.
    logs
        which logs they are of, by source partition.
    memory
        what was remembered before, of these two clusters.
    outside
        where, of each pair, the copy is looked at outside of the range.
    left_out
        what is not compared.
    uncopied
        how many offsets lie behind the ranges on the source, by partition.
    state
        of the flow, as it was read after the ends of the copies were.
    is_running
        whether an engine copied then: the comparison may take longer than one that runs is ever silent.
    nothing
        why there is nothing to compare, if ``left_out`` does not tell.
    """

    pairs: list[PartitionPair]
    logs: Mapping[TopicPartition, Logs]
    memory: Memory
    outside: list[Outside]
    left_out: list[LeftOut]
    uncopied: Mapping[TopicPartition, int]
    state: FlowState
    is_running: bool
    nothing: str | None = None


@spark_asked("comparing the copies")
def verify_flow(
    settings: FlowSettings,
    clusters: Mapping[str, ClusterSettings],
    flows: Sequence[FlowSettings] = (),
    *,
    remember: Path | None = None,
    others_write: bool = False,
    watch: Watch = nobody,
) -> Equivalence:
    """Compare every mirrored partition with its copy, up to the position the target has on record now.

    A flow may run meanwhile: what it copies later is not compared. The copy is looked at up to its end all the same:
    what others have written behind the last copied record is extra. Whatever is not compared is named, with the reason
    (`Equivalence.left_out`). Heartbeats are left out: their topic is compacted on both sides at different times, so
    that records lack on either without having been lost. What gaps on record say that the copy lacks is counted by
    itself, if it is so, and what one side of a compacted topic lacks because its log cleaner has removed it. The copies
    of other flows in a topic that is mirrored both ways, or among several clusters, under one name are passed over;
    ``flows`` are all the enabled ones of the file. What producers of the target wrote is extra, unless others may write
    to the copy (`shared_copies`), or ``others_write`` says that they may write to all under such names.

    What was found equal is written to the file ``remember``, and of what an earlier run has written there only the
    parked records are looked at again.

    Raises
    ------
    ConfigError
        if the file to remember in cannot be used.
    KafkaProblem
        if a cluster does not answer.
    SparkDidNotStart, SparkFailed
        if Spark is not available, or is lost.
    """
    recalled = None if remember is None else recalled_from(remember, settings)
    plan = plan_pairs(settings, clusters, flows, recalled, others_write=others_write)
    if recalled is not None and recalled.entries and clusters_of(recalled) != clusters_of(plan.memory):
        raise ConfigError(
            remember,
            None,
            None,
            f"it is about {settings.flow} between two other clusters ({' and '.join(clusters_of(recalled))}; "
            f"now {' and '.join(clusters_of(plan.memory))}): remember in another file, or delete this one",
        )
    if not plan.pairs:
        return Equivalence((), left_out=tuple(plan.left_out), nothing=plan.nothing)
    spark = spark_session("verify")

    def plan_anew(memory: Memory) -> Plan:
        return plan_pairs(settings, clusters, flows, memory, others_write=others_write)

    def compare(pairs: Sequence[PartitionPair]) -> Equivalence:
        with tempfile.TemporaryDirectory(prefix="mirror-verify-") as directory:
            return verify(spark, pairs, Path(directory), watch)

    plan, found = _compared(plan, compare, plan_anew)
    if remember is not None:
        memory = updated(plan.memory, plan.logs, zip(plan.pairs, found.partitions, strict=True))
        write_atomically(remember, memory.as_text())

    def look(places: Sequence[Outside]) -> list[FoundOutside]:
        return look_outside(spark, places, watch)

    seen = look(plan.outside)
    if plan.is_running:
        seen = _once_recorded(settings, clusters, plan, seen, look)
    partitions, left_out = [], plan.left_out
    java = cache(lambda: left_by_java(settings, clusters, plan.state))
    for compared, pair, outside, what in zip(found.partitions, plan.pairs, plan.outside, seen, strict=True):
        partition, more = judged(
            settings, plan.state, compared, (pair, outside, what), java, is_running=plan.is_running
        )
        partitions.append(partition)
        left_out += more
    return replace(found, partitions=tuple(partitions), left_out=tuple(left_out), uncopied=plan.uncopied)


def _compared(
    plan: Plan,
    compare: Callable[[Sequence[PartitionPair]], Equivalence],
    plan_anew: Callable[[Memory], Plan],
    looks: int = _LOOKS,
) -> tuple[Plan, Equivalence]:
    """Compare what is planned; return the plan that was carried out, and what was found.

    Where a log began later before it was read, by retention perhaps, that is planned anew, from where it begins now;
    of what was found equal by its batches nothing is read again. A difference that was found stays one: behind it there
    is no other look, nor where that would leave out a partition.
    """
    found = compare(plan.pairs)
    results = list(zip(plan.pairs, found.partitions, strict=True))
    unread = {pair.source.partition: pair for pair, result in results if result.problem is not None}
    if unread and looks > 1 and not any(result.differs for _, result in results):
        anew = plan_anew(updated(plan.memory, plan.logs, results))
        is_whole = {pair.source.partition for pair, _ in results} <= {pair.source.partition for pair in anew.pairs}
        if is_whole and any(_begins_later(pair, unread.get(pair.source.partition)) for pair in anew.pairs):
            return _compared(anew, compare, plan_anew, looks - 1)
    return plan, found


def _begins_later(pair: PartitionPair, before: PartitionPair | None) -> bool:
    return before is not None and (pair.source.start > before.source.start or pair.target.start > before.target.start)


def _once_recorded(
    settings: FlowSettings,
    clusters: Mapping[str, ClusterSettings],
    plan: Plan,
    seen: Sequence[FoundOutside],
    look: Callable[[Sequence[Outside]], list[FoundOutside]],
) -> list[FoundOutside]:
    """Return what was seen outside with what the running engine has recorded of its own since.

    What it had on its way when the copies were looked at is on record soon after, or its position passes it by: then it
    is there twice.

    Raises
    ------
    KafkaProblem
        if the target does not answer.
    """
    own = {
        pair.source.partition: found
        for pair, found in zip(plan.pairs, seen, strict=True)
        if found.own_behind.records and not plan.state.positions[pair.source.partition].settled
    }
    if not own:
        return list(seen)
    ends = {source: max(found.own_behind.end, found.late_behind.end) for source, found in own.items()}
    log = FlowLog(clusters[settings.flow.target].client, state_topic(settings.flow.source), alias=settings.flow.target)

    def is_recorded(state: FlowState, source: TopicPartition) -> bool:
        position = state.positions.get(source)
        is_same = position is not None and position.incarnation == plan.state.positions[source].incarnation
        return is_same and position is not None and position.downstream >= ends[source]

    try:
        with suppress(WaitTimeout):
            wait_until(
                log.poll,
                "the engine to record what it has copied",
                timeout_seconds=_RECORD_SECONDS,
                until=lambda state: all(is_recorded(state, source) for source in own),
            )
        maps = {source: log.offset_map(source) for source in own if is_recorded(log.state, source)}
    finally:
        log.close()
    twice = {
        source: [
            Outside(place.wanted, (0, 0), stretch, place.writers)
            for stretch in known.runs.not_copied(place.behind[0], ends[source])
        ]
        for pair, place in zip(plan.pairs, plan.outside, strict=True)
        for source in (pair.source.partition,)
        if (known := maps.get(source)) is not None
    }
    looked_at = iter(look([each for places in twice.values() for each in places]))
    late = {source: tuple(islice(looked_at, len(places))) for source, places in twice.items()}
    return [
        replace(
            found,
            own_behind=Seen(),
            late_behind=late_of(late[source]),
            problem=next((each.problem for each in (found, *late[source]) if each.problem is not None), None),
        )
        if source in late
        else found
        for pair, found in zip(plan.pairs, seen, strict=True)
        for source in (pair.source.partition,)
    ]


def plan_pairs(
    settings: FlowSettings,
    clusters: Mapping[str, ClusterSettings],
    flows: Sequence[FlowSettings] = (),
    recalled: Memory | None = None,
    *,
    others_write: bool = False,
) -> Plan:
    """Return the ranges to compare: from where both sides still have their records, to the recorded position.

    Of topics that the flow does not copy any more nothing is compared.

    The source is read as the flow reads it: where that leaves aborted records out, they lack nowhere (REC-08).
    """
    flow = settings.flow
    source_client, target_client = clusters[flow.source].client, clusters[flow.target].client
    log = FlowLog(target_client, state_topic(flow.source), alias=flow.target)
    source, target = Channel(flow.source, source_client), Channel(flow.target, target_client)
    try:
        state = log.poll()
        copied, starts, left_out = _chosen(settings, state, source, target)
        mirrors, (mirrored, unknown), ids, compacted, absent = _looked_up(settings, clusters, flows, copied)
        left_out += _never_copied(settings, source, [each for each in absent if each not in state.positions])
        memory = Memory(str(flow), *ids, recalled.entries if recalled else {})
        copy_starts = target.offsets(copied.values(), EARLIEST)
        # Whoever wrote before these ends, and what was recorded of it, stands in what is read of the state after them.
        seen_to = target.offsets(copied.values(), LATEST)
        # What is read as committed is read up to the first transaction that is open.
        committed = {copy for each, copy in copied.items() if is_read_committed(state, mirrors.flow_back(each.topic))}
        looked_to = seen_to | (target.offsets(committed, LATEST, View.STABLE) if committed else {})
        state, liveness = LivenessWatch().look(log.observe)
        is_running = is_engine_running(state.run, liveness)
        if not is_running:
            left_out += undecided(settings, looked_to, seen_to)
        ends, copy_ends = source.offsets(copied, LATEST), target.offsets(copied.values(), LATEST)
        declared = {partition: absences(state, partition) for partition in copied}
        shared = shared_copies(
            settings,
            flows,
            state,
            copied,
            mirrors,
            {each.topic for each in copied.values()} if others_write else mirrored,
        )
        looked = Looked(
            *(settings, source_client, target_client, state, mirrors, compacted, shared, unknown),
            *(declared, parked_contents(target, flow.source, declared), ends, copy_ends),
        )
        pairs, outside = [], []
        logs = {}
        removed = RemovedCopies(flow, source, target, mirrors.written_back)
        for partition, copy in copied.items():
            offset_map = log.offset_map(partition)
            if offset_map is None:
                why = state.stops.get(partition, "the flow has forgotten it meanwhile")
                left_out.append(
                    LeftOut(flow.source, partition, starts[partition], ends[partition], None, why, is_unchecked=True)
                )
                continue
            anew = recreated(flow, partition, state.positions[partition], source.topic_id(partition.topic))
            start, copy_start = starts[partition], copy_starts[copy]
            head = None if anew else removed.of(partition, copy, offset_map, start, copy_start)
            begin = begin_of(
                settings, partition, copy, offset_map, start, copy_start, is_recreated=bool(anew), removed=head
            )
            left_out += begin.left_out
            pair = pair_of(looked, partition, copy, offset_map, begin, anew)
            logs[partition] = Logs(
                copy.topic,
                source.topic_id(partition.topic),
                target.topic_id(copy.topic),
                state.positions[partition].incarnation,
                pair.source.read_committed,
                pair.target.read_committed,
            )
            entry = memory.entries.get(partition)
            if entry is not None:
                first = offset_map.runs.first
                translated = offset_map.translate(begin.upstream)
                is_cut = isinstance(translated, Exact) and translated.downstream < begin.downstream
                lost = is_cut or (offset_map.is_pruned and first is not None and first.upstream > begin.upstream)
                pair = with_memory(pair, entry, logs[partition], (source, target), lost=lost)
            pairs.append(pair)
            end = max(pair.target.end, copy_starts[copy])
            behind = end, max(looked_to[copy], end)
            before = (0, 0) if pair.is_shared else begin.before
            outside.append(Outside(pair.target, before, behind, frozenset(state.writers)))
        reached = {pair.source.partition: pair.source.end for pair in pairs}
        left_out += held_back(settings, state, reached, ends)
        nothing = nothing_to_compare(flow, [*copied, *absent], left_out)
        return Plan(pairs, logs, memory, outside, left_out, uncopied(state, reached, ends), state, is_running, nothing)
    finally:
        log.close()
        source.close()
        target.close()


def _chosen(
    settings: FlowSettings, state: FlowState, source: Channel, target: Channel
) -> tuple[dict[TopicPartition, TopicPartition], dict[TopicPartition, int], list[LeftOut]]:
    """Return what is compared, each with its copy, where each log begins, and what is left out.

    A partition of which one cluster does not tell, for want of a leader, keeps nobody from comparing the others.

    Raises
    ------
    KafkaProblem
        if a cluster does not answer.
    """
    flow = settings.flow
    copies = {
        partition: TopicPartition(position.target or settings.copy_of(partition.topic), partition.partition)
        for partition, position in sorted(state.positions.items())
    }
    why = {}
    for partition in copies:
        if not settings.replicates(partition.topic):
            why[partition] = f"the flow does not copy {partition.topic} any more"
        elif settings.policy.is_heartbeats_topic(partition.topic):
            why[partition] = "heartbeats are not compared"
    starts = source.offsets_once_led([each for each in copies if each not in why], EARLIEST)
    gone = source.absent(starts.problems)
    why |= {each: f"{each} is not on {flow.source} any more" for each in gone}
    copies_untold = target.offsets_once_led([copies[each] for each in starts], EARLIEST).problems
    unchecked = {each: str(problem) for each, problem in starts.problems.items() if each not in gone}
    unchecked |= {each: str(copies_untold[copies[each]]) for each in starts if copies[each] in copies_untold}
    left_out = [
        LeftOut(flow.target, copies[each], 0, end, None, reason, is_unchecked=each in unchecked)
        for each, reason in sorted((why | unchecked).items())
        # Nothing is copied of it yet: that may be since one of its two leaders is missing.
        if (end := state.positions[each].downstream) or each in unchecked
    ]
    return {each: copy for each, copy in copies.items() if each not in why | unchecked}, starts, left_out


def _never_copied(settings: FlowSettings, source: Channel, partitions: Sequence[TopicPartition]) -> list[LeftOut]:
    """Return those of the partitions that have records: the flow is to copy them, and has no position of them."""
    starts, ends = source.offsets(partitions, EARLIEST), source.offsets(partitions, LATEST)
    reason = "the flow is to copy it, and has no position on record: none of it was compared"
    return [
        LeftOut(settings.flow.source, each, starts[each], ends[each], None, reason, is_unchecked=True)
        for each in partitions
        if starts[each] < ends[each]
    ]


def _looked_up(
    settings: FlowSettings,
    clusters: Mapping[str, ClusterSettings],
    flows: Sequence[FlowSettings],
    copied: Mapping[TopicPartition, TopicPartition],
) -> tuple[Mirrors, tuple[frozenset[str], tuple[str, ...]], tuple[str, str], Compacted, list[TopicPartition]]:
    """Look both clusters up.

    Returns
    -------
    what the flow leaves out of its source, as it is known there now; the topics of the target that others mirror to,
    and what is not known of that; the clusters' ids; what is compacted; the partitions that the flow is to copy and
    that are not among ``copied``.
    """
    flow = settings.flow
    with Cluster.connect(clusters[flow.source]) as source, Cluster.connect(clusters[flow.target]) as target:
        with closing(Mirrors(settings, flows or (settings,), target.cluster_id)) as mirrors:
            topics = source.topics()
            mirrors.look(topics if mirrors.is_concerned and copied else ())
        others = [
            partition
            for name, topic in sorted(topics.items())
            if settings.replicates(name) and not settings.policy.is_heartbeats_topic(name)
            for partition in topic.topic_partitions
            if partition not in copied
        ]
        ids = source.cluster_id, target.cluster_id
        on_target = target.topics() if mirrors.is_concerned else ()
        mirrored = mirrored_by_other_flows(settings, clusters[flow.target], source.cluster_id, on_target)
        return mirrors, mirrored, ids, _compacted(source, target, copied), others


def _compacted(source: Cluster, target: Cluster, copied: Mapping[TopicPartition, TopicPartition]) -> Compacted:
    """Return what is compacted; where that cannot be known, every record that a side lacks counts as a difference."""
    policies = {
        cluster: _policies(cluster, names)
        for cluster, names in (
            (source, {partition.topic for partition in copied}),
            (target, {copy.topic for copy in copied.values()}),
        )
    }
    sides, notes = {}, {}
    for partition, copy in copied.items():
        asked = (source, partition.topic), (target, copy.topic)
        found = tuple("compact" in policies[cluster].get(topic, "") for cluster, topic in asked)
        if any(found):
            sides[partition] = found[0], found[1]
        unknown = [
            f"whether {topic} is compacted on {cluster.alias} is not known ({policies[cluster].problems[topic]}): what "
            "its log cleaner has removed there is missing, or extra"
            for cluster, topic in asked
            if topic in policies[cluster].problems
        ]
        if unknown:
            notes[partition] = tuple(unknown)
    return Compacted(sides, notes)


def _policies(cluster: Cluster, topics: Collection[str]) -> Found[str, str]:
    """Return how topics are cleaned up."""
    found = cluster.topic_configs(topics)
    policies = {
        topic: next((each.value or "" for each in entries if each.name == "cleanup.policy"), "")
        for topic, entries in found.items()
    }
    return Found(policies, found.problems)
