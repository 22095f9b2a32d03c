"""A defect that must be found."""

from mirror.model.flow import Flow
from mirror.scenario.declaration import Fault, FaultKind, Load, Scenario, Site, Topic

SCENARIO = Scenario(
    name="copies-removed-in-secret",
    shows="One record is removed from the copy behind everybody's back: the verdict must be FAIL.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"),),
    topics=(Topic("orders", ("east",)),),
    loads=(Load("east", ("orders",)),),
    faults=(Fault(FaultKind.LOSE_COPIES, "west", 4.0, topic="orders", records=1),),
    seconds=8.0,
    must_fail=True,
)
