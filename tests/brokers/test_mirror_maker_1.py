"""`mirror legacy` on two clusters: partitions as Java's producer chooses them, the group, what is not sent, the end."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import confluent_kafka.admin
import pytest

from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupPosition, NewTopic
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.mirror_maker_1 import OldMirror
from tests.positions import write_positions

# What org.apache.kafka.common.utils.Utils.murmur2 makes of these keys, by Kafka's own test of it.
MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
WIDE = 50


@pytest.fixture
def mirror(east: Cluster, west: Cluster, unique: Callable[[str], str], tmp_path: Path) -> Iterator[OldMirror]:
    """A mirror with a group of its own; what it has started is killed in the end."""
    made = OldMirror(east, west, unique("mirrors"), tmp_path)
    yield made
    made.kill_all()


def create(cluster: Cluster, topic: str, partitions: int, **configs: str) -> None:
    """Create a topic that keeps records of any age."""
    (made,) = cluster.create_topics([NewTopic(topic, partitions, 1, {"retention.ms": "-1", **configs})])
    assert made.problem is None


@pytest.mark.long
def test_a_key_goes_where_javas_producer_puts_it_and_the_end_is_flushed_and_committed(
    mirror: OldMirror, unique: Callable[[str], str]
) -> None:
    """Key, value, headers and time as they were; `a,b.*` is either; SIGTERM commits all that was read, and exits 0."""
    orders, other = unique("orders"), unique("other")
    for topic in (orders, other):
        create(mirror.east, topic, 3)
        create(mirror.west, topic, WIDE)
    client = confluent_kafka.Producer({"bootstrap.servers": mirror.east.bootstrap_servers})
    headers = [("a", b"1"), ("b", None), ("a", b"")]
    for number, key in enumerate(MURMUR2):
        client.produce(orders, b"%d" % number, key, partition=number % 3, timestamp=1000 + number, headers=headers)
    client.produce(other, None, b"abc", partition=0, timestamp=5)
    client.produce(other, b"", b"", partition=1, timestamp=6)
    client.produce(other, b"no key", None, partition=2, timestamp=7)
    assert client.flush(60) == 0
    before = set(mirror.west.topics(include_internal=True))
    process = mirror.start(f" {orders}, {other[:-2]}.*", "--num.streams", "2", "--new.consumer", "--queue.size=7")
    mirror.await_copies(orders, WIDE, len(MURMUR2))
    mirror.await_copies(other, WIDE, 3)
    assert process.terminate(60), process.log_tail()
    assert process.return_code() == 0, process.log_tail()
    assert set(mirror.west.topics(include_internal=True)) == before, "it makes no topics"
    copies = mirror.copies(orders, WIDE)
    for number, (key, murmur2) in enumerate(MURMUR2.items()):
        (record,) = copies[(murmur2 & 0x7FFFFFFF) % WIDE]
        assert (record.key, record.value, record.timestamp) == (key, b"%d" % number, 1000 + number)
        assert record.headers == tuple(headers)
    found = {(each.key, each.value, each.timestamp) for records in mirror.copies(other, WIDE) for each in records}
    assert found == {(b"abc", None, 5), (b"", b"", 6), (None, b"no key", 7)}
    assert mirror.positions() == {
        **{TopicPartition(orders, number): 2 for number in range(3)},
        **{TopicPartition(other, number): 1 for number in range(3)},
    }
    assert "9 records read, 9 records acknowledged by the target" in process.log_tail()
    assert "MirrorMaker-numDroppedMessages: 0" in process.log_tail()
    assert "--queue.size: " in process.log_path.read_text()


@pytest.mark.long
def test_processes_share_the_group_and_a_killed_one_loses_nothing(
    mirror: OldMirror, unique: Callable[[str], str]
) -> None:
    """Two processes; kill -9 of one between commits: the other reads again what was not committed, and goes on."""
    topic, partitions = unique("shared"), 4
    create(mirror.east, topic, partitions)
    create(mirror.west, topic, partitions)
    often = ("--offset.commit.interval.ms", "500")
    first, second = mirror.start(topic, *often), mirror.start(topic)
    for process in (first, second):
        mirror.await_said(process, "gets 2 partitions")
    mirror.send(topic, range(1000), partitions)
    mirror.await_copies(topic, partitions, 1000)
    second.kill()
    mirror.send(topic, range(1000, 2000), partitions)
    mirror.await_said(first, "gets 4 partitions")
    wait_until(
        lambda: {each.value for records in mirror.copies(topic, partitions) for each in records},
        "every record",
        timeout_seconds=60,
        until=lambda found: found == {b"%d" % number for number in range(2000)},
    )
    assert first.terminate(60)
    assert first.return_code() == 0, first.log_tail()
    assert mirror.positions() == {TopicPartition(topic, number): 500 for number in range(partitions)}
    for records in mirror.copies(topic, partitions):
        # At least once, in order: what is there again is what the killed one had not committed.
        once = list(dict.fromkeys(int(each.value or b"") for each in records))
        for number in range(partitions):
            of_one = [each for each in once if each % partitions == number]
            assert of_one == sorted(of_one)


@pytest.mark.long
def test_a_record_that_the_target_refuses_ends_everything_or_is_skipped_and_told(
    mirror: OldMirror, unique: Callable[[str], str]
) -> None:
    """MM1-07, MM1-27, MM1-32: nothing is committed with abort; without, only what is too large itself is skipped."""
    topic = unique("narrow")
    create(mirror.east, topic, 1)
    create(mirror.west, topic, 1, **{"max.message.bytes": "2000"})
    client = confluent_kafka.Producer({"bootstrap.servers": mirror.east.bootstrap_servers})
    values = [b"x" * (5000 if number in (3, 4, 8) else 50) + b"%d" % number for number in range(10)]
    for value in values:
        client.produce(topic, value, b"k")
    assert client.flush(60) == 0
    aborted = mirror.start(topic)
    # Its keeper writes that down behind its end.
    code = wait_until(aborted.return_code, "the end", timeout_seconds=60, until=lambda found: found is not None)
    assert code == 255, aborted.log_tail()
    assert mirror.positions().get(TopicPartition(topic, 0), 0) == 0
    assert f"{topic}-0 at offset " in aborted.log_tail()
    assert "MirrorMaker-numDroppedMessages: 1" in aborted.log_tail()
    before = len(mirror.copies(topic, 1)[0])

    mirror.producer = "linger.ms=200\n"
    skipping = mirror.start(topic, "--abort.on.send.failure", "false", "--offset.commit.interval.ms", "100")
    mirror.await_said(skipping, "MirrorMaker-numDroppedMessages: 3")
    assert skipping.terminate(60)
    assert skipping.return_code() == 0, skipping.log_tail()
    # In one line or in several, as they came.
    told = skipping.log_tail().replace("3, 4", "3 to 4")
    assert f"{topic}-0: skipped, not on the target: offset 3 to 4, 8" in told
    assert "10 records read, 7 records acknowledged by the target" in skipping.log_tail()
    copied = [each.value for each in mirror.copies(topic, 1)[0]][before:]
    assert sorted(copied) == sorted(value for value in values if len(value) < 100)
    assert mirror.positions() == {TopicPartition(topic, 0): 10}


@pytest.mark.long
def test_a_position_that_is_gone_a_handler_and_a_listener(mirror: OldMirror, unique: Callable[[str], str]) -> None:
    """MM1-08, MM1-09; what the source has removed before it was copied is counted and located, with `latest` too."""
    topic = unique("removed")
    create(mirror.east, topic, 1)
    create(mirror.west, topic, 1)
    mirror.send(topic, range(10), 1)
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": mirror.east.bootstrap_servers})
    for removed in admin.delete_records([confluent_kafka.TopicPartition(topic, 0, 4)]).values():
        removed.result(20)
    (written,) = write_positions(mirror.east, mirror.group, {TopicPartition(topic, 0): GroupPosition(1)})
    assert written.problem is None
    (mirror.folder / "old_code.py").write_text(
        "from pathlib import Path\n"
        "from mirror.legacy.handler import TargetRecord\n"
        "def handle(record, tag):\n"
        "    made = TargetRecord(record.topic, record.key, tag.encode() + record.value, partition=0)\n"
        "    return [made, made] if record.value == b'5' else [] if record.value == b'6' else [made]\n"
        "class Listener:\n"
        "    def __init__(self, path): self.path = Path(path)\n"
        "    def note(self, text):\n"
        "        with self.path.open('a') as file: file.write(text + '\\n')\n"
        "    def on_partitions_assigned(self, partitions): self.note(f'+{len(partitions)}')\n"
        "    def on_partitions_revoked(self, partitions): self.note(f'-{len(partitions)}')\n"
    )
    noted = mirror.folder / "noted"
    process = mirror.start(
        topic,
        *("--message.handler", "python:old_code:handle", "--message.handler.args", "new-"),
        *("--consumer.rebalance.listener", "python:old_code:Listener", "--rebalance.listener.args", str(noted)),
        env={"PYTHONPATH": os.pathsep.join([str(mirror.folder), os.environ.get("PYTHONPATH", "")])},
    )
    mirror.await_copies(topic, 1, 6)
    assert process.terminate(60)
    assert process.return_code() == 0, process.log_tail()
    assert [each.value for each in mirror.copies(topic, 1)[0]] == [b"new-%d" % number for number in (4, 5, 5, 7, 8, 9)]
    said = process.log_path.read_text()
    assert "the position 1 is not in the log, 4 to 10: begins at 4 (auto.offset.reset=earliest); 3 offsets" in said
    assert "1 record left out by the message handler" in said
    assert noted.read_text().splitlines() == ["+1", "-1"]


@pytest.mark.interop
def test_javas_and_ours_take_over_from_one_another(mirror: OldMirror, unique: Callable[[str], str]) -> None:
    """MirrorMaker 1 of Kafka 3.9, ours after its SIGTERM, both as members of the group, and ours killed: nothing is lost.

    What is there twice is what the killed one had copied and not committed: nothing after SIGTERM.
    """
    topic, partitions = unique("handed"), 3
    create(mirror.east, topic, partitions)
    create(mirror.west, topic, 7)

    def copied() -> list[int]:
        return sorted(int(each.value or b"") for records in mirror.copies(topic, 7) for each in records)

    mirror.send(topic, range(300), partitions)
    java = mirror.start_java(topic, "--num.streams", "2", "--offset.commit.interval.ms", "1000")
    mirror.await_copies(topic, 7, 300)
    assert java.terminate(60)
    assert copied() == list(range(300))

    mirror.send(topic, range(300, 600), partitions)
    ours = mirror.start(topic, "--num.streams", "2")
    mirror.await_copies(topic, 7, 600)
    assert copied() == list(range(600)), "after SIGTERM nothing is read again"

    again = mirror.start_java(topic)
    for number in range(2):
        mirror.await_said(ours, f"stream {number}: gives ")
    mirror.send(topic, range(600, 1200), partitions)
    ours.kill()
    wait_until(lambda: set(copied()), "the rest", timeout_seconds=120, until=lambda found: found == set(range(1200)))
    assert again.terminate(60)
    assert all(number >= 600 for number, times in Counter(copied()).items() if times > 1)
    keys = [{each.key for each in records} for records in mirror.copies(topic, 7)]
    assert sum(map(len, keys)) == 300, "each key goes to one partition, whoever copies it"
