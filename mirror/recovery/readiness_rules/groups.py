"""Rules about groups: who would find no position on the target, a wrong one, or records that it has read already."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from mirror.config.settings import FlowSettings
from mirror.control.group_view import TranslatedPosition
from mirror.control.groups import GroupAction
from mirror.control.left_out_groups import CONSOLE
from mirror.model.counts import counted
from mirror.model.partition import TopicPartition
from mirror.model.shadow import is_shadow
from mirror.model.translation import Bounded, Exact, NotMirrored, TooOld, describe
from mirror.recovery.differences import Difference, Impact, Rule
from mirror.recovery.readiness_facts import Facts, NotLookedAt, NotSeen, seen
from mirror.recovery.readiness_rules import mends
from mirror.recovery.readiness_rules.flow import has_run
from mirror.recovery.readiness_rules.transactional import applications_transactions
from mirror.recovery.unsure_groups import further_on

# MirrorMaker's own: more seldom, and groups read more than that again.
_USUAL_INTERVAL_SECONDS = 60.0
# More often than that they are not advised.
_OFTEN_SECONDS = 5.0


def left_out(facts: Facts) -> Iterator[Difference]:
    """Groups that read the flow's topics and do not pass its filter (CKP-01)."""
    for group, topics in sorted(seen(facts.groups.left_out).items()):
        if is_shadow(group):
            continue
        named = ", ".join(topics[:3]) + (f" and {len(topics) - 3} more" if len(topics) > 3 else "")
        yield Difference(
            Impact.COSMETIC if group.startswith(CONSOLE) else Impact.LOSES,
            "a group reads topics of the flow, and the flow does not follow it",
            group,
            f"reads {named}",
            "no position",
            f"select it: {mends.flow_key(facts, 'groups', f'..., {group}')}, and see groups.exclude",
        )


def of_other_kinds(facts: Facts) -> Iterator[Difference]:
    """Groups whose state no checkpoint holds (GOS-09)."""
    for each in seen(seen(facts.source).groups):
        kind = each.unmirrored_kind
        if kind is not None:
            yield Difference(
                Impact.LOSES,
                f"the state of {kind} is not mirrored",
                each.group,
                each.group_type,
                "no position",
                "decide where it begins on the target, and set that there before its members start",
            )


def _checkpoint_seconds(settings: FlowSettings) -> float:
    """Return how long a checkpoint may take, once they are written; a negative interval says never."""
    seconds = settings.emit_checkpoints_interval_seconds
    return seconds if seconds >= 0 else _USUAL_INTERVAL_SECONDS


def without_checkpoint(facts: Facts) -> Iterator[Difference]:
    """With the source gone a group goes on by its checkpoint, or by auto.offset.reset where there is none (CKP-10).

    So do groups that read copies which the flow back makes: only topics that the file selects get checkpoints (CKP-07).
    """
    checkpoints = seen(facts.groups.checkpoints)
    settings = facts.settings
    mend = f"wait for {_checkpoint_seconds(settings):g} s"
    if (off := settings.switched_off("emit.checkpoints")) is not None:
        mend = f"{mends.flow_key(facts, off.key, off.on)}, and {mend}"
    missing: dict[str, list[TranslatedPosition]] = defaultdict(list)
    for each in _positions(facts):
        if isinstance(each.translation, Exact | Bounded) and _key(each) not in checkpoints:
            missing[each.group].append(each)
    for group, positions in sorted(missing.items()):
        first = positions[0]
        read = {each.source.topic for each in positions if each.source is not None}
        unselected = sorted(topic for topic in read if not settings.topic_filter.matches(topic))
        selected = mends.flow_key(facts, "topics", f"..., {', '.join(unselected)}")
        yield Difference(
            Impact.LOSES,
            "a group has no checkpoint on the target",
            group,
            f"{first.topic}-{first.partition} at {first.upstream}, {counted(len(positions), 'partition')} in all",
            "no checkpoint",
            f"{selected} (for checkpoints: it is not copied back), and {mend}" if unselected else mend,
        )


