"""What the consumer of a shadow group is handed, on real brokers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupPosition, NewTopic
from mirror.kafka.group_reader import ReadGoal, ReadLimits, read_as_group
from mirror.model.partition import TopicPartition
from tests.brokers.copying import write
from tests.positions import write_positions

_GROUPS, _AT_ONCE = 48, 8
# On half a core a group takes longer than the 15 s that a rehearsal gives it.
_PATIENT = ReadLimits(seconds=300)


def test_every_group_of_many_is_handed_its_partitions_from_its_positions_on(
    east: Cluster, settings_of: Callable[[str], ClusterSettings], unique: Callable[[str], str]
) -> None:
    """Many, as the library's join loses the partitions where it is late by some milliseconds."""
    topic = unique("shop.orders")
    partitions = [TopicPartition(topic, number) for number in range(2)]
    east.create_topics([NewTopic(topic, 2, 1), NewTopic(f"{topic}-not-asked-for", 1, 1)])
    client = dict(settings_of("east").client)
    for partition in partitions:
        write(client, partition, range(10))
    groups = [unique("group") for _ in range(_GROUPS)]
    for group in groups:
        write_positions(east, group, {partitions[0]: GroupPosition(3), partitions[1]: GroupPosition(7)})
    goals = {partition: ReadGoal(10, 1) for partition in partitions}

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        handed = list(pool.map(lambda group: read_as_group(client, group, goals, _PATIENT, threading.Event()), groups))

    offsets = [{each: [seen.offset for seen in one.records] for each, one in of.items()} for of in handed]
    assert [one.problem for of in handed for one in of.values()] == [None] * (2 * _GROUPS)
    assert offsets == [{partitions[0]: [*range(3, 10)], partitions[1]: [7, 8, 9]}] * _GROUPS
