"""The replicator is restarted as an operator does it."""

from mirror.model.flow import Flow
from mirror.scenario.declaration import Fault, FaultKind, Load, Scenario, Site, Topic

SCENARIO = Scenario(
    name="restarted",
    shows="The replicator is stopped cleanly and started again under load, as for an upgrade.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"),),
    topics=(Topic("orders", ("east",)),),
    loads=(Load("east", ("orders",), rate=1000.0),),
    faults=(Fault(FaultKind.RESTART_REPLICATOR, "replicator", 4.0, jitter_seconds=4.0),),
    seconds=15.0,
)
