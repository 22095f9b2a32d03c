"""What is missing is found, written down with its exact range, and passed or waited at; nothing is done silently."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.copier import gaps
from mirror.copier.gaps import Detour
from mirror.copier.resume import Ends
from mirror.copier.work import GapPolicy, Handover, PartitionWork
from mirror.kafka import topic_ids
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.gap import Gap, GapKind
from mirror.model.leader_epochs import NOT_KNOWN, EpochEnd
from mirror.model.offset_map import Run
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_values import chunk_record, no_chunk_record
from mirror.model.translation import Exact

SOURCE, TARGET = TopicPartition("orders", 3), TopicPartition("east.orders", 3)
EPOCHS = (EpochEnd(NOT_KNOWN, 0), EpochEnd(2, 60), EpochEnd(3, 100))
POSITION = Position(100, 90, 0, True, 1, "source id", "target id", EPOCHS, 120)
RUNS = ([Run(0, 0, 50), Run(60, 50, 10)], [Run(70, 60, 30)])
ENDS = Ends(source_start=0, source_end=120, target_start=0, target_end=90, target_written=90, source_written=120)
NOW = 1_700_000_000_000


def known(position: Position = POSITION) -> FlowState:
    state = FlowState()
    for number, runs in enumerate(RUNS):
        state.apply(*chunk_record(SOURCE, number, runs))
    state.apply(*position.record(SOURCE))
    return state


def work(position: Position = POSITION, *, clean: bool = False, **changes: object) -> PartitionWork:
    handover = Handover(position, tuple(RUNS[-1]), clean=clean)
    one = PartitionWork(Flow("east", "west"), SOURCE, TARGET, "source id", handover, target_id="target id")
    return replace(one, **changes)  # type: ignore[arg-type]


def found(one: PartitionWork, ends: Ends = ENDS, diverged: int | None = None) -> Detour | None:
    assert one.handover is not None
    position = one.handover.position
    return gaps.find_detour(one, one.handover, lambda: known(position), ends, lambda _: diverged, NOW)


def taken(detour: Detour | None, state: FlowState | None = None) -> tuple[Handover, FlowState]:
    """Take the detour, and see what the state topic says then."""
    assert detour is not None
    state = state or known()
    handover, records = gaps.take(detour, detour.gap and replace(detour.gap, passed=True), SOURCE, state)
    again = known()
    for key, value in records:
        again.apply(key, value)
    assert again.positions[SOURCE] == handover.position
    assert again.open_runs(SOURCE) == handover.runs
    return handover, again


def test_where_nothing_has_changed_the_copy_goes_on_where_it_was() -> None:
    """Also when the log start moved within what is copied, and when the target grew by records of others."""
    assert found(work()) is None
    assert found(work(), replace(ENDS, source_start=99)) is None
    assert found(work(), replace(ENDS, source_start=110)) is None
    assert found(work(), replace(ENDS, target_end=200, target_written=200)) is None
    assert not gaps.is_replaced(work())


def test_clusters_without_ids_cannot_be_asked() -> None:
    for unknown in ("", topic_ids.NONE):
        assert not gaps.is_replaced(work(topic_id=unknown, target_id=unknown))
        assert found(work(topic_id=unknown, target_id=unknown)) is None
        assert found(work(replace(POSITION, topic_id=unknown, target_id=unknown))) is None
    assert not gaps.is_replaced(replace(work(), handover=None))


def test_a_truncated_source_is_copied_from_where_it_differs_and_the_copy_keeps_what_it_has() -> None:
    """Positions from there on lead to the new copies; those before to where they did."""
    detour = found(work(replace(POSITION, source_end=100)), diverged=65)
    assert detour is not None
    gap = detour.gap
    assert gap is not None
    assert (gap.start, gap.end, gap.kind, gap.downstream, gap.topic_id) == (65, 100, GapKind.TRUNCATED, 90, "source id")
    assert "offsets 65 to 99" in gap.reason
    assert "what it may have had from 100 on was never seen" in gap.reason
    seen = found(work(replace(POSITION, source_end=120)), diverged=65)
    assert seen is not None
    assert seen.gap is not None
    assert (seen.gap.start, seen.gap.end, seen.gap.downstream) == (65, 120, 90), "what was seen and not copied too"
    assert "its offsets 100 to 119 were never copied" in seen.gap.reason
    handover, state = taken(detour)
    position = handover.position
    assert (position.upstream, position.downstream, position.chunk) == (65, 90, 0)
    assert position.epochs == (EpochEnd(NOT_KNOWN, 0), EpochEnd(2, 60), EpochEnd(3, 65))
    assert position.source_end == 65
    state.apply(*chunk_record(SOURCE, 0, [*handover.runs, Run(65, 90, 20)]))
    state.apply(*replace(position, upstream=85, downstream=110).record(SOURCE))
    offset_map = state.offset_map(SOURCE)
    assert offset_map is not None
    assert tuple(offset_map.runs) == (Run(0, 0, 50), Run(60, 50, 5), Run(65, 90, 20))
    assert [offset_map.translate(each) for each in (64, 65, 84)] == [Exact(54), Exact(90), Exact(109)]


def test_a_topic_created_anew_is_copied_from_its_start_behind_the_copy_of_the_old_one() -> None:
    """What of the old one was seen and never copied is the gap; the map is that of the new one alone."""
    one = work(topic_id="new id")
    assert gaps.is_replaced(one)
    assert gaps.is_replaced(work(target_id="new id"))
    for end in (5, 500):
        detour = found(one, replace(ENDS, source_start=2, source_end=end, source_written=end))
        assert detour is not None
        gap = detour.gap
        assert gap is not None
        assert (gap.start, gap.end, gap.kind, gap.downstream) == (100, 120, GapKind.RECREATED, 90)
        assert gap.topic_id == "source id"
        handover, state = taken(detour)
        assert handover.position == Position(
            2, 90, 2, True, 0, "new id", "target id", target="east.orders", incarnation=1, compared=90
        )
        assert handover.runs == ()
        offset_map = state.offset_map(SOURCE)
        assert offset_map is not None
        assert (list(offset_map.runs), offset_map.translate(0)) == ([], Exact(90))


def test_a_topic_created_anew_after_all_of_it_was_copied_is_an_empty_gap() -> None:
    detour = found(work(replace(POSITION, source_end=100), topic_id="new id"))
    assert detour is not None
    assert detour.gap is not None
    assert (detour.gap.start, detour.gap.end) == (100, 100)
    assert "was not seen to be longer" in detour.gap.reason


@pytest.mark.parametrize(
    ("one", "ends", "lost_from"),
    [
        (work(), replace(ENDS, target_end=55, target_written=55), 55),
        (work(target_id="new id"), replace(ENDS, target_end=400, target_written=400), 0),
        (
            replace(work(), handover=Handover(POSITION, (), clean=False, target_ended_at=55)),
            replace(ENDS, target_end=200, target_written=200),
            55,
        ),
    ],
    ids=["shorter", "created anew", "seen to append before the position"],
)
def test_copies_that_the_target_lost_are_made_again_from_the_source_of_the_first(
    one: PartitionWork, ends: Ends, lost_from: int
) -> None:
    """Behind what the target has by then, for it cannot be told who wrote that."""
    detour = found(one, ends)
    assert detour is not None
    gap = detour.gap
    assert gap is not None
    back = {55: 65, 0: 0}[lost_from]
    assert (gap.start, gap.end, gap.kind, gap.downstream) == (back, 100, GapKind.TARGET_LOST, lost_from)
    assert f"{90 - lost_from} copies of orders-3" in gap.reason
    assert not gaps.settle(gap, GapPolicy()).passed
    handover, state = taken(detour)
    assert (handover.position.upstream, handover.position.downstream) == (back, ends.target_end)
    assert handover.position.target_id == one.target_id
    assert handover.position.source_end == 120
    assert state.offset_map(SOURCE) is not None
    barrier = gaps.settle(gap, GapPolicy())
    later = replace(one, gaps=GapPolicy(barrier=barrier, is_lifted=True))
    assert later.handover is not None
    later = replace(later, handover=replace(later.handover, target_ended_at=None))
    regrown = found(later, replace(ends, target_end=900, target_written=900))
    assert regrown is not None
    assert regrown.gap is not None
    assert gaps.settle(regrown.gap, later.gaps) == replace(barrier, passed=True)


def test_a_target_created_anew_gets_also_what_the_former_one_had_removed_by_itself() -> None:
    """Its chunks of the map are forgotten by then; the source may still have the records."""
    state = known()
    state.apply(*no_chunk_record(SOURCE, 0))
    one = work(target_id="new id")
    assert one.handover is not None
    ends = replace(ENDS, target_end=0, target_written=0)
    detour = gaps.find_detour(one, one.handover, lambda: state, ends, lambda _: None, NOW)
    assert detour is not None
    assert detour.gap is not None
    assert (detour.gap.start, detour.position.upstream) == (0, 0)
    handover, _ = gaps.take(detour, None, SOURCE, state)
    assert (handover.position.chunk, handover.position.incarnation, handover.runs) == (0, 1, ())


def test_a_target_without_a_copy_may_be_created_anew() -> None:
    bare = Position(100, 90, 100, False, 0, "source id", "target id")
    state = FlowState()
    state.apply(*bare.record(SOURCE))
    one = work(bare, target_id="new id")
    assert one.handover is not None
    ends = replace(ENDS, target_end=0, target_written=0)
    detour = gaps.find_detour(one, one.handover, lambda: state, ends, lambda _: None, NOW)
    assert detour is not None
    assert detour.gap is None
    handover, _ = taken(detour, state)
    assert (handover.position.downstream, handover.position.target_id) == (0, "new id")


def test_when_both_topics_are_new_the_lost_copies_come_first_then_the_new_source() -> None:
    one = work(topic_id="new source", target_id="new target")
    ends = replace(ENDS, target_end=0, target_written=0)
    first = found(one, ends)
    assert first is not None
    assert first.gap is not None
    assert first.gap.kind is GapKind.TARGET_LOST
    handover, state = taken(first)
    second = gaps.find_detour(one, handover, lambda: state, ends, lambda _: None, NOW)
    assert second is not None
    assert second.gap is not None
    assert (second.gap.kind, second.gap.start, second.gap.end) == (GapKind.RECREATED, 0, 120)


def test_a_shorter_source_of_which_no_epoch_is_known_is_for_somebody_to_decide() -> None:
    """Truncated or created anew: going on at its end would lose what a new topic has before."""
    one = work(replace(POSITION, epochs=()))
    detour = found(one, replace(ENDS, source_start=3, source_end=40, source_written=40))
    assert detour is not None
    assert detour.gap is not None
    assert not gaps.settle(detour.gap, GapPolicy(), is_certain=detour.is_certain).passed
    assert (detour.gap.start, detour.gap.end, detour.position.upstream) == (40, 100, 3)


PASSED = (GapKind.RETENTION, GapKind.TRUNCATED, GapKind.RECREATED, GapKind.COPIED_AGAIN)


@pytest.mark.parametrize("kind", GapKind)
@pytest.mark.parametrize("stops", [False, True])
def test_a_gap_is_passed_at_once_or_when_it_is_acknowledged(kind: GapKind, stops: bool) -> None:
    gap = Gap(SOURCE, 5, 9, "gone", NOW, kind, 4, "id")
    goes_on = not stops and kind in PASSED
    fresh = gaps.settle(gap, GapPolicy(stops))
    assert fresh.passed == goes_on
    assert gaps.news(fresh, GapPolicy(stops)) == (fresh.record(),)
    seen_before = replace(gap, found_at_ms=NOW - 500, passed=False)
    again = gaps.settle(gap, GapPolicy(stops, seen_before))
    assert again == replace(seen_before, passed=goes_on)
    assert gaps.news(again, GapPolicy(stops, seen_before)) == ((again.record(),) if goes_on else ())
    lifted = GapPolicy(stops, seen_before, is_lifted=True)
    assert gaps.settle(gap, lifted) == replace(seen_before, passed=True)


def test_one_acknowledgement_does_not_pass_another_gap() -> None:
    barrier = Gap(SOURCE, 5, 9, "gone", NOW, GapKind.TARGET_LOST, 4, "id", passed=False)
    lifted = GapPolicy(True, barrier, is_lifted=True)
    for other in (
        replace(barrier, start=4),
        replace(barrier, kind=GapKind.TRUNCATED),
        replace(barrier, topic_id="another"),
    ):
        assert not gaps.settle(replace(other, found_at_ms=NOW + 1), lifted).passed


def test_what_retention_removed_more_while_the_copy_stopped_is_the_same_gap() -> None:
    """It may begin a little before, behind markers that were not counted as copied."""
    barrier = Gap(SOURCE, 5, 9, "gone", NOW, GapKind.RETENTION, 4, "id", passed=False)
    longer = replace(barrier, start=3, end=30, found_at_ms=NOW + 1)
    policy = GapPolicy(True, barrier, is_lifted=True)
    assert gaps.settle(longer, policy) == replace(barrier, end=30, passed=True)
    # Nor has anybody acknowledged what lies before: it may have been records that were read and not copied.
    before = replace(longer, end=5, passed=True)
    assert gaps.parts(longer, policy) == (before, replace(barrier, end=30, passed=True))
    assert gaps.parts(replace(longer, start=5), policy) == (replace(barrier, end=30, passed=True),)
    assert gaps.parts(longer, GapPolicy(True, barrier)) == (replace(barrier, end=30, passed=False),)


@pytest.mark.parametrize(
    ("barrier_at", "end", "is_same"), [(7, 10, True), (10, 10, True), (11, 10, False), (3, 10, False)]
)
def test_a_gap_of_retention_that_begins_before_the_one_it_stopped_at_is_the_same_if_it_reaches_it(
    barrier_at: int, end: int, is_same: bool
) -> None:
    """Markers before it were read, and not counted as copied when the epoch ended; they are gone now, too."""
    barrier = Gap(SOURCE, barrier_at, 12, "retention", 1, GapKind.RETENTION)
    gap = Gap(SOURCE, 5, end, "retention", NOW, GapKind.RETENTION)
    settled = gaps.settle(gap, GapPolicy(stops=True, barrier=barrier, is_lifted=True))
    assert settled.passed is is_same
    assert (settled.start, settled.found_at_ms) == ((barrier_at, 1) if is_same else (5, NOW))


def test_a_source_of_which_no_epoch_is_known_may_end_where_the_copy_is() -> None:
    position = replace(POSITION, epochs=())
    at_its_end = replace(ENDS, source_end=100, source_written=100)
    assert found(work(position), at_its_end) is None
    assert found(work(position), replace(at_its_end, source_end=99, source_written=99)) is not None


def test_a_copy_that_goes_back_before_where_it_began_begins_there() -> None:
    """Nothing before it was ever copied, and now it will be."""
    position = replace(POSITION, origin=80)
    detour = found(work(position), diverged=70)
    assert detour is not None
    assert (detour.position.upstream, detour.position.origin) == (70, 70)
    ahead = found(work(replace(POSITION, origin=10)), diverged=70)
    assert ahead is not None
    assert ahead.position.origin == 10


def test_a_gap_that_was_passed_but_not_recorded_is_made_up_for_when_the_tail_is_matched() -> None:
    ends = replace(ENDS, source_start=110)
    behind = replace(POSITION, upstream=115)
    (gap,) = gaps.unrecorded(work(), POSITION, behind, ends, NOW)
    assert gap is not None
    assert (gap.start, gap.end, gap.passed) == (100, 110, True)
    assert gaps.unrecorded(work(), POSITION, POSITION, ends, NOW) == ()
    assert gaps.unrecorded(work(), POSITION, behind, ENDS, NOW) == ()


def test_of_what_is_gone_that_was_copied_before_is_no_gap() -> None:
    """By the offset map that is the end of it."""
    ends = replace(ENDS, source_start=110)
    behind = replace(POSITION, upstream=115)
    (gap,) = gaps.unrecorded(work(), POSITION, behind, ends, NOW, removed=7)
    assert gap is not None
    assert (gap.start, gap.end, gap.passed) == (100, 103, True)
    assert "7 records had been copied; 3 records at most are missing" in gap.reason
    assert gaps.unrecorded(work(), POSITION, behind, ends, NOW, removed=10) == ()


def test_a_tail_that_is_not_understood_waits_and_then_all_behind_the_position_is_copied_again() -> None:
    ends = replace(ENDS, target_end=130, target_written=130)
    detour = gaps.unmatched(work(), POSITION, ends, "not the same", NOW)
    assert detour.gap is not None
    assert not gaps.settle(detour.gap, GapPolicy()).passed
    assert (detour.gap.start, detour.gap.end, detour.gap.downstream) == (100, 100, 90)
    handover, _ = taken(detour)
    assert (handover.position.upstream, handover.position.downstream, handover.runs) == (100, 130, tuple(RUNS[-1]))


def test_a_copy_of_unknown_origin_is_told_once_and_may_be_begun_behind_when_that_very_gap_is_acknowledged() -> None:
    new = work(handover=None)
    first = gaps.unknown_origin(new, ENDS, "no syncs", NOW)
    (record,) = first.records
    state = FlowState()
    state.apply(*record)
    barrier = state.barriers[SOURCE]
    assert (barrier.kind, barrier.start, barrier.passed) == (GapKind.UNKNOWN_ORIGIN, 0, False)
    again = gaps.unknown_origin(replace(new, gaps=GapPolicy(barrier=barrier)), ENDS, "no syncs", NOW + 1)
    assert (again.reason, again.records) == (first.reason, ())
    other = replace(barrier, kind=GapKind.RETENTION)
    assert gaps.unknown_origin(replace(new, gaps=GapPolicy(barrier=other)), ENDS, "no syncs", NOW).records == (record,)
    lifted = [
        (None, True, False),
        (other, True, False),
        (barrier, False, False),
        (barrier, True, True),
    ]
    for one, is_lifted, may in lifted:
        policy = GapPolicy(barrier=one, is_lifted=is_lifted)
        assert gaps.may_begin_behind(replace(new, gaps=policy)) is may


def test_what_ends_where_the_target_does_is_not_lost() -> None:
    """The last copy before the place from which on they are gone is there."""
    detour = found(work(), replace(ENDS, target_end=60, target_written=60))
    assert detour is not None
    assert detour.gap is not None
    assert (detour.gap.start, detour.gap.downstream) == (70, 60)
    assert "30 copies" in detour.gap.reason


def test_an_id_that_a_cluster_stops_giving_is_kept() -> None:
    """Or a topic created anew later would not be known for one."""
    lost = found(work(target_id=""), replace(ENDS, target_end=60, target_written=60))
    assert lost is not None
    assert lost.position.target_id == "target id"
    renewed = found(work(topic_id="new id", target_id=""))
    assert renewed is not None
    assert renewed.position.target_id == "target id"


def test_a_detour_is_known_to_the_state_as_soon_as_it_is_taken() -> None:
    """What comes next, as the gap behind it, is found from there; all that is behind it is known for certain."""
    detour, state = found(work(), diverged=65), known()
    assert detour is not None
    handover, _ = gaps.take(detour, detour.gap, SOURCE, state)
    assert handover.clean
    assert state.positions[SOURCE] == handover.position
    assert state.open_runs(SOURCE) == handover.runs


def uncompared_after(detour: Detour | None, **before: object) -> tuple[int, int] | None:
    """What of the copy is still to be looked at once a detour is taken from a position."""
    handover, again = taken(detour, known(replace(POSITION, **before)))  # type: ignore[arg-type]
    assert handover.position.compared == handover.position.downstream
    return again.positions[SOURCE].uncompared


def test_what_nobody_has_compared_of_a_copy_stays_to_be_compared_when_that_goes_back() -> None:
    """The map forgets what lies there; others may have written between, and behind, what was the copy's own."""
    behind = replace(ENDS, target_end=95, target_written=95)
    back = found(work(), behind, diverged=65)
    assert uncompared_after(back, compared=95) is None, "all of it was"
    assert uncompared_after(back, compared=80) == (80, 95)
    assert uncompared_after(back, compared=80, uncompared=(20, 40)) == (20, 95)
    assert uncompared_after(back) is None, "of a version that compared nothing it is not known"
    truncated = found(work(), replace(ENDS, target_end=70, target_written=60))
    assert uncompared_after(truncated, compared=90) == (60, 70), "what is there now is another log"
    renewed = found(work(target_id="new"), replace(ENDS, target_end=5, target_written=5))
    assert uncompared_after(renewed, compared=90) == (0, 5)


