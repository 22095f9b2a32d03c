"""What every command does alike: exit codes, errors in one message, the flow that is meant."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from mirror.commands.output import err
from mirror.config.errors import ConfigError
from mirror.config.settings import FlowSettings, MirrorSettings
from mirror.engine.refusals import NotReachable, not_reachable, unusable
from mirror.kafka.problems import (
    ConnectionFailed,
    KafkaProblem,
)
from mirror.kafka.security import UnsupportedSetting
from mirror.model.flow import Flow
from mirror.model.verdict import Verdict
from mirror.no_spark import SparkDidNotStart, SparkFailed

VERDICT_NOT_PASS, BAD_USAGE, COULD_NOT_START, PART_ENDED = 1, 2, 3, 4


STANDARD_ERROR = 2


def interruptible(perform: Callable[[], int]) -> int:
    """Return the exit code of a run; what is interrupted before it has begun has done nothing."""
    try:
        return perform()
    except KeyboardInterrupt:
        err.print("Interrupted while it was planned: nothing was done by this command.", markup=False)
        return VERDICT_NOT_PASS


@contextmanager
def errors_explained(file: Path) -> Iterator[None]:
    """Turn what can be wrong with a file or a cluster into one message, with its place there, and an exit code."""
    try:
        yield
    except NotReachable as error:
        message, code = str(error), COULD_NOT_START
    except UnsupportedSetting as error:
        message, code = str(unusable(file, error)), BAD_USAGE
    except (ConfigError, FileNotFoundError) as error:
        message, code = str(error), BAD_USAGE
    except ConnectionFailed as error:
        message, code = str(not_reachable(file, error)), COULD_NOT_START
    except (KafkaProblem, SparkDidNotStart, SparkFailed) as error:
        message, code = str(error), COULD_NOT_START
    else:
        return
    err.print(message, style="red", markup=False)
    raise typer.Exit(code)


def verdict_of_change(refused: Sequence[object], *, is_unproven: bool) -> Verdict:
    """Return FAIL if something was refused, UNKNOWN if nothing was proven, else PASS."""
    return Verdict.FAIL if refused else Verdict.UNKNOWN if is_unproven else Verdict.PASS


def current_user(file: Path) -> str:
    """Return who runs this.

    Raises
    ------
    ConfigError
        if the system does not know.
    """
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise ConfigError(file, None, "--by", "the system does not know your name; say who you are") from None


def flow_meant(settings: MirrorSettings, name: str | None) -> FlowSettings:
    """Return the flow called ``name``, or the only one.

    Raises
    ------
    ConfigError
        if there is no such flow, or several and none was named.
    """
    enabled = {flow.flow: flow for flow in settings.enabled_flows}
    if name is None and len(enabled) == 1:
        return next(iter(enabled.values()))
    known = ", ".join(map(str, enabled))
    if name is None:
        raise ConfigError(settings.path, None, "--flow", f"name one of the enabled flows: {known}")
    try:
        return enabled[Flow.parse(name)]
    except (KeyError, ValueError):
        # Of east->west a shell leaves east-, and writes what is printed to a file called west.
        hint = "; quote it, as in --flow 'A->B': a shell takes > for a redirection" if name.endswith("-") else ""
        message = f"{name} is not an enabled flow; there are {known}{hint}"
        raise ConfigError(settings.path, None, "--flow", message) from None
