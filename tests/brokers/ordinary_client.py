"""A lab's cluster as any application sees it, through librdkafka."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from mirror.lab.clusters import LabCluster

QUIET = {"log_level": 0}


def create_topic(cluster: LabCluster, topic: str, *, replicas: int = 1) -> None:
    """Create a topic of one partition."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **QUIET})
    admin.create_topics([NewTopic(topic, 1, replicas)])[topic].result(30)


def send(cluster: LabCluster, topic: str, *values: str) -> None:
    """Send records and return when each is acknowledged."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", **QUIET})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    producer.close()


def read(cluster: LabCluster, topic: str, count: int) -> list[str]:
    """Read the first records of a topic."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "reader", **QUIET})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(count, timeout=30)
    consumer.close()
    return [(message.value() or b"").decode() for message in messages]


def cluster_id(cluster: LabCluster) -> str:
    """The id a cluster says it has."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **QUIET})
    return str(admin.list_topics(timeout=10).cluster_id)
