"""Copies have the source's offsets, and a failover moves groups to the positions they had."""

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

SCENARIO = Scenario(
    name="same-offsets",
    shows="Copies have the source's offsets: after a failover records are where they were, and groups go on there.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"), Flow("west", "east")),
    topics=(Topic("orders", ("east", "west"), partitions=4),),
    loads=(Load("east", ("orders",)),),
    groups=(Group("reports", "east", ("orders",)),),
    properties={"east->west.mirror.offsets": "same"},
    faults=(Fault(FaultKind.KILL_CLUSTER, "east", 8.0, jitter_seconds=3.0, is_disaster=True),),
    procedure=Procedure.FAIL_OVER,
    tolerated=(Tolerated(Anomaly.STRANDED, Judged.COPY, "copying is asynchronous: the tail is the price of that"),),
    objectives=Objectives(rpo_seconds=10.0),
    replicators=(Replicator.MIRROR,),
)
