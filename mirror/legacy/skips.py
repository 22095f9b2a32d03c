"""Records that could not be sent and are left out: counted and located (MM1-27, MM1-32).

Invariants:

(a) librdkafka resets a position without a word. So ``mirror legacy`` has it say an error instead, looks where the log
    is, says how much is not copied, and commits where it begins. A group without a position would otherwise begin at
    another end after a crash, and leave out what came between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from mirror.model.counts import counted
from mirror.model.offset_ranges import Range, Ranges
from mirror.model.partition import TopicPartition

#: What Java's tool calls the number of records that were not sent.
GAUGE = "MirrorMaker-numDroppedMessages"


def ranges_of(offsets: Iterable[int]) -> Iterator[Range]:
    """Yield the ranges of offsets in which every one is among ``offsets``."""
    start = end = -1
    for offset in sorted(set(offsets)):
        if offset != end:
            if end >= 0:
                yield Range(start, end, end - start)
            start = offset
        end = offset + 1
    if end >= 0:
        yield Range(start, end, end - start)


@dataclass(slots=True)
class Skips:
    """Where the records are that a stream has skipped.

    Attributes
    ----------
    dropped
        how many sends were given up; a message handler may make several of a record.
    """

    dropped: int = 0
    _untold: dict[TopicPartition, dict[int, str]] = field(default_factory=dict)
    _reported: dict[TopicPartition, Ranges] = field(default_factory=dict)

    def add(self, source: TopicPartition, offset: int, reason: str) -> None:
        """Take in a record of the source that is left out."""
        self.dropped += 1
        self._untold.setdefault(source, {})[offset] = reason

    def news(self) -> list[str]:
        """Return what is to be said of those added since the last call."""
        lines = []
        for source, reasons in self._untold.items():
            found = list(ranges_of(reasons))
            known = self._reported.get(source, Ranges())
            for each in found:
                known = known.also(each)
            self._reported[source] = known
            why = " / ".join(dict.fromkeys(reasons.values()))
            where = ", ".join(map(str, found))
            lines.append(
                f"{source}: {counted(len(reasons), 'record')} skipped, not on the target: offset {where}: {why}"
            )
        self._untold = {}
        return lines

    def all(self) -> Mapping[TopicPartition, Ranges]:
        """Return where they are, of those that were reported."""
        return self._reported
