"""The active cluster is lost slowly."""

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
    name="slow-death",
    shows="The line to the active cluster gets slow and narrow, its brokers freeze, and then it is gone.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"), Flow("west", "east")),
    topics=(Topic("orders", ("east", "west")),),
    loads=(Load("east", ("orders",)),),
    groups=(Group("billing", "east", ("orders",)),),
    faults=(
        Fault(FaultKind.SLOW_LINK, "east", 3.0, jitter_seconds=2.0, delay_ms=150.0, bandwidth=100_000),
        Fault(FaultKind.FREEZE_CLUSTER, "east", 9.0, jitter_seconds=2.0, lasts_seconds=2.0),
        Fault(FaultKind.KILL_CLUSTER, "east", 15.0, jitter_seconds=2.0, is_disaster=True),
    ),
    procedure=Procedure.FAIL_OVER,
    tolerated=(Tolerated(Anomaly.STRANDED, Judged.COPY, "copying is asynchronous: the newest records may be missing"),),
    objectives=Objectives(rpo_seconds=20.0, rto_seconds=90.0),
)
