"""Engines of `mirror run` with the source's offsets, killed again and again, with groups; compared by `mirror verify`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import confluent_kafka

from mirror.client import GroupPosition
from mirror.kafka.channel import EARLIEST
from mirror.kafka.cluster import Cluster, NewTopic
from mirror.kafka.log_tail import LogTail
from mirror.model.offset_sync import OffsetSync
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.command import mirror
from tests.brokers.copying import can_tell, delete_records, ends_of, producer_to
from tests.brokers.engines import PARTITIONS, Engines
from tests.brokers.same_offsets_killed import read
from tests.interop.java_gateway import JavaRemoteClusterUtils

SAME = (
    "mirror.offsets = same\nsync.group.offsets.enabled = true\nemit.checkpoints.interval.seconds = 1\n"
    "sync.group.offsets.interval.seconds = 1\nrefresh.groups.interval.seconds = 1\n"
)
TRANSLATED = SAME.replace("mirror.offsets = same", "mirror.offsets = translated")
HEAD = 1_000


def with_a_removed_head(engines: Engines) -> Engines:
    """Have engines copy to the source's offsets a topic whose partitions begin behind a removed head."""
    engines.settings = SAME
    engines.send(PARTITIONS * HEAD)
    for number in range(PARTITIONS):
        delete_records(engines.source, TopicPartition(engines.topic, number), HEAD)
    return engines


def in_transactions(engines: Engines, count: int, *, aborts: bool) -> None:
    """Write transactions into all partitions: each leaves a marker, and some no record for whoever reads committed."""
    producer = producer_to(engines.source, transactional_id=f"{engines.topic}-writer")
    producer.init_transactions()
    for number in range(count):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(engines.topic, b"%d" % number, partition=partition)
        producer.flush()
        if aborts and number % 2:
            producer.abort_transaction()
        else:
            producer.commit_transaction()


def caught_up(engines: Engines) -> bool:
    sources = [TopicPartition(engines.topic, number) for number in range(PARTITIONS)]
    try:
        return list(ends_of(engines.target, engines.copies).values()) == list(ends_of(engines.source, sources).values())
    except Exception:  # noqa: BLE001  # the topic is not there yet
        return False


def await_copies(engines: Engines) -> None:
    wait_until(
        lambda: caught_up(engines),
        "the copies",
        timeout_seconds=240,
    )


def await_records(engines: Engines, copy: TopicPartition, count: int) -> None:
    # Not where the log ends: a fence takes offsets there.
    wait_until(
        lambda: len(read(engines.target, copy, "read_uncommitted")),
        f"{count} records in {copy}",
        timeout_seconds=240,
        until=lambda found: found >= count,
    )


def copied_and_killed(engines: Engines, target: Cluster) -> str:
    """Have ten records a partition copied, and the engine killed; return the id of the copy."""
    engines.send(PARTITIONS * 10)
    engines.running["first"] = engines.start()
    await_copies(engines)
    engines.running["first"].kill()
    copy = engines.copies[0].topic
    return target.topics([copy])[copy].topic_id


def deleted_and_created_anew(
    cluster: Cluster, topic: str, partitions: int, configs: Mapping[str, str] | None = None
) -> None:
    cluster.delete_topics([topic])
    wait_until(lambda: topic not in cluster.topics([topic]), f"{topic} to be gone", timeout_seconds=120)
    wait_until(
        lambda: cluster.create_topics([NewTopic(topic, partitions, 1, configs or {})]),
        f"{topic} to be there again",
        timeout_seconds=120,
        until=lambda results: results[0].problem is None and not results[0].existed,
    )


def await_anew(engines: Engines, cluster: Cluster, copies: list[TopicPartition], former_id: str) -> None:
    """Wait until the copy on a cluster is another topic than the one with this id, and has these partitions."""
    name = copies[0].topic
    wait_until(
        lambda: (
            (found := cluster.topics([name])) and found[name].topic_id != former_id and can_tell(engines.target, copies)
        ),
        "the copy made anew",
        timeout_seconds=240,
    )


