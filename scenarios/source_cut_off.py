"""The network to the source is cut."""

from mirror.model.flow import Flow
from mirror.scenario.declaration import Fault, FaultKind, Load, Scenario, Site, Topic

SCENARIO = Scenario(
    name="source-cut-off",
    shows="Nothing passes between source and replicator for twenty seconds, and nobody is told.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"),),
    topics=(Topic("orders", ("east",)),),
    loads=(Load("east", ("orders",)),),
    faults=(Fault(FaultKind.CUT_LINK, "east", 4.0, jitter_seconds=3.0, lasts_seconds=20.0),),
    seconds=30.0,
)
