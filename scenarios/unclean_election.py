"""A leader without the newest records is elected on the source."""

from mirror.model.flow import Flow
from mirror.proof.findings import Anomaly, Era
from mirror.scenario.declaration import Fault, FaultKind, Judged, Load, Scenario, Site, Tolerated, Topic

_ELECTION = frozenset({Era.DURING})

SCENARIO = Scenario(
    name="unclean-election",
    shows="The source loses records to an unclean election; those that come in their place must all be copied.",
    sites=(Site("east", brokers=3), Site("west")),
    flows=(Flow("east", "west"),),
    topics=(
        Topic(
            "orders",
            ("east",),
            partitions=1,
            replicas=2,
            configs={"min.insync.replicas": "1", "unclean.leader.election.enable": "true"},
        ),
    ),
    # Producers that number their records give up for good at a leader that lacks some.
    loads=(Load("east", ("orders",), client={"message.timeout.ms": "60000", "enable.idempotence": "false"}),),
    faults=(Fault(FaultKind.ELECT_UNCLEANLY, "east", 4.0, jitter_seconds=2.0, topic="orders", records=300),),
    seconds=30.0,
    tolerated=(
        Tolerated(Anomaly.LOST, Judged.SOURCE, "the source itself has lost them", eras=_ELECTION),
        Tolerated(Anomaly.LOST, Judged.COPY, "lost before they were copied", if_told=True, eras=_ELECTION),
        Tolerated(Anomaly.REORDERED, Judged.COPY, "the source gave their offsets a second time", eras=_ELECTION),
        Tolerated(Anomaly.REORDERED, Judged.SOURCE, "a producer that retries across the election", eras=_ELECTION),
        Tolerated(Anomaly.DUPLICATED, Judged.SOURCE, "a producer that retries across the election", eras=_ELECTION),
        Tolerated(Anomaly.DUPLICATED, Judged.COPY, "a producer that retries across the election", eras=_ELECTION),
        Tolerated(Anomaly.ALTERED, Judged.SOURCE, "an acknowledged offset was given a second time", eras=_ELECTION),
    ),
)
