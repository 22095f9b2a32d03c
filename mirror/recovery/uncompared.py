"""What of a flow is not compared, named with the reason; and what lies in a copy outside of what is compared.

Invariants:

(a) What a running engine has on its way it records within seconds. So ``mirror verify`` asks again before it calls
    records of the flow behind the position anything: what the map still lacks once the position has gone by is there
    twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from mirror.config.settings import ClusterSettings, FlowSettings
from mirror.control.gaps import MOST_NAMED, iso_time
from mirror.engine.mm2_traces import Mm2Traces, read_traces
from mirror.kafka.cluster import Cluster
from mirror.kafka.problems import BrokerRefused, LeaderUnknown
from mirror.kafka.topic_ids import differ
from mirror.model.counts import counted
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.gap import GapKind
from mirror.model.offset_map import OffsetMap
from mirror.model.offset_ranges import Range
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.stretches import Stretch
from mirror.model.translation import Exact
from mirror.proof.comparison import Difference, FirstDifference, PartitionEquivalence
from mirror.proof.left_out import LeftOut
from mirror.proof.outside import Found, Outside, Seen
from mirror.proof.pairs import PartitionPair

_FOREIGN = "written by a producer that is not the mirror's, behind the last record that was copied"
_MAY_NOT_WRITE = (
    "no flow back and no failover is on record, so that what others wrote to this topic is extra; if applications are "
    "to write to it, verify with --others-write"
)
_LATE = "written by the flow's own producer, and not on record: it arrived late, so that it is there twice"


@dataclass(frozen=True, slots=True)
class Begin:
    """Where the comparison of a partition begins on both sides, and what it leaves out in front of that.

    Attributes
    ----------
    before
        where to look, in the copy, for what nobody has on record.
    """

    upstream: int
    downstream: int
    before: Stretch = (0, 0)
    left_out: tuple[LeftOut, ...] = ()


def begin_of(
    settings: FlowSettings,
    source: TopicPartition,
    copy: TopicPartition,
    known: OffsetMap,
    start: int,
    copy_start: int,
    *,
    is_recreated: bool = False,
    removed: LeftOut | None = None,
) -> Begin:
    """Return where to begin, of two logs that begin at ``start`` and ``copy_start``.

    ``is_recreated``: the source is another topic of that name than the one that was copied. ``removed``: what of the
    source has no copies any more, and is not to be compared.

    Of what Java MirrorMaker copied only offset syncs say where it lies: there the comparison begins at the first of
    them that both logs still have.
    """
    flow = settings.flow
    if removed is not None:
        whole = begin_of(settings, source, copy, known, start, copy_start)
        behind = begin_of(settings, source, copy, known, removed.end, copy_start)
        # What lies before it was not the engine's to copy: that others have done so proves nothing.
        before_it = (each for each in whole.left_out if each.cluster == flow.source and each.end <= removed.start)
        return replace(behind, left_out=(*before_it, removed, *behind.left_out))
    first = known.runs.first.downstream if known.runs.first is not None else known.downstream_next
    lowest = min([known.origin, *(each.start for each in known.sparse_maps)])
    at = min(max(start, lowest), known.upstream_next)
    left_out = []

    def leave_out(cluster: str, partition: TopicPartition, begin: int, end: int, why: str, *, unchecked: bool) -> None:
        if begin < end:
            left_out.append(LeftOut(cluster, partition, begin, end, None, why, unchecked))

    # Offsets of the former topic say nothing of where the flow begins in the new one.
    began = "it was created anew, and nothing of it is copied yet" if is_recreated else "the flow began behind it"
    leave_out(flow.source, source, start, lowest, began, unchecked=is_recreated)
    sparse_map = next((each for each in known.sparse_maps if each.start <= at < each.end), None)
    if sparse_map is not None:
        pairs = (each for each in sparse_map.pairs if each.upstream >= at and each.downstream >= copy_start)
        upstream, downstream = next(pairs, (sparse_map.end, sparse_map.downstream_end))
        reason = "Java MirrorMaker copied it, and no offset sync says which record lies where"
        leave_out(flow.source, source, at, upstream, reason, unchecked=True)
        leave_out(flow.target, copy, copy_start, downstream, reason, unchecked=at < upstream)
        return Begin(upstream, max(downstream, copy_start), left_out=tuple(left_out))
    translated = known.translate(at)
    downstream = translated.downstream if isinstance(translated, Exact) else first
    if at > lowest:
        begin = max(first, copy_start) if not known.sparse_maps else copy_start
        leave_out(flow.target, copy, begin, downstream, f"{flow.source} has removed the originals", unchecked=False)
    before = (0, 0) if known.sparse_maps else (copy_start, min(first, downstream))
    return Begin(at, max(downstream, copy_start), before, tuple(left_out))


def recreated(flow: Flow, source: TopicPartition, position: Position, topic_id: str) -> tuple[str, ...]:
    """Say, for people, that the source's topic, of ``topic_id`` now, is another one than what was copied, if it is."""
    if not differ(position.topic_id, topic_id):
        return ()
    happened = (
        f"{source.topic} on {flow.source} was deleted and created anew since it was copied (id {position.topic_id}, "
        f"now {topic_id}): the copy holds records of the former topic, and is compared with the new one"
    )
    return (happened,)


