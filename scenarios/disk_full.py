"""The target's disk is full."""

from mirror.model.flow import Flow
from mirror.scenario.declaration import Fault, FaultKind, Load, Scenario, Site, Topic

SCENARIO = Scenario(
    name="disk-full",
    shows="The target's disk fills up, its broker gives up, room is made, and the copy is complete in the end.",
    sites=(Site("east"), Site("west", disk_megabytes=256)),
    flows=(Flow("east", "west"),),
    topics=(Topic("orders", ("east",)),),
    loads=(Load("east", ("orders",), rate=500.0),),
    faults=(Fault(FaultKind.FILL_DISK, "west", 4.0, jitter_seconds=3.0, lasts_seconds=15.0),),
    seconds=30.0,
)
