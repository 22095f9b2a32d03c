"""What others write where a partition is copied: mirrored records left out, foreign records in the copy."""

from __future__ import annotations

from collections import deque

# More stretches than this are not told apart.
_MOST_STRETCHES = 4


class LeftOut:
    """How many records of the source were left out, as far as the position has got."""

    __slots__ = ("_ahead", "count")

    def __init__(self, count: int) -> None:
        """Count on from ``count``."""
        self.count = count
        self._ahead: deque[tuple[int, int]] = deque()

    def add(self, next_offset: int, count: int) -> None:
        """Some records before ``next_offset`` are left out."""
        self._ahead.append((next_offset, count))

    def pass_by(self, position: int) -> None:
        """The position is there now."""
        while self._ahead and self._ahead[0][0] <= position:
            self.count += self._ahead.popleft()[1]


class ForeignBatches:
    """Where on the target others have written between two batches of ours, by the offsets ours were given."""

    __slots__ = ("_end", "_first_only", "_has_appended", "_has_markers", "_is_over", "found", "is_marker_next")

    def __init__(self, end: int, *, has_markers: bool, first_only: bool = False, is_marker_next: bool = False) -> None:
        """Begin where the copy ends; with ``has_markers`` each commit of a batch takes an offset as well.

        ``first_only``: others may write there, and only what comes before the first batch of ours is of interest.
        ``is_marker_next``: at the end there is the marker of what was committed before; else it may be there, and what
        is at a single offset is looked at.
        """
        self._first_only = first_only
        self._is_over = self._has_appended = False
        self._end = end
        self._has_markers, self.is_marker_next = has_markers, is_marker_next
        self.found: tuple[tuple[int, int], ...] = ()

    def appended(self, start: int, end: int) -> None:
        """Take in where a batch of ours stands."""
        between = 0 if self._is_over else start - self._end
        self._is_over = self._first_only and end > start
        if between > (1 if self.is_marker_next else 0):
            if len(self.found) < _MOST_STRETCHES:
                self.found = (*self.found, (self._end, start))
            else:
                self.found = (*self.found[:-1], (self.found[-1][0], start))
        self._end, self.is_marker_next = end, False
        self._has_appended = self._has_appended or end > start

    def committed(self) -> None:
        """A marker follows what was appended: a partition without a batch in a transaction gets none of it."""
        if self._has_appended:
            self.is_marker_next, self._has_appended = self._has_markers, False
