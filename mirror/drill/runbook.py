"""A runbook as a value: steps with gates, budgets and a point of no return; the pure rules of resuming a run."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from mirror.drill.conditions import Condition
from mirror.drill.gates import Gate
from mirror.evidence.refusal import Refused
from mirror.evidence.run_model import ParameterValue
from mirror.model.verdict import Verdict

__all__ = ["Parameter", "Runbook", "Step"]

RUN_DIRECTORY_PARAMETER = "run_directory"
"""The parameter every notebook gets: the directory of the run, as text."""


class ParameterRefused(Refused):
    """A parameter of a runbook is unknown or has a value of the wrong type; the message says which are known."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value that whoever starts a run may choose; its type is that of the default.

    Attributes
    ----------
    unit
        what the number counts (``records/s``), empty where there is nothing to count.
    is_required
        whether it must be given: the default is no value to run with.
    least
        of a number: what it must not be below.
    choices
        of a text: the only values there are; none: any text.
    """

    name: str
    default: ParameterValue
    unit: str
    help: str
    is_required: bool = False
    least: float = 0.0
    choices: tuple[str, ...] = ()

    def problem(self, value: ParameterValue) -> str | None:
        """Return what is wrong with a value of the default's type, for people; None if nothing is."""
        if isinstance(value, int | float) and not isinstance(value, bool) and not self.least <= value < math.inf:
            return f"parameter {self.name}: expected a number from {self.least:g} on, got {value!r}"
        if self.choices and value not in self.choices:
            return f"parameter {self.name}: expected {' or '.join(self.choices)}, got {value!r}"
        return None

    def parse(self, text: str) -> ParameterValue:
        """Read a value from a command line.

        Raises
        ------
        ParameterRefused
            if the text is not of the default's type.
        """
        try:
            match self.default:
                case bool():
                    return {"true": True, "false": False}[text.lower()]
                case int():
                    return int(text.replace("_", ""))
                case float():
                    return float(text)
                case _:
                    return text
        except (ValueError, KeyError):
            kind = {bool: "true or false", int: "a whole number", float: "a number"}[type(self.default)]
            raise ParameterRefused(f"parameter {self.name}: expected {kind}, got {text!r}") from None


@dataclass(frozen=True, slots=True)
class Step:
    """One step: a notebook with its preconditions and limits.

    Attributes
    ----------
    name
        a verb or noun in snake_case; ``outcomes/<name>.json`` is what the notebook must write.
    notebook
        file name in the folder of notebooks.
    gates
        all must pass before the notebook is started.
    budget_seconds
        time after which the notebook is stopped and the step is UNKNOWN.
    undo
        what takes the step's effects back, for people.
    parameters
        the runbook's parameters this notebook is given, beside ``run_directory``.
    point_of_no_return
        whether the step does something that cannot be taken back; named before it begins.
    point_in_time
        whether its result holds only while the run lasts (clusters started, a process running): at a resume such a
        step is run again even though it passed, as long as the point of no return lies ahead.
    """

    name: str
    notebook: str
    title: str
    gates: tuple[Gate, ...]
    budget_seconds: float
    undo: str
    parameters: tuple[str, ...] = ()
    point_of_no_return: bool = False
    point_in_time: bool = False


