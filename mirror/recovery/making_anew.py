"""The failback of topics whose old log holds other records than the standby at the same offsets: made anew from there.

Invariants:

(a) A topic is deleted only behind files of this run that have every record of it which the standby does not have at the
    same offset. They are whole when it is deleted, and nothing was appended to it since: brokers refuse what is
    produced to it from before the last look at where it ends.
(b) What was saved is never written over; a topic that was deleted, which its id tells, is not looked through again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from mirror.kafka.old_topics import OldTopic
from mirror.model.counts import counted
from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict
from mirror.recovery.flow_ends import Copied, FlowEnds
from mirror.recovery.move import Move
from mirror.recovery.step_facts import named
from mirror.recovery.steps import Known, Result, Step, passing
from mirror.recovery.stranded_files import Stranded, next_directory, saved_in, saved_whole
from mirror.waiting import WaitTimeout, wait_until

SAVE, MAKE_ANEW = "save stranded", "make anew"
#: As ``kafka-consumer-groups.sh --reset-offsets --from-file`` takes it: group, topic, partition, offset.
POSITIONS = "group-positions.csv"


def made_anew(run: Path, old: FlowEnds) -> frozenset[str]:
    """Return the topics of the old cluster that this run has deleted, whether or not they are there again.

    Raises
    ------
    KafkaProblem
        if the old cluster does not tell.
    """
    saved = _saved(run)
    now = old.topics(saved) if saved else {}
    return frozenset(name for name, each in saved.items() if _is_gone(each.topics[0], now.get(name)))


def saved_topics(run: Path) -> frozenset[str]:
    """Return the topics of which this run has saved what only the old cluster has."""
    return frozenset(_saved(run))


def save_step(move: Move, old: FlowEnds, topics: Collection[str]) -> Step:
    """Return the step that saves what only the old cluster has of topics that are to be made anew."""
    source, target = old.flow.source, old.flow.target

    def act(_: Known) -> Result:
        left = sorted(set(topics) - made_anew(move.directory, old))
        if not left:
            return Result(Verdict.PASS, "what is to be made anew was saved, and deleted, before")
        # What it copies into partitions that have not stopped would be what is written since they were looked through.
        move.ends.pause()
        saved = saved_whole(lambda: old.save_unmatched(left, next_directory(move.directory)), source)
        if isinstance(saved, str):
            return Result(Verdict.FAIL, saved)
        positions = saved.directory / POSITIONS
        count = old.save_group_positions(left, positions)
        message = f"{counted(saved.records, 'record')} that {target} does not have at the same offset saved in "
        message += (
            f"{saved.directory} (those whose copies {target} has removed, by its log cleaner or retention, are among "
        )
        message += f"them, so that they may be more than is missing), and {counted(count, 'position')} of groups in "
        message += str(positions)
        return Result(Verdict.PASS, message, {"files": saved.rows()})

    def drift(_: object) -> str | None:
        saved = _saved(move.directory)
        gone = made_anew(move.directory, old)
        if lacking := sorted(set(topics) - saved.keys()):
            return f"nothing is saved of {named(lacking)}"
        return (
            named([each for name in sorted(topics) for each in saved[name].problems()] + _grown(old, saved, gone))
            or None
        )

    doing = (
        f"save what only {source} has of {named(sorted(topics))}, and where all groups are in {_them(topics)}: JSON "
        f"lines, read again, and {POSITIONS}, in {move.directory}"
    )
    return Step(SAVE, doing, act, drift=drift, undo=move.unless_given_up(passing(move.ends.resume)))


def make_anew_step(move: Move, old: FlowEnds, topics: Collection[str]) -> Step:
    """Return the step that deletes topics of the old cluster, and creates them as they were, empty."""
    source, home = old.flow.source, move.flow

    def act(_: Known) -> Result:
        saved, gone = _saved(move.directory), made_anew(move.directory, old)
        left = [saved[name].topics[0] for name in sorted(topics) if name not in gone]
        if left:
            if problems := [each for topic in left for each in saved[topic.name].problems()]:
                return Result(Verdict.FAIL, f"nothing is deleted: {named(problems)}")
            # What it copied meanwhile would be refused like anything else, and stop partitions for that.
            move.ends.pause()
            old.close_topics(left)
            if grown := _grown_meanwhile(move, old, {each.name: saved[each.name] for each in left}):
                old.open_topics(left)
                return Result(
                    Verdict.FAIL, f"nothing is deleted, since something was written meanwhile: {named(grown)}"
                )
            old.delete_topics(left)
        old.create_topics([saved[name].topics[0] for name in sorted(topics)])
        files = sorted({str(saved[name].directory) for name in topics})
        done = f"{named(sorted(topics))} on {source} {_are(topics)} deleted, and created as before"
        return Result(Verdict.PASS, f"{done}; what only {source} had is in {', '.join(files)}")

    def undo() -> str:
        saved, gone = _saved(move.directory), made_anew(move.directory, old)
        old.open_topics([saved[name].topics[0] for name in sorted(topics) if name in saved and name not in gone])
        resumed = move.ends.resume()
        if not gone:
            return f"nothing was deleted; {resumed}"
        files = named(sorted({str(saved[name].directory) for name in gone}))
        stay = f"{named(sorted(gone))} on {source} {'stays' if len(gone) == 1 else 'stay'} made anew"
        return f"{stay}, what only {source} had is in {files} alone, and {home} copies {_them(gone)}; {resumed}"

    doing = (
        f"delete {named(sorted(topics))} on {source}, with the positions of all groups there, once nothing is written "
        f"to {_them(topics)} any more, and create {_them(topics)} as before; this cannot be taken back"
    )
    return Step(MAKE_ANEW, doing, act, undo=move.unless_given_up(passing(undo)))


def await_made_anew(move: Move, old: FlowEnds, topics: Collection[str]) -> str:
    """Wait until the flow back has it on record that it copies to topics made anew; return that, for people.

    Raises
    ------
    WaitTimeout
        if it does not.
    """
    if not topics:
        return ""

    def left() -> list[str]:
        now, copied = old.topics(topics), move.ends.copied()
        return [
            str(each)
            for each in sorted(move.ends.ends().ends)
            if each.topic in topics
            # That it had stopped stays on record until the engine reports again.
            if each in copied.stops
            or each.topic not in now
            or each not in copied.positions
            or copied.positions[each].target_id != now[each.topic].topic_id
        ]

    try:
        wait_until(
            left,
            f"{move.flow} to go on with {named(sorted(topics))}",
            timeout_seconds=move.times.drain,
            until=lambda each: not each,
        )
    except WaitTimeout:
        message = f"after {move.times.drain:g} s {move.flow} does not copy to what was made anew: {named(left())}"
        raise WaitTimeout(f"{message}; look at mirror status, and at who runs mirror run") from None
    return f"; {named(sorted(topics))} {_are(topics)} made anew"


def copied_anew(record: Copied, home: Copied, old: FlowEnds) -> frozenset[str]:
    """Return the topics that are others than were copied of the old cluster, since the flow back has made them anew.

    It has copied them from where the standby's log begins, to the same offsets: whoever deleted them before.

    Raises
    ------
    KafkaProblem
        if the old cluster does not tell.
    """
    known = {each: position for each, position in record.positions.items() if position.same_offsets}
    now = old.topics({each.topic for each in known})
    others = {
        each.topic: now[each.topic].topic_id
        for each, position in known.items()
        if each.topic in now and position.topic_id != now[each.topic].topic_id
    }
    copied = {
        each
        for each in known.keys() & home.positions.keys()
        if home.positions[each].same_offsets and home.positions[each].target_id == others.get(each.topic)
    }
    return frozenset(others) - {each.topic for each in known.keys() - copied}


def elsewhere_message(source: str, topics: Collection[str]) -> str:
    """Return where to look for what was saved of topics that others than this run have made anew; empty: none."""
    if not topics:
        return ""
    return (
        f". {named(sorted(topics))} {_are(topics)} not what the failover left on {source}: made anew since, by another "
        f"run, in whose directory (stranded-N) is what only {source} had, or by hand; that is not counted here"
    )


def _saved(run: Path) -> dict[str, Stranded]:
    try:
        return dict(saved_in(run))
    except ValueError as broken:
        raise OSError(f"what was saved in {run} cannot be read: {broken}") from broken


def _is_gone(saved: OldTopic, now: OldTopic | None) -> bool:
    return now is None or now.topic_id != saved.topic_id


def _grown(old: FlowEnds, saved: dict[str, Stranded], gone: Collection[str]) -> list[str]:
    """Return which logs do not end where they were looked through to, of those that are not made anew."""
    looked: dict[TopicPartition, int] = {}
    for name, each in saved.items():
        looked |= {} if name in gone else each.ends()
    now = old.ends().ends if looked else {}
    topics = {each.topic for each in looked}
    # One that somebody has added since was not saved either.
    partitions = looked.keys() | {each for each in now if each.topic in topics}
    return [
        f"{each} ended at {looked.get(each, 0)}, and ends at {now.get(each, 0)}"
        for each in sorted(partitions)
        if looked.get(each, 0) != now.get(each, 0)
    ]


def _grown_meanwhile(move: Move, old: FlowEnds, saved: dict[str, Stranded]) -> Sequence[str]:
    """Watch the logs for a while: a broker may learn a little later that it is to refuse what is produced."""
    began = move.monotonic()

    def look() -> tuple[list[str], bool]:
        grown = _grown(old, saved, ())
        return grown, bool(grown) or move.monotonic() - began >= move.times.quiet

    grown, _ = wait_until(
        look,
        "the closed topics not to grow",
        timeout_seconds=move.times.quiet + move.times.fence,
        until=lambda seen: seen[1],
    )
    return grown


def _are(topics: Collection[str]) -> str:
    return "is" if len(topics) == 1 else "are"


def _them(topics: Collection[str]) -> str:
    return "it" if len(topics) == 1 else "them"
