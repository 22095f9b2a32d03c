"""What a broker remembers of a connection's fetches (KIP-227), so that a request says only what has changed.

Without a session every fetch names every partition, and every answer too; with a thousand idle partitions that is most
of what a mirror does. In a session the broker keeps the list: a request names positions that moved, partitions that are
new, and those that are not wanted any more; an answer names partitions with data, with an error, or whose end moved.

Invariants:

(a) A fetch session lives with its connection. A partition that wants nothing for now is forgotten from it: the broker
    would send the same data again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from mirror.kafka.wire import FetchFrom
from mirror.model.partition import TopicPartition

_NONE = 0
_FIRST_EPOCH = 0
_LARGEST_EPOCH = 2**31 - 1


class SessionStep(NamedTuple):
    """What one request of a session says; ``epoch`` numbers the requests, 0 begins anew with the whole list."""

    session_id: int
    epoch: int
    changed: Mapping[TopicPartition, FetchFrom]
    forgotten: Collection[TopicPartition]


class FetchSession:
    """The session of one connection: what is wanted now, and what the broker believes is wanted.

    A broker that has no room for a session answers with none; every request then names everything.
    """

    def __init__(self) -> None:
        """Begin without a session."""
        self._id = _NONE
        self._epoch = _FIRST_EPOCH
        self._wanted: dict[TopicPartition, FetchFrom] = {}
        self._held: dict[TopicPartition, FetchFrom] = {}
        self._touched: set[TopicPartition] = set()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is wanted."""
        return not self._wanted

    def want(self, partition: TopicPartition, start: FetchFrom) -> None:
        """Ask for a partition from now on, from ``start`` on."""
        # What is named last in a whole list is served last.
        self._wanted.pop(partition, None)
        self._wanted[partition] = start
        self._touched.add(partition)

    def leave(self, partition: TopicPartition) -> None:
        """Ask for a partition no more."""
        if self._wanted.pop(partition, None) is not None:
            self._touched.add(partition)

    def leave_all(self) -> None:
        """Ask for nothing; what is wanted again before the next request costs nothing if it did not move."""
        self._touched.update(self._wanted)
        self._wanted.clear()

    def asked_bytes(self, partition: TopicPartition) -> int:
        """Return how many bytes of a partition were asked for last."""
        held = self._held.get(partition)
        return held.most_bytes if held else 0

    def step(self) -> SessionStep:
        """Return what the next request says; it must be sent, or the session begun anew."""
        if self._epoch == _FIRST_EPOCH:
            changed, forgotten = dict(self._wanted), []
        else:
            touched = [(partition, self._wanted.get(partition)) for partition in self._touched]
            changed = {each: start for each, start in touched if start is not None and start != self._held.get(each)}
            forgotten = [each for each, start in touched if start is None and each in self._held]
            for partition in forgotten:
                del self._held[partition]
        self._held.update(changed)
        self._touched.clear()
        return SessionStep(self._id, self._epoch, changed, forgotten)

    def answered(self, session_id: int) -> None:
        """Take in the id of an answer without an error for the whole request."""
        if session_id == _NONE:
            self.begin_anew()
        else:
            self._id = session_id
            self._epoch = self._epoch + 1 if self._epoch < _LARGEST_EPOCH else 1

    def begin_anew(self) -> None:
        """Name everything in the next request: the broker has forgotten the session, or is asked to."""
        self._epoch = _FIRST_EPOCH
        self._held.clear()
