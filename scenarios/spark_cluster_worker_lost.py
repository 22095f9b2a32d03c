"""A worker of a Spark cluster dies."""

from mirror.model.flow import Flow
from mirror.scenario.declaration import Fault, FaultKind, Load, Replicator, Scenario, Site, Topic

SCENARIO = Scenario(
    name="spark-cluster-worker-lost",
    shows="The replicator runs on a Spark cluster of two workers, and one of them is killed with all it runs.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"),),
    topics=(Topic("orders", ("east",)),),
    loads=(Load("east", ("orders",), rate=500.0),),
    faults=(Fault(FaultKind.KILL_SPARK_WORKER, "replicator", 4.0, jitter_seconds=3.0),),
    seconds=25.0,
    spark_workers=2,
    replicators=(Replicator.MIRROR,),
)
