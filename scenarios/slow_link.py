"""A long and narrow line."""

from mirror.model.flow import Flow
from mirror.scenario.declaration import Fault, FaultKind, Load, Scenario, Site, Topic

SCENARIO = Scenario(
    name="slow-link",
    shows="The line to the target gets long (80 ms each way) and narrow (200 KB/s) for a while.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"),),
    topics=(Topic("orders", ("east",)),),
    loads=(Load("east", ("orders",), rate=500.0),),
    faults=(
        Fault(
            FaultKind.SLOW_LINK, "west", 3.0, jitter_seconds=2.0, lasts_seconds=15.0, delay_ms=80.0, bandwidth=200_000
        ),
    ),
    seconds=25.0,
)
