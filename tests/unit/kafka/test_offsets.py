"""Asking leaders for offsets while one of them has just been elected."""

from __future__ import annotations

from typing import Any

import pytest

from mirror.kafka.answers import PartitionAnswers
from mirror.kafka.channel import LATEST, Channel
from mirror.kafka.problems import BrokerRefused, LeaderAway, LeaderUnknown
from mirror.model.partition import TopicPartition

ORDERS = TopicPartition("orders", 0)


class Elected(Channel):
    """A channel whose leader refuses ``times`` times before it answers."""

    def __init__(self, code: int, times: int) -> None:
        self.alias = "west"
        self.asked = 0
        self._code, self._times = code, times
        self._election_seconds = 0.5

    def find_offsets(self, partitions: Any, at: int, view: Any = None) -> Any:
        self.asked += 1
        if self.asked > self._times:
            return PartitionAnswers({ORDERS: 7})
        return PartitionAnswers(problems={ORDERS: BrokerRefused("west: offsets of orders-0", self._code)})


@pytest.mark.parametrize("code", [5, 6, 9, 74, 75, 78])
def test_a_leader_that_was_just_elected_is_asked_again(code: int) -> None:
    leader = Elected(code, 2)
    assert (leader.offsets([ORDERS], LATEST), leader.asked) == ({ORDERS: 7}, 3)


@pytest.mark.parametrize("code", [1, 3, 29])
def test_other_refusals_are_said_at_once(code: int) -> None:
    leader = Elected(code, 2)
    with pytest.raises(BrokerRefused):
        leader.offsets([ORDERS], LATEST)
    assert leader.asked == 1


def test_one_that_goes_on_refusing_is_named() -> None:
    with pytest.raises(BrokerRefused, match="orders-0: NotLeaderForPartition"):
        Elected(6, 1_000_000).offsets([ORDERS], LATEST)


def test_a_leader_that_does_not_take_the_connection_is_asked_again() -> None:
    """One connection that was refused at the cut left a later verdict UNKNOWN for good."""

    class Away(Elected):
        def find_offsets(self, partitions: Any, at: int, view: Any = None) -> Any:
            found = super().find_offsets(partitions, at, view)
            return PartitionAnswers(
                found, {each: LeaderAway("west: the leader of orders-0") for each in found.problems}
            )

    leader = Away(0, 2)
    assert (leader.offsets_once_led([ORDERS], LATEST), leader.asked) == ({ORDERS: 7}, 3)


def test_a_partition_without_a_leader_is_not_waited_for() -> None:
    class Leaderless(Elected):
        def find_offsets(self, partitions: Any, at: int, view: Any = None) -> Any:
            self.asked += 1
            return PartitionAnswers(problems={ORDERS: LeaderUnknown("west: orders-0 has no leader")})

    leaderless = Leaderless(0, 0)
    with pytest.raises(LeaderUnknown):
        leaderless.offsets([ORDERS], LATEST)
    assert leaderless.asked == 1