def not_translated(facts: Facts) -> Iterator[Difference]:
    """A position that is nothing on the target: the group would start over there, or pass what it has not read."""
    missing: dict[str, list[TranslatedPosition]] = defaultdict(list)
    for each in _positions(facts):
        never_read = isinstance(each.translation, NotMirrored) and each.upstream == 0
        if isinstance(each.translation, TooOld | NotMirrored) and not never_read:
            missing[each.group].append(each)
    for group, positions in sorted(missing.items()):
        first = positions[0]
        mend = "let the group read on, or set its position on the target by hand"
        if isinstance(first.translation, NotMirrored):
            what = first.source or f"what {first.topic}-{first.partition} is a copy of"
            mend = f"nothing of {what} is copied: mirror status {facts.file} says why"
        yield Difference(
            Impact.LOSES,
            "the position of a group cannot be translated",
            group,
            f"{first.topic}-{first.partition} at {first.upstream}, {counted(len(positions), 'partition')} in all",
            describe(first.translation),
            f"{mends.mirror(facts, 'offsets', f' --groups {group}')} shows why; {mend}",
        )


def unclear_groups(facts: Facts) -> Iterator[Difference]:
    """Groups of which a cluster does not tell what must be known before they are moved."""
    moves = seen(facts.groups.moves)
    translated = {(each.group, TopicPartition(each.topic, each.partition)) for each in moves.positions}
    lacking = [each for each in moves.untranslated if (each.group, each.partition) not in translated]
    unclear = [each for each in moves.decisions if each.action is GroupAction.SKIP_UNKNOWN]
    reasons = [(each.group, each.reason) for each in lacking] + [(each.group, each.reason) for each in unclear]
    if reasons:
        names = sorted({group for group, _ in reasons})
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        raise NotLookedAt(
            NotSeen(
                f"the positions of {counted(len(names), 'group')}",
                reasons[0][1],
                ", ".join(names[:3]) + more,
                "grant Describe on these groups and on the topics they read, on both clusters",
            )
        )
    yield from ()


def refused(facts: Facts) -> Iterator[Difference]:
    """A group that is in use on the target is not moved, and none beyond the end of the copy (GOS-03, GOS-09)."""
    flow = facts.settings.flow
    for each in seen(facts.groups.moves).decisions:
        if each.action is GroupAction.SKIP_ACTIVE:
            yield Difference(
                Impact.BLOCKS,
                "a group of the flow is in use on the target and could not be moved",
                f"{each.group}, {each.partition}",
                str(each.wanted.position),
                None if each.present is None else str(each.present.position),
                f"stop the members of {each.group} on {flow.target}",
            )
        elif each.action is GroupAction.SKIP_BEYOND_END:
            yield Difference(
                Impact.BLOCKS,
                "a group of the flow would stand behind the end of the copy",
                f"{each.group}, {each.partition}",
                None,
                each.reason,
                f"{mends.mirror(facts, 'verify')} shows what the copy lacks",
            )


def set_back(facts: Facts) -> Iterator[Difference]:
    """A checkpoint ahead of its group, which was set back on the source: it would pass what it is to read again."""
    checkpoints = seen(facts.groups.checkpoints_before)
    for each in _positions(facts):
        known = checkpoints.get(_key(each))
        if known is not None and known.upstream > each.upstream and _is_live(facts):
            yield Difference(
                Impact.LOSES,
                "the checkpoint of a group is ahead of the group",
                f"{each.group}, {each.topic}-{each.partition}",
                str(each.upstream),
                str(known.upstream),
                f"wait for the next checkpoint ({_checkpoint_seconds(facts.settings):g} s), or move it "
                f"with the source alive: {mends.mirror(facts, 'groups', f' --groups {each.group} --apply')}",
            )


def further_on_the_target(facts: Facts) -> Iterator[Difference]:
    """A group that stands on the target beyond what it has read: positions never go back, so it would pass the rest."""
    checkpoints = seen(facts.groups.checkpoints)
    for each, present in further_on(seen(facts.groups.moves)):
        # Of a group at work these are newer than what the source has reported: the flow has just put it there.
        known = checkpoints.get((each.group, each.partition))
        if known is not None and known.downstream >= present.position:
            continue
        yield Difference(
            Impact.LOSES,
            "a group's position on the target is ahead of what it has read",
            f"{each.group}, {each.partition}",
            str(each.wanted.position),
            str(present.position),
            f"unless it has read that on {facts.settings.flow.target}: "
            f"{mends.set_group(seen(facts.target), each.group, each.partition, each.wanted.position)}",
        )


def read_again(facts: Facts) -> Iterator[Difference]:
    """What a group has read since its last checkpoint it reads again."""
    key = "emit.checkpoints.interval.seconds"
    is_seldom = facts.settings.emit_checkpoints_interval_seconds > _OFTEN_SECONDS
    oftener = f"checkpoints more often: {mends.flow_key(facts, key, f'{_OFTEN_SECONDS:g}')}; " if is_seldom else ""
    for group, (count, first) in _again(facts).items():
        yield Difference(
            Impact.DUPLICATES,
            "a group would read records again",
            group,
            f"{first.topic}-{first.partition} at {first.upstream}",
            f"{counted(count, 'record')} again",
            f"{oftener}with the source alive: {mends.mirror(facts, 'groups', f' --groups {group} --apply')}",
        )


