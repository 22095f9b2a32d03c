"""Moving applications along a flow: the steps that a failover in each mode, and a failback, are put together of."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mirror.evidence.facts import Json
from mirror.evidence.journal import Event
from mirror.kafka.problems import KafkaProblem
from mirror.model.counts import are, counted
from mirror.model.failover import FailoverEntry, Phase, in_the_way
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict, worst
from mirror.recovery import run_snapshots
from mirror.recovery.applications import Answer, Applications, Done, NotDone, Unobserved, is_word
from mirror.recovery.copy_wait import Patience, await_copy
from mirror.recovery.denying import DENY
from mirror.recovery.flow_ends import Copied, FlowEnds, yet_to_be_copied
from mirror.recovery.group_moves import MovePlan, unseen_groups_message
from mirror.recovery.group_snapshot import GroupSnapshot
from mirror.recovery.other_runs import failover_entry_message
from mirror.recovery.quiet_source import STOP, QuietSource, is_confirmed
from mirror.recovery.seen_at_work import back_at_work, checked_reads, checked_write
from mirror.recovery.staying import NOBODY, Staying
from mirror.recovery.step_facts import (
    COLUMNS,
    by_reason,
    mappings_of,
    named,
    placed_in,
    positions_named,
    rows_of,
    stretches_named,
)
from mirror.recovery.steps import Known, Moment, NotTakenBack, Result, Step, TakenByOthers, passing, when_passed
from mirror.recovery.unsure_groups import read_on, unsure

FENCE, DRAIN, CUT, GROUPS = "fence", "drain", "cut", "groups"
POSITIONS, LAST_LOOK = "positions", "last look"
START, FIRST_WRITE, FIRST_READS, FINISH = "start", "first write", "first reads", "finish"


@dataclass(frozen=True, slots=True)
class Times:
    """For how long things are waited for, in seconds.

    Attributes
    ----------
    quiet
        for so long no log may grow before its writers count as stopped.
    fence
        how long that is tried.
    slow
        for so long, at most, a log must not grow whose writers send at long intervals.
    drain
        how long the copy may take to reach the ends of its source while applications wait for that; while they go on it
        may take as long as it comes further within this time.
    engine
        how long it may have no engine meanwhile: one may just be starting, or take over.
    seen
        how long the cluster may take to show what somebody has said of applications: who was just started joins later.
    """

    quiet: float = 3.0
    fence: float = 60.0
    slow: float = 60.0
    drain: float = 600.0
    engine: float = 60.0
    seen: float = 20.0


@dataclass(frozen=True, slots=True)
class Move:
    """A move of applications along a flow, as one run carries it out.

    Attributes
    ----------
    ends
        of the flow along which they move.
    record
        the flow on whose target runs are on record, which is the one that is failed over: the same, or the flow back.
    entry
        how this run is on record while it is under way.
    directory
        of the run.
    is_planned
        whether the source is there and nothing may be lost.
    agreed
        the groups that the plan showed; None: nobody was shown any.
    given_up
        another run, which nobody goes on with any more: it is taken off the record.
    part
        the group whose applications these are, of several that move one after the other; None: all that are left.
    """

    ends: FlowEnds
    record: FlowEnds
    applications: Applications
    entry: FailoverEntry
    directory: Path
    is_planned: bool
    agreed: frozenset[str] | None = None
    given_up: str | None = None
    part: str | None = None
    times: Times = Times()  # frozen
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    monotonic: Callable[[], float] = time.monotonic

    @property
    def flow(self) -> Flow:
        """Return the flow."""
        return self.ends.flow

    # Being on record.

    def in_the_way(self, entries: Sequence[FailoverEntry]) -> FailoverEntry | None:
        """Return the run on record because of which this one must not go on; None: there is none."""
        returning = self.entry.phase is Phase.RETURNING
        return in_the_way(entries, self.entry.run, returning=returning, given_up=self.given_up)

    def off_record(self) -> str | None:
        """Return why this run must do nothing more: others have given it up; None: it is on record, or nobody can tell.

        Without its target nobody has begun another one, and applications that were stopped must be started again.
        """
        try:
            entries = self.record.copied().failovers
        except KafkaProblem:
            return None
        return self.older_copy(entries) if self._of_this(entries) is not None else self.not_on_record

    @property
    def not_on_record(self) -> str:
        """Say, for people, that nothing of this run is on record."""
        target = self.record.flow.target
        return f"{target} has nothing of this run on record any more: it has ended, or others have given it up"

    def older_copy(self, entries: Sequence[FailoverEntry]) -> str | None:
        """Return why a run that has not passed the point of no return must do nothing more; None: it may.

        On record it has passed that: what this run's directory says is of before.
        """
        entry, target = self._of_this(entries), self.record.flow.target
        if entry is None or not (entry.is_beyond_return or entry.phase is Phase.DONE or self.part in entry.started):
            return None
        if entry.phase is Phase.DONE:
            return f"{target} has on record that this run is done: this is an older copy of its directory"
        return (
            f"{target} has on record that this run has begun to start the applications on {self.flow.target}: this is "
            f"an older copy of its directory. Go on with the newest ({entry.where}); if that is lost, see which "
            f"applications run, and give this run up with a new one: --give-up {entry.run}"
        )

    def _of_this(self, entries: Sequence[FailoverEntry]) -> FailoverEntry | None:
        return next((each for each in entries if each.run == self.entry.run), None)

    def unless_given_up(self, undo: Callable[[], Result]) -> Callable[[], Result]:
        """Return what takes a step back, unless others have given this run up: what is so by then is theirs."""

        def guarded() -> Result:
            if problem := self.off_record():
                raise TakenByOthers(problem)
            return undo()

        return guarded

    def begin(self) -> Step:
        """Return the step that puts the run on record, so that no other begins meanwhile: that is taken back last."""

        def act(_: Known) -> Result:
            before = self.record.copied().failovers
            if (other := self.in_the_way(before)) is None:
                if self.entry.run not in {each.run for each in before}:
                    self.record.put(self.entry)
                if (other := self.in_the_way(self.record.copied().failovers)) is None:
                    if self.given_up in {each.run for each in before}:
                        self.record.take(str(self.given_up))
                    return Result(Verdict.PASS, f"on record on {self.record.flow.target}: {self.entry.where}")
                # The other began at the same time, and is the first in the log.
                self.record.take(self.entry.run)
            return Result(Verdict.FAIL, failover_entry_message(other, self.record.flow))

        def drift(_: Mapping[str, Json]) -> str | None:
            runs = {each.run for each in self.record.copied().failovers}
            return None if self.entry.run in runs else f"{self.record.flow.target} has nothing of this run on record"

        def undo() -> str:
            if (problem := self.older_copy(self.record.copied().failovers)) is not None:
                raise TakenByOthers(problem)
            self.record.take(self.entry.run)
            return "nothing of this run is on record any more"

        doing = f"put on record, on {self.record.flow.target}, that this run moves the applications"
        return Step("begin", doing, act, drift=drift, undo=passing(undo), is_undone_last=True)

    # The applications.

    def stop(self) -> Step:
        """Return the step that stops the applications on the source."""
        source = self.flow.source

        def undo() -> Result:
            if self.entry.mode == "unplanned" and not self.is_planned:
                done = f"the applications on {source}, which was gone, stay stopped: start them there once it is back"
                return Result(Verdict.PASS, done)
            answer = self.applications.start(source)
            if isinstance(answer, NotDone):
                raise NotTakenBack(f"the applications are not started on {source} again: {answer}")
            return result_of(answer)

        def act(_: Known) -> Result:
            answer = self.applications.stop(source)
            if isinstance(answer, NotDone) and not self.is_planned:
                advice = f"where nobody can reach them, leave the stop command of {source} out"
                return Result(Verdict.FAIL, f"{answer}. No group was moved, and the flow goes on; {advice}")
            is_doubtful = self.entry.mode == "cut-off" and is_word(answer)
            if is_doubtful and (problem := self._source().who_writes()) is not None:
                return Result(Verdict.FAIL, f"{_detail(answer)}, but {problem}. No group was moved")
            return result_of(answer, at_ms=self.now_ms(), confirmed=isinstance(answer, Done))

        return Step(
            STOP,
            f"stop the applications on {source}",
            act,
            undo=self.unless_given_up(undo),
            moments=(lambda _: ()) if self.is_planned else when_passed(Event.FENCED),
        )

    def start(self) -> Step:
        """Return the step from which on nothing is taken back: the applications are started on the target."""
        target = self.flow.target

        def act(_: Known) -> Result:
            unrecorded = ""
            try:
                own = self._of_this(self.record.copied().failovers)
                # Taken back by an older copy, or given up, behind the point of no return and before this is on record.
                if own is None:
                    return Result(Verdict.FAIL, self.not_on_record)
                # An older copy of the run directory would take back what the applications rest on from now on.
                if own.phase is not Phase.DONE:
                    self.record.put(own.starting(self.part))
            except KafkaProblem as problem:
                # They stand still on both sides, and are started all the same.
                unrecorded = f"; not on record, so take nothing back with an older copy of the run directory: {problem}"
            found = result_of(self.applications.start(target), at_ms=self.now_ms())
            return replace(found, detail=found.detail + unrecorded)

        def again(known: Known) -> str | None:
            own = self._of_this(self.record.copied().failovers)
            if own is None or own.is_beyond_return or own.phase is Phase.DONE or self.part in own.started:
                return None
            # Of a cluster that is cut off nobody may have known who was at work there; on one that is gone nobody is.
            was_left = FENCE in known or (self.entry.mode == "cut-off" and is_confirmed(known))
            groups = [self.part] if self.part is not None else sorted(moved_groups(known)) if was_left else []
            members = self.ends.members(groups) if groups else ()
            grown = self.grown_by_others(known) if FENCE in known else None
            return back_at_work(self.flow.source, own.run, (*members, *([grown] if grown else ())))

        doing = f"start the applications on {target}; from here on nothing is taken back"
        return Step(START, doing, act, is_point_of_no_return=True, again=again)

    def first_write(self) -> Step:
        """Return the step that waits for the first write on the target."""

        def act(known: Known) -> Result:
            target, since = self.flow.target, _since(known)
            given = self.applications.first_write(target, since)
            answer = checked_write(given, target, lambda: self.ends.first_written(since), self.times.seen)
            at_ms = answer.at_ms if isinstance(answer, Done) else None
            return result_of(answer, first_at_ms=at_ms, cluster=self.flow.target)

        doing = f"wait for the first write that {self.flow.target} accepts"
        return Step(FIRST_WRITE, doing, act, moments=_first_written, only_watches=True)

    def first_reads(self, moved: Sequence[str] | None = None) -> Step:
        """Return the step that waits until every group reads on the target; None: those that a step has moved."""
        target = self.flow.target

        def act(known: Known) -> Result:
            groups = sorted(moved_groups(known) if moved is None else moved)
            if not groups:
                return Result(Verdict.PASS, "no group was moved, so none is waited for")
            given = self.applications.first_reads(target, groups, _since(known))
            placed = placed_in(known.get(GROUPS, {}))
            answers = checked_reads(given, target, lambda of: self.ends.idle_groups(of, placed), self.times.seen)
            found = {group: answers.get(group, Unobserved("nobody has said anything")) for group in groups}
            verdict = worst(_verdict(each) for each in found.values())
            messages = [f"group {name}: {_detail(each)}" for name, each in found.items() if not isinstance(each, Done)]
            detail = named(messages) or f"{counted(len(groups), 'group')} seen reading on {target}"
            times: dict[str, Json] = {group: each.at_ms for group, each in found.items() if isinstance(each, Done)}
            return Result(verdict, detail, {"cluster": target, "first_at_ms": times})

        doing = f"wait until every group that was moved reads on {target}"
        return Step(FIRST_READS, doing, act, moments=first_read, only_watches=True)

    # The copy.

    def fence(self) -> Step:
        """Return the step that makes sure that nobody writes to the source any more, and fixes where its logs end."""
        is_home = self.entry.phase is Phase.RETURNING

        def act(known: Known) -> Result:
            # Who was agreed to be moved is waited for.
            staying = self.ends.staying().without(self.agreed or ()) if is_home else NOBODY
            return staying.beside(self._source(staying).look(known), self.flow.source)

        doing = f"make sure that nobody writes to {self.flow.source}: no log grows, no transaction is open"
        return Step(
            FENCE,
            doing,
            act,
            drift=lambda facts: self.grown({FENCE: facts}),
            moments=when_passed(Event.FENCED),
            is_of_its_moment=True,
            # Whoever writes on was not stopped, or is at work again.
            renews=(STOP, DENY),
        )

    def _source(self, staying: Staying = NOBODY) -> QuietSource:
        times = self.times
        return QuietSource(self.ends.but_for(staying), times.quiet, times.fence, times.slow, self.monotonic)

    def _moving(self, known: Known) -> FlowEnds:
        """Return the ends without who stays, by what the fence has found."""
        return self.ends.but_for(Staying.of(known.get(FENCE, {})))

    def grown(self, known: Known) -> str | None:
        """Return which logs of the source have grown since it was fenced; None: none has."""
        return self._source(Staying.of(known[FENCE])).grown(known[FENCE])

    def grown_by_others(self, known: Known) -> str | None:
        """Return which of those logs have grown by more than what the flow back has copied there; None: none has."""
        return self._source().grown_by_others(known[FENCE])

    def drain(self) -> Step:
        """Return the step that waits until the copy has reached where the logs of the source end."""

        def act(known: Known) -> Result:
            fixed = positions_named(known[FENCE], "ends")
            detail = self.await_copy(fixed)
            return Result(Verdict.PASS, detail, {"ends": rows_of(fixed)})

        def drift(facts: Mapping[str, Json]) -> str | None:
            left = self.behind(positions_named(facts, "ends"), self.ends.copied())
            return f"the copy on {self.flow.target} lacks records: {named(left)}" if left else None

        doing = f"wait until {self.flow.target} has everything that {self.flow.source} has"
        return Step(DRAIN, doing, act, drift=drift, moments=when_passed(Event.DRAINED))

    def await_copy(self, fixed: Mapping[TopicPartition, int], *, is_in_the_way: bool = True) -> str:
        """Wait until the copy has reached these ends; return what was done, for people.

        Where nobody waits for that (not ``is_in_the_way``) it may take as long as the copy comes further.

        Raises
        ------
        WaitTimeout
            if it does not in time, or cannot: the message names partitions.
        """
        patience = Patience(self.times.drain if is_in_the_way else math.inf, self.times.drain, self.times.engine)
        return await_copy(self.ends, fixed, patience, self.monotonic)

    def behind(self, fixed: Mapping[TopicPartition, int], copied: Copied) -> list[str]:
        """Return, for people, what of the source's logs up to these ends is not copied."""
        return stretches_named(yet_to_be_copied(self.ends, fixed, copied))

    def cut(self, *, holds_on: bool) -> Step:
        """Return the step behind which the flow copies nothing: where it stands then is final.

        Parameters
        ----------
        holds_on
            whether it is to copy nothing when the applications have moved, too.
        """

        def act(_: Known) -> Result:
            cut = self.ends.pause()
            copied = self.ends.copied()
            facts: dict[str, Json] = {
                "flow": str(self.flow),
                "at_ms": self.now_ms(),
                "positions": rows_of({each: position.upstream for each, position in copied.positions.items()}),
            }
            limit = "" if cut.limit is None else f", but {cut.limit}"
            if not cut.open_ends:
                return Result(Verdict.UNKNOWN if limit else Verdict.PASS, cut.detail + limit, facts)
            facts["open_ends"] = [f"{each}: {why}" for each, why in sorted(cut.open_ends.items())]
            open_ends = named(by_reason(cut.open_ends))
            message = f"{cut.detail}{limit}; copies may reach further than is on record: {open_ends}"
            # Where nothing may be lost it is not enough to know that nothing more is appended.
            return Result(Verdict.FAIL if self.is_planned else Verdict.UNKNOWN, message, facts)

        doing = f"pause {self.flow}: what {self.flow.target} has by then is final"
        undo = self.unless_given_up(passing(self.ends.resume))
        return Step(
            CUT,
            doing,
            act,
            drift=lambda _: self._resumed(),
            undo=undo,
            moments=when_passed(Event.CUT),
            holds_on=holds_on,
            is_of_its_moment=True,
        )

    def _resumed(self) -> str | None:
        return None if self.ends.is_cut() else f"the cut of {self.flow} was ended: it may have copied since"

    def last_look(self, *, is_fenced: bool = True) -> Step:
        """Return the step right before the applications are started: the run is on record, the source as it was.

        ``is_fenced``: whether a planned move has a step before it that fences the source.
        """
        is_quiet = self.is_planned and is_fenced
        so = f"this run is on record on {self.record.flow.target} still"
        so += f", and nobody has written to {self.flow.source} since it was fenced" if is_quiet else ""

        def act(known: Known) -> Result:
            # The groups of a migration move while the flow copies.
            problem = self.off_record() or (self._resumed() if CUT in known else None)
            problem = problem or (self.grown(known) if is_quiet else None)
            # A migration moves no groups on the way to its producers.
            if problem is None and self.is_planned and GROUPS in known:
                problem = read_on(self._moving(known).plan_groups(ask_source=True), known[GROUPS])
            if problem is not None:
                return Result(Verdict.FAIL, problem)
            # An engine that was about to close one when the flow was cut, and has ended since, has left it so.
            closed = self.ends.open_closed(forgets=True)
            return Result(Verdict.PASS, so) if closed is None else Result(Verdict.UNKNOWN, f"{so}; but {closed}")

        # What was so when an earlier process looked says nothing.
        return Step(LAST_LOOK, f"make sure once more that {so}", act, drift=lambda _: "time has passed")

    # The groups.

    def groups(self) -> Step:
        """Return the step that gives every group, on the target, the position where it stopped on the source."""

        def act(known: Known) -> Result:
            plan = self._moving(known).plan_groups(ask_source=self.is_planned or self.entry.mode == "cut-off")
            if problem := self.off_record() or self.refusal(plan):
                return Result(Verdict.FAIL, problem)
            moves = self.ends.move_groups(plan, run_snapshots.following(self.directory))
            facts: dict[str, Json] = {
                "rows": self._rows(plan),
                "cluster": self.flow.target,
                **moves.facts(sorted({each.group for each in moves.positions})),
                "unsure": list(self.unsure(plan, self.ends.copied())),
            }
            if moves.refused:
                return Result(Verdict.FAIL, named([str(each) for each in moves.refused]), facts)
            groups = counted(len({each.group for each in plan.positions}), "group")
            message = f"{counted(moves.written, 'position')} of {groups} {are(moves.written)} written"
            if plan.source_problem is not None:
                message += ", by the checkpoints"
            if plan.unseen:
                message += f"; {unseen_groups_message(plan, self.flow)}"
            if moves.left:
                message += f"; left as they are: {named([str(each) for each in moves.left])}"
            return Result(Verdict.PASS, message, facts)

        def drift(facts: Mapping[str, Json]) -> str | None:
            return named(self.ends.gone_on(placed_in(facts))) or None

        def undo() -> str:
            # The newest first: each goes back to what was there before it.
            snapshots = run_snapshots.taken(self.directory)
            for each in reversed(snapshots):
                if problems := self.ends.restore_groups(each):
                    raise NotTakenBack(f"positions of groups are not put back: {named(problems)}")
                # Kept, but not put back again: what an older one has put back would look like others' change to it.
                run_snapshots.put_back(each)
            return "no position of a group is changed" if not snapshots else "the positions of groups are put back"

        doing = f"write on {self.flow.target} where every group goes on; what was there before is saved"
        moments = when_passed(Event.OFFSETS_APPLIED)
        return Step(GROUPS, doing, act, drift=drift, undo=self.unless_given_up(passing(undo)), moments=moments)

    def unsure(self, plan: MovePlan, copied: Copied) -> list[str]:
        """Return, for people, where groups may pass what they have not read, since nobody can tell what they have."""
        put_there = self.record.copied().placed if self.entry.phase is Phase.RETURNING else None
        return unsure(plan, self.ends, copied, put_there)

    def positions(self) -> Step:
        """Return the step that names the groups that may pass what they have not read.

        It changes nothing, so that it may be done again when they read on the target already. In a plan it says which
        they are as things stand: see :func:`with_unsure`.
        """

        def act(known: Known) -> Result:
            unsure = known[GROUPS].get("unsure")
            if not isinstance(unsure, list | tuple) or not unsure:
                return Result(Verdict.PASS, "no group on record would skip a record, as far as is known")
            names = named([str(each) for each in unsure])
            advice = "without a position a group begins where auto.offset.reset says, and latest skips all there is"
            return Result(
                Verdict.UNKNOWN, f"{names}. {advice}; to have it read again, set it back before it is started"
            )

        return Step(POSITIONS, "name the groups that may skip records they have not read", act)

    def refusal(self, plan: MovePlan) -> str | None:
        """Return why the groups are not moved as planned; None: they can be."""
        if plan.refused:
            return (
                f"nothing was written, since this cannot be moved: {named([str(each) for each in plan.refused])}. "
                "See to it, or leave the group out with --groups"
            )
        if self.is_planned and plan.source_problem is not None:
            return f"{self.flow.source} does not report the positions of its groups: {plan.source_problem}"
        missing = sorted((self.agreed or frozenset()) - {each.group for each in plan.positions})
        if missing:
            return f"nothing was written, since the plan showed groups that are not found any more: {named(missing)}"
        return None

    def _rows(self, plan: MovePlan) -> list[dict[str, Json]]:
        """Return a row a position; ``before`` is what it was before this run changed it, also in an earlier attempt."""
        saved: dict[tuple[str, TopicPartition], int | None] = {}
        for snapshot in map(GroupSnapshot.load, run_snapshots.taken(self.directory)):
            for each in snapshot.positions:
                saved.setdefault((each.group, each.partition), each.before.position if each.before else None)
        return [
            {name: row[name] for name in COLUMNS}
            | {"before": saved.get((row["group"], TopicPartition(row["topic"], row["partition"])), row["before"])}
            for row in plan.rows()
        ]

    # The end.

    def finish(self) -> Step:
        """Return the step that puts on record that the applications are on the target."""

        def act(_: Known) -> Result:
            self.record.put(self.entry.at(Phase.DONE, self.now_ms()))
            return Result(Verdict.PASS, f"on record: the applications are on {self.flow.target}")

        return Step(FINISH, f"put on record, on {self.record.flow.target}, that they are on {self.flow.target}", act)


