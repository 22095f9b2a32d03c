"""The fetch connection to one source broker: what to ask for next, and how much of it.

A broker gets what it leads and, where ``client.rack`` is set, what it is the closest replica of (KIP-392).

At most one fetch is under way. Work is proportional to the lanes that move: the others are left as the broker has them
in the fetch session.
"""

from __future__ import annotations

import time

from mirror.config.fetching import FetchLimits
from mirror.copier.lane import Lane
from mirror.copier.links import ClusterLinks
from mirror.copier.sender import ANSWER_SECONDS
from mirror.copier.streams import PATIENCE_SECONDS
from mirror.kafka import codes, wire
from mirror.kafka.connection import Connection
from mirror.kafka.problems import ConnectionFailed
from mirror.kafka.wire import FetchedPartition, FetchFrom
from mirror.model.partition import TopicPartition

# The poll when some partitions are not asked for: they may want data again before the others have any.
_SHORT_POLL_MS = 20


class Fetcher:
    """One fetch connection and the lanes it feeds."""

    def __init__(
        self,
        cluster: ClusterLinks,
        connection: Connection,
        limits: FetchLimits,
        *,
        read_committed: bool,
        rack: str = "",
    ) -> None:
        """Feed no lane yet; the broker is told of ``rack``, unless that is empty."""
        self.cluster = cluster
        self.connection = connection
        self.read_committed = read_committed
        self.lanes: dict[TopicPartition, Lane] = {}
        self.asked_at: float | None = None
        self._due_at = 0.0
        self._limits = limits
        self._rack = rack
        self._sizes = connection.sizes
        self._session = connection.session
        self._session.leave_all()
        # Lanes whose position may have moved, and those that want nothing for now.
        self._unsettled: dict[TopicPartition, None] = {}

    def add(self, lane: Lane) -> None:
        """Feed one more lane."""
        self.lanes[lane.work.source] = lane
        self.touch(lane)

    def drop(self, lane: Lane) -> None:
        """Feed a lane no more."""
        self.lanes.pop(lane.work.source, None)
        self._unsettled.pop(lane.work.source, None)
        self._session.leave(lane.work.source)

    def touch(self, lane: Lane) -> None:
        """Look at a lane anew before the next request: its position, or whether it wants data."""
        self._unsettled[lane.work.source] = None

    def check(self, now: float) -> None:
        """See that an answer that is due comes in, and that no silence is kept for hours.

        Raises
        ------
        ConnectionFailed
            if nothing has come for too long, or the broker has asked for silence for long.
        """
        if self.asked_at is None:
            self.connection.check_silence(now)
        elif now - max(self.asked_at, self.connection.received_at) > ANSWER_SECONDS:
            raise ConnectionFailed(f"{self.connection.name}: no answer for {ANSWER_SECONDS:.0f} s")

    def is_stuck(self, now: float) -> bool:
        """Whether the answer is so late that nothing else should wait for it."""
        return self.asked_at is not None and now >= max(self._due_at, self.connection.received_at) + PATIENCE_SECONDS

    def may_ask(self, now: float) -> bool:
        """Whether nothing is under way, and the broker is willing."""
        return self.asked_at is None and now >= self.connection.quiet_until

    def ask(self, now: float, seconds_left: float) -> None:
        """Ask for what is wanted now, if anything is; answered within ``seconds_left``.

        Raises
        ------
        ConnectionFailed
            if the broker hung up.
        """
        self._settle(now)
        if self._session.is_empty:
            return
        step = self._session.step()
        poll_ms = min(_SHORT_POLL_MS, self._limits.poll_ms) if self._unsettled else self._limits.poll_ms
        request = wire.fetch_request(
            self.connection.next_correlation(),
            step.changed,
            wait_ms=min(poll_ms, max(0, int(seconds_left * 1000))),
            read_committed=self.read_committed,
            least_bytes=self._limits.least_bytes,
            total_bytes=self._sizes.total(self._limits.total_bytes),
            session=(step.session_id, step.epoch),
            forgotten=step.forgotten,
            rack=self._rack,
        )
        self.asked_at, self._due_at = now, now + poll_ms / 1000
        self.connection.send([request])

    def receive(self) -> tuple[memoryview, list[FetchedPartition]] | None:
        """Return one answer and its parts; None when none has arrived whole.

        Raises
        ------
        ConnectionFailed
            if the broker hung up.
        FetchFailed
            if it refuses the fetch as a whole, and not for the sake of its session: that is begun anew.
        """
        frame = self.connection.receive()
        if frame is None:
            return None
        assert self.asked_at is not None
        connection, now = self.connection, time.monotonic()
        connection.round_trip = min(connection.round_trip, connection.answer_began_at - self.asked_at)
        self.asked_at = None
        head = wire.fetch_head(frame)
        connection.throttle(head.throttle_ms)
        if head.throttle_ms:
            self._sizes.throttled(self._sizes.total(self._limits.total_bytes))
        else:
            self._sizes.brought(len(frame))
        if head.error in codes.FETCH_SESSION_ERRORS:
            self._session.begin_anew()
            return frame, []
        parts = list(wire.parse_fetch(frame))
        self._session.answered(head.session_id)
        self._sizes.learn(
            len(frame),
            now - connection.answer_began_at,
            connection.round_trip,
            {
                part.partition: (self._session.asked_bytes(part.partition), part.stop - part.start)
                for part in parts
                if part.stop > part.start
            },
        )
        return frame, parts

    def _settle(self, now: float) -> None:
        """Tell the session what the lanes that were touched want; who wants nothing for now is looked at again."""
        for source in tuple(self._unsettled):
            lane = self.lanes[source]
            if lane.is_over:
                self.drop(lane)
            elif lane.wants_data(now):
                most_bytes = self._sizes.of(source, self._limits.partition_bytes)
                start = FetchFrom(lane.fetch_position, most_bytes, lane.leader_epoch, lane.read_epoch)
                self._session.want(source, start)
                del self._unsettled[source]
            else:
                self._session.leave(source)