def given_up(state: FlowState, source: TopicPartition, begin: int) -> tuple[str, ...]:
    """Return, for people, what somebody has acknowledged as lost of a partition before the upstream offset ``begin``.

    Nothing of it is left to be compared; what lies behind ``begin`` is counted there as absent.
    """
    gaps = sorted(
        (
            gap
            for gap in state.gaps.values()
            if gap.source == source
            and gap.end <= begin
            and gap.key in state.acknowledgements
            and gap.kind is not GapKind.PARKED
        ),
        key=lambda gap: gap.key,
    )
    messages = []
    for gap in gaps[:MOST_NAMED]:
        known = state.acknowledgements[gap.key]
        when = f"on {iso_time(known.at_ms)} by {known.by} ({known.reason})"
        messages.append(f"{gap.where} acknowledged as lost {when}, not compared")
    if more := gaps[MOST_NAMED:]:
        amount = f"{counted(len(more), 'more gap')}, {counted(sum(gap.count for gap in more), 'offset')} in all"
        messages.append(f"{amount}, acknowledged as lost, not compared: mirror gaps FILE lists them")
    return tuple(messages)


def undecided(
    settings: FlowSettings, decided_to: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> list[LeftOut]:
    """Return what lies in copies behind transactions that nobody decides: whose it is cannot be seen yet.

    Parameters
    ----------
    decided_to, ends
        up to where readers of committed data see each copy, and where it ended before that was asked.
    """
    why = "it lies in a transaction that is not decided, or behind one, and no engine runs that would take it over"
    return [
        LeftOut(settings.flow.target, copy, decided_to[copy], end, None, why, is_unchecked=True)
        for copy, end in ends.items()
        if decided_to[copy] < end
    ]


def held_back(
    settings: FlowSettings, state: FlowState, reached: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> list[LeftOut]:
    """Return what the source has for partitions whose copy has stopped: nobody copies it until somebody does something.

    Of the others it is on its way.

    Parameters
    ----------
    reached, ends
        up to where each partition is compared, and where its log on the source ends.
    """
    return [
        LeftOut(
            settings.flow.source, source, start, ends[source], None, f"the copy is stopped: {why}", is_unchecked=True
        )
        for source, start in reached.items()
        if (why := state.stopped.get(source)) is not None and start < ends[source]
    ]


def uncopied(
    state: FlowState, reached: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return how many offsets the source has that are on their way, by partition: :func:`held_back` has the others."""
    return {
        source: ends[source] - start
        for source, start in reached.items()
        if start < ends[source] and source not in state.stopped
    }


def judged(
    settings: FlowSettings,
    state: FlowState,
    compared: PartitionEquivalence,
    seen: tuple[PartitionPair, Outside, Found],
    java: Callable[[], Mm2Traces],
    *,
    is_running: bool,
) -> tuple[PartitionEquivalence, list[LeftOut]]:
    """Return a comparison with what was seen outside of its range, and what of that was left out.

    Parameters
    ----------
    state
        of the flow, read after the copy's log ended where it was looked at.
    java
        returns what Java MirrorMaker has left.
    is_running
        whether an engine copies at this time.
    """
    pair, place, found = seen
    copy, target = pair.target.partition, settings.flow.target
    left_out = []

    def leave_out(what: Seen, why: str, *, unchecked: bool) -> None:
        if what.records:
            left_out.append(LeftOut(target, copy, what.start, what.end, what.records, why, unchecked))

    if found.problem is not None:
        start, end = min(place.before[0], place.behind[0]), max(place.before[1], place.behind[1])
        reason = f"it could not be read: {found.problem}"
        left_out.append(LeftOut(target, copy, start, end, None, reason, is_unchecked=True))
    leave_out(found.own_before, f"copied of what {settings.flow.source} has no more", unchecked=False)
    leave_out(found.foreign_before, "nothing on record says where these records came from", unchecked=True)
    compared = with_extra(compared, found.late_behind, _LATE)
    position = state.positions.get(pair.source.partition)
    if position is not None and position.settled and position.downstream <= place.behind[0]:
        compared = with_extra(compared, found.own_behind, _LATE)
    else:
        # Of an engine that runs it was waited for.
        who = "the engine that runs has not recorded it yet" if is_running else "no engine runs that would recognise it"
        leave_out(found.own_behind, f"copied, and not on record: {who}", unchecked=True)
    if pair.is_shared:
        return replace(compared, foreign=compared.foreign + found.foreign_behind.records), left_out
    others = found.foreign_behind
    if others.records and _is_of_java(java(), pair.source.partition, others):
        leave_out(others, "Java MirrorMaker has copied since: an engine that starts takes over from it", unchecked=True)
        return compared, left_out
    compared = with_extra(compared, others, _FOREIGN)
    if compared.extra and not settings.is_alone(pair.source.partition.topic):
        how = compared.compared
        compared = replace(compared, compared=replace(how, notes=(*how.notes, _MAY_NOT_WRITE)))
    return compared, left_out


def with_extra(compared: PartitionEquivalence, seen: Seen, why: str) -> PartitionEquivalence:
    """Return a comparison with records more that only the copy has; they lie behind all that was compared."""
    if not seen.records:
        return compared
    first = compared.first_difference or FirstDifference(Difference.EXTRA, None, seen.start, why)
    where = compared.extra_at.also(Range(seen.start, seen.end, seen.records))
    return replace(compared, extra=compared.extra + seen.records, first_difference=first, extra_at=where)


def left_by_java(settings: FlowSettings, clusters: Mapping[str, ClusterSettings], state: FlowState) -> Mm2Traces:
    """Return what Java MirrorMaker has left of the flow; without its topics it has not run.

    Raises
    ------
    ClusterError, ConnectionFailed
        if the target does not answer.
    """
    with suppress(BrokerRefused, LeaderUnknown), Cluster.connect(clusters[settings.flow.target]) as target:
        return read_traces(settings, state, target, matches=True)
    return Mm2Traces()


def _is_of_java(traces: Mm2Traces, source: TopicPartition, seen: Seen) -> bool:
    """Whether Java MirrorMaker has left word that it copied behind the flow's position."""
    beyond = traces.beyond.get(source)
    syncs = (each for stretch in beyond.stretches for each in stretch) if beyond else ()
    return source in traces.certain or any(seen.start <= each.downstream < seen.end for each in syncs)


def nothing_to_compare(flow: Flow, selected: Collection[TopicPartition], left_out: Iterable[LeftOut]) -> str | None:
    """Say why nothing of a flow is compared; None if what is ``left_out`` says it, or there may be something."""
    if not selected:
        return (
            f"the flow selects no topic of {flow.source} but heartbeats: correct {flow}.topics and "
            f"{flow}.topics.exclude, or grant Describe on the topics of {flow.source}"
        )
    if any(each.is_unchecked for each in left_out):
        return None
    return f"no topic that the flow selects on {flow.source} has a record"
