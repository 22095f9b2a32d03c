"""Over which connection of a broker a partition is written to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mirror.copier import links
from mirror.copier.links import ClusterLinks
from mirror.kafka.problems import ConnectionFailed
from mirror.model.partition import TopicPartition


class Told:
    """What a cluster has told: 30 sets of replicas, by the number of the partition."""

    def replicas(self, partition: TopicPartition) -> frozenset[int]:
        number = partition.partition % 30
        return frozenset({1, 2 + number % 5, 7 + number % 6})


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> ClusterLinks:
    monkeypatch.setattr(links, "Metadata", Told)
    return ClusterLinks("west", {})


def test_partitions_with_the_same_replicas_share_a_connection_and_others_do_not_wait_for_them(
    cluster: ClusterLinks,
) -> None:
    first, other, like_the_first = (TopicPartition("orders", number) for number in (0, 1, 30))
    assert cluster.line(1, first) == cluster.line(1, like_the_first)
    assert cluster.line(1, first) != cluster.line(1, other)


def test_a_broker_has_no_more_connections_than_a_few_and_a_partition_keeps_its_own(cluster: ClusterLinks) -> None:
    partitions = [TopicPartition("orders", number) for number in range(60)]
    lines = [cluster.line(1, each) for each in partitions]
    assert set(lines) == set(range(8))
    assert [cluster.line(1, each) for each in reversed(partitions)] == lines[::-1]
    assert cluster.line(2, partitions[-1]) == 0, "each broker is counted by itself"


def test_where_replicas_are_not_known_all_go_over_one() -> None:
    nowhere = ClusterLinks("west", {})
    assert {nowhere.line(1, TopicPartition("orders", number)) for number in range(9)} == {0}


def test_a_follower_that_failed_is_left_alone_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock: Any = SimpleNamespace(now=100.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(links, "time", clock)
    nowhere, orders = ClusterLinks("west", {}), TopicPartition("orders", 0)
    nowhere.read_leader(orders, "it hung up")
    told = []
    for clock.now in (100.0, 159.0, 160.0):
        told.append(nowhere.leader_alone(orders))
    assert told == ["it hung up", "it hung up", None]


def test_of_what_was_closed_nothing_is_asked_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that is late does not connect again."""
    monkeypatch.setattr(links, "Channel", lambda *_, **__: SimpleNamespace(close=lambda: None))
    nowhere = ClusterLinks("west", {})
    assert nowhere.channel()
    nowhere.close()
    with pytest.raises(ConnectionFailed, match="nothing is asked any more"):
        nowhere.channel()
