"""Which topics are copied, and what the copies are like: section 2.1 to 2.5 of the inventory as black-box cases."""

from __future__ import annotations

import pytest

from mirror.kafka.cluster_model import ConfigChange
from tests.interop.world import World


def test_topics_of_both_clusters_get_copies_on_the_other(world: World) -> None:
    """Partitions, replication factor and settings; nothing goes back to where it came from.

    TOP-01, TCS-02, TCS-03, TCS-07, SEL-05, and the first part of upstream's testReplication.
    """
    of_primary = world.create(
        "test-both", 3, cleanup_policy="compact", retention_bytes="1000000", unclean_leader_election_enable="true"
    )
    of_backup = world.create("test-both", 2, on="backup")
    for partition in range(3):
        world.send(of_primary, partition, [b"east"])
    world.send(of_backup, 1, [b"west"] * 2, on="backup")
    world.until_copied("primary.test-both", [1, 1, 1])
    world.until_copied("backup.test-both", [0, 2], on="primary")
    assert (
        world.settings("primary.test-both").items()
        >= {
            "cleanup.policy": "compact",
            "retention.bytes": "1000000",
            "retention.ms": "-1",
        }.items()
    )
    assert "unclean.leader.election.enable" not in world.settings("primary.test-both")
    (copy,) = world.backup.topics(["primary.test-both"]).values()
    assert {len(partition.replicas) for partition in copy.partitions} == {1}
    later = world.create("test-later")
    world.until(lambda: world.count(f"primary.{later}"), f"{later}, which was created later, to be found (RUN-06)")
    assert not {name for name in world.primary.topics() if name.startswith(("backup.primary.", "primary.backup."))}
    assert not {name for name in world.backup.topics() if name.startswith(("backup.primary.", "primary.backup."))}


def test_names_decide_what_is_copied(world: World) -> None:
    """Filters, internal topics, topics of the target's own and of a cluster further up (SEL-01 to SEL-08, VER-17)."""
    refused = (
        "test-stays.replica",
        "backup.test-local",
        "mm2.test-settings.internal",
        "far.test-x.checkpoints.internal",
        "__test-hidden",
        "other-topic",
    )
    copied = ("far.test-hop", "test-app.internal", "primary.test-own")
    for topic in (*refused, *copied):
        world.create(topic)
    for topic in copied:
        world.until(lambda topic=topic: world.count(f"primary.{topic}") == [0], f"{topic} to be copied")  # type: ignore[misc]
    there = world.backup.topics()
    assert [topic for topic in refused if f"primary.{topic}" in there or f"far.{topic}" in there] == []


def test_partitions_grow_with_the_source_and_never_shrink(world: World) -> None:
    """TOP-02, RUN-06, and a case that upstream does not have: growth while running."""
    topic = world.create("test-growing")
    world.send(topic, 0, [b"before"])
    world.until_copied(f"primary.{topic}", [1])
    (grown,) = world.primary.grow_partitions({topic: 3})
    assert grown.problem is None
    world.until(lambda: world.count(topic, on="primary"), "the new partitions", lambda seen: len(seen or ()) == 3)
    world.send(topic, 2, [b"after"])
    world.until_copied(f"primary.{topic}", [1, 0, 1])


def test_settings_follow_the_source(world: World) -> None:
    """Upstream's testSyncTopicConfigs and testReplicateTargetDefault (TCS-01, TCS-04, TCS-05, TCS-08)."""
    topic = world.create("test-settings", retention_bytes="1000", segment_bytes="2000000")
    copy = f"primary.{topic}"
    world.until(lambda: world.count(copy), "the copy")
    assert world.settings(copy)["segment.bytes"] == "2000000"
    by_hand = {"retention.bytes": "7", "max.message.bytes": "5000", "min.insync.replicas": "1"}
    changed = world.backup.alter_configs({copy: ConfigChange(by_hand)})
    changed += world.primary.alter_configs(
        {topic: ConfigChange({"segment.ms": "3600000"}, ("segment.bytes",))},
    )
    assert [one for one in changed if one.problem is not None] == []
    wanted = {"retention.ms": "-1", "retention.bytes": "1000", "segment.ms": "3600000", "min.insync.replicas": "1"}
    world.until(
        lambda: world.settings(copy),
        "the copy to have the source's settings, the target's defaults, and what is excluded left alone",
        lambda seen: seen == wanted,
    )


def test_defaults_of_the_source_become_settings_of_the_copy(world: World) -> None:
    """What upstream's testReplicateSourceDefault means to tell: ``use.defaults.from`` (CFG-025, TCS-04, TCS-07)."""
    topic = world.create("defaults-topic")
    world.until(lambda: world.count(f"defaults.{topic}"), "the copy")
    set_there = world.until(
        lambda: world.settings(f"defaults.{topic}"),
        "the source's defaults",
        lambda seen: "segment.bytes" in seen,
    )
    (entries,) = world.primary.topic_configs([topic]).values()
    default = {entry.name: entry.value for entry in entries if entry.is_default}
    assert set_there["segment.bytes"] == default["segment.bytes"]
    assert "min.insync.replicas" not in set_there


@pytest.mark.interop
def test_a_topic_deleted_on_the_source_keeps_its_copy(world: World) -> None:
    """RUN-07, RUN-08: deletions are not replicated, and other topics go on."""
    topic, other = world.create("test-deleted"), world.create("test-kept")
    world.send(topic, 0, [b"1", b"2"])
    world.until_copied(f"primary.{topic}", [2])
    (deleted,) = world.primary.delete_topics([topic])
    assert deleted.problem is None
    later = world.create("test-after-deletion")
    world.send(later, 0, [b"3"])
    world.send(other, 0, [b"4"])
    world.until_copied(f"primary.{later}", [1])
    world.until_copied(f"primary.{other}", [1])
    assert world.count(f"primary.{topic}") == [2]
    assert topic not in world.primary.topics()
