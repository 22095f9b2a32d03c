"""Where the next append of a copy with the source's offsets belongs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AppendPoint:
    """The offset and the sequence of the next append.

    Attributes
    ----------
    end
        the offset that the next record gets.
    sequence
        of the next batch.
    begins_at
        the source's start, until the copy has been filled up to it, and what fills it removed; -1 from then on.
    has_append_time
        whether the leader may give each record the time of its append (``message.timestamp.type``).
    """

    end: int
    sequence: int
    is_compacted: bool
    begins_at: int = -1
    has_append_time: bool = False
