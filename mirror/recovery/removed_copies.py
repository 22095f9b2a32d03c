"""What a target has removed of the beginnings of copies, as its settings say: that is not missing.

Brokers delete whole segments, and those of a copy end at other records than those of its source. So a copy may begin
behind what the source still has, or the other way round, where both sides keep records equally long.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from mirror.control.gaps import iso_time
from mirror.control.tick import now_ms
from mirror.kafka.channel import EARLIEST, LATEST, Channel, topic_settings
from mirror.kafka.log import decoded, read_batches
from mirror.kafka.problems import BrokerRefused
from mirror.model.flow import Flow
from mirror.model.offset_map import OffsetMap
from mirror.model.partition import TopicPartition
from mirror.model.translation import Exact
from mirror.proof.left_out import LeftOut

_POLICY, _AGE, _SIZE = "cleanup.policy", "retention.ms", "retention.bytes"
# The clock of this machine may be that far behind those of the brokers.
_CLOCKS_MS = 300_000
# Among so many of the last offsets that are gone is a record; transactions leave markers between them.
_LOOK_BACK = 200
# How much of a copy is read to find out how much is left; behind that, as much a record is taken for the rest.
_MOST_READ = 64 << 20
_MARKER_BYTES = 78


@dataclass(frozen=True, slots=True)
class RemovedCopies:
    """Finds where copies begin behind what the source still has, and whether their target was to remove that.

    Attributes
    ----------
    copied_back
        the producer ids with which the flow back writes a topic of the source, to the same offsets; none: it does not.
        What it has written there are copies of the target's.
    """

    flow: Flow
    source: Channel
    target: Channel
    copied_back: Callable[[str], Collection[int]]
    _settings: dict[str, Mapping[str, str | None]] = field(default_factory=dict)

    def of(
        self, source: TopicPartition, copy: TopicPartition, known: OffsetMap, start: int, copy_start: int
    ) -> LeftOut | None:
        """Return what the source has, from ``start`` on, whose copies were removed before ``copy_start``.

        None: nothing was, or nothing says that it was to be, so that it is missing.

        Raises
        ------
        KafkaProblem
            if a cluster does not tell what is asked for.
        """
        start = max(start, known.origin)
        end = removed_until(known, start, copy_start)
        if end is None or end <= start:
            return None
        why = self._why(source, copy, start, end)
        return None if why is None else LeftOut(self.flow.source, source, start, end, None, why, is_unchecked=False)

    def _why(self, source: TopicPartition, copy: TopicPartition, start: int, end: int) -> str | None:
        target = self.flow.target
        try:
            if self._is_copied_back(source, start, end):
                return f"{target} has removed the originals"
            if copy.topic not in self._settings:
                found = topic_settings(self.target, [copy.topic], [_POLICY, _AGE, _SIZE])
                self._settings[copy.topic] = found.get(copy.topic, {})
            settings = self._settings[copy.topic]
            is_compacted = "compact" in (settings.get(_POLICY) or "")
            kept = by_retention(
                settings,
                self._newest_ms(source, max(start, end - _LOOK_BACK), end),
                now_ms(),
                lambda until_ms: self._are_older(source, end, until_ms),
                lambda size: holds(self.target, copy, size, is_compacted=is_compacted),
            )
        except BrokerRefused as refused:
            # One of them has removed more, since it was asked where it begins: who compares plans that anew.
            if not refused.is_gone:
                raise
            return None
        return None if kept is None else f"{target} has removed the copies ({kept})"

    def _is_copied_back(self, source: TopicPartition, start: int, end: int) -> bool:
        """Whether the flow back has written all of it: the copy of what an application has written is missing."""
        own = frozenset(self.copied_back(source.topic))
        if not own:
            return False
        writers = (
            header.producer_id
            for _, header in read_batches(self.source, source, start, end)
            if header.record_count and header.next_offset > start
        )
        first = next(writers, None)
        return first in own and all(each in own for each in writers)

    def _newest_ms(self, source: TopicPartition, start: int, end: int) -> int | None:
        """Return the newest time of the records there; None: there are none."""
        times = (
            each.timestamp
            for content, _ in read_batches(self.source, source, start, end)
            for each in decoded(self.source, source, content)
            if start <= each.offset < end
        )
        return max(times, default=None)

    def _are_older(self, source: TopicPartition, end: int, until_ms: int) -> bool:
        """Whether the source has no record before ``end`` that is newer than ``until_ms``.

        Markers of transactions bear the time of their end, and brokers find these, too.
        """
        first = self.source.offsets([source], until_ms + 1)[source]
        return not 0 <= first < end or not any(
            each.timestamp > until_ms and first <= each.offset < end
            for content, header in read_batches(self.source, source, first, end)
            if header.max_timestamp > until_ms
            for each in decoded(self.source, source, content)
        )


def removed_until(known: OffsetMap, start: int, copy_start: int) -> int | None:
    """Return the offset of the first record, from ``start`` on, whose copy may lie at or behind ``copy_start``.

    None where the copy of ``start`` lies there, or, as with what Java MirrorMaker copied, that is not known.
    """
    at = known.translate(start)
    is_sparse = any(each.start <= start < each.end for each in known.sparse_maps)
    if is_sparse or not isinstance(at, Exact) or at.downstream >= copy_start:
        return None
    if copy_start >= known.downstream_next:
        return known.upstream_next
    return min(copy_start, known.upstream_next) if known.same_offsets else known.source_of(copy_start)


def by_retention(
    settings: Mapping[str, str | None],
    newest_ms: int | None,
    now_ms: int,
    are_older: Callable[[int], bool],
    holds: Callable[[int], bool],
) -> str | None:
    """Return the setting of a topic by which its first records are removed; None: none says so.

    ``newest_ms`` is the time of the newest of the last of them. ``are_older`` is asked whether all of them are no newer
    than a time, and, where the age is no reason, ``holds`` whether so many bytes are left of the log: retention by size
    removes a segment only where as much as it keeps is left.
    """
    if "delete" not in (settings.get(_POLICY) or ""):
        return None
    age, kept_size = (int(settings.get(key) or -1) for key in (_AGE, _SIZE))
    until_ms = now_ms - age + _CLOCKS_MS
    # Without a time of their own the age of the file counts, which nobody tells.
    if age >= 0 and newest_ms is not None and 0 <= newest_ms <= until_ms and are_older(until_ms):
        return f"{_AGE} = {age}, and all of them are from before {iso_time(until_ms)}"
    if kept_size >= 0 and holds(kept_size):
        return f"{_SIZE} = {kept_size}, and as much is left"
    return None


def holds(channel: Channel, partition: TopicPartition, size: int, *, is_compacted: bool) -> bool:
    """Tell whether a log has so many bytes of records and markers; a long one is read in part.

    What brokers say of the size of a log (DescribeLogDirs) counts what DeleteRecords has removed of a segment.

    Raises
    ------
    KafkaProblem
        if it cannot be read.
    """
    start, end = (channel.offsets([partition], each)[partition] for each in (EARLIEST, LATEST))
    found, position = 0, start
    # Where there is no record is a marker, or what was compacted.
    marker_bytes = 0 if is_compacted else _MARKER_BYTES
    for content, header in read_batches(channel, partition, start, end):
        found += len(content) + marker_bytes * max(0, header.base_offset - position)
        position = header.next_offset
        if found >= size:
            return True
        if found >= _MOST_READ:
            return found * (end - start) >= size * (position - start)
    return found + marker_bytes * (end - position) >= size
