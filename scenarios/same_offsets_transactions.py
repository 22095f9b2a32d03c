"""Transactions, aborted ones among them, are copied with the source's offsets, and the replicator is killed."""

from mirror.model.flow import Flow
from mirror.scenario.declaration import Fault, FaultKind, Load, Replicator, Scenario, Site, Topic

SCENARIO = Scenario(
    name="same-offsets-transactions",
    shows="Transactions leave holes, which markers fill: what is committed has its offset, what is aborted is absent.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"),),
    topics=(Topic("orders", ("east",)), Topic("payments", ("east",))),
    loads=(Load("east", ("orders", "payments"), rate=200.0, transaction_records=20, aborted_every=5),),
    properties={"mirror.offsets": "same", "east.consumer.isolation.level": "read_committed"},
    faults=(Fault(FaultKind.KILL_REPLICATOR, "replicator", 6.0, jitter_seconds=4.0, lasts_seconds=2.0),),
    seconds=30.0,
    replicators=(Replicator.MIRROR,),
)
