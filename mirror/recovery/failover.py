"""Failing a flow over: the plan of a run in each mode, and its steps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from enum import StrEnum

from mirror.control.gaps import iso_time
from mirror.evidence.facts import Json
from mirror.evidence.journal import Event
from mirror.kafka.problems import BrokerRefused, KafkaProblem
from mirror.kafka.topic_ids import differ
from mirror.model.counts import counted
from mirror.model.failover import Phase
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.state_values import WERE_PAUSED
from mirror.model.verdict import Verdict
from mirror.recovery.denying import DENY, Denying, deny_step
from mirror.recovery.flow_ends import Copied, Ends, FlowEnds
from mirror.recovery.group_moves import MovePlan, unseen_groups_message
from mirror.recovery.move import FINISH, GROUPS, Move, with_unsure
from mirror.recovery.other_runs import failover_entry_message
from mirror.recovery.step_facts import named
from mirror.recovery.steps import NOT_BEGUN, Known, Progress, Result, Step, when_passed
from mirror.recovery.unlisted import removed_there
from mirror.recovery.verify_steps import verify_so_far_step, verify_step

DETECT = "detect"
_NO_RECORDS = "markers of transactions, aborted records and what a log cleaner has removed take offsets, too"


class Mode(StrEnum):
    """Why applications are moved, and what is known of their old cluster."""

    UNPLANNED = "unplanned"
    """It is gone; nothing is asked of it but whether it is."""
    PLANNED = "planned"
    """It is there, and nothing may be lost."""
    CUT_OFF = "cut-off"
    """The target cannot copy from it any more; whether it lives is not known."""


@dataclass(frozen=True, slots=True)
class Lacking:
    """What of one partition the target lacks: the source's offsets from ``start`` on, to ``end`` as far as is known."""

    partition: TopicPartition
    start: int
    end: int

    def __str__(self) -> str:
        """Return it for people."""
        if self.end <= self.start:
            return f"{self.partition}: nothing up to {self.start}"
        return f"{self.partition}: {counted(self.end - self.start, 'offset')}, from {self.start} to {self.end - 1}"


@dataclass(frozen=True, slots=True)
class Loss:
    """What the target lacks of the source.

    Attributes
    ----------
    lacking
        by partition; none that lacks nothing.
    bound
        why there may be more, and since when; None where the source itself has told.
    removed
        what was copied of nobody before it was removed from the source, by retention for instance: neither has it.
    gaps
        what the flow has passed by without copying it, and nobody has acknowledged, in words for people.
    gone
        the partitions that the source does not have any more, and up to where they were copied: what lay behind that
        nobody can tell.
    """

    lacking: tuple[Lacking, ...]
    bound: str | None
    removed: tuple[Lacking, ...] = ()
    gaps: tuple[str, ...] = ()
    gone: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def is_exact(self) -> bool:
        """Whether nothing more is missing."""
        return self.bound is None and not self.gone

    def __str__(self) -> str:
        """Return it for people."""
        count = sum(each.end - each.start for each in self.lacking)
        what = (
            f"{counted(count, 'offset')} missing, {counted(count, 'record')} at most ({_NO_RECORDS}): "
            f"{named([str(each) for each in self.lacking])}"
            if count
            else "nothing is missing of what it has"
            if self.removed or self.gaps or self.gone
            else "nothing is missing"
        )
        if self.gone:
            gone = named([f"{each} (copied up to {at})" for each, at in sorted(self.gone.items())])
            what += f"; not there any more, so that what else it had is not known; the copy is all of it: {gone}"
        if self.removed:
            what += (
                f"; removed from it before it was copied, so on neither: {named([str(one) for one in self.removed])}"
            )
        if self.gaps:
            what += f"; in gaps that nobody has acknowledged (mirror gaps FILE): {named(self.gaps)}"
        return f"{what}, as the source reports" if self.bound is None else f"{self.bound}; of what is on record, {what}"

    def rows(self) -> list[dict[str, Json]]:
        """Return a row a partition of what is lacking, for a journal and for ``--json``."""
        return _rows(self.lacking)

    def removed_rows(self) -> list[dict[str, Json]]:
        """Return the same of what was removed before it was copied."""
        return _rows(self.removed)


