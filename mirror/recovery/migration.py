"""Moving to a new cluster for good, group by group: each group's consumers first, the producers last.

Each group is a chapter of its own, with its own journal: one that fails before its consumers start on the new cluster
is taken back by itself, and those before it stay where they are. The producers' chapter is that of a planned failover
of which the groups have moved already; its last step says what remains on the old cluster.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mirror.atomic_file import write_new
from mirror.config.errors import ConfigError
from mirror.control.gaps import iso_time
from mirror.evidence.facts import Json
from mirror.evidence.journal import Journal
from mirror.evidence.seals import end_problem, seal_end
from mirror.model.failover import FailoverEntry
from mirror.model.flow import Flow
from mirror.model.group_pattern import pattern_of
from mirror.model.verdict import Verdict
from mirror.recovery.applications import Answer, Applications, Done, NotDone, Unobserved, is_word
from mirror.recovery.failover import (
    FailoverPlan,
    Mode,
    against_the_other_way,
    begun_alone,
    by_hand_of,
    cannot_drain,
    copy_back,
    deselected_of,
    loss_of,
    notes_of,
)
from mirror.recovery.flow_ends import FlowEnds
from mirror.recovery.group_moves import MovePlan
from mirror.recovery.move import GROUPS, START, Move, first_read, result_of
from mirror.recovery.other_runs import failover_entry_message
from mirror.recovery.quiet_source import STOP
from mirror.recovery.seen_at_work import checked_reads
from mirror.recovery.step_facts import named, placed_in, rows_in
from mirror.recovery.steps import Known, NotTakenBack, Progress, Result, Step, StepResult, StepsUnderWay
from mirror.recovery.verify_steps import verify_so_far_step, verify_step
from mirror.waiting import WaitTimeout, wait_until

PRODUCERS = "producers"
COPIED, READS, REMAINS = "copied", "reads", "what remains"
_GROUPS_FILE = "groups.json"
_JOURNAL, _SEAL = "journal.jsonl", "seal.json"


@dataclass(frozen=True, slots=True)
class _Part:
    """Of some applications only those of a group, or only those that are in none."""

    all_of_them: Applications
    group: str | None

    def stop(self, cluster: str) -> Answer:
        return self.all_of_them.stop_part(cluster, self.group)

    def start(self, cluster: str) -> Answer:
        return self.all_of_them.start_part(cluster, self.group)

    def stop_part(self, cluster: str, group: str | None) -> Answer:
        return self.all_of_them.stop_part(cluster, group)

    def start_part(self, cluster: str, group: str | None) -> Answer:
        return self.all_of_them.start_part(cluster, group)

    def first_write(self, cluster: str, since_ms: int) -> Answer:
        return self.all_of_them.first_write(cluster, since_ms)

    def first_reads(self, cluster: str, groups: Sequence[str], since_ms: int) -> Mapping[str, Answer]:
        return self.all_of_them.first_reads(cluster, groups, since_ms)

    def group_reads(self, cluster: str, group: str, since_ms: int) -> Answer:
        return self.all_of_them.group_reads(cluster, group, since_ms)


@dataclass(frozen=True, slots=True)
class Word:
    """A person's word that a group is at work on the new cluster: whose, and when it was given, in ms since 1970."""

    by: str
    at_ms: int

    def __str__(self) -> str:
        """Return it for people."""
        return f"{self.by}, {iso_time(self.at_ms)}"


def steps_of_group(move: Move, group: str, directory: Path, word: Word | None = None) -> tuple[Step, ...]:
    """Return the steps of one group's chapter, whose snapshots lie in ``directory``."""
    own = replace(
        move,
        ends=move.ends.of_groups(pattern_of([group])),
        applications=_Part(move.applications, group),
        directory=directory,
        agreed=frozenset({group}),
        part=group,
    )
    doing = f"start the applications of group {group} on {move.flow.target}; from here on it is not taken back"
    start = replace(own.start(), doing=doing, concerns={"group": group})
    moved = (_stop(own, group), _copied(own, group), own.groups(), _positions(own), own.last_look(is_fenced=False))
    return (*moved, start, _reads(own, group, word))


