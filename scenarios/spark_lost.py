"""Parts of Spark die."""

from mirror.model.flow import Flow
from mirror.scenario.declaration import Fault, FaultKind, Load, Replicator, Scenario, Site, Topic

SCENARIO = Scenario(
    name="spark-lost",
    shows="A Python worker of Spark is killed, and later its JVM with everything in it.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"),),
    topics=(Topic("orders", ("east",)),),
    loads=(Load("east", ("orders",), rate=1000.0),),
    faults=(
        Fault(FaultKind.KILL_SPARK_WORKER, "replicator", 4.0, jitter_seconds=3.0),
        Fault(FaultKind.KILL_SPARK_JVM, "replicator", 14.0, jitter_seconds=3.0, lasts_seconds=8.0),
    ),
    seconds=30.0,
    replicators=(Replicator.MIRROR,),
)
