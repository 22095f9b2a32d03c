"""Clocks that are wrong."""

from mirror.model.flow import Flow
from mirror.scenario.declaration import Fault, FaultKind, Load, Scenario, Site, Topic

SCENARIO = Scenario(
    name="clock-skew",
    shows="Clocks of producers are 50 minutes ahead and 10 behind: timestamps and order are copied as they are.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"),),
    topics=(Topic("orders", ("east",)),),
    loads=(
        Load("east", ("orders",), rate=150.0, clock_skew_seconds=3000.0),
        Load("east", ("orders",), rate=150.0, clock_skew_seconds=-600.0),
    ),
    faults=(Fault(FaultKind.RESTART_REPLICATOR, "replicator", 4.0, jitter_seconds=3.0),),
    seconds=15.0,
)
