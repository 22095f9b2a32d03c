"""A flow's state topic may hold what this version does not know, or be lost: it is told, and nothing is copied twice."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from mirror.config.settings import ClusterSettings
from mirror.control.status import FlowObserver
from mirror.kafka.cluster import Cluster, NewTopic
from mirror.kafka.log import LogWriter
from mirror.model.flow_state import state_topic
from tests.brokers.copying import NewCopying, Unique, assert_copied, write
from tests.unit.config.files import flows_of


def test_records_of_a_newer_version_are_counted_and_stop_only_the_partition_that_needs_them(
    new_copying: NewCopying, settings_of: Callable[[str], ClusterSettings], west: Cluster, unique: Unique
) -> None:
    alias = unique("shop").replace("-", "")
    (settings,) = flows_of(f"{alias}->west")
    west.create_topics([NewTopic(state_topic(alias), 1, 1, {"cleanup.policy": "compact"})])
    copying = new_copying(partitions=2, state_topic=state_topic(alias))
    source, other = copying.pairs
    for each in copying.pairs:
        write(copying.flow.source_client, each, range(5))
    copying.until_caught_up()
    writer = LogWriter(copying.flow.target_client)
    with closing(writer), closing(FlowObserver(settings, settings_of("east"), settings_of("west"))) as observer:
        for key, value in (
            (b'["newer kind","a"]', b"{}"),
            (b'["newer kind","b"]', None),
            (b'["position","%s",0]' % source.topic.encode(), b'{"v":2}'),
            (b'["position","%s",9]' % source.topic.encode(), None),
        ):
            writer.append(copying.flow.state_topic, 0, [(key, value, (), 1)])
        found = observer.look()
    (note,) = found.notes
    assert "2 record(s) that this version does not understand" in note
    assert "1 of kind 'newer kind', 1 of kind 'position'" in note
    assert any(f"{source} is stopped" in reason for reason in found.reasons)
    assert [each.partition for each in found.partitions] == [1]
    copying.from_the_target()
    copying.pairs.pop(source)
    copying.until_caught_up([other])
    assert_copied(copying)
