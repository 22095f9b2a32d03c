"""A procedure as steps that are data: carried out one after the other, each on record, taken up by another process.

A step that has passed is proven and is not done again when the run is taken up; a step that left a moment behind (a
log that had ended, a flow that was paused) has that moment checked. What was under way when a process ended, and what
nobody had looked at, is done again: every step may be, but for those of a moment behind the point of no return. Before
it all of it can be taken back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from mirror.config.errors import ConfigError
from mirror.evidence.facts import Json
from mirror.evidence.journal import Entry, Event, Journal
from mirror.kafka.batch import CorruptBatch, UnsupportedMagic
from mirror.kafka.problems import KafkaProblem
from mirror.kafka.security import UnsupportedSetting
from mirror.model.verdict import Verdict
from mirror.no_spark import SparkDidNotStart, SparkFailed
from mirror.waiting import WaitTimeout

# What clusters, files, Spark and time can do to a step; anything else is a defect and ends the process.
_OPERATIONAL = (
    KafkaProblem,
    WaitTimeout,
    ConfigError,
    OSError,
    UnsupportedSetting,
    CorruptBatch,
    UnsupportedMagic,
    SparkDidNotStart,
    SparkFailed,
)

Known: TypeAlias = Mapping[str, Mapping[str, Json]]
"""What the steps before have found, by their names."""

Moment: TypeAlias = tuple[Event, Mapping[str, Json]]


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a step.

    Attributes
    ----------
    verdict
        PASS; UNKNOWN where nobody has looked, and the procedure goes on; FAIL ends it, unless the step only watches.
    facts
        what later steps, and whoever takes the run up, need to know.
    """

    verdict: Verdict
    detail: str
    facts: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepResult:
    """A step that was carried out, or taken over from an earlier process of the run (``was_proven``)."""

    name: str
    result: Result
    seconds: float
    was_proven: bool = False

    def as_json(self) -> dict[str, Json]:
        """Return the form of ``mirror failover --json``."""
        found = self.result
        return {
            "name": self.name,
            "verdict": found.verdict.value,
            "seconds": round(self.seconds, 3),
            "detail": found.detail,
        }


@dataclass(frozen=True, slots=True)
class Step:
    """One step.

    Attributes
    ----------
    doing
        what it will do, in words for the plan.
    act
        does it.
    drift
        what has changed since it was proven, so that it is not so any more; None: it still is. Without it a step that
        was proven needs no look.
    undo
        takes back what it did, or has begun to do; returns what came of that, which is never FAIL: it raises
        `NotTakenBack`.
    moments
        what the journal says has happened, and when, by what the step has found; nothing of a step that failed.
    is_point_of_no_return
        whether nothing can be taken back from its beginning on.
    holds_on
        whether what it left must still be so behind the point of no return.
    is_of_its_moment
        whether what it has found cannot be found out again behind the point of no return: it stays as it is then, also
        where it was UNKNOWN.
    is_undone_last
        whether it stays until everything behind it is taken back, since taking that back again rests on it.
    only_watches
        whether it waits for something that others do, and what is behind it is right without it: where it fails, the
        steps behind it are carried out all the same.
    concerns
        of a point of no return that is not everybody's: for whom nothing is taken back.
    renews
        the steps before it that are carried out once more, and not taken back, where what it had found is not so any
        more: what they had found does not hold either.
    again
        why a process that finds the run behind the point of no return must not carry it out; None: it may.
    """

    name: str
    doing: str
    act: Callable[[Known], Result]
    drift: Callable[[Mapping[str, Json]], str | None] | None = None
    undo: Callable[[], Result] | None = None
    moments: Callable[[Mapping[str, Json]], Sequence[Moment]] = lambda _: ()
    is_point_of_no_return: bool = False
    holds_on: bool = False
    is_of_its_moment: bool = False
    is_undone_last: bool = False
    only_watches: bool = False
    concerns: Mapping[str, Json] = field(default_factory=dict)
    renews: Sequence[str] = ()
    again: Callable[[Known], str | None] = lambda _: None


def passing(do: Callable[[], str]) -> Callable[[], Result]:
    """Return what does something and has passed with it: what cannot be done raises."""
    return lambda: Result(Verdict.PASS, do())


