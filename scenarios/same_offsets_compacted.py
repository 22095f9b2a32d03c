"""A compacted topic is copied with the source's offsets."""

from mirror.model.flow import Flow
from mirror.proof.findings import Anomaly
from mirror.scenario.declaration import (
    Fault,
    FaultKind,
    Judged,
    Load,
    Replicator,
    Scenario,
    Site,
    Tolerated,
    Topic,
)

_COMPACTED = "the cleaner removes what a later record of the same key replaces"

SCENARIO = Scenario(
    name="same-offsets-compacted",
    shows="A topic is compacted while copied with its offsets, and the replicator killed: every newest value is there.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"),),
    topics=(
        Topic(
            "state",
            ("east",),
            configs={
                "cleanup.policy": "compact",
                "segment.ms": "2000",
                "min.cleanable.dirty.ratio": "0.01",
                "max.compaction.lag.ms": "3000",
                "delete.retention.ms": "60000",
            },
        ),
    ),
    loads=(Load("east", ("state",), keys=40, tombstones=0.05),),
    properties={"mirror.offsets": "same"},
    faults=(Fault(FaultKind.KILL_REPLICATOR, "replicator", 6.0, jitter_seconds=3.0, lasts_seconds=4.0),),
    seconds=30.0,
    tolerated=(
        Tolerated(Anomaly.LOST, Judged.SOURCE, _COMPACTED),
        Tolerated(Anomaly.LOST, Judged.COPY, _COMPACTED),
    ),
    replicators=(Replicator.MIRROR,),
)
