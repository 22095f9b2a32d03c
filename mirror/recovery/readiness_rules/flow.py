"""Rules about the flow itself: whether it copies, how far it is behind, and what its copies lack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from mirror.control.flow_status import PartitionStatus
from mirror.control.gaps import iso_time
from mirror.model.counts import counted
from mirror.model.failover import Phase
from mirror.model.partition import TopicPartition
from mirror.recovery.differences import Difference, Impact, Rule
from mirror.recovery.readiness_facts import Configs, Ends, Facts, NotLookedAt, NotSeen, seen
from mirror.recovery.readiness_rules import mends

# From this share of its retention on, an uncopied record is near its deletion.
_NEAR = 0.5
_COPYING = ("RUNNING", "DEGRADED", "PAUSED")
_REPORTED_AS_MOVED = ("failed over: ", "a failover is under way", "a failback is under way")
_REPORTED_BY_OTHERS = " is stopped: ", " in the copy: ", "the oldest unmirrored record of "


def target_away(facts: Facts) -> Iterator[Difference]:
    """Nobody can go on where nobody answers."""
    if isinstance(facts.target, NotSeen):
        what = f"the target cannot be used: {facts.target.reason}"
        yield Difference(Impact.BLOCKS, what, facts.target.where, None, None, facts.target.mend)


def source_away(facts: Facts) -> Iterator[Difference]:
    """Say by itself that the source is away; what needs only the target is judged all the same."""
    seen(facts.source)
    yield from ()


def same_cluster(facts: Facts) -> Iterator[Difference]:
    """A cluster is no standby of itself."""
    source, target = seen(facts.source), seen(facts.target)
    if source.cluster_id == target.cluster_id:
        yield Difference(
            Impact.BLOCKS,
            "source and target are one cluster",
            facts.flow,
            source.cluster_id,
            target.cluster_id,
            f"give the address of another cluster: {target.alias}.bootstrap.servers",
        )


def not_copying(facts: Facts) -> Iterator[Difference]:
    """A flow that no engine leads does not bring anything over (no row: MM2 shows only that its tasks run)."""
    status = seen(facts.status)
    if status.state in _COPYING:
        return
    why = "; ".join(status.reasons)
    mend = f"mirror run {facts.file}"
    if status.state == "STARTING":
        why, mend = "an engine has just begun, and no epoch has reported", mends.mirror(facts, "readiness") + ", again"
    yield Difference(Impact.BLOCKS, f"the flow does not copy: {why}", facts.flow, None, status.state, mend)


def partitions_stopped(facts: Facts) -> Iterator[Difference]:
    """A partition that has stopped falls behind for ever (ERR-07 and others), also one that has no position yet."""
    status = seen(facts.status)
    stopped = {
        TopicPartition(each.topic, each.partition): (_at(each.source_end), f"{each.upstream_next}: {each.stopped}")
        for each in status.partitions
        if each.stopped is not None
    }
    stopped |= {
        each: (None, f"nothing is copied: {status.stops[each]}") for each in _without_position(facts, status.stops)
    }
    for each, (source, target) in stopped.items():
        yield Difference(
            Impact.BLOCKS,
            "copying of a partition has stopped",
            str(each),
            source,
            target,
            f"mirror status {facts.file} says why; at a gap: mirror gaps {facts.file} --topic {each.topic} "
            f"--partition {each.partition} --acknowledge --reason TEXT",
        )


def moved(facts: Facts) -> Iterator[Difference]:
    """A run of the procedure that is on record refuses the next one, and one that is done is failed back first."""
    for each in seen(facts.status).failovers:
        is_done = each.phase is Phase.DONE
        yield Difference(
            Impact.BLOCKS,
            "the flow is failed over already" if is_done else "a failover or failback of the flow is under way",
            each.where,
            None,
            f"{each.mode}, since {iso_time(each.at_ms)}",
            _way_home(facts)
            if is_done
            else f"go on with it by its run directory, or give it up where a new run begins: --give-up {each.run}",
        )


def topics_paused(facts: Facts) -> Iterator[Difference]:
    """What is paused falls behind until somebody resumes it (KIP-875 stops a connector in the same way)."""
    status = seen(facts.status)
    paused = Counter(each.topic for each in status.partitions if each.is_paused)
    mend = _way_home(facts) if status.pauses.is_cut else f"mirror resume {facts.file} --flow '{facts.flow}'"
    for topic, partitions in paused.items():
        yield Difference(
            Impact.LOSES,
            "copying is paused",
            topic,
            None,
            f"{counted(partitions, 'partition')} paused",
            mend,
        )


def flow_troubled(facts: Facts) -> Iterator[Difference]:
    """What the engine complains about, but for what other rules tell partition by partition."""
    status = seen(facts.status)
    if status.state == "DEGRADED":
        for reason in status.reasons:
            if not any(each in reason for each in _REPORTED_BY_OTHERS) and not reason.startswith(_REPORTED_AS_MOVED):
                what = f"the engine complains: {reason}"
                yield Difference(Impact.DEGRADES, what, facts.flow, None, None, f"mirror status {facts.file}")


def behind(facts: Facts) -> Iterator[Difference]:
    """What is not copied is lost with the source, and more of it than the objective allows (KIP-971 asks for it)."""
    for each in _lagging(facts):
        if each.lag_seconds is None or each.lag_seconds > facts.rpo_seconds:
            age = "of unknown age" if each.lag_seconds is None else f"{each.lag_seconds:,.0f} s"
            yield Difference(
                Impact.LOSES,
                f"records that are not copied are older than {facts.rpo_seconds:g} s",
                _named(each),
                f"end {each.source_end}",
                f"copied up to {each.upstream_next}: {counted(each.lag_records or 0, 'record')}, {age}",
                f"wait until mirror status {facts.file} shows less; if it never does, more brokers or tasks: "
                f"{mends.flow_key(facts, 'tasks.max', 'N')}",
            )


def not_begun(facts: Facts) -> Iterator[Difference]:
    """A partition with records of which no position is on record: none of them is known to be copied."""
    source, status, logs = seen(facts.source), seen(facts.status), seen(facts.ends)
    known = {TopicPartition(each.topic, each.partition) for each in status.partitions}
    # Of a flow that has never run that is reported once. Begun at the end, a partition may have no position yet.
    if not has_run(facts) or facts.settings.auto_offset_reset == "latest":
        return
    for topic in facts.copies:
        for partition in source.topics[topic].topic_partitions if topic in source.topics else ():
            count = logs.ends.get(partition, 0) - logs.starts.get(partition, 0)
            if partition not in known and count > 0:
                yield Difference(
                    Impact.LOSES,
                    "nothing of a partition has been copied yet",
                    str(partition),
                    counted(count, "record"),
                    "none",
                    f"where mirror status {facts.file} says why the partition waits, end that; otherwise wait",
                )


def near_deletion(facts: Facts) -> Iterator[Difference]:
    """The source deletes by age or size, and the mirror does not wait for it to be copied (WANT list: retention)."""
    source, logs = seen(facts.source), seen(facts.ends)
    for each in _lagging(facts):
        partition = TopicPartition(each.topic, each.partition)
        start = logs.starts.get(partition)
        if start is not None and start > each.upstream_next:
            yield _cliff(
                facts,
                each,
                "the source has deleted records before they were copied",
                f"begins at {start}",
                f"copied up to {each.upstream_next}",
            )
        elif soon := _deleted_soon(each, source.configs.get(each.topic, {}), logs):
            yield _cliff(facts, each, "records that are not copied are near their deletion on the source", *soon)


def gaps_open(facts: Facts) -> Iterator[Difference]:
    """Records that the copy lacks for good, and that nobody has acknowledged."""
    status = seen(facts.status)
    known = {TopicPartition(each.topic, each.partition): each.gaps for each in status.partitions if each.gaps}
    sources = [gap.source for gap in status.open_gaps]
    known |= {each: sources.count(each) for each in _without_position(facts, sources)}
    for each, count in known.items():
        yield Difference(
            Impact.LOSES,
            "the copy has gaps that nobody has acknowledged",
            str(each),
            None,
            counted(count, "gap"),
            f"mirror gaps {facts.file} --topic {each.topic} --partition {each.partition} lists them",
        )


def gaps_known(facts: Facts) -> Iterator[Difference]:
    """Gaps that somebody has taken as they are."""
    status = seen(facts.status)
    known = Counter(gap.source for gap in status.gaps) - Counter(gap.source for gap in status.open_gaps)
    for source, count in sorted(known.items()):
        yield Difference(
            Impact.COSMETIC,
            "the copy has gaps that were acknowledged",
            str(source),
            None,
            counted(count, "gap"),
            f"none is needed; mirror gaps {facts.file} --topic {source.topic} lists them",
        )


def records_parked(facts: Facts) -> Iterator[Difference]:
    """Records too large for the target lie beside the copy (``mirror.oversized.records = park``, ERR-07)."""
    count = seen(facts.parked)
    if count:
        yield Difference(
            Impact.LOSES,
            "records that the target found too large are parked, not copied",
            str(facts.settings.parked_topic),
            None,
            counted(count, "record"),
            f"raise max.message.bytes of the copies, and bring them back from {facts.settings.parked_topic} by hand",
        )


def foreign_writers(facts: Facts) -> Iterator[Difference]:
    """Who reads the copy gets what the source never had."""
    for each in seen(facts.status).foreign:
        yield Difference(
            Impact.DEGRADES,
            "others than the mirror have written into the copy",
            str(each.copy),
            None,
            f"{counted(each.records, 'record')} from offset {each.first} on, producer id {each.producer_id}",
            f"take the right to write to {each.copy.topic} from everybody but the mirror",
        )


RULES = (
    Rule("target-away", Impact.BLOCKS, target_away),
    Rule("source-away", Impact.LOSES, source_away),
    Rule("same-cluster", Impact.BLOCKS, same_cluster),
    Rule("not-copying", Impact.BLOCKS, not_copying),
    Rule("partition-stopped", Impact.BLOCKS, partitions_stopped),
    Rule("moved", Impact.BLOCKS, moved),
    Rule("paused", Impact.LOSES, topics_paused),
    Rule("flow-troubled", Impact.DEGRADES, flow_troubled),
    Rule("lag", Impact.LOSES, behind),
    Rule("not-begun", Impact.LOSES, not_begun),
    Rule("near-deletion", Impact.LOSES, near_deletion),
    Rule("gaps", Impact.LOSES, gaps_open),
    Rule("gaps-acknowledged", Impact.COSMETIC, gaps_known),
    Rule("records-parked", Impact.LOSES, records_parked),
    Rule("foreign-writers", Impact.DEGRADES, foreign_writers),
)


def lag(facts: Facts) -> tuple[int | None, float | None]:
    """Return how many records are not copied, and how old the oldest of them is; None if that is not known."""
    try:
        late = _lagging(facts)
    except NotLookedAt:
        return None, None
    if not has_run(facts):
        return None, None
    ages = [each.lag_seconds for each in late]
    oldest = None if None in ages else max((age for age in ages if age is not None), default=0.0)
    return sum(each.lag_records or 0 for each in late), oldest


def has_run(facts: Facts) -> bool:
    """Tell whether an engine has ever run the flow."""
    status = seen(facts.status)
    return status.state in _COPYING or bool(status.partitions)


def _lagging(facts: Facts) -> list[PartitionStatus]:
    """Return the partitions with records that are not copied; heartbeats are nobody's records."""
    partitions = [each for each in seen(facts.status).partitions if each.topic in facts.copies]
    if any(each.lag_records is None for each in partitions):
        seen(facts.source)
        raise NotLookedAt(
            NotSeen(
                "how far the copies are behind",
                "the source reported no ends of its logs",
                facts.settings.flow.source,
                mends.mirror(facts, "readiness") + ", again",
            )
        )
    return [each for each in partitions if each.lag_records]


