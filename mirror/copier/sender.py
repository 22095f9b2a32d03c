"""The produce connection to one target broker: whose batches go into the next request, and whose answers come back.

Invariants:

(a) A produce request holds at most one batch a partition: the protocol allows no more. So requests are composed across
    partitions.
(b) A line counts as long by its shortest round trip, measured when nothing else is under way: a busy broker must not
    look like a long line.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable

from mirror.copier.links import LARGEST_REQUEST_BYTES, ClusterLinks
from mirror.copier.streams import Stream
from mirror.kafka import wire
from mirror.kafka.connection import Connection
from mirror.kafka.problems import ConnectionFailed
from mirror.model.partition import TopicPartition

REQUESTS_IN_FLIGHT = 5
# Requests of a connection are handled one after another: one that waits so long for replicas is sent again later.
REQUEST_TIMEOUT_MS = 1_500
REQUEST_BYTES = 1 << 20
PARTITIONS_A_REQUEST = 16
# On a line with a longer round trip, what queues up goes in fewer, larger batches and requests of more partitions: no
# more than so many requests are in flight.
LONG_ROUND_TRIP_SECONDS = 0.02
PARTITIONS_A_LONG_REQUEST = 256
# A broker's usual limit to a batch, less what the merged ones may differ by from what they were made of.
MERGED_BYTES = 1_000_000
ANSWER_SECONDS = 40.0
# What a produce request holds beside the batches is never more.
_REQUEST_HEAD_BYTES = 16 << 10


class Sender:
    """The produce connection to one broker and the streams that go over it, all of one transactional id or of none."""

    def __init__(
        self,
        cluster: ClusterLinks,
        connection: Connection,
        largest_request: int = LARGEST_REQUEST_BYTES,
        transactional_id: str | None = None,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        """Send over ``connection`` to a broker of ``cluster`` that takes requests up to ``largest_request`` bytes.

        ``may_write`` is asked right before each.
        """
        self._may_write = may_write
        self._largest_batch = largest_request - _REQUEST_HEAD_BYTES
        self.cluster = cluster
        self.connection = connection
        self.transactional_id = transactional_id
        self.streams: set[Stream] = set()
        # The streams that may have something to send, in turn; the others cost nothing.
        self._awake: OrderedDict[Stream, None] = OrderedDict()
        self._requests: deque[tuple[float, dict[TopicPartition, Stream]]] = deque()

    @property
    def moved_at(self) -> float:
        """When something last moved on the line, in monotonic seconds."""
        return max(self.connection.wrote_at, self.connection.received_at)

    @property
    def is_idle(self) -> bool:
        """Whether no request is unanswered."""
        return not self._requests

    def add(self, stream: Stream) -> None:
        """Send what comes in for one more stream."""
        self.streams.add(stream)
        stream.sender = self
        self.wake(stream)

    def remove(self, stream: Stream) -> None:
        """Send nothing of a stream any more."""
        self.streams.remove(stream)
        self._awake.pop(stream, None)
        stream.sender = None

    def wake(self, stream: Stream) -> None:
        """Look at a stream when something is sent next."""
        self._awake.setdefault(stream)

    @property
    def _is_long(self) -> bool:
        """Whether the line is so long that waiting for answers, not the broker, sets the pace."""
        return LONG_ROUND_TRIP_SECONDS <= self.connection.round_trip < math.inf

    def send(self, now: float) -> None:
        """Send what may be sent; one request at a time while quotas hold the line back.

        Raises
        ------
        ConnectionFailed
            if the broker hung up, or left a request unanswered for too long, or has asked for silence for long.
        """
        line = self.connection
        if self._requests and now > max(self._requests[0][0], line.received_at, line.quiet_until) + ANSWER_SECONDS:
            raise ConnectionFailed(f"{self.connection.name}: no answer for {ANSWER_SECONDS:.0f} s")
        if not self._requests:
            line.check_silence(now)
        while (
            now >= self.connection.quiet_until
            and not self.connection.has_unsent
            and len(self._requests) < (1 if line.throttling.is_throttled else REQUESTS_IN_FLIGHT)
            and self._may_write()
            and (request := self._compose(now))
        ):
            self._requests.append((now, request))
            share = min(REQUEST_BYTES // len(request), MERGED_BYTES, self._largest_batch) if self._is_long else 0
            contents = [(partition, stream.take(share).content) for partition, stream in request.items()]
            request_frame = wire.produce_request(
                self.connection.next_correlation(),
                contents,
                timeout_ms=REQUEST_TIMEOUT_MS,
                transactional_id=self.transactional_id,
            )
            self.connection.send(request_frame)

    def receive(self) -> list[Stream] | None:
        """Read one answer and pass its parts to their streams.

        Returns
        -------
        the streams whose leader should be looked up anew; they are no longer this sender's; or None when no whole
        answer has arrived

        Raises
        ------
        ConnectionFailed
            if the broker hung up.
        """
        frame = self.connection.receive()
        if frame is None:
            return None
        sent_at, streams = self._requests.popleft()
        self.connection.round_trip = min(self.connection.round_trip, time.monotonic() - sent_at)
        self.connection.throttle(wire.produce_throttle_ms(frame))
        stale = [
            streams[answer.partition]
            for answer in wire.parse_produce(frame)
            if streams[answer.partition].answered(answer.error, answer.base_offset, answer.message, answer.appended_at)
        ]
        for stream in stale:
            self.remove(stream)
        return stale

    def abandon(self, reason: str) -> None:
        """Close the connection; what was in flight goes back to its streams."""
        self.connection.close()
        self._requests.clear()
        for stream in self.streams:
            stream.sender = None
            stream.lost(reason)

    def _compose(self, now: float) -> dict[TopicPartition, Stream]:
        """Choose whose batch goes next: the streams in turn, each at most once a request, about a megabyte in all.

        A batch that is larger goes alone; one that no request may hold is not sent.
        """
        chosen: dict[TopicPartition, Stream] = {}
        size = 0
        most_bytes = min(REQUEST_BYTES, self._largest_batch)
        most = PARTITIONS_A_LONG_REQUEST if self._is_long else PARTITIONS_A_REQUEST
        for _ in range(len(self._awake)):
            stream = next(iter(self._awake))
            if not stream.has_unsent:
                del self._awake[stream]
                continue
            if stream.can_send(now) and stream.partition not in chosen:
                if stream.next_bytes > self._largest_batch:
                    stream.refuse_next(f"larger than the broker's socket.request.max.bytes ({stream.next_bytes} bytes)")
                elif chosen and size + stream.next_bytes > most_bytes:
                    break
                else:
                    chosen[stream.partition] = stream
                    size += stream.next_bytes
            self._awake.move_to_end(stream)
            if size >= most_bytes or len(chosen) == most:
                break
        return chosen
