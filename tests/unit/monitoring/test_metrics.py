"""Metrics under the names that MirrorMaker 2's dashboards query, and what it does not tell."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest

from mirror.model.failover import FailoverEntry, Phase
from mirror.model.gap import Gap
from mirror.model.partition import TopicPartition
from mirror.model.state_values import ForeignWriter, Standby
from mirror.monitoring.metrics import families
from mirror.monitoring.view import EngineView
from mirror.recovery.fenced_side import FencedSide, WrittenBehind
from tests.unit.monitoring.views import COPY, FLOW, NOW_MS, ORDERS, engine, figures, flow, partition, scraped, status

SOURCE = "kafka_connect_mirror_mirrorsourceconnector_"
CHECKPOINT = "kafka_connect_mirror_mirrorcheckpointconnector_"
OF_PARTITION = {"source": "east", "target": "west", "topic": "east.orders", "partition": "3"}
OF_FLOW = {"source": "east", "target": "west"}


def value(view: EngineView, name: str, labels: dict[str, str]) -> float | None:
    return scraped(view).get((name, tuple(sorted(labels.items()))))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("record_count", 100),
        ("record_rate", 2.5),
        ("byte_count", 5_000),
        ("byte_rate", 125),
        ("record_age_ms", 7),
        ("record_age_ms_avg", 10),
        ("record_age_ms_min", 5),
        ("record_age_ms_max", 20),
        ("replication_latency_ms", 17),
        ("replication_latency_ms_avg", 20),
        ("replication_latency_ms_min", 15),
        ("replication_latency_ms_max", 30),
    ],
)
def test_a_partition_is_told_as_mirror_makers_dashboards_query_it(name: str, expected: float) -> None:
    """MET-01, MET-02, MET-06: the topic is the copy's, and the source is always a label."""
    assert value(engine(), SOURCE + name, OF_PARTITION) == expected


@pytest.mark.parametrize(("suffix", "expected"), [("", 7), ("_avg", 5), ("_min", 3), ("_max", 7)])
def test_checkpoints_are_told_by_group_and_partition(suffix: str, expected: float) -> None:
    """MET-03."""
    labels = {**OF_PARTITION, "group": "shop"}
    assert value(engine(), f"{CHECKPOINT}checkpoint_latency_ms{suffix}", labels) == expected


@pytest.mark.parametrize(
    ("names", "legacy", "new"),
    [({"legacy"}, True, False), ({"new"}, False, True), ({"legacy", "new"}, True, True)],
)
def test_the_names_of_kafka_4_3_come_if_they_are_asked_for(names: set[str], legacy: bool, new: bool) -> None:
    """CFG-015, MET-05, VER-19: both at once while dashboards are moved."""
    view = engine(flow(source_names=frozenset(names), checkpoint_names=frozenset(names)))
    named = {"connector": "MirrorSourceConnector", "task": "0", **OF_PARTITION}
    assert (value(view, f"{SOURCE}record_count", OF_PARTITION) == 100) is legacy
    assert (value(view, "kafka_connect_plugins_record_count", named) == 100) is new
    of_group = {**OF_PARTITION, "group": "shop"}
    named = {"connector": "MirrorCheckpointConnector", "task": "0", **of_group}
    assert (value(view, f"{CHECKPOINT}checkpoint_latency_ms", of_group) == 7) is legacy
    assert (value(view, "kafka_connect_plugins_checkpoint_latency_ms", named) == 7) is new


def test_without_anything_in_the_last_minute_mean_least_and_most_are_not_numbers() -> None:
    idle = replace(figures(), read=type(figures().read)(last=7.0))
    view = engine(flow(figures={ORDERS: idle}))
    assert value(view, f"{SOURCE}record_age_ms", OF_PARTITION) == 7
    for suffix in ("avg", "min", "max"):
        found = value(view, f"{SOURCE}record_age_ms_{suffix}", OF_PARTITION)
        assert found is not None
        assert math.isnan(found)


def test_what_is_not_copied_any_more_is_told_no_more() -> None:
    view = engine(flow(copies={}))
    assert not any(name.startswith(SOURCE) for name, _ in scraped(view))


def test_lag_is_told_in_records_and_seconds_and_until_when_the_source_keeps_what_is_not_copied() -> None:
    """MET-08: MirrorMaker has none of them."""
    late = engine(flow(status=status(partition(8, lag_seconds=9.5, deleted_in_seconds=11_520.0))))
    assert value(late, "mirror_lag_records", OF_PARTITION) == 8
    assert value(late, "mirror_lag_seconds", OF_PARTITION) == 9.5
    assert value(late, "mirror_retention_cliff_seconds", OF_PARTITION) == 11_520
    done = engine(flow(status=status(partition(0, lag_seconds=0.0))))
    assert value(done, "mirror_retention_cliff_seconds", OF_PARTITION) == math.inf
    unknown = engine(flow(status=status(partition(None, lag_seconds=None, deleted_in_seconds=None))))
    assert not any(name.startswith(("mirror_lag", "mirror_retention")) for name, _ in scraped(unknown))


