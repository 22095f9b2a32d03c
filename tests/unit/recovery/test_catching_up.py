"""Who has not read to the end: a group that has fallen behind, one that nobody knows about, a log that does not tell."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from mirror.config.settings import ClusterSettings
from mirror.kafka.answers import Found
from mirror.kafka.cluster_model import GroupPosition, Topic
from mirror.model.partition import TopicPartition
from mirror.recovery import catching_up
from mirror.recovery.catching_up import await_copies, await_reading
from mirror.recovery.catching_up import unread as unread_of

ORDERS, EMPTY, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("payments", 0)
ENDS = Found({ORDERS: 9, EMPTY: 0, OTHER: 5})


def at(**positions: int) -> Found[str, Found[TopicPartition, GroupPosition]]:
    return Found({group: Found({ORDERS: GroupPosition(position)}) for group, position in positions.items()})


def unread(
    wanted: dict[str, set[str]],
    ends: Found[TopicPartition, int],
    positions: Found[str, Found[TopicPartition, GroupPosition]],
    markers: frozenset[tuple[TopicPartition, int, int]] = frozenset(),
) -> list[str]:
    """Who is behind, where all offsets but the ``markers`` hold records."""
    return unread_of(wanted, ends, positions, lambda *stretch: stretch not in markers)


def test_who_stands_at_the_end_or_behind_it_has_read_all_and_who_stands_before_it_has_not() -> None:
    assert unread({"billing": {"orders"}}, ENDS, at(billing=9)) == []
    assert unread({"billing": {"orders"}}, ENDS, at(billing=12)) == []
    assert unread({"billing": {"orders"}}, ENDS, at(billing=8)) == ["orders-0, group billing: 1 record"]
    assert unread({"billing": {"orders"}}, ENDS, at(billing=7)) == ["orders-0, group billing: 2 records"]


def test_who_stands_before_markers_alone_has_read_all() -> None:
    """No consumer is handed them, so no group gets past them until another record comes."""
    assert unread({"billing": {"orders"}}, ENDS, at(billing=7), frozenset({(ORDERS, 7, 9)})) == []


def test_who_has_no_position_has_read_nothing() -> None:
    assert unread({"billing": {"orders"}, "audit": {"payments"}}, ENDS, at(billing=9)) == [
        "payments-0, group audit: 5 records"
    ]


def test_what_is_not_known_is_not_read() -> None:
    silent = Found({ORDERS: 9}, {EMPTY: "no leader"})
    nobody: Found[str, Found[TopicPartition, GroupPosition]] = Found({}, {"billing": "no coordinator"})

    assert unread({"billing": {"orders"}}, silent, at(billing=9)) == ["orders-1: no leader"]
    assert unread({"billing": {"orders"}}, ENDS, nobody) == ["group billing: no coordinator"]


def test_of_a_topic_that_the_cluster_does_not_show_nobody_has_read_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it ends was not asked, so that every group passed for one that had read it."""

    class Hiding:
        def topics(self, _: object) -> Found[str, Topic]:
            return Found({}, {"orders": "TOPIC_AUTHORIZATION_FAILED"})

        def offsets(self, *_: object) -> Found[TopicPartition, int]:
            return Found()

        def positions_of_groups(self, _: object) -> Found[str, Found[TopicPartition, GroupPosition]]:
            return at(billing=0)

    monkeypatch.setattr(catching_up.Cluster, "connect", lambda _: nullcontext(Hiding()))
    east = ClusterSettings("east", {"bootstrap.servers": "e:1"})
    assert await_reading(east, {"billing": {"orders"}}, seconds=0.01) == ["east orders: TOPIC_AUTHORIZATION_FAILED"]


def test_who_is_behind_when_the_time_is_over_is_told() -> None:
    looks = iter([["a", "b"], ["b"], []])
    assert await_copies(lambda: next(looks), seconds=20) == []
    assert await_copies(lambda: ["b"], seconds=0.01) == ["b"]
