"""Copies have the source's offsets: a failover moves groups, and an application goes on by bookmarks of its own."""

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
    shows="Copies have the source's offsets: a failover moves groups, and one goes on by offsets in a file.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"), Flow("west", "east")),
    topics=(Topic("orders", ("east", "west"), partitions=4),),
    loads=(Load("east", ("orders",)),),
    # The second keeps its positions in a file, as Flink does, and goes on by them.
    groups=(Group("reports", "east", ("orders",)), Group("stream", "east", ("orders",), bookmarks=True)),
    properties={"east->west.mirror.offsets": "same"},
    faults=(Fault(FaultKind.KILL_CLUSTER, "east", 8.0, jitter_seconds=3.0, is_disaster=True),),
    procedure=Procedure.FAIL_OVER,
    tolerated=(Tolerated(Anomaly.STRANDED, Judged.COPY, "copying is asynchronous: the newest records may be missing"),),
    objectives=Objectives(rpo_seconds=10.0),
    replicators=(Replicator.MIRROR,),
)
