"""The bench of the recovery time: many groups and partitions, and the active cluster is lost at once."""

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
    Replicator,
    Scenario,
    Site,
    Tolerated,
    Topic,
)

TOPICS = ("orders", "payments", "shipments", "returns")

SCENARIO = Scenario(
    name="many-groups",
    shows="All brokers of the active cluster are killed: 50 groups on 4 topics of 12 partitions move to the standby.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"), Flow("west", "east")),
    topics=tuple(Topic(name, ("east", "west"), partitions=12) for name in TOPICS),
    loads=(Load("east", TOPICS, rate=100.0, flush_seconds=1.5),),
    groups=tuple(Group(f"group-{number:02}", "east", TOPICS, process="readers") for number in range(50)),
    faults=(Fault(FaultKind.KILL_CLUSTER, "east", 10.0, jitter_seconds=2.0, is_disaster=True),),
    procedure=Procedure.FAIL_OVER,
    tolerated=(Tolerated(Anomaly.STRANDED, Judged.COPY, "copying is asynchronous: the newest records may be missing"),),
    objectives=Objectives(rpo_seconds=10.0, rto_seconds=60.0),
    replicators=(Replicator.MIRROR,),
)
