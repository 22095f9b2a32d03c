"""Rules about the target as a cluster: whether it can take over the work of the source's brokers."""

from __future__ import annotations

from collections.abc import Iterator

from mirror.kafka.brokers import (
    CONSUMER_GROUP_HEARTBEAT,
    SHARE_GROUP_HEARTBEAT,
    STREAMS_GROUP_HEARTBEAT,
)
from mirror.kafka.cluster_model import Partition, Topic
from mirror.model.counts import counted
from mirror.recovery.differences import Difference, Impact, Rule
from mirror.recovery.readiness_facts import Facts, Side, seen
from mirror.recovery.readiness_rules import mends
from mirror.recovery.readiness_rules.transactional import applications_transactions

_GROUPS_TOPIC, _TRANSACTIONS_TOPIC = "__consumer_offsets", "__transaction_state"
_MIN_IN_SYNC = "min.insync.replicas"
_OF_GROUP_TYPE = {
    "consumer": (CONSUMER_GROUP_HEARTBEAT, "groups of the new protocol (KIP-848)", "group.version"),
    "share": (SHARE_GROUP_HEARTBEAT, "share groups (KIP-932)", "share.version"),
    "streams": (STREAMS_GROUP_HEARTBEAT, "streams groups (KIP-1071)", "streams.version"),
}
# What clients may ask for on the source and would be refused on the target, where the limit there is narrower.
_AT_MOST = ("transaction.max.timeout.ms", "group.max.session.timeout.ms", "group.max.size", "message.max.bytes")
_AT_LEAST = ("group.min.session.timeout.ms",)
# What topics get that are made after the failover.
_FOR_NEW_TOPICS = (
    "auto.create.topics.enable",
    "num.partitions",
    "default.replication.factor",
    _MIN_IN_SYNC,
    "log.retention.ms",
    "log.retention.hours",
    "log.retention.bytes",
    "log.cleanup.policy",
    "compression.type",
)


def fewer_brokers(facts: Facts) -> Iterator[Difference]:
    """The same load on fewer machines."""
    source, target = seen(facts.source), seen(facts.target)
    if len(target.brokers) < len(source.brokers):
        yield Difference(
            Impact.DEGRADES,
            "the target has fewer brokers",
            target.alias,
            str(len(source.brokers)),
            str(len(target.brokers)),
            f"start {counted(len(source.brokers) - len(target.brokers), 'more broker')} of {target.alias}",
        )


def offline_partitions(facts: Facts) -> Iterator[Difference]:
    """What has no leader takes no record and gives none."""
    target = seen(facts.target)
    for topic, partition in _concerned(facts):
        if partition.leader < 0:
            yield Difference(
                Impact.BLOCKS,
                "a partition of the target has no leader",
                f"{topic.name}-{partition.partition}",
                None,
                f"replicas {_spelled(partition.replicas)}, none leads",
                mends.describe_topic(target, topic.name),
            )


def too_few_in_sync(facts: Facts) -> Iterator[Difference]:
    """Producers with acks=all are refused (NOT_ENOUGH_REPLICAS)."""
    target = seen(facts.target)
    for topic, partition in _concerned(facts):
        needed = _needed(target, topic.name)
        if partition.leader >= 0 and len(partition.in_sync) < needed <= len(partition.replicas):
            yield Difference(
                Impact.BLOCKS,
                "a partition of the target has too few replicas in sync to be written to",
                f"{topic.name}-{partition.partition}",
                None,
                f"in sync {_spelled(partition.in_sync)} of {_spelled(partition.replicas)}, {_MIN_IN_SYNC}={needed}",
                mends.describe_topic(target, topic.name),
            )


def never_enough(facts: Facts) -> Iterator[Difference]:
    """A topic that asks for more replicas in sync than it has takes no acks=all at all (WANT-18)."""
    target = seen(facts.target)
    for topic in _topics(facts):
        needed = _needed(target, topic.name)
        replicas = _replicas(topic)
        if needed > replicas:
            yield Difference(
                Impact.BLOCKS,
                "a topic of the target asks for more replicas in sync than it has",
                topic.name,
                None,
                f"{_MIN_IN_SYNC}={needed}, {counted(replicas, 'replica')}",
                mends.set_topic(target, topic.name, _MIN_IN_SYNC, str(max(1, replicas - 1))),
            )


def under_replicated(facts: Facts) -> Iterator[Difference]:
    """Replicas that are not in sync are no safety."""
    target = seen(facts.target)
    for topic, partition in _concerned(facts):
        needed = _needed(target, topic.name)
        if partition.leader >= 0 and max(needed, 1) <= len(partition.in_sync) < len(partition.replicas):
            yield Difference(
                Impact.DEGRADES,
                "replicas of the target are not in sync",
                f"{topic.name}-{partition.partition}",
                None,
                f"in sync {_spelled(partition.in_sync)} of {_spelled(partition.replicas)}",
                mends.describe_topic(target, topic.name),
            )


