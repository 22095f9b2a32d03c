"""The network to both clusters is cut."""

from mirror.model.flow import Flow
from mirror.scenario.declaration import Fault, FaultKind, Load, Scenario, Site, Topic

SCENARIO = Scenario(
    name="both-cut-off",
    shows="The replicator is alone: nothing passes to either cluster, then first the one and later the other is back.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"),),
    topics=(Topic("orders", ("east",)),),
    loads=(Load("east", ("orders",)),),
    faults=(
        Fault(FaultKind.CUT_LINK, "east", 4.0, jitter_seconds=1.0, lasts_seconds=12.0),
        Fault(FaultKind.RESET_LINK, "west", 6.0, jitter_seconds=1.0, lasts_seconds=15.0),
    ),
    seconds=30.0,
)
