"""Finding and loading runbooks: Python files that define ``RUNBOOK``, each beside a page of prose with the same name.

The package does not import the folder of runbooks; it loads a file of it by path.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import mirror
from mirror.drill.refusal import Refused
from mirror.drill.runbook import Runbook


class RunbookNotFound(Refused):
    """There is no such runbook, or no folder of runbooks; the message says where was looked and what there is."""


class RunbookRefused(Refused):
    """A runbook's file cannot be loaded; the message names the file and what is wrong in it."""


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
    """Return the folder of runbooks: the one asked for, else ``runbooks`` here, else the one beside the package.

    Raises
    ------
    RunbookNotFound
        saying where was looked.
    """
    places = [asked] if asked else [Path("runbooks"), Path(mirror.__file__).parent.parent / "runbooks"]
    for place in places:
        if place.is_dir():
            return place.absolute()
    looked = " and ".join(str(place.absolute()) for place in places)
    raise RunbookNotFound(f"no folder of runbooks: looked for {looked}; say where it is with --runbooks PATH")


def runbook_files(folder: Path) -> Sequence[Path]:
    """Return the Python files of a folder of runbooks, sorted; names that begin with an underscore are not runbooks."""
    return sorted(path for path in folder.glob("*.py") if not path.name.startswith("_"))


def find_runbook(name: str, folder: Path) -> LoadedRunbook:
    """Load a runbook by its name (``failover-drill`` or ``failover_drill``).

    Raises
    ------
    RunbookNotFound
        naming the runbooks there are.
    RunbookRefused
        if its file cannot be loaded.
    """
    path = folder / f"{name.replace('-', '_')}.py"
    if not path.is_file():
        there = ", ".join(file.stem.replace("_", "-") for file in runbook_files(folder)) or "none"
        raise RunbookNotFound(f"no runbook {name!r} in {folder}; there is: {there}")
    return load_runbook(path)


def load_runbook(path: Path) -> LoadedRunbook:
    """Load a runbook's file.

    Raises
    ------
    RunbookRefused
        if the file raises, or does not define ``RUNBOOK``, or the name inside is not the file's.
    """
    specification = importlib.util.spec_from_file_location(f"runbook_{path.stem}", path)
    if specification is None or specification.loader is None:
        raise RunbookRefused(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module  # dataclasses look their module up while they are made
    try:
        specification.loader.exec_module(module)
    except Exception as failure:
        raise RunbookRefused(f"{path}: {type(failure).__name__}: {failure}") from failure
    runbook = getattr(module, "RUNBOOK", None)
    if not isinstance(runbook, Runbook):
        raise RunbookRefused(f"{path}: defines no RUNBOOK (a mirror.drill.runbook.Runbook)")
    if runbook.name.replace("-", "_") != path.stem:
        raise RunbookRefused(f"{path}: the runbook in it is called {runbook.name!r}; name and file name must agree")
    prose = path.with_suffix(".md")
    return LoadedRunbook(
        runbook=runbook,
        source=path,
        prose=prose.read_text(encoding="utf-8") if prose.is_file() else "",
        notebooks=path.parent.parent / "notebooks",
    )
