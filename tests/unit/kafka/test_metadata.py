"""What is known of a cluster's topics, and what is forgotten of it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from mirror.kafka import codes, topic_ids
from mirror.kafka.channel import Channel
from mirror.kafka.metadata import Metadata
from mirror.model.partition import TopicPartition

ORDERS, PAID = TopicPartition("orders", 0), TopicPartition("paid", 0)
ID = uuid.UUID(int=7)


def told(topic: str, leader: int, error: int = 0) -> Any:
    partition = SimpleNamespace(partition_index=0, leader_id=leader, leader_epoch=5, replica_nodes=[1, 2])
    return SimpleNamespace(name=topic, topic_id=ID, error_code=error, partitions=[partition])


@pytest.fixture
def known() -> Metadata:
    made = Metadata()
    made.take_in(["orders", "paid"], SimpleNamespace(topics=[told("orders", 1), told("paid", 2)]))
    return made


def leaders(known: Metadata) -> tuple[int | None, int | None]:
    return known.leader(ORDERS), known.leader(PAID)


def test_what_a_cluster_tells_is_known(known: Metadata) -> None:
    assert leaders(known) == (1, 2)
    assert (known.leader_epoch(ORDERS), known.replicas(ORDERS)) == (5, {1, 2})
    assert (known.topic_id("orders"), known.topic_error("orders")) == (topic_ids.spell(ID), 0)


def test_of_what_was_never_told_nothing_is_known() -> None:
    known = Metadata()
    assert (known.leader(ORDERS), known.leader_epoch(ORDERS), known.replicas(ORDERS)) == (None, -1, frozenset())
    assert (known.topic_id("orders"), known.topic_error("orders")) == ("", codes.UNKNOWN_TOPIC)


def test_a_partition_without_a_leader_has_none_any_more(known: Metadata) -> None:
    known.take_in(["orders"], SimpleNamespace(topics=[told("orders", -1, codes.LEADER_NOT_AVAILABLE)]))
    assert leaders(known) == (None, 2)
    assert known.topic_error("orders") == codes.LEADER_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("forget", "left"),
    [
        (lambda known: known.forget(["orders"]), (None, 2)),
        (lambda known: known.forget(), (None, None)),
        (lambda known: known.forget_partition(PAID), (1, None)),
        (lambda known: known.forget_led_by(1), (None, 2)),
    ],
    ids=["a topic", "all", "a partition", "a broker"],
)
def test_only_leaders_are_forgotten(known: Metadata, forget: Any, left: tuple[int | None, int | None]) -> None:
    forget(known)
    assert leaders(known) == left
    assert (known.topic_id("orders"), known.replicas(ORDERS)) == (topic_ids.spell(ID), {1, 2})


def test_who_asks_which_partitions_nobody_leads_asks_anew_and_hears_nothing_of_those_that_are_not_there(
    known: Metadata,
) -> None:
    class Told(Channel):
        def __init__(self) -> None:
            self._metadata = known

        def refresh(self, topics: Iterable[str]) -> None:
            found = {"orders": told("orders", -1, codes.LEADER_NOT_AVAILABLE), "paid": told("paid", 2)}
            answer = SimpleNamespace(topics=[found[each] for each in topics if each in found])
            known.take_in(topics, answer)

    absent = (TopicPartition("orders", 1), TopicPartition("bills", 0))
    assert Told().leaderless((ORDERS, PAID, *absent)) == {ORDERS}


class Denying(Channel):
    """Of a cluster that has one partition of two topics, and does not tell of a third."""

    def __init__(self) -> None:
        self.alias = "east"
        self._metadata = Metadata()

    def refresh(self, topics: Iterable[str]) -> None:
        denied = SimpleNamespace(name="bills", topic_id=ID, error_code=29, partitions=[])
        gone = SimpleNamespace(name="gone", topic_id=ID, error_code=codes.UNKNOWN_TOPIC, partitions=[])
        found = {"orders": told("orders", 1), "paid": told("paid", -1, codes.LEADER_NOT_AVAILABLE)}
        found |= {"bills": denied, "gone": gone}
        self._metadata.take_in(topics, SimpleNamespace(topics=[found[each] for each in topics]))


BILLS = TopicPartition("bills", 0)


def test_a_topic_that_is_denied_keeps_nobody_from_knowing_which_others_are_gone() -> None:
    """`mirror status` and `mirror verify` ended there, and told nothing of all the others."""
    lacking = {TopicPartition("orders", 1), TopicPartition("gone", 0)}
    assert Denying().absent([ORDERS, PAID, BILLS, *lacking]) == lacking


def test_of_a_topic_that_is_denied_it_is_not_said_that_nobody_leads_it() -> None:
    found = Denying().ask_leaders("offsets", [ORDERS, PAID, BILLS], lambda _, led: ((each, 0, 9) for each in led))
    assert found == {ORDERS: 9}
    assert "TopicAuthorizationFailed (needs Describe on the topic)" in str(found.problems[BILLS])
    assert str(found.problems[PAID]) == "east: paid-0 has no leader"


def test_to_ask_which_of_no_partitions_are_gone_asks_nothing() -> None:
    class Silent(Denying):
        def refresh(self, topics: Iterable[str]) -> None:
            raise AssertionError(topics)

    assert Silent().absent([]) == frozenset()