def _rows(stretches: Iterable[Lacking]) -> list[dict[str, Json]]:
    return [
        {"topic": each.partition.topic, "partition": each.partition.partition, "from": each.start, "to": each.end}
        for each in stretches
    ]


@dataclass(frozen=True, slots=True)
class FailoverPlan:
    """What a run is going to do, and what is known before it.

    Attributes
    ----------
    moves
        of groups; None if a run that is taken up has moved them already.
    loss
        what the target lacks as things stand; of a planned run all of it is copied before the applications move.
    refusal
        why the run must not begin; None: it may.
    notes
        what else people have to know.
    still_there
        why its first step could not pass now: the source is to be gone, and answers; None: it does not, or need not be.
    """

    mode: Mode
    steps: tuple[Step, ...]
    copied: Copied
    moves: MovePlan | None
    loss: Loss
    refusal: str | None
    notes: tuple[str, ...]
    still_there: str | None = None


def steps_of(mode: Mode, move: Move, back: FlowEnds | None, denying: Denying | None = None) -> tuple[Step, ...]:
    """Return the steps of a run.

    ``back`` are the ends of the flow back, None if the file enables none; ``denying`` denies writes to the source, or
    answers for what a run that was given up has denied; None if there is neither.
    """
    denied = () if denying is None else (deny_step(move.flow.source, denying, move.unless_given_up),)
    arrival = (move.first_write(), move.first_reads(), move.finish())
    if mode is Mode.PLANNED:
        copy = (
            move.stop(),
            *denied,
            move.fence(),
            move.drain(),
            move.cut(holds_on=True),
            verify_step(move.ends, move.directory),
        )
        return (
            begun_alone(move, back),
            verify_so_far_step(move.ends, move.directory),
            *copy,
            move.groups(),
            move.positions(),
            move.last_look(),
            move.start(),
            copy_back(move, back),
            *arrival,
        )
    moved = (move.cut(holds_on=True), move.groups(), move.positions())
    if mode is Mode.UNPLANNED:
        looked = with_source_gone_still(move.last_look(), move)
        return (detect(move), move.begin(), move.stop(), *denied, *moved, looked, move.start(), *arrival)
    # What the source has acknowledged until its applications were stopped is lacking too.
    first, final = _state_loss(move, "loss", ""), _state_loss(move, "final loss", ", now that the flow is cut")
    return (first, move.begin(), move.stop(), *denied, *moved, final, move.last_look(), move.start(), *arrival)


def begun_alone(move: Move, back: FlowEnds | None) -> Step:
    """Return the step that puts the run on record, unless the flow back was failed over since the run was planned."""
    begin = move.begin()

    def act(known: Known) -> Result:
        found = begin.act(known)
        if found.verdict is Verdict.PASS and (other := against_the_other_way(back)) is not None:
            move.record.take(move.entry.run)
            return Result(Verdict.FAIL, other)
        return found

    return replace(begin, act=act)


def look_ahead(
    mode: Mode,
    move: Move,
    back: FlowEnds | None,
    progress: Progress = NOT_BEGUN,
    denying: Denying | None = None,
) -> FailoverPlan:
    """Plan a run, or the rest of it: look at both ends, as far as the mode lets it, and change nothing.

    Raises
    ------
    KafkaProblem
        if a cluster does not answer without which the run cannot begin.
    """
    # Detecting is mostly waiting; the plan asks nothing of a source that is to be gone.
    detects = mode is Mode.UNPLANNED and DETECT not in progress.proven
    with move.ends.probing() if detects else nullcontext():
        plan = _looked_ahead(mode, move, back, progress, denying)
    if not detects:
        return plan
    if (refused := move.ends.login_refusal()) is not None:
        plan = replace(plan, notes=(refused, *plan.notes))
    if where := ", ".join(move.ends.answered()):
        there = f"{move.flow.source} answers at {where}, and the step {DETECT} passes once no broker does"
        plan = replace(plan, still_there=there)
    return plan


