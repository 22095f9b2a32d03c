"""Groups of which nobody can tell that they pass nothing, and that a way home leaves where they are."""

from __future__ import annotations

from mirror.model.partition import TopicPartition
from mirror.model.placement import Placement
from mirror.recovery.group_moves import MovePlan
from mirror.recovery.unsure_groups import left_out
from tests.unit.control.builders import flow_settings

COPY = TopicPartition("east.orders", 0)
HOME = flow_settings("west->east.enabled = true", "west->east.groups = audit", flow="west->east")


def test_a_group_that_was_put_on_the_standby_and_that_the_flow_home_leaves_out_is_named() -> None:
    put_there = {(group, COPY): Placement(group, COPY, 7, 7, 7) for group in ("audit", "billing")}
    (said,) = left_out(MovePlan(HOME, ()), put_there)
    assert said.startswith("group billing was put on west by the way there, and groups of west->east leaves it out")
