"""A copy with the source's offsets on a target whose stale follower becomes the leader: what it lacks is copied again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster
from mirror.lab.clusters import LabCluster
from mirror.waiting import wait_until
from tests.brokers.copying import NewCopying, producer_to, write
from tests.brokers.leaders import copy_to_the_second_and_third, led_by
from tests.brokers.same_offsets_killed import read
from tests.worker_process import forget_all

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("is_running", [True, False], ids=["running", "taken over"])
def test_what_an_unclean_election_on_the_target_has_lost_is_copied_again_to_its_offsets_and_told(
    is_running: bool,
    trio: LabCluster,
    new_copying: NewCopying,
    settings_of: Callable[[str], ClusterSettings],
    unique: Callable[[str], str],
) -> None:
    """Records and the marker in a hole are lost with the leader: each gets its offset again, and no other one."""
    client = {"bootstrap.servers": trio.bootstrap_servers}
    with Cluster.connect(ClusterSettings("trio", client)) as cluster:
        copying = new_copying(target=cluster, clients=(dict(settings_of("east").client), client))
    (source,) = copying.pairs
    copy_to_the_second_and_third(copying, client, unique)
    target = copying.pairs[source]
    copying.pad_limit = 1_000_000
    copying.from_the_target()
    _, second, third = trio.brokers
    wait_until(lambda: led_by(client, target, 2, 2), "the copy", timeout_seconds=60)
    write(copying.flow.source_client, source, range(100))
    copying.until_caught_up()
    third.kill()
    wait_until(lambda: led_by(client, target, 2, 1), "the leader alone", timeout_seconds=60)
    producer = producer_to(copying.flow.source_client, transactional_id=source.topic)
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(source.topic, b"in a transaction")
    producer.commit_transaction()
    write(copying.flow.source_client, source, range(100, 150))
    copying.until_caught_up()
    second.kill()
    third.start()
    wait_until(lambda: led_by(client, target, 3, 1), "the other leader", timeout_seconds=60)
    if not is_running:
        forget_all()
        copying.from_the_target()
    write(copying.flow.source_client, source, range(150, 160))
    told = []
    for _ in range(10):
        result = copying.epoch(5.0)[source]
        assert result.stopped is None
        told.append(result.note or "")
        copies = read(client, target, "read_uncommitted")
        if copies == read(copying.flow.source_client, source, "read_uncommitted"):
            break
    assert copies == read(copying.flow.source_client, source, "read_uncommitted")
    assert any("ended at offset 100, before the position 152 on record" in each for each in told), told