def _deleted_soon(each: PartitionStatus, configs: Configs, logs: Ends) -> tuple[str, str] | None:
    """Return what the source keeps and what is to be copied, if the one is about to overtake the other."""
    if "delete" not in configs.get("cleanup.policy", "delete"):
        return None
    keeps_ms, keeps_bytes = int(configs.get("retention.ms", -1)), int(configs.get("retention.bytes", -1))
    if keeps_ms >= 0 and each.lag_seconds is not None and each.lag_seconds * 1000 > _NEAR * keeps_ms:
        left = max(0.0, keeps_ms / 1000 - each.lag_seconds)
        return f"retention.ms={keeps_ms}", f"{each.lag_seconds:,.0f} s old, {left:,.0f} s left"
    partition = TopicPartition(each.topic, each.partition)
    length = logs.ends.get(partition, 0) - logs.starts.get(partition, 0)
    if keeps_bytes >= 0 and each.lag_records and each.lag_records > _NEAR * length:
        return f"retention.bytes={keeps_bytes}", f"{each.lag_records} of {counted(length, 'record')} are not copied"
    return None


def _cliff(facts: Facts, each: PartitionStatus, what: str, source: str, target: str) -> Difference:
    mend = f"let {each.topic} keep more until it is copied"
    if not isinstance(facts.source, NotSeen):
        mend += f": {mends.set_topic(facts.source, each.topic, 'retention.ms', '-1')}"
    return Difference(Impact.LOSES, what, _named(each), source, target, mend)


def _without_position(facts: Facts, sources: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Return those of some partitions of which no position is on record, in order."""
    positioned = {TopicPartition(each.topic, each.partition) for each in seen(facts.status).partitions}
    return sorted(each for each in {*sources} - positioned if each.topic in facts.copies)


def _way_home(facts: Facts) -> str:
    return f"{mends.mirror(facts, 'failback')} moves the applications back, and ends the cut"


def _named(each: PartitionStatus) -> str:
    return f"{each.topic}-{each.partition}"


def _at(end: int | None) -> str | None:
    return None if end is None else f"end {end}"
