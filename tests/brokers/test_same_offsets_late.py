"""What was sent to a copy with the source's offsets and arrives late, where that is not what its successor sends."""

from __future__ import annotations

import pytest

from mirror.kafka import codes
from mirror.kafka.cluster import Cluster
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.copying import ends_of, write
from tests.brokers.engines import PARTITIONS, Engines
from tests.brokers.same_offsets_engines import (
    SAME,
    TRANSLATED,
    await_anew,
    await_copies,
    await_records,
    deleted_and_created_anew,
)
from tests.brokers.same_offsets_killed import read
from tests.brokers.same_offsets_late import late_append

pytestmark = pytest.mark.long


def test_what_arrives_late_in_a_copy_that_is_translated_by_now_is_refused(engines: Engines, west: Cluster) -> None:
    """It was there twice: the producer of copies with the source's offsets has no transactional id to fence it by."""
    source, copy = TopicPartition(engines.topic, 0), engines.copies[0]
    engines.settings = SAME
    engines.send(PARTITIONS * 10)
    engines.running["first"] = engines.start()
    await_copies(engines)
    engines.running["first"].kill()
    late = late_append(engines.target, Flow(engines.alias, "west"), west, copy, b"10")
    engines.settings = TRANSLATED
    write(engines.source, source, [10, 11])
    engines.running["second"] = engines.start()
    await_records(engines, copy, 12)
    assert late() == codes.INVALID_PRODUCER_EPOCH
    write(engines.source, source, [12])
    await_records(engines, copy, 13)
    assert len(read(engines.target, copy, "read_uncommitted")) == 13


def test_what_was_sent_to_a_former_copy_is_not_taken_for_the_record_of_the_copy_that_was_made_anew(
    engines: Engines, east: Cluster, west: Cluster
) -> None:
    """Both have as many records, so its sequence is the next; a produce request names a topic and not its id."""
    source, copy = TopicPartition(engines.topic, 0), engines.copies[0]
    engines.settings = f"{SAME}mirror.offsets.recreated = make-anew\n"
    engines.send(PARTITIONS * 10)
    engines.running["first"] = engines.start()
    await_copies(engines)
    late = late_append(engines.target, Flow(engines.alias, "west"), west, copy, b"of the former topic")
    former_id = west.topics([copy.topic])[copy.topic].topic_id
    deleted_and_created_anew(east, engines.topic, PARTITIONS)
    write(engines.source, source, range(100, 110))
    await_anew(engines, west, [copy], former_id)
    await_records(engines, copy, 10)
    late()
    for number in (110, 111):
        write(engines.source, source, [number])
        await_records(engines, copy, number - 99)
    assert read(engines.target, copy, "read_uncommitted") == read(engines.source, source, "read_uncommitted")


def test_a_copy_that_was_translated_in_between_stops_by_name_and_gets_nothing_out_of_its_place(
    engines: Engines,
) -> None:
    """The fence of a translated copy takes an offset, also where there was nothing to copy."""
    source, copy = TopicPartition(engines.topic, 0), engines.copies[0]
    engines.settings = SAME
    engines.send(PARTITIONS * 10)
    engines.running["first"] = engines.start()
    await_copies(engines)
    engines.running["first"].kill()
    engines.settings = TRANSLATED
    engines.running["second"] = engines.start()
    wait_until(
        lambda: ends_of(engines.target, [copy])[copy], "the fence", timeout_seconds=120, until=lambda end: end > 10
    )
    engines.running["second"].kill()
    engines.settings = SAME
    write(engines.source, source, [10, 11])
    engines.running["third"] = engines.start()
    wait_until(
        lambda: engines.status()["reasons"],
        "the reason",
        timeout_seconds=120,
        until=lambda reasons: any(f"{copy}" in each and "delete the topic" in each for each in reasons),
    )
    assert len(read(engines.target, copy, "read_uncommitted")) == 10
