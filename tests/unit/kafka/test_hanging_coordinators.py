"""Groups whose coordinator does not answer fail alone: the others are told all the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import kafka.errors
import pytest

from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster, ClusterUnreachable, GroupDescription, GroupPosition
from mirror.model.partition import TopicPartition

ORDERS = TopicPartition("orders", 0)


class Answer:
    """Something that a broker answers."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


class TwoCoordinators(Cluster):
    """A cluster in which broker 1 coordinates the group a and broker 2 the group b."""

    def __init__(self, *hanging: int) -> None:
        manager = Answer(lacking=None, broker_version_data=Answer(api_version=lambda _: 10))
        self.hanging = hanging
        settings = ClusterSettings("east", {"bootstrap.servers": "127.0.0.1:1"})
        super().__init__(settings, cast(Any, None), cast(Any, manager), 0.0)

    def _coordinators(self, groups: Sequence[str]) -> Any:
        return {}, {number: [group] for group, number in (("a", 1), ("b", 2)) if group in groups}

    def send(self, request: Any, node_id: int | None = None) -> Any:
        if node_id is None:
            return Answer(cluster_id="an id")
        if node_id in self.hanging:
            raise kafka.errors.KafkaTimeoutError("no answer")
        (group,) = request.groups
        if isinstance(group, str):
            return Answer(groups=[Answer(group_id=group, error_code=0, group_state="Empty", members=[])])
        partition = Answer(partition_index=0, committed_offset=7, metadata="", error_code=0)
        found = Answer(group_id=group.group_id, error_code=0, topics=[Answer(name="orders", partitions=[partition])])
        return Answer(groups=[found])


def test_positions_of_the_other_groups_are_read() -> None:
    found = TwoCoordinators(1).positions_of_groups(["a", "b"])
    assert found == {"b": {ORDERS: GroupPosition(7)}}
    assert "no answer from the group coordinator, broker 1: no answer in time" in found.problems["a"]


def test_the_other_groups_are_described() -> None:
    found = TwoCoordinators(2).describe_groups(["a", "b"])
    assert found == {"a": GroupDescription("Empty", 0)}
    assert "broker 2" in found.problems["b"]


def test_a_cluster_of_which_no_coordinator_answers_is_away() -> None:
    with pytest.raises(ClusterUnreachable):
        TwoCoordinators(1, 2).positions_of_groups(["a", "b"])
