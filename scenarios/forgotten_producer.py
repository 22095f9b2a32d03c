"""Split brain."""

from mirror.model.flow import Flow
from mirror.proof.objectives import Objectives
from mirror.scenario.declaration import Fault, FaultKind, Group, Load, Procedure, Scenario, Site, Topic

SCENARIO = Scenario(
    name="forgotten-producer",
    shows="A producer nobody fenced goes on writing to the old cluster: its records are not lost and not mixed up.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"), Flow("west", "east")),
    topics=(Topic("orders", ("east", "west")),),
    loads=(Load("east", ("orders",)),),
    groups=(Group("billing", "east", ("orders",)),),
    faults=(
        Fault(FaultKind.START_PRODUCER, "east", 3.0, topic="orders", records=50),
        Fault(FaultKind.KILL_CLUSTER, "east", 6.0, jitter_seconds=3.0, is_disaster=True),
    ),
    procedure=Procedure.FAIL_OVER_AND_BACK,
    objectives=Objectives(rpo_seconds=5.0),
)
