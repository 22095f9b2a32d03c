"""Positions are put back on the cluster that they were taken from, all as planned, or not at all; with what came of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, Self

import pytest

from mirror.config.errors import ConfigError
from mirror.config.settings import ClusterSettings
from mirror.kafka.answers import Found, ItemResult
from mirror.kafka.cluster_model import GroupDescription, GroupPosition
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.recovery import group_snapshot as module
from mirror.recovery.group_snapshot import (
    GroupSnapshot,
    RestoreAction,
    RestoreDecision,
    SavedPosition,
    look_at,
    restore,
)

FLOW, SETTINGS, FILE = Flow("A", "B"), ClusterSettings("B", {}), Path("before.json")
ORDERS, BILLS = TopicPartition("A.orders", 0), TopicPartition("A.bills", 2)
BEFORE, AFTER = GroupPosition(5, "text"), GroupPosition(40, "read")
SNAPSHOT = GroupSnapshot(
    FLOW,
    "west",
    (
        SavedPosition("audit", BILLS, "id", None, AFTER),
        SavedPosition("billing", BILLS, "id", BEFORE, AFTER),
        SavedPosition("billing", ORDERS, "id", BEFORE, AFTER),
        SavedPosition("shipping", ORDERS, "id", BEFORE, AFTER),
    ),
)


class Admin:
    """The cluster: topics of three partitions with records up to 100, and the groups as the move has left them."""

    now: Admin

    def __init__(self) -> None:
        self.cluster_id = "west"
        self.positions = {
            "audit": {BILLS: AFTER},
            "billing": {BILLS: AFTER, ORDERS: AFTER},
            "shipping": {ORDERS: BEFORE},
        }
        self.problems: dict[tuple[str, TopicPartition], str] = {}
        self.written: dict[str, dict[TopicPartition, GroupPosition]] = {}
        self.deleted: dict[str, list[TopicPartition]] = {}
        self.is_open = False

    @classmethod
    def connect(cls, settings: ClusterSettings) -> Admin:
        assert settings is SETTINGS
        return cls.now

    def __enter__(self) -> Self:
        self.is_open = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.is_open = False

    def topics(self, names: Collection[str]) -> dict[str, Any]:
        return {
            name: SimpleNamespace(topic_id="id", topic_partitions=[TopicPartition(name, number) for number in range(3)])
            for name in names
        }

    def describe_groups(self, names: Collection[str]) -> Found[str, GroupDescription]:
        return Found(dict.fromkeys(names, GroupDescription("Empty", 0)))

    def positions_of_groups(self, names: Collection[str]) -> Found[str, Found[TopicPartition, GroupPosition]]:
        return Found({name: Found(self.positions[name]) for name in names})

    def offsets(self, partitions: Collection[TopicPartition], where: str) -> Found[TopicPartition, int]:
        return Found(dict.fromkeys(partitions, {"earliest": 0, "latest": 100}[where]))

    def write_positions_of_groups(
        self, wanted: Mapping[str, Mapping[TopicPartition, GroupPosition]]
    ) -> dict[str, list[ItemResult]]:
        self.written |= {group: dict(positions) for group, positions in wanted.items()}
        return self._results(wanted)

    def delete_positions_of_groups(
        self, wanted: Mapping[str, Collection[TopicPartition]]
    ) -> dict[str, list[ItemResult]]:
        self.deleted |= {group: list(partitions) for group, partitions in wanted.items()}
        return self._results(wanted)

    def _results(self, wanted: Mapping[str, Collection[TopicPartition]]) -> dict[str, list[ItemResult]]:
        return {
            group: [ItemResult(str(each), self.problems.get((group, each))) for each in partitions]
            for group, partitions in wanted.items()
        }


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    Admin.now = Admin()
    monkeypatch.setattr(module, "Cluster", Admin)
    return Admin.now


def actions(decisions: Collection[RestoreDecision]) -> list[RestoreAction]:
    return [each.action for each in decisions]


PLANNED = [RestoreAction.DELETE, RestoreAction.WRITE, RestoreAction.WRITE, RestoreAction.KEEP]


def test_what_was_there_is_written_what_was_not_is_deleted_and_what_is_right_is_left(admin: Admin) -> None:
    decisions = look_at(SNAPSHOT, FLOW, SETTINGS, FILE)
    assert actions(decisions) == PLANNED
    assert (admin.written, admin.deleted) == ({}, {}), "it only looks"
    assert restore(decisions, SETTINGS, SNAPSHOT) == decisions
    assert admin.written == {"billing": {BILLS: BEFORE, ORDERS: BEFORE}}
    assert admin.deleted == {"audit": [BILLS]}
    assert not admin.is_open


def test_a_row_says_where_the_group_is_and_where_it_will_be(admin: Admin) -> None:
    rows = [each.row() for each in look_at(SNAPSHOT, FLOW, SETTINGS, FILE)]
    assert [(each["group"], each["topic"], each["partition"], each["before"], each["after"]) for each in rows] == [
        ("audit", "A.bills", 2, 40, None),
        ("billing", "A.bills", 2, 40, 5),
        ("billing", "A.orders", 0, 40, 5),
        ("shipping", "A.orders", 0, 5, 5),
    ]
    admin.positions["audit"] = {}
    admin.positions["billing"] = {BILLS: AFTER, ORDERS: GroupPosition(41)}
    changed = [each.row() for each in look_at(SNAPSHOT, FLOW, SETTINGS, FILE)]
    assert [(each["before"], each["after"]) for each in changed[:3]] == [(None, None), (40, 5), (41, 41)]


@pytest.mark.parametrize(
    ("flow", "cluster_id", "said"),
    [
        (Flow("B", "A"), "west", "is a snapshot of A->B, not of B->A"),
        (FLOW, "another", "is of the cluster west, and B is"),
    ],
)
def test_a_snapshot_of_another_flow_or_cluster_is_refused(admin: Admin, flow: Flow, cluster_id: str, said: str) -> None:
    admin.cluster_id = cluster_id
    with pytest.raises(ConfigError, match=said):
        look_at(SNAPSHOT, flow, SETTINGS, FILE)


def moves_on(admin: Admin) -> None:
    admin.positions["billing"][ORDERS] = GroupPosition(41)


def stands_elsewhere(admin: Admin) -> None:
    """As decided, there is nothing to do with it; but it is not where it was."""
    admin.positions["shipping"][ORDERS] = AFTER


def commits_again(admin: Admin) -> None:
    """It stands where it stood, and somebody is at work with it."""
    admin.positions["billing"][ORDERS] = replace(AFTER, metadata="by hand")


@pytest.mark.parametrize("change", [moves_on, commits_again, stands_elsewhere])
def test_where_anything_has_changed_since_the_plan_nothing_is_put_back(
    admin: Admin, change: Callable[[Admin], None]
) -> None:
    decisions = look_at(SNAPSHOT, FLOW, SETTINGS, FILE)
    change(admin)
    outcome = restore(decisions, SETTINGS, SNAPSHOT)
    assert (admin.written, admin.deleted) == ({}, {})
    assert not any(each.is_change for each in outcome)
    where = "group shipping, A.orders-0" if change is stands_elsewhere else "group billing, A.orders-0"
    assert f"nothing was put back, since the cluster has changed after the plan was made: {where}." in outcome[0].reason


def test_what_the_cluster_does_not_take_is_told_of_that_position_alone(admin: Admin) -> None:
    decisions = look_at(SNAPSHOT, FLOW, SETTINGS, FILE)
    admin.problems = {("billing", ORDERS): "not authorized", ("audit", BILLS): "no coordinator"}
    outcome = restore(decisions, SETTINGS, SNAPSHOT)
    assert actions(outcome) == [RestoreAction.REFUSED, RestoreAction.WRITE, RestoreAction.REFUSED, RestoreAction.KEEP]
    assert [each.reason for each in outcome if each.action is RestoreAction.REFUSED] == [
        "it could not be put back: no coordinator",
        "it could not be put back: not authorized",
    ]
    assert replace(outcome[1], reason="") == replace(decisions[1], reason="")
