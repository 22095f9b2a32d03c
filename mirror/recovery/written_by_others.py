"""What others than mirrors have written to a standby: in stretches of its logs, and among what a flow has copied."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from mirror.kafka.channel import Channel
from mirror.kafka.log import holds_record
from mirror.model.flow_state import FlowState
from mirror.model.offset_map import OffsetMap
from mirror.model.partition import TopicPartition
from mirror.model.stretches import between
from mirror.recovery.cut_log_ends import ended_at_the_cut

Stretches = Mapping[TopicPartition, tuple[int, int]]
"""Offsets of logs, from one up to, not including, another."""

Holes = Mapping[TopicPartition, list[tuple[int, int]]]
"""Several of each log, in order."""

# Of more than that a log is read through: a copy that is written in transactions has one behind each of them.
_MOST_HOLES = 1_000


class HolesAmong(NamedTuple):
    """Where among its copies a flow has copied nothing: what others have written there is what `held` finds.

    Attributes
    ----------
    since
        the holes behind the cut.
    untold
        those of which it is not known whether they were there before the cut.
    """

    since: Holes
    untold: Holes


def written_in(channel: Channel, stretches: Stretches, own: Collection[int]) -> Stretches:
    """Return those of some stretches of logs that hold records of others than the producer ids ``own``."""
    return {
        each: (start, end)
        for each, (start, end) in stretches.items()
        if start < end and holds_record(channel, each, start, end, read_committed=True, but_for=own)
    }


def holes_among(channel: Channel, state: FlowState, copies: Collection[TopicPartition]) -> HolesAmong:
    """Return the holes in copies of a failed-over flow whose cut somebody has ended (mirror resume).

    The flow has copied on behind it since. While the cut is in force all that is written since lies behind the copy.
    """
    if state.pauses.cut is not None:
        return HolesAmong({}, {})
    holes = {}
    for source, position in state.positions.items():
        copy = TopicPartition(position.target, source.partition)
        if copy in copies:
            holes[copy] = _holes_before(state.offset_map(source), position.downstream)
    at_cut = ended_at_the_cut(channel, state, [each for each, of_copy in holes.items() if of_copy])
    reached = {each: at_cut.reached[each] for each in holes.keys() & at_cut.reached.keys()}
    until = {each: at_cut.untold[each][1] for each in holes.keys() & at_cut.untold.keys()}
    since = {each: [(max(start, at), end) for start, end in holes[each] if end > at] for each, at in reached.items()}
    before = {each: [(start, min(end, at)) for start, end in holes[each] if start < at] for each, at in until.items()}
    return HolesAmong(since, before)


def _holes_before(known: OffsetMap | None, end: int) -> list[tuple[int, int]]:
    """Return where a copy up to ``end`` has none of the flow's records; all of it where that is not understood.

    Also before the first of them: of an idle partition others may have written the first. Not what Java MirrorMaker
    has copied, nor before the first that is known of that: no producer id tells it from theirs.
    """
    if known is None:
        return [(0, end)] if end else []
    first = known.runs.first
    before = (each for each in known.sparse_maps if first is None or each.downstream_start < first.downstream)
    begin = max((each.downstream_end for each in before), default=0)
    of_java = [(each.downstream_start, each.downstream_end) for each in known.sparse_maps]
    return [part for hole in known.runs.not_copied(begin, end) for part in between(of_java, *hole)]


def held(channel: Channel, holes: Holes, own: Collection[int]) -> Stretches:
    """Return from the first to the last of the holes in which others have records; most hold a marker, and none."""
    found = {}
    for copy, of_copy in holes.items():
        asked = of_copy if len(of_copy) <= _MOST_HOLES else [(of_copy[0][0], of_copy[-1][1])]
        written = [each for each in asked if holds_record(channel, copy, *each, read_committed=True, but_for=own)]
        if written:
            found[copy] = written[0][0], written[-1][1]
    return found
