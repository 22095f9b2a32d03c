"""The replicator is killed under load while copies have the source's offsets."""

from mirror.model.flow import Flow
from mirror.scenario.declaration import Fault, FaultKind, Group, Load, Replicator, Scenario, Site, Topic

SCENARIO = Scenario(
    name="same-offsets-killed",
    shows="The replicator is killed three times while copies have the source's offsets: each record is there, once.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"),),
    topics=(Topic("orders", ("east",), partitions=4),),
    loads=(Load("east", ("orders",), rate=1500.0),),
    groups=(Group("reports", "west", ("east.orders",)),),
    properties={"mirror.offsets": "same"},
    faults=(
        Fault(FaultKind.KILL_REPLICATOR, "replicator", 5.0, jitter_seconds=4.0, lasts_seconds=1.0),
        Fault(FaultKind.KILL_REPLICATOR, "replicator", 25.0, jitter_seconds=4.0, lasts_seconds=1.0),
        Fault(FaultKind.KILL_REPLICATOR, "replicator", 45.0, jitter_seconds=4.0, lasts_seconds=1.0),
    ),
    seconds=60.0,
    replicators=(Replicator.MIRROR,),
)
