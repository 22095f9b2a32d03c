"""What is practised on: the clusters, topics and groups of a run, on record in its directory since it was set up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from mirror.evidence.run_directory import RunDirectory, read_json, write_json
from mirror.model.flow import Flow


@dataclass(frozen=True, slots=True)
class Layout:
    """The cluster that is active at first, its standby, and what the applications use: what ``practice.json`` holds.

    Attributes
    ----------
    groups
        the last of them reads slowly until it is moved, so that it lags behind.
    """

    active: str = "east"
    standby: str = "west"
    topics: tuple[str, ...] = ("orders", "payments")
    groups: tuple[str, ...] = ("billing", "audit")

    @property
    def forward(self) -> Flow:
        """The flow that is failed over."""
        return Flow(self.active, self.standby)

    @property
    def reverse(self) -> Flow:
        """The flow back."""
        return Flow(self.standby, self.active)

    @classmethod
    def of(cls, run: RunDirectory) -> Self:
        """Read that of a run; one that is not set up yet will get the usual one.

        Raises
        ------
        FactError
            if its record is damaged.
        """
        if not run.practice.exists():
            return cls()
        return read_json(run.practice).read(cls)

    def save(self, run: RunDirectory) -> None:
        """Put it on record."""
        write_json(run.practice, self)
