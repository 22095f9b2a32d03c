"""Where a copy with the source's offsets stands, from one append to the next."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a copy stands.

    Attributes
    ----------
    end
        the offset that the next record gets.
    sequence
        of the next batch.
    begins_at
        the source's start, until the copy has been filled up to it, and what fills it removed; -1 from then on.
    """

    end: int
    sequence: int
    is_compacted: bool
    begins_at: int = -1
