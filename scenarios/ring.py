"""Three clusters in a ring."""

from mirror.model.flow import Flow
from mirror.scenario.declaration import Fault, FaultKind, Load, Scenario, Site, Topic

SCENARIO = Scenario(
    name="ring",
    shows="Three clusters copy to each other in a ring and one is lost for a while: every record is everywhere, once.",
    sites=(Site("east"), Site("west"), Site("north")),
    flows=(Flow("east", "west"), Flow("west", "north"), Flow("north", "east")),
    topics=(Topic("orders", ("east", "west", "north")),),
    loads=(
        Load("east", ("orders",), rate=100.0),
        Load("west", ("orders",), rate=100.0),
        Load("north", ("orders",), rate=100.0),
    ),
    faults=(Fault(FaultKind.CUT_LINK, "north", 4.0, jitter_seconds=3.0, lasts_seconds=12.0),),
    seconds=25.0,
)