def test_only_where_nothing_tells_what_is_the_same_somebody_must_decide() -> None:
    for detour in (
        found(work(), diverged=65),
        found(work(topic_id="new id")),
        found(work(), replace(ENDS, target_end=55, target_written=55)),
    ):
        assert detour is not None
        assert detour.is_certain


@pytest.mark.parametrize(("start", "is_gap"), [(100, False), (101, True)])
def test_a_source_that_begins_where_the_copy_ended_lacks_nothing(start: int, *, is_gap: bool) -> None:
    later = replace(POSITION, upstream=110, downstream=95)
    found = gaps.unrecorded(work(), POSITION, later, replace(ENDS, source_start=start), NOW)
    assert len(found) == is_gap
    for gap in found:
        assert (gap.start, gap.end, gap.passed) == (100, 101, True)
        assert "had the offsets 100 of" in gap.reason, "one offset is no range"
    two = gaps.overtaken(work(), POSITION, 102, None, NOW)
    assert "had the offsets 100 to 101 of" in two.reason


def test_a_run_that_ends_where_the_target_does_is_not_lost_and_the_reason_says_what_happened() -> None:
    """Of the two chunks the second run ends at 60 of the target, the third at 90."""
    cut = found(work(), replace(ENDS, target_end=60, target_written=60))
    assert cut is not None
    assert cut.gap is not None
    assert cut.gap.start == 70
    assert "30 copies" in cut.gap.reason
    assert "ended at offset 60, before the position 90" in cut.gap.reason
    assert "which is from" not in cut.gap.reason

    at_the_start = found(work(), replace(ENDS, target_end=60, target_written=60, source_start=70))
    assert at_the_start is not None
    assert at_the_start.gap is not None
    assert "which is from" not in at_the_start.gap.reason, "it still has all of it"

    anew = found(work(target_id="new id"), replace(ENDS, target_end=0, target_written=0, source_start=5))
    assert anew is not None
    assert anew.gap is not None
    assert "was deleted and created anew" in anew.gap.reason
    assert "which is from 5 on" in anew.gap.reason


