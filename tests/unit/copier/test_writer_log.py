"""Who follows a state topic for the producer ids there, where that topic loses some of what was read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mirror.kafka import batch, codes
from mirror.kafka.batch import Record
from mirror.kafka.channel import Channel
from mirror.kafka.problems import BrokerRefused
from mirror.kafka.writer_log import WriterLog
from mirror.model.partition import TopicPartition
from mirror.model.state_values import writer_record
from tests.unit.copier.copying_in_memory import Copying
from tests.unit.copier.logs_in_memory import Partition

BACK = TopicPartition("mm2-state.west.internal", 0)


@pytest.fixture
def topic(copying: Copying) -> Partition:
    """The state topic of the flow back, on the source, with a writer."""
    copying.east.create(BACK.topic)
    register(copying.east[BACK], 6)
    register(copying.east[BACK], 6)
    return copying.east[BACK]


@pytest.fixture
def channel(topic: Partition) -> Iterator[Channel]:
    found = Channel("east", {"bootstrap.servers": "east:9092"})
    yield found
    found.close()


def register(topic: Partition, producer_id: int) -> None:
    key, value = writer_record(producer_id, 0)
    topic.put(bytes(batch.encode([Record(0, 5, key, value, (), -1)], 0, batch.PLAIN, -1)))


def test_a_log_that_was_cut_and_has_grown_since_is_read_from_its_start(topic: Partition, channel: Channel) -> None:
    """Else the batches of a writer that is recorded in it would be taken for an application's, and copied back."""
    log = WriterLog(BACK.topic)
    log.catch_up(channel)
    topic.truncate(1)
    for producer_id in (7, 8, 8):
        register(topic, producer_id)
    log.catch_up(channel)
    assert log.writers == {6, 7, 8}


def test_what_another_process_has_read_of_it_says_under_which_leader_too(topic: Partition, channel: Channel) -> None:
    """A task goes on from what the driver knows."""
    driver = WriterLog(BACK.topic)
    driver.catch_up(channel)
    topic.truncate(0)
    for producer_id in (7, 8, 8):
        register(topic, producer_id)
    task = WriterLog(BACK.topic, driver.known)
    task.catch_up(channel)
    assert task.writers == {6, 7, 8}


def test_a_leader_that_does_not_know_under_whom_it_was_read_is_read_from_the_start(
    copying: Copying, topic: Partition, channel: Channel
) -> None:
    log = WriterLog(BACK.topic)
    log.catch_up(channel)
    register(topic, 7)
    copying.east.refuses_fetches = codes.OFFSET_OUT_OF_RANGE
    topic.reads.clear()
    log.catch_up(channel)
    assert (log.writers, topic.reads) == ({6, 7}, [0])


def test_a_log_that_cannot_be_read_is_no_other_one(topic: Partition, channel: Channel) -> None:
    log = WriterLog(BACK.topic)
    log.catch_up(channel)
    register(topic, 7)
    topic.refuse_fetch(29)
    with pytest.raises(BrokerRefused, match="TopicAuthorizationFailed"):
        log.catch_up(channel)
    assert log.writers == {6}
