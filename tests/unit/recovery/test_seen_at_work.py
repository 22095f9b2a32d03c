"""What a cluster shows of applications of which a person says that they are at work there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.kafka.answers import Found, PartitionAnswers
from mirror.kafka.channel import Channel
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupDescription, GroupPosition
from mirror.kafka.problems import LeaderUnknown
from mirror.model.partition import TopicPartition
from mirror.recovery.applications import Done, Unobserved
from mirror.recovery.seen_at_work import checked_write, first_write, idle_groups
from mirror.recovery.step_facts import placed_in

ORDERS, BILLS, AUDITS = (TopicPartition(name, 0) for name in ("orders", "bills", "audits"))


class Leaders:
    """Brokers that tell the time of the first record from some time on, -1 where there is none, or do not tell."""

    def __init__(self, times: Mapping[TopicPartition, int]) -> None:
        self._times = times

    def ask_leaders(
        self, _: str, partitions: Sequence[TopicPartition], ask: Callable[[int, Any], Iterable[Any]]
    ) -> PartitionAnswers[int]:
        told = [each for each in partitions if each in self._times]
        found = {each: at_ms for each, error, at_ms in ask(1, told) if error == 0}
        left = (each for each in partitions if each not in found)
        return PartitionAnswers(found, {each: LeaderUnknown(f"{each} has no leader") for each in left})

    def call(self, _: object, __: int) -> Any:
        entries = [
            SimpleNamespace(
                name=each.topic,
                partitions=[SimpleNamespace(partition_index=each.partition, error_code=0, timestamp=at_ms)],
            )
            for each, at_ms in self._times.items()
        ]
        return SimpleNamespace(topics=entries)


def first(times: Mapping[TopicPartition, int]) -> int | None:
    return first_write(cast(Channel, Leaders(times)), [ORDERS, BILLS, AUDITS], 5)


def test_the_first_write_is_the_earliest_of_all_partitions_that_have_one() -> None:
    assert first({ORDERS: 30, BILLS: -1, AUDITS: 20}) == 20
    assert first({ORDERS: -1, BILLS: -1, AUDITS: -1}) is None
    assert first({ORDERS: 30}) == 30, "whatever the others would tell, somebody writes"


def test_where_a_partition_does_not_tell_and_no_other_has_a_record_it_is_not_known() -> None:
    with pytest.raises(LeaderUnknown):
        first({ORDERS: -1})


def test_a_word_that_the_cluster_does_not_bear_out_is_no_observation() -> None:
    said = Done("they say so", is_word=True)
    assert isinstance(checked_write(said, "west", lambda: None, 0.0), Unobserved)
    assert checked_write(said, "west", lambda: 0, 0.0) == Done("they say so, and west shows it", 0)


class West:
    """A cluster with a group in use, one that has read on, one that stands where it was put, and others."""

    alias = "west"

    def describe_groups(self, groups: Collection[str]) -> Found[str, GroupDescription]:
        states = {"used": GroupDescription("Stable", 2)}
        known = {each: states.get(each, GroupDescription("Empty", 0)) for each in groups if each != "silent"}
        return Found(known, {"silent": "COORDINATOR_NOT_AVAILABLE"})

    def positions_of_groups(self, groups: Collection[str]) -> Found[str, Found[TopicPartition, GroupPosition]]:
        at = {
            "read": {ORDERS: 8},
            "idle": {ORDERS: 7},
            "set back": {ORDERS: 2},
            "of old": {ORDERS: 7, AUDITS: 99},
            "nowhere": {},
        }
        known = {
            each: Found({partition: GroupPosition(position) for partition, position in at[each].items()})
            for each in groups
            if each in at
        }
        return Found(known, {"untold": "denied"})


def test_a_group_that_shows_nothing_of_being_at_work_is_named() -> None:
    """One with an old position elsewhere, one that was set back and one that is not told of passed for at work."""
    groups = ["used", "read", "idle", "set back", "of old", "nowhere", "untold", "silent"]
    idle = "it has no member on west, and has not read on there"
    found = idle_groups(cast(Cluster, West()), groups, {each: {ORDERS: 7, BILLS: 3} for each in groups})
    assert found == {
        "idle": idle,
        "set back": idle,
        "of old": idle,
        "nowhere": idle,
        "untold": "it has no member on west: denied",
        "silent": "west does not describe it: COORDINATOR_NOT_AVAILABLE",
    }


def test_a_group_that_java_mirrormaker_has_put_nowhere_was_put_in_no_partition() -> None:
    """A scenario ended with a traceback where the group had no position on the standby."""
    placed = {"group": "audit", "topic": ORDERS.topic, "partition": ORDERS.partition, "after": 7}
    nowhere = {"group": "billing", "topic": None, "partition": None, "after": 0}
    assert placed_in({"rows": [placed, nowhere]}) == {"audit": {ORDERS: 7}}
