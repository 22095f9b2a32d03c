"""Ten thousand groups: each coordinator is looked up once for a round, for many groups at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetDeleteRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from mirror.config.settings import ClusterSettings
from mirror.kafka import cluster_connection
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupPosition
from mirror.model.partition import TopicPartition
from mirror.recovery.group_snapshot import RestoreAction, RestoreDecision, SavedPosition, _write

GROUPS = [f"group-{number}" for number in range(10_000)]
ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 1)
BROKERS = 3


class Counting(Cluster):
    """A cluster of three brokers that counts what it is asked, and by whom groups are looked up."""

    def __init__(self) -> None:
        manager = SimpleNamespace(broker_version_data=SimpleNamespace(api_version=lambda _: 10), lacking=None)
        settings = ClusterSettings("west", {"bootstrap.servers": "127.0.0.1:1"})
        self.asked: Counter[str] = Counter()
        self.looked_up: list[str] = []
        self.sent: Counter[int] = Counter()
        super().__init__(settings, cast(Any, None), cast(Any, manager), 0.0)

    def send(self, request: Any, node_id: int | None = None) -> Any:
        if isinstance(request, MetadataRequest):
            return SimpleNamespace(cluster_id="an id")
        self.asked[type(request).__name__] += 1
        if isinstance(request, FindCoordinatorRequest):
            self.looked_up += request.coordinator_keys
            return SimpleNamespace(
                coordinators=[
                    SimpleNamespace(key=each, node_id=int(each[6:]) % BROKERS, error_code=0, error_message=None)
                    for each in request.coordinator_keys
                ]
            )
        assert node_id is not None
        self.sent[node_id] += 1
        topic = SimpleNamespace(
            name="orders",
            partitions=[SimpleNamespace(partition_index=0, committed_offset=7, metadata="", error_code=0)],
        )
        if hasattr(request, "include_authorized_operations"):
            found: Any = [
                SimpleNamespace(group_id=each, error_code=0, group_state="Empty", members=[]) for each in request.groups
            ]
        else:
            found = [SimpleNamespace(group_id=each.group_id, error_code=0, topics=[topic]) for each in request.groups]
        return SimpleNamespace(groups=found)

    def _send_each(self, requests: Sequence[tuple[int, Any]], before: Callable[[], None]) -> list[Any]:
        answers = []
        for node, request in requests:
            before()
            self.sent[node] += 1
            self.asked[type(request).__name__] += 1
            topics = [
                SimpleNamespace(
                    name=topic.name,
                    partitions=[
                        SimpleNamespace(partition_index=each.partition_index, error_code=0) for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
            answers.append(SimpleNamespace(topics=topics))
        return answers


def read(cluster: Cluster) -> None:
    assert len(cluster.describe_groups(GROUPS)) == len(GROUPS)


def fetched(cluster: Cluster) -> None:
    assert len(cluster.positions_of_groups(GROUPS)) == len(GROUPS)


def written(cluster: Cluster) -> None:
    results = cluster.write_positions_of_groups({group: {ORDERS: GroupPosition(7)} for group in GROUPS})
    assert all(each.problem is None for of in results.values() for each in of)


def deleted(cluster: Cluster) -> None:
    results = cluster.delete_positions_of_groups(dict.fromkeys(GROUPS, (ORDERS,)))
    assert all(each.problem is None for of in results.values() for each in of)


@pytest.mark.parametrize(
    ("doing", "request_of_a_group"),
    [
        (read, 0),
        (fetched, 0),
        (written, len(GROUPS)),
        (deleted, len(GROUPS)),
    ],
)
def test_a_round_looks_each_coordinator_up_once(doing: Callable[[Cluster], None], request_of_a_group: int) -> None:
    """What Kafka takes for many groups at once is asked so; a commit and a deletion are of one group."""
    cluster = Counting()
    doing(cluster)
    rounds = -(-len(GROUPS) // cluster_connection._ITEMS_PER_REQUEST)
    assert sorted(cluster.looked_up) == sorted(GROUPS)
    assert cluster.asked.pop(FindCoordinatorRequest.__name__) == rounds
    assert cluster.asked.total() == (request_of_a_group or rounds * BROKERS)
    assert max(cluster.sent.values()) - min(cluster.sent.values()) <= rounds


def test_a_snapshot_of_ten_thousand_groups_is_put_back_in_rounds() -> None:
    cluster = Counting()
    decisions = []
    for number, group in enumerate(GROUPS):
        was = number % 2 == 0
        saved = SavedPosition(group, ORDERS, "id", GroupPosition(3) if was else None, GroupPosition(7))
        action = RestoreAction.WRITE if was else RestoreAction.DELETE
        decisions.append(RestoreDecision(saved, GroupPosition(7), action, ""))
    assert _write(decisions, cluster) == {}
    assert cluster.asked[OffsetCommitRequest.__name__] == cluster.asked[OffsetDeleteRequest.__name__] == 5_000
    assert sorted(cluster.looked_up) == sorted(GROUPS)
    assert cluster.asked[FindCoordinatorRequest.__name__] <= 20
