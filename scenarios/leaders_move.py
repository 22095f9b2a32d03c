"""Leaders move on both sides."""

from mirror.model.flow import Flow
from mirror.scenario.declaration import Fault, FaultKind, Load, Scenario, Site, Topic

SCENARIO = Scenario(
    name="leaders-move",
    shows="On clusters of three brokers one is killed on the target and one shut down on the source: leaders move.",
    sites=(Site("east", brokers=3), Site("west", brokers=3)),
    flows=(Flow("east", "west"),),
    topics=(Topic("orders", ("east",), partitions=6),),
    loads=(Load("east", ("orders",)),),
    faults=(
        Fault(FaultKind.KILL_BROKER, "west", 4.0, jitter_seconds=3.0, lasts_seconds=10.0),
        Fault(FaultKind.STOP_BROKER, "east", 20.0, jitter_seconds=3.0, lasts_seconds=10.0),
    ),
    seconds=42.0,
)
