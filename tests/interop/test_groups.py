"""Where groups go on: sections 2.9 to 2.11 of the inventory as black-box cases.

A translation of Java's may lie before the exact one; ours is exact.
"""

from __future__ import annotations

import itertools

import confluent_kafka
import confluent_kafka.admin
import pytest

from mirror.model.checkpoint import Checkpoint
from tests.interop.world import World

LAG_MAX = 10


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_a_checkpoint_follows_its_group(world: World) -> None:
    """It advances with the group and rewinds with it, and else never goes back (CKP-05, CKP-06, OST-07).

    Upstream's testOffsetTranslationBehindReplicationFlow.
    """
    topic = world.create("test-behind")
    world.send(topic, 0, numbered(2000))
    world.until_copied(f"primary.{topic}", [2000])

    def checkpoint_of(position: int) -> Checkpoint:
        world.commit("test-behind", {(topic, 0): position})
        found = world.until(
            lambda: world.last_checkpoint("test-behind"),
            f"the checkpoint of position {position}",
            lambda seen: (
                seen is not None
                and seen.upstream == position
                and (seen.downstream > 0 if world.is_java else seen.downstream == position)
            ),
        )
        assert isinstance(found, Checkpoint)
        assert found.downstream <= position
        return found

    early, late = checkpoint_of(500), checkpoint_of(1900)
    assert late.downstream > early.downstream
    again = checkpoint_of(600)
    assert again.downstream < late.downstream
    every = world.checkpoints("test-behind")
    for before, after in itertools.pairwise(every):
        assert after.downstream >= before.downstream or after.upstream < before.upstream


def test_no_checkpoint_before_the_first_record(world: World) -> None:
    """A group on an empty partition has none until records flow, or is at the start (CKP-10, CKP-11).

    Ours says of the start of an empty log what is known of it: it is that of the copy. Upstream's
    testNoCheckpointsIfNoRecordsAreMirrored and testReplicationWithEmptyPartition.
    """
    topic, other = world.create("test-empty", 2), world.create("test-filled")
    world.until(lambda: world.count(f"primary.{topic}"), "the copy")
    world.commit("test-empty", {(topic, 0): 0, (topic, 1): 0})
    world.send(other, 0, numbered(3))
    world.commit("test-empty", {(other, 0): 3})
    world.until(
        lambda: [one for one in world.checkpoints("test-empty") if one.topic_partition.topic == f"primary.{other}"],
        "the checkpoint of the topic that has records",
    )
    empty = [one for one in world.checkpoints("test-empty") if one.topic_partition.topic == f"primary.{topic}"]
    assert {(one.upstream, one.downstream) for one in empty} <= (set() if world.is_java else {(0, 0)})
    world.send(topic, 0, numbered(5))
    world.commit("test-empty", {(topic, 0): 5})
    found = world.until(
        lambda: [one for one in world.checkpoints("test-empty") if one.topic_partition.topic == f"primary.{topic}"],
        "the checkpoint, now that records flow",
        lambda seen: bool(seen) and seen[-1].downstream == 5,
    )
    assert {one.topic_partition.partition for one in found if one.upstream} == {0}


def test_groups_without_members_follow_on_the_target_and_never_go_back(world: World) -> None:
    """``sync.group.offsets.enabled``: to the end, but not back when the source's group goes back (GOS-01, GOS-02, GOS-05).

    Upstream's testOneWayReplicationWithAutoOffsetSync; what is read again is bounded by ``offset.lag.max``.
    """
    topic = world.create("test-followed", 2)
    copy = f"primary.{topic}"
    for partition in (0, 1):
        world.send(topic, partition, numbered(100))
    world.until_copied(copy, [100, 100])
    world.commit("test-followed", {(topic, 0): 100, (topic, 1): 100})
    for partition in (0, 1):
        world.until(
            lambda partition=partition: world.position("test-followed", copy, partition),  # type: ignore[misc]
            "the group on the target to reach the end",
            lambda seen: seen is not None and 100 - seen <= (LAG_MAX if world.is_java else 0),
        )
    reached = world.position("test-followed", copy)
    assert reached is not None
    assert reached <= 100
    world.commit("test-followed", {(topic, 0): 30})
    world.until(
        lambda: world.last_checkpoint("test-followed"),
        "the checkpoint to go back",
        lambda seen: seen is not None and seen.upstream == 30,
    )
    later = world.create("test-followed-later")
    world.send(later, 0, numbered(20))
    world.commit("test-followed", {(later, 0): 20})
    world.until(
        lambda: world.position("test-followed", f"primary.{later}"),
        "a topic that was added later to be followed too",
        lambda seen: seen is not None and 20 - seen <= LAG_MAX,
    )
    assert (world.position("test-followed", copy) or 0) >= reached