def test_a_gap_is_passed_as_its_policy_says_where_it_is_certain() -> None:
    gap = gaps.overtaken(work(), POSITION, 102, None, NOW)
    assert gaps.settle(gap, GapPolicy()).passed
    assert not gaps.settle(gap, GapPolicy(), is_certain=False).passed
    assert not gaps.settle(gap, GapPolicy(stops=True)).passed


def test_where_only_what_others_wrote_behind_the_copy_is_gone_nothing_of_it_is_missing() -> None:
    """The last copy ends at 90; the position was carried on past somebody's records, to 95."""
    detour = found(work(replace(POSITION, downstream=95)), replace(ENDS, target_end=90, target_written=90))
    assert detour is not None
    assert detour.gap is None
    assert (detour.position.upstream, detour.position.downstream) == (100, 90)


def test_in_another_log_of_the_source_there_may_be_records_where_the_former_one_had_a_gap() -> None:
    """They were passed by without a word once the copy had come to that gap."""
    epochs = (EpochEnd(3, 30),)
    position = Position(30, 30, 0, True, 0, "here", "there", epochs=epochs, same_offsets=True, passed_gaps=((50, 80),))
    handover = Handover(position, (), clean=True)
    source, copy = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
    work = PartitionWork(Flow("east", "west"), source, copy, "here", handover, target_id="there")
    detour = gaps.find_detour(work, handover, FlowState, Ends(0, 100, 0, 30, 30, 100), lambda _: 20, 1)
    assert detour is not None
    assert (detour.position.upstream, detour.position.passed_gaps) == (20, ())
