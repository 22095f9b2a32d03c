"""A failover or a failback of a flow, planned and then carried out: what commands and runbooks both do.

Planning looks at both clusters and changes nothing; no directory is made before something is carried out.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirror.config.errors import ConfigError
from mirror.config.settings import FlowSettings, MirrorSettings
from mirror.control.tick import now_ms
from mirror.evidence.run_directory import RunDirectory
from mirror.kafka.old_topics import OldTopic
from mirror.kafka.problems import KafkaProblem
from mirror.kafka.topic_ids import differ
from mirror.model.counts import counted
from mirror.model.failover import FailoverEntry, Phase
from mirror.model.flow import Flow
from mirror.model.progress import Watch
from mirror.model.verdict import Verdict
from mirror.recovery.applications import Applications
from mirror.recovery.cluster_ends import ClusterEnds
from mirror.recovery.denying import RECORD as DENIED
from mirror.recovery.denying import AclDenying, denied_topics, is_here
from mirror.recovery.engine_pausing import EnginePausing
from mirror.recovery.failback import FailbackPlan, alike, but_for, look_home, steps_home
from mirror.recovery.failover import FailoverPlan, Loss, Mode, deselected_of, look_ahead, loss_of, steps_of
from mirror.recovery.flow_ends import Copied, FlowEnds
from mirror.recovery.group_moves import MovePlan
from mirror.recovery.making_anew import copied_anew
from mirror.recovery.migration import Migration, Word, groups_to_move, kept_groups
from mirror.recovery.move import START, Move, Times
from mirror.recovery.quiet_source import STOP
from mirror.recovery.run import FAILBACK, FAILOVER, MIGRATION, Run, Wanted, is_fencing, read_run
from mirror.recovery.step_facts import COLUMNS, named
from mirror.recovery.steps import BEYOND_RETURN, Progress, Step, StepResult, StepsUnderWay, take_back

if TYPE_CHECKING:
    from mirror.proof.comparison import Equivalence

_CUT_AS_A_WHOLE = (
    "only groups that match {groups} are moved, but {flow} is cut as a whole: what other applications write to any of "
    "its topics is not copied until the failback; the runbook migration moves group by group"
)
_ALL = ".*"
# A broker at the end of a long line takes longer to answer than one of a practice cluster.
_PROBE_SECONDS = 1.0
_TIMES = Times()


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody wants of a flow.

    Attributes
    ----------
    settings, chosen
        the properties file, and the flow of it that is failed over; of a failback too.
    groups
        a regular expression; None: all of them, or those of the run that is taken up.
    directory
        of the run; None: a new one in ``runs``.
    applications
        those that move, by the flow along which they do.
    progress
        how far something long is shown.
    given_up
        another run, which nobody goes on with any more.
    verify
        compares a flow's copies with their sources, but for what a file remembers; None: this process does.
    fences
        whether a failover denies writes to the source by ACLs.
    makes_anew
        whether a failback may delete topics of the source that hold other records than the target at the same offsets.
    leaves_behind
        whether what others have written into copies may stay on the target at a failback.
    words
        of which groups of a migration somebody has said that they are at work on the new cluster.
    """

    settings: MirrorSettings
    chosen: FlowSettings
    groups: str | None
    directory: Path | None
    applications: Callable[[Flow], Applications]
    progress: Callable[[], AbstractContextManager[Watch]]
    given_up: str | None = None
    verify: Callable[[FlowSettings, Path | None], Equivalence] | None = None
    fences: bool = False
    makes_anew: bool = False
    leaves_behind: bool = False
    words: Mapping[str, Word] = field(default_factory=dict)

    @property
    def flow(self) -> Flow:
        """Return the flow."""
        return self.chosen.flow

    @property
    def back(self) -> FlowSettings | None:
        """Return the flow back; None if the file enables none."""
        return self.settings.back_of(self.flow)


