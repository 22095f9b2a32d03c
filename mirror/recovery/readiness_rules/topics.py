"""Rules about topics: those that are copied, those that are written to after a failover, those that are left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from mirror.kafka.cluster_model import Topic
from mirror.model.counts import counted
from mirror.recovery.differences import Difference, Impact, Rule
from mirror.recovery.readiness_facts import Facts, NotSeen, Side, seen
from mirror.recovery.readiness_rules import mends

# Topics in which frameworks keep what they cannot do without, and what that is.
_KEPT_BY_FRAMEWORKS: Final = (
    (re.compile(r"_schemas"), "the schemas of a Schema Registry"),
    (re.compile(r"(.*[._-])?connect-(configs|offsets|status)"), "the state of Kafka Connect workers"),
    (re.compile(r".+-(changelog|repartition)"), "the state of a Kafka Streams application"),
)
_NO_LIMIT = -1
# Where groups stand, and what has become of transactions.
_KAFKAS: Final = ("__consumer_offsets", "__transaction_state")
# Where the target's value is the smaller one it refuses what the source takes.
_TAKEN: Final = ("max.message.bytes", "message.timestamp.before.max.ms", "message.timestamp.after.max.ms")
_KEPT: Final = ("retention.ms", "retention.bytes")
_CLEANUP, _UNCLEAN, _MIN_IN_SYNC = "cleanup.policy", "unclean.leader.election.enable", "min.insync.replicas"
_FELT: Final = frozenset(
    {
        "compression.type",
        "delete.retention.ms",
        "local.retention.bytes",
        "local.retention.ms",
        "max.compaction.lag.ms",
        "message.timestamp.type",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "remote.storage.enable",
        "segment.bytes",
        "segment.ms",
    }
)
_JUDGED: Final = frozenset({*_TAKEN, *_KEPT, _CLEANUP, _UNCLEAN, _MIN_IN_SYNC})


def nothing_selected(facts: Facts) -> Iterator[Difference]:
    """A flow that copies nothing finds no difference in it: a filter that is misspelt, or topics that are not seen."""
    source = seen(facts.source)
    if not facts.copies:
        own = [name for name, topic in source.topics.items() if not topic.is_internal]
        yield Difference(
            Impact.BLOCKS,
            "the flow selects no topic of the source",
            facts.flow,
            f"{counted(len(own), 'topic')} are seen",
            "none is copied",
            f"correct {mends.flow_key(facts, 'topics', '...')} and topics.exclude, or grant Describe on the topics",
        )


def copy_missing(facts: Facts) -> Iterator[Difference]:
    """Every topic that the flow selects has a copy (TOP-01)."""
    target = seen(facts.target)
    for name, copy in facts.copies.items():
        if copy not in target.topics:
            yield Difference(
                Impact.BLOCKS,
                "a topic that the flow selects has no copy",
                copy,
                _partitions(facts.source, name),
                "not there",
                f"let the flow run, or see what keeps it: {mends.mirror(facts, 'plan')}",
            )


def partitions_missing(facts: Facts) -> Iterator[Difference]:
    """A copy has as many partitions as its topic (TOP-02)."""
    for _, copy, source, target in _counts(facts, facts.copies):
        if target < source:
            yield Difference(
                Impact.BLOCKS,
                "a copy lacks partitions of its topic",
                copy,
                str(source),
                str(target),
                mends.grow_topic(seen(facts.target), copy, source),
            )


def partitions_more(facts: Facts) -> Iterator[Difference]:
    """A copy never shrinks (TOP-02): what has a key is looked for in another partition by who counts them."""
    for name, copy, source, target in _counts(facts, facts.copies):
        if target > source:
            yield Difference(
                Impact.DEGRADES,
                "a copy has more partitions than its topic",
                copy,
                str(source),
                str(target),
                mends.grow_topic(seen(facts.source), name, target),
            )


def original_missing(facts: Facts) -> Iterator[Difference]:
    """Under the default policy producers go on with a topic beside the copy, which somebody must have made (POL-01)."""
    target = seen(facts.target)
    for name in facts.originals:
        if name in target.topics or facts.copies[name] == name or _framework(name):
            continue
        creates = not isinstance(target.settings, NotSeen) and target.settings.get(
            "auto.create.topics.enable", frozenset()
        ) == {"true"}
        copy = target.topics.get(facts.copies[name])
        count = len(copy.partitions) if copy else 1
        mend = mends.create_topic(target, name, count, _replicas(copy) if copy else len(target.brokers))
        if creates:
            what = "the topic that producers go on with would be made with the brokers' defaults"
            yield Difference(
                Impact.DEGRADES, what, name, _partitions(facts.source, name), "auto.create.topics.enable", mend
            )
        else:
            what = "the topic that producers go on with is not there, and brokers do not create it"
            yield Difference(Impact.BLOCKS, what, name, _partitions(facts.source, name), "not there", mend)


def original_partitions(facts: Facts) -> Iterator[Difference]:
    """Keys go to other partitions, and fewer consumers can share the work."""
    beside = {name: name for name, copy in facts.copies.items() if name in facts.originals and copy != name}
    for _, name, source, target in _counts(facts, beside):
        if target != source:
            yield Difference(
                Impact.DEGRADES,
                "the topic that producers go on with has another number of partitions",
                name,
                str(source),
                str(target),
                mends.grow_topic(seen(facts.target), name, source)
                if target < source
                else f"none without creating {name} anew on {seen(facts.target).alias}",
            )


def takes_less(facts: Facts) -> Iterator[Difference]:
    """Records that the source takes and the target refuses stop the copy, and the producers later (ERR-07)."""
    what = "a topic of the target refuses records that the source takes"
    for key in _TAKEN:
        for target, twin, here, there in _limits(facts, key):
            if _size(there) < _size(here):
                yield _setting(target, Impact.BLOCKS, what, twin, key, str(here), str(there))


def keeps_less(facts: Facts) -> Iterator[Difference]:
    """What is deleted sooner is not there for who reads late; what is only compacted is not deleted by age or size."""
    what = "a topic of the target keeps records for a shorter time, or less"
    for key in _KEPT:
        for target, twin, here, there in _limits(facts, key):
            if _size(there) < _size(here):
                deletes = "delete" in target.configs[twin].get(_CLEANUP, "delete")
                yield _setting(
                    target, Impact.LOSES if deletes else Impact.COSMETIC, what, twin, key, str(here), str(there)
                )


def cleans_otherwise(facts: Facts) -> Iterator[Difference]:
    """Deleted by age instead of compacted, or compacted where every record counts."""

    def policy(value: str) -> str:
        return ",".join(sorted(each.strip() for each in value.split(",")))

    yield from _unlike(facts, _CLEANUP, Impact.LOSES, "a topic of the target is cleaned in another way", policy)


def unclean_elections(facts: Facts) -> Iterator[Difference]:
    """A replica that lacks records may lead, and they are gone; MM2 leaves the setting out (TCS-03)."""
    source, target = seen(facts.source), seen(facts.target)
    for name, twin in _configured(facts):
        there = target.configs[twin].get(_UNCLEAN)
        if there != "true":
            continue
        replicas, here = _replicas(target.topics.get(twin)), source.configs[name].get(_UNCLEAN)
        yield Difference(
            Impact.LOSES if replicas > 1 and here != "true" else Impact.DEGRADES,
            "a topic of the target lets replicas lead that lack records",
            twin,
            f"{_UNCLEAN}={here}",
            f"{_UNCLEAN}={there}",
            mends.set_topic(target, twin, _UNCLEAN, "false"),
        )


def single_replica(facts: Facts) -> Iterator[Difference]:
    """With one replica a disk takes all with it (WANT-18). Where that is no worse than on the source, it degrades."""
    for twin, source, target in _replicated(facts):
        if target == 1:
            standby = seen(facts.target)
            alone = len(standby.brokers) == 1
            mend = mends.reassign(standby, twin, max(source, 2))
            yield Difference(
                Impact.DEGRADES if alone and source <= 1 else Impact.LOSES,
                "a topic of the target has one replica",
                twin,
                str(source),
                str(target),
                f"start more brokers of {standby.alias}, then {mend}" if alone else mend,
            )


def fewer_replicas(facts: Facts) -> Iterator[Difference]:
    """Replication factors never follow the source's (TOP-05)."""
    for twin, source, target in _replicated(facts):
        if 1 < target < source:
            yield Difference(
                Impact.DEGRADES,
                "a topic of the target has fewer replicas",
                twin,
                str(source),
                str(target),
                mends.reassign(seen(facts.target), twin, source),
            )