def steps_of_producers(
    move: Move, back: FlowEnds | None, groups: Sequence[str], words: Mapping[str, Word] | None = None
) -> tuple[Step, ...]:
    """Return the steps around the groups' chapters: the first is taken before these, the others behind them.

    Groups of which somebody has said that they are at work (``words``) are not waited for.
    """
    own = replace(move, applications=_Part(move.applications, None))
    return (
        # Groups that are on the new cluster stay there whatever becomes of the rest, and so does the record.
        replace(begun_alone(move, back), undo=None),
        verify_so_far_step(own.ends, own.directory),
        replace(own.stop(), doing=f"stop the producers on {move.flow.source}"),
        own.fence(),
        own.drain(),
        own.cut(holds_on=True),
        verify_step(own.ends, own.directory),
        own.last_look(),
        replace(
            own.start(),
            doing=f"start the producers on {move.flow.target}; from here on nothing is taken back",
            concerns={"applications": PRODUCERS},
        ),
        copy_back(own, back),
        own.first_write(),
        own.first_reads([each for each in groups if each not in (words or {})]),
        own.finish(),
        _remains(own, groups),
    )


def _stop(move: Move, group: str) -> Step:
    source = move.flow.source

    def act(_: Known) -> Result:
        found = result_of(move.applications.stop(source))
        if found.verdict is Verdict.FAIL:
            return found
        try:
            # Its coordinator remembers who has just left without a word until the session is over.
            wait_until(
                lambda: not move.ends.members([group]),
                f"group {group} to leave {source}",
                timeout_seconds=move.times.fence,
            )
        except WaitTimeout:
            return Result(Verdict.FAIL, f"somebody still reads on {source}: {named(move.ends.members([group]))}")
        return replace(found, detail=f"{found.detail}; the group has no member on {source}")

    def drift(_: Mapping[str, Json]) -> str | None:
        return named(move.ends.members([group])) or None

    def undo() -> Result:
        answer = result_of(move.applications.start(source))
        if answer.verdict is Verdict.FAIL:
            raise NotTakenBack(f"group {group} is not started on {source} again: {answer.detail}")
        return answer

    doing = f"stop the applications of group {group} on {source}, and wait until it has no member there"
    return Step(STOP, doing, act, drift=drift, undo=move.unless_given_up(undo))


def _copied(move: Move, group: str) -> Step:
    """Return the step that waits until all that the group has read is copied, so that its positions are exact."""

    def act(_: Known) -> Result:
        plan = move.ends.plan_groups(ask_source=True)
        # What was mirrored from the target is there already, and no flow copies it back.
        selected = move.ends.ends().ends
        read = {each.source: each.upstream for each in plan.positions if each.source and each.source in selected}
        if plan.source_problem is not None:
            return Result(
                Verdict.FAIL, f"{move.flow.source} does not report the group's positions: {plan.source_problem}"
            )
        return Result(Verdict.PASS, move.await_copy(read) + " up to where the group stands")

    return Step(COPIED, f"wait until {move.flow.target} has all that group {group} has read", act)


def _positions(move: Move) -> Step:
    """Return the step that names what nobody can tell of the positions, and what will be read again."""
    step = move.positions()

    def act(known: Known) -> Result:
        found = step.act(known)
        again = [
            f"{row['topic']}-{row['partition']}"
            for row in rows_in(known[GROUPS])
            if not row["exact"] and row["after"] is not None
        ]
        message = f"; not exact, so that some records may be read again: {named(again)}" if again else ""
        return replace(found, detail=found.detail + message)

    return replace(step, act=act)


def _reads(move: Move, group: str, word: Word | None) -> Step:
    target = move.flow.target

    def act(known: Known) -> Result:
        at_ms = known[START].get("at_ms")
        since = at_ms if isinstance(at_ms, int) else 0
        # What was said before it was started is not about this start.
        if word is not None and word.at_ms >= since:
            message = f"not seen; a person says that group {group} is at work on {target} ({word})"
            shown = move.ends.idle_groups([group], placed_in(known.get(GROUPS, {}))).get(group)
            return Result(Verdict.UNKNOWN, f"{message}, but {shown}") if shown else Result(Verdict.PASS, message)
        answers = {group: move.applications.group_reads(target, group, since)}
        placed = placed_in(known.get(GROUPS, {}))
        checked = checked_reads(answers, target, lambda of: move.ends.idle_groups(of, placed), move.times.seen)[group]
        # Who goes on by a word that the cluster does not bear out takes the next group from where it is.
        answer = NotDone(checked.why) if is_word(answers[group]) and isinstance(checked, Unobserved) else checked
        times: dict[str, Json] = {group: answer.at_ms} if isinstance(answer, Done) else {}
        found = result_of(answer, cluster=target, first_at_ms=times)
        if found.verdict is not Verdict.FAIL:
            return found
        advice = (
            f"Its positions are moved, and the groups behind it stay on {move.flow.source} until this is settled. Look "
            f"at its members: kafka-consumer-groups.sh --describe --members --group '{group}' on {target}. Without "
            "members, start its applications there and resume the run. With members and nothing to read, say so: "
            f"mirror runbook resume DIRECTORY --seen '{group}'"
        )
        return replace(found, detail=f"{found.detail}. {advice}")

    return Step(READS, f"wait until group {group} reads on {target}", act, moments=first_read)


