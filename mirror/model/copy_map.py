"""An offset map as a reader on the target needs it: of which record each one is the copy, and how many there are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mirror.model.offset_map import OffsetMap
from mirror.model.translation import Exact, leads_to


@dataclass(frozen=True, slots=True)
class CopyMap:
    """What a flow knows of the copies that a group goes on with.

    Attributes
    ----------
    offset_map
        the map between both partitions.
    is_return
        whether the group returns to the original: what it read on the source was itself a copy of the target's topic,
        and the map is that of the opposite flow (CKP-07).
    """

    offset_map: OffsetMap
    is_return: bool = False

    @property
    def known_end(self) -> int:
        """The offset on the target from which on nothing is known."""
        return self.offset_map.upstream_next if self.is_return else self.offset_map.downstream_next

    @property
    def source_end(self) -> int:
        """The offset on the source from which on nothing is known."""
        return self.offset_map.downstream_next if self.is_return else self.offset_map.upstream_next

    def first_at(self, position: int) -> int | None:
        """Return the offset on the source of the first copy at or behind a position on the target; None: not known."""
        if not self.is_return:
            return self.offset_map.source_of(position)
        found = self.offset_map.translate(position)
        return found.downstream if isinstance(found, Exact) else None

    def origins(self, offsets: Iterable[int]) -> dict[int, int | None]:
        """Return, by offset on the target, of which offset on the source it is the copy; None: it is none.

        Offsets of which nothing is known are left out.
        """
        found: dict[int, int | None] = {}
        for offset in offsets:
            origin = self.first_at(offset) if offset < self.known_end else None
            if origin is None:
                continue
            if self.is_return:
                is_copy = self.offset_map.source_of(origin) == offset
            else:
                is_copy = leads_to(self.offset_map.translate(origin), offset)
            found[offset] = origin if is_copy else None
        return found

    def copies_between(self, start: int, end: int) -> int:
        """Return how many records with offsets on the source from ``start`` up to, not including, ``end`` have a pair.

        Of stretches that are known by offset syncs only, every offset counts.
        """
        if start >= end:
            return 0
        spans = [(each.start, each.end) for each in self.offset_map.sparse_maps] if not self.is_return else []
        for run in self.offset_map.runs:
            first = run.downstream if self.is_return else run.upstream
            spans.append((first, first + run.length))
        return sum(max(0, min(last, end) - max(first, start)) for first, last in spans)