def acknowledged_by_one(facts: Facts) -> Iterator[Difference]:
    """With min.insync.replicas=1 acks=all may mean one broker; MM2 leaves the setting out (TCS-03, WANT-18)."""
    source, target = seen(facts.source), seen(facts.target)
    for name, twin in _configured(facts):
        here, there = (
            int(side.configs[topic].get(_MIN_IN_SYNC, 1)) for side, topic in ((source, name), (target, twin))
        )
        replicas = _replicas(target.topics.get(twin))
        # Of two replicas both would have to be there for every record.
        if replicas <= 1 or (there >= here and (there > 1 or replicas == 2)):
            continue
        yield Difference(
            Impact.LOSES if there < here else Impact.DEGRADES,
            "a topic of the target acknowledges with fewer replicas in sync"
            if there < here
            else "a topic of the target acknowledges what one replica has, as the source does",
            twin,
            f"{_MIN_IN_SYNC}={here}",
            f"{_MIN_IN_SYNC}={there}",
            mends.set_topic(target, twin, _MIN_IN_SYNC, str(max(here, min(2, replicas - 1)))),
        )


def felt_settings(facts: Facts) -> Iterator[Difference]:
    """Settings that cost time or space when they differ, or change timestamps (TCS-03)."""
    for key in sorted(_FELT):
        yield from _unlike(facts, key, Impact.DEGRADES, "a setting of a topic differs that is felt")


