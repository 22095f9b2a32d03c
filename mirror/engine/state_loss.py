"""What is done when a flow's state topic was lost: what this engine still knows of it is written again.

Positions, writers and the offset map lie nowhere else; Java MirrorMaker's formats say less. An engine that runs knows
all that it has read of the topic and what its tasks handed back. One that has just been started knows nothing: it can
only tell that somebody has run the flow before it.

Invariants:

(a) An engine that runs knows all of its state topic. When that was created anew, or was truncated, the epoch ends,
    everything known is written again as the bytes that were read, and positions are read back. Chunks of the map that
    nobody had read are counted, the first ones too; positions in them lead before them. Positions of which it is not
    certain that nothing lies behind them (a failed epoch in transactions; a topic with positions and no writer) are
    looked up by contents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from mirror.config.settings import SameOffsets
from mirror.copier.work import Handover
from mirror.model.counts import counted
from mirror.model.flow_state import FlowState
from mirror.model.mm2_trace import Pair
from mirror.model.offset_map import Chunk, SparseOffsetMap
from mirror.model.partition import TopicPartition
from mirror.model.pause import Pauses
from mirror.model.position import Position
from mirror.model.state_record import StateRecord
from mirror.model.state_values import Loss, chunk_record, pause_record, sparse_map_record, writer_record

_FORGOTTEN = (
    "pauses, acknowledgements of gaps, runs of a failover and placements of groups that were on record are not known "
    "any more: a topic that was paused is copied again (to pause it: mirror pause FILE)"
)


def restored(
    read: Iterable[StateRecord],
    state: FlowState,
    handovers: Mapping[TopicPartition, Handover],
    writers: Iterable[int],
    reason: str,
    now_ms: int,
    *,
    are_certain: bool,
    pauses: Pauses | None = None,
) -> list[StateRecord]:
    """Return all that is known of a flow whose state topic was lost, as its records.

    Parameters
    ----------
    read
        what was read of the topic so far, before and after the loss, the newest of each key.
    state
        the same, folded; what the handovers know beyond that is applied to it.
    writers
        the producer ids of the flow that this engine knows of: tasks register some, which may not have been read yet.
    are_certain
        whether nothing was written behind the positions whose writers, or transactions, are not known.
    pauses
        those that the engine's other threads know of, which may have read further; see :func:`lacking_pauses`.
    """
    of_people = _of_people(state, pauses or Pauses())
    before = dict(state.positions)
    latest = [
        record
        for source, handover in sorted(handovers.items())
        if _is_newer(handover.position, state.positions.get(source))
        for record in (
            *handover.unwritten,
            chunk_record(source, handover.position.chunk, handover.runs),
            handover.position.record(source),
        )
    ]
    latest += [writer_record(each, now_ms) for each in sorted(set(writers) - state.writers)]
    for key, value in latest:
        state.apply(key, value)
    count, sparse_maps = _lost_chunks(state, before)
    message = (
        f"{reason}; written again: {len(state.positions)} positions, {len(state.writers)} writers, "
        f"{sum(map(len, state.chunks.values()))} chunks of the offset maps{of_people}; lost: {count} chunks, "
        "of which positions are translated to the last one known before them, and what people had put on record in the "
        "seconds before"
    )
    loss = Loss(now_ms, message, are_tails_unknown=not are_certain or bool(state.unsettled))
    certain = state.positions.keys() - state.unsettled if are_certain and loss.are_tails_unknown else set()
    settled = [state.positions[source].record(source) for source in sorted(certain)]
    return [*read, *latest, *sparse_maps, loss.record(), *settled]


def begun_anew(state: FlowState, same_offsets: SameOffsets | None = None, *, has_run: bool, now_ms: int) -> Loss | None:
    """Return what was lost of a state topic that an engine finds when it starts, None if nothing is known to be.

    Parameters
    ----------
    same_offsets
        which of its copies are to have the source's offsets: nothing is looked up in those.
    has_run
        whether the flow's other topics say that an engine has run it before.
    """
    if state.source_id or state.loss is not None:
        return None
    if state.positions and not state.writers:
        # Tasks go on recording positions in a topic created anew; their engine ended before it wrote its knowledge.
        return Loss(
            now_ms, f"the state topic was deleted, and no engine has written again what was in it; {_FORGOTTEN}", True
        )
    if not state.positions and has_run:
        return Loss(
            now_ms,
            "the state topic is empty, but the flow has run before: what was copied already is looked up in the "
            f"copies, and partitions where it is not found stop{_not_looked_up(same_offsets)}; {_FORGOTTEN}",
        )
    return None


def _not_looked_up(same_offsets: SameOffsets | None) -> str:
    """Say what becomes of copies that are to have the source's offsets, where what they hold is not on record."""
    if same_offsets is None:
        return ""
    becomes = (
        "is translated from now on (mirror.offsets.refused), and looked up"
        if same_offsets.translates_refused
        else "is not looked up: its partition stops until the copy is deleted, and is made anew then"
    )
    return (
        f". But a copy of mirror.offsets = same that holds anything {becomes}; one of a topic that is copied both ways "
        "under its own name goes on behind the position of the flow back"
    )


