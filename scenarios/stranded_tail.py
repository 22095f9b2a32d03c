"""There and back with a tail that was not copied."""

from mirror.model.flow import Flow
from mirror.proof.objectives import Objectives
from mirror.scenario.declaration import Fault, FaultKind, Group, Load, Procedure, Scenario, Site, Topic

SCENARIO = Scenario(
    name="stranded-tail",
    shows="The replicator hangs for seconds before the disaster; the tail comes over after the old cluster is back.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"), Flow("west", "east")),
    topics=(Topic("orders", ("east", "west")),),
    loads=(Load("east", ("orders",)),),
    groups=(Group("billing", "east", ("orders",)),),
    faults=(
        Fault(FaultKind.CUT_LINK, "east", 4.0, jitter_seconds=2.0, lasts_seconds=30.0),
        Fault(FaultKind.KILL_CLUSTER, "east", 9.0, jitter_seconds=1.0, is_disaster=True),
    ),
    procedure=Procedure.FAIL_OVER_AND_BACK,
    objectives=Objectives(rpo_seconds=20.0, rto_seconds=60.0),
)
