"""A topic that is deleted on the source is told in the status, and nothing is done to its copy (RUN-07)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from mirror.config.settings import ClusterSettings
from mirror.control.status import FlowObserver
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.model.partition import TopicPartition
from mirror.model.state_record import state_topic
from mirror.waiting import wait_until
from tests.brokers.copying import Copying, Unique, can_tell, write
from tests.flows import flow_work
from tests.unit.config.files import flows_of


def test_the_status_names_a_deleted_topic_and_goes_on_showing_the_others(
    east: Cluster, west: Cluster, settings_of: Callable[[str], ClusterSettings], unique: Unique
) -> None:
    alias = unique("shop").replace("-", "")
    (settings,) = flows_of(f"{alias}->west")
    sides = settings_of("east"), settings_of("west")
    names = [unique("orders"), unique("refunds")]
    copies = [settings.copy_of(name) for name in names]
    state, offsets = state_topic(alias), unique("mm2-offsets")
    east.create_topics([NewTopic(name, 1, 1) for name in names])
    west.create_topics([NewTopic(name, 1, 1) for name in (*copies, state, offsets)])
    pairs = {TopicPartition(name, 0): TopicPartition(copy, 0) for name, copy in zip(names, copies, strict=True)}
    for side, asked in ((sides[0], list(pairs)), (sides[1], list(pairs.values()))):
        wait_until(lambda side=side, asked=asked: can_tell(dict(side.client), asked), "the topics", timeout_seconds=60)  # type: ignore[misc]
    work = flow_work(
        flow=settings.flow,
        source_client=dict(sides[0].client),
        target_client=dict(sides[1].client),
        state_topic=state,
        offsets_topic=offsets,
        offsets_partitions=1,
    )
    copying = Copying(work, pairs)
    for source in pairs:
        write(copying.flow.source_client, source, range(3))
    copying.until_caught_up()
    with closing(FlowObserver(settings, *sides)) as observer:
        assert [each.topic for each in observer.look().partitions] == sorted(names)
        east.delete_topics([names[0]])
        found = wait_until(observer.look, "the deletion to be seen", timeout_seconds=60, until=lambda seen: seen.notes)
        assert found.notes == (f"{names[0]} is not on {alias} any more; its copy {copies[0]} on west is left as it is",)
        assert [(each.topic, each.lag_records) for each in found.partitions] == [(names[1], 0)]
        assert not any(names[0] in reason for reason in found.reasons)
        assert found.as_json()["notes"] == list(found.notes)
    assert len(copying.copies(TopicPartition(names[0], 0))) == 3
