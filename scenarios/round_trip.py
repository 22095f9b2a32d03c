"""There and back."""

from mirror.model.flow import Flow
from mirror.proof.objectives import Objectives
from mirror.scenario.declaration import Fault, FaultKind, Group, Load, Procedure, Scenario, Site, Topic

SCENARIO = Scenario(
    name="round-trip",
    shows="Fail over, serve, fail back: the account of every acknowledged record balances at home.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"), Flow("west", "east")),
    topics=(Topic("orders", ("east", "west")),),
    loads=(Load("east", ("orders",)),),
    groups=(Group("billing", "east", ("orders",)), Group("audit", "east", ("orders",), max_rate=200.0)),
    faults=(Fault(FaultKind.KILL_CLUSTER, "east", 6.0, jitter_seconds=3.0, is_disaster=True),),
    procedure=Procedure.FAIL_OVER_AND_BACK,
    objectives=Objectives(rpo_seconds=5.0, rto_seconds=60.0),
)