@dataclass(frozen=True, slots=True)
class Runbook:
    """A procedure: steps in the order in which they are run.

    Raises
    ------
    ValueError
        if names repeat, or a step asks for a parameter that the runbook does not have, or a parameter reaches no step.
    """

    name: str
    title: str
    purpose: str
    steps: tuple[Step, ...]
    parameters: tuple[Parameter, ...] = ()
    conditions: tuple[Condition, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a runbook that could not be run as it is written."""
        _refuse_repeats(f"runbook {self.name}: step", [step.name for step in self.steps])
        _refuse_repeats(f"runbook {self.name}: parameter", [parameter.name for parameter in self.parameters])
        known = {parameter.name for parameter in self.parameters}
        asked = {name for step in self.steps for name in step.parameters}
        for name in sorted(asked - known):
            raise ValueError(
                f"runbook {self.name}: a step asks for parameter {name!r}, which the runbook does not have"
            )
        for name in sorted(known - asked):
            raise ValueError(f"runbook {self.name}: parameter {name!r} reaches no step")

    def step(self, name: str) -> Step:
        """Return a step by its name.

        Raises
        ------
        KeyError
            naming the steps there are.
        """
        for step in self.steps:
            if step.name == name:
                return step
        raise KeyError(
            f"runbook {self.name} has no step {name!r}; its steps are {', '.join(s.name for s in self.steps)}"
        )

    def values(self, given: Mapping[str, ParameterValue]) -> dict[str, ParameterValue]:
        """Return every parameter's value: as given, or the default.

        Raises
        ------
        ParameterRefused
            for an unknown name or a value of another type than the default's (a whole number may stand for a number).
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        values: dict[str, ParameterValue] = {name: parameter.default for name, parameter in known.items()}
        for name, value in given.items():
            if name not in known:
                raise ParameterRefused(
                    f"runbook {self.name} has no parameter {name!r}; it has {', '.join(known) or 'none'}"
                )
            wanted = type(known[name].default)
            if type(value) is not wanted and not (wanted is float and type(value) is int):
                raise ParameterRefused(f"parameter {name}: expected {wanted.__name__}, got {value!r}")
            values[name] = wanted(value)
        return values

    def checked(self, given: Mapping[str, ParameterValue]) -> dict[str, ParameterValue]:
        """Return every parameter's value, with which a run may begin.

        Raises
        ------
        ParameterRefused
            as :meth:`values`; for a required parameter that was not given, a value out of its bounds, and where a
            condition does not hold.
        """
        values = self.values(given)
        for parameter in self.parameters:
            if parameter.is_required and values[parameter.name] == parameter.default:
                raise ParameterRefused(f"parameter {parameter.name} is missing: {parameter.help}")
        of_values = (parameter.problem(values[parameter.name]) for parameter in self.parameters)
        for problem in (*of_values, *(condition.problem(values) for condition in self.conditions)):
            if problem is not None:
                raise ParameterRefused(problem)
        return values

    def parse(self, assignments: Collection[str]) -> dict[str, ParameterValue]:
        """Read ``key=value`` texts of a command line; return the values given.

        Raises
        ------
        ParameterRefused
            for a text without ``=``, an unknown name, or a value of the wrong type.
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        given: dict[str, ParameterValue] = {}
        for assignment in assignments:
            name, equals, text = assignment.partition("=")
            if not equals:
                raise ParameterRefused(f"a parameter is written NAME=VALUE, got {assignment!r}")
            if name not in known:
                raise ParameterRefused(
                    f"runbook {self.name} has no parameter {name!r}; it has {', '.join(known) or 'none'}"
                )
            given[name] = known[name].parse(text)
        return given


def _refuse_repeats(what: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{what} {name!r} is there more than once")


class Decision(StrEnum):
    """Whether a step is run or passed over."""

    RUN = "run"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step of a plan, with the decision and why."""

    step: Step
    decision: Decision
    reason: str


def plan_steps(
    runbook: Runbook,
    verdicts: Mapping[str, Verdict],
    *,
    crossed: Collection[str] = (),
    recheck: Collection[str] = (),
) -> tuple[PlannedStep, ...]:
    """Decide which steps to run: those that have not passed, and those whose PASS may no longer hold.

    Parameters
    ----------
    verdicts
        verdict of every step that has an outcome.
    crossed
        names of steps whose point of no return has been crossed.
    recheck
        names of steps to run again although they passed.

    Notes
    -----
    * A step that has not passed is run, and so is every step after it: they were judged on another ground.
    * Before any point of no return has been crossed, a passed step that is ``point_in_time`` is run again; those
      after it are not, for what they proved (counts, contents) still holds.
    * After it, nothing that passed is run again unless asked for by ``recheck``: setting up anew what a fault has just
      broken would destroy evidence.
    """
    planned: list[PlannedStep] = []
    broken: str | None = None
    for step in runbook.steps:
        verdict = verdicts.get(step.name)
        if broken is not None:
            planned.append(PlannedStep(step, Decision.RUN, f"comes after {broken}, which has not passed"))
        elif verdict is not Verdict.PASS:
            broken = step.name
            reason = "has not been run" if verdict is None else f"ended {verdict} before"
            planned.append(PlannedStep(step, Decision.RUN, reason))
        elif step.name in recheck:
            planned.append(PlannedStep(step, Decision.RUN, "passed before; a re-check was asked for"))
        elif step.point_in_time and not crossed:
            planned.append(PlannedStep(step, Decision.RUN, "passed before, but its result may no longer hold"))
        else:
            planned.append(PlannedStep(step, Decision.SKIP, "passed before"))
    return tuple(planned)
