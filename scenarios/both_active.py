"""Both clusters are active, and topics keep their names."""

from mirror.model.flow import Flow
from mirror.scenario.declaration import Fault, FaultKind, Load, Replicator, Scenario, Site, Topic

SCENARIO = Scenario(
    name="both-active",
    shows="Both clusters take records for the same topic and copy them to each other: each has every record once.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"), Flow("west", "east")),
    topics=(Topic("orders", ("east", "west")),),
    loads=(Load("east", ("orders",), rate=150.0), Load("west", ("orders",), rate=150.0)),
    properties={"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"},
    faults=(Fault(FaultKind.KILL_REPLICATOR, "replicator", 6.0, jitter_seconds=3.0, lasts_seconds=2.0),),
    seconds=25.0,
    # Java MirrorMaker 2 would copy every record back and forth for ever.
    replicators=(Replicator.MIRROR,),
)
