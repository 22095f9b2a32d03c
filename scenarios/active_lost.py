"""The active cluster is lost at once."""

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
    name="active-lost",
    shows="All brokers of the active cluster are killed under load, and everybody moves to the standby.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"), Flow("west", "east")),
    topics=(Topic("orders", ("east", "west")), Topic("payments", ("east", "west"))),
    loads=(Load("east", ("orders", "payments")),),
    groups=(
        Group("billing", "east", ("orders", "payments")),
        Group("audit", "east", ("orders",), max_rate=100.0),
    ),
    faults=(Fault(FaultKind.KILL_CLUSTER, "east", 8.0, jitter_seconds=4.0, is_disaster=True),),
    procedure=Procedure.FAIL_OVER,
    tolerated=(Tolerated(Anomaly.STRANDED, Judged.COPY, "copying is asynchronous: the newest records may be missing"),),
    objectives=Objectives(rpo_seconds=5.0, rto_seconds=60.0),
)
