"""`mirror run` with the source's offsets: killed again and again, with groups, and compared by `mirror verify`."""

from __future__ import annotations

import pytest

from mirror.kafka.cluster import Cluster, NewTopic
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.copying import can_tell, delete_records, ends_of, producer_to, write
from tests.brokers.engines import PARTITIONS, Engines
from tests.brokers.same_offsets_engines import (
    SAME,
    assert_killed_engines_copy_each_record_once,
    assert_same,
    await_copies,
    await_records,
    in_transactions,
    verified,
    with_a_removed_head,
)
from tests.brokers.same_offsets_killed import read

pytestmark = pytest.mark.long


@pytest.fixture
def same(engines: Engines) -> Engines:
    """Engines of a topic whose partitions begin behind a removed head."""
    return with_a_removed_head(engines)


def test_engines_that_are_killed_leave_each_record_once_at_its_offset_and_groups_keep_their_positions(
    same: Engines,
) -> None:
    assert_killed_engines_copy_each_record_once(same, kills=3)


def test_what_cannot_have_the_offsets_is_refused_by_name_and_a_compacted_copy_gets_tombstones_that_nobody_misses(
    same: Engines, east: Cluster, west: Cluster
) -> None:
    """The status names the first; the comparison passes over the others' fillers, and fails for a record elsewhere."""
    others = {f"{same.topic}-{each}": each for each in ("keyed", "taken", "left")}
    policies = {"keyed": "compact", "taken": "delete", "left": "delete"}
    for name, each in others.items():
        east.create_topics([NewTopic(name, 1, 1, {"cleanup.policy": policies[each]})])
    taken, left, keyed = (TopicPartition(f"{same.topic}-{each}", 0) for each in ("taken", "left", "keyed"))
    copies = {each: TopicPartition(f"{same.alias}.{each.topic}", 0) for each in (taken, left, keyed)}
    west.create_topics([NewTopic(copies[taken].topic, 1, 1)])
    for each in (taken, left):
        write(same.source, each, range(5))
    write(same.target, copies[taken], range(3))
    keyed_in_transactions(same, keyed)
    same.settings += (
        f"{same.alias}->west.topics = {same.topic}.*\nmirror.offsets.topics = {same.topic}, .*-keyed, .*-taken\n"
        f"{same.alias}->west.consumer.isolation.level = read_committed\n"
    )
    same.running["first"] = same.start()
    in_transactions(same, 20, aborts=True)
    await_copies(same)
    wait_until(
        lambda: ends_of(same.target, list(copies.values())),
        "the other copies",
        timeout_seconds=240,
        until=lambda ends: ends[copies[left]] == 5 and ends[copies[keyed]] == ends_of(same.source, [keyed])[keyed],
    )
    assert_same(same, "read_committed")
    # A partition that is added has its offsets from the first.
    east.grow_partitions({same.topic: PARTITIONS + 1})
    added = TopicPartition(same.topic, PARTITIONS)
    wait_until(lambda: can_tell(same.source, [added]), "the partition", timeout_seconds=120)
    write(same.source, added, range(5))
    new_copy = TopicPartition(same.copies[0].topic, PARTITIONS)
    wait_until(lambda: can_tell(same.target, [new_copy]), "its copy", timeout_seconds=240)
    await_records(same, new_copy, 5)
    assert read(same.target, new_copy, "read_uncommitted") == read(same.source, added, "read_uncommitted")
    assert read(same.target, copies[keyed], "read_uncommitted") == read(same.source, keyed, "read_committed")
    assert ends_of(same.target, [copies[taken]])[copies[taken]] == 3
    flow = wait_until(same.status, "the status", timeout_seconds=120, until=lambda found: found["state"] == "DEGRADED")
    assert [
        each for each in flow["reasons"] if f"{taken}" in each and "nothing says that they are the source's" in each
    ]
    assert not [each for each in flow["reasons"] if f"{keyed}" in each or f"{left}" in each]
    found = {each["topic"]: each for each in verified(same)["partitions"]}
    assert {name: found[name]["verdict"] for name in (same.topic, keyed.topic, left.topic)} == {
        same.topic: "PASS",
        keyed.topic: "PASS",
        left.topic: "PASS",
    }
    assert found[keyed.topic]["extra"] == 0
    # Without a clean stop, so that nobody copies behind what somebody else writes now.
    same.running["first"].kill()
    write(same.target, copies[keyed], [7])
    assert {each["topic"]: each["verdict"] for each in verified(same)["partitions"]}[keyed.topic] == "FAIL"


def keyed_in_transactions(engines: Engines, partition: TopicPartition) -> None:
    producer = producer_to(engines.source, transactional_id=f"{partition.topic}-writer")
    producer.init_transactions()
    for number in range(6):
        producer.begin_transaction()
        producer.produce(partition.topic, b"%d" % number, b"key %d" % number)
        producer.commit_transaction()


def test_what_is_over_the_limit_is_translated_where_the_file_says_so_by_each_engine_that_goes_on(
    engines: Engines, east: Cluster
) -> None:
    """Another topic beside it has the source's offsets all the same."""
    far = TopicPartition(f"{engines.topic}-far", 0)
    copy = TopicPartition(f"{engines.alias}.{far.topic}", 0)
    east.create_topics([NewTopic(far.topic, 1, 1)])
    write(engines.source, far, range(50))
    delete_records(engines.source, far, 40)
    engines.settings = (
        f"{SAME}{engines.alias}->west.topics = {engines.topic}.*\nmirror.offsets.pad.limit = 39\n"
        "mirror.offsets.refused = translate\n"
    )
    engines.send(PARTITIONS * 10)
    engines.running["first"] = engines.start()
    await_records(engines, copy, 10)
    engines.running["first"].kill()
    write(engines.source, far, range(50, 60))
    engines.running["second"] = engines.start()
    await_records(engines, copy, 20)
    copied, originals = (
        read(client, each, "read_uncommitted") for client, each in ((engines.target, copy), (engines.source, far))
    )
    assert list(copied.values()) == list(originals.values())
    assert min(copied) < min(originals), "offsets of its own"
    await_copies(engines)
    assert read(engines.target, engines.copies[0], "read_uncommitted") == read(
        engines.source, TopicPartition(engines.topic, 0), "read_uncommitted"
    )
    flow = wait_until(
        engines.status,
        "the note",
        timeout_seconds=240,
        until=lambda found: any("1 partition is translated" in each for each in found["notes"]),
    )
    assert [each["stopped"] for each in flow["partitions"] if each["topic"] == far.topic] == [None]
