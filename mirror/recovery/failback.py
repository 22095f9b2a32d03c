"""Failing back: the return of applications that were failed over, as plan and steps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from mirror.evidence.facts import Json
from mirror.kafka.problems import KafkaProblem
from mirror.model.counts import counted
from mirror.model.failover import FailoverEntry, Phase
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.verdict import Verdict
from mirror.recovery.denying import Denying, admit_step
from mirror.recovery.failover import (
    Lacking,
    Loss,
    by_hand_of,
    cannot_drain,
    copies_again,
    deselected_of,
    given_up_of,
    loss_of,
    naming,
)
from mirror.recovery.flow_ends import Copied, FlowEnds
from mirror.recovery.group_moves import MovePlan
from mirror.recovery.left_behind import left_behind_refusal, left_behind_step, with_none_left_since
from mirror.recovery.making_anew import (
    MAKE_ANEW,
    POSITIONS,
    SAVE,
    await_made_anew,
    copied_anew,
    elsewhere_message,
    made_anew,
    make_anew_step,
    save_step,
    saved_topics,
)
from mirror.recovery.move import FINISH, GROUPS, Move, with_unsure
from mirror.recovery.other_runs import failover_entry_message
from mirror.recovery.rewritten import Rewritten
from mirror.recovery.staying import NOBODY, Staying
from mirror.recovery.step_facts import named
from mirror.recovery.steps import NOT_BEGUN, Known, Progress, Result, Step
from mirror.recovery.unlisted import removed_there
from mirror.recovery.verify_steps import verify_so_far_step, verify_step
from mirror.waiting import WaitTimeout

_MIRROR_HOME, _FORWARD_AGAIN = "mirror home", "forward again"


@dataclass(frozen=True, slots=True)
class FailbackPlan:
    """What a run is going to do, and what is known before it.

    Attributes
    ----------
    moves
        of groups, from the standby back, as things stand; None if a run that is taken up has moved them already.
    stranded
        what the old cluster has and the standby lacks.
    anew
        the topics of the old cluster that are deleted, and made anew from the standby.
    refusal
        why the run must not begin; None: it may.
    """

    steps: tuple[Step, ...]
    copied: Copied
    moves: MovePlan | None
    stranded: Loss
    refusal: str | None
    notes: tuple[str, ...]
    anew: frozenset[str] = frozenset()


def steps_home(
    move: Move,
    forward: FlowEnds,
    denying: Denying | None = None,
    anew: Collection[str] = (),
    *,
    leaves_behind: bool = False,
) -> tuple[Step, ...]:
    """Return the steps of a run.

    ``move`` goes along the flow back, ``forward`` is the flow that was failed over; ``denying`` has denied writes to
    its source, None if nothing has; ``anew`` are the topics there that are made anew; ``leaves_behind``: whether what
    others have written into copies may stay on the standby.
    """
    admitted = () if denying is None else (admit_step(forward.flow.source, denying, move.unless_given_up),)
    # Under unchanged names the flow back writes to the very topics that are denied.
    shares = forward.copy_of("orders") == "orders"
    return (
        move.begin(),
        _returned(move, forward),
        _stranded(move, forward),
        *((save_step(move, forward, anew), make_anew_step(move, forward, anew)) if anew else ()),
        *(admitted if shares else ()),
        _mirrored_home(move, forward, anew),
        verify_so_far_step(move.ends, move.directory),
        move.stop(),
        move.fence(),
        move.drain(),
        left_behind_step(move, forward, is_accepted=leaves_behind),
        move.cut(holds_on=False),
        verify_step(move.ends, move.directory),
        move.groups(),
        move.positions(),
        with_none_left_since(move.last_look(), forward),
        *(() if shares else admitted),
        move.start(),
        _forward_again(move, forward),
        move.first_write(),
        move.first_reads(),
        _finished(forward, move.entry.run),
    )


def look_home(
    move: Move,
    forward: FlowEnds,
    progress: Progress = NOT_BEGUN,
    denying: Denying | None = None,
    *,
    makes_anew: bool = False,
    leaves_behind: bool = False,
) -> FailbackPlan:
    """Plan a run, or the rest of it: look at both ends and change nothing.

    ``makes_anew``: whether topics of the old cluster may be deleted that hold other records than the standby at the
    same offsets; ``leaves_behind``: whether what others have written into copies on the standby may stay there.

    Raises
    ------
    KafkaProblem
        if a cluster does not answer.
    """
    record = forward.copied()
    # One that has ended may have taken itself off the record, and not written that down.
    is_off_record = (
        move.entry.run not in {each.run for each in record.failovers} and _FORWARD_AGAIN not in progress.proven
    )
    other = move.in_the_way(record.failovers)
    refusal = None
    if other is not None:
        refusal = failover_entry_message(other, forward.flow)
    elif not progress.is_beyond_return and (older := move.older_copy(record.failovers)) is not None:
        refusal = older
    elif (again := done_of(record)) is not None and _is_over(progress, record, move.entry.run):
        refusal = (
            f"this failback is finished, and {forward.flow} was failed over again since ({again.where}): nothing is "
            "done; name the directory of that failover, or a new one"
        )
    elif is_off_record and progress.is_beyond_return:
        refusal = move.not_on_record
    elif done_of(record) is None and is_off_record:
        refusal = f"{forward.flow} is not failed over, by what is on record on {forward.flow.target}"
    # A run that has begun to make topics anew was told to, and may have left them closed.
    is_making_anew = not progress.begun.isdisjoint({SAVE, MAKE_ANEW})
    makes_anew = makes_anew or is_making_anew
    before = made_anew(move.directory, forward)
    home = move.ends.copied()
    both = alike(record, home)
    others = before | copied_anew(record, home, forward)
    stranded = loss_of(forward, both, ask_source=True, anew=others)
    # Behind the point of no return applications write there again, and the flow that copies that is still cut.
    differing = [] if progress.is_beyond_return else _differing(forward, both, home, stranded)
    anew = before | ({each.partition.topic for each in differing} if makes_anew else set())
    # An engine that was started since does not find out, while the flow is cut, that it has stopped there.
    anew |= saved_topics(move.directory) if is_making_anew and not progress.is_beyond_return else frozenset()
    # Of another cluster nothing is compared, and nothing is made anew there.
    refusal = refusal or _not_as_it_was(forward, record, others)
    if not makes_anew:
        refusal = refusal or _differs(forward, differing)
    found = but_for(forward.rewritten(), others) if refusal is None else Rewritten()
    if found.differences:
        refusal = _refused(forward, found)
    if refusal is None and not progress.is_beyond_return:
        refusal = left_behind_refusal(forward, is_accepted=leaves_behind)
    if refusal is None and not progress.begun:
        refusal = cannot_drain(move.ends, _without_stops(move.ends.copied(), anew), is_resumed=True)
    is_planned = GROUPS not in progress.proven and refusal is None
    staying = move.ends.staying() if is_planned else NOBODY
    moves = move.ends.but_for(staying).plan_groups(ask_source=True) if is_planned else None
    if moves is not None and _MIRROR_HOME not in progress.proven:
        moves = replace(moves, made_anew=before)
    unsure = move.unsure(moves, move.ends.copied()) if moves is not None else []
    notes = (
        naming(forward, record),
        *given_up_of(move, forward.flow, record),
        *_made_anew_messages(move, forward, anew - before),
        *_staying_notes(staying, move),
        f"{forward.flow} stays paused until the applications are back; then both flows copy",
        *by_hand_of(forward.flow, record),
        *deselected_of(forward.flow, record),
        *deselected_of(move.flow, home),
        *(
            f"it is not known whether {forward.flow.source} still has what was copied of {each}"
            for each in found.unknown_messages()
        ),
    )
    return FailbackPlan(
        with_unsure(steps_home(move, forward, denying, anew, leaves_behind=leaves_behind), unsure),
        *(record, moves, stranded, refusal, notes, anew),
    )


def _is_over(progress: Progress, record: Copied, run: str) -> bool:
    """Whether a run is finished, or all but for writing that down: its record is taken off before."""
    is_off_record = run not in {each.run for each in record.failovers}
    return FINISH in progress.proven or (_FORWARD_AGAIN in progress.proven and is_off_record)


def done_of(record: Copied) -> FailoverEntry | None:
    """Return the failover that is to be undone; None: none is on record."""
    return next((each for each in record.failovers if each.phase is Phase.DONE), None)


def _returned(move: Move, forward: FlowEnds) -> Step:
    source = forward.flow.source

    def act(_: Known) -> Result:
        record = forward.copied()
        others = made_anew(move.directory, forward) | copied_anew(record, move.ends.copied(), forward)
        if problem := _not_as_it_was(forward, record, others):
            return Result(Verdict.FAIL, problem)
        found = but_for(forward.rewritten(), others)
        if found.differences:
            return Result(Verdict.FAIL, _refused(forward, found))
        count = len(forward.ends().ends)
        message = f"{source} answers, with leaders of all of {counted(count, 'partition')}"
        if found.unknown:
            unknown = f"it is not known whether it still has what was copied of {named(found.unknown_messages())}"
            return Result(Verdict.UNKNOWN, f"{message}; {unknown}")
        by = "by topic ids and leader epochs; no records were compared"
        if found.compared:
            by = f"the last records that were copied are there, compared in {counted(found.compared, 'partition')}"
        return Result(Verdict.PASS, f"{message}, and is the cluster that it was: {by}")

    doing = f"make sure that {source} is back, and has what was copied of it: topic ids, leader epochs, last records"
    return Step("returned", doing, act, is_of_its_moment=True)


def _stranded(move: Move, forward: FlowEnds) -> Step:
    source, target = forward.flow.source, forward.flow.target

    def act(_: Known) -> Result:
        record, home = forward.copied(), move.ends.copied()
        own, anew = made_anew(move.directory, forward), copied_anew(record, home, forward)
        loss = loss_of(forward, alike(record, home), ask_source=True, anew=own | anew)
        if loss.bound is not None:
            return Result(Verdict.FAIL, f"what only {source} has cannot be known: {loss.bound}")
        facts: dict[str, Json] = {"stranded": loss.rows(), "removed": loss.removed_rows()}
        message = f"{source} has and {target} lacks: {loss}{elsewhere_message(source, anew - own)}"
        return Result(Verdict.PASS, message, facts)

    return Step("stranded", f"state what {source} has and {target} lacks", act)


def _mirrored_home(move: Move, forward: FlowEnds, anew: Collection[str]) -> Step:
    flow = move.flow

    def act(_: Known) -> Result:
        done = copies_again(move.ends, anew)
        done += await_made_anew(move, forward, anew)
        try:
            detail = move.await_copy(dict(move.ends.ends().ends), is_in_the_way=False)
        except WaitTimeout as lacking:
            if not (since := {each.topic for each in move.ends.copied().stops} - set(anew)) or not anew:
                raise
            # Until it reports, nobody knows that what only the old cluster has there are markers, or aborted records.
            message = f"{move.flow} had not reported on {named(sorted(since))} when the run was planned"
            raise WaitTimeout(f"{lacking}. {message}: called again, it makes anew what has to be, there too") from None
        return Result(Verdict.PASS, f"{done}; {detail}, as of when this step began")

    doing = f"have {flow} copied until {flow.target} has what {flow.source} has by then, while the applications go on"
    return Step(_MIRROR_HOME, doing, act)


def _forward_again(move: Move, forward: FlowEnds) -> Step:
    def act(_: Known) -> Result:
        return Result(Verdict.PASS, "; ".join((copies_again(forward), copies_again(move.ends))))

    return Step(_FORWARD_AGAIN, f"have {forward.flow} copied again, and {move.flow} as well", act)


def _finished(forward: FlowEnds, own: str) -> Step:
    def act(_: Known) -> Result:
        runs = [each.run for each in forward.copied().failovers]
        # Its own is taken last: without it all was taken before, and what is there by now is others'.
        for run in (*(each for each in runs if each != own), own) if own in runs else ():
            forward.take(run)
        return Result(Verdict.PASS, f"nothing is on record any more: the applications are on {forward.flow.source}")

    return Step(FINISH, f"take the failover off the record on {forward.flow.target}", act)


def alike(record: Copied, home: Copied) -> Copied:
    """Return what is on record of the flow that was failed over, gone on with to where both clusters have the same.

    What the flow back has copied to the same offsets of the same topic is on both.
    """

    def reached(each: TopicPartition, position: Position) -> Position:
        back = home.positions.get(each)
        ids = (position.target_id, position.topic_id)
        if back is None or not (position.same_offsets and back.same_offsets) or not all(ids):
            return position
        if (back.topic_id, back.target_id) != ids or back.filled_until <= position.upstream:
            return position
        return replace(position, upstream=back.filled_until)

    return replace(record, positions={each: reached(each, position) for each, position in record.positions.items()})


def _differing(forward: FlowEnds, both: Copied, home: Copied, stranded: Loss) -> list[Lacking]:
    """Return what only the old cluster has of copies with its offsets under unchanged names.

    It lies at offsets at which the standby may have other records: neither topic can be a copy of the other any more.
    Nor where it is markers, or records of aborted transactions, that nobody lacks, and the flow back has stopped there.
    """
    copies = {
        each: position
        for each, position in both.positions.items()
        if position.same_offsets and forward.copy_of(each.topic) == each.topic
    }
    topics = {each.topic for each in copies}
    lacking = [each for each in stranded.lacking if each.partition.topic in topics]
    stopped = sorted((copies.keys() & home.stops.keys()) - {each.partition for each in lacking})
    ends = forward.ends().ends if stopped else {}
    reached = {each: copies[each].upstream for each in stopped}
    return lacking + [Lacking(each, at, ends[each]) for each, at in reached.items() if ends.get(each, at) > at]


def _differs(forward: FlowEnds, differing: Sequence[Lacking]) -> str | None:
    """Return why copies under unchanged names cannot be failed back as they are; None: all can be."""
    source, target = forward.flow.source, forward.flow.target
    if not differing:
        return None
    return (
        f"the copies on {target} have the offsets of {source} under unchanged names, and {target} may have other "
        f"records at the offsets that only {source} has: {named(sorted(map(str, differing)))}. With --make-anew these "
        f"are saved in the run's directory, the topics on {source} are deleted, and {target}->{source} makes them anew "
        "with every record at its offset"
    )


def _made_anew_messages(move: Move, forward: FlowEnds, anew: Collection[str]) -> tuple[str, ...]:
    """Return what becomes of the topics that are made anew, and of the positions of groups in them."""
    if not anew:
        return ()
    source, target = forward.flow.source, forward.flow.target
    message = (
        f"{named(sorted(anew))} on {source}: deleted, and made anew from {target}; what only {source} has is saved "
    )
    message += (
        f"in {move.directory} before, and in neither topic then; groups that are not moved lose their positions, "
    )
    message += f"which are saved there ({POSITIONS})"
    notes = [
        message,
        f"to be copied from {target} to {source} before applications are stopped: {_estimate(move, anew)}",
    ]
    if not forward.reads_committed:
        notes.append(
            f"{forward.flow} reads uncommitted: records of transactions that {source} had aborted are ordinary records "
            f"on {target}, and are so on {source} then"
        )
    return tuple(notes)


def _estimate(move: Move, anew: Collection[str]) -> str:
    """Return how much there is to copy; a plan does not wait for that to be known."""
    try:
        return str(move.ends.estimate(anew))
    except KafkaProblem as problem:
        return f"how much and how long is not known ({problem})"


def _staying_notes(staying: Staying, move: Move) -> tuple[str, ...]:
    if not staying.groups:
        return ()
    advice = "if some of them are to move back as well, stop them before this run"
    return (f"{staying.message(move.flow.source)}; {advice}",)


def _without_stops(home: Copied, anew: Collection[str]) -> Copied:
    """Return what is on record of the flow back, but for why it copies nothing into topics that are made anew."""
    return replace(home, stops={each: why for each, why in home.stops.items() if each.topic not in anew})


def but_for(found: Rewritten, anew: Collection[str]) -> Rewritten:
    """Return what is not what was copied, but for topics made anew."""
    return replace(
        found,
        differences={each: why for each, why in found.differences.items() if each.topic not in anew},
        unknown={each: why for each, why in found.unknown.items() if each.topic not in anew},
    )


def _not_as_it_was(forward: FlowEnds, record: Copied, anew: Collection[str]) -> str | None:
    """Return why the old cluster is not the one that was left, but for topics made anew; None: it is."""
    source, found = forward.flow.source, forward.ends()
    if record.source_id and found.cluster_id != record.source_id:
        return (
            f"{source} is another cluster now ({found.cluster_id}) than the one that was copied ({record.source_id}): "
            "no failback to it is possible"
        )
    reached = {each: at.upstream for each, at in record.positions.items() if at.upstream and each.topic not in anew}
    gone = removed_there(forward, reached, found.ends)
    short = [f"{each} is not there any more, and was copied up to {reached[each]}" for each in gone]
    short += [
        f"{each} ends at {found.ends[each]}, and was copied up to {at}"
        for each, at in reached.items()
        if found.ends.get(each, at) < at
    ]
    if short:
        return (
            f"{source} lacks records that {forward.flow.target} has, so its groups cannot be moved back: {named(short)}"
        )
    return None


def _refused(forward: FlowEnds, found: Rewritten) -> str:
    """Return why there is no failback to a cluster that has something else than was copied of it."""
    source, target = forward.flow.source, forward.flow.target
    return (
        f"{source} has something else than {target} has copied of it, so no failback to it is possible: "
        f"{named(found.difference_messages())}. Its groups would be at other records than they have read; make "
        f"{source} the target of a new flow, or delete these topics there and have {target} copied"
    )


def stranded_rows(facts: Mapping[str, Json]) -> list[Mapping[str, Json]]:
    """Return the stranded records that the step of that name has stated."""
    rows = facts.get("stranded")
    return [each for each in rows if isinstance(each, Mapping)] if isinstance(rows, list | tuple) else []
