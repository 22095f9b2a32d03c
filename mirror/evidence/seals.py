"""Seals: what a run has left behind is named in its journal with its digest, so that who touches it is noticed.

An entry ``evidence_sealed`` names files with size and digest. An outcome is sealed before it is written, so that at no
time it could be exchanged; notebooks, their pages and parts of the ledger when they are complete, each part once. The
end is sealed in another file: ``seal.json`` holds how many entries the journal had when the run was finished, and the
hash of the last. A run that was killed has an older one, or none, and can be resumed as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from mirror.evidence.digests import seal_of
from mirror.evidence.facts import FactError
from mirror.evidence.journal import Entry, Event, Journal, JournalReading
from mirror.evidence.run_directory import RunDirectory, read_json, write_json

# How far a run went that was not stopped.
_COMPLETED = "completed"


class Wrong(StrEnum):
    """What is wrong with a file that is sealed, or should be."""

    ALTERED = "altered"
    """It holds something that was never sealed."""
    MISSING = "missing"
    """It is not there."""
    STALE = "of an earlier attempt"
    """It is what it once was, and another has been sealed since, or a new attempt begun."""
    UNSEALED = "not in the journal"
    """An outcome that nobody has sealed, or samples or a part of the ledger that came when the run was over."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A file of a run, by its path there, and what is wrong with it."""

    file: str
    wrong: Wrong

    def __str__(self) -> str:
        """Return one line for people."""
        return f"evidence {self.wrong}: {self.file}"


@dataclass(frozen=True, slots=True)
class Seal:
    """The seals of one file: the one that counts, None when a new attempt has begun, and those before."""

    step: str | None
    current: str | None
    earlier: frozenset[str] = frozenset()

    def voided(self) -> Seal:
        """Return it when a new attempt begins."""
        return Seal(self.step, None, self.earlier | ({self.current} if self.current else frozenset()))


def seals(entries: Iterable[Entry], ledger: str = "ledger/") -> dict[str, Seal]:
    """Return the seals of all files by their paths in the run; those of the ledger outlast the step that made them."""
    found: dict[str, Seal] = {}
    for entry in entries:
        if entry.event is Event.STEP_STARTED:
            for file, seal in found.items():
                if seal.step == entry.step and not file.startswith(ledger):
                    found[file] = seal.voided()
        elif entry.event is Event.EVIDENCE_SEALED:
            files = entry.facts.get("files")
            for file, content in files.items() if isinstance(files, Mapping) else ():
                before = found.get(file)
                found[file] = Seal(entry.step, str(content), before.voided().earlier if before else frozenset())
    return found


def seal_files(run: RunDirectory, files: Iterable[Path], *, step: str | None = None) -> None:
    """Seal those of ``files`` that are there, and every part of the ledger that is not sealed yet.

    What is sealed already, as it is, stays with the step that has made it.
    """
    known = seals(run.journal.read().entries)
    parts = [part for part in ledger_parts(run.ledger) if str(part.relative_to(run.path)) not in known]
    found = {str(path.relative_to(run.path)): seal_of(path) for path in (*files, *parts) if path.is_file()}
    fresh = {file: seal for file, seal in found.items() if file not in known or known[file].current != seal}
    if fresh:
        run.journal.append(Event.EVIDENCE_SEALED, step=step, facts={"files": fresh})


def seal_end(path: Path, last: Entry) -> None:
    """Write down, beside the journal, where it ended."""
    write_json(path, _End(last.n, last.hash))


def end_problem(path: Path, reading: JournalReading) -> str | None:
    """Return what is wrong with the end of a journal, by what is written down beside it; None: nothing."""
    if not path.is_file():
        return None
    try:
        end = _sealed_end(path)
    except (FactError, OSError) as unreadable:
        return f"{path.name} cannot be read: {unreadable}"
    have = len(reading.entries)
    if have < end.entries:
        return f"{reading.path.name} has lost its end: it had {end.entries} entries, and has {have}"
    if end.entries < 1 or reading.entries[end.entries - 1].hash != end.head:
        return f"{reading.path.name} was rewritten: entry {end.entries} is not the one that it ended with"
    return None


