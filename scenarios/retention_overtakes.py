"""Retention is faster than the replicator."""

from mirror.model.flow import Flow
from mirror.proof.findings import Anomaly, Era
from mirror.scenario.declaration import Fault, FaultKind, Judged, Load, Scenario, Site, Tolerated, Topic

_DELETED = frozenset({Era.BEFORE, Era.DURING})

SCENARIO = Scenario(
    name="retention-overtakes",
    shows="While the replicator stands still, records it has not copied are deleted: it must say which are missing.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"),),
    topics=(Topic("orders", ("east",)),),
    loads=(Load("east", ("orders",)),),
    faults=(
        Fault(FaultKind.FREEZE_REPLICATOR, "replicator", 4.0, jitter_seconds=1.0, lasts_seconds=12.0),
        Fault(FaultKind.DELETE_RECORDS, "east", 11.0, jitter_seconds=2.0, topic="orders"),
    ),
    seconds=28.0,
    tolerated=(
        Tolerated(Anomaly.LOST, Judged.SOURCE, "deleted on purpose", eras=_DELETED),
        Tolerated(Anomaly.LOST, Judged.COPY, "gone before they could be copied", if_told=True, eras=_DELETED),
    ),
)