def other_settings(facts: Facts) -> Iterator[Difference]:
    """All the rest; of what MM2 leaves out (TCS-03) or takes from the source's defaults (TCS-04 to TCS-06)."""
    source, target = seen(facts.source), seen(facts.target)
    for name, twin in _configured(facts):
        here, there = source.configs[name], target.configs[twin]
        for key in sorted(here.keys() & there.keys() - _FELT - _JUDGED):
            if here[key] != there[key]:
                yield _setting(
                    target, Impact.COSMETIC, "a setting of a topic differs", twin, key, here[key], there[key]
                )
    for key in _TAKEN:
        yield from _larger(facts, key)
    for key in _KEPT:
        yield from _larger(facts, key)


def frameworks_left_out(facts: Facts) -> Iterator[Difference]:
    """Schemas, connectors and the state of Streams applications are topics too, and their users look for the names."""
    source, target = seen(facts.source), seen(facts.target)
    for name in sorted(source.topics):
        kept = _framework(name)
        if kept is None or _is_copy(facts, name):
            continue
        copy = facts.copies.get(name)
        if copy is None:
            yield Difference(
                Impact.LOSES,
                f"not mirrored: {kept}",
                name,
                _partitions(source, name),
                "of the same name, not mirrored" if name in target.topics else "not there",
                f"select it, as in {mends.flow_key(facts, 'topics', f'..., {name}')}, or bring it over in its own way",
            )
        elif copy != name:
            yield Difference(
                Impact.DEGRADES,
                f"mirrored under another name than it is looked for: {kept}",
                copy,
                name,
                copy,
                f"tell its users the name {copy}, or mirror it with replication.policy.class = "
                "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
            )


def read_and_left_out(facts: Facts) -> Iterator[Difference]:
    """A group that is moved finds nothing of a topic that the flow does not copy."""
    readers = seen(facts.groups.read_elsewhere)
    for name, groups in sorted(readers.items()):
        if not _framework(name) and not _is_copy(facts, name):
            named = ", ".join(groups[:3])
            yield Difference(
                Impact.LOSES,
                "a topic that groups of the flow read is not mirrored",
                name,
                f"read by {named}" + (f" and {len(groups) - 3} more" if len(groups) > 3 else ""),
                "not mirrored",
                f"select it, as in {mends.flow_key(facts, 'topics', f'..., {name}')}",
            )


def left_out(facts: Facts) -> Iterator[Difference]:
    """Topics that the file leaves out, on purpose or not: what they hold is only on the source."""
    source = seen(facts.source)
    readers = seen(facts.groups.read_elsewhere)
    policy = facts.settings.policy
    for name, topic in sorted(source.topics.items()):
        is_ours = name in facts.copies or policy.is_internal_topic(name) or policy.is_heartbeats_topic(name)
        if is_ours or topic.is_internal or name in readers or _framework(name) or _is_copy(facts, name):
            continue
        yield Difference(
            Impact.DEGRADES,
            "a topic of the source is not mirrored",
            name,
            _partitions(source, name),
            "not mirrored",
            f"select it, as in {mends.flow_key(facts, 'topics', f'..., {name}')}, if it is to survive the source",
        )


