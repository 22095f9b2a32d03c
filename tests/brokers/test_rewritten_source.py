"""A failback to a cluster that is not any more what was copied: refused with the difference, found by its contents."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from mirror.config.resolving import load
from mirror.config.settings import ClusterSettings, MirrorSettings
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.lab import clusters
from mirror.lab.clusters import EmbeddedCluster
from mirror.model.failover import FailoverEntry, Phase
from mirror.model.partition import TopicPartition
from mirror.model.state_record import state_topic
from mirror.recovery.applications import Nobody
from mirror.recovery.cluster_ends import ClusterEnds
from mirror.recovery.procedure import Request, plan_failback
from mirror.waiting import wait_until
from tests.brokers.command import FACTORS
from tests.brokers.copying import Copying, NewCopying, write
from tests.worker_process import forget_all


def refusal_of(settings: MirrorSettings) -> str | None:
    """What a failback says against itself."""
    request = Request(settings, settings.enabled_flows[0], None, None, lambda _: Nobody(), nullcontext)
    return plan_failback(request).plan.refusal


def failed_over(settings: MirrorSettings) -> None:
    flow = settings.enabled_flows[0]
    ends = ClusterEnds(settings, flow, None, None)  # type: ignore[arg-type]  # nothing is paused, nor compared
    ends.put(FailoverEntry("theirs", "unplanned", Phase.DONE, "elsewhere", 1))


@pytest.fixture
def old_disk(tmp_path: Path, mortal: clusters.LabCluster) -> Callable[[], None]:
    """Put the disk of the cluster aside, as it is now; later calls put it back."""
    assert isinstance(mortal, EmbeddedCluster)
    (broker,) = mortal.brokers
    data, kept = broker.directory / broker.name / "data", tmp_path / "kept"

    def put() -> None:
        mortal.shut_down()
        if kept.exists():
            shutil.rmtree(data)
            shutil.copytree(kept, data)
        else:
            shutil.copytree(data, kept)
        mortal.start()
        forget_all()

    return put


@pytest.mark.long
def test_a_source_whose_older_disk_was_put_back_and_that_was_written_to_since_is_no_way_home(
    mortal: clusters.LabCluster,
    old_disk: Callable[[], None],
    west: Cluster,
    settings_of: Callable[[str], ClusterSettings],
    new_copying: NewCopying,
    unique: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """Each start begins a leader epoch, the same number after both: only the records tell the two logs apart."""
    alias = unique("shop").replace("-", "")
    client = {"bootstrap.servers": mortal.bootstrap_servers}
    west.create_topics([NewTopic(state_topic(alias), 1, 1, {"cleanup.policy": "compact"})])
    with Cluster.connect(ClusterSettings(alias, client)) as cluster:
        copying: Copying = new_copying(
            source=cluster, clients=(client, dict(settings_of("west").client)), state_topic=state_topic(alias)
        )
        source_id = cluster.cluster_id
    (source,) = copying.pairs
    file = tmp_path / "mirror.properties"
    file.write_text(
        f"clusters = {alias}, west\n{alias}.bootstrap.servers = {mortal.bootstrap_servers}\n"
        f"west.bootstrap.servers = {west.bootstrap_servers}\n{alias}->west.enabled = true\n"
        f"west->{alias}.enabled = true\ntopics = {source.topic}\n{FACTORS}"
    )
    settings = load(file)
    write(client, source, range(100))
    old_disk()
    write(client, source, range(100, 150))
    copying.until_caught_up()
    failed_over(settings)
    assert copying.state().positions[source].upstream == 150
    assert "no engine copies" in (refusal_of(settings) or ""), "nothing else is against it"

    old_disk()
    write(client, source, range(1_000, 1_070))
    with Cluster.connect(ClusterSettings(alias, client)) as cluster:
        assert (cluster.cluster_id, cluster.offsets([source], "latest")[source]) == (source_id, 170)
    refusal = refusal_of(settings) or ""
    assert f"{source}: it has other records than were copied from offset 100 on" in refusal
    assert "no failback to it is possible" in refusal


def test_a_topic_that_was_created_anew_on_the_source_is_no_way_home(
    east: Cluster,
    west: Cluster,
    settings_of: Callable[[str], ClusterSettings],
    new_copying: NewCopying,
    unique: Callable[[str], str],
    tmp_path: Path,
) -> None:
    alias = unique("shop").replace("-", "")
    client = dict(settings_of("east").client)
    west.create_topics([NewTopic(state_topic(alias), 1, 1, {"cleanup.policy": "compact"})])
    copying = new_copying(state_topic=state_topic(alias))
    (source,) = copying.pairs
    file = tmp_path / "mirror.properties"
    file.write_text(
        f"clusters = {alias}, west\n{alias}.bootstrap.servers = {east.bootstrap_servers}\n"
        f"west.bootstrap.servers = {west.bootstrap_servers}\n{alias}->west.enabled = true\n"
        f"west->{alias}.enabled = true\ntopics = {source.topic}\n{FACTORS}"
    )
    settings = load(file)
    write(client, source, range(50))
    copying.until_caught_up()
    failed_over(settings)
    east.delete_topics([source.topic])
    recreated(east, source)
    write(client, source, range(50))
    refusal = refusal_of(settings) or ""
    assert f"{source}: the topic was deleted and created anew" in refusal


def recreated(cluster: Cluster, source: TopicPartition) -> None:
    def made() -> bool:
        (result,) = cluster.create_topics([NewTopic(source.topic, 1, 1)])
        return result.problem is None

    wait_until(made, "the topic to be deleted and created anew", timeout_seconds=60)
