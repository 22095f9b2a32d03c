"""A leader of an older epoch than what was copied is believed only where all brokers name it."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.copier.stale_leaders import stale_leaders
from mirror.kafka.channel import Channel
from mirror.kafka.problems import ConnectionFailed
from mirror.model.partition import TopicPartition

ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 0)


class Brokers:
    """What each broker says of the leader epochs of both partitions; None: it does not answer."""

    alias = "east"

    def __init__(self, told: Mapping[int, Mapping[TopicPartition, int] | None], asked: int = 1) -> None:
        self.told, self.asked, self.calls = told, asked, 0

    def leader_epoch(self, partition: TopicPartition) -> int:
        told = self.told[self.asked]
        assert told is not None
        return told[partition]

    def call(self, _: object, node: int | None = None) -> Any:
        self.calls += 1
        told = self.told[self.asked if node is None else node]
        if told is None:
            raise ConnectionFailed(f"broker {node} is away")
        topics = [
            SimpleNamespace(
                name=each.topic,
                topic_id=None,
                error_code=0,
                partitions=[SimpleNamespace(partition_index=0, leader_id=1, leader_epoch=epoch, replica_nodes=[1])],
            )
            for each, epoch in told.items()
        ]
        return SimpleNamespace(topics=topics, brokers=[SimpleNamespace(node_id=each) for each in self.told])


def stale(brokers: Brokers, **copied: int) -> dict[TopicPartition, str]:
    return stale_leaders(cast(Channel, brokers), {TopicPartition(name, 0): epoch for name, epoch in copied.items()})


@pytest.mark.parametrize("epoch", [5, 6, -1])
def test_a_leader_as_new_as_what_was_copied_or_of_no_known_epoch_is_asked_nothing_more(epoch: int) -> None:
    brokers = Brokers({1: {ORDERS: epoch}, 2: None})
    assert stale(brokers, orders=5) == {}
    assert brokers.calls == 0


def test_where_another_broker_has_heard_of_a_newer_leader_the_older_one_is_not_believed() -> None:
    brokers = Brokers({1: {ORDERS: 4, BILLS: 4}, 2: {ORDERS: 5, BILLS: 4}, 3: {ORDERS: 4, BILLS: 4}})
    assert stale(brokers, orders=5, bills=5) == {
        ORDERS: "east names a leader of orders-0 of leader epoch 4, and records of epoch 5 were copied: it may have "
        "been replaced, and not have heard of it"
    }


def test_where_a_broker_does_not_answer_there_may_be_a_newer_leader_of_all() -> None:
    found = stale(Brokers({1: {ORDERS: 4, BILLS: 5}, 2: None, 3: {ORDERS: 4, BILLS: 5}}), orders=5, bills=5)
    assert {each: "(broker 2 is away)" in why for each, why in found.items()} == {ORDERS: True}


def test_a_cluster_that_was_restored_as_it_had_been_has_older_leaders_on_all_brokers() -> None:
    brokers = Brokers({1: {ORDERS: 4}, 2: {ORDERS: 3}})
    assert stale(brokers, orders=5) == {}
    assert brokers.calls == 3
