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

from mirror.evidence.run_directory import PathWithin, RunFiles


@dataclass(frozen=True, slots=True)
class RunFolder(RunFiles):
    """The paths of one run of a scenario."""

    plan = PathWithin("plan.json")
    """The file of the plan."""
    properties = PathWithin("mirror.properties")
    """The replicator's file."""
    direct = PathWithin("direct.properties")
    """The file that leads around the links."""
    proof = PathWithin("proof")
    """The folder for what is read of the logs."""
    verdict = PathWithin("verdict.json")
    """The file of the verdict."""
