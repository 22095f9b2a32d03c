"""Each rule of readiness finds what it is there for, says where, and how to mend it; of two sides alike none says anything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mirror.control.flow_status import PartitionStatus
from mirror.control.groups import GroupAction, GroupDecision
from mirror.kafka.acls import AclListing
from mirror.kafka.brokers import CONSUMER_GROUP_HEARTBEAT, Offered
from mirror.kafka.cluster_model import GroupListing, GroupPosition
from mirror.model.acl import Acl, Operation, Pattern, Permission, QuotaKey, Resource
from mirror.model.checkpoint import Checkpoint
from mirror.model.failover import FailoverEntry, Phase
from mirror.model.gap import Gap
from mirror.model.partition import TopicPartition
from mirror.model.pause import Pauses, PauseWish
from mirror.model.placement import Placement
from mirror.model.shadow import SHADOW_PREFIX
from mirror.model.state_values import ForeignWriter
from mirror.model.translation import Bounded, NotMirrored, TooOld
from mirror.recovery.differences import Difference, Impact
from mirror.recovery.readiness import RULES, judge
from mirror.recovery.readiness_facts import Facts, NotSeen
from tests.unit.recovery.sides import (
    COPIED,
    COPY,
    GROUP,
    TOPIC,
    Change,
    configs,
    facts,
    groups,
    lines,
    moves,
    on,
    partition,
    position,
    settings,
    side,
    status,
    topic,
    topics,
)

BLOCKS, LOSES, DUPLICATES, DEGRADES, COSMETIC = Impact
AWAY = NotSeen("all of west", "connection refused", "west", "start west")
QUOTA = QuotaKey((("user", "ann"),), "producer_byte_rate")


# A group that has read on since its last checkpoint.
READ_ON = groups(checkpoints={(GROUP, COPIED): Checkpoint(GROUP, COPIED, 33, 33)})

# The twins, and where they are.
ENDS = (("source", TOPIC), ("target", TOPIC), ("target", COPY))


def both(*changes: Change) -> Change:
    def change(known: Facts) -> Facts:
        for each in changes:
            known = each(known)
        return known

    return change


def acl(text: str, name: str = TOPIC, resource: Resource = Resource.TOPIC, principal: str = "User:ann") -> Acl:
    permission, operation = text.split()
    prefixed = name.endswith("+")
    pattern = Pattern.PREFIXED if prefixed else Pattern.LITERAL
    return Acl(resource, pattern, name.rstrip("+"), principal, "*", Operation[operation], Permission[permission])


def acls(end: str, *listed: Acl) -> Change:
    return on(end, acls=AclListing(frozenset(listed)))


def decision(action: GroupAction) -> GroupDecision:
    placement = Placement(GROUP, COPIED, 40, 40, 40, "id")
    return GroupDecision(GROUP, COPIED, GroupPosition(7), GroupPosition(40), action, "because", placement)


def further_on(present: int) -> GroupDecision:
    """The group stands there on the target already, and has read up to 40 of the source."""
    return replace(decision(GroupAction.SKIP_REWIND), present=GroupPosition(present))


def listing(kind: str) -> GroupListing:
    return GroupListing("newer", "consumer", "Stable", kind)


CUT = Pauses(cut=PauseWish("w", None, True, "mirror failover", 5, is_cut=True))


def on_record(phase: Phase) -> Change:
    return status(failovers=(FailoverEntry("theirs", "planned", phase, "run directory runs/one on host", 7),))


# The rule, what it says the impact is, what is changed, where that is found, and a part of how it is mended.
CASES: list[tuple[str, Impact, Change, str, str]] = [
    ("target-away", BLOCKS, lambda known: replace(known, target=AWAY), "west", "start west"),
    ("same-cluster", BLOCKS, on("target", cluster_id="id-of-east"), "east->west", "west.bootstrap.servers"),
    ("not-copying", BLOCKS, status(state="STOPPED", reasons=("silent",)), "east->west", "mirror run mm2.properties"),
    ("not-copying", BLOCKS, status(state="STARTING"), "east->west", "again"),
    ("partition-stopped", BLOCKS, partition(stopped="too large"), "orders-0", "--topic orders --partition 0"),
    ("moved", BLOCKS, on_record(Phase.DONE), "run directory runs/one on host", "mirror failback mm2.properties"),
    ("moved", BLOCKS, on_record(Phase.UNDER_WAY), "run directory runs/one on host", "--give-up theirs"),
    ("moved", BLOCKS, on_record(Phase.RETURNING), "run directory runs/one on host", "--give-up theirs"),
    ("paused", LOSES, both(partition(is_paused=True), status(pauses=CUT)), "orders", "mirror failback mm2.properties"),
    ("paused", LOSES, partition(is_paused=True), "orders", "mirror resume mm2.properties --flow 'east->west'"),
    ("flow-troubled", DEGRADES, status(state="DEGRADED", reasons=("x",)), "east->west", "mirror status mm2.properties"),
    ("lag", LOSES, partition(lag_records=9, lag_seconds=31.0), "orders-0", "tasks.max"),
    ("lag", LOSES, partition(lag_records=9, lag_seconds=None), "orders-0", "tasks.max"),
    (
        "not-begun",
        LOSES,
        lambda known: status(partitions=known.status.partitions[:1])(known),  # type: ignore[union-attr]
        "orders-1",
        "mirror status",
    ),
    ("near-deletion", LOSES, partition(lag_records=9, lag_seconds=400_000.0), "orders-0", "retention.ms=-1"),
    (
        "near-deletion",
        LOSES,
        both(partition(lag_records=60, lag_seconds=1.0), configs("source", TOPIC, retention_bytes="1000")),
        "orders-0",
        "--entity-name orders",
    ),
    (
        "near-deletion",
        LOSES,
        both(
            partition(lag_records=60, lag_seconds=1.0),
            lambda known: replace(known, ends=replace(known.ends, starts={TopicPartition(TOPIC, 0): 101})),  # type: ignore[arg-type]
        ),
        "orders-0",
        "--entity-name orders",
    ),
    ("gaps", LOSES, partition(gaps=1), "orders-0", "mirror gaps mm2.properties --topic orders"),
    (
        "gaps-acknowledged",
        COSMETIC,
        status(gaps=(Gap(TopicPartition(TOPIC, 0), 1, 2, "gone", 0),)),
        "orders-0",
        "none is needed",
    ),
    (
        "records-parked",
        LOSES,
        both(lines("mirror.oversized.records = park"), lambda known: replace(known, parked=3)),
        "mm2-parked.east.internal",
        "max.message.bytes",
    ),
    ("foreign-writers", DEGRADES, status(foreign=(ForeignWriter(COPIED, 7, 1, 2, 1, 0),)), "east.orders-0", COPY),
    ("fewer-brokers", DEGRADES, on("target", brokers=(1, 2)), "west", "1 more broker"),
    ("offline-partition", BLOCKS, topics("target", east_orders=topic(COPY, leader=-1)), "east.orders-0", COPY),
    (
        "too-few-in-sync",
        BLOCKS,
        topics("target", __consumer_offsets=topic("__consumer_offsets", in_sync=(1,))),
        "__consumer_offsets-0",
        "--describe --topic __consumer_offsets",
    ),
    (
        "never-enough-replicas",
        BLOCKS,
        configs("target", COPY, min_insync_replicas="4"),
        COPY,
        "min.insync.replicas=2",
    ),
    ("under-replicated", DEGRADES, topics("target", orders=topic(TOPIC, in_sync=(1, 2))), "orders-0", "--topic orders"),
    (
        "group-coordinator",
        BLOCKS,
        both(topics("target", __consumer_offsets=None), on("target", brokers=(1, 2))),
        "__consumer_offsets",
        "offsets.topic.replication.factor=2",
    ),
    (
        "transaction-coordinator",
        BLOCKS,
        both(
            topics("target", __transaction_state=None),
            on("target", brokers=(1,)),
            on("source", transactions={"till": "Empty"}),
        ),
        "__transaction_state",
        "transaction.state.log.replication.factor=1",
    ),
    (
        "group-protocol",
        BLOCKS,
        both(on("source", groups=(listing("consumer"),)), on("target", offered=Offered({0: 12}, {}))),
        "newer",
        "group.version=1",
    ),
    (
        "older-features",
        DEGRADES,
        on("target", offered=Offered({0: 12, CONSUMER_GROUP_HEARTBEAT: 1}, {"metadata.version": 20})),
        "metadata.version",
        "--feature metadata.version=29",
    ),
    (
        "older-features",
        DEGRADES,
        on("target", offered=Offered({0: 11, CONSUMER_GROUP_HEARTBEAT: 1}, {"metadata.version": 29})),
        "API keys 0",
        "upgrade the brokers of west",
    ),
    (
        "fewer-logins",
        DEGRADES,
        settings("target", sasl_enabled_mechanisms="PLAIN"),
        "sasl.enabled.mechanisms",
        "SHA-512",
    ),
    (
        "fewer-logins",
        DEGRADES,
        settings("target", listener_security_protocol_map="CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"),
        "listeners",
        "offer SASL_SSL",
    ),
    (
        "positions-expire",
        LOSES,
        settings("target", offsets_retention_minutes="60"),
        "offsets.retention.minutes",
        "offsets.retention.minutes=10080",
    ),
    (
        "narrower-limits",
        DEGRADES,
        settings("target", transaction_max_timeout_ms="1000"),
        "transaction.max.timeout.ms",
        "=900000",
    ),
    ("other-defaults", COSMETIC, settings("target", num_partitions="1"), "num.partitions", "num.partitions=6"),
    ("nothing-selected", BLOCKS, lambda known: replace(known, copies={}), "east->west", "east->west.topics = ..."),
    (
        "copy-missing",
        BLOCKS,
        topics("target", east_orders=None),
        COPY,
        "mirror plan mm2.properties --flow 'east->west'",
    ),
    ("partitions-missing", BLOCKS, topics("target", east_orders=topic(COPY, 1)), COPY, "--partitions 2"),
    ("partitions-more", DEGRADES, topics("target", east_orders=topic(COPY, 3)), COPY, "--topic orders --partitions 3"),
    (
        "own-topic-missing",
        BLOCKS,
        topics("target", orders=None),
        TOPIC,
        "kafka-topics.sh --bootstrap-server west:9092 --create --topic orders --partitions 2 --replication-factor 3",
    ),
    (
        "own-topic-missing",
        DEGRADES,
        both(topics("target", orders=None), settings("target", auto_create_topics_enable="true")),
        TOPIC,
        "--create --topic orders",
    ),
    ("own-topic-partitions", DEGRADES, topics("target", orders=topic(TOPIC, 1)), TOPIC, "--partitions 2"),
    ("takes-less", BLOCKS, configs("target", COPY, max_message_bytes="1000"), f"{COPY}: max.message.bytes", "=1048588"),
    (
        "takes-less",
        BLOCKS,
        configs("target", TOPIC, max_message_bytes="1000"),
        f"{TOPIC}: max.message.bytes",
        "=1048588",
    ),
    ("keeps-less", LOSES, configs("target", COPY, retention_ms="1000"), f"{COPY}: retention.ms", "=604800000"),
    ("keeps-less", LOSES, configs("target", COPY, retention_bytes="1000"), f"{COPY}: retention.bytes", "=-1"),
    (
        "cleanup-policy",
        LOSES,
        configs("source", TOPIC, cleanup_policy="compact,delete"),
        f"{COPY}: cleanup.policy",
        "cleanup.policy=[compact,delete]",
    ),
    (
        "unclean-election",
        LOSES,
        configs("target", COPY, unclean_leader_election_enable="true"),
        COPY,
        "unclean.leader.election.enable=false",
    ),
    ("single-replica", LOSES, topics("target", east_orders=topic(COPY, replicas=(1,))), COPY, "3 replicas"),
    (
        "single-replica",
        LOSES,
        topics("target", __consumer_offsets=topic("__consumer_offsets", replicas=(1,))),
        "__consumer_offsets",
        "3 replicas",
    ),
    (
        "keeps-less",
        COSMETIC,
        both(
            *(configs(end, name, cleanup_policy="compact") for end, name in ENDS),
            configs("target", COPY, retention_ms="1"),
        ),
        f"{COPY}: retention.ms",
        "retention.ms=604800000",
    ),
    (
        "fewer-replicas",
        DEGRADES,
        topics("target", east_orders=topic(COPY, replicas=(1, 2))),
        COPY,
        "--reassignment-json-file FILE --execute",
    ),
    ("acknowledged-by-one", LOSES, configs("target", COPY, min_insync_replicas="1"), COPY, "min.insync.replicas=2"),
    (
        "felt-settings",
        DEGRADES,
        configs("target", COPY, compression_type="lz4"),
        f"{COPY}: compression.type",
        "=producer",
    ),
    (
        "other-settings",
        COSMETIC,
        configs("target", COPY, index_interval_bytes="1"),
        f"{COPY}: index.interval.bytes",
        "4096",
    ),
    ("other-settings", COSMETIC, configs("target", COPY, retention_ms="-1"), f"{COPY}: retention.ms", "=604800000"),
    ("framework-topics", LOSES, topics("source", _schemas=topic("_schemas")), "_schemas", "east->west.topics"),
    (
        "framework-topics",
        DEGRADES,
        both(
            topics("source", _schemas=topic("_schemas")),
            lambda known: replace(known, copies={**known.copies, "_schemas": "east._schemas"}),
        ),
        "east._schemas",
        "IdentityReplicationPolicy",
    ),
    ("read-and-left-out", LOSES, groups(read_elsewhere={"audits": (GROUP,)}), "audits", "east->west.topics"),
    ("topics-left-out", DEGRADES, topics("source", audits=topic("audits")), "audits", "east->west.topics"),
    ("group-left-out", LOSES, groups(left_out={"audit": (TOPIC,)}), "audit", "east->west.groups = ..., audit"),
    (
        "group-left-out",
        COSMETIC,
        groups(left_out={"console-consumer-7": (TOPIC,)}),
        "console-consumer-7",
        "groups.exclude",
    ),
    (
        "group-kind",
        LOSES,
        both(on("source", groups=(listing("share"),)), on("target", offered=Offered({0: 12, 68: 1, 76: 1}, {}))),
        "newer",
        "decide where it begins",
    ),
    ("group-without-checkpoint", LOSES, groups(checkpoints={}), GROUP, "wait for 5 s"),
    ("group-not-translated", LOSES, moves(positions=(position(translation=TooOld(50)),)), GROUP, "mirror offsets"),
    ("group-not-translated", LOSES, moves(positions=(position(translation=NotMirrored()),)), GROUP, "--groups billing"),
    (
        "group-not-translated",
        LOSES,
        moves(positions=(position(translation=TooOld(50)),)),
        GROUP,
        "set its position on the target by hand",
    ),
    (
        "group-not-translated",
        LOSES,
        moves(positions=(position(translation=NotMirrored(), source=TopicPartition(TOPIC, 0)),)),
        GROUP,
        "nothing of orders-0 is copied: mirror status",
    ),
    (
        "group-refused",
        BLOCKS,
        moves(decisions=(decision(GroupAction.SKIP_ACTIVE),)),
        "billing, east.orders-0",
        "stop the members of billing on west",
    ),
    (
        "group-refused",
        BLOCKS,
        moves(decisions=(decision(GroupAction.SKIP_BEYOND_END),)),
        f"{GROUP}, {COPIED}",
        "verify",
    ),
    (
        "group-set-back",
        LOSES,
        groups(checkpoints_before={(GROUP, COPIED): Checkpoint(GROUP, COPIED, 45, 45)}),
        "billing, east.orders-0",
        "--apply",
    ),
    (
        "group-further-on",
        LOSES,
        moves(decisions=(further_on(41),)),
        "billing, east.orders-0",
        "--group billing --topic east.orders:0 --reset-offsets --to-offset 40 --execute",
    ),
    (
        "read-again",
        DUPLICATES,
        both(READ_ON, lines("emit.checkpoints.interval.seconds = 6")),
        GROUP,
        "emit.checkpoints.interval.seconds = 5",
    ),
    ("read-again", DUPLICATES, moves(positions=(position(translation=Bounded(30, 10)),)), GROUP, "--apply"),
    (
        "checkpoints",
        DUPLICATES,
        lines("emit.checkpoints.enabled = false"),
        "east->west",
        "emit.checkpoints.enabled = true",
    ),
    ("checkpoints", DUPLICATES, lines("emit.checkpoints.interval.seconds = 600"), "east->west", "seconds = 60"),
    ("checkpoints", DUPLICATES, lines("emit.checkpoints.interval.seconds = -1"), "east->west", "seconds = 60"),
    ("positions-not-kept", DUPLICATES, lines("sync.group.offsets.enabled = false"), "east->west", "--apply"),
    ("positions-not-kept", DUPLICATES, lines("sync.group.offsets.interval.seconds = -1"), "east->west", "seconds = 60"),
    ("aborted-copied", DUPLICATES, on("source", transactions={"till": "Ongoing"}), "east->west", "read_committed"),
    ("authorizer", BLOCKS, acls("source", acl("ALLOW READ")), "west", "authorizer.class.name"),
    ("authorizer", BLOCKS, acls("target", acl("ALLOW READ", COPY)), "west", "grant the applications"),
    (
        "rights",
        BLOCKS,
        both(acls("source", acl("ALLOW READ")), acls("target", acl("ALLOW READ"))),
        "User:ann: topic east.orders",
        "--allow-principal User:ann --operation Read --topic 'east.orders'",
    ),
    (
        "rights",
        BLOCKS,
        both(acls("source", acl("ALLOW WRITE", "ord+")), acls("target", acl("ALLOW ALL", COPY))),
        "User:ann: topic orders",
        "--operation Write --topic 'orders'",
    ),
    (
        "rights",
        BLOCKS,
        both(acls("source", acl("ALLOW READ", GROUP, Resource.GROUP)), acls("target")),
        "User:ann: group billing",
        "--group 'billing'",
    ),
    (
        "rights",
        BLOCKS,
        both(acls("source", acl("ALLOW WRITE", "till+", Resource.TRANSACTIONAL_ID)), acls("target")),
        "User:ann: transactional id tillx",
        "--transactional-id 'till' --resource-pattern-type prefixed",
    ),
    (
        "denials",
        DEGRADES,
        both(acls("source", acl("DENY READ")), acls("target", acl("ALLOW READ", COPY))),
        "User:ann: READ on topic east.orders",
        "--deny-principal User:ann",
    ),
    (
        "fenced",
        BLOCKS,
        both(acls("source"), acls("target", acl("DENY WRITE", "*", principal="User:*"))),
        "topic orders",
        "--remove --deny-principal 'User:*' --operation Write --topic '*'",
    ),
    ("standstill", BLOCKS, on("target", quotas={QUOTA: 1.0}), str(QUOTA), "--delete-config producer_byte_rate"),
    ("quotas", DEGRADES, on("source", quotas={QUOTA: 5000.0}), str(QUOTA), "--add-config producer_byte_rate=5000"),
    ("quotas", DEGRADES, on("target", quotas={QUOTA: 5000.0}), str(QUOTA), "--delete-config producer_byte_rate"),
    (
        "logins",
        DEGRADES,
        on("source", users={"ann": frozenset({"SCRAM-SHA-512"})}),
        "ann",
        "SCRAM-SHA-512=[password=...]",
    ),
]


@pytest.mark.parametrize(
    ("rule", "impact", "change", "where", "mend"),
    CASES,
    ids=[f"{number}-{each[0]}" for number, each in enumerate(CASES)],
)
def test_what_is_changed_is_found(rule: str, impact: Impact, change: Change, where: str, mend: str) -> None:
    found = [each for each in judge(change(facts())).differences if each.rule == rule]
    assert [(each.impact, each.where) for each in found][:1] == [(impact, where)], found
    assert mend in found[0].mend
    assert all(each.is_looked_at for each in found)


def test_of_two_sides_that_are_alike_nothing_is_said() -> None:
    assert judge(facts()).differences == ()


def test_every_rule_is_seen_to_find_something() -> None:
    """Only `source-away` and `group-not-told` find nothing: they say what could not be looked at."""
    ids = [rule.id for rule in RULES]
    assert len(ids) == len(set(ids))
    assert set(ids) - {each[0] for each in CASES} == {"source-away", "group-not-told"}


def test_a_group_that_the_flow_has_just_put_further_on_is_not_further_on_than_it_has_read() -> None:
    """It reads on while it is looked: its checkpoint is read last, and says so."""
    newer = groups(checkpoints={(GROUP, COPIED): Checkpoint(GROUP, COPIED, 41, 41)})
    for present, is_found in ((41, False), (42, True)):
        known = both(moves(decisions=(further_on(present),)), newer)(facts())
        assert any(each.rule == "group-further-on" for each in judge(known).differences) == is_found


def test_no_rule_finds_anything_worse_than_it_says() -> None:
    """What a rule that cannot look may hide is judged by that."""
    worst = {rule.id: rule.worst for rule in RULES}
    assert all(impact.rank >= worst[rule].rank for rule, impact, *_ in CASES)


def only(change: Change, rule: str) -> list[Difference]:
    return [each for each in judge(change(facts())).differences if each.rule == rule]


SOON_DELETED = PartitionStatus(TOPIC, 0, 1, 9, 1, 8, 9_000.0, deleted_in_seconds=60.0)


def begins_at(offset: int) -> Change:
    """The log of the source begins there; so far it is copied up to 100."""
    starts = {TopicPartition(TOPIC, 0): offset}
    return lambda known: replace(known, ends=replace(known.ends, starts=starts))  # type: ignore[arg-type]


def ends_at(offset: int) -> Change:
    ends = {TopicPartition(TOPIC, 1): offset}
    return lambda known: replace(known, ends=replace(known.ends, ends=ends))  # type: ignore[arg-type]


def without_second(known: Facts) -> Facts:
    """No position of the second partition is on record."""
    return status(partitions=known.status.partitions[:1])(known)  # type: ignore[union-attr]


def group_at(upstream: int) -> Change:
    """The last checkpoint of the group, which stands at 40."""
    said = {(GROUP, COPIED): Checkpoint(GROUP, COPIED, upstream, upstream)}
    return groups(checkpoints=said, checkpoints_before=said)


BEHIND = partition(lag_records=60, lag_seconds=1.0)
UNEVEN = replace(
    topic(COPY),
    partitions=(
        replace(topic(COPY).partitions[0], replicas=(1,), in_sync=(1,)),
        topic(COPY).partitions[1],
    ),
)

# One offset, second or replica more than is allowed is too much.
JUST: list[tuple[str, Impact, Change]] = [
    ("not-begun", LOSES, both(without_second, ends_at(1))),
    ("near-deletion", LOSES, both(BEHIND, begins_at(101))),
    ("group-set-back", LOSES, group_at(41)),
    ("read-again", DUPLICATES, group_at(39)),
    (
        "records-parked",
        LOSES,
        both(lines("mirror.oversized.records = park"), lambda known: replace(known, parked=1)),
    ),
    (
        "group-without-checkpoint",
        LOSES,
        both(moves(positions=(position(translation=Bounded(30, 10)),)), groups(checkpoints={})),
    ),
    # The worst of several partitions, and of several brokers, counts.
    ("never-enough-replicas", BLOCKS, both(topics("target", east_orders=UNEVEN))),
    (
        "positions-expire",
        LOSES,
        lambda known: on(
            "target",
            settings={**known.target.settings, "offsets.retention.minutes": frozenset({"60", "10080"})},  # type: ignore[union-attr]
        )(known),
    ),
]


@pytest.mark.parametrize(("rule", "impact", "change"), JUST, ids=[each[0] for each in JUST])
def test_one_too_many_is_found(rule: str, impact: Impact, change: Change) -> None:
    assert [each.impact for each in only(change, rule)] == [impact]


def test_a_group_that_the_target_does_not_tell_of_may_hide_a_loss() -> None:
    """Whoever moved it would find out only then."""
    found = judge(moves(decisions=(decision(GroupAction.SKIP_UNKNOWN),))(facts()))
    assert found.verdict == "UNKNOWN"
    assert [(each.impact, each.where, each.is_looked_at) for each in found.differences] == [(LOSES, GROUP, False)]


def test_how_old_the_lag_is_is_not_known_where_one_partition_does_not_tell() -> None:
    second = PartitionStatus(TOPIC, 1, 90, 90, 100, 10, 5.0)
    for age, oldest in ((3.0, 5.0), (None, None)):
        first = PartitionStatus(TOPIC, 0, 90, 90, 100, 10, age)
        found = judge(status(partitions=(first, second))(facts()))
        assert (found.lag_records, found.lag_seconds) == (20, oldest)


# What looks like a difference to this rule, and is none.
NONE: list[tuple[str, Change]] = [
    ("lag", partition(lag_records=9, lag_seconds=30.0)),
    ("near-deletion", both(BEHIND, begins_at(100))),
    ("group-set-back", group_at(40)),
    # It has gone on since its position was read.
    ("group-set-back", groups(checkpoints={(GROUP, COPIED): Checkpoint(GROUP, COPIED, 41, 41)})),
    ("flow-troubled", status(state="DEGRADED", reasons=(SOON_DELETED.cliff_words,))),
    ("flow-troubled", both(on_record(Phase.DONE), status(state="DEGRADED", reasons=("failed over: to west (x)",)))),
    # What holds nothing has nothing to copy.
    (
        "not-begun",
        lambda known: status(partitions=known.status.partitions[:1])(replace(known, ends=replace(known.ends, ends={}))),
    ),
    # Compacted, it is not deleted by age.
    (
        "near-deletion",
        both(partition(lag_records=9, lag_seconds=400_000.0), configs("source", TOPIC, cleanup_policy="compact")),
    ),
    ("near-deletion", both(partition(lag_records=9, lag_seconds=4e9), configs("source", TOPIC, retention_ms="-1"))),
    ("group-coordinator", topics("target", __consumer_offsets=None)),
    ("transaction-coordinator", both(topics("target", __transaction_state=None), on("target", brokers=(1,)))),
    ("aborted-copied", on("source", transactions={"mm2-state.west.internal.east": "Empty"})),
    ("aborted-copied", on("source", transactions={"west-mm2-MirrorSourceConnector-0": "Ongoing"})),
    (
        "aborted-copied",
        both(lines("east.consumer.isolation.level = read_committed"), on("source", transactions={"a": ""})),
    ),
    (
        "cleanup-policy",
        both(
            configs("source", TOPIC, cleanup_policy="compact,delete"),
            configs("target", TOPIC, cleanup_policy="delete, compact"),
            configs("target", COPY, cleanup_policy="delete,compact"),
        ),
    ),
    # What nobody writes to under its own name: a copy of another cluster's topic.
    (
        "own-topic-missing",
        lambda known: replace(known, copies={**known.copies, "west.x": "east.west.x"}),
    ),
    (
        "topics-left-out",
        topics("source", **{"mm2-offset-syncs.west.internal": topic("mm2-offset-syncs.west.internal")}),
    ),
    ("topics-left-out", topics("source", heartbeats=topic("heartbeats"))),
    ("group-left-out", groups(left_out={f"{SHADOW_PREFIX}x": (TOPIC,)})),
    # Of super users everything is allowed; what is denied on the source is not needed on the target.
    (
        "rights",
        both(acls("source", acl("ALLOW READ")), acls("target"), settings("target", super_users="User:eve;User:ann")),
    ),
    ("rights", both(acls("source", acl("ALLOW READ"), acl("DENY READ")), acls("target"))),
    ("rights", both(acls("source", acl("ALLOW READ", "elsewhere")), acls("target"))),
    ("rights", both(acls("source", acl("ALLOW READ", "console-consumer-1", Resource.GROUP)), acls("target"))),
    # The mirror's own rights are not an application's.
    (
        "rights",
        both(acls("source", acl("ALLOW READ")), acls("target"), lambda known: replace(known, own_principal="User:ann")),
    ),
    (
        "rights",
        both(
            acls("source", acl("ALLOW READ"), acl("ALLOW READ", GROUP, Resource.GROUP)),
            acls("target", acl("ALLOW WRITE", "mm2-state.+")),
        ),
    ),
    (
        "logins",
        both(
            on("source", users={"ann": frozenset({"SCRAM-SHA-512"})}),
            acls("source", acl("ALLOW ALL", "mm2-offset-syncs.west.internal")),
        ),
    ),
    # Begun at the end, there may be no position yet.
    (
        "not-begun",
        both(
            lines("east.consumer.auto.offset.reset = latest"),
            lambda known: status(partitions=known.status.partitions[:1])(known),  # type: ignore[union-attr]
        ),
    ),
    # Two replicas cannot do better without losing the one that may be down.
    (
        "acknowledged-by-one",
        both(
            *(configs(end, name, min_insync_replicas="1") for end, name in ENDS),
            topics("target", orders=topic(TOPIC, replicas=(1, 2)), east_orders=topic(COPY, replicas=(1, 2))),
        ),
    ),
    ("authorizer", both(acls("target"), settings("target", allow_everyone_if_no_acl_found="true"))),
    ("fenced", both(acls("source"), acls("target", acl("DENY WRITE", "elsewhere", principal="User:*")))),
    ("group-not-translated", moves(positions=(position(0, translation=NotMirrored()),))),
]


@pytest.mark.parametrize(("rule", "change"), NONE, ids=[f"{number}-{each[0]}" for number, each in enumerate(NONE)])
def test_what_is_no_difference_is_not_told(rule: str, change: Change) -> None:
    assert only(change, rule) == []


def test_on_one_broker_a_side_one_replica_is_no_worse_than_it_was() -> None:
    """The practice clusters: it degrades, and keeps nobody from failing over."""
    single = topic(TOPIC, replicas=(1,))
    small = both(
        on("source", brokers=(1,)),
        on("target", brokers=(1,)),
        topics("source", orders=single),
        topics("target", orders=single, east_orders=topic(COPY, replicas=(1,))),
        *(configs(end, name, min_insync_replicas="1") for end, name in ENDS),
    )
    assert {(each.impact, each.target) for each in only(small, "single-replica")} == {(DEGRADES, "1")}
    assert judge(small(facts())).verdict == "PASS"


@pytest.mark.parametrize("seconds", [5, 1])
def test_what_the_file_says_already_is_not_advised(seconds: int) -> None:
    """To set the interval to 5 s was the advice, too, where it was 5 s."""
    (found,) = only(both(READ_ON, lines(f"emit.checkpoints.interval.seconds = {seconds}")), "read-again")
    assert found.mend.startswith("with the source alive: mirror groups ")


@pytest.mark.parametrize(
    ("more", "mend"),
    [
        ((), "wait for 5 s"),
        (("emit.checkpoints.enabled = false",), "east->west.emit.checkpoints.enabled = true, and wait for 5 s"),
        (
            ("emit.checkpoints.interval.seconds = -1",),
            "east->west.emit.checkpoints.interval.seconds = 60, and wait for 60 s",
        ),
    ],
)
def test_checkpoints_that_are_written_need_only_be_waited_for(more: Sequence[str], mend: str) -> None:
    """To enable them was the advice, too, where they are, as by default."""
    (found,) = only(both(groups(checkpoints={}), lines(*more)), "group-without-checkpoint")
    assert found.mend == mend


def test_who_reads_a_copy_of_the_flow_back_has_a_checkpoint_only_where_that_is_selected() -> None:
    """The failover moves such a group too; readiness looked at those of the topic filter alone."""
    reader = moves(positions=(position(source=TopicPartition("west.orders", 0)),))
    (found,) = only(both(lines("topics = orders"), reader, groups(checkpoints={})), "group-without-checkpoint")
    selected = "east->west.topics = ..., west.orders (for checkpoints: it is not copied back)"
    assert found.mend == f"{selected}, and wait for 5 s"


def test_with_unchanged_names_the_copy_is_what_is_written_to() -> None:
    known = replace(facts(), copies={TOPIC: TOPIC})
    assert known.twins == [(TOPIC, TOPIC)]
    assert judge(topics("target", east_orders=None)(known)).verdict == "PASS"


def test_the_side_that_everybody_may_read_is_not_a_side_alone() -> None:
    sides = replace(facts(), source=side("east", TOPIC), target=side("west", TOPIC, COPY))
    everybody = [acl("ALLOW READ", COPY, principal="User:*"), acl("ALLOW WRITE", TOPIC, principal="User:*")]
    assert judge(acls("target", *everybody)(sides)).verdict == "PASS"


def test_every_rule_stands_in_the_documentation_with_its_class() -> None:
    text = (Path(__file__).parents[3] / "docs/readiness.md").read_text()
    assert re.findall(r"^\| `([a-z-]+)` \| ([a-z]+) \|", text, re.MULTILINE) == [
        (each.id, each.worst) for each in RULES
    ]