def _looked_ahead(
    mode: Mode, move: Move, back: FlowEnds | None, progress: Progress, denying: Denying | None
) -> FailoverPlan:
    copied = move.ends.copied()
    moves = None if GROUPS in progress.proven else move.ends.plan_groups(ask_source=mode is not Mode.UNPLANNED)
    other = move.in_the_way(copied.failovers)
    refusal = None
    if other is not None:
        refusal = failover_entry_message(other, move.flow)
    elif not progress.is_beyond_return and (older := move.older_copy(copied.failovers)) is not None:
        refusal = older
    elif FINISH in progress.proven and move.entry.run not in {each.run for each in copied.failovers}:
        refusal = (
            f"this failover is finished, and off the record of {move.flow.target}: it was failed back since. Nothing "
            "is done; another failover takes a run directory of its own"
        )
    elif not copied.positions:
        refusal = f"{move.flow} has copied nothing that is on record on {move.flow.target}: nobody can go on there"
    loss = loss_of(move.ends, copied, ask_source=mode is not Mode.UNPLANNED, by_epochs=True)
    if mode is Mode.PLANNED and refusal is None and loss.bound is not None:
        refusal = f"{move.flow.source} must report what it has for a planned failover: {loss.bound}"
    if mode is Mode.PLANNED and refusal is None:
        refusal = against_the_other_way(back)
    if mode is Mode.PLANNED and refusal is None and not progress.begun:
        refusal = cannot_drain(move.ends, copied)
    unsure = move.unsure(moves, copied) if moves is not None else []
    notes = (*notes_of(move, back, copied), *by_hand_of(move.flow, copied), *deselected_of(move.flow, copied))
    notes += (*stopped_of(move, copied), *given_up_of(move, move.flow, copied))
    notes += tuple(f"applications cannot write there until the step cut opens it: {each}" for each in copied.closed)
    if moves is not None and moves.unseen:
        notes += (unseen_groups_message(moves, move.flow),)
    if denying is not None and DENY not in progress.proven:
        notes += denying.plan()
    steps = with_unsure(steps_of(mode, move, back, denying), unsure)
    return FailoverPlan(mode, steps, copied, moves, loss, refusal, notes)


def against_the_other_way(back: FlowEnds | None) -> str | None:
    """Return why applications must not be moved while both clusters are there, by what the flow back has on record.

    Moved along the flow back they are moved back by its failback, which knows what there is to undo.
    """
    if back is None:
        return None
    try:
        others = back.copied().failovers
    except KafkaProblem as problem:
        if isinstance(problem, BrokerRefused) and problem.is_denied:
            # Who writes there, and whether the flow back is cut, would be asked once the applications are stopped.
            message = f"whether {back.flow} is failed over, or writes to {back.flow.target}, is not known: {problem}"
            return f"{message}. Grant Describe and Read on it, or leave {back.flow} out of the file"
        # It is the source, of which a planned run asks more anyway.
        return None
    return failover_entry_message(others[-1], back.flow) if others else None


def cannot_drain(ends: FlowEnds, copied: Copied, *, is_resumed: bool = False) -> str | None:
    """Return why the copy of a flow would never be complete: better known before the applications are stopped.

    ``is_resumed``: a cut of the flow is ended before; what is paused by hand stays so.
    """
    if not ends.is_running():
        return f"no engine copies {ends.flow}, so the copy cannot become complete: mirror run FILE"
    if not is_resumed and ends.is_paused():
        return f"{ends.flow} is paused, so the copy cannot become complete: mirror resume FILE --flow '{ends.flow}'"
    if copied.paused:
        return f"topics are paused, so their copy cannot become complete (mirror resume): {named(copied.paused)}"
    if is_resumed and copied.pauses:
        return f"{ends.flow} is paused by hand, so the copy may not become complete (mirror resume): " + named(
            copied.pauses
        )
    if copied.stops:
        stopped = [f"{each}: {why}" for each, why in copied.stops.items()]
        return f"the copy of {ends.flow} has stopped, so it cannot become complete: {named(stopped)}"
    if copied.open_gaps:
        return (
            f"the copy of {ends.flow} has gaps that nobody has acknowledged (mirror gaps FILE --acknowledge): "
            f"{named(copied.open_gaps)}"
        )
    return None


