"""Folders of definitions: Python files that each define one value; runbooks are found so, and scenarios.

The package does not import these folders; it loads a file of them by path.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import mirror
from mirror.evidence.refusal import Refused


class Named(Protocol):
    """What a file defines has a name, which is the file's."""

    @property
    def name(self) -> str:
        """Return the name, with dashes where the file has underscores."""


T = TypeVar("T", bound=Named)

_DISTRIBUTION = "mirrorbook"


def came_with_the_program() -> Path:
    """Return the folder of notebooks, runbooks and scenarios: a checkout's top, or ``share/mirrorbook`` of a wheel.

    Where a wheel's data go, its own record knows: it differs between an environment, a user's and a system's packages.
    """
    with contextlib.suppress(PackageNotFoundError):
        for each in distribution(_DISTRIBUTION).files or ():
            if each.parent.name == "notebooks" and each.parent.parent.name == _DISTRIBUTION:
                return Path(str(each.locate())).resolve().parent.parent
    return Path(mirror.__file__).parent.parent


class DefinitionNotFound(Refused):
    """There is no such definition, or no folder of them; the message says where was looked and what there is."""


class DefinitionRefused(Refused):
    """A file cannot be loaded; the message names it and what is wrong in it."""


@dataclass(frozen=True, slots=True)
class DefinitionKind(Generic[T]):
    """What a folder's files define.

    Attributes
    ----------
    noun
        what one is called: ``runbook``; the folder has the plural, the value in a file the capitals.
    type
        what it must be.
    """

    noun: str
    type: type[T]

    @property
    def folder_name(self) -> str:
        """What the folder is called."""
        return f"{self.noun}s"

    def folder(self, asked: Path | None = None) -> Path:
        """Return the folder: the one asked for, else the one here, beside this folder, or that came with the program.

        Raises
        ------
        DefinitionNotFound
            saying where was looked.
        """
        # A notebook runs in its own folder, beside which the others are.
        near = [Path.cwd(), Path.cwd().parent, came_with_the_program()]
        places = [asked] if asked else [folder / self.folder_name for folder in near]
        for place in places:
            if place.is_dir():
                return place.absolute()
        looked = " and ".join(dict.fromkeys(str(place.absolute()) for place in places))
        raise DefinitionNotFound(
            f"no folder of {self.folder_name}: looked for {looked}; say where it is with --{self.folder_name} PATH"
        )

    def files(self, folder: Path) -> Sequence[Path]:
        """Return the files, sorted; names that begin with an underscore are not definitions."""
        return sorted(path for path in folder.glob("*.py") if not path.name.startswith("_"))

    def path(self, name: str, folder: Path) -> Path:
        """Return the file of a definition, by its name (``failover-drill`` or ``failover_drill``).

        Raises
        ------
        DefinitionNotFound
            naming those there are.
        """
        files = {file.stem: file for file in self.files(folder)}
        # A name may come from a file of somebody else's: it never becomes a path.
        path = files.get(name.replace("-", "_"))
        if path is None:
            there = ", ".join(stem.replace("_", "-") for stem in files) or "none"
            raise DefinitionNotFound(f"no {self.noun} {name!r} in {folder}; there is: {there}")
        return path

    def load(self, path: Path) -> T:
        """Load a file.

        Raises
        ------
        DefinitionRefused
            if the file raises, or does not define the value, or the name inside is not the file's.
        """
        specification = importlib.util.spec_from_file_location(f"{self.noun}_{path.stem}", path)
        if specification is None or specification.loader is None:
            raise DefinitionRefused(f"{path}: not a Python file")
        module = importlib.util.module_from_spec(specification)
        sys.modules[specification.name] = module  # dataclasses look their module up while they are made
        try:
            specification.loader.exec_module(module)
        except Exception as failure:
            raise DefinitionRefused(f"{path}: {type(failure).__name__}: {failure}") from failure
        found = getattr(module, self.noun.upper(), None)
        if not isinstance(found, self.type):
            wanted = f"{self.type.__module__}.{self.type.__name__}"
            raise DefinitionRefused(f"{path}: defines no {self.noun.upper()} (a {wanted})")
        if found.name.replace("-", "_") != path.stem:
            raise DefinitionRefused(
                f"{path}: the {self.noun} in it is called {found.name!r}; name and file name must agree"
            )
        return found