RULES = (
    Rule("nothing-selected", Impact.BLOCKS, nothing_selected),
    Rule("copy-missing", Impact.BLOCKS, copy_missing),
    Rule("partitions-missing", Impact.BLOCKS, partitions_missing),
    Rule("partitions-more", Impact.DEGRADES, partitions_more),
    Rule("own-topic-missing", Impact.BLOCKS, original_missing),
    Rule("own-topic-partitions", Impact.DEGRADES, original_partitions),
    Rule("takes-less", Impact.BLOCKS, takes_less),
    Rule("keeps-less", Impact.LOSES, keeps_less),
    Rule("cleanup-policy", Impact.LOSES, cleans_otherwise),
    Rule("unclean-election", Impact.LOSES, unclean_elections),
    Rule("single-replica", Impact.LOSES, single_replica),
    Rule("fewer-replicas", Impact.DEGRADES, fewer_replicas),
    Rule("acknowledged-by-one", Impact.LOSES, acknowledged_by_one),
    Rule("felt-settings", Impact.DEGRADES, felt_settings),
    Rule("other-settings", Impact.COSMETIC, other_settings),
    Rule("framework-topics", Impact.LOSES, frameworks_left_out),
    Rule("read-and-left-out", Impact.LOSES, read_and_left_out),
    Rule("topics-left-out", Impact.DEGRADES, left_out),
)


def _framework(topic: str) -> str | None:
    """Return what a framework keeps in a topic of this name, None if none does."""
    return next((kept for pattern, kept in _KEPT_BY_FRAMEWORKS if pattern.fullmatch(topic)), None)


def _is_copy(facts: Facts, topic: str) -> bool:
    """Tell whether a topic of the source is itself the copy of another cluster's, by its name."""
    policy = facts.settings.policy
    return policy.can_detect_cycles and policy.topic_source(topic) in facts.aliases


def _counts(facts: Facts, twins: Mapping[str, str]) -> Iterator[tuple[str, str, int, int]]:
    """Yield of each topic that both sides have both names and the numbers of partitions."""
    source, target = seen(facts.source), seen(facts.target)
    for name, twin in twins.items():
        if name in source.topics and twin in target.topics:
            yield name, twin, len(source.topics[name].partitions), len(target.topics[twin].partitions)


def _replicated(facts: Facts) -> Iterator[tuple[str, int, int]]:
    """Yield of each topic on both sides, Kafka's own too, the name on the target and the least numbers of replicas."""
    source, target = seen(facts.source), seen(facts.target)
    for name, twin in (*facts.twins, *((each, each) for each in _KAFKAS)):
        if name in source.topics and twin in target.topics:
            yield twin, _replicas(source.topics[name]), _replicas(target.topics[twin])


def _configured(facts: Facts) -> list[tuple[str, str]]:
    """Return the twins whose settings are known on both sides."""
    source, target = seen(facts.source), seen(facts.target)
    return [(name, twin) for name, twin in facts.twins if name in source.configs and twin in target.configs]


def _unlike(
    facts: Facts, key: str, impact: Impact, what: str, meaning: Callable[[str], str] = str
) -> Iterator[Difference]:
    source, target = seen(facts.source), seen(facts.target)
    for name, twin in _configured(facts):
        here, there = source.configs[name].get(key), target.configs[twin].get(key)
        if here is not None and there is not None and meaning(here) != meaning(there):
            yield _setting(target, impact, what, twin, key, here, there)


def _larger(facts: Facts, key: str) -> Iterator[Difference]:
    for target, twin, here, there in _limits(facts, key):
        if _size(there) > _size(here):
            what = "a topic of the target takes or keeps more"
            yield _setting(target, Impact.COSMETIC, what, twin, key, str(here), str(there))


def _limits(facts: Facts, key: str) -> Iterator[tuple[Side, str, int, int]]:
    source, target = seen(facts.source), seen(facts.target)
    for name, twin in _configured(facts):
        here, there = source.configs[name].get(key), target.configs[twin].get(key)
        if here is not None and there is not None:
            yield target, twin, int(here), int(there)


def _size(limit: int) -> float:
    return float("inf") if limit == _NO_LIMIT else limit


def _setting(side: Side, impact: Impact, what: str, topic: str, key: str, here: str, there: str) -> Difference:
    mend = mends.set_topic(side, topic, key, here)
    return Difference(impact, what, f"{topic}: {key}", here, there, mend)


def _partitions(side: Side | NotSeen, topic: str) -> str | None:
    if isinstance(side, NotSeen) or topic not in side.topics:
        return None
    return counted(len(side.topics[topic].partitions), "partition")


def _replicas(topic: Topic | None) -> int:
    return min((len(each.replicas) for each in topic.partitions), default=0) if topic else 0