def _first_written(facts: Mapping[str, Json]) -> Sequence[Moment]:
    return ((Event.FIRST_WRITE, facts),) if facts.get("first_at_ms") is not None else ()


def first_read(facts: Mapping[str, Json]) -> Sequence[Moment]:
    """Return when each group first read, by what the step that waits for that has found."""
    times = facts.get("first_at_ms")
    return [
        (Event.GROUP_READING, {"cluster": facts["cluster"], "group": group, "first_at_ms": at_ms})
        for group, at_ms in (times.items() if isinstance(times, Mapping) else ())
        if at_ms is not None
    ]


def with_unsure(steps: Sequence[Step], unsure: Sequence[str]) -> tuple[Step, ...]:
    """Return steps of which the one that names groups says in the plan already which they are, and no note of it."""
    found = f"; as things stand: {'; '.join(unsure)}" if unsure else ""
    return tuple(replace(each, doing=each.doing + found) if each.name == POSITIONS else each for each in steps)


def moved_groups(known: Known) -> set[str]:
    """Return the groups that have a position on the target by the step that moves them."""
    rows = known.get(GROUPS, {}).get("rows")
    return {str(row["group"]) for row in mappings_of(rows) if row.get("after") is not None}


def _since(known: Known) -> int:
    at_ms = known.get(CUT, {}).get("at_ms")
    return at_ms if isinstance(at_ms, int) else 0


def result_of(answer: Answer, **facts: Json) -> Result:
    """Return what an answer of the applications means for a step."""
    return Result(_verdict(answer), _detail(answer), facts)


def _verdict(answer: Answer) -> Verdict:
    if isinstance(answer, Done):
        return Verdict.PASS
    return Verdict.UNKNOWN if isinstance(answer, Unobserved) else Verdict.FAIL


def _detail(answer: Answer) -> str:
    if isinstance(answer, Done):
        return answer.detail
    return f"nobody has looked: {answer.why}" if isinstance(answer, Unobserved) else str(answer)
