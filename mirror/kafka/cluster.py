"""One Kafka cluster: its topics, settings, offsets and groups, read and changed through the admin protocols.

Answers are values. What is asked for many items comes back as `Found`, the answers beside the problems, or as one
`ItemResult` an item; an exception means that the cluster as a whole did not answer, or refuses everything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)

from mirror.kafka import codes, topic_ids
from mirror.kafka.answers import Answer, Found, ItemResult, found_of, item_results, spelled
from mirror.kafka.channel import EARLIEST, LATEST, View, offsets_answered, offsets_request
from mirror.kafka.cluster_groups import GroupRequests
from mirror.kafka.cluster_model import ConfigChange, ConfigEntry, NewTopic, Partition, Topic, config_entries
from mirror.model.counts import counted
from mirror.model.partition import TopicPartition

_TOPIC_RESOURCE = 2


_SET, _DELETE = 0, 1


class Cluster(GroupRequests):
    """A connection to one cluster for administration; safe to use from several threads."""

    def topics(self, names: Collection[str] | None = None, *, include_internal: bool = False) -> Found[str, Topic]:
        """Return the topics by name: all of them, or those of ``names`` that exist.

        The cluster's own topics (``__consumer_offsets`` and its like) are left out unless asked for. Of ``names``,
        those that don't exist are simply absent; those that may not be seen are among the problems.
        """
        metadata = self._metadata(None if names is None else list(names))
        found: Found[str, Topic] = Found()
        for topic in metadata.topics:
            if topic.error_code == codes.UNKNOWN_TOPIC or (topic.is_internal and not include_internal):
                continue
            if topic.error_code and not topic.partitions:
                hint = codes.hint(topic.error_code, "Describe on the topic")
                found.problems[topic.name] = spelled(topic.error_code, None) + hint
                continue
            found[topic.name] = Topic(
                topic.name,
                topic_ids.spell(topic.topic_id),
                tuple(
                    Partition(
                        each.partition_index,
                        each.leader_id,
                        each.leader_epoch,
                        tuple(each.replica_nodes),
                        tuple(each.isr_nodes),
                    )
                    for each in sorted(topic.partitions, key=lambda each: int(each.partition_index))
                ),
                bool(topic.is_internal),
            )
        return found

    def topic_configs(self, names: Collection[str]) -> Found[str, tuple[ConfigEntry, ...]]:
        """Return every setting of each topic, with where its value comes from."""

        def ask(asked: Sequence[str]) -> dict[str, Answer]:
            resources = [
                DescribeConfigsRequest.DescribeConfigsResource(
                    resource_type=_TOPIC_RESOURCE, resource_name=name, configuration_keys=None
                )
                for name in asked
            ]
            response = self.send(DescribeConfigsRequest(resources=resources))
            return {
                result.resource_name: Answer(result.error_code, result.error_message, config_entries(result)).needing(
                    "DescribeConfigs on the topic"
                )
                for result in response.results
            }

        return found_of(self._settle("reading the settings of topics", names, ask))

    def create_topics(self, topics: Sequence[NewTopic], *, only_validate: bool = False) -> list[ItemResult]:
        """Create topics; a created one is visible, with leaders, on return. One that exists already is not changed.

        With ``only_validate`` nothing is created: the cluster says what it would refuse.
        """
        by_name = {topic.name: topic for topic in topics}

        def ask(names: Sequence[str]) -> dict[str, Answer]:
            creatable = CreateTopicsRequest.CreatableTopic
            response = self.send(
                CreateTopicsRequest(
                    topics=[
                        creatable(
                            name=name,
                            num_partitions=by_name[name].partitions,
                            replication_factor=by_name[name].replication_factor,
                            assignments=[],
                            configs=[
                                creatable.CreatableTopicConfig(name=key, value=value)
                                for key, value in by_name[name].configs.items()
                            ],
                        )
                        for name in names
                    ],
                    timeout_ms=self._timeout_ms,
                    validate_only=only_validate,
                ),
                self.controller_id(),
            )
            needed = "Create on the topic, or on the cluster"
            return {
                topic.name: Answer(topic.error_code, topic.error_message).needing(needed) for topic in response.topics
            }

        answers = self._settle("creating topics", by_name, ask)
        created = {name: by_name[name].partitions for name, answer in answers.items() if answer.code == 0}
        invisible = {} if only_validate else self._await_leaders(created)
        return [
            ItemResult(name, existed=True)
            if answer.code == codes.TOPIC_ALREADY_EXISTS
            else ItemResult(name, answer.problem or invisible.get(name))
            for name, answer in answers.items()
        ]

    def _await_leaders(self, partitions: Mapping[str, int]) -> dict[str, str]:
        """Wait until every topic shows so many partitions, all with leaders that know it; return why others don't."""

        def ask(names: Sequence[str]) -> dict[str, Answer]:
            seen = self.topics(names, include_internal=True)
            return {name: _leaders_of(seen.get(name), partitions[name]) for name in names}

        answers = self._settle("waiting for leaders of new partitions", partitions, ask)
        led = [name for name, answer in answers.items() if not answer.code]
        # Who leads is known before those who lead know: for some ms they refuse whoever comes.
        self.offsets([TopicPartition(name, number) for name in led for number in range(partitions[name])], "latest")
        return {name: str(answer.problem) for name, answer in answers.items() if answer.code}

    def grow_partitions(self, counts: Mapping[str, int]) -> list[ItemResult]:
        """Raise topics to so many partitions; the new ones have leaders on return. ``existed``: it had them already."""

        def ask(names: Sequence[str]) -> dict[str, Answer]:
            growing = CreatePartitionsRequest.CreatePartitionsTopic
            response = self.send(
                CreatePartitionsRequest(
                    topics=[growing(name=name, count=counts[name], assignments=None) for name in names],
                    timeout_ms=self._timeout_ms,
                    validate_only=False,
                ),
                self.controller_id(),
            )
            return {
                result.name: Answer(result.error_code, result.error_message).needing("Alter on the topic")
                for result in response.results
            }

        answers = self._settle("adding partitions", counts, ask)
        invisible = self._await_leaders({name: counts[name] for name, answer in answers.items() if answer.code == 0})
        refused = [name for name, answer in answers.items() if answer.code == codes.INVALID_PARTITIONS]
        present = self.topics(refused, include_internal=True) if refused else {}
        return [
            ItemResult(name, existed=True)
            if name in present and len(present[name].partitions) == counts[name]
            else ItemResult(name, answer.problem or invisible.get(name))
            for name, answer in answers.items()
        ]

    def alter_configs(self, changes: Mapping[str, ConfigChange]) -> list[ItemResult]:
        """Change settings of topics incrementally: what is not named stays as it is (TCS-01)."""

        def ask(names: Sequence[str]) -> dict[str, Answer]:
            resource = IncrementalAlterConfigsRequest.AlterConfigsResource
            response = self.send(
                IncrementalAlterConfigsRequest(
                    resources=[
                        resource(
                            resource_type=_TOPIC_RESOURCE,
                            resource_name=name,
                            configs=[
                                *(
                                    resource.AlterableConfig(name=key, config_operation=_SET, value=value)
                                    for key, value in changes[name].set.items()
                                ),
                                *(
                                    resource.AlterableConfig(name=key, config_operation=_DELETE, value=None)
                                    for key in changes[name].delete
                                ),
                            ],
                        )
                        for name in names
                    ],
                    validate_only=False,
                ),
                self.controller_id(),
            )
            return {
                each.resource_name: Answer(each.error_code, each.error_message).needing("AlterConfigs on the topic")
                for each in response.responses
            }

        return item_results(self._settle("changing settings of topics", changes, ask))

    def delete_topics(self, names: Collection[str]) -> list[ItemResult]:
        """Delete topics with all their records; one that was not there is no problem, but did not exist."""

        def ask(asked: Sequence[str]) -> dict[str, Answer]:
            response = self.send(
                DeleteTopicsRequest(
                    topics=[DeleteTopicsRequest.DeleteTopicState(name=name) for name in asked],
                    topic_names=list(asked),
                    timeout_ms=self._timeout_ms,
                ),
                self.controller_id(),
            )
            return {
                each.name: Answer(each.error_code, getattr(each, "error_message", None)) for each in response.responses
            }

        answers = self._settle("deleting topics", names, ask)
        absent = {item for item, answer in answers.items() if answer.code == codes.UNKNOWN_TOPIC}
        return [
            ItemResult(item, None if item in absent else answer.problem, existed=item not in absent)
            for item, answer in answers.items()
        ]

    def delete_topics_by_id(self, ids: Mapping[str, str]) -> list[ItemResult]:
        """Delete the topics of these names with just these ids (KIP-516); ``existed``: one was there."""
        absent: set[str] = set()

        def ask(names: Sequence[str]) -> dict[str, Answer]:
            by_id = {topic_ids.parse(ids[name]): name for name in names}
            response = self.send(
                DeleteTopicsRequest(
                    topics=[DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=each) for each in by_id],
                    topic_names=[],
                    timeout_ms=self._timeout_ms,
                ),
                self.controller_id(),
            )
            answers = {}
            for each in response.responses:
                name, is_absent = by_id[each.topic_id], each.error_code == codes.UNKNOWN_TOPIC_ID
                absent.update([name] if is_absent else [])
                answers[name] = Answer(0 if is_absent else each.error_code, each.error_message)
                answers[name] = answers[name].needing("Delete and Describe on the topic")
            return answers

        answers = self._settle("deleting topics", ids, ask)
        return [ItemResult(name, answer.problem, existed=name not in absent) for name, answer in answers.items()]

    # --- offsets -------------------------------------------------------------------------------------------------

    def offsets(
        self, partitions: Collection[TopicPartition], at: Literal["earliest", "latest", "stable", "written"]
    ) -> Found[TopicPartition, int]:
        """Return the start offset, or the end offset (the high watermark: open transactions are counted), of each.

        ``stable`` is the end for readers of committed records: before the first transaction that is open still.
        ``written`` is the end of all that its leader has written: what readers do not see yet, since a replica in sync
        lacks it, was acknowledged to producers with acks=1.
        """
        wanted = EARLIEST if at == "earliest" else LATEST
        view = {"stable": View.STABLE, "written": View.WRITTEN}.get(at, View.VISIBLE)

        def ask(asked: Sequence[TopicPartition]) -> dict[TopicPartition, Answer]:
            answers, by_leader = self._leaders(asked)
            for leader, led in by_leader.items():
                for partition, code, offset in offsets_answered(self.send(offsets_request(led, wanted, view), leader)):
                    answers[partition] = Answer(code, None, offset)
            return answers

        return found_of(self._settle("asking for offsets", partitions, ask))

    def _leaders(
        self, partitions: Sequence[TopicPartition]
    ) -> tuple[dict[TopicPartition, Answer], dict[int, list[TopicPartition]]]:
        """Return the answers for partitions that have no leader to ask, and the others by leader."""
        answers: dict[TopicPartition, Answer] = {}
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        known = self.topics({partition.topic for partition in partitions}, include_internal=True)
        leaders = {
            TopicPartition(topic.name, each.partition): each.leader
            for topic in known.values()
            for each in topic.partitions
        }
        for partition in partitions:
            leader = leaders.get(partition)
            if leader is None:
                reason = known.problems.get(partition.topic, "the topic has no such partition")
                answers[partition] = Answer(codes.UNKNOWN_TOPIC, reason)
            elif leader < 0:
                answers[partition] = Answer(codes.LEADER_NOT_AVAILABLE, "no broker leads this partition at the moment")
            else:
                by_leader[leader].append(partition)
        return answers, by_leader


def _leaders_of(topic: Topic | None, partitions: int) -> Answer:
    leaderless = codes.LEADER_NOT_AVAILABLE
    if topic is None:
        return Answer(leaderless, "created, but not visible yet")
    missing = sum(each.leader < 0 for each in topic.partitions) + max(0, partitions - len(topic.partitions))
    return (
        Answer(leaderless, f"created, but {counted(missing, 'partition')} without a leader yet")
        if missing
        else Answer(0)
    )
