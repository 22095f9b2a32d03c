"""The network is cut in one direction."""

from mirror.model.flow import Flow
from mirror.scenario.declaration import Fault, FaultKind, Group, Load, Scenario, Site, Topic

SCENARIO = Scenario(
    name="answers-lost",
    shows="What the replicator writes arrives, and no acknowledgement comes back: no record may be there twice.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"),),
    topics=(Topic("orders", ("east",)),),
    loads=(Load("east", ("orders",)),),
    groups=(Group("reports", "west", ("east.orders",)),),
    faults=(Fault(FaultKind.CUT_ANSWERS, "west", 4.0, jitter_seconds=3.0, lasts_seconds=20.0),),
    seconds=32.0,
)
