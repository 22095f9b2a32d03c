"""What must hold of a run's parameters before it begins: looked at before anything is made, in a dry run too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mirror.config.settings import ConfigError, FlowSettings, MirrorSettings, load
from mirror.evidence.refusal import Refused


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

    Notebooks do not run where the run was started, so the path must be whole.
    """

    file: str
    flow: str

    def problem(self, values: Mapping[str, object]) -> str | None:
        """Read the file, and look for the flow."""
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
