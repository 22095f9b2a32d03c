"""A lane without brokers: batches are handed to it, and whatever it sends is taken."""

from __future__ import annotations

from mirror.copier.lane import Lane
from mirror.copier.tail_match import Batch
from mirror.copier.work import GapPolicy, Handover, PartitionWork
from mirror.kafka import batch
from mirror.kafka.batch import Producer, Record
from mirror.kafka.wire import Aborted, FetchedPartition
from mirror.model.flow import Flow
from mirror.model.flow_state import Position
from mirror.model.partition import TopicPartition
from tests.unit.copier.builders import as_logged

SOURCE, TARGET = TopicPartition("orders", 3), TopicPartition("east.orders", 3)
OURS = Producer(7, 0)

_NO_GAPS = GapPolicy()


def new_lane(upstream: int = 0, downstream: int = 0, gaps: GapPolicy = _NO_GAPS) -> Lane:
    work = PartitionWork(Flow("east", "west"), SOURCE, TARGET, "id", None, gaps=gaps)
    return Lane(work, Handover(Position(upstream, downstream, upstream, True), (), clean=True), OURS, 0, None)


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
