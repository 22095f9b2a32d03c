"""The directory of one failover, failback or migration on one's own clusters: made once, taken up by the same command.

::

    <directory>/
      run.json               what was started: procedure, flow, mode, groups, fence, run
      run.lock               held by the process that carries it out
      journal.jsonl          what happened (mirror.evidence.journal)
      seal.json              where the journal ended
      groups-before-N.json   the positions of groups before they were changed, for mirror groups --restore;
                             groups-put-back-N.json once that is taken back
      compared.json          of a failback: what was found equal before the applications were stopped
      fence.json             what denies writes to the source; fence.json.lifted once that is taken back
      failback/              the failback of this failover
      groups.json            of a migration: its groups, in their order
      group-NNN/             of a migration: a group's own journal, seal.json and positions before
"""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from mirror.config.errors import ConfigError
from mirror.evidence.facts import FactError
from mirror.evidence.run_directory import RunDirectory, RunInUse, read_json, write_json
from mirror.evidence.seals import end_problem, seal_end
from mirror.model.flow import Flow

_YES, _NO = "yes", "no"
FAILOVER, FAILBACK, MIGRATION = "failover", "failback", "migration"
_RUNS = Path("runs")
# All that is there when a process was killed that had just begun.
_LOCK = "run.lock"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a run is about; one that is taken up must be about the same.

    Attributes
    ----------
    flow
        the flow that is failed over; of a failback too.
    groups
        the regular expression of the groups.
    fence
        whether a failover denies writes to the source by ACLs.
    """

    procedure: str
    flow: Flow
    mode: str
    groups: str
    fence: bool = False

    def facts(self) -> Mapping[str, str]:
        """Return what ``run.json`` holds of it."""
        return {
            "procedure": self.procedure,
            "flow": str(self.flow),
            "mode": self.mode,
            "groups": self.groups,
            "fence": _YES if self.fence else _NO,
        }


@dataclass(frozen=True, slots=True)
class Run:
    """A run that was made, or is taken up.

    Attributes
    ----------
    run
        tells it from all others.
    is_new
        whether its directory is still to be made.
    """

    directory: RunDirectory
    wanted: Wanted
    run: str
    is_new: bool

    @property
    def where(self) -> str:
        """Return the machine and the directory, in words for people."""
        return f"run directory {self.directory.path} on {socket.gethostname()}"

    @classmethod
    def of(cls, path: Path | None, wanted: Wanted) -> Run:
        """Return the run in ``path``, or one that will be made there, or in a new folder of ``runs``; makes nothing.

        Raises
        ------
        ConfigError
            if there is another run in it, or something else.
        """
        if path is None:
            stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
            name = f"{stamp}-{wanted.procedure}-{wanted.flow.source}-{wanted.flow.target}"
            return cls(RunDirectory((_RUNS / name).absolute()), wanted, uuid.uuid4().hex, is_new=True)
        directory = RunDirectory(path.absolute())
        if not directory.run_json.exists():
            if path.exists() and not (path.is_dir() and all(map(_is_of_a_beginning, path.iterdir()))):
                raise ConfigError(path, None, "--run-directory", "is not empty, and has no run.json: name another one")
            return cls(directory, wanted, uuid.uuid4().hex, is_new=True)
        found = read_run(path)
        for name, value in wanted.facts().items():
            if found[name] != value:
                raise ConfigError(path, None, f"--{name}", f"its run is of {name} {found[name]}, not {value}")
        _require_whole(directory)
        return cls(directory, wanted, found["run"], is_new=False)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make its directory, if it is new, and hold it; it falls with the process.

        Raises
        ------
        ConfigError
            if it cannot be written, or another process holds it.
        """
        path = self.directory.path
        try:
            path.mkdir(parents=True, exist_ok=True)
            with self.directory.owned():
                # It may have been held before by this process, and left when somebody interrupted it.
                if self.is_new and self.directory.run_json.exists():
                    if read_run(path)["run"] != self.run:
                        raise ConfigError(path, None, "--run-directory", "another run has begun here meanwhile")
                elif self.is_new:
                    write_json(self.directory.run_json, {**self.wanted.facts(), "run": self.run})
                yield
        except RunInUse as in_use:
            raise ConfigError(path, None, "--run-directory", f"a run is under way: {in_use}") from None

    def seal(self) -> None:
        """Write down where the journal has ended."""
        entries = self.directory.journal.read().entries
        if entries:
            seal_end(self.directory.seal, entries[-1])


def _is_of_a_beginning(path: Path) -> bool:
    """Tell whether a file is what a process leaves that was killed before it had written down what its run is about."""
    return path.name == _LOCK or path.name.startswith(f".{RunDirectory(path.parent).run_json.name}.")


def read_run(path: Path) -> Mapping[str, str]:
    """Return what the run in a directory is about, and what it is called (``run``).

    Raises
    ------
    ConfigError
        if it is none of this procedure.
    """
    directory = RunDirectory(path.absolute())
    try:
        found: dict[str, str] = asdict(read_json(directory.run_json).read(_Begun))
    except (FactError, OSError) as error:
        message = f"is not the directory of a failover, a failback or a migration: {error}"
        raise ConfigError(path, None, "--run-directory", message) from None
    return found


@dataclass(frozen=True, slots=True)
class _Begun:
    """What ``run.json`` says of a run; earlier versions denied nothing, and did not say so."""

    procedure: str
    flow: str
    mode: str
    groups: str
    run: str
    fence: str = _NO


def is_fencing(found: Mapping[str, str]) -> bool:
    """Tell whether the run that `read_run` has found denies writes to the source."""
    return found.get("fence") == _YES


def _require_whole(directory: RunDirectory) -> None:
    reading = directory.journal.read()
    # Without its journal, or with an empty one, a run that has a sealed end would pass for one that has done nothing.
    problem = end_problem(directory.seal, reading) or (reading.problem if reading.entries else None)
    if problem is not None:
        raise ConfigError(directory.path, None, "--run-directory", f"nothing can be taken up from it: {problem}")