def test_a_flow_is_told_with_all_that_needs_somebody() -> None:
    gap = Gap(ORDERS, 0, 5, "known", NOW_MS)
    seen = status(
        partition(is_paused=True, stopped="why"),
        state="DEGRADED",
        open_gaps=(gap,),
        stops={ORDERS: "why"},
        standbys=(Standby("other", NOW_MS, "host", 1),),
        foreign=(ForeignWriter(COPY, 9, 5, 7, 2, NOW_MS),),
    )
    view = engine(flow(status=seen), epochs_ended=7, epochs_failed=1, seam_seconds=0.25)
    expected = {
        "mirror_flow_leader": 1,
        "mirror_flow_report_age_seconds": 2,
        "mirror_flow_seen_age_seconds": 1,
        "mirror_flow_standbys": 1,
        "mirror_flow_partitions": 1,
        "mirror_flow_stopped_partitions": 1,
        "mirror_flow_paused_partitions": 1,
        "mirror_flow_open_gaps": 1,
        "mirror_flow_foreign_writers": 1,
        "mirror_flow_failed_over": 0,
        "mirror_flow_late_writers": 0,
    }
    assert {name: value(view, name, OF_FLOW) for name in expected} == expected
    states = {state: value(view, "mirror_flow_state", {**OF_FLOW, "state": state}) for state in ("DEGRADED", "RUNNING")}
    assert states == {"DEGRADED": 1, "RUNNING": 0}
    assert value(view, "mirror_group_reread_records", {**OF_FLOW, "group": "shop"}) == 12
    of_engine = {name: value(view, name, {}) for name in ("mirror_epochs_total", "mirror_epochs_failed_total")}
    assert of_engine == {"mirror_epochs_total": 7, "mirror_epochs_failed_total": 1}
    assert value(view, "mirror_epoch_seam_seconds", {}) == 0.25


def test_who_writes_to_the_old_cluster_behind_a_failover_is_counted() -> None:
    entry = FailoverEntry("run", "unplanned", Phase.DONE, "runs", NOW_MS)
    side = FencedSide(FLOW, entry, NOW_MS, (WrittenBehind(ORDERS, 5, 9, True),))
    view = engine(flow(side=side))
    assert value(view, "mirror_flow_failed_over", OF_FLOW) == 1
    assert value(view, "mirror_flow_late_writers", OF_FLOW) == 1


def test_a_run_of_a_failover_is_told_with_its_time_mode_phase_and_directory() -> None:
    entry = FailoverEntry("run", "planned", Phase.DONE, "runs/one on host", NOW_MS)
    name, labels = "mirror_flow_failover_timestamp_seconds", {"mode": "planned", "phase": "done", "run": "run"}
    labels |= {**OF_FLOW, "where": "runs/one on host"}
    assert value(engine(flow(status=status(failovers=(entry,)))), name, labels) == NOW_MS / 1000
    assert value(engine(flow()), name, labels) is None


def test_a_standby_and_one_that_has_not_looked_yet_are_told_too() -> None:
    view = engine(flow(term=None, figures={}, status=None, seen_ms=None))
    assert value(view, "mirror_flow_leader", OF_FLOW) == 0
    assert value(view, "mirror_flow_partitions", OF_FLOW) is None
    unheard = engine(flow(status=status(reported_ms=None)))
    assert value(unheard, "mirror_flow_report_age_seconds", OF_FLOW) == math.inf


def test_names_of_others_are_text() -> None:
    """What stands in a group's name does not end a line, or a label."""
    odd = 'a"b\\c\nd'
    copy = TopicPartition("east.orders", 3)
    view = engine(flow(rereads={odd: 1}, checkpoints={(odd, copy): figures().read}))
    assert value(view, "mirror_group_reread_records", {**OF_FLOW, "group": odd}) == 1


def test_a_partition_has_a_fixed_number_of_samples_and_all_flows_share_the_families() -> None:
    """5,000 partitions are served: nothing grows but with them."""

    def samples(partitions: int) -> Counter[str]:
        sources = [TopicPartition(f"orders-{number // 10}", number % 10) for number in range(partitions)]
        view = flow(
            copies={each: TopicPartition(f"east.{each.topic}", each.partition) for each in sources},
            figures={each: figures() for each in sources},
            status=status(*(replace(partition(), topic=each.topic, partition=each.partition) for each in sources)),
        )
        return Counter({family.name: len(family.samples) for family in families(engine(view))})

    one, many = samples(1), samples(501)
    assert one.keys() == many.keys()
    assert sorted({many[name] - one[name] for name in many}) == [0, 500]
    # Of each partition one: MirrorMaker's twelve, its consumer's lag, lag in records and seconds, and the cliff.
    assert sum(many[name] - one[name] == 500 for name in many) == 16
