"""What is recorded when a partition is taken over is the whole map, exact where it was matched, bounded elsewhere."""

from __future__ import annotations

from dataclasses import replace

from mirror.copier.resume import Ends, Ready
from mirror.copier.takeover import Found
from mirror.copier.takeover_record import taken
from mirror.copier.work import Handover, PartitionWork
from mirror.model.flow_state import FlowState
from mirror.model.gap import Gap
from mirror.model.mm2_trace import Mm2Trace, Pair
from mirror.model.offset_map import OffsetMap, Run
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_values import RUNS_PER_CHUNK
from mirror.model.translation import Bounded, Exact, TooOld
from tests.flows import EAST_WEST

SOURCE = TopicPartition("orders", 3)
NEW = PartitionWork(EAST_WEST, SOURCE, TopicPartition("east.orders", 3), "id", None)
ENDS = Ends(source_start=0, source_end=900, target_start=0, target_end=300, target_written=300, source_written=900)
SYNCS = ((Pair(0, 0), Pair(50, 50), Pair(100, 100), Pair(150, 150)),)


def folded(ready: Ready, before: FlowState | None = None) -> tuple[FlowState, OffsetMap]:
    """The state topic after the records were written, and the map it then gives."""
    state = before or FlowState()
    for key, value in ready.records:
        state.apply(key, value)
    known = state.offset_map(SOURCE)
    assert known is not None
    return state, known


def test_a_first_takeover_knows_what_was_matched_exactly_and_the_rest_by_syncs() -> None:
    found = Found(300, (Run(100, 100, 200),), 200)
    ready = taken(NEW, Mm2Trace(120, SYNCS), Pair(100, 100), found, ENDS, "")
    state, known = folded(ready)
    assert ready.handover.position == Position(300, 300, 100, False, 0, "id", target="east.orders", compared=300)
    assert ready.handover.clean
    assert ready.skipped_by_match == 180
    assert known.translate(250) == Exact(250)
    assert known.translate(50) == Exact(50)
    assert known.translate(75) == Bounded(51, 24)
    taken_over = state.takeovers[SOURCE]
    assert (taken_over.position, taken_over.upstream, taken_over.records, taken_over.seen) == (120, 300, 200, 200)


def test_where_the_match_began_at_the_targets_start_nothing_older_is_to_be_known() -> None:
    _, known = folded(taken(NEW, Mm2Trace(None, SYNCS), Pair(7, 0), Found(107, (Run(7, 0, 100),), 100), ENDS, ""))
    assert known.complete_from_origin
    assert known.sparse_maps == ()
    assert known.translate(3) == Exact(0)


def test_nothing_found_behind_the_position_is_a_takeover_too() -> None:
    ready = taken(NEW, Mm2Trace(300), Pair(300, 300), Found(300, ()), ENDS, "")
    _, known = folded(ready)
    assert ready.handover.position == Position(300, 300, 300, False, 0, "id", target="east.orders", compared=300)
    assert known.translate(300) == Exact(300)
    assert known.translate(299) == TooOld(300)


OWN = Position(100, 110, 0, True, 0, "id")
OLD = Handover(OWN, (Run(0, 0, 60), Run(60, 70, 40)), clean=False)
KNOWN = replace(NEW, handover=OLD)


def ours() -> FlowState:
    state = FlowState()
    old = taken(NEW, Mm2Trace(), Pair(0, 0), Found(100, OLD.runs, 100), replace(ENDS, target_end=110), "")
    for key, value in old.records:
        state.apply(key, value)
    return state


def test_what_java_copied_behind_our_position_continues_our_map() -> None:
    found = Found(150, (Run(100, 110, 50),), 50)
    ready = taken(KNOWN, Mm2Trace(None), Pair(100, 110), found, replace(ENDS, target_end=160), "")
    _, known = folded(ready, ours())
    assert known.complete_from_origin
    assert [known.translate(each) for each in (10, 80, 120)] == [Exact(10), Exact(90), Exact(130)]
    assert known.sparse_maps == ()


def test_what_java_copied_long_ago_behind_our_position_is_bounded_and_ours_stays_exact() -> None:
    syncs = ((Pair(100, 110), Pair(200, 210), Pair(800, 810)),)
    ready = taken(
        KNOWN,
        Mm2Trace(850, syncs),
        Pair(800, 810),
        Found(900, (Run(800, 810, 100),), 100),
        replace(ENDS, target_end=910),
        "",
    )
    _, known = folded(ready, ours())
    assert [known.translate(each) for each in (10, 80, 850)] == [Exact(10), Exact(90), Exact(860)]
    assert known.translate(100) == Exact(110)
    assert known.translate(150) == Bounded(111, 49)
    assert known.translate(700) == Bounded(211, 499)


def test_before_the_first_sync_behind_our_position_a_reader_goes_back_to_it() -> None:
    ready = taken(
        KNOWN, Mm2Trace(850), Pair(800, 810), Found(900, (Run(800, 810, 100),), 100), replace(ENDS, target_end=910), ""
    )
    _, known = folded(ready, ours())
    assert known.translate(100) == Exact(110)
    assert known.translate(400) == Bounded(110, 300)