def _remains(move: Move, groups: Sequence[str]) -> Step:
    source = move.flow.source

    def act(known: Known) -> Result:
        found = move.ends.remaining(groups)
        # What is written on the new cluster comes back into logs of the same name.
        written = move.grown_by_others(known)
        left = [*([f"producers: {written}"] if written else []), *found.groups, *found.topics]
        facts: dict[str, Json] = {"groups": list(found.groups), "topics": list(found.topics), "producers": written}
        if left:
            message = f"{source} must not be switched off, for this remains there: {'; '.join(left)}"
            return Result(Verdict.FAIL, f"{message}. See to it, and take this run up again to look once more", facts)
        return Result(Verdict.PASS, f"nothing remains on {source}: it may be switched off", facts)

    return Step(REMAINS, f"state what remains on {source}: groups, producers, topics that are not mirrored", act)


@dataclass(frozen=True, slots=True)
class Migration:
    """A migration: its groups in their order, and how far it has got by its journals.

    Attributes
    ----------
    directory
        of the run; the journal there is that of the producers' chapter.
    words
        of which groups somebody has said that they are at work on the new cluster.
    """

    move: Move
    back: FlowEnds | None
    groups: tuple[str, ...]
    directory: Path
    words: Mapping[str, Word] = field(default_factory=dict)

    def plan(self, progress: Progress) -> FailoverPlan:
        """Return what will be done, and what is known before it; ``progress`` is that of the producers' chapter."""
        move = self.move
        copied = move.ends.copied()
        left = [each for each in self.groups if not self._progress_of(each).is_beyond_return]
        moves = move.ends.of_groups(pattern_of(left)).plan_groups(ask_source=True) if left else None
        loss = loss_of(move.ends, copied, ask_source=True, by_epochs=True)
        refusal = None
        if (other := move.in_the_way(copied.failovers)) is not None:
            refusal = failover_entry_message(other, move.flow)
        elif (older := self._older_copy(copied.failovers, progress)) is not None:
            refusal = older
        elif loss.bound is not None:
            refusal = f"{move.flow.source} must report what it has: {loss.bound}"
        elif (other_way := against_the_other_way(self.back)) is not None:
            refusal = other_way
        elif STOP not in progress.begun:
            refusal = cannot_drain(move.ends, copied)
        remaining = move.ends.remaining(self.groups)
        would = [*remaining.groups, *remaining.topics]
        stay = [each for each in would if not any(each.startswith(f"group {group} (") for group in self.groups)]
        notes = [*notes_of(move, self.back, copied), *by_hand_of(move.flow, copied), *deselected_of(move.flow, copied)]
        notes += [f"will remain on {move.flow.source}, as things stand: {each}" for each in stay]
        return FailoverPlan(Mode.PLANNED, self.steps(), copied, moves, loss, refusal, tuple(notes))

    def _older_copy(self, entries: Sequence[FailoverEntry], progress: Progress) -> str | None:
        """Return why nothing is done: on record it has gone further than its directory says; None: it has not."""
        behind = [each for each in self.groups if not self._progress_of(each).is_beyond_return]
        parts = [replace(self.move, part=each) for each in behind]
        if not progress.is_beyond_return:
            parts.append(self.move)
        return next(filter(None, (each.older_copy(entries) for each in parts)), None)

    def steps(self) -> tuple[Step, ...]:
        """Return all steps in order, under the names under which they are reported."""
        first, *rest = steps_of_producers(self.move, self.back, self.groups, self.words)
        chapters = ((each, self._steps_of(each)) for each in self.groups)
        of_groups = [replace(step, name=_named(group, step.name)) for group, steps in chapters for step in steps]
        return (first, *of_groups, *(replace(step, name=_named(PRODUCERS, step.name)) for step in rest))

    def carry_out(self, on_result: Callable[[StepResult], None]) -> tuple[StepResult, ...]:
        """Carry out what is left, up to the first step that fails; return what came of each."""
        results: list[StepResult] = []

        def reporter(chapter: str | None) -> Callable[[StepResult], None]:
            def take(result: StepResult) -> None:
                results.append(result if chapter is None else replace(result, name=_named(chapter, result.name)))
                on_result(results[-1])

            return take

        self._keep_groups()
        first, *rest = steps_of_producers(self.move, self.back, self.groups, self.words)
        journal = Journal(self.directory / _JOURNAL)
        StepsUnderWay((first,), journal, goes_back=False, on_result=reporter(None)).carry_out()
        for group in self.groups:
            if not _has_failed(results):
                self._carry_out_group(group, reporter(group))
        if not _has_failed(results):
            StepsUnderWay(rest, journal, goes_back=True, on_result=reporter(PRODUCERS)).carry_out()
        return tuple(results)

    def _carry_out_group(self, group: str, on_result: Callable[[StepResult], None]) -> None:
        home = self.home_of(group)
        home.mkdir(exist_ok=True)
        journal = Journal(home / _JOURNAL)
        if (problem := _broken(journal, home)) is not None:
            on_result(StepResult(STOP, Result(Verdict.FAIL, problem), 0.0))
            return
        StepsUnderWay(self._steps_of(group), journal, goes_back=True, on_result=on_result).carry_out()
        seal_end(home / _SEAL, journal.read().entries[-1])

    def _steps_of(self, group: str) -> tuple[Step, ...]:
        return steps_of_group(self.move, group, self.home_of(group), self.words.get(group))

    def home_of(self, group: str) -> Path:
        """Return the directory of a group's chapter; ids of groups are no names of files."""
        return self.directory / f"group-{self.groups.index(group) + 1:03}"

    def whereabouts(self) -> Mapping[str | None, str | None]:
        """Return on which cluster each group's applications run by now, None: those in none; None: under way."""
        found: dict[str | None, str | None] = {None: _place(_progress(self.directory), self.move.flow)}
        return found | {group: _place(self._progress_of(group), self.move.flow) for group in self.groups}

    def _progress_of(self, group: str) -> Progress:
        return _progress(self.home_of(group))

    def _keep_groups(self) -> None:
        if kept_groups(self.directory) is None:
            try:
                write_new(self.directory / _GROUPS_FILE, json.dumps(list(self.groups)) + "\n")
            except OSError as error:
                raise ConfigError(self.directory, None, "--run-directory", f"cannot be written: {error}") from None


