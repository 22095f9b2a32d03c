"""How much of a history is kept, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of a history is kept: a file whose last sample is older goes, and the oldest ones beyond the size."""

    seconds: float = 7 * 86_400.0
    bytes: int = 1 << 30


@dataclass(frozen=True, slots=True)
class Kept:
    """What a writer has done, and what the folder holds.

    Attributes
    ----------
    samples, rows
        taken in since the writer began; rows of partitions.
    files, bytes
        in the folder, whoever wrote them, when it was last written to.
    removed
        files removed to keep the bounds.
    lost_rows
        rows of partitions that could not be written and are given up.
    trouble
        why the folder cannot be written to now; None: it can.
    """

    directory: str
    samples: int = 0
    rows: int = 0
    files: int = 0
    bytes: int = 0
    removed: int = 0
    lost_rows: int = 0
    trouble: str | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """Say what people should know of it, nothing if all is well."""
        lost = f"; {self.lost_rows:,} rows are lost" if self.lost_rows else ""
        if self.trouble is not None:
            return (f"{self.directory} cannot be written to: {self.trouble}{lost}",)
        return (f"{self.directory} lacks {self.lost_rows:,} rows that could not be written",) if lost else ()