@dataclass(frozen=True, slots=True)
class Procedure:
    """A failover or a failback that is planned: what it will do, and the run that keeps what it has done.

    Attributes
    ----------
    procedure
        ``failover`` or ``failback``.
    flow
        the flow that is failed over; of a failback too.
    """

    procedure: str
    flow: Flow
    mode: str
    run: Run
    plan: FailoverPlan | FailbackPlan
    move: Move
    steps: Callable[[Move], Sequence[Step]]

    def group_rows(self) -> list[dict[str, Any]]:
        """Return a row for each position of a group that the plan would write."""
        moves = self.plan.moves
        return [] if moves is None else [{name: row[name] for name in COLUMNS} for row in moves.rows()]

    @property
    def refused(self) -> tuple[str, ...]:
        """Return what of the groups cannot be moved, and why."""
        return () if self.plan.moves is None else tuple(map(str, self.plan.moves.refused))

    @property
    def deletion(self) -> str:
        """Return, for whoever is to agree, which topics are deleted; empty: none."""
        anew = self.plan.anew if isinstance(self.plan, FailbackPlan) else ()
        return f" Deleted there before, and made anew: {named(sorted(anew))}." if anew else ""

    @property
    def to_take_back(self) -> tuple[Step, ...]:
        """Return the steps that its run has begun and that can be taken back, the last one first."""
        begun = _progress(self.run).begun
        return tuple(each for each in reversed(self.plan.steps) if each.name in begun and each.undo is not None)

    @property
    def not_taken_back(self) -> str | None:
        """Return why nothing of its run is taken back any more; None: it is.

        Also where its directory is an older copy, or others have given it up.
        """
        if self.is_beyond_return:
            return BEYOND_RETURN
        # That it was on record is taken back last: of a take-back that was killed there nothing else is left.
        return self.move.off_record() if any(not each.is_undone_last for each in self.to_take_back) else None

    @property
    def starts_none(self) -> bool:
        """Return whether taking it back starts no applications, since their cluster was gone."""
        return self.mode == Mode.UNPLANNED

    @property
    def before(self) -> Mapping[str, str]:
        """Return, for people, how far its run has got with each step that it has begun."""
        progress = _progress(self.run)
        unknown = dict.fromkeys(progress.unknown, "UNKNOWN before")
        return dict.fromkeys(progress.begun, "begun before") | unknown | dict.fromkeys(progress.proven, "passed before")

    @property
    def is_beyond_return(self) -> bool:
        """Return whether its run has passed the point of no return."""
        return _progress(self.run).is_beyond_return

    @property
    def nobody(self) -> str | None:
        """Return what is to be said where groups were asked for and there are none; None: there are."""
        moves, pattern = self.plan.moves, self.run.wanted.groups
        if pattern == _ALL or moves is None or moves.positions or moves.refused:
            return None
        return moves.unmatched or f"no group of {self.flow} whose whole id matches {pattern} has a position"

    @property
    def against(self) -> tuple[str, ...]:
        """Return why it must not begin, and for groups what to do; nothing: it may."""
        return (*filter(None, (self.plan.refusal, self.nobody)), *self.refused, *filter(None, (self.without_refused,)))

    @property
    def without_refused(self) -> str | None:
        """Return how the groups are moved that can be; None: all can be, or none."""
        pattern = self.plan.moves.pattern_of_others if self.plan.moves is not None else None
        if pattern is None:
            return None
        runbook = f"-p {shlex.quote(f'groups={pattern}')}"
        return f"to move the others alone: --groups {shlex.quote(pattern)} (with a runbook {runbook})"

    def carry_out(
        self, on_result: Callable[[StepResult], None] = lambda _: None, *, takes_back: bool = False
    ) -> tuple[StepResult, ...]:
        """Carry it out as planned, or take an earlier attempt back; return what came of each step.

        Raises
        ------
        ConfigError
            if its directory cannot be used.
        """
        if takes_back:
            with self.run.held():
                taken = take_back(self.agreed_steps(), self.run.directory.journal, on_result=on_result)
                self.run.seal()
            return taken
        under_way = self.under_way(on_result)
        under_way.through()
        return under_way.results

    def under_way(self, on_result: Callable[[StepResult], None] = lambda _: None) -> UnderWay:
        """Return what carries it out phase by phase; nothing is done yet."""
        return UnderWay(self.run, self.agreed_steps(), goes_back=self.move.is_planned, on_result=on_result)

    def agreed_steps(self) -> Sequence[Step]:
        """Return the steps, which move the groups of the plan."""
        return self.steps(replace(self.move, agreed=_groups_of(self.plan.moves)))


