"""A small scenario to change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mirror.model.flow import Flow
from mirror.scenario.declaration import Group, Load, Scenario, Site, Topic

SMALL = Scenario(
    name="small",
    shows="Little.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"),),
    topics=(Topic("orders", ("east",)),),
    loads=(Load("east", ("orders",)),),
    groups=(Group("billing", "east", ("orders",)),),
)


def small(**changes: Any) -> Scenario:
    """Return the small scenario, changed."""
    return replace(SMALL, **changes)
