"""What a target has removed of the beginnings of copies, as its settings say: that is not missing.

Brokers delete whole segments, and those of a copy end at other records than those of its source. So a copy may begin
behind what the source still has, or the other way round, where both sides keep records equally long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mirror.control.gaps import iso_time
from mirror.control.tick import now_ms
from mirror.kafka import batch
from mirror.kafka.batch import CorruptBatch
from mirror.kafka.channel import Channel, topic_settings
from mirror.kafka.log import read_batches
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


@dataclass(frozen=True, slots=True)
class RemovedCopies:
    """Finds where copies begin behind what the source still has, and whether their target was to remove that.

    Attributes
    ----------
    is_two_way
        whether a topic of the source is copied both ways to the same offsets: then it has no other original.
    """

    flow: Flow
    source: Channel
    target: Channel
    is_two_way: Callable[[str], bool]
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
        if self.is_two_way(source.topic):
            return (
                f"{self.flow.target}, where the same topic is, has removed it (retention, or records that were deleted)"
            )
        if copy.topic not in self._settings:
            found = topic_settings(self.target, [copy.topic], [_POLICY, _AGE, _SIZE])
            self._settings[copy.topic] = found.get(copy.topic, {})
        newest = self._newest_ms(source, max(start, end - _LOOK_BACK), end)
        kept = by_retention(self._settings[copy.topic], newest, now_ms())
        return None if kept is None else f"{self.flow.target} has removed the copies ({kept})"

    def _newest_ms(self, source: TopicPartition, start: int, end: int) -> int | None:
        """Return the newest timestamp of the records between two offsets of the source; None: it has none there."""
        try:
            times = [
                record.timestamp
                for content, _ in read_batches(self.source, source, start, end)
                for record in batch.records(content)
                if start <= record.offset < end
            ]
        except CorruptBatch as problem:
            raise BrokerRefused(f"{self.flow.source}: {source}: {problem}", CorruptBatch) from problem
        except BrokerRefused as refused:
            # The source, too, has removed them, since it was asked where it begins: who compares plans that anew.
            if not refused.is_gone:
                raise
            return None
        return max(times, default=None)


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


def by_retention(settings: Mapping[str, str | None], newest_ms: int | None, now_ms: int) -> str | None:
    """Return the setting of a topic by which records up to as new as ``newest_ms`` are removed; None: none says so.

    By its size a log loses records of any age.
    """
    if "delete" not in (settings.get(_POLICY) or ""):
        return None
    age, size = (int(settings.get(key) or -1) for key in (_AGE, _SIZE))
    if age >= 0 and newest_ms is not None and 0 <= newest_ms <= now_ms - age + _CLOCKS_MS:
        return f"{_AGE} = {age}, and the newest of them is of {iso_time(newest_ms)}"
    return f"{_SIZE} = {size}" if size >= 0 else None
