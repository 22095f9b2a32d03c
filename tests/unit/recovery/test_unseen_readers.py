"""Groups that read copies on a source that is gone, which the topic filter of the flow leaves out, are named."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar, cast

import pytest

from mirror.kafka.answers import Found
from mirror.kafka.cluster_model import GroupDescription, GroupListing, GroupPosition
from mirror.model.partition import TopicPartition
from mirror.recovery.unseen_readers import unseen_readers
from tests.unit.control.builders import flow_settings

ORDERS, AUDIT = TopicPartition("orders", 0), TopicPartition("audit", 1)
THERE = "east->west.topics = .*"


class East:
    """The target of the way home, with the positions of groups there, and how many members they have."""

    positions: ClassVar = {"billing": (ORDERS, AUDIT), "reports": (AUDIT,), "local": (AUDIT,), "new": ()}
    members: ClassVar = {"local": 2}

    def groups(self) -> list[GroupListing]:
        return [GroupListing(each, "consumer", "", "") for each in (*self.positions, "hidden")]

    def positions_of_groups(self, names: Collection[str]) -> Found[str, Found[TopicPartition, GroupPosition]]:
        found = {
            each: Found(dict.fromkeys(self.positions[each], GroupPosition(5))) for each in names if each != "hidden"
        }
        return Found(found, {each: "no coordinator" for each in names if each == "hidden"})

    def describe_groups(self, names: Collection[str]) -> Found[str, GroupDescription]:
        count = {each: self.members.get(each, 0) for each in names}
        return Found({each: GroupDescription("Stable" if of else "Empty", of) for each, of in count.items()})


def named(topics: str, pattern: str = ".*") -> tuple[str, ...]:
    lines = ("west->east.enabled = true", THERE, f"west->east.topics = {topics}")
    home, there = (flow_settings(*lines, flow=flow) for flow in ("west->east", "east->west"))
    return unseen_readers(home, there, cast(Any, East()), {("billing", "orders")}, pattern)


def test_who_reads_only_copies_that_the_flow_home_leaves_out_is_named() -> None:
    assert named("orders") == ("group hidden: no coordinator", "group billing in audit-1", "group reports in audit-1")
    assert named("orders", "rep.*") == ("group reports in audit-1",)


@pytest.mark.parametrize("topics", [".*", "orders, east[.]audit"])
def test_of_copies_that_the_flow_home_selects_the_checkpoints_tell(topics: str) -> None:
    assert named(topics, "billing|reports|local|new") == ()
