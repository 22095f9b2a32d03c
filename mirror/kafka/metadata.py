"""What a cluster last said of its topics: who leads which partition, in which epoch, and the topics' ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kafka.protocol.metadata import MetadataRequest

from mirror.kafka import codes, topic_ids
from mirror.kafka.versions import METADATA
from mirror.model.leader_epochs import NOT_KNOWN
from mirror.model.partition import TopicPartition


def metadata_request(topics: Iterable[str] | None) -> MetadataRequest:
    """Return the question about these topics, or all; none is created by it."""
    asked = MetadataRequest.MetadataRequestTopic
    return MetadataRequest(
        topics=None if topics is None else [asked(name=name) for name in topics],
        allow_auto_topic_creation=False,
        min_version=METADATA.oldest,
    )


class Metadata:
    """The leaders of partitions, and ids of topics, of one cluster, until they are forgotten.

    Channels to a cluster that follow one another may share one. Threads may look while another learns.
    """

    def __init__(self) -> None:
        """Know nothing."""
        self._leaders: dict[TopicPartition, int] = {}
        self._replicas: dict[TopicPartition, frozenset[int]] = {}
        self._leader_epochs: dict[TopicPartition, int] = {}
        self._topic_ids: dict[str, str] = {}
        self._topic_errors: dict[str, int] = {}
        self._partition_counts: dict[str, int] = {}

    def leader(self, partition: TopicPartition) -> int | None:
        """Return the node that leads a partition; None if that is not known."""
        return self._leaders.get(partition)

    def leader_epoch(self, partition: TopicPartition) -> int:
        """Return the epoch of the leader of a partition, -1 if the cluster did not tell."""
        return self._leader_epochs.get(partition, NOT_KNOWN)

    def replicas(self, partition: TopicPartition) -> frozenset[int]:
        """Return the brokers that had a replica when leaders were last asked for; none if that is not known."""
        return self._replicas.get(partition, frozenset())

    def topic_id(self, topic: str) -> str:
        """Return the id a topic had when its leaders were last asked for, in Kafka's own spelling; empty if none."""
        return self._topic_ids.get(topic, "")

    def topic_error(self, topic: str) -> int:
        """Return the error code that a topic was last reported with, 0 for none."""
        return self._topic_errors.get(topic, codes.UNKNOWN_TOPIC)

    def partition_count(self, topic: str) -> int:
        """Return how many partitions a topic was last told to have, with leaders or without; 0 if it is unknown."""
        return self._partition_counts.get(topic, 0)

    def lacks(self, partition: TopicPartition) -> bool:
        """Tell whether a partition was told not to be there; what nobody has told of may be."""
        code = self.topic_error(partition.topic)
        if code in (0, codes.LEADER_NOT_AVAILABLE):
            return partition.partition >= self.partition_count(partition.topic)
        return code == codes.UNKNOWN_TOPIC

    def take_in(self, topics: Iterable[str], answer: Any) -> None:
        """Know of these topics what an answer to :func:`metadata_request` says, and nothing else."""
        self.forget(topics)
        for topic in answer.topics:
            self._topic_ids[topic.name] = topic_ids.spell(topic.topic_id)
            self._topic_errors[topic.name] = topic.error_code
            self._partition_counts[topic.name] = len(topic.partitions)
            for entry in topic.partitions:
                if entry.leader_id >= 0:
                    address = TopicPartition(topic.name, entry.partition_index)
                    self._leaders[address], self._leader_epochs[address] = entry.leader_id, entry.leader_epoch
                    self._replicas[address] = frozenset(entry.replica_nodes)

    def forget(self, topics: Iterable[str] | None = None) -> None:
        """Know no leaders of the partitions of these topics any more, or of all."""
        forgotten = None if topics is None else set(topics)
        self._keep(lambda known, _: forgotten is not None and known.topic not in forgotten)

    def forget_partition(self, partition: TopicPartition) -> None:
        """Know no leader of this partition any more."""
        self._leaders.pop(partition, None)

    def forget_led_by(self, node: int) -> None:
        """Know no leader of what a broker has led any more."""
        self._keep(lambda _, leader: leader != node)

    def _keep(self, wanted: Callable[[TopicPartition, int], bool]) -> None:
        # Another thread may be learning others meanwhile.
        self._leaders = {known: node for known, node in list(self._leaders.items()) if wanted(known, node)}
