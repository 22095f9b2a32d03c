"""One direction of replication between two clusters."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Flow"]


@dataclass(frozen=True, order=True, slots=True)
class Flow:
    """A flow ``source->target``; MirrorMaker 2's own word. Two-way replication is two flows."""

    source: str
    target: str

    def __str__(self) -> str:
        """Return the form used in properties files: ``east->west``."""
        return f"{self.source}->{self.target}"

    @classmethod
    def parse(cls, text: str) -> Flow:
        """Read ``A->B``.

        Raises
        ------
        ValueError
            if the text is not two non-empty aliases around one arrow.
        """
        source, arrow, target = text.partition("->")
        if not arrow or not source or not target or "->" in target:
            raise ValueError(f"a flow is written SOURCE->TARGET, got {text!r}")
        return cls(source, target)
