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

from mirror.evidence.run_directory import RunFiles


@dataclass(frozen=True, slots=True)
class RunFolder(RunFiles):
    """The paths of one run of a scenario."""

    @property
    def plan(self) -> Path:
        """Return the file of the plan."""
        return self.path / "plan.json"

    @property
    def properties(self) -> Path:
        """Return the replicator's file."""
        return self.path / "mirror.properties"

    @property
    def direct(self) -> Path:
        """Return the file that leads around the links."""
        return self.path / "direct.properties"

    @property
    def proof(self) -> Path:
        """Return the folder for what is read of the logs."""
        return self.path / "proof"

    @property
    def verdict(self) -> Path:
        """Return the file of the verdict."""
        return self.path / "verdict.json"