def no_group_coordinator(facts: Facts) -> Iterator[Difference]:
    """The topic of group positions is made when the first group comes, and cannot be with too few brokers."""
    yield from _never_made(facts, _GROUPS_TOPIC, "offsets.topic.replication.factor", "group")


def no_transaction_coordinator(facts: Facts) -> Iterator[Difference]:
    """The same for transactions, where applications use them."""
    if applications_transactions(facts):
        yield from _never_made(facts, _TRANSACTIONS_TOPIC, "transaction.state.log.replication.factor", "transaction")


def protocol_missing(facts: Facts) -> Iterator[Difference]:
    """Groups of a kind that the target does not know cannot join there."""
    source, target = seen(facts.source), seen(facts.target)
    groups, offered = seen(source.groups), seen(target.offered)
    for kind, (request, named, feature) in _OF_GROUP_TYPE.items():
        using = [each.group for each in groups if each.group_type.lower() == kind]
        if using and request not in offered.requests:
            yield Difference(
                Impact.BLOCKS,
                f"the target knows no {named}",
                ", ".join(using[:3]) + (f" and {len(using) - 3} more" if len(using) > 3 else ""),
                counted(len(using), "group"),
                "not offered",
                f"kafka-features.sh --bootstrap-server {target.bootstrap} upgrade --feature {feature}=1"
                + (", or group.protocol=classic for their members" if kind == "consumer" else ""),
            )


def older_features(facts: Facts) -> Iterator[Difference]:
    """Feature levels (KIP-584) and requests that the source has and the target has not."""
    source, target = seen(facts.source), seen(facts.target)
    upstream, downstream = seen(source.offered), seen(target.offered)
    for name, level in sorted(upstream.features.items()):
        there = downstream.features.get(name, 0)
        if there < level:
            yield Difference(
                Impact.DEGRADES,
                "a feature of the target is at a lower level",
                name,
                str(level),
                str(there),
                f"kafka-features.sh --bootstrap-server {target.bootstrap} upgrade --feature {name}={level}",
            )
    older = sorted(key for key, newest in upstream.requests.items() if downstream.requests.get(key, -1) < newest)
    if older:
        yield Difference(
            Impact.DEGRADES,
            "the target knows fewer requests, or older versions of them",
            f"API keys {', '.join(map(str, older))}",
            None,
            None,
            f"upgrade the brokers of {target.alias} to the release of {source.alias}",
        )


def fewer_logins(facts: Facts) -> Iterator[Difference]:
    """Clients that log in by a mechanism, or speak a protocol, that the target does not have, do not get in."""
    source, target = seen(facts.source), seen(facts.target)
    for key, of_side in (("sasl.enabled.mechanisms", _mechanisms), ("listeners", _protocols)):
        missing = of_side(source) - of_side(target)
        if missing:
            yield Difference(
                Impact.DEGRADES,
                "the listeners of the target can do less",
                key,
                ", ".join(sorted(of_side(source))),
                ", ".join(sorted(of_side(target))) or "none",
                f"offer {', '.join(sorted(missing))} on {target.alias} ({key}), or let applications use what it offers",
            )


def positions_expire(facts: Facts) -> Iterator[Difference]:
    """Groups wait on the standby without members, and positions of such groups expire (KIP-211)."""
    for key, source, target in _smaller(facts, ("offsets.retention.minutes",)):
        yield Difference(
            Impact.LOSES,
            "positions of groups without members expire sooner on the target",
            key,
            str(source),
            str(target),
            mends.set_brokers(seen(facts.target), key, str(source)),
        )


def narrower_limits(facts: Facts) -> Iterator[Difference]:
    """What the brokers of the source let clients do, and those of the target do not."""
    target_side = seen(facts.target)
    for key, source, target in (*_smaller(facts, _AT_MOST), *_larger(facts, _AT_LEAST)):
        yield Difference(
            Impact.DEGRADES,
            "the brokers of the target allow clients less",
            key,
            str(source),
            str(target),
            mends.set_brokers(target_side, key, str(source)),
        )


def other_defaults(facts: Facts) -> Iterator[Difference]:
    """What topics get that somebody creates after the failover."""
    source, target = seen(facts.source), seen(facts.target)
    upstream, downstream = seen(source.settings), seen(target.settings)
    for key in _FOR_NEW_TOPICS:
        if key in upstream and key in downstream and upstream[key] != downstream[key]:
            wanted = ", ".join(sorted(upstream[key]))
            yield Difference(
                Impact.COSMETIC,
                "topics that are created later get other settings on the target",
                key,
                wanted,
                ", ".join(sorted(downstream[key])),
                mends.set_brokers(target, key, wanted),
            )


