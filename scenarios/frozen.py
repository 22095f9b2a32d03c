"""The replicator stands still."""

from mirror.model.flow import Flow
from mirror.scenario.declaration import Fault, FaultKind, Load, Scenario, Site, Topic

SCENARIO = Scenario(
    name="frozen",
    shows="The replicator's machine stands still for twenty seconds, as one that swaps or is moved, and goes on.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"),),
    topics=(Topic("orders", ("east",)),),
    loads=(Load("east", ("orders",)),),
    faults=(Fault(FaultKind.FREEZE_REPLICATOR, "replicator", 4.0, jitter_seconds=3.0, lasts_seconds=20.0),),
    seconds=32.0,
)
