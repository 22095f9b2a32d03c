"""Nothing happens."""

from mirror.model.flow import Flow
from mirror.scenario.declaration import Group, Load, Scenario, Site, Topic

SCENARIO = Scenario(
    name="clean",
    shows="Nothing happens, and nothing may be found: no false alarm.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"),),
    topics=(Topic("orders", ("east",)),),
    loads=(Load("east", ("orders",)),),
    groups=(Group("billing", "east", ("orders",)), Group("reports", "west", ("east.orders",))),
    seconds=8.0,
)
