"""A lane without brokers: batches are handed to it, and whatever it sends is taken."""

from __future__ import annotations

import math
from collections import deque

from mirror.copier.lane import Lane
from mirror.copier.tail_match import Batch
from mirror.copier.work import GapPolicy, Handover, PartitionWork
from mirror.kafka import batch
from mirror.kafka.batch import PLAIN, Header, Producer, Record
from mirror.kafka.wire import NO_APPEND_TIME, Aborted, FetchedPartition
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.transforms.chain import Chain, ChainedTransform, TopicTransform
from mirror.model.transforms.python_function import PythonFunction
from tests.unit.copier.builders import as_logged

SOURCE, TARGET = TopicPartition("orders", 3), TopicPartition("east.orders", 3)
OURS = Producer(7, 0)

_NO_GAPS = GapPolicy()
_OUT_OF_ORDER = 45


def new_lane(upstream: int = 0, downstream: int = 0, gaps: GapPolicy = _NO_GAPS) -> Lane:
    work = PartitionWork(Flow("east", "west"), SOURCE, TARGET, "id", None, gaps=gaps)
    return Lane(work, Handover(Position(upstream, downstream, upstream, True), (), clean=True), OURS, 0, None)


def transform_of(*stages: ChainedTransform, skips_errors: bool = False) -> TopicTransform:
    transform = Chain(stages, skips_errors).of_topic(TARGET.topic)
    assert transform is not None
    return transform


def own(name: str, *, skips_errors: bool = False) -> TopicTransform:
    stage = ChainedTransform("mine", PythonFunction(f"tests.transform_functions:{name}"))
    return transform_of(stage, skips_errors=skips_errors)


def fetched(*batches: Batch, aborted: tuple[Aborted, ...] = ()) -> tuple[memoryview, FetchedPartition]:
    frame = memoryview(bytearray(b"".join(bytes(content) for content, _ in batches)))
    return frame, FetchedPartition(SOURCE, 0, 1000, 1000, 0, aborted, 0, len(frame))


def take(lane: Lane, *batches: Batch, aborted: tuple[Aborted, ...] = (), read_committed: bool = False) -> None:
    frame, part = fetched(*batches, aborted=aborted)
    lane.take(frame, part, read_committed=read_committed)


def send_all(lane: Lane, base_offset: int) -> list[Record]:
    """Let the target take everything, one batch at a time; return its records as its log would have them."""
    log: list[Record] = []
    while lane.stream.can_send(float("inf")):
        content = lane.stream.take().content
        place = base_offset + len(log)
        log += batch.records(as_logged(content, place)[0])
        lane.stream.answered(0, place, "")
    return log


class Target:
    """A target partition that takes no batch over a limit, and knows its producers as a broker does."""

    def __init__(self, limit: float = math.inf, code: int = 10) -> None:
        self.limit = limit
        self.code = code
        self.log: list[Batch] = []
        self.end = 0
        self.appended = 0
        self.refused = 0
        #: What the last answer says of when the batch was appended: a time if it was there before.
        self.appended_at = NO_APPEND_TIME
        self._next: dict[Producer, int] = {}
        self._remembered: dict[Producer, deque[tuple[int, int, int, int]]] = {}

    def append(self, content: bytes) -> tuple[int, int]:
        """Return (error, base offset)."""
        self.appended_at = NO_APPEND_TIME
        if len(content) > self.limit:
            self.refused += 1
            return self.code, -1
        one, header = as_logged(content, self.end)
        if header.producer_id == PLAIN.producer_id:
            self._take(one, header)
            return 0, header.base_offset
        producer = Producer(header.producer_id, header.producer_epoch)
        known = self._remembered.setdefault(producer, deque(maxlen=5))
        for sequence, count, base, at in known:
            if (sequence, count) == (header.base_sequence, header.record_count):
                self.appended_at = at
                return 0, base
        if header.base_sequence != self._next.get(producer, header.base_sequence):
            return _OUT_OF_ORDER, -1
        known.append((header.base_sequence, header.record_count, self.end, header.max_timestamp))
        self._next[producer] = batch.next_sequence(header.base_sequence, header.record_count)
        self._take(one, header)
        return 0, header.base_offset

    def forget(self) -> None:
        """Know of producers what the log says alone, as a replica does that begins to lead."""
        self._remembered.clear()
        self._next = {
            Producer(each.producer_id, each.producer_epoch): batch.next_sequence(each.base_sequence, each.record_count)
            for _, each in self.log
        }

    def _take(self, one: memoryview, header: Header) -> None:
        self.log.append((one, header))
        self.end = header.next_offset
        self.appended += 1

    def records(self) -> list[Record]:
        return [each for content, _ in self.log for each in batch.records(content)]
