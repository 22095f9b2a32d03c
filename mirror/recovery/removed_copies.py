"""What a target has removed of the beginnings of copies, as its settings say: that is not missing.

Brokers delete whole segments, and those of a copy end at other records than those of its source. So a copy may begin
behind what the source still has, or the other way round, where both sides keep records equally long.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mirror.control.gaps import iso_time
from mirror.control.tick import now_ms
from mirror.kafka.channel import Channel, topic_settings
from mirror.kafka.log import decoded, read_batches
from mirror.kafka.partition_state import log_size
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


class _Removed(NamedTuple):
    """Of the last records that the source still has and whose copies are gone: the newest time, and who wrote them."""

    newest_ms: int | None = None
    producers: frozenset[int] = frozenset()


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
        target, removed = self.flow.target, self._look(source, max(start, end - _LOOK_BACK), end)
        if removed.producers and removed.producers <= frozenset(self.copied_back(source.topic)):
            return f"{target} has removed the originals"
        if copy.topic not in self._settings:
            found = topic_settings(self.target, [copy.topic], [_POLICY, _AGE, _SIZE])
            self._settings[copy.topic] = found.get(copy.topic, {})
        settings = self._settings[copy.topic]
        kept = by_retention(settings, removed.newest_ms, now_ms(), lambda: log_size(self.target, copy))
        return None if kept is None else f"{target} has removed the copies ({kept})"

    def _look(self, source: TopicPartition, start: int, end: int) -> _Removed:
        times, producers = [], set()
        try:
            for content, header in read_batches(self.source, source, start, end):
                within = [
                    each.timestamp for each in decoded(self.source, source, content) if start <= each.offset < end
                ]
                if within:
                    times += within
                    producers.add(header.producer_id)
        except BrokerRefused as refused:
            # The source, too, has removed them, since it was asked where it begins: who compares plans that anew.
            if not refused.is_gone:
                raise
            return _Removed()
        return _Removed(max(times, default=None), frozenset(producers))


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
    settings: Mapping[str, str | None], newest_ms: int | None, now_ms: int, log_size: Callable[[], int | None]
) -> str | None:
    """Return the setting of a topic by which records up to as new as ``newest_ms`` are removed; None: none says so.

    ``log_size`` is asked, where the age is no reason, for the bytes of the log, None where that is not known: retention
    by size removes a segment only where as much as it keeps is left.
    """
    if "delete" not in (settings.get(_POLICY) or ""):
        return None
    age, kept_size = (int(settings.get(key) or -1) for key in (_AGE, _SIZE))
    if age >= 0 and newest_ms is not None and 0 <= newest_ms <= now_ms - age + _CLOCKS_MS:
        return f"{_AGE} = {age}, and the newest of them is of {iso_time(newest_ms)}"
    if kept_size >= 0 and (size := log_size()) is not None and size >= kept_size:
        return f"{_SIZE} = {kept_size}, and {size} are left"
    return None
