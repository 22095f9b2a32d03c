"""The active cluster is lost while a group rebalances."""

from mirror.model.flow import Flow
from mirror.proof.findings import Anomaly
from mirror.proof.objectives import Objectives
from mirror.scenario.declaration import (
    Fault,
    FaultKind,
    Group,
    Judged,
    Load,
    Procedure,
    Scenario,
    Site,
    Tolerated,
    Topic,
)

SCENARIO = Scenario(
    name="rebalancing",
    shows="Members join and leave a group, and the active cluster dies in the middle of that: nothing is skipped.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"), Flow("west", "east")),
    topics=(Topic("orders", ("east", "west"), partitions=6),),
    loads=(Load("east", ("orders",)),),
    groups=(Group("billing", "east", ("orders",), members=2),),
    faults=(
        Fault(FaultKind.JOIN_GROUP, "billing", 3.0, jitter_seconds=1.0, lasts_seconds=4.0),
        Fault(FaultKind.JOIN_GROUP, "billing", 10.0, jitter_seconds=0.5),
        Fault(FaultKind.KILL_CLUSTER, "east", 10.7, jitter_seconds=0.6, is_disaster=True),
    ),
    procedure=Procedure.FAIL_OVER,
    tolerated=(
        Tolerated(Anomaly.STRANDED, Judged.COPY, "copying is asynchronous: the newest records may be missing"),
        Tolerated(
            Anomaly.REORDERED, Judged.GROUPS, "a partition that moves is read on from its last commit", cluster="east"
        ),
    ),
    objectives=Objectives(rpo_seconds=5.0, rto_seconds=60.0),
)
