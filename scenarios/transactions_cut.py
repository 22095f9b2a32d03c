"""Transactions are cut in the middle."""

from mirror.model.flow import Flow
from mirror.proof.findings import Anomaly
from mirror.proof.objectives import Objectives
from mirror.scenario.declaration import (
    Fault,
    FaultKind,
    Judged,
    Load,
    Procedure,
    Scenario,
    Site,
    Tolerated,
    Topic,
)

SCENARIO = Scenario(
    name="transactions-cut",
    shows="The active cluster dies under transactions: no aborted one is copied, and those that are torn are counted.",
    sites=(Site("east"), Site("west")),
    flows=(Flow("east", "west"), Flow("west", "east")),
    topics=(Topic("orders", ("east", "west")), Topic("payments", ("east", "west"))),
    loads=(
        Load(
            "east",
            ("orders", "payments"),
            rate=200.0,
            transaction_records=20,
            aborted_every=5,
            client={"transaction.timeout.ms": "15000", "message.timeout.ms": "14000"},
        ),
    ),
    properties={"east.consumer.isolation.level": "read_committed"},
    faults=(Fault(FaultKind.KILL_CLUSTER, "east", 6.0, jitter_seconds=3.0, is_disaster=True),),
    procedure=Procedure.FAIL_OVER,
    tolerated=(Tolerated(Anomaly.STRANDED, Judged.COPY, "copying is asynchronous: the newest records may be missing"),),
    objectives=Objectives(rpo_seconds=10.0),
)
