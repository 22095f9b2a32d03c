"""What becomes of a record, flow by flow: sections 2.7 and 2.14 of the inventory as black-box cases."""

from __future__ import annotations

import itertools

import confluent_kafka
import pytest

from mirror.kafka.log_tail import LogTail
from tests.interop.world import OLD, World

_TIME = 1_700_000_000_000


def test_a_copy_has_all_that_the_record_has(world: World) -> None:
    """Partition, order, key, value, headers, time; tombstones, nothing at all, headers twice and null (REC-01 to REC-05)."""
    topic = world.create("test-content", 10)
    producer = confluent_kafka.Producer(world.client("primary"))
    for number, (key, value) in enumerate(itertools.product((None, b"", b"key"), (None, b"", b"value"))):
        headers = [("one", b"1"), ("none", None), ("one", b"2"), ("empty", b"")][: number % 5]
        producer.produce(topic, value, key, partition=7, timestamp=_TIME - number, headers=headers)
    assert producer.flush(30) == 0
    world.until_copied(f"primary.{topic}", [9 if partition == 7 else 0 for partition in range(10)])
    originals, copies = world.log(topic, 7, on="primary"), world.log(f"primary.{topic}", 7)
    assert [record[1:5] for record in copies] == [record[1:5] for record in originals]
    assert [record.timestamp for record in copies] == [_TIME - number for number in range(9)]


def test_the_time_of_a_record_is_the_sources_unless_the_copy_stamps_its_own(world: World) -> None:
    """LogAppendTime on either side (REC-03)."""
    stamped = world.create("test-stamped", message_timestamp_type="LogAppendTime")
    # Its flow leaves the copy's settings alone: a synchronisation would take the source's type of timestamps.
    stamping = "unsynced.unsynced-plain"
    world.create(stamping, on="backup", message_timestamp_type="LogAppendTime")
    plain = world.create("unsynced-plain")
    producer = confluent_kafka.Producer(world.client("primary"))
    copies = {stamped: f"primary.{stamped}", plain: stamping}
    for topic, copy in copies.items():
        producer.produce(topic, b"1", timestamp=_TIME)
        assert producer.flush(30) == 0
        world.until_copied(copy, [1])
    times = [world.log(topic, on="primary")[0].timestamp for topic in copies]
    copied = [world.log(copy)[0].timestamp for copy in copies.values()]
    assert times[1] == _TIME
    assert copied[0] == times[0] > _TIME
    assert copied[1] > times[0]


def test_transactions_of_the_source(world: World) -> None:
    """Aborted records are copied unless the source is read committed; markers never are (REC-07, REC-08)."""
    topics = [world.create("test-aborted"), world.create("committed-aborted")]
    for topic in topics:
        producer = confluent_kafka.Producer({**world.client("primary"), "transactional.id": topic})
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            producer.produce(topic, b"%d" % number)
            if number % 3 == 1:
                producer.flush()
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    world.until_copied("primary.test-aborted", [6])
    world.until_copied("committed.committed-aborted", [4])
    assert world.values("primary.test-aborted") == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert world.values("committed.committed-aborted") == [b"0", b"2", b"3", b"5"]
    assert world.primary.offsets(world.primary.topics(["test-aborted"])["test-aborted"].topic_partitions, "latest") == {
        ("test-aborted", 0): 12
    }
    # A group at the end of a log of records and markers is at the end of the copy, or a record before it.
    world.commit("test-marked", {("test-aborted", 0): 12})
    world.until(
        lambda: world.last_checkpoint("test-marked"),
        "the checkpoint",
        lambda seen: seen is not None and seen.downstream >= (5 if world.is_java else 6),
    )
    found = world.last_checkpoint("test-marked")
    assert found is not None
    assert found.downstream <= 6


def test_a_flow_that_begins_at_the_end_copies_only_what_comes(world: World) -> None:
    """``auto.offset.reset = latest`` (REC-11), upstream's testReplicateFromLatest."""
    copy = "newest.newest-records"
    numbers = itertools.count()

    def arrived() -> list[bytes | None]:
        # Nobody tells when the flow has taken its place at the end.
        world.send("newest-records", 0, [b"new %d" % next(numbers)])
        return world.values(copy) if world.count(copy) else []

    seen = world.until(arrived, "a new record to be copied")
    assert OLD not in seen
    assert seen == [b"new %d" % number for number in range(int(seen[0].split()[1]), int(seen[-1].split()[1]) + 1)]


def test_a_flow_without_offset_syncs_copies_and_writes_none(world: World) -> None:
    """``emit.offset-syncs.enabled = false``: no topic of syncs (CFG-034).

    So Java has no checkpoints either; ours need no syncs (CFG-050).
    """
    topic = world.create("unsynced-topic")
    world.send(topic, 0, [b"1", b"2"])
    world.commit("unsynced-group", {(topic, 0): 2})
    world.until_copied(f"unsynced.{topic}", [2])
    synced = world.create("test-synced")
    world.send(synced, 0, [b"1"])
    world.commit("test-synced", {(synced, 0): 1})
    world.until(lambda: world.last_checkpoint("test-synced"), "the checkpoint of another flow's group")
    names = world.primary.topics().keys() | world.backup.topics().keys()
    assert not [name for name in names if name.startswith("mm2-offset-syncs.silent")]
    if world.is_java:
        assert world.checkpoints("unsynced-group", source="unsynced") == []
    else:
        world.until(
            lambda: world.last_checkpoint("unsynced-group", source="unsynced"),
            "the checkpoint",
            lambda seen: seen is not None and seen.downstream == 2,
        )


def test_nobody_joins_a_group_on_the_source(world: World) -> None:
    """REC-12."""
    topic = world.create("test-nobody")
    world.send(topic, 0, [b"1"])
    world.until_copied(f"primary.{topic}", [1])
    readers = {listing.group for listing in world.primary.groups() if listing.is_consumer_group}
    assert readers <= world.groups, "who reads the source for the copies is in no group"


def test_records_and_positions_in_transactions(world: World) -> None:
    """``exactly.once.source.support = enabled`` on the target's worker (EOS-01, EOS-05, EOS-09)."""
    topic = world.create("sealed-topic", 2)
    for partition in (0, 1):
        world.send(topic, partition, [b"%d" % number for number in range(20)])

    def committed() -> list[bytes | None]:
        if world.count(f"sealed.{topic}") is None:
            return []
        tail = LogTail(world.client("backup"), f"sealed.{topic}", (0, 1))
        try:
            return [record.value for record in tail.poll()]
        finally:
            tail.close()

    seen = world.until(committed, "all records to be committed", lambda seen: len(seen) >= 40)
    assert sorted(seen) == sorted([b"%d" % number for number in range(20)] * 2)
    (first, second) = world.count(f"sealed.{topic}") or ()
    assert first > 20 < second, "markers take offsets too"


@pytest.mark.interop
def test_many_records_keep_their_order(world: World) -> None:
    """Order and number over several partitions (REC-09)."""
    topic = world.create("test-many", 4)
    for partition in range(4):
        world.send(topic, partition, [b"%d" % number for number in range(20_000)])
    world.until_copied(f"primary.{topic}", [20_000] * 4)
    for partition in range(4):
        assert world.values(f"primary.{topic}", partition) == [b"%d" % number for number in range(20_000)]
