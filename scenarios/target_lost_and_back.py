"""The target is lost and comes back."""

from mirror.model.flow import Flow
from mirror.scenario.declaration import Fault, FaultKind, Group, Load, Scenario, Site, Topic

SCENARIO = Scenario(
    name="target-lost-and-back",
    shows="The target is killed and comes back with its disks; the copy goes on where it stood.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"),),
    topics=(Topic("orders", ("east",)),),
    loads=(Load("east", ("orders",), rate=500.0),),
    groups=(Group("reports", "west", ("east.orders",)),),
    faults=(Fault(FaultKind.KILL_CLUSTER, "west", 4.0, jitter_seconds=3.0, lasts_seconds=12.0),),
    seconds=30.0,
)