RULES = (
    Rule("fewer-brokers", Impact.DEGRADES, fewer_brokers),
    Rule("offline-partition", Impact.BLOCKS, offline_partitions),
    Rule("too-few-in-sync", Impact.BLOCKS, too_few_in_sync),
    Rule("never-enough-replicas", Impact.BLOCKS, never_enough),
    Rule("under-replicated", Impact.DEGRADES, under_replicated),
    Rule("group-coordinator", Impact.BLOCKS, no_group_coordinator),
    Rule("transaction-coordinator", Impact.BLOCKS, no_transaction_coordinator),
    Rule("group-protocol", Impact.BLOCKS, protocol_missing),
    Rule("older-features", Impact.DEGRADES, older_features),
    Rule("fewer-logins", Impact.DEGRADES, fewer_logins),
    Rule("positions-expire", Impact.LOSES, positions_expire),
    Rule("narrower-limits", Impact.DEGRADES, narrower_limits),
    Rule("other-defaults", Impact.COSMETIC, other_defaults),
)


def _topics(facts: Facts) -> list[Topic]:
    """Return the topics of the target that a failover needs: what is read and written there, and Kafka's own."""
    target = seen(facts.target)
    names = dict.fromkeys((*(twin for _, twin in facts.twins), _GROUPS_TOPIC, _TRANSACTIONS_TOPIC))
    return [target.topics[name] for name in names if name in target.topics]


def _concerned(facts: Facts) -> Iterator[tuple[Topic, Partition]]:
    return ((topic, partition) for topic in _topics(facts) for partition in topic.partitions)


def _needed(side: Side, topic: str) -> int:
    return int(side.configs.get(topic, {}).get(_MIN_IN_SYNC, 1))


def _replicas(topic: Topic) -> int:
    return min((len(each.replicas) for each in topic.partitions), default=0)


def _never_made(facts: Facts, topic: str, key: str, what: str) -> Iterator[Difference]:
    target = seen(facts.target)
    if topic in target.topics:
        return
    wanted = max(_numbers(target, key), default=1)
    if wanted > len(target.brokers):
        yield Difference(
            Impact.BLOCKS,
            f"the target cannot have a {what} coordinator: {topic} is not there and cannot be made",
            topic,
            None,
            f"{key}={wanted}, {counted(len(target.brokers), 'broker')}",
            mends.set_brokers(target, key, str(len(target.brokers))),
        )


def _numbers(side: Side, key: str) -> list[int]:
    return [int(value) for value in seen(side.settings).get(key, ())]


def _smaller(facts: Facts, keys: tuple[str, ...]) -> Iterator[tuple[str, int, int]]:
    """Yield the settings of which the least on the target is below the least on the source, with both."""
    source, target = seen(facts.source), seen(facts.target)
    for key in keys:
        upstream, downstream = _numbers(source, key), _numbers(target, key)
        if upstream and downstream and min(downstream) < min(upstream):
            yield key, min(upstream), min(downstream)


def _larger(facts: Facts, keys: tuple[str, ...]) -> Iterator[tuple[str, int, int]]:
    source, target = seen(facts.source), seen(facts.target)
    for key in keys:
        upstream, downstream = _numbers(source, key), _numbers(target, key)
        if upstream and downstream and max(downstream) > max(upstream):
            yield key, max(upstream), max(downstream)


def _mechanisms(side: Side) -> frozenset[str]:
    """Return the SASL mechanisms, as far as any listener has SASL."""
    if not any("SASL" in protocol for protocol in _protocols(side)):
        return frozenset()
    values = seen(side.settings).get("sasl.enabled.mechanisms", frozenset())
    return frozenset(each.strip() for value in values for each in value.split(",") if each.strip())


def _protocols(side: Side) -> frozenset[str]:
    """Return the security protocols of the listeners that clients can use."""
    settings = seen(side.settings)
    protocols = {
        name.strip(): protocol.strip()
        for value in settings.get("listener.security.protocol.map", frozenset())
        for name, _, protocol in (each.partition(":") for each in value.split(","))
    }
    inner = {name for value in settings.get("controller.listener.names", frozenset()) for name in value.split(",")}
    names = {
        each.partition("://")[0].strip()
        for value in settings.get("listeners", frozenset())
        for each in value.split(",")
    }
    return frozenset(protocols.get(name, name) for name in names - inner if name)


def _spelled(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers)) or "none"
