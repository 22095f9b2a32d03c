"""The commands and keys that mend a difference, with their names in them."""

from __future__ import annotations

from mirror.model.partition import TopicPartition
from mirror.recovery.readiness_facts import Facts, Side


def set_topic(side: Side, topic: str, key: str, value: str) -> str:
    """Return the command that sets something of a topic; a list needs brackets."""
    spelled = f"[{value}]" if "," in value else value
    return (
        f"kafka-configs.sh --bootstrap-server {side.bootstrap} --alter --entity-type topics --entity-name {topic} "
        f"--add-config {key}={spelled}"
    )


def set_brokers(side: Side, key: str, value: str) -> str:
    """Return what is to be set for the brokers."""
    return f"set {key}={value} in server.properties of the brokers of {side.alias}"


def create_topic(side: Side, topic: str, partitions: int, replicas: int) -> str:
    """Return the command that creates a topic."""
    return (
        f"kafka-topics.sh --bootstrap-server {side.bootstrap} --create --topic {topic} --partitions {partitions} "
        f"--replication-factor {replicas}"
    )


def grow_topic(side: Side, topic: str, partitions: int) -> str:
    """Return the command that adds partitions to a topic."""
    return f"kafka-topics.sh --bootstrap-server {side.bootstrap} --alter --topic {topic} --partitions {partitions}"


def reassign(side: Side, topic: str, replicas: int) -> str:
    """Return what gives a topic more replicas."""
    return (
        f"give {topic} {replicas} replicas: kafka-reassign-partitions.sh --bootstrap-server {side.bootstrap} "
        f"--reassignment-json-file FILE --execute, where FILE names {replicas} brokers for each of its partitions"
    )


def describe_topic(side: Side, topic: str) -> str:
    """Return the command that shows which brokers a topic waits for."""
    return (
        f"start the brokers that hold it: kafka-topics.sh --bootstrap-server {side.bootstrap} --describe --topic "
        f"{topic}"
    )


def set_group(side: Side, group: str, partition: TopicPartition, position: int) -> str:
    """Return the command that puts a group without members somewhere."""
    return (
        f"kafka-consumer-groups.sh --bootstrap-server {side.bootstrap} --group {group} "
        f"--topic {partition.topic}:{partition.partition} --reset-offsets --to-offset {position} --execute"
    )


def flow_key(facts: Facts, key: str, value: str) -> str:
    """Return the line of the properties file that sets something for the flow."""
    return f"{facts.flow}.{key} = {value}"


def mirror(facts: Facts, command: str, more: str = "") -> str:
    """Return a command of ours for the flow."""
    return f"mirror {command} {facts.file} --flow '{facts.flow}'{more}"