def loss_of(
    ends: FlowEnds, copied: Copied, *, ask_source: bool, anew: Collection[str] = (), by_epochs: bool = False
) -> Loss:
    """Return what the target lacks: exactly where the source tells, otherwise what is on record of it.

    A source tells nothing that is another cluster than the one that was copied, or that ends before what was copied;
    but for the topics that were made anew there, ``anew``. ``by_epochs``: nor one whose leader epochs say that a log
    was truncated below that, however long it is by now, or do not tell.
    """
    why = "it was not asked"
    if ask_source:
        try:
            found = ends.ends()
            if copied.source_id and found.cluster_id != copied.source_id:
                # Nor do its logs tell what of the one that was copied is missing, or was removed from it.
                return Loss(_on_record(copied), _another_cluster(ends, copied, found), gaps=tuple(copied.open_gaps))
            bound = _not_what_was_copied(ends, copied, found, anew)
            if by_epochs and bound is None:
                bound = _rewritten(ends, found)
            reached = {each: position.upstream for each, position in copied.positions.items()}
            begins = {each: max(reached.get(each, 0), found.starts.get(each, 0)) for each in found.ends}
            short = {each: (begins[each], end) for each, end in found.ends.items() if begins[each] < end}
            held = ends.holding(short) if short else {}
            recorded = {each: at for each, at in reached.items() if each.topic not in anew}
            gone = {each: recorded[each] for each in removed_there(ends, recorded, found.ends)}
        except KafkaProblem as problem:
            why = str(problem)
        else:
            # Of what was never copied it is not known where it was to begin.
            removed = {each: (at, begins[each]) for each, at in reached.items() if at < begins.get(each, at)}
            return Loss(_stretches(held), bound, _stretches(removed), tuple(copied.open_gaps), gone)
    bound = f"what {ends.flow.source} has acknowledged {_unseen_since(copied)}, is not known ({why})"
    return Loss(_on_record(copied), bound, gaps=tuple(copied.open_gaps))


def _on_record(copied: Copied) -> tuple[Lacking, ...]:
    """Return what was not copied of the source by where its logs had ended when that was last written down."""
    return tuple(
        Lacking(each, position.upstream, position.source_end)
        for each, position in copied.positions.items()
        if position.source_end > position.upstream
    )


def _another_cluster(ends: FlowEnds, copied: Copied, found: Ends) -> str:
    return (
        f"what {ends.flow.source} had acknowledged is not known: it is another cluster now ({found.cluster_id}) than "
        f"the one that was copied ({copied.source_id})"
    )


def _not_what_was_copied(ends: FlowEnds, copied: Copied, found: Ends, anew: Collection[str]) -> str | None:
    """Return why the logs of the cluster that was copied do not tell what was not; None: they do."""
    source = ends.flow.source
    other = [
        f"{each} {'is of a topic that was created anew' if is_other else f'ends at {found.ends[each]}'}, "
        f"and was copied up to {position.upstream}"
        for each, position in copied.positions.items()
        if each in found.ends and each.topic not in anew
        # Of what was never copied a topic that was created anew lacks nothing.
        for is_other in [
            position.upstream > position.origin and differ(position.topic_id, found.ids.get(each.topic, ""))
        ]
        if is_other or found.ends[each] < position.upstream
    ]
    if not other:
        return None
    return f"what {source} had acknowledged is not known, since topics were created anew or truncated: {named(other)}"


