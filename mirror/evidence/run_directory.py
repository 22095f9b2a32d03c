"""The directory of a run: where everything a run leaves behind has its place.

::

    runs/<utc>-<runbook>/
      run.json            what was started: runbook, steps, parameters, environment
      run.lock            held by the process that is running the runbook
      journal.jsonl       what happened (mirror.evidence.journal)
      seal.json           where the journal ended when the run was finished (mirror.evidence.seals)
      notebooks/          executed notebooks and their HTML pages; earlier/ keeps those of earlier attempts
      outcomes/           <step>.json, one a step; earlier/ keeps those of earlier attempts
      ledger/ plots/ logs/ lab/
      lag.jsonl           samples of replication lag
      mirror.properties   the file the mirror ran from
      practice.json       clusters, topics and groups that were made for the run
      failover/ failback/ runs of the procedure (mirror.recovery.run), each with a journal of its own
      report.html         the page to read first
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from mirror.atomic_file import write_atomically
from mirror.evidence.digests import seal_of_text
from mirror.evidence.facts import FactError, Facts, Json, plain
from mirror.evidence.journal import Event, Journal
from mirror.evidence.outcome import Outcome
from mirror.evidence.refusal import Refused

_FOLDERS = ("notebooks", "outcomes", "ledger", "plots", "logs", "lab")


class NotARunDirectory(Refused):
    """The directory was not made by a run; the message says what is missing in it."""


class RunInUse(Refused):
    """Another process is running this runbook in the same directory."""


class PathWithin:
    """The path of what has this name in a directory of ours."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, directory: Any, _: type) -> Path:
        path: Path = directory.path
        return path / self._name


@dataclass(frozen=True, slots=True)
class RunFiles:
    """What the directory of every run has, of a runbook or a scenario."""

    path: Path

    @property
    def journal(self) -> Journal:
        """Return the journal, to append to and to read."""
        return Journal(self.path / "journal.jsonl")

    seal = PathWithin("seal.json")
    """The file that says where the journal ended."""
    ledger = PathWithin("ledger")
    """The folder of the ledger's Parquet parts (``sends/``, ``reads/``)."""
    logs = PathWithin("logs")
    """The folder for logs of processes."""
    lab = PathWithin("lab")
    """The folder of the practice clusters: their state and data."""


@dataclass(frozen=True, slots=True)
class RunDirectory(RunFiles):
    """The paths of one run of a runbook, and the reading and writing of its outcomes."""

    @classmethod
    def create(cls, runs: Path, runbook: str, *, started_at: datetime | None = None) -> RunDirectory:
        """Create ``runs/<utc>-<runbook>/`` with its folders.

        A second run started in the same second gets ``-2``, ``-3``, ... at its end.
        """
        path = new_folder(runs, runbook, started_at or datetime.now(UTC))
        for folder in _FOLDERS:
            (path / folder).mkdir()
        return cls(path)

    @classmethod
    def open(cls, path: Path | str) -> RunDirectory:
        """Return the run in ``path``.

        Raises
        ------
        NotARunDirectory
            if there is no ``run.json`` in it.
        """
        directory = cls(Path(path).absolute())
        if not directory.run_json.is_file():
            raise NotARunDirectory(f"{path} is not the directory of a run: it has no {directory.run_json.name}")
        return directory

    @property
    def name(self) -> str:
        """Return the directory's name, which names the run."""
        return self.path.name

    run_json = PathWithin("run.json")
    """The file that says what was started."""
    notebooks = PathWithin("notebooks")
    """The folder of executed notebooks and their pages."""
    outcomes = PathWithin("outcomes")
    """The folder of outcomes."""
    lag = PathWithin("lag.jsonl")
    """The file of lag samples, one JSON object a line."""
    mirror_properties = PathWithin("mirror.properties")
    """The properties file the mirror runs from."""
    practice = PathWithin("practice.json")
    """The file that says what was made for the run to practise on."""

    @property
    def procedures(self) -> tuple[Path, ...]:
        """Return the journals of the runs of the procedure that are kept in this one, in the order of their names.

        Of a migration those of its groups too.
        """
        kept = ("fail*", "fail*/fail*", "migration", "migration/group-*")
        return tuple(sorted({found for each in kept for found in self.path.glob(f"{each}/journal.jsonl")}))

    report = PathWithin("report.html")
    """The one-page report."""

    def outcome_path(self, step: str) -> Path:
        """Return the file of a step's outcome."""
        return self.outcomes / f"{step}.json"

    def write_outcome(self, outcome: Outcome) -> Path:
        """Seal ``outcomes/<step>.json`` in the journal and write it, whole or not at all; return its path."""
        path = self.outcome_path(outcome.step)
        text = json_text(outcome.as_json(), path.name)
        files = {str(path.relative_to(self.path)): seal_of_text(text)}
        self.journal.append(Event.EVIDENCE_SEALED, step=outcome.step, facts={"files": files})
        write_atomically(path, text)
        return path

    def read_outcome(self, step: str) -> Outcome | None:
        """Return a step's outcome, or None when the step has not written one.

        Raises
        ------
        FactError
            if the file is there but is not an outcome.
        """
        path = self.outcome_path(step)
        if not path.exists():
            return None
        return read_json(path).read(Outcome)

    def conclude(self, outcome: Outcome) -> None:
        """Write a step's outcome, then raise unless it is PASS: a notebook's last call.

        Raises
        ------
        StepNotPassed
            with the verdict and its reasons, after they have been written.
        """
        self.write_outcome(outcome)
        outcome.require()

    def set_aside(self, path: Path) -> Path | None:
        """Move a file of an earlier attempt to ``earlier/`` beside it; return where, or None if there was none."""
        if not path.exists():
            return None
        earlier = path.parent / "earlier"
        earlier.mkdir(exist_ok=True)
        attempt = 1 + sum(1 for _ in earlier.glob(f"{path.stem}-*{path.suffix}"))
        return path.rename(earlier / f"{path.stem}-{attempt}{path.suffix}")

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Hold the run's lock; it falls with the process.

        Raises
        ------
        RunInUse
            if another process holds it.
        """
        with (self.path / "run.lock").open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise RunInUse(f"{self.path} is being run by process {file.read().strip() or 'unknown'}") from None
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            yield


def new_folder(runs: Path, name: str, at: datetime) -> Path:
    """Make ``runs/<utc>-<name>/``, with ``-2``, ``-3``, ... at its end where that is there already; return its path."""
    runs.mkdir(parents=True, exist_ok=True)
    path = first = runs.absolute() / f"{at.astimezone(UTC):%Y%m%dT%H%M%SZ}-{name}"
    for attempt in count(2):
        try:
            path.mkdir()
        except FileExistsError:
            path = first.with_name(f"{first.name}-{attempt}")
        else:
            break
    return path


def write_json(path: Path, document: object) -> None:
    """Write a record, or a mapping, as a JSON file, forced to disk, whole or not at all."""
    write_atomically(path, json_text(document, path.name))


def json_text(document: object, name: str) -> str:
    """Return what a JSON file of that name is to hold."""
    return json.dumps(plain(document, name), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read_json(path: Path) -> Facts:
    """Read a JSON object from a file.

    Raises
    ------
    FactError
        naming the file, if it is not JSON or not an object.
    """
    try:
        document: Json = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as unreadable:
        raise FactError(f"{path}: not JSON: {unreadable}") from None
    return Facts.of(document, f"{path.parent.name}/{path.name}")
