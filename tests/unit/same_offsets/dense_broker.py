"""A partition of a broker in memory that numbers densely, with the coordinator of the producer of markers.

Requests may be delivered late, in the order in which an engine has sent them, also after that engine was killed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

FILLER, MARKER = "filler", "marker"


class Refused(Exception):
    """The broker has not appended what it was asked to."""


@dataclass
class Partition:
    """One log: of each offset from ``start`` on the number of its record, or what else is there."""

    start: int = 0
    log: list[int | str] = field(default_factory=list)
    sequence: int = 0
    marker_epoch: int = -1
    epoch: int = 0
    is_open: bool = False

    @property
    def end(self) -> int:
        return len(self.log)

    def append(self, sequence: int, content: Sequence[int | str]) -> int:
        """A batch of the one producer: only the next sequence is taken."""
        if sequence != self.sequence:
            raise Refused
        self.sequence += len(content)
        self.log += content
        return self.end - len(content)

    def delete_before(self, offset: int) -> None:
        self.start = max(self.start, offset)

    def write_markers(self, epoch: int, count: int) -> None:
        """What comes twice is appended twice, unless a later epoch is known."""
        if epoch < self.marker_epoch:
            raise Refused
        self.marker_epoch = epoch
        self.log += [MARKER] * count

    # The coordinator.

    def take_id(self) -> int:
        """Abort what is open, and give the next epoch to whoever asks."""
        self.epoch += 1
        if self.is_open:
            self._mark()
        return self.epoch

    def add_to_transaction(self, epoch: int) -> None:
        if epoch != self.epoch:
            raise Refused
        self.is_open = True

    def end_transaction(self, epoch: int) -> None:
        if epoch != self.epoch:
            raise Refused
        if self.is_open:
            self._mark()

    def _mark(self) -> None:
        self.is_open = False
        self.write_markers(self.epoch, 1)


class Wire:
    """What an engine has sent and the broker has not read yet; it outlives the engine."""

    def __init__(self) -> None:
        self._sent: deque[Callable[[], object]] = deque()

    def send(self, request: Callable[[], object]) -> None:
        self._sent.append(request)

    @property
    def has_unread(self) -> bool:
        return bool(self._sent)

    def deliver(self, most: int) -> None:
        """Let the broker read some of it; what it refuses nobody hears of."""
        for _ in range(min(most, len(self._sent))):
            try:
                self._sent.popleft()()
            except Refused:
                continue