def no_checkpoints(facts: Facts) -> Iterator[Difference]:
    """Without checkpoints nothing on the target says where groups stand (CKP-01)."""
    settings = facts.settings
    if (off := settings.switched_off("emit.checkpoints")) is not None:
        yield Difference(
            Impact.DUPLICATES,
            "the flow writes no checkpoints",
            facts.flow,
            None,
            f"{off.key} = {off.value}",
            mends.flow_key(facts, off.key, off.on),
        )
    elif settings.emit_checkpoints_interval_seconds > _USUAL_INTERVAL_SECONDS:
        yield Difference(
            Impact.DUPLICATES,
            "checkpoints are far apart",
            facts.flow,
            None,
            f"every {settings.emit_checkpoints_interval_seconds:g} s",
            mends.flow_key(facts, "emit.checkpoints.interval.seconds", f"{_USUAL_INTERVAL_SECONDS:g}"),
        )


def positions_not_kept(facts: Facts) -> Iterator[Difference]:
    """Positions are not on the target until somebody puts them there (GOS-01)."""
    if (off := facts.settings.switched_off("sync.group.offsets")) is not None:
        yield Difference(
            Impact.DUPLICATES,
            "the flow does not keep the positions of groups on the target",
            facts.flow,
            None,
            f"{off.key} = {off.value}",
            f"{mends.flow_key(facts, off.key, off.on)}, or move them when it comes to it: "
            f"{mends.mirror(facts, 'groups', ' --apply')}",
        )


def aborted_copied(facts: Facts) -> Iterator[Difference]:
    """Read uncommitted, records of aborted transactions are records like all others on the target (REC-08)."""
    ids = applications_transactions(facts)
    if ids and not facts.settings.reads_committed:
        going_on = sum(state == "Ongoing" for state in ids.values())
        yield Difference(
            Impact.DUPLICATES,
            "records of transactions that are aborted, or cut in two, count as committed on the target",
            facts.flow,
            f"{counted(len(ids), 'transactional id')}, {going_on} with a transaction going on",
            "isolation.level = read_uncommitted",
            f"{facts.settings.flow.source}.consumer.isolation.level = read_committed",
        )


RULES = (
    Rule("group-left-out", Impact.LOSES, left_out),
    Rule("group-kind", Impact.LOSES, of_other_kinds),
    Rule("group-without-checkpoint", Impact.LOSES, without_checkpoint),
    Rule("group-not-translated", Impact.LOSES, not_translated),
    Rule("group-not-told", Impact.LOSES, unclear_groups),
    Rule("group-refused", Impact.BLOCKS, refused),
    Rule("group-set-back", Impact.LOSES, set_back),
    Rule("group-further-on", Impact.LOSES, further_on_the_target),
    Rule("read-again", Impact.DUPLICATES, read_again),
    Rule("checkpoints", Impact.DUPLICATES, no_checkpoints),
    Rule("positions-not-kept", Impact.DUPLICATES, positions_not_kept),
    Rule("aborted-copied", Impact.DUPLICATES, aborted_copied),
)


def records_read_again(facts: Facts) -> int | None:
    """Return how many records all groups together would read again; None if that is not known."""
    try:
        return sum(count for count, _ in _again(facts).values()) if has_run(facts) else None
    except NotLookedAt:
        return None


def _again(facts: Facts) -> Mapping[str, tuple[int, TranslatedPosition]]:
    """Return of each group that would read records again how many, and its first position of which that is so."""
    checkpoints = seen(facts.groups.checkpoints)
    again: dict[str, tuple[int, TranslatedPosition]] = {}
    for each in _positions(facts):
        known = checkpoints.get(_key(each))
        if known is None:
            continue
        count = max(0, each.upstream - known.upstream) + (each.behind_records or 0)
        if count:
            so_far, first = again.get(each.group, (0, each))
            again[each.group] = so_far + count, first
    return again


def _positions(facts: Facts) -> tuple[TranslatedPosition, ...]:
    return seen(facts.groups.moves).positions


def _is_live(facts: Facts) -> bool:
    """Tell whether the positions are the source's, not those of the checkpoints."""
    return seen(facts.groups.moves).source_problem is None


def _key(each: TranslatedPosition) -> tuple[str, TopicPartition]:
    return each.group, TopicPartition(each.topic, each.partition)
