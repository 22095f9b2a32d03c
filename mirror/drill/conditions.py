"""What must hold of a run's parameters before it begins: looked at before anything is made, in a dry run too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mirror.config.errors import ConfigError
from mirror.config.resolving import load
from mirror.config.settings import FlowSettings, MirrorSettings
from mirror.evidence.refusal import Refused
from mirror.recovery.applications import Commands

__all__ = ["GroupPattern"]


class Condition(Protocol):
    """A condition on the values of parameters."""

    def problem(self, values: Mapping[str, object]) -> str | None:
        """Return what is wrong with them, for people; None if nothing is."""
        ...


class FlowRefused(Refused):
    """The properties file has no such flow; says which it has."""


@dataclass(frozen=True, slots=True)
class FlowOfFile:
    """One parameter names a properties file by its whole path, another one of its flows, or nothing if it has one.

    Notebooks do not run where the run was started, so the path must be whole. ``practice`` is the parameter that has
    the run make clusters of its own, and the file with them; None: the runbook has none.
    """

    file: str
    flow: str
    practice: str | None = None

    def problem(self, values: Mapping[str, object]) -> str | None:
        """Read the file, and look for the flow."""
        if self.practice is not None and values[self.practice]:
            given = [name for name in (self.file, self.flow) if values[name]]
            return f"parameter {given[0]}: {self.practice}=true makes clusters of its own" if given else None
        if self.practice is not None and not values[self.file]:
            return f"parameter {self.file} is missing: give the mirror's properties file, or {self.practice}=true"
        path = Path(str(values[self.file]))
        if not path.is_absolute():
            return f"parameter {self.file}: {path} is not a whole path; try {path.absolute()}"
        try:
            flow_of_file(load(path), str(values[self.flow]))
        except ConfigError as problem:
            return f"parameter {self.file}: {problem}"
        except FlowRefused as problem:
            return f"parameter {self.flow}: {problem}"
        return None


@dataclass(frozen=True, slots=True)
class GroupPattern:
    """A parameter is a regular expression; the empty one is that of no group."""

    name: str

    def problem(self, values: Mapping[str, object]) -> str | None:
        """Compile it."""
        if not values[self.name]:
            return f"parameter {self.name} is empty: give a regular expression, .* for all groups"
        try:
            re.compile(str(values[self.name]))
        except re.error as wrong:
            return f"parameter {self.name}: {values[self.name]!r} is no regular expression: {wrong}"
        return None


@dataclass(frozen=True, slots=True)
class ApplicationsOfFile:
    """A parameter names a file of commands for the applications of the flow (`FlowOfFile`), or nothing.

    ``source`` and ``target`` are the commands that it must have for the flow's clusters.
    """

    name: str
    of: FlowOfFile
    source: tuple[str, ...] = ()
    target: tuple[str, ...] = ()

    def problem(self, values: Mapping[str, object]) -> str | None:
        """Read the file, for the clusters of the flow."""
        if not values[self.name]:
            return None
        if self.of.practice is not None and values[self.of.practice]:
            return f"parameter {self.name}: {self.of.practice}=true has applications of its own"
        path = Path(str(values[self.name]))
        if not path.is_absolute():
            return f"parameter {self.name}: {path} is not a whole path; try {path.absolute()}"
        flow = flow_of_file(load(Path(str(values[self.of.file]))), str(values[self.of.flow])).flow
        try:
            commands = Commands.load(path, str(flow), (flow.source, flow.target))
        except ConfigError as problem:
            return f"parameter {self.name}: {problem}"
        lacking = commands.lacking({flow.source: self.source, flow.target: self.target})
        return f"parameter {self.name}: {path} lacks {', '.join(lacking)}" if lacking else None


def flow_of_file(settings: MirrorSettings, name: str) -> FlowSettings:
    """Return the enabled flow of that name; an empty name is the only one there is.

    Raises
    ------
    FlowRefused
        if there is no such flow, or several and none was named.
    """
    known = {str(each.flow): each for each in settings.enabled_flows}
    chosen = name or (next(iter(known)) if len(known) == 1 else "")
    if chosen not in known:
        raise FlowRefused(f"{settings.path} has the flows {', '.join(known)}; give one of them as flow, not {name!r}")
    return known[chosen]