@dataclass(frozen=True, slots=True)
class MigrationProcedure(Procedure):
    """A migration that is planned; a group that has moved is not taken back, one that fails is, by itself."""

    migration: Migration

    def carry_out(
        self, on_result: Callable[[StepResult], None] = lambda _: None, *, takes_back: bool = False
    ) -> tuple[StepResult, ...]:
        """Carry it out as planned, up to the first step that fails; return what came of each.

        Raises
        ------
        ConfigError
            if its directory cannot be used.
        ValueError
            if all of it is to be taken back: groups that work on the new cluster stay there.
        """
        if takes_back:
            raise ValueError("a migration is not taken back as a whole")
        with self.run.held():
            taken = self.migration.carry_out(on_result)
            self.run.seal()
        return taken


class UnderWay:
    """A procedure that this process carries out, phase by phase; between two of them nobody holds its run."""

    def __init__(
        self, run: Run, steps: Sequence[Step], *, goes_back: bool, on_result: Callable[[StepResult], None]
    ) -> None:
        self._run = run
        self._planned = tuple(steps)
        self._goes_back = goes_back
        self._on_result = on_result
        self._steps: StepsUnderWay | None = None
        self._earlier: tuple[StepResult, ...] = ()
        self._entries = 0

    @property
    def results(self) -> tuple[StepResult, ...]:
        """What came of each step so far."""
        return (*self._earlier, *(self._steps.results if self._steps else ()))

    def through(self, name: str | None = None) -> tuple[StepResult, ...]:
        """Carry out what is left, up to and with a step; return what came of these steps.

        What another process has done meanwhile is taken up, and looked at, as on any resumption.

        Raises
        ------
        ConfigError
            if its directory cannot be used.
        """
        with self._run.held():
            journal = self._run.directory.journal
            if self._steps is None or len(journal.read().entries) != self._entries:
                self._earlier = self.results
                self._steps = StepsUnderWay(
                    self._planned, journal, goes_back=self._goes_back, on_result=self._on_result
                )
            taken = self._steps.carry_out(name)
            self._run.seal()
            self._entries = len(journal.read().entries)
        return taken


def plan_failover(request: Request, mode: Mode | None) -> Procedure:
    """Plan a failover, or the rest of one that is taken up.

    What is not said, mode, groups and whether writes are denied, is as in the run that is taken up; in a new one
    unplanned, all groups, and no.

    Raises
    ------
    ConfigError
        if its directory is one of something else.
    KafkaProblem
        if a cluster does not answer that is needed to begin.
    """
    begun = _begun(request.directory)
    mode = mode or Mode(begun.get("mode", Mode.UNPLANNED))
    groups = request.groups or begun.get("groups", _ALL)
    fences = request.fences or is_fencing(begun)
    run = Run.of(request.directory, Wanted(FAILOVER, request.flow, mode, groups, fences))
    is_planned, back = mode is Mode.PLANNED, request.back
    ends = _ends(request, request.chosen, groups, awaits_open_ends=is_planned)
    back_ends = None if back is None else _ends(request, back, groups, awaits_open_ends=True)
    denying = _denying(request, ends, run, mode)
    entry = FailoverEntry(run.run, mode, Phase.UNDER_WAY, run.where, now_ms(), _fences_of(denying))
    move = _move(request, ends, ends, entry, run, is_planned=is_planned)
    plan = look_ahead(mode, move, back_ends, _progress(run), denying)
    if groups != _ALL:
        plan = replace(plan, notes=(*plan.notes, _CUT_AS_A_WHOLE.format(groups=groups, flow=request.flow)))
    return Procedure(
        FAILOVER, request.flow, mode, run, plan, move, lambda agreed: steps_of(mode, agreed, back_ends, denying)
    )


