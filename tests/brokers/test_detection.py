"""A source is gone when none of its brokers answers, those included that the file does not name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mirror.config.resolving import load
from mirror.control.flow_log import FlowLog
from mirror.control.source_brokers import SourceBrokersTick
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.kafka.log import LogWriter
from mirror.lab import clusters
from mirror.model.state_record import stamped, state_topic
from mirror.model.state_values import source_record
from mirror.recovery.cluster_ends import ClusterEnds
from mirror.recovery.probing import StillThere
from tests.brokers.command import FACTORS


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[clusters.LabCluster]:
    directory = tmp_path / "trio"
    yield clusters.up(directory, ["trio"], brokers=3, owner_pid=os.getpid()).clusters["trio"]
    clusters.down(directory, discard_data=True)


@pytest.mark.long
def test_a_cluster_whose_bootstrap_broker_is_dead_and_of_which_others_serve_is_not_gone(
    trio: clusters.LabCluster, west: Cluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    alias = unique("trio").replace("-", "")
    first, second, third = trio.brokers
    named, *others = trio.bootstrap_servers.split(",")
    file = tmp_path / "mirror.properties"
    file.write_text(
        f"clusters = {alias}, west\n{alias}.bootstrap.servers = {named}\n"
        f"west.bootstrap.servers = {west.bootstrap_servers}\n{alias}->west.enabled = true\n{FACTORS}"
    )
    settings = load(file)
    (flow,) = settings.enabled_flows
    ends = ClusterEnds(settings, flow, None, None, probe_seconds=2.0, detect_seconds=8.0)  # type: ignore[arg-type]
    topic = state_topic(alias)
    west.create_topics([NewTopic(topic, 1, 1, {"cleanup.policy": "compact"})])
    log = FlowLog(settings.clusters["west"].client, topic, alias="west")
    writer = LogWriter(flow.target_producer, alias="west")
    with closing(log), closing(writer), Cluster.connect(settings.clusters[alias]) as source:
        writer.append(topic, 0, stamped([source_record(source.cluster_id)], None, 1))
        log.poll()
        report = SourceBrokersTick(flow.flow, log, source, writer).tick()
        assert (report.done, report.problems) == (1, ())
    first.kill()
    with pytest.raises(StillThere, match="still answers at ") as found:
        ends.wait_until_gone()
    assert all(each in str(found.value) for each in others)
    assert {*ends.answering()} == {*others}
    second.kill()
    third.kill()
    gone = ends.wait_until_gone()
    assert ({*gone.addresses}, gone.others) == ({named, *others}, 2)
