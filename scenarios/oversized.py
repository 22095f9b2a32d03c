"""Records that the target does not take."""

from mirror.model.flow import Flow
from mirror.proof.findings import Anomaly
from mirror.scenario.declaration import Judged, Load, Scenario, Site, Tolerated, Topic

SCENARIO = Scenario(
    name="oversized",
    shows="One record in a hundred is larger than the target takes: all others must be copied, and those named.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"),),
    topics=(Topic("orders", ("east",), configs={"max.message.bytes": "4000000"}),),
    loads=(
        Load(
            "east",
            ("orders",),
            rate=100.0,
            large=0.01,
            large_bytes=1_500_000,
            client={"message.max.bytes": "4000000"},
        ),
    ),
    properties={"config.properties.exclude": r"max\\.message\\.bytes", "mirror.oversized.records": "park"},
    seconds=15.0,
    tolerated=(Tolerated(Anomaly.LOST, Judged.COPY, "too large for the target", if_told=True, least_bytes=1_000_000),),
)
