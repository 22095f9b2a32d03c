"""The floor of a copy: a bare producer that replays batches from memory and does nothing else.

Run as ``python -m mirror.bench.replay SOURCE TARGET TOPIC REMOTE PARTITIONS`` it reads all batches of TOPIC into
memory, gives each the header it is to have on the target, and only then sends them. It ends when it is told to, so that
what it used can be read.
"""

from __future__ import annotations

import gc
import math
import selectors
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from mirror.kafka import batch, codes, wire
from mirror.kafka.batch import Header
from mirror.kafka.channel import EARLIEST, LATEST, Channel
from mirror.kafka.connection import Connection
from mirror.kafka.log import LogReader
from mirror.kafka.versions import PRODUCE
from mirror.lab.errors import LabError
from mirror.model.partition import TopicPartition

REQUESTS_IN_FLIGHT = 5
REQUEST_BYTES = 1 << 20
_ANSWER_SECONDS = 60.0

_Contents = list[tuple[TopicPartition, memoryview]]


class ReplayFailed(LabError):
    """The target did not take what was replayed."""


@dataclass(frozen=True, slots=True)
class RawBatches:
    """Batches as the source holds them, by partition number."""

    of_partition: Sequence[Sequence[tuple[memoryview, Header]]]

    @property
    def records_per_batch(self) -> float:
        """How many records they hold on average."""
        counts = [header.record_count for batches in self.of_partition for _, header in batches]
        return sum(counts) / len(counts)


def read_raw(
    servers: str, topic: str, partitions: int, *, most_bytes: float = math.inf, most_batches: float = math.inf
) -> RawBatches:
    """Return the first batches of a topic, alike from each partition, not many more than ``most_bytes`` or so many.

    Raises
    ------
    KafkaProblem
        if they cannot be read.
    """
    with closing(Channel("source", {"bootstrap.servers": servers})) as channel:
        places = [TopicPartition(topic, number) for number in range(partitions)]
        starts, ends = channel.offsets(places, EARLIEST), channel.offsets(places, LATEST)
        share = most_bytes / partitions, most_batches / partitions
        return RawBatches([_read(channel, place, starts[place], ends[place], *share) for place in places])


def _read(
    channel: Channel, place: TopicPartition, start: int, end: int, most_bytes: float, most_batches: float
) -> list[tuple[memoryview, Header]]:
    reader = LogReader(channel, place, start)
    found, size = [], 0
    for content, header in reader.read_to(end):
        found.append((content, header))
        size += len(content)
        if size >= most_bytes or len(found) >= most_batches:
            break
    return found


def replay(servers: str, topic: str, raw: RawBatches) -> int:
    """Send the batches to the topic of a single-broker cluster, as one idempotent producer; return the records.

    All headers are rewritten before the first request. Each request holds a batch of each of several partitions, about
    a megabyte in all, and five are in flight. The batches are not fit to be replayed once more.

    Raises
    ------
    ReplayFailed
        naming the partition and the broker's answer.
    KafkaProblem
        if the cluster cannot be reached.
    """
    with closing(Channel("target", {"bootstrap.servers": servers})) as channel:
        producer = channel.new_producer()
        queues: list[list[tuple[TopicPartition, memoryview]]] = []
        for number, batches in enumerate(raw.of_partition):
            sequence, queue = 0, []
            for content, header in batches:
                passed_on = batch.pass_on(content, header, producer, sequence)
                queue.append((TopicPartition(topic, number), passed_on))
                sequence = batch.next_sequence(sequence, header.record_count)
            queues.append(queue)
        requests = list(compose(queues))
        with closing(channel.connect(channel.leader(TopicPartition(topic, 0)), (PRODUCE,))) as connection:
            _push(connection, requests)
    return sum(header.record_count for batches in raw.of_partition for _, header in batches)


def compose(queues: Sequence[Sequence[tuple[TopicPartition, memoryview]]]) -> Iterator[_Contents]:
    """Yield the contents of each request: the queues in turn, in order, each at most once a request."""
    longest = max(map(len, queues), default=0)
    contents: _Contents = []
    size = 0
    for turn in range(longest):
        for queue in queues:
            if turn < len(queue):
                contents.append(queue[turn])
                size += len(queue[turn][1])
                if size >= REQUEST_BYTES:
                    yield contents
                    contents, size = [], 0
        if contents:
            yield contents
            contents, size = [], 0


def _push(connection: Connection, requests: Sequence[_Contents]) -> None:
    selector = selectors.DefaultSelector()
    selector.register(connection, selectors.EVENT_READ)
    unanswered, number = 0, 0
    try:
        while unanswered or number < len(requests):
            while number < len(requests) and unanswered < REQUESTS_IN_FLIGHT and not connection.has_unsent:
                connection.send(wire.produce_request(connection.next_correlation(), requests[number]))
                number += 1
                unanswered += 1
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.has_unsent else 0)
            if selector.get_key(connection).events != wanted:
                selector.modify(connection, wanted)
            ready = selector.select(_ANSWER_SECONDS)
            if not ready:
                raise ReplayFailed(f"{connection.name}: no answer for {_ANSWER_SECONDS:.0f} s")
            for _, events in ready:
                if events & selectors.EVENT_WRITE:
                    connection.flush()
                if events & selectors.EVENT_READ and (frame := connection.receive()) is not None:
                    _check(frame)
                    unanswered -= 1
    finally:
        selector.close()


def _check(frame: memoryview) -> None:
    for answer in wire.parse_produce(frame):
        if answer.error:
            raise ReplayFailed(f"{answer.partition}: {codes.name(answer.error)} {answer.message}".rstrip())


def main() -> None:
    """Read, send, and wait for the end."""
    gc.disable()  # a collection would look through hundreds of thousands of views in the middle of it
    source, target, topic, remote, partitions = sys.argv[1:]
    raw = read_raw(source, topic, int(partitions))
    print(f"sent {replay(target, remote, raw):,} records", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
