"""`mirror run` with `mirror.offsets.recreated = make-anew`: the copy of a recreated topic is deleted and made anew."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from mirror.kafka.cluster import Cluster
from mirror.kafka.log import LogWriter
from mirror.model.partition import TopicPartition
from mirror.model.state_record import stamped, state_topic
from mirror.model.state_values import source_record
from mirror.waiting import wait_until
from tests.brokers.command import mirror
from tests.brokers.copying import write
from tests.brokers.engines import PARTITIONS, Engines
from tests.brokers.same_offsets_engines import (
    SAME,
    await_anew,
    await_copies,
    await_records,
    deleted_and_created_anew,
    gaps_of,
    verified,
    with_a_removed_head,
)
from tests.brokers.same_offsets_killed import read

pytestmark = pytest.mark.long

MAKE_ANEW = "mirror.offsets.recreated = make-anew\n"


def test_the_copy_of_a_topic_that_was_created_anew_is_made_anew_where_the_file_says_so_and_what_is_gone_is_a_gap(
    engines: Engines, east: Cluster, west: Cluster
) -> None:
    engines.settings = SAME
    engines.send(PARTITIONS * 10)
    engines.running["first"] = engines.start()
    await_copies(engines)
    copy = engines.copies[0].topic
    former = west.topics([copy])[copy].topic_id
    engines.running["first"].kill()
    deleted_and_created_anew(east, engines.topic, 2)
    engines.settings += MAKE_ANEW
    anew = [TopicPartition(engines.topic, number) for number in range(2)]
    for each in anew:
        write(engines.source, each, range(7))
    planned = json.loads(mirror("plan", str(engines.file), "--json").stdout)["flows"][0]
    assert {each["action"] for each in planned["offsets"]} == {"make anew"}
    engines.running["second"] = engines.start()
    await_anew(engines, west, anew_copies(engines), former)
    for source, each in zip(anew, anew_copies(engines), strict=True):
        await_records(engines, each, 7)
        assert read(engines.target, each, "read_uncommitted") == read(engines.source, source, "read_uncommitted")
    assert gaps_of(engines) == {(number, 0, 10, "recreated") for number in range(PARTITIONS)}
    assert {each["verdict"] for each in verified(engines)["partitions"] if each["topic"] == engines.topic} == {"PASS"}


def test_a_copy_that_others_have_written_to_is_kept_and_told_of(engines: Engines, east: Cluster, west: Cluster) -> None:
    """Applications that went on with the copy while the source was down: their records are nowhere else."""
    copied(engines)
    copy = engines.copies[1]
    former = west.topics([copy.topic])[copy.topic].topic_id
    write(engines.target, copy, [77])
    deleted_and_created_anew(east, engines.topic, PARTITIONS)
    write(engines.source, TopicPartition(engines.topic, 0), range(7))
    engines.settings += MAKE_ANEW
    engines.running["second"] = engines.start()
    wait_until(
        lambda: engines.status()["reasons"],
        "the reason",
        timeout_seconds=120,
        until=lambda reasons: any(f"{copy}" in each and "somebody else" in each for each in reasons),
    )
    assert west.topics([copy.topic])[copy.topic].topic_id == former
    assert list(read(engines.target, copy, "read_uncommitted").values())[-1][-1] == b"value 77"


def test_a_copy_of_another_cluster_is_kept_and_told_of(engines: Engines, east: Cluster, west: Cluster) -> None:
    """The source was lost and built anew, or its address in the file is another one's."""
    copied(engines)
    copy = engines.copies[0].topic
    former = west.topics([copy])[copy].topic_id
    with closing(LogWriter(engines.target, alias="west")) as writer:
        writer.append(state_topic(engines.alias), 0, stamped([source_record("a lost cluster")], None, 1))
    deleted_and_created_anew(east, engines.topic, PARTITIONS)
    engines.settings += MAKE_ANEW
    engines.running["second"] = engines.start()
    wait_until(
        lambda: engines.status()["reasons"],
        "the reason",
        timeout_seconds=120,
        until=lambda reasons: any(
            copy in each and "was another one before (a lost cluster" in each for each in reasons
        ),
    )
    assert west.topics([copy])[copy].topic_id == former


def test_a_recreated_topic_with_more_partitions_is_made_anew_with_all_of_them(
    engines: Engines, east: Cluster, west: Cluster
) -> None:
    copied(engines)
    former = west.topics([engines.copies[0].topic])[engines.copies[0].topic].topic_id
    deleted_and_created_anew(east, engines.topic, PARTITIONS + 2)
    sources = [TopicPartition(engines.topic, number) for number in range(PARTITIONS + 2)]
    copies = [TopicPartition(engines.copies[0].topic, each.partition) for each in sources]
    for each in sources:
        write(engines.source, each, range(7))
    engines.settings += MAKE_ANEW
    engines.running["second"] = engines.start()
    await_anew(engines, west, copies, former)
    for source, each in zip(sources, copies, strict=True):
        await_records(engines, each, 7)
        assert read(engines.target, each, "read_uncommitted") == read(engines.source, source, "read_uncommitted")


def test_the_comparison_says_that_the_topic_was_created_anew_on_the_source(engines: Engines, east: Cluster) -> None:
    with_a_removed_head(engines)
    engines.send(PARTITIONS * 10)
    engines.running["first"] = engines.start()
    await_copies(engines)
    engines.running["first"].kill()
    deleted_and_created_anew(east, engines.topic, PARTITIONS)
    write(engines.source, TopicPartition(engines.topic, 0), range(7))
    found = verified(engines)
    own = [each for each in found["partitions"] if each["topic"] == engines.topic]
    assert found["verdict"] != "PASS"
    assert all(any("was deleted and created anew" in note for note in each["notes"]) for each in own), found
    reasons = {each["reason"] for each in found["left_out"] if each["topic"] == engines.topic}
    assert "it was created anew, and nothing of it is copied yet" in reasons, found
    assert "the flow began behind it" not in reasons


def copied(engines: Engines) -> None:
    """Have an engine copy the topic, and kill it."""
    engines.settings = SAME
    engines.send(PARTITIONS * 10)
    engines.running["first"] = engines.start()
    await_copies(engines)
    engines.running["first"].kill()


def anew_copies(engines: Engines) -> list[TopicPartition]:
    return engines.copies[:2]