def test_a_group_with_members_on_the_target_is_left_alone(world: World) -> None:
    """Its members' position stands (GOS-03, GOS-09), a case that upstream does not have."""
    topic = world.create("test-busy")
    copy = f"primary.{topic}"
    world.send(topic, 0, numbered(50))
    world.until_copied(copy, [50])
    consumer = confluent_kafka.Consumer(
        {
            **world.client("backup"),
            "group.id": "test-busy",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([copy])
        world.until(lambda: consumer.poll(0.2), "the member to read")
        place = confluent_kafka.TopicPartition(copy, 0, 5)
        consumer.commit(offsets=[place], asynchronous=False)
        world.commit("test-busy", {(topic, 0): 50})
        world.commit("test-idle", {(topic, 0): 50})
        for group, observe in (
            ("test-busy", lambda: world.last_checkpoint("test-busy")),
            ("test-idle", lambda: world.position("test-idle", copy)),
        ):
            world.until(observe, f"the round in which {group} was looked at")
        consumer.poll(0)
        assert world.position("test-busy", copy) == 5
    finally:
        consumer.close()


def test_a_sync_for_every_record(world: World) -> None:
    """``offset.lag.max = 0``: positions near the end are exact, whoever translates (OSW-01, OST-05, OST-06).

    Upstream's testOneWayReplicationWithFrequentOffsetSyncs.
    """
    topic = world.create("every-topic")
    world.send(topic, 0, numbered(50))
    world.commit("every-group", {(topic, 0): 50})
    world.until(
        lambda: world.position("every-group", f"every.{topic}"),
        "the group to be at the end",
        lambda seen: seen == 50,
    )
    syncs = world.syncs(topic)
    assert all(sync.upstream == sync.downstream for sync in syncs)
    assert syncs[-1].upstream == 49


def test_syncs_on_the_target(world: World) -> None:
    """``offset-syncs.topic.location = target``: named after the source, and checkpoints all the same (CFG-032)."""
    topic = world.create("located-topic")
    world.send(topic, 0, numbered(20))
    world.commit("located-group", {(topic, 0): 20})
    world.until(
        lambda: world.last_checkpoint("located-group", source="located"),
        "the checkpoint",
        lambda seen: seen is not None and seen.downstream == 20,
    )
    assert "mm2-offset-syncs.located.internal" not in world.primary.topics()
    assert world.syncs(topic, of="located", on="backup")
    assert world.syncs(topic) == []


def test_groups_that_are_not_selected_have_no_checkpoints(world: World) -> None:
    """The group filter, and the topic filter on the group's topics (CKP-01, SEL-10)."""
    topic, unselected = world.create("test-selected"), world.create("unselected")
    for each in (topic, unselected):
        world.send(each, 0, numbered(3))
    world.commit("unselected", {(topic, 0): 3})
    world.commit("test-selected", {(topic, 0): 3, (unselected, 0): 3})
    world.until(lambda: world.last_checkpoint("test-selected"), "the checkpoint of the selected group")
    assert world.checkpoints("unselected") == []
    assert {one.topic_partition.topic for one in world.checkpoints("test-selected")} == {f"primary.{topic}"}


def test_progress_on_a_copy_goes_back_to_the_original(world: World) -> None:
    """A group on ``primary`` that has read ``backup.x`` stands on ``x`` of ``backup``; Java has nothing (CKP-07)."""
    topic = world.create("test-round", on="backup")
    world.send(topic, 0, numbered(10), on="backup")
    world.until_copied(f"backup.{topic}", [10], on="primary")
    world.commit("test-round", {(f"backup.{topic}", 0): 4})
    told = world.create("test-round-told")
    world.send(told, 0, numbered(1))
    world.commit("test-round", {(told, 0): 1})

    def checkpointed(name: str) -> list[int]:
        return [one.downstream for one in world.checkpoints("test-round") if one.topic_partition.topic == name]

    world.until(lambda: checkpointed(f"primary.{told}"), "the checkpoint of the group's other topic")
    if world.is_java:
        assert checkpointed(topic) == []
    else:
        world.until(lambda: checkpointed(topic), "the checkpoint on the original", lambda seen: seen[-1:] == [4])


@pytest.mark.interop
def test_a_group_id_with_a_comma(world: World) -> None:
    """Java's tasks take it for two (CFG-014); a case that upstream does not have."""
    topic = world.create("test-comma")
    world.send(topic, 0, numbered(3))
    world.commit("test-comma,b", {(topic, 0): 3})
    world.commit("test-comma", {(topic, 0): 3})
    world.until(lambda: world.last_checkpoint("test-comma"), "the checkpoint of the group without a comma")
    if world.is_java:
        assert world.checkpoints("test-comma,b") == []
    else:
        world.until(lambda: world.last_checkpoint("test-comma,b"), "the checkpoint of the group with a comma")


@pytest.mark.interop
def test_a_group_deleted_on_the_source_keeps_its_place_on_the_target(world: World) -> None:
    """GOS-08."""
    topic = world.create("test-vanished")
    world.send(topic, 0, numbered(3))
    world.commit("test-vanished", {(topic, 0): 3})
    world.until(
        lambda: world.position("test-vanished", f"primary.{topic}"), "the group on the target", lambda at: at == 3
    )
    admin = confluent_kafka.admin.AdminClient(world.client("primary"))
    for deleted in admin.delete_consumer_groups(["test-vanished"]).values():
        deleted.result(30)
    world.commit("test-remaining", {(topic, 0): 3})
    world.until(lambda: world.position("test-remaining", f"primary.{topic}"), "a later round")
    assert world.position("test-vanished", f"primary.{topic}") == 3