def plan_failback(request: Request) -> Procedure:
    """Plan a failback, or the rest of one that is taken up; ``directory`` may be that of the failover.

    The exceptions are those of :func:`plan_failover`.
    """
    home = request.back
    if home is None:
        flow = Flow(request.flow.target, request.flow.source)
        message = f"the file must enable it: what was written on {flow.source} is copied back by it"
        raise ConfigError(request.settings.path, None, f"{flow}.enabled", message)
    directory, begun = request.directory, _begun(request.directory)
    groups = request.groups or begun.get("groups", _ALL)
    if begun.get("procedure") == FAILOVER and begun["flow"] != str(request.flow):
        raise ConfigError(directory, None, "--flow", f"its run is of {begun['flow']}, not of {request.flow}")
    run = Run.of(failback_directory(directory), Wanted(FAILBACK, request.flow, FAILBACK, groups))
    forward = _ends(request, request.chosen, groups, awaits_open_ends=True)
    home_ends = _ends(request, home, groups, awaits_open_ends=True)
    denying = _denied_before(request, forward, run)
    entry = FailoverEntry(run.run, FAILBACK, Phase.RETURNING, run.where, now_ms(), _fences_of(denying))
    move = _move(request, home_ends, forward, entry, run, is_planned=True)
    plan = look_home(
        *(move, forward, _progress(run), denying), makes_anew=request.makes_anew, leaves_behind=request.leaves_behind
    )

    def steps(agreed: Move) -> tuple[Step, ...]:
        return steps_home(agreed, forward, denying, plan.anew, leaves_behind=request.leaves_behind)

    return Procedure(FAILBACK, request.flow, FAILBACK, run, plan, move, steps)


def stranded_on(request: Request) -> tuple[ClusterEnds, Loss, tuple[str, ...]]:
    """Return what the source of a flow has and its target lacks, whom to have it saved by, and what was not counted.

    Raises
    ------
    KafkaProblem
        if the target does not answer.
    """
    forward, home = _ends(request, request.chosen, _ALL, awaits_open_ends=True), request.back
    record, anew = forward.copied(), frozenset[str]()
    if home is not None:
        there = _ends(request, home, _ALL, awaits_open_ends=True).copied()
        # Where the source does not answer, the loss says so.
        with suppress(KafkaProblem):
            anew = copied_anew(record, there, forward)
        record = alike(record, there)
    # What has another topic in its place is named beside: of all others it is known what is missing.
    loss = loss_of(forward, record, ask_source=True, anew=anew | _of_other_topics(forward, record))
    uncounted = deselected_of(request.flow, record)
    if loss.bound is None:
        uncounted += _not_comparable(forward, anew | {each.topic for each in loss.gone})
    return forward, loss, uncounted


def _of_other_topics(forward: FlowEnds, record: Copied) -> frozenset[str]:
    """Return the topics of a source that are others now than were copied; none where it does not answer."""
    topic_ids = {each.topic: position.topic_id for each, position in record.positions.items()}
    now: Mapping[str, OldTopic] = {}
    with suppress(KafkaProblem):
        now = forward.topics(topic_ids.keys())
    return frozenset(name for name, topic in now.items() if differ(topic_ids[name], topic.topic_id))


