"""What a flow has committed in transactions behind a position: there is none, or the state topic has lost its end.

A position that was committed with its records has nothing of the flow behind it that counts. One that is read from a
state topic which has lost its end, as by an unclean leader election while no engine ran, was committed too, and is not
the last one: the copies of what came after it lie on the target, and are matched as any other tail.

Invariants:

(a) Where nothing was lost, nothing is read but what others have written, and not much of that: one marker alone ends
    what was committed with the position. Of very much that others wrote more than the beginning is read only where the
    copy's leader knows producers of the flow that do not stand where the position says (KIP-664).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from mirror.copier.tail_match import Batch
from mirror.kafka import codes, partition_state
from mirror.kafka.batch import marker_is_abort
from mirror.kafka.channel import EARLIEST, LATEST, Channel, View
from mirror.kafka.log import LogReader, read_batches
from mirror.kafka.problems import BrokerRefused, KafkaProblem
from mirror.model.partition import TopicPartition
from mirror.model.position import NextBatch, Position

LOST_END = "the state topic has lost the end of what it had, as by an unclean leader election"
# A transaction takes a record and its marker.
_LEAST = 2
_MOST_OF_OTHERS = 2 << 20


@dataclass(frozen=True, slots=True)
class LookedUntil:
    """Up to ``offset`` of a copy nothing was committed; what follows was not read yet."""

    offset: int


def has_committed(
    target: Channel,
    copy: TopicPartition,
    start: int,
    end: int,
    is_ours: Callable[[int], bool],
    next_batch: NextBatch | None = None,
    is_enough: Callable[[], bool] = lambda: False,
) -> bool | LookedUntil:
    """Tell whether a flow has committed records to its copy from ``start`` up to, not including, ``end``.

    Its transactions have all ended there. ``next_batch``: as whom it goes on behind ``start``, as far as known.
    Where ``is_enough`` was read before that is known, and the leader was asked whether more may be found, return up to
    where it has committed nothing.

    Raises
    ------
    KafkaProblem
        if that cannot be read.
    """
    if end - start < _LEAST:
        return False
    of_others, is_read_on, open_transactions = 0, False, set[int]()
    for content, header in LogReader(target, copy, start).read_to(end, with_markers=True):
        writer = header.producer_id
        if not is_ours(writer):
            of_others += len(content)
            if of_others > _MOST_OF_OTHERS and not is_read_on:
                is_read_on = _may_have_written(target, copy, is_ours, next_batch)
                if not is_read_on:
                    return False
        elif not header.is_control:
            # What was sent without transactions says nothing of them.
            open_transactions |= {writer} if header.is_transactional else set()
        elif writer in open_transactions:
            if not marker_is_abort(content):
                return True
            open_transactions.discard(writer)
        # What is read before the leader is asked is little. Without asking, pieces of it would add up to all of it.
        if is_read_on and not open_transactions and header.next_offset < end and is_enough():
            return LookedUntil(header.next_offset)
    return False


def _may_have_written(
    target: Channel, copy: TopicPartition, is_ours: Callable[[int], bool], next_batch: NextBatch | None
) -> bool:
    """Tell by what the leader knows of producers whether a flow may have written since; it forgets them after a day."""
    found = partition_state.active_producers(target, [copy])
    problem = found.problems.get(copy)
    if isinstance(problem, BrokerRefused) and (problem.is_denied or problem.code == codes.UNSUPPORTED_VERSION):
        return False
    known = [
        (each.producer_id, each.epoch, each.last_sequence) for each in found.whole()[copy] if is_ours(each.producer_id)
    ]
    expected = next_batch and (next_batch.producer_id, next_batch.epoch, next_batch.sequence - 1)
    return known not in ([], [expected])


def committed_behind(
    target: Channel, positions: Mapping[TopicPartition, Position], is_ours: Callable[[int], bool]
) -> frozenset[TopicPartition]:
    """Return the copies in which a flow has committed records behind positions that were committed; or may have.

    Raises
    ------
    ConnectionFailed
        if no broker can be reached.
    """
    starts, ends = (target.find_offsets(list(positions), at) for at in (EARLIEST, LATEST))
    found = set(positions) - (starts.keys() & ends.keys())
    for copy in positions.keys() - found:
        try:
            start = max(positions[copy].downstream, starts[copy])
            behind = has_committed(target, copy, start, ends[copy], is_ours, positions[copy].next_batch) is not False
        except KafkaProblem:
            behind = True
        found |= {copy} if behind else set()
    return frozenset(found)


def undecided(target: Channel, copy: TopicPartition, end: int) -> str | None:
    """Return why it cannot be told yet what is committed in a copy up to ``end``; None where all is decided.

    Raises
    ------
    KafkaProblem
        if its leader does not tell.
    """
    decided = target.find_offsets([copy], LATEST, View.STABLE).whole()[copy]
    if decided >= end:
        return None
    return (
        f"{LOST_END}; what this flow has committed to {copy} since is told apart once all of it up to offset {end} is "
        f"decided: a transaction is open from offset {decided} on, of others who write there"
    )


def committed(target: Channel, copy: TopicPartition, start: int, end: int) -> Iterator[Batch]:
    """Yield what is committed in a copy, as if it had been written without transactions, and the markers between.

    Raises
    ------
    KafkaProblem
        if that cannot be read.
    """
    for content, header in read_batches(target, copy, start, end, read_committed=True, with_markers=True):
        yield content, header if header.is_control else header.without_transaction()
