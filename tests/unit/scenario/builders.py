"""A small scenario to change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.proof.findings import Delivery, PartitionCount
from mirror.proof.losses import MissingRecords
from mirror.scenario.declaration import Group, Load, Scenario, Site, Topic
from mirror.scenario.judging import Found

SMALL = Scenario(
    name="small",
    shows="Little.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"),),
    topics=(Topic("orders", ("east",)),),
    loads=(Load("east", ("orders",)),),
    groups=(Group("billing", "east", ("orders",)),),
)

# What the judges found of a run in which nothing was wrong.
WHERE = TopicPartition("east.orders", 0)
CLEAN = Delivery((PartitionCount("west", WHERE, None, 10, 10, 0),), (), ())
READ = replace(CLEAN, counts=(replace(CLEAN.counts[0], group="billing"),))
FOUND = Found(CLEAN, CLEAN, READ, MissingRecords(), None, None, None, 10, ())


def small(**changes: Any) -> Scenario:
    """Return the small scenario, changed."""
    return replace(SMALL, **changes)
