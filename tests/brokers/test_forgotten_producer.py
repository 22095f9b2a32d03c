"""An engine that was frozen for longer than brokers remember a producer: nothing but its own clock stops it then."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mirror.config.settings import ClusterSettings
from mirror.copier.epoch_channel import EpochChannel
from mirror.engine.lease import Lease
from mirror.kafka import partition_state
from mirror.kafka.channel import Channel
from mirror.kafka.cluster import Cluster
from mirror.lab import brokers, clusters
from mirror.waiting import wait_until
from tests.brokers.copying import NewCopying, ends_of, write
from tests.brokers.late import INVALID_PRODUCER_EPOCH, LATE, kill_after_ten, send_late
from tests.worker_process import forget_all

pytestmark = pytest.mark.soak


@pytest.fixture
def forgetful(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[clusters.LabCluster]:
    """A cluster whose broker forgets a producer two seconds after its last batch."""
    usual = brokers.node_properties

    def forgetting(*known: Any) -> dict[str, str]:
        return usual(*known) | {"producer.id.expiration.ms": "2000", "producer.id.expiration.check.interval.ms": "500"}

    monkeypatch.setattr(brokers, "node_properties", forgetting)
    yield clusters.up(tmp_path / "lab", ["forgetful"], owner_pid=os.getpid()).clusters["forgetful"]
    forget_all()
    clusters.down(tmp_path / "lab", discard_data=True)


def test_the_fence_lasts_as_long_as_brokers_remember_the_producer_and_the_right_to_write_ends_before(
    forgetful: clusters.LabCluster, settings_of: Callable[[str], ClusterSettings], new_copying: NewCopying
) -> None:
    """Seen with Kafka 4.3: once the id is forgotten a batch of an old epoch is a first batch, whatever its sequence."""
    client = {"bootstrap.servers": forgetful.bootstrap_servers}
    with (
        Cluster.connect(ClusterSettings("forgetful", client)) as target,
        closing(Channel("forgetful", client)) as asked,
    ):
        copying = new_copying(target=target, clients=(dict(settings_of("east").client), client))
        (source,) = copying.pairs
        copy = copying.pairs[source]
        killed = kill_after_ten(copying, source)
        copying.take_producer()
        assert send_late(copying, copy, killed, 10, LATE) == INVALID_PRODUCER_EPOCH
        wait_until(
            lambda: partition_state.producer_epochs(asked, [copy], killed.producer_id),
            "the broker to forget",
            timeout_seconds=60,
            until=lambda known: not known,
        )
        # What it has written is known as this flow's by the record of its id alone, which is why that is kept.
        assert {each.producer_id for each in copying.copies(source)} == {killed.producer_id} == copying.state().writers
        assert send_late(copying, copy, killed, 10, LATE) == 0

        # That is why a task that was frozen does not send it.
        lease = Lease(0.0)
        before = ends_of(client, [copy])
        write(copying.flow.source_client, source, range(10, 20))
        with EpochChannel("127.0.0.1", write_seconds=lambda: lease.left) as epoch_channel:
            copying.epoch(60.0, epoch_channel.address)
        assert ends_of(client, [copy]) == before
