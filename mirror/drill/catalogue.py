"""Finding and loading runbooks: Python files that define ``RUNBOOK``, each beside a page of prose of the same name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mirror.definition_files import DefinitionKind
from mirror.drill.runbook import Runbook

RUNBOOKS = DefinitionKind("runbook", Runbook)


@dataclass(frozen=True, slots=True)
class LoadedRunbook:
    """A runbook and where it came from.

    Attributes
    ----------
    source
        the Python file.
    prose
        the page of prose beside it (Markdown); empty when there is none.
    notebooks
        the folder its steps' notebooks are in: ``notebooks`` beside the folder of runbooks.
    """

    runbook: Runbook
    source: Path
    prose: str
    notebooks: Path


def runbooks_folder(asked: Path | None = None) -> Path:
    """Return the folder of runbooks: the one asked for, else the one here, beside this folder, or beside the package.

    Raises
    ------
    DefinitionNotFound
        saying where was looked.
    """
    return RUNBOOKS.folder(asked)


def runbook_files(folder: Path) -> Sequence[Path]:
    """Return the Python files of a folder of runbooks, sorted; names that begin with an underscore are not runbooks."""
    return RUNBOOKS.files(folder)


def find_runbook(name: str, folder: Path) -> LoadedRunbook:
    """Load a runbook by its name (``failover-drill`` or ``failover_drill``).

    Raises
    ------
    DefinitionNotFound
        naming the runbooks there are.
    DefinitionRefused
        if its file cannot be loaded.
    """
    return load_runbook(RUNBOOKS.path(name, folder))


def load_runbook(path: Path) -> LoadedRunbook:
    """Load a runbook's file.

    Raises
    ------
    DefinitionRefused
        if the file raises, or does not define ``RUNBOOK``, or the name inside is not the file's.
    """
    prose = path.with_suffix(".md")
    return LoadedRunbook(
        runbook=RUNBOOKS.load(path),
        source=path,
        prose=prose.read_text(encoding="utf-8") if prose.is_file() else "",
        notebooks=path.parent.parent / "notebooks",
    )