def _rewritten(ends: FlowEnds, found: Ends) -> str | None:
    """Return why logs that the source has do not tell what was not copied, by their leader epochs; None: they do."""
    now = ends.rewritten(by_epochs=True)
    other = {each: why for each, why in {**now.differences, **now.unknown}.items() if each in found.ends}
    messages = [f"{each}: {why}" for each, why in sorted(other.items())]
    if not messages:
        return None
    source = ends.flow.source
    return f"what {source} had acknowledged is not known, since it may have something else now: {named(messages)}"


def _stretches(found: Mapping[TopicPartition, tuple[int, int]]) -> tuple[Lacking, ...]:
    return tuple(Lacking(each, start, end) for each, (start, end) in sorted(found.items()))


def _unseen_since(copied: Copied) -> str:
    """Return since when what the source has acknowledged was not seen; an engine reports on without its source.

    It writes down where logs end once a second, while it copies: a report may be younger than that. That a source does
    not answer is trouble within some seconds, and what waits for a quota or a slow target is not asked for meanwhile.
    """
    if copied.report_at_ms is None:
        return "ever"
    at = iso_time(copied.report_at_ms)
    if not copied.report_troubles:
        paused = f", and to {named(copied.paused)} since that was paused" if copied.paused else ""
        return f"since a minute at most before {at}, the engine's last report{paused}"
    troubles = named(copied.report_troubles)
    if copied.untroubled_at_ms is not None:
        clean = iso_time(copied.untroubled_at_ms)
        return f"since a minute at most before {clean}, when the engine last reported no trouble (at {at}: {troubles})"
    return (
        f"since an engine last copied from it without trouble (when is not on record: the last report, {at}, is of "
        f"trouble already: {troubles})"
    )


def notes_of(move: Move, back: FlowEnds | None, copied: Copied) -> tuple[str, ...]:
    """Return what the names of the copies mean for applications, and whether a flow copies back."""
    flow = move.flow
    way_home = (
        f"the file enables no flow {flow.target}->{flow.source}: what is written on {flow.target} is not copied back, "
        "and mirror failback needs that flow"
        if back is None
        else f"{back.flow} copies back what is written on {flow.target}, once {flow.source} answers"
    )
    return (naming(move.ends, copied), way_home)


def stopped_of(move: Move, copied: Copied) -> tuple[str, ...]:
    """Return whose copy had stopped."""
    if not copied.stops:
        return ()
    which = named([f"{each}: {why}" for each, why in sorted(copied.stops.items())])
    return (f"the copy has stopped, so that {move.flow.target} may lack more than is on record: {which}",)


def given_up_of(move: Move, flow: Flow, record: Copied) -> tuple[str, ...]:
    """Return which applications a run that is given up has begun to start, by what is on record of the flow."""
    given_up = next((each for each in record.failovers if each.run == move.given_up), None)
    if given_up is None or not given_up.has_started:
        return ()
    where = flow.source if given_up.phase is Phase.RETURNING else flow.target
    begun = f"has begun to start {given_up.has_started} on {where}"
    return (
        f"the run that is given up {begun}: see first which are at work; taking this one back may start them twice",
    )


def by_hand_of(flow: Flow, copied: Copied) -> tuple[str, ...]:
    """Return what becomes of pauses that somebody has made by hand."""
    if not copied.pauses:
        return ()
    message = "they stay as they are, also when this is taken back and after a failback"
    return (f"paused by hand in {flow}, so that {flow.target} may lack more of it: {named(copied.pauses)}; {message}",)


def deselected_of(flow: Flow, copied: Copied) -> tuple[str, ...]:
    """Return which topics were copied once and are not looked at, since the file does not select them any more."""
    if not copied.deselected:
        return ()
    which = named(copied.deselected)
    return (f"copied once, and no longer selected by topics of {flow}, so that nothing of them is counted: {which}",)


