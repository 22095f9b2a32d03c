"""What a Java MirrorMaker leaves on a target, written by a plain producer in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import confluent_kafka

from mirror.kafka.batch import Record
from mirror.model.mm2_trace import Mm2Trace, Pair
from mirror.model.partition import TopicPartition
from tests.brokers.copying import Copying, ends_of


@dataclass
class Java:
    """Copies one partition as Java MirrorMaker does: without a producer id, batches cut anew, a sync now and then."""

    copying: Copying
    source: TopicPartition
    syncs: tuple[Pair, ...] = ()

    def life(self, first: int, last: int, *, batch: int = 7, **settings: object) -> None:
        """Copy the records from one offset to another, exclusive; the first of a life leaves a sync."""
        records = [each for each in self.copying.originals(self.source) if first <= each.offset < last]
        target = self.copying.pairs[self.source]
        for place in range(0, len(records), batch):
            (end,) = ends_of(self.copying.flow.target_client, [target]).values()
            if place in (0, 3 * batch):
                self.syncs += (Pair(records[place].offset, end),)
            append(self.copying.flow.target_client, target, records[place : place + batch], **settings)

    def trace(self, position: int | None) -> Mm2Trace:
        """What is then known of it."""
        stretches: list[list[Pair]] = []
        for pair in self.syncs:
            if not stretches or pair.upstream <= stretches[-1][-1].upstream:
                stretches.append([])
            stretches[-1].append(pair)
        return Mm2Trace(position, tuple(tuple(each) for each in stretches))


def append(client: dict[str, str], target: TopicPartition, records: Sequence[Record], **settings: object) -> None:
    """Append records as one batch of a producer without an id."""
    told = {**client, "linger.ms": 1000, "batch.num.messages": max(1, len(records)), **settings}
    producer = confluent_kafka.Producer(told)
    for each in records:
        headers = [(name, content) for name, content in each.headers]
        producer.produce(
            target.topic, each.value, each.key, target.partition, timestamp=each.timestamp, headers=headers
        )
    assert producer.flush(60) == 0
