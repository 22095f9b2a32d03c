"""What an engine that was killed, or not told yet that another one leads, still sends."""

from __future__ import annotations

from collections.abc import Sequence

from mirror.kafka import batch, wire
from mirror.kafka.batch import Producer, Record
from mirror.kafka.channel import Channel
from mirror.kafka.versions import PRODUCE
from mirror.model.partition import TopicPartition
from tests.brokers.copying import Copying, write
from tests.worker_process import forget_all

INVALID_PRODUCER_EPOCH = 47


def send_late(
    copying: Copying, target: TopicPartition, producer: Producer, sequence: int, records: Sequence[Record]
) -> int:
    """Send a batch as an engine does that was not told yet that another one leads; return the broker's error code."""
    channel = Channel("west", copying.flow.target_client)
    try:
        connection = channel.connect(channel.leader(target), (PRODUCE,))
        content = batch.encode(records, 0, producer, sequence)
        frame = connection.ask(wire.produce_request(connection.next_correlation(), [(target, content)]))
        (answer,) = wire.parse_produce(frame)
        connection.close()
        return answer.error
    finally:
        channel.close()


LATE = [Record(place, 0, b"late", b"value %d" % place, (), -1) for place in range(5)]


def kill_after_ten(copying: Copying, source: TopicPartition) -> Producer:
    """Copy ten records and begin as the successor of an engine that was killed; return as whom that wrote."""
    write(copying.flow.source_client, source, range(10))
    copying.until_caught_up()
    killed = copying.flow.producer
    assert killed is not None
    forget_all()
    copying.from_the_target()
    return killed