def kept_groups(directory: Path) -> tuple[str, ...] | None:
    """Return the groups of a migration that was begun, in their order; None: none was.

    Raises
    ------
    ConfigError
        if the file is not as it was written.
    """
    path = directory / _GROUPS_FILE
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(path, None, None, f"does not list the groups of the migration: {error}") from None
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ConfigError(path, None, None, "does not list the groups of the migration")
    return tuple(found)


def groups_to_move(plan: MovePlan) -> tuple[str, ...]:
    """Return the groups of which the source has a position, in the order in which they are moved."""
    return tuple(sorted({each.group for each in plan.positions}))


def facts_of(results: Sequence[StepResult], name: str) -> list[Mapping[str, Json]]:
    """Return what the steps of that name have found, of whatever chapter."""
    return [each.result.facts for each in results if each.name == name or each.name.endswith(_named("", name))]


def _named(chapter: str, step: str) -> str:
    return f"{chapter}: {step}"


def _has_failed(results: Sequence[StepResult]) -> bool:
    return any(each.result.verdict is Verdict.FAIL for each in results)


def _progress(directory: Path) -> Progress:
    journal = Journal(directory / _JOURNAL)
    return Progress.of(journal.read().entries if journal.path.exists() else ())


def _place(progress: Progress, flow: Flow) -> str | None:
    if START in progress.begun:
        return flow.target
    return None if STOP in progress.begun else flow.source


def _broken(journal: Journal, home: Path) -> str | None:
    if not journal.path.exists():
        return None
    reading = journal.read()
    problem = reading.problem or end_problem(home / _SEAL, reading)
    return f"nothing can be taken up from {journal.path}: {problem}" if reading.entries and problem else None
