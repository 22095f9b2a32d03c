"""The way home of copies with the source's offsets where both sides have written: one topic is made anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster, NewTopic
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.copying import write
from tests.brokers.same_offsets_both_ways import PATIENCE_SECONDS, Pair, commit, committed, delete
from tests.brokers.same_offsets_killed import read

pytestmark = pytest.mark.long


def test_after_a_failover_with_a_stranded_tail_the_old_topic_is_made_anew_with_every_record_at_its_offset(
    east: Cluster,
    settings_of: Callable[[str], ClusterSettings],
    unique: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """What was mirrored before the failover too: it is on the standby as copies, which come home."""
    one, two = (unique(each).replace("-", "") for each in ("shop", "safe"))
    orders = TopicPartition(unique("orders"), 0)
    pair = Pair(dict(settings_of("east").client), dict(settings_of("west").client), orders, (one, two), tmp_path)
    group = f"{orders.topic}-reader"
    east.create_topics([NewTopic(orders.topic, 1, 1)])
    write(pair.home, orders, range(10))
    with pair.engine():
        pair.await_end(pair.away, 10)
        pair.await_copied(pair.back, 10)

    write(pair.home, orders, [98, 99])  # stranded
    write(pair.away, orders, range(10, 15))
    commit(pair.away, group, orders, 12)
    with pair.engine():
        pair.await_reason(pair.back, "with records that")
    delete(east, orders.topic)
    with pair.engine():
        pair.await_end(pair.home, 15)
        assert read(pair.home, orders, "read_uncommitted") == read(pair.away, orders, "read_uncommitted")
        assert len(read(pair.home, orders, "read_uncommitted")) == 15
        wait_until(
            lambda: committed(pair.home, group, orders),
            "the group's position",
            timeout_seconds=PATIENCE_SECONDS,
            until=lambda at: at == 12,
        )
        pair.await_copied(pair.there, 15)
        # Home again, and the standby follows: nothing is made anew there.
        write(pair.home, orders, range(15, 20))
        pair.await_end(pair.away, 20)
        assert read(pair.away, orders, "read_uncommitted") == read(pair.home, orders, "read_uncommitted")
        assert len(read(pair.away, orders, "read_uncommitted")) == 20
