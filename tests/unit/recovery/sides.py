"""Two sides of a flow as `mirror readiness` knows them: alike in all, but for what a test changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from mirror.control.flow_status import FlowStatus, PartitionStatus
from mirror.control.group_view import TranslatedPosition
from mirror.kafka.acls import NoAuthorizer
from mirror.kafka.brokers import CONSUMER_GROUP_HEARTBEAT, Offered
from mirror.kafka.cluster_model import GroupListing, Partition, Topic
from mirror.model.checkpoint import Checkpoint
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.translation import Exact
from mirror.recovery.group_moves import MovePlan
from mirror.recovery.readiness_facts import Ends, Facts, Groups, Side
from tests.unit.control.builders import flow_settings

TOPIC, COPY, GROUP = "orders", "east.orders", "billing"
PARTITIONS, REPLICAS = 2, (1, 2, 3)
COPIED = TopicPartition(COPY, 0)
FLOW = Flow("east", "west")
LINES = ("sync.group.offsets.enabled = true", "emit.checkpoints.interval.seconds = 5")

CONFIGS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "index.interval.bytes": "4096",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "min.insync.replicas": "2",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "unclean.leader.election.enable": "false",
}
SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.max.session.timeout.ms": "1800000",
    "listener.security.protocol.map": "CLIENTS:SASL_SSL,CONTROLLER:PLAINTEXT",
    "listeners": "CLIENTS://host:9092,CONTROLLER://host:9093",
    "controller.listener.names": "CONTROLLER",
    "num.partitions": "6",
    "offsets.retention.minutes": "10080",
    "offsets.topic.replication.factor": "3",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
    "transaction.max.timeout.ms": "900000",
    "transaction.state.log.replication.factor": "3",
}

Change = Callable[[Facts], Facts]


def topic(name: str, partitions: int = PARTITIONS, replicas: tuple[int, ...] = REPLICAS, **known: Any) -> Topic:
    """A topic of which all replicas are in sync, and the first leads, but for what is given."""
    each = {"leader": replicas[0], "in_sync": replicas} | known
    made = tuple(Partition(number, each["leader"], 0, replicas, each["in_sync"]) for number in range(partitions))
    return Topic(name, "A" * 22, made, name.startswith("__"))


def side(alias: str, *names: str) -> Side:
    """A cluster of three brokers with these topics and Kafka's own."""
    topics = {name: topic(name) for name in (*names, "__consumer_offsets", "__transaction_state")}
    return Side(
        alias,
        f"{alias}:9092",
        f"id-of-{alias}",
        REPLICAS,
        topics,
        configs=dict.fromkeys(topics, CONFIGS),
        settings={key: frozenset({value}) for key, value in SETTINGS.items()},
        acls=NoAuthorizer(alias),
        groups=(GroupListing(GROUP, "consumer", "Stable", "classic"),),
        offered=Offered({0: 12, CONSUMER_GROUP_HEARTBEAT: 1}, {"metadata.version": 29}),
    )


def position(upstream: int = 40, **known: Any) -> TranslatedPosition:
    """Where the group stands."""
    known = {"translation": Exact(upstream)} | known
    return TranslatedPosition(GROUP, COPY, 0, upstream, **known)


def facts(*lines: str) -> Facts:
    """A flow that runs, between clusters that are alike; one could fail over."""
    settings = flow_settings(*LINES, *lines)
    partitions = tuple(PartitionStatus(TOPIC, number, 100, 100, 100, 0, 0.0) for number in range(PARTITIONS))
    numbers = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    return Facts(
        settings=settings,
        source=side("east", TOPIC),
        target=side("west", TOPIC, COPY),
        status=FlowStatus(FLOW, "RUNNING", (), partitions),
        copies={TOPIC: COPY},
        groups=Groups(MovePlan(settings, (position(),)), {(GROUP, COPIED): Checkpoint(GROUP, COPIED, 40, 40)}),
        ends=Ends(dict.fromkeys(numbers, 0), dict.fromkeys(numbers, 100)),
        aliases=frozenset({"east", "west"}),
        file="mm2.properties",
    )


def on(end: str, **changes: Any) -> Change:
    """Change one side."""
    return lambda known: replace(known, **{end: replace(getattr(known, end), **changes)})  # type: ignore[arg-type]


def topics(end: str, **named: Topic | None) -> Change:
    """Put topics on one side, or take them away; ``_`` stands for a dot."""

    def change(known: Facts) -> Facts:
        there = getattr(known, end)
        made = {name.replace("east_", "east."): each for name, each in named.items()}
        left = {name: each for name, each in (there.topics | made).items() if each is not None}
        return replace(known, **{end: replace(there, topics=left)})

    return change


def configs(end: str, name: str, **values: str) -> Change:
    """Set something of a topic; ``_`` stands for a dot."""

    def change(known: Facts) -> Facts:
        there: Side = getattr(known, end)
        changed = {key.replace("_", "."): value for key, value in values.items()}
        made: Mapping[str, Mapping[str, str]] = {**there.configs, name: {**there.configs[name], **changed}}
        return replace(known, **{end: replace(there, configs=made)})

    return change


def settings(end: str, **values: str | None) -> Change:
    """Set something of the brokers; ``_`` stands for a dot."""

    def change(known: Facts) -> Facts:
        there = getattr(known, end)
        made = {key.replace("_", "."): value for key, value in values.items()}
        changed = there.settings | {key: frozenset({value}) for key, value in made.items() if value is not None}
        return replace(known, **{end: replace(there, settings=changed)})

    return change


def status(**changes: Any) -> Change:
    """Change what is known of the flow."""
    return lambda known: replace(known, status=replace(known.status, **changes))  # type: ignore[arg-type]


def partition(**changes: Any) -> Change:
    """Change what is known of the first partition."""

    def change(known: Facts) -> Facts:
        first, *others = known.status.partitions  # type: ignore[union-attr]
        return status(partitions=(replace(first, **changes), *others))(known)

    return change


def groups(**changes: Any) -> Change:
    """Change what is known of the groups."""
    return lambda known: replace(known, groups=replace(known.groups, **changes))


def moves(**changes: Any) -> Change:
    """Change what would become of the groups."""
    return lambda known: groups(moves=replace(known.groups.moves, **changes))(known)  # type: ignore[arg-type]


def lines(*more: str) -> Change:
    """Write more lines into the properties file."""
    return lambda known: replace(known, settings=flow_settings(*LINES, *more))
