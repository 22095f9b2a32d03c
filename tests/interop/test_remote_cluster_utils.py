"""Java's reader of checkpoints and heartbeats and ours give the same answers, whoever has written them."""

from __future__ import annotations

from contextlib import closing

import pytest

from mirror import client
from mirror.client import GroupPosition, MirrorClient, NoCheckpoints, PartialAnswer, TopicPartition
from mirror.control.tick import now_ms
from mirror.kafka.log import LogWriter
from tests.interop.java_gateway import JavaRemoteClusterUtils
from tests.interop.world import World


def test_hops_and_topics(world: World, java_answers: JavaRemoteClusterUtils) -> None:
    """Heartbeats of both directions arrive, and mirrored topics are seen, on both clusters (API-01 to API-06, HB-03)."""
    world.create("test-seen")
    world.create("test-seen", on="backup")
    world.until(
        lambda: (
            (world.backup.topics().keys() | world.primary.topics().keys())
            >= {"primary.test-seen", "backup.test-seen", "primary.heartbeats", "backup.heartbeats"}
        ),
        "topics and heartbeats to be mirrored",
    )
    for here, upstream in (("backup", "primary"), ("primary", "backup")):
        asked = world.client(here)
        assert java_answers.replication_hops(asked, upstream) == client.replication_hops(asked, upstream) == 1
        assert java_answers.replication_hops(asked, "nobody") == -1
        assert client.replication_hops(asked, "nobody") is None
        assert java_answers.upstream_clusters(asked) == client.upstream_clusters(asked) == {upstream}
        heartbeats = client.heartbeat_topics(asked)
        assert java_answers.heartbeat_topics(asked) == heartbeats == {"heartbeats", f"{upstream}.heartbeats"}
        assert (
            java_answers.checkpoint_topics(asked)
            == client.checkpoint_topics(asked)
            >= {f"{upstream}.checkpoints.internal"}
        )
        assert java_answers.remote_topics(asked) == client.remote_topics(asked) >= {f"{upstream}.test-seen"}
        of_upstream = client.remote_topics(asked, upstream)
        assert java_answers.remote_topics(asked, upstream) == of_upstream >= {f"{upstream}.test-seen"}


def test_translated_positions(world: World, java_answers: JavaRemoteClusterUtils) -> None:
    """The last checkpoint of each partition, with its text, of one group or of all that match (API-07, API-08)."""
    topic = world.create("test-translated", 2)
    for partition in (0, 1):
        world.send(topic, partition, [b"%d" % number for number in range(50)])
    world.until_copied(f"primary.{topic}", [50, 50])
    world.commit("test-translated-a", {(topic, 0): 20, (topic, 1): 50}, text="noted")
    world.commit("test-translated-b", {(topic, 0): 50})
    ends = [("test-translated-a", 1), ("test-translated-b", 0)]
    world.until(
        lambda: [each and each.downstream for each in (world.last_checkpoint(*end) for end in ends)],
        "the groups' checkpoints to reach the end",
        lambda seen: seen == [50, 50],
    )
    here = world.client("backup")
    translated = client.translate_offsets(here, "primary", "test-translated-a")
    assert translated == java_answers.translate_offsets(here, "primary", "test-translated-a")
    assert translated.keys() == {TopicPartition(f"primary.{topic}", number) for number in (0, 1)}
    assert {each.metadata for each in translated.values()} == {"noted"}
    assert translated.reading.is_whole
    assert translated[TopicPartition(f"primary.{topic}", 1)].position == 50
    behind = translated[TopicPartition(f"primary.{topic}", 0)].position
    assert 0 < behind <= 20 if world.is_java else behind == 20

    pattern = "test-translated-[ab]"
    of_groups = client.translate_offsets_of_groups(here, "primary", pattern)
    assert of_groups == java_answers.translate_offsets_of_groups(here, "primary", pattern)
    assert of_groups["test-translated-a"] == translated
    assert of_groups.keys() == {"test-translated-a", "test-translated-b"}
    for nobody in ("test-translated", "test-trans.*-a"):
        # Neither part of an id nor a pattern is an exact id; a part does not match a whole id either.
        assert client.translate_offsets(here, "primary", nobody) == {}
        assert java_answers.translate_offsets(here, "primary", nobody) == {}
    assert client.translate_offsets_of_groups(here, "primary", "test-translated") == {}
    assert java_answers.translate_offsets_of_groups(here, "primary", "test-translated") == {}


def test_positions_on_a_target_with_unchanged_names(world: World, java_answers: JavaRemoteClusterUtils) -> None:
    """With the Identity policy the copy has the topic's own name, in checkpoints too (POL-02, API-05)."""
    topic = world.create("same-translated")
    world.send(topic, 0, [b"1", b"2", b"3"])
    world.until_copied(topic, [3])
    world.commit("same-translated", {(topic, 0): 3})
    world.until(
        lambda: world.last_checkpoint("same-translated", source="same"),
        "the checkpoint",
        lambda seen: seen is not None and seen.downstream == 3,
    )
    here = world.client("backup") | {
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "source.cluster.alias": "same",
    }
    translated = client.translate_offsets(here, "same", "same-translated")
    assert translated == java_answers.translate_offsets(here, "same", "same-translated")
    assert translated == {TopicPartition(topic, 0): GroupPosition(3)}
    assert client.remote_topics(here, "same") == java_answers.remote_topics(here, "same") >= {topic}


def test_a_file_names_the_cluster(world: World) -> None:
    """One connection answers several questions (CFG-102)."""
    with MirrorClient.of_file(world.file, "backup") as here:
        world.until(here.upstream_clusters, "heartbeats")
        assert here.replication_hops("primary") == 1
        assert here.replication_policy.format_remote_topic("primary", "orders") == "primary.orders"


def test_what_goes_unsaid_elsewhere_is_said_here(world: World) -> None:
    """A cluster without checkpoints, a deadline that passed, and records that are no checkpoints (API-07)."""
    topic = "lonely.checkpoints.internal"
    world.create(topic, on="backup")
    here = world.client("backup")
    with pytest.raises(NoCheckpoints, match=r"no topic nobody\.checkpoints\.internal; there are .*lonely"):
        client.translate_offsets(here, "nobody", "any")
    with closing(LogWriter(here)) as writer:
        writer.append(topic, 0, [(b"\0", b"none", (), now_ms()), (None, None, (), now_ms())])
    assert client.translate_offsets(here, "lonely", "any").reading.unreadable == 2
    with pytest.raises(PartialAnswer, match=r"lonely\.checkpoints\.internal was read up to offset 0 of 2") as partial:
        client.translate_offsets(here, "lonely", "any", timeout_seconds=0)
    assert partial.value.found == {}