def when_passed(event: Event) -> Callable[[Mapping[str, Json]], Sequence[Moment]]:
    """Return the one moment of a step: it has passed."""
    return lambda facts: ((event, facts),)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has got, by its journal.

    Attributes
    ----------
    begun
        the steps of which something may have been done.
    proven
        those of them that have passed.
    unknown
        those of which it was not found out whether they have.
    unseen_back
        what came of taking steps back that were, and nobody has seen that.
    """

    begun: frozenset[str]
    proven: Mapping[str, StepResult]
    is_beyond_return: bool
    unknown: Mapping[str, StepResult] = field(default_factory=dict)
    unseen_back: Mapping[str, StepResult] = field(default_factory=dict)

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> Progress:
        """Read it from the entries of a journal."""
        proven: dict[str, StepResult] = {}
        unknown: dict[str, StepResult] = {}
        unseen_back: dict[str, StepResult] = {}
        begun: set[str] = set()
        is_beyond_return = False
        for entry in entries:
            if entry.event is Event.POINT_OF_NO_RETURN:
                is_beyond_return = True
            elif entry.step is None:
                continue
            elif entry.event in (Event.STEP_STARTED, Event.STEP_UNDONE):
                for each in (proven, unknown, unseen_back):
                    each.pop(entry.step, None)
                if entry.event is Event.STEP_STARTED:
                    begun.add(entry.step)
                else:
                    begun.discard(entry.step)
                    # Journals of earlier versions have no verdict here.
                    if entry.facts.get("verdict") == Verdict.UNKNOWN:
                        unseen_back[entry.step] = _result_of(entry)
            elif entry.event is Event.STEP_FINISHED:
                found = _result_of(entry)
                if found.result.verdict is Verdict.PASS:
                    proven[entry.step] = found
                elif found.result.verdict is Verdict.UNKNOWN:
                    unknown[entry.step] = found
        return cls(frozenset(begun), proven, is_beyond_return, unknown, unseen_back)


#: Why a run as a whole is not taken back.
BEYOND_RETURN = "the run has passed the point of no return: only a failback moves the applications back"
#: The fact, in a journal, of a step that could not be taken back, and why.
NOT_TAKEN_BACK = "not_taken_back"
#: The fact of a step that is not this run's any more to take back: by what is on record it stands otherwise.
TAKEN_BY_OTHERS = "taken_by_others"
_TAKEN_BACK = "back"
NOT_BEGUN = Progress(frozenset(), {}, is_beyond_return=False)


def carry_out(
    steps: Sequence[Step],
    journal: Journal,
    *,
    goes_back: bool,
    on_result: Callable[[StepResult], None] = lambda _: None,
    monotonic: Callable[[], float] = time.monotonic,
) -> tuple[StepResult, ...]:
    """Carry the steps out that are not proven yet, up to one that fails and ends it; return what came of each.

    Parameters
    ----------
    goes_back
        whether, when one fails before the point of no return, all that was done is taken back.
    on_result
        is called with each result as it comes.
    """
    under_way = StepsUnderWay(steps, journal, goes_back=goes_back, on_result=on_result, monotonic=monotonic)
    under_way.carry_out()
    return under_way.results


class StepsUnderWay:
    """Steps that one process carries out: all at once, or as far as a step is named, and later on from there.

    Its parameters are those of :func:`carry_out`. What it has seen proven itself it does not look at again.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        journal: Journal,
        *,
        goes_back: bool,
        on_result: Callable[[StepResult], None] = lambda _: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        progress = _progress(journal)
        self._steps = tuple(steps)
        self._journal = journal
        self._goes_back = goes_back
        self._runner = _Runner(journal, on_result, monotonic, set(progress.begun))
        self._proven, self._unknown = dict(progress.proven), progress.unknown
        self._is_beyond = self._was_beyond = progress.is_beyond_return
        self._known: dict[str, Mapping[str, Json]] = {}
        self._next = 0
        self._has_ended = False

    @property
    def results(self) -> tuple[StepResult, ...]:
        """What came of each step so far."""
        return tuple(self._runner.results)

    @property
    def is_over(self) -> bool:
        """Whether no step is left, or one that failed has ended it."""
        return self._has_ended or self._next >= len(self._steps)

    def carry_out(self, through: str | None = None) -> tuple[StepResult, ...]:
        """Carry out what is left, up to and with the step called ``through``; return what came of these steps.

        Nothing is done if it is over, or that step is taken already.
        """
        names = [step.name for step in self._steps]
        end = len(names) if through is None else names.index(through) + 1
        before = len(self._runner.results)
        while self._next < end and not self.is_over:
            self._has_ended = not self._taken(self._steps[self._next])
            self._next += 1
        return self.results[before:]

    def _taken(self, step: Step) -> bool:
        """Take the next step; tell whether the one behind it may be taken."""
        before = self._proven.get(step.name)
        if before is None and self._is_beyond and step.is_of_its_moment:
            before = self._unknown.get(step.name)
        if before is not None:
            drift = _drift_of(step, before, is_beyond_return=self._is_beyond)
            if drift is None:
                self._known[step.name] = before.result.facts
                self._runner.skipped(before)
                return True
            if self._is_beyond:
                self._runner.failed(step.name, f"behind the point of no return, and not so any more: {drift}")
                return False
        # What rests on it is taken back, and done again; an earlier attempt to take it back may have got no further.
        # Not where it is done again only since nobody knew, and what it had found is still so when it is done.
        unsure = self._unknown.get(step.name)
        is_as_it_was = unsure is not None and _drift_of(step, unsure, is_beyond_return=self._is_beyond) is None
        if not is_as_it_was and not self._is_beyond and not self._taken_back_behind(step):
            return False
        if (before is not None or unsure is not None) and not is_as_it_was and not self._renewed(step):
            return False
        if self._was_beyond and (problem := _again_of(step, self._known)) is not None:
            self._runner.failed(step.name, problem)
            return False
        if step.is_point_of_no_return and not self._is_beyond:
            self._journal.append(Event.POINT_OF_NO_RETURN, step=step.name, facts=step.concerns)
            self._is_beyond = True
        if not self._is_carried_out(step):
            return False
        if unsure is None or not is_as_it_was or self._is_beyond:
            return True
        changed = _drift_of(step, unsure, is_beyond_return=False) is not None
        return not changed or self._taken_back_behind(step)

    def _taken_back_behind(self, step: Step) -> bool:
        behind = self._steps[self._steps.index(step) + 1 :]
        if not self._runner.undone(behind):
            return False
        for each in behind:
            self._proven.pop(each.name, None)
        return True

    def _renewed(self, step: Step) -> bool:
        """Carry out again what the step rests on; behind the point of no return nobody is asked any more."""
        again = [each for each in self._steps[: self._next] if each.name in step.renews and not self._is_beyond]
        return all(self._is_carried_out(each) for each in again)

    def _is_carried_out(self, step: Step) -> bool:
        found = self._runner.carried_out(step, self._known)
        self._known[step.name] = found.result.facts
        if found.result.verdict is not Verdict.FAIL or step.only_watches:
            return True
        if self._goes_back and not self._is_beyond:
            self._runner.undone(self._steps)
        return False


