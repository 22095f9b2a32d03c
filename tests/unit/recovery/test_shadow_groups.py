"""Shadow groups are made whole or told, found by name, and deleted; no other group is touched."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import cast

import pytest

from mirror.kafka.answers import ItemResult
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupListing, GroupPosition
from mirror.model.partition import TopicPartition
from mirror.model.shadow import ShadowPartition, shadow_name
from mirror.recovery import shadow_groups
from mirror.recovery.shadow_groups import create_shadows, delete_shadows, find_shadows

ORDERS, STOCK = TopicPartition("east.orders", 0), TopicPartition("east.stock", 1)


class Groups:
    """A cluster with groups, which may refuse to write one or keep one for a while."""

    alias = "west"

    def __init__(self, refuses: Callable[[str], str | None] = lambda _: None, busy: int = 0) -> None:
        self.there: dict[str, dict[TopicPartition, GroupPosition]] = {}
        self.asked: list[list[str]] = []
        self._refuses, self._busy = refuses, busy

    def write_positions_of_groups(
        self, wanted: Mapping[str, Mapping[TopicPartition, GroupPosition]]
    ) -> dict[str, list[ItemResult]]:
        self.there |= {group: dict(positions) for group, positions in wanted.items()}
        return {
            group: [ItemResult(str(each), self._refuses(each.topic)) for each in positions]
            for group, positions in wanted.items()
        }

    def groups(self) -> list[GroupListing]:
        return [GroupListing(name, "consumer", "Empty", "classic") for name in self.there]

    def delete_groups(self, names: Collection[str]) -> list[ItemResult]:
        self.asked.append(sorted(names))
        self._busy -= 1
        return [ItemResult(name, "NON_EMPTY_GROUP" if self._busy >= 0 and "busy" in name else None) for name in names]


def as_cluster(groups: Groups) -> Cluster:
    return cast(Cluster, groups)


def planned(group: str, target: TopicPartition, position: int | None, refusal: str | None = None) -> ShadowPartition:
    return ShadowPartition(group, TopicPartition("orders", 0), target, 5, position, refusal=refusal)


def test_a_shadow_gets_what_is_tried_of_its_group_and_nothing_else() -> None:
    groups = Groups()
    partitions = [
        planned("billing", ORDERS, 7),
        planned("billing", STOCK, 0),
        planned("billing", TopicPartition("east.old", 0), 3, "too old"),
        planned("stock", ORDERS, None),
    ]
    assert create_shadows(as_cluster(groups), "stamp", partitions) == {}
    assert groups.there == {shadow_name("stamp", "billing"): {ORDERS: GroupPosition(7), STOCK: GroupPosition(0)}}


def test_a_shadow_that_is_not_whole_is_a_problem_of_its_group_alone() -> None:
    groups = Groups(lambda topic: "NOT_AUTHORIZED" if topic == STOCK.topic else None)
    problems = create_shadows(
        as_cluster(groups),
        "stamp",
        [planned("billing", ORDERS, 7), planned("billing", STOCK, 1), planned("audit", ORDERS, 2)],
    )
    assert problems == {"billing": "the shadow group could not be made on west: east.stock-1: NOT_AUTHORIZED"}


def test_shadows_are_found_among_other_groups() -> None:
    groups = Groups()
    groups.there = {shadow_name("one", "billing"): {}, "billing": {}, shadow_name("two", "stock"): {}}
    assert find_shadows(as_cluster(groups)) == (shadow_name("one", "billing"), shadow_name("two", "stock"))


def test_only_shadows_are_deleted_and_one_in_use_is_asked_for_again_by_itself() -> None:
    idle, busy = shadow_name("one", "idle"), shadow_name("one", "busy")
    groups = Groups(busy=2)
    assert delete_shadows(as_cluster(groups), [busy, idle]) == (ItemResult(busy), ItemResult(idle))
    assert groups.asked == [[busy, idle], [busy], [busy]]
    with pytest.raises(ValueError, match="not a shadow group, left alone: billing"):
        delete_shadows(as_cluster(groups), [idle, "billing"])
    assert len(groups.asked) == 3
    assert delete_shadows(as_cluster(groups), []) == ()


def test_one_that_stays_in_use_is_left_as_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow_groups, "_LEAVE_SECONDS", 0.01)
    busy, idle = shadow_name("one", "busy"), shadow_name("one", "idle")
    assert delete_shadows(as_cluster(Groups(busy=10**6)), [idle, busy]) == (
        ItemResult(busy, "NON_EMPTY_GROUP"),
        ItemResult(idle),
    )
