"""Logs in memory, batch by batch as a broker keeps them, and copies of them with whatever may happen to a copy."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from mirror.kafka import batch
from mirror.kafka.batch import HEADER, Header, Producer, Record
from mirror.model.offset_map import Run, extend
from mirror.model.stretches import Stretch

MIRROR = Producer(7, 0)
SOMEBODY = Producer(99, 0)
TIME = 1_700_000_000_000

CHANGES: dict[str, Callable[[Record], Record]] = {
    "key": lambda each: each._replace(key=None),
    "value": lambda each: each._replace(value=b"other"),
    "header": lambda each: each._replace(headers=(("h", b"other"),)),
    "timestamp": lambda each: each._replace(timestamp=each.timestamp + 1),
}
DAMAGES = ("lost", "doubled", "swapped", *CHANGES)


def record(number: int, size: int = 8) -> Record:
    """The record that is known by a number."""
    value = b"%0*d" % (size, number)
    return Record(0, TIME + number, b"k%d" % (number % 5), value, (("h", b"%d" % number),), -1)


@dataclass
class Log:
    """The data batches of a log, in order."""

    batches: list[tuple[memoryview, Header]] = field(default_factory=list)
    end: int = 0

    def append(self, records: Sequence[Record], codec: int = 0, producer: Producer = batch.PLAIN) -> int:
        """Append records as one batch, and return the offset of the first."""
        return self.take(batch.encode(records, codec, producer))

    def take(self, content: memoryview, epoch: int = 3) -> int:
        """Append a batch as it is, at the end of the log."""
        kept = memoryview(bytearray(content))
        struct.pack_into(">q", kept, 0, self.end)
        struct.pack_into(">i", kept, 12, epoch)
        self.batches.append((kept, Header._make(HEADER.unpack_from(kept))))
        self.end = self.batches[-1][1].next_offset
        return self.batches[-1][1].base_offset

    def mirror(self, content: memoryview) -> int:
        """Append a batch as the copier passes it on."""
        passed = memoryview(bytearray(content))
        return self.take(batch.pass_on(passed, Header._make(HEADER.unpack_from(passed)), MIRROR, 0))

    def skip(self, offsets: int) -> None:
        """Leave offsets out, as a marker does."""
        self.end += offsets

    def read(self, start: int, end: int) -> Iterator[tuple[memoryview, Header]]:
        """Yield the batches that a reader of a range gets."""
        for content, header in self.batches:
            if header.base_offset < end and start < header.next_offset:
                yield content, header

    def records(self, stretches: Sequence[Stretch]) -> Iterator[Record]:
        """Yield the records that lie in the stretches."""
        for content, header in self.batches:
            overlapping = [each for each in stretches if each[0] < header.next_offset and header.base_offset < each[1]]
            if overlapping:
                for each in batch.records(content):
                    if any(start <= each.offset < end for start, end in overlapping):
                        yield each


@dataclass
class Mirrored:
    """A log, its copy, and the offset map that the copier keeps."""

    source: Log = field(default_factory=Log)
    copy: Log = field(default_factory=Log)
    runs: list[Run] = field(default_factory=list)

    def record_run(self, upstream: int, downstream: int, length: int) -> None:
        """Put a run on the map, where it ascends in both offsets."""
        if not self.runs or (upstream >= self.runs[-1].upstream_end and downstream >= self.runs[-1].downstream_end):
            extend(self.runs, Run(upstream, downstream, length))


def happened(random: Random, batches: int, *, damage: float = 0.0, onto: Mirrored | None = None) -> Mirrored:
    """Copy a random log with all that a copier may do to batches, and damage some of the copied records.

    Records have equal twins now and then: what is told apart by its place only.
    """
    logs = onto or Mirrored()
    waiting: list[tuple[int, list[Record]]] = []
    number = logs.source.end

    def write(rows: list[tuple[int, list[Record]]], codec: int) -> None:
        """Copy the records of these (upstream offset, records) as one batch, as far as nothing happens to them."""
        kept: list[tuple[int, Record]] = []
        for upstream, each in [(first + index, each) for first, records in rows for index, each in enumerate(records)]:
            what = random.choice(DAMAGES) if random.random() < damage else None
            if what == "lost":
                continue
            if what == "swapped" and kept:
                kept.insert(random.randrange(len(kept)), (upstream, each))
                continue
            if what == "doubled":
                kept.append((-1, each))
            kept.append((upstream, CHANGES[what](each) if what in CHANGES else each))
        if not kept:
            return
        base = logs.copy.append([each for _, each in kept], codec, MIRROR)
        for index, (upstream, _) in enumerate(kept):
            if upstream >= 0:
                off = 1 if damage and random.random() < damage / 4 else 0
                logs.record_run(upstream, base + index + off, 1)

    for _ in range(batches):
        count = random.randint(1, 5)
        records = [record(random.choice((number + index, number // 7))) for index in range(count)]
        number += count
        upstream = logs.source.append(records, random.choice((0, 0, 4)), Producer(random.choice((1, 2)), 0))
        content, header = logs.source.batches[-1]
        if random.random() < 0.15:
            logs.source.skip(random.randint(1, 3))
        if random.random() < 0.1:
            logs.copy.skip(random.randint(1, 3))
        if random.random() < 0.1:
            logs.copy.append([record(random.randrange(number))], 0, SOMEBODY)
        fate = random.random()
        if waiting or fate < 0.15:
            waiting.append((upstream, records))
            if random.random() < 0.6:
                write(waiting, 0)
                waiting = []
        elif fate < 0.3:
            cut = random.randint(0, count)
            for first, part in ((upstream, records[:cut]), (upstream + cut, records[cut:])):
                if part:
                    write([(first, part)], header.codec)
        elif random.random() < damage:
            write([(upstream, records)], header.codec)
        elif random.random() < 0.97 or not damage:
            logs.record_run(upstream, logs.copy.mirror(content), count)
    if waiting:
        write(waiting, 0)
    return logs
