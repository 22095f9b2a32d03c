"""The directory of one run of a scenario.

::

    <series>/<scenario>-<replicator>-<seed>/
      plan.json         what is to be done, when and to whom; decided before anything is started
      journal.jsonl     what happened (mirror.evidence.journal)
      seal.json         where the journal ended (mirror.evidence.seals)
      mirror.properties the file the replicator runs from
      direct.properties the same with the brokers' own addresses, where the replicator has links
      ledger/ logs/ lab/
      verdict.json      what came of it; there exactly if the run was finished
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mirror.evidence.journal import Journal


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The paths of one run."""

    path: Path

    @property
    def plan(self) -> Path:
        """Return the file of the plan."""
        return self.path / "plan.json"

    @property
    def journal(self) -> Journal:
        """Return the journal, to append to and to read."""
        return Journal(self.path / "journal.jsonl")

    @property
    def seal(self) -> Path:
        """Return the file that says where the journal ended."""
        return self.path / "seal.json"

    @property
    def properties(self) -> Path:
        """Return the replicator's file."""
        return self.path / "mirror.properties"

    @property
    def direct(self) -> Path:
        """Return the file that leads around the links."""
        return self.path / "direct.properties"

    @property
    def ledger(self) -> Path:
        """Return the folder of the ledger."""
        return self.path / "ledger"

    @property
    def logs(self) -> Path:
        """Return the folder of processes and their logs."""
        return self.path / "logs"

    @property
    def lab(self) -> Path:
        """Return the folder of the clusters."""
        return self.path / "lab"

    @property
    def proof(self) -> Path:
        """Return the folder for what is read of the logs."""
        return self.path / "proof"

    @property
    def verdict(self) -> Path:
        """Return the file of the verdict."""
        return self.path / "verdict.json"
