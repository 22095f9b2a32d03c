"""A partition with everything that takes an offset, copied by programs that are killed again and again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

import confluent_kafka

from mirror.kafka.channel import EARLIEST
from mirror.kafka.cluster import Cluster, NewTopic
from mirror.model.partition import TopicPartition
from mirror.same_offsets import fillers
from tests.brokers.copying import delete_records, ends_of, producer_to, write

HEAD = 100
# Behind which of its requests a copier is killed: it begins anew each time, looks first, and gets a little further.
KILLED_BEHIND = (14, 13, 15, 17, 14, 18, 19, 15, 20, 16, 23)


def assert_same_offsets_whatever_is_killed(
    source: Cluster, target: Cluster, name: str, *, policy: str, read_committed: bool, writes_many: bool
) -> None:
    """Copy a history with killed copiers, then with three at once, then to the end; compare what readers see."""
    original, copy = TopicPartition(name, 0), TopicPartition(f"east.{name}", 0)
    for cluster, topic, cleanup in ((source, name, "delete"), (target, copy.topic, policy)):
        (result,) = cluster.create_topics([NewTopic(topic, 1, 1, {"retention.ms": "-1", "cleanup.policy": cleanup})])
        assert result.problem is None
    on_source, on_target = ({"bootstrap.servers": each.bootstrap_servers} for each in (source, target))
    fill(on_source, original)
    told = {
        "source": original,
        "target": copy,
        "flow": name,
        "east": on_source,
        "west": on_target,
        "begins_at": HEAD,
        "is_compacted": policy == "compact",
        "read_committed": read_committed,
        "writes_many": writes_many,
    }
    killed = [begun(told, number).wait(300) for number in KILLED_BEHIND]
    assert killed.count(-signal.SIGKILL) > len(KILLED_BEHIND) // 2
    # Three take the flow from one another, with the batches and markers of all on their way.
    at_once = [begun(told) for _ in range(3)]
    assert all(each.wait(300) is not None for each in at_once)
    assert begun(told).wait(300) == 0

    originals = read(on_source, original, "read_committed" if read_committed else "read_uncommitted")
    assert len(originals) > 25
    assert min(originals) == HEAD
    assert read(on_target, copy, "read_uncommitted") == originals
    assert read(on_target, copy, "read_committed") == originals
    assert ends_of(on_target, [copy], EARLIEST) == {copy: 0 if policy == "compact" else HEAD}


def fill(client: dict[str, str], source: TopicPartition) -> None:
    """Records whose head is removed, transactions committed and aborted, a long hole among them."""
    write(client, source, range(HEAD + 20))
    delete_records(client, source, HEAD)
    producer = producer_to(client, transactional_id=source.topic)
    producer.init_transactions()
    for number in range(6):
        producer.begin_transaction()
        for each in range(number if number != 4 else 80):
            producer.produce(source.topic, b"%d %d" % (number, each), b"k%d" % each, source.partition)
        # The client ends an abort with INVALID_TXN_STATE, now and then, while a partition is still being added.
        producer.flush()
        if number % 2:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    write(client, source, range(200, 210))


def begun(told: dict[str, Any], killed_behind: int = 0) -> subprocess.Popen[bytes]:
    """Begin to copy in a process of its own, which kills itself behind a request; 0: it does not."""
    said = json.dumps({**told, "killed_behind": killed_behind})
    return subprocess.Popen([sys.executable, "-m", "tests.brokers.same_offsets_program", said])


def read(client: dict[str, str], partition: TopicPartition, isolation: str) -> dict[int, tuple[Any, ...]]:
    """What a consumer reads: by offset timestamp, key and value; tombstones of the reserved key left out."""
    reader = confluent_kafka.Consumer(
        {
            **client,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    beginning = confluent_kafka.TopicPartition(*partition, confluent_kafka.OFFSET_BEGINNING)
    reader.assign([beginning])
    found = {}
    try:
        while True:
            message = reader.poll(60)
            assert message is not None
            if (problem := message.error()) is not None:
                assert problem.code() == confluent_kafka.KafkaError._PARTITION_EOF
                return found
            if message.key() != fillers.RESERVED_KEY:
                found[message.offset()] = (message.timestamp(), message.key(), message.value())
    finally:
        reader.close()
