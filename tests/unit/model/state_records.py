"""A record of every kind of a state topic, with its key and value as they are written."""

from __future__ import annotations

from mirror.model.acl import Acl, Operation, Pattern, Permission, QuotaKey, Resource
from mirror.model.checkpoint import CheckpointedCopy, CopyId
from mirror.model.failover import FailoverEntry, Phase
from mirror.model.gap import Acknowledgement, Gap, GapKind
from mirror.model.leader_epochs import EpochEnd
from mirror.model.leadership import Claim
from mirror.model.mm2_trace import Pair
from mirror.model.offset_map import Run, SparseOffsetMap
from mirror.model.partition import TopicPartition
from mirror.model.pause import PauseReport, PauseWish
from mirror.model.placement import Placement
from mirror.model.position import Position
from mirror.model.state_values import (
    ClosedCopy,
    DataProducer,
    ForeignWriter,
    Loss,
    RunReport,
    Standby,
    Takeover,
    WrittenAs,
    acl_record,
    checkpointed_record,
    chunk_record,
    claim_record,
    failover_record,
    pause_record,
    pause_report_record,
    placement_record,
    quota_record,
    source_record,
    sparse_map_record,
    transactional_id_record,
    writer_record,
)

ORDERS, BILLS = TopicPartition("orders", 3), TopicPartition("bills", 0)
ANN = Acl(Resource.TOPIC, Pattern.LITERAL, "orders", "User:ann", "*", Operation.READ, Permission.ALLOW)