def test_what_our_state_topic_still_lacks_is_written_and_the_turn_stays() -> None:
    lacking = (Gap(SOURCE, 3, 4, "poison", 5).record(),)
    old = replace(OLD, unwritten=lacking, position=replace(OWN, incarnation=3))
    found = Found(150, (Run(100, 110, 50),), 50)
    ready = taken(replace(NEW, handover=old), Mm2Trace(None), Pair(100, 110), found, replace(ENDS, target_end=160), "")
    assert ready.records[: len(lacking)] == lacking
    assert ready.handover.position.incarnation == 3


def test_syncs_of_what_we_copied_ourselves_say_nothing_of_what_java_copied_behind_it() -> None:
    """Those before our position, on either side, are of us or of a life before."""
    syncs = ((Pair(40, 40), Pair(95, 104), Pair(200, 210), Pair(800, 810)),)
    found = Found(900, (Run(800, 810, 100),), 100)
    ready = taken(KNOWN, Mm2Trace(850, syncs), Pair(800, 810), found, replace(ENDS, target_end=910), "")
    _, known = folded(ready, ours())
    (sparse_map,) = known.sparse_maps
    assert sparse_map.pairs == (Pair(99, 109), Pair(200, 210))


def test_where_java_went_back_before_our_position_its_later_copies_count() -> None:
    found = Found(150, (Run(90, 110, 60),), 60, doubled=10)
    ready = taken(KNOWN, Mm2Trace(None), Pair(100, 110), found, replace(ENDS, target_end=170), "")
    _, known = folded(ready, ours())
    assert [known.translate(each) for each in (80, 89, 90, 120)] == [Exact(90), Exact(99), Exact(110), Exact(140)]


def test_a_full_chunk_of_our_map_is_not_gone_back_into() -> None:
    """The former copies of what Java copied again count there: a reader misses nothing, and meets the later ones."""
    later = replace(OLD, runs=(Run(95, 105, 5),), position=replace(OWN, chunk=1))
    found = Found(150, (Run(90, 110, 60),), 60, doubled=10)
    ready = taken(
        replace(NEW, handover=later), Mm2Trace(None), Pair(100, 110), found, replace(ENDS, target_end=170), ""
    )
    assert ready.handover.runs == (Run(95, 105, 5), Run(100, 120, 50))
    assert ready.handover.position.chunk == 1


def test_a_long_match_fills_chunks_of_the_map() -> None:
    runs = tuple(Run(2 * number, number, 1) for number in range(3 * RUNS_PER_CHUNK))
    state, known = folded(
        taken(NEW, Mm2Trace(None, SYNCS), Pair(0, 0), Found(2 * len(runs), runs, len(runs)), ENDS, "")
    )
    assert tuple(known.runs) == runs
    assert sorted(state.chunks[SOURCE]) == [0, 1, 2]


def test_where_java_had_gone_back_before_the_match_began_the_map_begins_there() -> None:
    ready = taken(NEW, Mm2Trace(120, SYNCS), Pair(100, 100), Found(290, (Run(90, 100, 200),), 200), ENDS, "")
    _, known = folded(ready)
    assert ready.handover.position.origin == 90
    assert known.translate(90) == Exact(100)


def test_where_java_went_back_to_where_our_open_chunk_begins_its_later_copies_count() -> None:
    old = replace(OLD, runs=(Run(90, 100, 10),))
    ready = taken(
        replace(NEW, handover=old),
        Mm2Trace(None),
        Pair(100, 110),
        Found(150, (Run(90, 110, 60),), 60, doubled=10),
        replace(ENDS, target_end=170),
        "",
    )
    assert ready.handover.runs == (Run(90, 110, 60),)


def test_our_map_goes_on_where_nothing_was_found_behind_it_and_where_its_open_chunk_is_empty() -> None:
    ends = replace(ENDS, target_end=110)
    assert taken(KNOWN, Mm2Trace(100), Pair(100, 110), Found(100, ()), ends, "").handover.runs == OLD.runs
    empty = replace(NEW, handover=replace(OLD, runs=()))
    found = Found(150, (Run(90, 110, 60),), 60)
    assert taken(empty, Mm2Trace(), Pair(100, 110), found, ENDS, "").handover.runs == (Run(100, 120, 50),)


def test_a_sync_counts_behind_our_position_only_if_it_is_behind_it_on_both_sides() -> None:
    """Java went back before our position, or the sync is of a copy that was there before ours."""
    syncs = ((Pair(60, 130), Pair(95, 165), Pair(200, 270), Pair(800, 870)), (Pair(300, 40), Pair(400, 109)))
    found = Found(900, (Run(800, 870, 100),), 100)
    ready = taken(KNOWN, Mm2Trace(850, syncs), Pair(800, 870), found, replace(ENDS, target_end=970), "")
    _, known = folded(ready, ours())
    (sparse_map,) = known.sparse_maps
    assert sparse_map.pairs == (Pair(99, 109), Pair(200, 270))