def _not_comparable(forward: FlowEnds, named_beside: Collection[str]) -> tuple[str, ...]:
    """Return what of a source is not what was copied of it, or may not be: no position tells what of it is missing."""
    source, found = forward.flow.source, but_for(forward.rewritten(), named_beside)
    return (
        *(f"{source} has something else than was copied of {each}" for each in found.difference_messages()),
        *(f"it is not known whether {source} still has what was copied of {each}" for each in found.unknown_messages()),
    )


def plan_migration(request: Request) -> MigrationProcedure:
    """Plan a migration to the target of a flow, group by group, or the rest of one that is taken up.

    The exceptions are those of :func:`plan_failover`.
    """
    groups = request.groups or _begun(request.directory).get("groups", _ALL)
    run = Run.of(request.directory, Wanted(MIGRATION, request.flow, Mode.PLANNED, groups))
    ends, back = _ends(request, request.chosen, groups, awaits_open_ends=True), request.back
    back_ends = None if back is None else _ends(request, back, groups, awaits_open_ends=True)
    entry = FailoverEntry(run.run, MIGRATION, Phase.UNDER_WAY, run.where, now_ms())
    move = _move(request, ends, ends, entry, run, is_planned=True)
    path = run.directory.path
    kept = kept_groups(path)
    chosen = kept if kept is not None else groups_to_move(ends.plan_groups(ask_source=True))
    migration = Migration(move, back_ends, chosen, path, request.words)
    plan = migration.plan(_progress(run))
    return MigrationProcedure(
        MIGRATION, request.flow, Mode.PLANNED, run, plan, move, lambda _: migration.steps(), migration
    )


def _denying(request: Request, ends: ClusterEnds, run: Run, mode: Mode) -> AclDenying | None:
    """Return what denies writes to the source, if that is wanted, or was when the run was begun.

    What a run has denied that is given up is this one's from then on, whether or not it denies anything itself.
    """
    record = run.directory.path.absolute() / DENIED
    concerned, copied = {run.run, request.given_up}, ends.copied()
    fences = (Path(fence) for each in copied.failovers if each.run in concerned for fence in each.fences)
    earlier = tuple(dict.fromkeys(each for each in fences if each != record))
    if not run.wanted.fence:
        return AclDenying(request.settings, request.chosen, record, earlier, adds=False) if earlier else None
    if mode is Mode.UNPLANNED:
        message = "is for planned and cut-off failovers: of a source that is gone nobody can deny anything"
        raise ConfigError(request.settings.path, None, "--fence", message)
    topics = frozenset(each.topic for each in copied.positions)
    return AclDenying(request.settings, request.chosen, record, earlier, copied=topics)


def _fences_of(denying: AclDenying | None) -> tuple[str, ...]:
    """Return the files in which it stands what is denied, as they are put on record."""
    if denying is None:
        return ()
    return tuple(map(str, ((denying.record,) if denying.adds else ()) + denying.earlier))


def _denied_before(request: Request, forward: ClusterEnds, run: Run) -> AclDenying | None:
    """Return what takes back what the failovers on record have denied; None: they have denied nothing.

    Raises
    ------
    ConfigError
        if what they have denied is on record in files of which none is here.
    """
    beside = run.directory.path.absolute().parent / DENIED
    fences = [Path(fence) for each in forward.copied().failovers for fence in each.fences]
    records = tuple(dict.fromkeys((*([beside] if is_here(beside) else []), *fences)))
    if not records:
        return None
    if not any(map(is_here, records)) and (topics := denied_topics(request.settings, request.chosen)):
        message = (
            f"the failover has denied writes to {request.flow.source} ({named(topics)}), on record in {records[0]}, "
            f"which is not here: lift it where that is (mirror fence --lift --record {records[0]}), then fail back"
        )
        raise ConfigError(request.settings.path, None, "--run-directory", message)
    return AclDenying(request.settings, request.chosen, records[0], records[1:])


def _move(
    request: Request, along: ClusterEnds, record: ClusterEnds, entry: FailoverEntry, run: Run, *, is_planned: bool
) -> Move:
    """Return the move of the applications along one flow; ``record`` as `Move` has it."""
    return Move(
        along,
        record,
        request.applications(along.flow),
        entry,
        run.directory.path,
        is_planned=is_planned,
        given_up=request.given_up,
        times=_TIMES,
    )