def naming(ends: FlowEnds, copied: Copied) -> str:
    """Return what the names of the copies mean for applications."""
    source, target, copy = ends.flow.source, ends.flow.target, ends.copy_of("orders")
    if copy != "orders":
        return (
            f"copies have other names: consumers on {target} read {copy} (what {source} had) and orders (what is "
            f"written on {target}); records that only {source} has stay there, and come to {copy} after a failback"
        )
    kept = (
        f"copies keep their names: consumers on {target} read the same topics; records that only {source} has stay in "
    )
    if any(position.same_offsets for position in copied.positions.values()):
        return (
            f"{kept}their place there; where {target} has others at their offsets, they are saved in a file, and in "
            "neither topic, after a failback (--make-anew)"
        )
    return f"{kept}their place there, and come to {target}, behind what was written meanwhile, after a failback"


def detect(move: Move) -> Step:
    """Return the step that makes sure that the source is gone."""
    source = move.flow.source

    def act(_: Known) -> Result:
        gone = move.ends.wait_until_gone()
        facts: dict[str, Json] = {"probes": gone.probes, "addresses": list(gone.addresses)}
        message = f"no broker of {source} answers, {counted(gone.probes, 'time')} {gone}"
        return Result(Verdict.PASS, message, facts)

    def drift(_: Mapping[str, Json]) -> str | None:
        return _answers_again(move)

    doing = f"probe every broker of {source} until none answers"
    return Step(DETECT, doing, act, drift=drift, moments=when_passed(Event.FAULT_DETECTED))


def with_source_gone_still(look: Step, move: Move) -> Step:
    """Return the last look before the applications are started, which fails where the source has come back meanwhile.

    Whoever writes to it then writes what the target never gets, and reads what others read on the target.
    """
    source, target = move.flow.source, move.flow.target

    def act(known: Known) -> Result:
        if (problem := _answers_again(move)) is None:
            found = look.act(known)
            is_so = found.verdict is Verdict.PASS
            return replace(found, detail=f"{found.detail}, and no broker of {source} answers") if is_so else found
        advice = (
            f"no application is started on {target} yet. Either stop the brokers of {source}, or cut them off, and go "
            f"on with this run; or take it back (--take-back) and stay on {source}, or fail over as planned from there"
        )
        return Result(Verdict.FAIL, f"{problem}, and was gone when this run began: {advice}")

    return replace(look, doing=f"{look.doing}, and {source} gone", act=act)


def _answers_again(move: Move) -> str | None:
    there = move.ends.answering()
    return f"{move.flow.source} answers again at {', '.join(there)}" if there else None


def _state_loss(move: Move, name: str, when: str) -> Step:
    def act(_: Known) -> Result:
        loss = loss_of(move.ends, move.ends.copied(), ask_source=True, by_epochs=True)
        facts: dict[str, Json] = {
            "lacking": loss.rows(),
            "removed": loss.removed_rows(),
            "is_exact": loss.is_exact,
        }
        return Result(Verdict.PASS, f"{move.flow.target}: {loss}", facts)

    return Step(name, f"state what {move.flow.target} lacks{when}", act)


def copy_back(move: Move, back: FlowEnds | None) -> Step:
    """Return the step that has what is written on the target copied back."""

    def act(_: Known) -> Result:
        if back is None:
            detail = f"the file enables no flow {move.flow.target}->{move.flow.source}: nothing is copied back"
            return Result(Verdict.PASS, detail)
        return Result(Verdict.PASS, copies_again(back))

    doing = f"have what is written on {move.flow.target} copied back" if back else "say that nothing is copied back"
    return Step("copy back", doing, act)


def copies_again(ends: FlowEnds, anew: Collection[str] = ()) -> str:
    """Have a flow copied again that was cut; return, for people, how it stands. What is paused by hand stays so.

    What was wrong with topics of its target that were made ``anew`` since is not told, nor that it had been cut.
    """
    detail = ends.resume()
    if not ends.is_running():
        return f"{detail}; no engine runs it: mirror run FILE"
    record = ends.copied()
    mended = tuple(f"{each}{mark}:" for each in record.positions if each.topic in anew for mark in ("", " is stopped"))
    troubles = [each for each in record.report_troubles if each != WERE_PAUSED and not each.startswith(mended)]
    return f"{detail}; its engine reported last: {named(troubles)}" if troubles else detail
