"""A topic is deleted and created again."""

from mirror.model.flow import Flow
from mirror.proof.findings import Anomaly, Era
from mirror.scenario.declaration import Fault, FaultKind, Judged, Load, Scenario, Site, Tolerated, Topic

_OLD = frozenset({Era.BEFORE, Era.DURING})
_BETWEEN = frozenset({Era.DURING})

SCENARIO = Scenario(
    name="topic-created-again",
    shows="A topic is deleted and created again under the same name: its new records must all be copied.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"),),
    topics=(Topic("orders", ("east",)),),
    loads=(Load("east", ("orders",)),),
    faults=(Fault(FaultKind.RECREATE_TOPIC, "east", 8.0, jitter_seconds=3.0, topic="orders"),),
    seconds=30.0,
    tolerated=(
        Tolerated(Anomaly.LOST, Judged.SOURCE, "the old topic is gone", eras=_OLD),
        Tolerated(Anomaly.REORDERED, Judged.COPY, "offsets of the new topic begin at 0 again", eras=_BETWEEN),
        Tolerated(Anomaly.LOST, Judged.COPY, "deleted before they could be copied", if_told=True, eras=_OLD),
    ),
)
