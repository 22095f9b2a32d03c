"""A copy of an unchanged name whose first position the state topic has lost with its end: nothing is copied twice."""

from __future__ import annotations

from contextlib import closing

import pytest

from mirror.kafka.log import LogWriter, read_records
from mirror.model import connect_offsets
from mirror.model.partition import TopicPartition
from mirror.model.state_record import state_topic
from tests.brokers.copying import ends_of
from tests.brokers.engines import DEFAULT, EXACTLY_ONCE, PARTITIONS, Engines

UNCHANGED = (
    "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    "emit.offset-syncs.enabled = false\n"
)


class Shared(Engines):
    """Engines whose copies have the names of their sources."""

    @property
    def copies(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, number) for number in range(PARTITIONS)]


@pytest.mark.long
@pytest.mark.parametrize("settings", [DEFAULT, EXACTLY_ONCE], ids=["default", "exactly-once"])
def test_what_was_copied_is_found_though_nothing_is_on_record_of_it(engines: Engines, settings: str) -> None:
    ends = engines.source, engines.target, engines.topic, engines.alias
    shared = Shared(*ends, engines.directory, UNCHANGED + settings, running=engines.running)
    shared.send(40)
    first = shared.running["first"] = shared.start()
    shared.await_all()
    first.kill()
    lost = TopicPartition(shared.topic, 0)
    topic = TopicPartition(state_topic(shared.alias), 0)
    kept = read_records(shared.target, topic, 0, ends_of(shared.target, [topic])[topic])
    of_it = {each.key for each in kept if each.key and b'"%s",0' % shared.topic.encode() in each.key}
    assert of_it
    key = connect_offsets.source_key(shared.alias, lost)
    with closing(LogWriter(shared.target)) as writer:
        writer.append(*topic, [(each, None, (), 1) for each in sorted(of_it)])
        writer.append(
            f"mm2-offsets.{shared.alias}.internal", connect_offsets.partition_of(key, 25), [(key, None, (), 1)]
        )
    shared.send(40)
    shared.running["next"] = shared.start()
    shared.await_all()
    shared.assert_each_once()