def is_finished(path: Path, reading: JournalReading) -> bool:
    """Tell whether a run has come to its end, that end is sealed in ``path``, and nobody has gone on behind it."""
    if not reading.entries or reading.entries[-1].event is not Event.RUN_FINISHED or not path.is_file():
        return False
    try:
        return _sealed_end(path) == _End(reading.entries[-1].n, reading.head)
    except (FactError, OSError):
        return False


@dataclass(frozen=True, slots=True)
class _End:
    """Where a journal ended: how many entries it had, and the hash of the last."""

    entries: int
    head: str


def _sealed_end(path: Path) -> _End:
    return read_json(path).read(_End)


def read_sealed(run: RunDirectory) -> JournalReading:
    """Read the journal of a run; its problem is also what is wrong with its end."""
    return with_end(run.seal, run.journal)


def with_end(path: Path, journal: Journal) -> JournalReading:
    """Read a journal; its problem is also what is wrong with its end."""
    reading = journal.read()
    return reading if reading.problem else reading.with_problem(end_problem(path, reading))


def broken(
    run: RunDirectory, entries: Iterable[Entry], wanted: Callable[[str], bool] = lambda _: True
) -> tuple[Broken, ...]:
    """Return which files are not as they were sealed, of those that are ``wanted``; and what never was.

    That are outcomes, and samples of lag and parts of the ledger once the run was completed: one that was stopped may
    leave applications, whose last parts come later. A file that grows, as the samples do until the run has ended, is
    held against as much as was sealed.
    """
    held = tuple(entries)
    known = seals(held)
    found = _broken(run.path, known, wanted, run.lag)
    is_completed = held and held[-1].event is Event.RUN_FINISHED and held[-1].facts.get("status") in {None, _COMPLETED}
    at_the_end = (*ledger_parts(run.ledger), *filter(Path.is_file, [run.lag])) if is_completed else ()
    unsealed = _unsealed(run.path, (*sorted(run.outcomes.glob("*.json")), *at_the_end), known)
    return (*found, *(each for each in unsealed if wanted(each.file)))


def outside_the_ledger(file: str) -> bool:
    """Tell whether a file is none of the ledger's, which is the larger part of a run."""
    return not file.startswith("ledger/")


def touched(folder: Path, entries: Iterable[Entry]) -> tuple[Broken, ...]:
    """Return which files of a finished run are not as they were sealed, and parts of its ledger that never were."""
    known = seals(entries)
    return (*_broken(folder, known, lambda _: True, None), *_unsealed(folder, ledger_parts(folder / "ledger"), known))


def _unsealed(folder: Path, files: Iterable[Path], known: Container[str]) -> Iterator[Broken]:
    names = (str(path.relative_to(folder)) for path in files)
    return (Broken(name, Wrong.UNSEALED) for name in names if name not in known)


def _broken(
    folder: Path, known: Mapping[str, Seal], wanted: Callable[[str], bool], grows: Path | None
) -> tuple[Broken, ...]:
    return tuple(
        Broken(file, wrong)
        for file, seal in known.items()
        if wanted(file) and (wrong := _wrong(folder / file, seal, grows=folder / file == grows)) is not None
    )


def _wrong(path: Path, seal: Seal, *, grows: bool) -> Wrong | None:
    if not path.is_file():
        return Wrong.MISSING if seal.current else None
    # A notebook is written anew while it runs; only what says how it ended must not be of before.
    if seal.current is None and path.parent.name != "outcomes":
        return None
    length = int(seal.current.partition(":")[0]) if grows and seal.current else None
    content = seal_of(path, length)
    if content == seal.current:
        return None
    return Wrong.STALE if content in seal.earlier else Wrong.ALTERED


def ledger_parts(folder: Path) -> list[Path]:
    """Return the parts of a ledger that are complete."""
    return sorted(folder.glob("*/[!.]*.parquet"))
