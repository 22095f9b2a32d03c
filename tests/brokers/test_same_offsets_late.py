"""What was sent to a copy with the source's offsets and arrives late, where that is not what its successor sends."""

from __future__ import annotations

import pytest

from mirror.copier.same_offsets import sequence_of
from mirror.kafka import batch, compression, partition_state
from mirror.kafka.appending import Appender
from mirror.kafka.batch import Record
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.same_offsets.chain import producer_of
from mirror.waiting import wait_until
from tests.brokers.copying import write
from tests.brokers.engines import PARTITIONS, Engines
from tests.brokers.same_offsets_engines import SAME, await_copies, await_records

pytestmark = pytest.mark.long


def test_what_arrives_late_in_a_copy_that_is_translated_by_now_is_there_twice_and_told(engines: Engines) -> None:
    """Nobody can fence the producer of copies with the source's offsets: it has no transactional id."""
    source, copy = TopicPartition(engines.topic, 0), engines.copies[0]
    engines.settings = SAME
    engines.send(PARTITIONS * 10)
    engines.running["first"] = engines.start()
    await_copies(engines)
    engines.running["first"].kill()
    engines.settings = SAME.replace("mirror.offsets = same", "mirror.offsets = translated")
    write(engines.source, source, [10, 11])
    engines.running["second"] = engines.start()
    await_records(engines, copy, 12)
    late = [Record(-1, 1, b"key 3", b"value 10", (), -1)]
    assert send_late(engines, copy, late) == 0, "nothing refuses it"
    write(engines.source, source, [12])
    wait_until(
        lambda: engines.status()["reasons"],
        f"the reason; the engine said {engines.running['second'].log_tail(8)}",
        timeout_seconds=120,
        until=lambda reasons: any(f"{copy}" in each and "they are there twice" in each for each in reasons),
    )


def send_late(engines: Engines, copy: TopicPartition, records: list[Record]) -> int:
    """Append as the engine would have that was killed; return the broker's code."""
    producer = producer_of(Flow(engines.alias, "west"))
    with Appender("west", engines.target) as appender:
        known, _ = partition_state.active_producers(appender.channel, [copy])
        sequence = sequence_of(known[copy], producer)
        return appender.append(copy, batch.encode(records, compression.NONE, producer, sequence)).code
