"""What replicators leave beside the copies: section 3 of the inventory, read from the clusters."""

from __future__ import annotations

import itertools
import time

from mirror.kafka.log_tail import LogTail
from mirror.model import connect_offsets
from mirror.model.heartbeat import Heartbeat
from mirror.model.partition import TopicPartition
from tests.interop.world import World


def test_heartbeats(world: World) -> None:
    """One a second, of the flow into this cluster, and mirrored on (HB-01, HB-03, HB-04, section 3.2)."""
    for name in ("heartbeats", "primary.heartbeats"):
        world.until(lambda name=name: len(world.side_records(name, "backup")) >= 3, name)  # type: ignore[misc]
    own, mirrored = ([*world.side_records(name, "backup")] for name in ("heartbeats", "primary.heartbeats"))
    for records, flow in ((own, ("primary", "backup")), (mirrored, ("backup", "primary"))):
        beats = [Heartbeat.parse(record.key, record.value) for record in records]
        assert {(beat.source_alias, beat.target_alias) for beat in beats if beat} == {flow}
        assert all(beat and beat.timestamp_ms == record.timestamp for beat, record in zip(beats, records, strict=True))
        assert abs(records[-1].timestamp - time.time() * 1000) < 60_000
        assert all(record.headers == () for record in records)
        times = [record.timestamp for record in records]
        assert all(later - earlier >= 900 for earlier, later in itertools.pairwise(times))
    (topic,) = world.backup.topics(["heartbeats"]).values()
    assert len(topic.partitions) == 1
    assert world.settings("heartbeats")["cleanup.policy"] == "compact"


def test_offset_syncs(world: World) -> None:
    """Pairs that hold, and the last record's in the end (OSW-01 to OSW-08).

    Java sends the first record's at once; ours may already have a newer one of the same partition to send (OSW-04).
    """
    topic = world.create("test-synced-pairs")
    world.send(topic, 0, [b"%d" % number for number in range(95)])
    world.until(
        lambda: [sync.upstream for sync in world.syncs(topic)],
        "the sync of the last record",
        lambda seen: seen[-1:] == [94],
    )
    syncs = world.syncs(topic)
    assert syncs[0].upstream == 0 or not world.is_java
    assert all(sync.upstream == sync.downstream for sync in syncs)
    assert all(before.upstream < after.upstream for before, after in itertools.pairwise(syncs))
    (there,) = world.primary.topics(["mm2-offset-syncs.backup.internal"]).values()
    assert len(there.partitions) == 1
    assert world.settings("mm2-offset-syncs.backup.internal", on="primary")["cleanup.policy"] == "compact"


def test_positions_in_connects_format(world: World) -> None:
    """Key, value and partition of the entry are Connect's, so that either goes on where the other stopped (3.3, DED-03)."""
    topic = world.create("test-recorded-positions", 2)
    world.send(topic, 1, [b"1", b"2", b"3"])
    place = TopicPartition(topic, 1)
    partitions = range(25)
    world.until_copied(f"primary.{topic}", [0, 3])
    tail = LogTail(world.client("backup"), "mm2-offsets.primary.internal", partitions)
    seen = []

    def recorded() -> int | None:
        seen.extend(tail.poll())
        pairs = [(record.key, record.value) for record in seen]
        return connect_offsets.read_source_positions(pairs, "primary").get(place)

    try:
        world.until(recorded, "the position to be recorded", lambda position: position == 3)
    finally:
        tail.close()
    key = connect_offsets.source_key("primary", place)
    assert [record.value for record in seen if record.key == key][-1] == connect_offsets.source_value(2)
    own = LogTail(world.client("backup"), "mm2-offsets.primary.internal", [connect_offsets.partition_of(key, 25)])
    try:
        assert key in {record.key for record in own.poll()}
    finally:
        own.close()


def test_checkpoints_topic(world: World) -> None:
    """One partition, compacted, named after the source (TOP-07, section 3.1)."""
    world.until(lambda: "primary.checkpoints.internal" in world.backup.topics(), "the checkpoints topic")
    (topic,) = world.backup.topics(["primary.checkpoints.internal"]).values()
    assert len(topic.partitions) == 1
    assert world.settings("primary.checkpoints.internal")["cleanup.policy"] == "compact"
    (offsets,) = world.backup.topics(["mm2-offsets.primary.internal"]).values()
    assert len(offsets.partitions) == 25
    assert world.settings("mm2-offsets.primary.internal")["cleanup.policy"] == "compact"