def assert_same(engines: Engines, isolation: str = "read_uncommitted") -> None:
    """Each record is at its offset, once, whatever a reader of the copy asks for."""
    for number, copy in enumerate(engines.copies):
        source = TopicPartition(engines.topic, number)
        originals = read(engines.source, source, isolation)
        assert originals
        for each in ("read_uncommitted", "read_committed"):
            assert read(engines.target, copy, each) == originals
        assert ends_of(engines.target, [copy], EARLIEST)[copy] == HEAD


def verified(engines: Engines) -> dict[str, Any]:
    done = mirror("verify", str(engines.file), "--flow", f"{engines.alias}->west", "--json")
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def gaps_of(engines: Engines) -> set[tuple[int, int, int, str]]:
    """Partition, first and last offset's successor, and kind of the gaps of the topic."""
    found = json.loads(mirror("gaps", str(engines.file), "--json").stdout)
    return {
        (each["partition"], each["from"], each["to"], each["kind"]) for each in found if each["topic"] == engines.topic
    }


def positions(engines: Engines) -> list[dict[str, Any]]:
    done = mirror("offsets", str(engines.file), "--flow", f"{engines.alias}->west", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return [each for each in found if each["topic"] == engines.copies[0].topic]


def committed(client: dict[str, str], group: str, partition: TopicPartition) -> tuple[int, int | None]:
    """A group's position, and the leader epoch with it."""
    consumer = confluent_kafka.Consumer({**client, "group.id": group})
    try:
        (found,) = consumer.committed([confluent_kafka.TopicPartition(*partition)], timeout=60)
    finally:
        consumer.close()
    return found.offset, found.leader_epoch


def assert_killed_engines_copy_each_record_once(same: Engines, *, kills: int) -> None:
    """Kill engines under load, then see records, positions of groups, what commands say, and the status."""
    same.running["first"] = same.start()
    in_transactions(same, 40, aborts=True)
    for _ in range(kills):
        # Counted before anything is written: on a slow machine all may be copied by the time the last transaction is.
        before = same.copied()
        same.send(3_000)
        in_transactions(same, 20, aborts=True)
        wait_until(lambda before=before: same.copied() > before, "copies", timeout_seconds=240)
        same.running["first"].kill()
        same.running["first"] = same.start()
    await_copies(same)
    assert_same(same)
    first = TopicPartition(same.topic, 0)
    (end,) = ends_of(same.source, [first]).values()
    # On a record, on a marker perhaps, at the end.
    wanted = {"reads": HEAD + 41, "next": HEAD + 42, "done": end}
    for group, position in wanted.items():
        same.commit(group, position)
    for group, position in wanted.items():
        wait_until(
            lambda name=f"{same.topic}-{group}": committed(same.target, name, same.copies[0]),
            f"the position of {group}",
            timeout_seconds=240,
            until=lambda found, position=position: found[0] == position,
        )
        assert committed(same.target, f"{same.topic}-{group}", same.copies[0])[1] in (None, -1)
    with JavaRemoteClusterUtils() as java:
        for group, position in wanted.items():
            theirs = java.translate_offsets(same.target, same.alias, f"{same.topic}-{group}")
            assert theirs == {same.copies[0]: GroupPosition(position)}
    tail = LogTail(same.source, "mm2-offset-syncs.west.internal")
    syncs = [sync for each in tail.poll() if (sync := OffsetSync.parse(each.key, each.value)) is not None]
    tail.close()
    own = [each for each in syncs if each.topic_partition.topic == same.topic]
    assert own
    assert [each for each in own if each.upstream != each.downstream] == []
    told = {each["group"].rpartition("-")[2]: each for each in positions(same)}
    assert {name: (each["downstream"], each["note"]) for name, each in told.items()} == {
        name: (position, "same") for name, position in wanted.items()
    }
    found = verified(same)
    assert found["verdict"] == "PASS", found
    assert [each["misplaced"] for each in found["partitions"]] == [0] * PARTITIONS
    wait_until(
        lambda: (same.status()["state"], same.status()["reasons"]),
        "the flow to be in order",
        timeout_seconds=120,
        until=lambda seen: seen == ("RUNNING", []),
    )
    assert same.running["first"].terminate(60)