def take_back(
    steps: Sequence[Step], journal: Journal, *, on_result: Callable[[StepResult], None] = lambda _: None
) -> tuple[StepResult, ...]:
    """Take back all that a run has done or begun, if it has not passed the point of no return."""
    progress = _progress(journal)
    runner = _Runner(journal, on_result, time.monotonic, set(progress.begun))
    if progress.is_beyond_return:
        runner.failed(_TAKEN_BACK, BEYOND_RETURN)
    elif strange := sorted(progress.begun - {step.name for step in steps}):
        names = ", ".join(strange)
        runner.failed(
            _TAKEN_BACK, f"nothing is taken back, since the run has begun steps that are not of this plan: {names}"
        )
    else:
        is_undone = runner.undone(steps)
        # That it was taken back by an earlier call makes nobody see it.
        for each in progress.unseen_back.values():
            runner.unseen_back(each)
        if is_undone and not runner.results:
            # Otherwise a take-back that ended at its last write, and is repeated, would say nothing of how it stands.
            runner.passed(_TAKEN_BACK, "nothing of the run is left to be taken back")
    return tuple(runner.results)


def _progress(journal: Journal) -> Progress:
    return Progress.of(journal.read().entries)


@dataclass(eq=False, repr=False)
class _Runner:
    """Carries steps out and writes down what came of them."""

    journal: Journal
    on_result: Callable[[StepResult], None]
    monotonic: Callable[[], float]
    begun: set[str]
    results: list[StepResult] = field(default_factory=list, init=False)

    def skipped(self, before: StepResult) -> None:
        self.journal.append(Event.STEP_SKIPPED, step=before.name)
        self._take(replace(before, was_proven=True))

    def passed(self, name: str, what: str) -> None:
        self._take(StepResult(name, Result(Verdict.PASS, what), 0.0))

    def unseen_back(self, before: StepResult) -> None:
        self._take(replace(before, name=f"{_TAKEN_BACK}: {before.name}", was_proven=True))

    def failed(self, name: str, why: str) -> None:
        self._take(StepResult(name, Result(Verdict.FAIL, why), 0.0))
        self.journal.append(Event.NOTE, step=name, facts={"refused": why})

    def carried_out(self, step: Step, known: Known) -> StepResult:
        self.journal.append(Event.STEP_STARTED, step=step.name)
        self.begun.add(step.name)
        began = self.monotonic()
        try:
            result = step.act(known)
        except _OPERATIONAL as problem:
            result = Result(Verdict.FAIL, str(problem))
        found = StepResult(step.name, result, self.monotonic() - began)
        # Before the end of the step: a process killed in between does it again, and never skips it without them.
        for event, facts in step.moments(result.facts) if result.verdict is not Verdict.FAIL else ():
            self.journal.append(event, step=step.name, facts=facts)
        self.journal.append(Event.STEP_FINISHED, step=step.name, facts={**found.as_json(), "facts": dict(result.facts)})
        self._take(found)
        return found

    def undone(self, steps: Sequence[Step]) -> bool:
        """Take back those of the steps that were begun, the last one first; tell whether all of them were.

        One that cannot be is named, and those before it are taken back all the same, but for those that come last.
        """
        left: list[str] = []
        open_still: list[str] = []
        for step in reversed(steps):
            if step.name not in self.begun:
                continue
            facts: Mapping[str, Json] = {}
            if step.undo is not None:
                began = self.monotonic()
                try:
                    if open_still and step.is_undone_last:
                        rest = ", ".join(open_still)
                        raise NotTakenBack(f"it stays until the rest is taken back too ({rest}): take it back again")
                    result = step.undo()
                except (*_OPERATIONAL, NotTakenBack) as problem:
                    is_others = isinstance(problem, TakenByOthers)
                    result = Result(Verdict.FAIL, str(problem), {TAKEN_BY_OTHERS: True} if is_others else {})
                    left.append(step.name)
                    self.journal.append(Event.NOTE, step=step.name, facts={NOT_TAKEN_BACK: str(problem)})
                    if not is_others:
                        open_still.append(step.name)
                found = StepResult(step.name, result, self.monotonic() - began)
                facts = found.as_json()
                self._take(replace(found, name=f"{_TAKEN_BACK}: {step.name}"))
            if step.name not in left:
                self.journal.append(Event.STEP_UNDONE, step=step.name, facts=facts)
                self.begun.discard(step.name)
        return not left

    def _take(self, result: StepResult) -> None:
        self.results.append(result)
        self.on_result(result)


class NotTakenBack(Exception):
    """What a step did could not be taken back; the message says what is left."""


class TakenByOthers(NotTakenBack):
    """It is not this run's any more to take it back: another attempt finds it so too."""


def _drift_of(step: Step, before: StepResult, *, is_beyond_return: bool) -> str | None:
    """Return what has changed of what a step has proven; only what must still be so is looked at."""
    if step.drift is None or (is_beyond_return and not step.holds_on):
        return None
    try:
        return step.drift(before.result.facts)
    except _OPERATIONAL as problem:
        return f"it cannot be known: {problem}"


def _again_of(step: Step, known: Known) -> str | None:
    """Return why a step must not be carried out again; what cannot be found out now is no reason."""
    with suppress(*_OPERATIONAL):
        return step.again(known)
    return None


def _result_of(entry: Entry) -> StepResult:
    facts = entry.facts
    more = facts.get("facts")
    seconds = facts.get("seconds")
    return StepResult(
        entry.step or "",
        Result(
            Verdict(str(facts.get("verdict"))),
            str(facts.get("detail", "")),
            dict(more) if isinstance(more, Mapping) else {},
        ),
        float(seconds) if isinstance(seconds, int | float) else 0.0,
    )