KINDS = {
    "position": (
        Position(7, 5, 1, True, 2, "id", "other", (EpochEnd(3, 7),), 9, "east.orders", True, 4, 6, compared=3).record(
            ORDERS
        ),
        b'["position","orders",3]',
        (
            b'{"upstream":7,"downstream":5,"origin":1,"complete":true,"chunk":2,"topic_id":"id","target":"east.orders",'
            b'"target_id":"other","epochs":[[3,7]],"source_end":9,"atomic":true,"turn":4,"left_out":6,"settled":false,'
            b'"compared":[4,3]}'
        ),
    ),
    "runs": (
        chunk_record(ORDERS, 2, [Run(10, 11, 7)]),
        b'["runs","orders",3,2]',
        b'{"from":[10,11],"to":[17,18],"hole":[0,0],"runs":[7]}',
    ),
    "sketch": (
        sparse_map_record(ORDERS, SparseOffsetMap(0, 50, 1, 51, (Pair(0, 1), Pair(40, 41)))),
        b'["sketch","orders",3,0]',
        b'{"end":50,"downstream_start":1,"downstream_end":51,"pairs":[[0,1],[40,41]]}',
    ),
    "gap": (
        Gap(ORDERS, 5, 9, "größe", 1234, GapKind.RETENTION, 4, "id", passed=False).record(),
        b'["gap","orders",3,5,1234]',
        '{"end":9,"reason":"größe","kind":"retention","downstream":4,"topic_id":"id","passed":false}'.encode(),
    ),
    "acknowledged": (
        Acknowledgement("ann", "was a test", 1300).record((ORDERS, 5, 1234)),
        b'["acknowledged","orders",3,5,1234]',
        b'{"by":"ann","reason":"was a test","at_ms":1300}',
    ),
    "takeover": (
        Takeover(ORDERS, 45, 60, 61, 10, 10, 10, 1, 2, 3, "a note").record(),
        b'["takeover","orders",3]',
        (
            b'{"position":45,"upstream":60,"downstream":61,"seen":10,"span":10,"records":10,"doubled":1,"others":2,'
            b'"gone":3,"note":"a note"}'
        ),
    ),
    "foreign": (
        ForeignWriter(ORDERS, 5, 10, 20, 9, 1234).record(),
        b'["foreign","orders",3,5]',
        b'{"first":10,"end":20,"records":9,"seen_at_ms":1234}',
    ),
    "writer": (writer_record(12, 77), b'["writer",12]', b'{"since_ms":77}'),
    "transactional_id": (
        transactional_id_record("an id", 78, (7, 3), WrittenAs(7, 3, 5)),
        b'["transactional_id","an id"]',
        b'{"since_ms":78,"unended":[7,3],"written_as":[7,3,5]}',
    ),
    "claim": (
        claim_record(Claim("an engine", 3, 7, True, False, False, "host", 42, "place", {"topics": "abc"})),
        b'["claim"]',
        (
            b'{"engine":"an engine","term":3,"renewals":7,"confirmed":true,"released":false,"settled":false,'
            b'"host":"host","pid":42,"place":"place","settings":{"topics":"abc"}}'
        ),
    ),
    "placement": (
        placement_record(Placement("a group", ORDERS, 5, 6, 7, "an id")),
        b'["placement","a group","orders",3]',
        b'{"upstream":5,"downstream":6,"written":7,"target_id":"an id"}',
    ),
    "checkpointed": (
        checkpointed_record(CheckpointedCopy(ORDERS, CopyId("source id", "target id", 2), 40)),
        b'["checkpointed","orders",3]',
        b'{"source_id":"source id","target_id":"target id","turn":2,"since":40}',
    ),
    "standby": (
        Standby("an engine", "host", 42, 5, ("topics",)).record(),
        b'["standby","an engine"]',
        b'{"host":"host","pid":42,"at_ms":5,"differs_in":["topics"]}',
    ),
    "producer": (
        DataProducer(12, 3, "an id").record(),
        b'["producer"]',
        b'{"producer_id":12,"epoch":3,"transactional_id":"an id"}',
    ),
    "source": (
        source_record("an id", ["a:9092", "b:9092"]),
        b'["source"]',
        b'{"cluster_id":"an id","brokers":["a:9092","b:9092"]}',
    ),
    "failover": (
        failover_record(FailoverEntry("a run", "planned", Phase.RETURNING, "host /runs/1", 5, ("a file",))),
        b'["failover","a run"]',
        b'{"mode":"planned","phase":"returning","where":"host /runs/1","at_ms":5,"fences":["a file"]}',
    ),
    "pause": (
        pause_record(PauseWish("a wish", "orders.*", True, "ann", 5)),
        b'["pause","orders.*"]',
        b'{"wish":"a wish","paused":true,"by":"ann","at_ms":5}',
    ),
    "paused": (
        pause_report_record(
            PauseReport("an engine", ("a wish",), frozenset({ORDERS}), {BILLS: "why"}, frozenset({BILLS}), "no right")
        ),
        b'["paused"]',
        (
            b'{"engine":"an engine","wishes":["a wish"],"busy":{"orders":[3]},"unsettled":[["bills",0,"why"]],'
            b'"unrefused":{"bills":[0]},"weakness":"no right"}'
        ),
    ),
    "closed": (
        ClosedCopy("a.orders", "an id", "2000000").record(),
        b'["closed","a.orders"]',
        b'{"topic_id":"an id","most_bytes":"2000000"}',
    ),
    "run": (
        RunReport("DEGRADED", ("a reason",), 5, ("a note",), {ORDERS: "why"}).record(),
        b'["run"]',
        b'{"state":"DEGRADED","reasons":["a reason"],"at_ms":5,"notes":["a note"],"stopped":[["orders",3,"why"]]}',
    ),
    "lost": (
        Loss(5, "deleted", are_tails_unknown=True).record(),
        b'["lost"]',
        b'{"at_ms":5,"reason":"deleted","are_tails_unknown":true}',
    ),
    "acl": (
        acl_record(ANN, ANN),
        b'["acl","TOPIC","LITERAL","orders","User:ann","*","READ","ALLOW"]',
        b'{"origin":["TOPIC","LITERAL","orders","User:ann","*","READ","ALLOW"]}',
    ),
    "quota": (
        quota_record(QuotaKey((("client-id", None), ("user", "ann")), "producer_byte_rate"), 2.5),
        b'["quota",[["client-id",null],["user","ann"]],"producer_byte_rate"]',
        b'{"value":2.5}',
    ),
}