def _begun(directory: Path | None) -> Mapping[str, str]:
    """Return what the run in a directory is about; nothing if there is none yet."""
    if directory is None or not (directory / "run.json").exists():
        return {}
    return read_run(directory)


def failback_directory(directory: Path | None) -> Path | None:
    """Return where the run of a failback is of which this directory is named, or that of the failover it undoes."""
    is_of_failover = _begun(directory).get("procedure") == FAILOVER
    return directory / FAILBACK if directory is not None and is_of_failover else directory


def stopped_applications(directory: Path, cluster: str) -> str:
    """Say how far the run in a directory has stopped the applications on a cluster; empty: not, or some are started."""
    progress = Progress.of(RunDirectory(directory).journal.read().entries)
    if progress.begun & {STOP, START} != {STOP}:
        return ""
    if STOP in progress.proven:
        return f"The applications on {cluster} are stopped, and started nowhere yet."
    return f"The applications on {cluster} may not all have stopped, and none was started elsewhere yet."


def stopped_message(directory: Path, cluster: str) -> str:
    """Return what a run that cannot be planned on has stopped on a cluster, and what to do; empty: nothing."""
    stopped = stopped_applications(directory, cluster)
    return stopped and (
        f"of the run in {directory}: {stopped} The same command goes on with the run, as soon as what is said below is "
        f"over; if they are to go on there without it, start them on {cluster} yourself"
    )


def _ends(request: Request, chosen: FlowSettings, groups: str, *, awaits_open_ends: bool) -> ClusterEnds:
    settings = request.settings

    def compare(flow: FlowSettings, remember: Path | None) -> tuple[Verdict, str]:
        return summed_up((request.verify or _verified_here(request))(flow, remember))

    pausing = EnginePausing(settings, awaits_open_ends)
    return ClusterEnds(settings, chosen, pausing, compare, groups, _PROBE_SECONDS, progress=request.progress)


def summed_up(found: Equivalence) -> tuple[Verdict, str]:
    """Return what a comparison says of the copies, with how much was compared and what is wrong, for people.

    A difference stays one where some of its partition could not be read: what is behind it is no excuse.
    """
    verdicts = [(each, Verdict.FAIL if each.differs else each.verdict) for each in found.partitions]
    wrong = [
        f"{each.source}: {verdict} ({'; '.join(each.in_words)})"
        for each, verdict in verdicts
        if verdict is not Verdict.PASS
    ]
    unchecked = [str(each) for each in found.left_out if each.is_unchecked]
    message = (
        f"{counted(len(found.partitions), 'partition')} and "
        f"{counted(sum(each.records for each in found.partitions), 'record')} compared"
    )
    if earlier := found.remembered.records:
        message += f", {earlier:,} of them before"
    is_wrong = any(verdict is Verdict.FAIL for _, verdict in verdicts)
    return Verdict.FAIL if is_wrong else found.verdict, "; ".join(
        (message, *filter(None, (named(wrong), named(unchecked))))
    )


def _verified_here(request: Request) -> Callable[[FlowSettings, Path | None], Equivalence]:
    def verify(flow: FlowSettings, remember: Path | None) -> Equivalence:
        from mirror.recovery.verify import verify_flow  # importing PySpark takes a second

        with request.progress() as watch:
            clusters, flows = request.settings.clusters, request.settings.enabled_flows
            return verify_flow(flow, clusters, flows, remember=remember, watch=watch)

    return verify


def _progress(run: Run) -> Progress:
    journal = run.directory.journal
    return Progress.of(journal.read().entries if not run.is_new else ())


def _groups_of(moves: MovePlan | None) -> frozenset[str] | None:
    return None if moves is None else frozenset(each.group for each in moves.positions)
