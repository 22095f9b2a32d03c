"""What the MirrorMaker 2 dashboard of Strimzi's examples asks for, panel by panel, is answered.

`strimzi_io_kind`, `strimzi_io_cluster`, `namespace` and `kubernetes_pod_name` are labels that Prometheus adds to what
it scrapes; the other matchers and groupings are those of the dashboard's queries.
"""

from __future__ import annotations

import re

import pytest

from mirror.monitoring.view import EngineView
from tests.unit.monitoring.views import ORDERS, engine, figures, flow, partition, scraped, status

SOURCE = "kafka_connect_mirror_mirrorsourceconnector_"
CHECKPOINT = "kafka_connect_mirror_mirrorcheckpointconnector_"
OF_PARTITION = ("topic", "partition")
# Panel, metric, what its labels must match, and the labels that the panel tells apart.
ASKED = [
    ("variables", "kafka_connect_worker_connector_count", {}, ()),
    ("Total record rate", f"{SOURCE}record_rate", {}, ()),
    ("Total byte rate", f"{SOURCE}byte_rate", {}, ()),
    *(("Record Age", f"{SOURCE}record_age_ms{suffix}", {}, OF_PARTITION) for suffix in ("", "_avg", "_min", "_max")),
    *(
        ("Replication Latency", f"{SOURCE}replication_latency_ms{suffix}", {}, OF_PARTITION)
        for suffix in ("", "_avg", "_min", "_max")
    ),
    (
        "Consumer Group Offset Sync Latency",
        f"{CHECKPOINT}checkpoint_latency_ms",
        {},
        ("source", "target", *OF_PARTITION, "group"),
    ),
    ("Total Number of Running Tasks", "kafka_connect_worker_task_count", {}, ()),
    ("Assigned Connectors per Worker", "kafka_connect_coordinator_assigned_connectors", {}, ()),
    ("Assigned Tasks per Worker", "kafka_connect_coordinator_assigned_tasks", {}, ()),
    (
        "Consumer Lag",
        "kafka_consumer_fetch_manager_records_lag",
        {"clientid": '.*replication-consumer"'},
        OF_PARTITION,
    ),
    ("Incoming Bytes per Second", "kafka_consumer_incoming_byte_total", {}, ()),
    ("Outgoing Bytes per Second", "kafka_producer_outgoing_byte_total", {}, ()),
]


def values(view: EngineView, metric: str) -> dict[tuple[tuple[str, str], ...], float]:
    return {labels: value for (name, labels), value in scraped(view).items() if name == metric}


@pytest.mark.parametrize(("panel", "metric", "matches", "told_apart"), ASKED, ids=[each[1] for each in ASKED])
def test_a_panel_has_what_it_asks_for(
    panel: str, metric: str, matches: dict[str, str], told_apart: tuple[str, ...]
) -> None:
    """MET-01, MET-03, MET-07."""
    found = values(engine(), metric)
    assert found, panel
    for labels in map(dict, found):
        assert set(told_apart) <= labels.keys()
        assert all(re.fullmatch(pattern, labels[name]) for name, pattern in matches.items())


def test_connectors_and_tasks_are_those_of_flows_that_this_engine_leads() -> None:
    leads = engine(flow(), tasks=2)
    assert values(leads, "kafka_connect_worker_connector_count") == {(): 3}
    # Two that copy, one for checkpoints, one for heartbeats.
    assert values(leads, "kafka_connect_worker_task_count") == {(): 4}
    without = engine(flow(connectors=("MirrorSourceConnector", "MirrorHeartbeatConnector")), tasks=2)
    assert values(without, "kafka_connect_worker_connector_count") == {(): 2}
    stands_by = engine(flow(term=None), tasks=2)
    assert values(stands_by, "kafka_connect_worker_connector_count") == {(): 0}
    assert values(stands_by, "kafka_connect_worker_task_count") == {(): 0}


def test_the_consumers_lag_is_told_once_under_the_sources_name_by_who_leads() -> None:
    (labels,) = values(engine(), "kafka_consumer_fetch_manager_records_lag")
    assert dict(labels) == {
        "clientid": '"east->west|MirrorSourceConnector-0|replication-consumer"',
        "topic": "orders",
        "partition": "3",
    }
    assert values(engine(), "kafka_consumer_fetch_manager_records_lag") == {labels: 8}
    stands_by = engine(flow(term=None))
    assert values(stands_by, "kafka_consumer_fetch_manager_records_lag") == {}
    unknown = engine(flow(status=status(partition(None, lag_seconds=None))))
    assert values(unknown, "kafka_consumer_fetch_manager_records_lag") == {}


def test_bytes_in_and_out_are_those_of_all_that_was_copied_also_of_what_is_copied_no_more() -> None:
    gone = engine(flow(copies={}, figures={ORDERS: figures()}))
    for name in ("kafka_consumer_incoming_byte_total", "kafka_producer_outgoing_byte_total"):
        assert list(values(gone, name).values()) == [5_000]
