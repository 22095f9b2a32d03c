"""The replicator is killed under load."""

from mirror.model.flow import Flow
from mirror.scenario.declaration import Fault, FaultKind, Group, Load, Scenario, Site, Topic

SCENARIO = Scenario(
    name="killed-again-and-again",
    shows="The replicator is killed three times under load: nothing is lost, and nothing is there twice.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"),),
    topics=(Topic("orders", ("east",), partitions=4),),
    loads=(Load("east", ("orders",), rate=1500.0),),
    groups=(Group("reports", "west", ("east.orders",)),),
    faults=(
        Fault(FaultKind.KILL_REPLICATOR, "replicator", 5.0, jitter_seconds=4.0, lasts_seconds=1.0),
        Fault(FaultKind.KILL_REPLICATOR, "replicator", 30.0, jitter_seconds=4.0, lasts_seconds=1.0),
        Fault(FaultKind.KILL_REPLICATOR, "replicator", 55.0, jitter_seconds=4.0, lasts_seconds=1.0),
    ),
    seconds=75.0,
)
