"""Groups whose coordinator does not answer fail alone: the others are told all the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import kafka.errors
import pytest

from mirror.config.settings import ClusterSettings
from mirror.kafka import cluster_connection as module
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupDescription, GroupPosition
from mirror.kafka.problems import ClusterUnreachable
from mirror.model.partition import TopicPartition

ORDERS = TopicPartition("orders", 0)


class Answer:
    """Something that a broker answers."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


class TwoCoordinators(Cluster):
    """A cluster in which broker 1 coordinates the group a and broker 2 the group b."""

    def __init__(self, *hanging: int, failure: type[Exception] = kafka.errors.KafkaTimeoutError) -> None:
        manager = Answer(send=None, lacking=None, broker_version_data=Answer(api_version=lambda _: 10))
        self.hanging = hanging
        self.failure = failure
        self.asked: list[int] = []
        settings = ClusterSettings("east", {"bootstrap.servers": "127.0.0.1:1"})
        super().__init__(settings, cast(Any, None), cast(Any, manager), 0.0)

    def _coordinators(self, groups: Sequence[str]) -> Any:
        return {}, {number: [group] for group, number in (("a", 1), ("b", 2)) if group in groups}

    def _run(self, _: Any, request: Any = None, node_id: int | None = None) -> Any:
        if node_id is None:
            return Answer(cluster_id="an id")
        if node_id in self.hanging:
            self.asked.append(node_id)
            raise self.failure("no answer")
        (group,) = request.groups
        if isinstance(group, str):
            return Answer(groups=[Answer(group_id=group, error_code=0, group_state="Empty", members=[])])
        partition = Answer(partition_index=0, committed_offset=7, metadata="", error_code=0)
        found = Answer(group_id=group.group_id, error_code=0, topics=[Answer(name="orders", partitions=[partition])])
        return Answer(groups=[found])


FAILURES = [kafka.errors.KafkaTimeoutError, kafka.errors.KafkaConnectionError, kafka.errors.RequestTimedOutError]


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("at_once", [1, 500])
def test_positions_of_the_other_groups_are_read(
    failure: type[Exception], at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a request holds none but groups of the broker that hangs, which is asked once."""
    monkeypatch.setattr(module, "_ITEMS_PER_REQUEST", at_once)
    cluster = TwoCoordinators(1, failure=failure)
    found = cluster.positions_of_groups(["a", "b"])
    assert found == {"b": {ORDERS: GroupPosition(7)}}
    assert "no answer from the group coordinator, broker 1: " in found.problems["a"]
    assert cluster.asked == [1]


def test_the_other_groups_are_described() -> None:
    found = TwoCoordinators(2).describe_groups(["a", "b"])
    assert found == {"a": GroupDescription("Empty", 0)}
    assert "broker 2" in found.problems["b"]


@pytest.mark.parametrize("failure", FAILURES)
def test_a_cluster_of_which_no_coordinator_answers_is_away(failure: type[Exception]) -> None:
    """Also if each has taken the request, as one that is frozen does: the log then tells of the outage, and its end."""
    with pytest.raises(ClusterUnreachable):
        TwoCoordinators(1, 2, failure=failure).positions_of_groups(["a", "b"])
