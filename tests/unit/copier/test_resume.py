"""Where a copy begins, and when it must not begin."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from mirror.copier import resume as resuming
from mirror.copier.foreign_batches import LeftOut
from mirror.copier.resume import Ends, Logs, Ready, Refused, begin, changed_target, resume
from mirror.copier.tail_match import Batch
from mirror.copier.work import GapPolicy, Handover, PartitionWork
from mirror.kafka.batch import HEADER, Header, Producer
from mirror.model.flow_state import FlowState
from mirror.model.gap import Gap
from mirror.model.leader_epochs import NOT_KNOWN, EpochEnd
from mirror.model.offset_map import Run
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_values import RUNS_PER_CHUNK
from tests.flows import EAST_WEST, flow_work
from tests.unit.copier.builders import as_logged, dense, record

SOURCE, TARGET = TopicPartition("orders", 3), TopicPartition("east.orders", 3)
OURS = Producer(7, 0)
FLOW = flow_work(writers=frozenset({7}))
NEW = PartitionWork(EAST_WEST, SOURCE, TARGET, "id", None)
ENDS = Ends(source_start=5, source_end=50, target_start=0, target_end=10, target_written=10, source_written=50)
POSITION = Position(20, 8, 5, True, 0, "id", target="east.orders")


def is_ours(producer_id: int) -> bool:
    return producer_id == OURS.producer_id


def known(position: Position = POSITION, runs: tuple[Run, ...] = (Run(5, 0, 3),)) -> tuple[PartitionWork, Handover]:
    handover = Handover(position, runs, clean=False)
    return replace(NEW, handover=handover), handover


def resumed(
    ends: Ends = ENDS, source: tuple[Batch, ...] = (), tail: tuple[Batch, ...] = (), position: Position = POSITION
) -> Ready | Refused:
    work, handover = known(position)
    return resume(work, handover, ends, is_ours, lambda: Logs(source, tail))


def test_a_new_partition_begins_at_its_start_and_says_so_before_the_first_batch() -> None:
    position = Position(5, 10, 5, True, 0, "id", target="east.orders", compared=10)
    assert begin(NEW, FLOW, ENDS) == Ready(Handover(position, (), clean=True), (position.record(SOURCE),))


def test_a_flow_that_begins_at_the_end_knows_nothing_older() -> None:
    assert begin(NEW, replace(FLOW, from_latest=True), ENDS).handover.position == Position(
        50, 10, 50, False, 0, "id", target="east.orders", compared=10
    )


def test_without_a_tail_the_copy_goes_on_at_the_position() -> None:
    outcome = resumed()
    assert isinstance(outcome, Ready)
    assert outcome.handover.position == replace(POSITION, downstream=10)
    assert outcome.handover.clean
    assert outcome.skipped_by_match == 0


def test_a_tail_that_is_the_sources_is_skipped_and_recorded() -> None:
    source = dense([record(20), record(21), record(22)])
    tail = as_logged(dense([record(20), record(21)], producer=OURS, sequence=0)[0], 8)
    outcome = resumed(source=(source,), tail=(tail,))
    assert isinstance(outcome, Ready)
    assert outcome.skipped_by_match == 2
    assert outcome.handover.position == replace(POSITION, upstream=22, downstream=10)
    state = FlowState()
    for key, value in outcome.records:
        state.apply(key, value)
    assert state.positions[SOURCE] == outcome.handover.position
    assert state.open_runs(SOURCE) == outcome.handover.runs == (Run(5, 0, 3), Run(20, 8, 2))


def under(epoch: int, one: Batch) -> Batch:
    """The batch as the leader of an epoch has written it."""
    content, _ = one
    struct.pack_into(">i", content, 12, epoch)
    return content, Header._make(HEADER.unpack_from(content))


@pytest.mark.parametrize(
    ("known", "found"),
    [
        ((), (EpochEnd(NOT_KNOWN, 20), EpochEnd(3, 22), EpochEnd(5, 23))),
        ((EpochEnd(3, 20),), (EpochEnd(3, 22), EpochEnd(5, 23))),
        ((EpochEnd(1, 9), EpochEnd(2, 20)), (EpochEnd(1, 9), EpochEnd(2, 20), EpochEnd(3, 22), EpochEnd(5, 23))),
    ],
    ids=["none known", "in the epoch that was read last", "in others"],
)
def test_the_leader_epochs_of_what_was_matched_are_carried_on(
    known: tuple[EpochEnd, ...], found: tuple[EpochEnd, ...]
) -> None:
    """Up to where the copy goes on, not further: a log that was truncated meanwhile is known by them."""
    source = (
        under(3, dense([record(20), record(21)])),
        under(5, dense([record(22), record(23)])),
        under(8, dense([record(24)])),
    )
    tail = [dense([record(20), record(21)], producer=OURS, sequence=0), dense([record(22)], producer=OURS, sequence=2)]
    logged = tuple(as_logged(content, place) for (content, _), place in zip(tail, (8, 10), strict=True))
    outcome = resumed(replace(ENDS, target_end=11), source, logged, replace(POSITION, epochs=known))
    assert isinstance(outcome, Ready)
    assert outcome.handover.position.upstream == 23
    assert outcome.handover.position.epochs == found


def test_without_a_tail_what_is_known_of_leader_epochs_stays() -> None:
    known = (EpochEnd(1, 9), EpochEnd(2, 20))
    outcome = resumed(position=replace(POSITION, epochs=known))
    assert isinstance(outcome, Ready)
    assert outcome.handover.position.epochs == known


def test_topic_ids_are_those_that_the_clusters_give_now_as_far_as_they_give_any() -> None:
    for work_ids, expected in ((("new", "copy"), ("new", "copy")), (("", ""), ("id", "copy before"))):
        work, handover = known(replace(POSITION, target_id="copy before"))
        work = replace(work, topic_id=work_ids[0], target_id=work_ids[1])
        outcome = resume(work, handover, ENDS, is_ours, lambda: Logs((), ()))
        assert isinstance(outcome, Ready)
        assert (outcome.handover.position.topic_id, outcome.handover.position.target_id) == expected


def test_records_that_are_left_out_are_counted_as_far_as_the_match_got() -> None:
    left_out = LeftOut(4)
    left_out.add(21, 2)
    left_out.add(30, 5)
    source = (dense([record(21), record(22)]),)
    tail = (as_logged(dense([record(21)], producer=OURS, sequence=0)[0], 8),)
    work, handover = known()
    outcome = resume(work, handover, replace(ENDS, target_end=9), is_ours, lambda: Logs(source, tail, left_out))
    assert isinstance(outcome, Ready)
    assert (outcome.handover.position.upstream, outcome.handover.position.left_out) == (22, 6)


def test_an_offset_sync_that_was_not_written_is_owed_still() -> None:
    """ERR-11: of the newest pair, matched or acknowledged."""
    work, handover = known()
    for owes in (True, False):
        owing = replace(handover, owes_sync=owes)
        outcome = resume(replace(work, handover=owing), owing, ENDS, is_ours, lambda: Logs((), ()))
        assert isinstance(outcome, Ready)
        assert outcome.handover.owes_sync is owes


def test_a_tail_of_others_moves_only_the_downstream_position() -> None:
    tail = as_logged(dense([record(99)], producer=Producer(5, 0), sequence=0)[0], 8)
    outcome = resumed(tail=(tail,))
    assert isinstance(outcome, Ready)
    assert outcome.handover.position == replace(POSITION, downstream=10)


def test_a_tail_that_is_not_the_sources_is_refused() -> None:
    tail = as_logged(dense([record(99)], producer=OURS, sequence=0)[0], 8)
    outcome = resumed(source=(dense([record(20)]),), tail=(tail,))
    assert isinstance(outcome, Refused)
    assert "offset 8" in outcome.reason
    assert "no longer has" not in outcome.reason


def test_a_tail_whose_source_is_gone_is_refused_and_says_so() -> None:
    tail = as_logged(dense([record(20)], producer=OURS, sequence=0)[0], 8)
    outcome = resumed(replace(ENDS, source_start=30), source=(dense([record(30)]),), tail=(tail,))
    assert isinstance(outcome, Refused)
    assert "no longer has its offsets from 20 up to 30" in outcome.reason


def test_a_long_match_fills_chunks_of_the_map() -> None:
    offsets = range(20, 20 + 4 * RUNS_PER_CHUNK, 2)
    source = tuple(dense([record(offset)]) for offset in offsets)
    tail = tuple(
        as_logged(dense([record(offset)], producer=OURS, sequence=0)[0], 8 + place)
        for place, offset in enumerate(offsets)
    )
    work, handover = known(replace(POSITION, chunk=4))
    outcome = resume(work, handover, replace(ENDS, target_end=8 + len(tail)), is_ours, lambda: Logs(source, tail))
    assert isinstance(outcome, Ready)
    state = FlowState()
    for key, value in outcome.records:
        state.apply(key, value)
    assert sorted(state.chunks[SOURCE]) == [4, 5, 6]
    assert all(len(chunk.runs()) <= RUNS_PER_CHUNK for chunk in state.chunks[SOURCE].values())
    found = state.offset_map(SOURCE)
    assert found is not None
    assert tuple(found.runs) == (Run(5, 0, 3), *(Run(offset, 8 + place, 1) for place, offset in enumerate(offsets)))
    assert state.open_runs(SOURCE) == outcome.handover.runs


def test_what_the_state_topic_still_lacks_is_written_before_going_on() -> None:
    work, handover = known()
    lacking = (Gap(SOURCE, 1, 2, "r", 3).record(),)
    outcome = resume(work, replace(handover, unwritten=lacking), ENDS, is_ours, lambda: Logs((), ()))
    assert isinstance(outcome, Ready)
    assert outcome.records[: len(lacking)] == lacking
    assert outcome.handover.unwritten == ()


def test_a_partition_that_was_copied_to_another_topic_is_refused() -> None:
    """Its positions are of that topic: transforms or the replication policy were changed."""
    work, _ = known(replace(POSITION, target="orders"))
    refused = changed_target(work)
    assert refused is not None
    assert "copied to orders so far and is to be copied to east.orders now" in refused.reason
    assert changed_target(known(replace(POSITION, target=""))[0]) is None


def counted(
    start: int, copied: int, left: tuple[int, ...], *, stops: bool = False, is_whole: bool = True
) -> Ready | Refused:
    """Come back from the position 20, behind which so many were copied, to a source that begins later by now."""
    tail = dense([record(20 + at) for at in range(copied)], producer=OURS, sequence=0)[0]
    work, handover = known()
    work = replace(work, gaps=GapPolicy(stops))
    ends = replace(ENDS, source_start=start, target_end=8 + copied)
    source = tuple(dense([record(offset)]) for offset in left)
    logs = Logs(source, (as_logged(tail, 8),))
    return resume(work, handover, ends, is_ours, lambda: logs, is_whole=lambda: is_whole)


def test_a_tail_that_the_source_has_removed_in_part_is_skipped_as_far_as_it_is_certain() -> None:
    """ERR-01: also of what is left; and without a gap, as all was copied before."""
    outcome = counted(23, 5, (23, 24, 25))
    assert isinstance(outcome, Ready)
    assert (outcome.handover.position.upstream, outcome.handover.position.downstream) == (25, 13)
    assert (outcome.handover.runs, outcome.skipped_by_match, outcome.removed) == ((Run(5, 0, 3), Run(20, 8, 5)), 5, 3)


def test_behind_a_tail_of_which_the_source_has_nothing_left_the_copy_goes_on_with_what_there_is() -> None:
    outcome = counted(30, 5, (30,))
    assert isinstance(outcome, Ready)
    assert (outcome.handover.position.upstream, outcome.removed) == (30, 5)


def test_a_tail_that_is_not_read_to_its_end_is_not_counted_and_a_strict_copy_stops_at_what_is_missing() -> None:
    assert isinstance(counted(30, 5, (30,), is_whole=False), Refused)
    assert isinstance(counted(30, 5, (30,), stops=True), Refused)
    assert isinstance(counted(23, 5, (23, 24, 25), stops=True), Ready)


def test_a_tail_that_is_too_long_to_be_held_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resuming, "_MOST_COUNTED", 4)
    assert isinstance(counted(30, 5, (30,)), Refused)
    assert isinstance(counted(30, 4, (30,)), Ready)
