"""Where a copy begins, and when it must not begin."""

from __future__ import annotations

from dataclasses import replace

from mirror.copier.resume import Ends, NotYet, Ready, Refused, begin, changed_topic, resume
from mirror.copier.tail_match import Batch
from mirror.copier.work import Handover, PartitionWork
from mirror.kafka.batch import Producer
from mirror.model.flow_state import RUNS_PER_CHUNK, FlowState, Position
from mirror.model.offset_map import Run
from mirror.model.partition import TopicPartition
from tests.flows import EAST_WEST, flow_work
from tests.unit.copier.builders import as_logged, dense, record

SOURCE, TARGET = TopicPartition("orders", 3), TopicPartition("east.orders", 3)
OURS = Producer(7, 0)
FLOW = flow_work(writers=frozenset({7}))
NEW = PartitionWork(EAST_WEST, SOURCE, TARGET, "id", None)
ENDS = Ends(source_start=5, source_end=50, target_start=0, target_end=10, target_written=10)
POSITION = Position(20, 8, 5, True, 0, "id")


def is_ours(producer_id: int) -> bool:
    return producer_id == OURS.producer_id


def known(position: Position = POSITION, runs: tuple[Run, ...] = (Run(5, 0, 3),)) -> tuple[PartitionWork, Handover]:
    handover = Handover(position, runs, clean=False)
    return replace(NEW, handover=handover), handover


def resumed(
    ends: Ends = ENDS, source: tuple[Batch, ...] = (), tail: tuple[Batch, ...] = (), position: Position = POSITION
) -> Ready | NotYet | Refused:
    work, handover = known(position)
    return resume(work, handover, ends, is_ours, source, tail)


def test_a_new_partition_begins_at_its_start_and_says_so_before_the_first_batch() -> None:
    position = Position(5, 10, 5, True, 0, "id")
    assert begin(NEW, FLOW, ENDS) == Ready(Handover(position, (), clean=True), (position.record(SOURCE),))


def test_a_flow_that_begins_at_the_end_knows_nothing_older() -> None:
    assert begin(NEW, replace(FLOW, from_latest=True), ENDS).handover.position == Position(50, 10, 50, False, 0, "id")


def test_a_partition_that_java_mm2_copied_goes_on_where_it_stood() -> None:
    work = replace(NEW, mm2_position=33)
    assert begin(work, FLOW, ENDS).handover.position == Position(33, 10, 33, False, 0, "id")


def test_a_topic_created_anew_is_not_taken_for_the_old_one() -> None:
    work, _ = known()
    refused = changed_topic(replace(work, topic_id="other"))
    assert refused is not None
    assert "id id, now other" in refused.reason
    assert "upstream offset 20" in refused.reason
    assert changed_topic(work) is None
    assert changed_topic(NEW) is None
    # A broker that gives no ids cannot be asked.
    assert changed_topic(replace(work, topic_id="")) is None


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


def test_a_target_that_is_shorter_than_what_was_recorded_is_refused() -> None:
    outcome = resumed(replace(ENDS, target_end=7, target_written=7))
    assert isinstance(outcome, Refused)
    assert "ends at 7, before the position 8" in outcome.reason


def test_what_the_target_has_not_replicated_yet_is_waited_for() -> None:
    """It cannot be read, but it will be there: copying it again would make it twice."""
    outcome = resumed(replace(ENDS, target_end=8, target_written=12))
    assert isinstance(outcome, NotYet)
    assert "4 records that are not replicated" in outcome.reason


def test_a_long_match_fills_chunks_of_the_map() -> None:
    offsets = range(20, 20 + 4 * RUNS_PER_CHUNK, 2)
    source = tuple(dense([record(offset)]) for offset in offsets)
    tail = tuple(
        as_logged(dense([record(offset)], producer=OURS, sequence=0)[0], 8 + place)
        for place, offset in enumerate(offsets)
    )
    work, handover = known(replace(POSITION, chunk=4))
    outcome = resume(work, handover, replace(ENDS, target_end=8 + len(tail)), is_ours, source, tail)
    assert isinstance(outcome, Ready)
    state = FlowState()
    for key, value in outcome.records:
        state.apply(key, value)
    assert sorted(state.chunks[SOURCE]) == [4, 5, 6]
    assert all(len(runs) <= RUNS_PER_CHUNK for runs in state.chunks[SOURCE].values())
    found = state.offset_map(SOURCE)
    assert found is not None
    assert found.runs == (Run(5, 0, 3), *(Run(offset, 8 + place, 1) for place, offset in enumerate(offsets)))
    assert state.open_runs(SOURCE) == outcome.handover.runs


def test_what_the_state_topic_still_lacks_is_written_before_going_on() -> None:
    work, handover = known()
    lacking = ((b'["gap","orders",3,1]', b'{"end":2,"reason":"r","found_at_ms":3}'),)
    outcome = resume(work, replace(handover, unwritten=lacking), ENDS, is_ours, (), ())
    assert isinstance(outcome, Ready)
    assert outcome.records[: len(lacking)] == lacking
    assert outcome.handover.unwritten == ()