def lacking_pauses(known: Pauses, state: FlowState) -> list[StateRecord]:
    """Return the wishes to write if the topic lacks one that this engine knows; who stands by reads those alone.

    All that count are written then, in their order, since of two that speak of a topic the later counts: what was
    wished after the loss comes last.

    Parameters
    ----------
    known
        what was read up to the end of the topic as it is now, and of the one before it.
    """
    merged = _with_later(known, state)
    is_lacking = any(not state.wishes.has(each.wish) for each in merged.known)
    return [pause_record(each) for each in merged.known] if is_lacking else []


def _with_later(known: Pauses, state: FlowState) -> Pauses:
    """Return what is known of pauses with what the topic as it is now has beyond that, which came last.

    A cut whose end was read there is over: its record is gone, and nothing else tells.
    """
    if state.is_cut_ended:
        known = known.without_cut()
    for each in state.wishes.known:
        if not known.has(each.wish):
            known = known.with_wish(each)
    return known


def _of_people(state: FlowState, pauses: Pauses) -> str:
    """Say how much of what people have put on record there is."""
    wishes = (
        (len(_with_later(pauses, state).in_force), "pause"),
        (len(state.acknowledgements), "acknowledgement"),
        (len(state.failovers), "failover run"),
        (len(state.placements), "group placement"),
    )
    return "".join(f", {counted(count, what)}" for count, what in wishes if count)


def _is_newer(position: Position, known: Position | None) -> bool:
    return known is None or (position.incarnation, position.upstream) >= (known.incarnation, known.upstream)


def _lost_chunks(state: FlowState, read: Mapping[TopicPartition, Position]) -> tuple[int, list[StateRecord]]:
    """Return how many chunks are missing before and between others, and what to write in their place.

    Those before the first may have been forgotten, because the target has nothing of them any more: all that are older
    than the chunk of the position that was ``read`` had been read, if they were there.
    """
    count, records = 0, []
    for source, position in sorted(state.positions.items()):
        chunks = state.chunks.get(source, {})
        numbered = [
            (number, chunks[number])
            for number in sorted(chunks)
            if number <= position.chunk and not chunks[number].is_empty
        ]
        known = read.get(source)
        first_lost = known.chunk if known is not None and known.incarnation == position.incarnation else 0
        first = numbered[0][0] if numbered else position.chunk
        if first > first_lost:
            count += first - first_lost
            records += _before_the_first(state, source, numbered[0][1] if numbered else position)
        for (number, before), (following, behind) in pairwise(numbered):
            if following == number + 1:
                continue
            count += following - number - 1
            pairs = (Pair(before.upstream_end - 1, before.downstream_end - 1),)
            ends = before.upstream_end, behind.upstream, before.downstream_end, behind.downstream
            records.append(sparse_map_record(source, SparseOffsetMap(*ends, pairs)))
    return count, records


def _before_the_first(state: FlowState, source: TopicPartition, known: Chunk | Position) -> list[StateRecord]:
    """Return what leads positions before the first that is ``known`` of a map to where its copy begins."""
    position = state.positions[source]
    begin, copy_begin = 0 if position.complete else position.origin, 0
    for sparse_map in state.sparse_maps.get(source, {}).values():
        if begin < sparse_map.end <= known.upstream:
            begin, copy_begin = sparse_map.end, sparse_map.downstream_end
    if begin >= known.upstream:
        return []
    ends = begin, known.upstream, copy_begin, known.downstream
    return [sparse_map_record(source, SparseOffsetMap(*ends, (Pair(begin - 1, copy_begin - 1),)))]
