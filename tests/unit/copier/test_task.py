"""A copy task with clusters in memory: where it begins with a partition, what it writes down before, what it hands back."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from mirror.copier import task
from mirror.copier.bell import Heard
from mirror.copier.loop import TROUBLED_SECONDS
from mirror.copier.work import GapPolicy, PartitionResult
from mirror.kafka.batch import Producer
from mirror.model.flow_state import GapKind, chunk_record, writer_record
from mirror.model.mm2_trace import Mm2Trace, Pair
from mirror.model.offset_map import Run
from mirror.model.partition import TopicPartition
from tests.unit.copier.copying_in_memory import MM2, OURS, Copying
from tests.unit.copier.copying_in_memory import ORDERS as SOURCE

PAID = TopicPartition("paid", 0)
BACK = "mirror-state.west"


def stands(result: PartitionResult) -> tuple[int, int, bool]:
    """Upstream and downstream position, and whether that is all that was sent."""
    assert result.handover is not None
    return result.handover.position.upstream, result.handover.position.downstream, result.handover.clean


def lose_the_answer(copying: Copying, *values: bytes) -> None:
    """Copy records of which nobody knows afterwards: the next task has only what the state topic says."""
    copying.copy().mute()
    copying.state_log.hold()
    for value in values:
        copying.source().write(value)
    copying.world.after(0.3, lambda: copying.driver.say(Heard.SILENCE))
    copying.epoch(60.0)
    copying.copy().release()
    copying.state_log.release()
    copying.driver.told.clear()
    copying.writes_as(OURS.producer_id + 1)


# Beginning.


def test_a_new_partition_begins_at_the_start_of_the_source_which_is_recorded_first(copying: Copying) -> None:
    copying.source().write(b"0")
    copying.source().write(b"1")
    copying.source().delete_records(1)
    ends: list[int] = []
    copying.world.once(
        lambda: copying.west.in_flight(copying.pairs[SOURCE]) > 0, lambda: ends.append(copying.recorded() or 0)
    )
    result = copying.epoch()[SOURCE]
    assert ends == [1]
    assert copying.copy().values() == [b"1"]
    assert stands(result) == (2, 1, True)
    assert copying.mm2_position() == 2


def test_a_new_partition_begins_at_the_end_where_that_is_wanted(copying: Copying) -> None:
    copying.told(from_latest=True)
    copying.source().write(b"0")
    copying.world.after(0.3, partial(copying.source().write, b"1"))
    copying.epoch()
    assert copying.copy().values() == [b"1"]


def test_a_new_partition_ends_for_a_reader_of_committed_data_where_a_transaction_is_open(copying: Copying) -> None:
    copying.told(from_latest=True, read_committed=True)
    copying.source().write(b"0", producer=Producer(40, 0))
    copying.source().open[40] = 0
    result = copying.epoch(0.3)[SOURCE]
    assert stands(result)[0] == 0


def test_a_copy_that_java_mirror_maker_may_have_made_is_taken_over_first(copying: Copying) -> None:
    copying.works[SOURCE] = {"mm2": Mm2Trace(1)}
    copying.copy().write(b"0")
    copying.source().write(b"0")
    result = copying.epoch(60.0)[SOURCE]
    assert (result.was_javas, result.handover, copying.copy().values()) == (True, None, [b"0"])
    assert copying.took < 3.0, "the driver is to hear of it"


def test_a_copy_without_records_is_begun_whoever_has_a_position(copying: Copying) -> None:
    copying.works[SOURCE] = {"mm2": Mm2Trace(1)}
    copying.source().write(b"0")
    copying.epoch()
    assert copying.copy().values() == [b"0"]


def test_a_copy_whose_beginning_somebody_has_allowed_is_begun_behind_what_it_holds(copying: Copying) -> None:
    copying.works[SOURCE] = {"mm2": Mm2Trace(1)}
    copying.copy().write(b"of whoever")
    copying.source().write(b"0")
    from mirror.model.flow_state import Gap

    barrier = Gap(SOURCE, 0, 0, "nobody knows", 5, GapKind.UNKNOWN_ORIGIN, passed=False)
    copying.works[SOURCE]["gaps"] = GapPolicy(barrier=barrier, is_lifted=True)
    copying.epoch()
    assert copying.copy().values() == [b"of whoever", b"0"]


def test_a_copy_begun_behind_records_that_mirrors_alone_should_write_says_so(copying: Copying) -> None:
    """If they are copies after all, they come twice: nobody could tell."""
    copying.works[SOURCE] = {"is_watched": True}
    copying.copy().write(b"of whoever")
    copying.source().write(b"0")
    result = copying.epoch()[SOURCE]
    assert copying.copy().values() == [b"of whoever", b"0"]
    assert "east.orders-0 on west holds records from offset 0 up to 1, and nothing on record says" in result.note
    assert copying.state().takeovers[SOURCE].note == result.note
    assert copying.epoch()[SOURCE].note == "", "once"


@pytest.mark.parametrize("told", [{"is_watched": False}, {"is_watched": True}])
def test_of_a_copy_that_is_empty_or_that_others_write_to_as_well_nothing_is_said(
    copying: Copying, told: dict[str, bool]
) -> None:
    copying.works[SOURCE] = dict(told)
    if not told["is_watched"]:
        copying.copy().write(b"of an application")
    copying.source().write(b"0")
    assert copying.epoch()[SOURCE].note == ""
    assert SOURCE not in copying.state().takeovers


def test_whether_a_copy_has_records_is_asked_again_when_it_cannot_be_told(copying: Copying) -> None:
    copying.works[SOURCE] = {"mm2": Mm2Trace(1)}
    copying.copy().write(b"0")
    copying.copy().is_damaged = True
    copying.source().write(b"0")
    copying.world.after(0.5, lambda: setattr(copying.copy(), "is_damaged", False))
    result = copying.epoch(4.0)[SOURCE]
    assert result.was_javas
    assert copying.driver.troubles() != []


def test_a_partition_that_was_copied_to_another_topic_is_refused(copying: Copying) -> None:
    copying.begin()
    handover = copying.handovers[SOURCE]
    copying.handovers[SOURCE] = replace(handover, position=replace(handover.position, target="orders.copy"))
    copying.source().write(b"1")
    result = copying.epoch(60.0)[SOURCE]
    assert result.stopped is not None
    assert result.stopped.startswith("it was copied to orders.copy so far and is to be copied to east.orders now")
    assert copying.copy().values() == [b"0"]
    assert copying.took < 3.0


def test_the_driver_hears_soon_of_a_partition_that_is_put_aside_and_others_are_copied_until_then(
    copying: Copying,
) -> None:
    copying.begin()
    copying.create("paid")
    copying.works[PAID] = {"mm2": Mm2Trace(1)}
    copying.copy(PAID).write(b"0")
    copying.world.after(1.0, partial(copying.source().write, b"1"))
    assert copying.epoch(60.0)[PAID].was_javas
    assert copying.took == pytest.approx(TROUBLED_SECONDS, abs=0.3)
    assert copying.copy().values() == [b"0", b"1"]


def test_a_task_whose_driver_is_gone_does_nothing(copying: Copying, monkeypatch: pytest.MonkeyPatch) -> None:
    copying.begin()
    copying.source().write(b"1")

    def nobody(_: object) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(task, "BellListener", nobody)
    handover = copying.handovers[SOURCE]
    result = copying.epoch()[SOURCE]
    assert result.trouble == "the driver cannot be reached from its task: [Errno 111] Connection refused"
    assert (result.handover, copying.copy().values()) == (handover, [b"0"])
    assert copying.last is not None
    assert (copying.last.cpu_seconds, copying.last.wall_seconds) == (0.0, 0.0)


def test_a_task_without_partitions_ends_at_once(copying: Copying) -> None:
    copying.pairs.clear()
    assert copying.epoch(60.0) == {}
    assert copying.took == 0.0
    assert copying.driver.is_closed, "it hangs up, by which the others hear of it"


# While it is found out where to begin.


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("question", ["start", "end", "written"])
def test_whichever_end_of_a_log_is_not_told_is_asked_for_again(copying: Copying, side: str, question: str) -> None:
    log = copying.source() if side == "source" else copying.copy()
    log.not_told = question
    copying.source().write(b"0")
    copying.world.after(1.0, partial(setattr, log, "not_told", ""))
    result = copying.epoch(6.0)[SOURCE]
    assert copying.copy().values() == [b"0"]
    assert stands(result) == (1, 1, True)
    (said,) = copying.driver.troubles()
    assert ("orders-0" in said) is True
    assert ("NotLeaderForPartition" in said) is ((side, question) != ("target", "end"))


def test_others_are_copied_while_it_is_found_out_where_to_begin(copying: Copying) -> None:
    copying.begin()
    copying.create("paid")
    copying.source(PAID).write(b"0")
    copying.copy(PAID).leader = None
    copying.world.after(0.2, partial(copying.source().write, b"1"))
    copying.world.after(0.8, partial(copying.copy(PAID).elect, 2))
    seen: list[list[bytes | None]] = []
    copying.world.after(0.5, lambda: seen.append(copying.copy().values()))
    results = copying.epoch(10.0)
    assert seen == [[b"0", b"1"]]
    assert copying.copy(PAID).values() == [b"0"]
    assert copying.driver.troubles(PAID) == ["west: east.paid-0 has no leader"]
    assert copying.driver.troubles() == []
    assert (stands(results[PAID]), results[PAID].trouble) == ((1, 1, True), None)


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_cluster_that_is_away_is_told_and_asked_again(copying: Copying, side: str) -> None:
    cluster = copying.east if side == "source" else copying.west
    for broker in cluster.brokers.values():
        broker.stop()
        copying.world.after(1.0, broker.start)
    copying.source().write(b"0")
    copying.epoch(10.0)
    assert copying.copy().values() == [b"0"]
    assert any("nobody answers" in said for said in copying.driver.troubles())
    assert copying.driver.told[-1] == ({}, set())


def test_what_could_not_be_found_out_is_handed_back_with_the_reason(copying: Copying) -> None:
    copying.source().leader = None
    result = copying.epoch(1.0)[SOURCE]
    assert (result.handover, result.trouble) == (None, "east: orders-0 has no leader")
    assert copying.took < 1.5


def test_an_end_that_comes_while_it_is_found_out_waits_for_that(copying: Copying) -> None:
    """It would be interrupted again and again otherwise."""
    copying.west.latency_seconds = 0.5
    copying.source().write(b"0")
    result = copying.epoch(0.5)[SOURCE]
    assert stands(result)[2]
    assert copying.recorded() == 0
    assert 2.0 < copying.took < 10.0


def test_an_end_that_is_waited_with_costs_no_more_than_what_came_before(copying: Copying) -> None:
    copying.begin()
    copying.create("paid")
    copying.west.latency_seconds = 1.0
    copying.world.turns = 0
    copying.east.frames.clear()
    copying.epoch(0.5)
    assert copying.took > 3.0
    assert copying.world.turns < 150
    assert len(copying.east.frames) < 15 * copying.took, "the source is not asked without end either"


def test_the_others_are_copied_on_while_an_end_is_waited_with(copying: Copying) -> None:
    copying.begin()
    copying.create("paid")
    copying.west.reaching_seconds = 6.0
    copying.world.after(5.0, partial(copying.source().write, b"1"))
    seen: list[list[bytes | None]] = []
    copying.world.after(6.0, lambda: seen.append(copying.copy().values()))
    results = copying.epoch(1.0)
    assert seen == [[b"0", b"1"]]
    assert 15.0 < copying.took < 25.0
    assert stands(results[PAID]) == (0, 0, True)
    assert stands(results[SOURCE]) == (2, 2, True)


def test_an_end_is_not_waited_with_for_ever(copying: Copying) -> None:
    copying.west.reaching_seconds = 20.0
    result = copying.epoch(1.0)[SOURCE]
    assert result.handover is None
    assert copying.took == pytest.approx(30.0, abs=0.5)


def test_a_ring_while_it_is_found_out_is_not_waited_with_for_long(copying: Copying) -> None:
    copying.west.latency_seconds = 5.0
    copying.world.after(0.5, lambda: copying.driver.say(Heard.RING))
    result = copying.epoch(60.0)[SOURCE]
    assert result.handover is None
    assert copying.took == pytest.approx(2.0, abs=0.3)


def test_what_was_found_out_when_it_rings_is_written_down_before_it_is_handed_over(copying: Copying) -> None:
    copying.west.latency_seconds = copying.east.latency_seconds = 0.1
    copying.world.after(0.3, lambda: copying.driver.say(Heard.RING))
    result = copying.epoch(60.0)[SOURCE]
    assert copying.took < 2.0
    assert stands(result) == (0, 0, True)
    assert result.handover is not None
    assert (result.handover.is_recorded, copying.recorded()) == (True, 0)


def test_what_could_not_be_found_out_is_tried_again_soon_and_then_less_and_less_often(copying: Copying) -> None:
    copying.copy().leader = None
    copying.source().write(b"0")
    copying.world.after(0.1, partial(copying.copy().elect, 2))
    copying.epoch(0.8)
    assert copying.copy().values() == [b"0"]
    copying.create("paid")
    copying.copy(PAID).leader = None
    before = copying.west.asked.count("MetadataRequest")
    copying.epoch(20.0)
    assert 6 < copying.west.asked.count("MetadataRequest") - before < 25


def test_nothing_is_written_down_while_the_driver_does_not_allow_it(copying: Copying) -> None:
    copying.driver.allow(False)
    copying.source().write(b"0")
    copying.world.after(0.5, lambda: ends.append(copying.state_log.end))
    copying.world.after(0.6, lambda: copying.driver.allow(True))
    ends: list[int] = []
    copying.epoch(5.0)
    assert ends == [0]
    assert copying.copy().values() == [b"0"]
    assert copying.driver.troubles() == ["nothing is written"]


def test_what_is_found_bears_the_term_of_who_leads(copying: Copying) -> None:
    from mirror.kafka import batch
    from mirror.model.flow_state import term_of

    copying.told(term=17)
    copying.source().write(b"0")
    copying.epoch()
    terms = {term_of(each.headers) for content, _ in copying.state_log.log for each in batch.records(content)}
    assert terms == {17}
    mm2 = copying.west[TopicPartition(MM2, 0)]
    assert {each.headers for content, _ in mm2.log for each in batch.records(content)} == {()}


def test_what_was_found_before_is_written_down_before_the_first_batch(copying: Copying) -> None:
    """And its partition does not wait until others are looked up."""
    copying.begin()
    handover = copying.handovers[SOURCE]
    chunk = chunk_record(SOURCE, 0, [Run(0, 0, 1)])
    copying.handovers[SOURCE] = replace(handover, is_recorded=False, unwritten=(chunk,))
    copying.create("paid")
    copying.copy(PAID).leader = None
    copying.source().write(b"1")
    before = copying.state_log.end
    ends: list[int] = []
    copying.world.once(
        lambda: copying.west.in_flight(copying.pairs[SOURCE]) > 0, lambda: ends.append(copying.state_log.end)
    )
    copying.epoch(1.0)
    assert ends == [before + 1]
    assert copying.copy().values() == [b"0", b"1"]
    assert copying.handovers[SOURCE].is_recorded


# Going on where somebody stopped without saying how far it got.


def test_what_lies_on_the_target_already_is_not_copied_again(copying: Copying) -> None:
    copying.begin()
    lose_the_answer(copying, b"1")
    assert copying.copy().values() == [b"0", b"1"]
    copying.source().write(b"2")
    result = copying.epoch()[SOURCE]
    assert copying.copy().values() == [b"0", b"1", b"2"]
    assert (stands(result), result.skipped_by_match, result.records) == ((3, 3, True), 1, 1)
    assert copying.recorded() == 3


def test_a_tail_that_is_not_replicated_yet_is_waited_for(copying: Copying) -> None:
    copying.begin()
    lose_the_answer(copying, b"1")
    copying.copy().high = 1
    copying.world.after(3.0, lambda: setattr(copying.copy(), "high", None))
    copying.epoch(10.0)
    assert copying.copy().values() == [b"0", b"1"]
    (said,) = copying.driver.troubles()
    assert said == (
        "east.orders-0 on the target has 1 records that are not replicated yet; what was written last cannot be read "
        "before they are"
    )


def test_what_the_target_replicates_within_a_moment_is_not_even_told(copying: Copying) -> None:
    copying.begin()
    lose_the_answer(copying, b"1")
    copying.copy().high = 1
    copying.world.after(0.3, lambda: setattr(copying.copy(), "high", None))
    copying.epoch(2.0)
    assert copying.driver.troubles() == []


def long_tail(copying: Copying) -> None:
    """A tail of which a fetch brings one batch, in a while."""
    copying.begin()
    values = [b"%d" % number + b"x" * 20_000 for number in range(1, 7)]
    copying.source().write(values[0])
    copying.world.once(lambda: copying.copy().appended == 2, copying.copy().mute)
    for number, value in enumerate(values[1:]):
        copying.world.after(0.1 + number / 100, partial(copying.source().write, value))
    copying.state_log.hold()
    copying.world.after(0.5, lambda: copying.driver.say(Heard.SILENCE))
    copying.epoch(60.0)
    copying.copy().release()
    copying.west.carry_out_left()
    copying.state_log.release()
    copying.writes_as(OURS.producer_id + 1)
    copying.copy().most_bytes = 1
    copying.driver.told.clear()


def test_a_long_tail_is_matched_piece_by_piece(copying: Copying) -> None:
    long_tail(copying)
    held = copying.copy().values()
    assert len(held) == 7
    copying.west.latency_seconds = 0.4
    result = copying.epoch(20.0)[SOURCE]
    assert copying.copy().values() == held
    assert stands(result) == (7, 7, True)
    assert result.handover is not None
    assert result.handover.runs == (Run(0, 0, 7),)
    assert len(copying.driver.troubles()) > 1
    assert all(said.startswith("matching what lies on the target: at offset ") for said in copying.driver.troubles())
    assert copying.recorded() == 7


def test_a_line_so_slow_that_a_batch_takes_longer_than_a_piece_may_still_gets_on(copying: Copying) -> None:
    long_tail(copying)
    copying.west.latency_seconds = 1.2
    result = copying.epoch(25.0)[SOURCE]
    assert stands(result) == (7, 7, True)


def test_a_match_that_an_end_interrupts_goes_on_in_the_next_epoch(copying: Copying) -> None:
    long_tail(copying)
    copying.west.latency_seconds = 0.4
    copying.world.after(5.5, lambda: copying.driver.say(Heard.RING))
    first = copying.epoch(60.0)[SOURCE]
    assert 1 < stands(first)[0] < 7
    assert not stands(first)[2]
    assert first.trouble is not None
    second = copying.epoch(20.0)[SOURCE]
    assert stands(second) == (7, 7, True)
    known = copying.state().offset_map(SOURCE)
    assert known is not None
    assert list(known.runs) == [Run(0, 0, 7)]


def test_a_tail_that_is_not_the_sources_stops_the_copy(copying: Copying) -> None:
    copying.begin()
    lose_the_answer(copying, b"1")
    copying.copy().write(b"no copy", producer=OURS)
    result = copying.epoch(60.0)[SOURCE]
    assert result.stopped is not None
    assert "is not what east has behind the position 1" in result.stopped
    assert [gap.kind for gap in copying.state().gaps.values()] == [GapKind.UNMATCHED]
    assert copying.took < 3.0


def test_a_tail_that_cannot_be_read_stops_the_copy(copying: Copying) -> None:
    copying.begin()
    lose_the_answer(copying, b"1")
    damaged = bytearray(copying.copy().log[-1][0])
    damaged[-3] ^= 1
    copying.copy().log[-1] = (memoryview(damaged), copying.copy().log[-1][1])
    result = copying.epoch(60.0)[SOURCE]
    assert result.stopped is not None or result.trouble is not None


def test_what_others_have_written_behind_the_position_is_passed_over(copying: Copying) -> None:
    copying.begin()
    lose_the_answer(copying, b"1")
    copying.copy().write(b"of somebody else")
    copying.epoch()
    assert copying.copy().values() == [b"0", b"1", b"of somebody else"]
    assert copying.recorded() == 2


def test_a_batch_behind_the_position_that_java_mirror_maker_has_synced_is_its_own(copying: Copying) -> None:
    copying.begin()
    lose_the_answer(copying, b"1")
    copying.copy().write(b"java's")
    copying.works[SOURCE] = {"mm2": Mm2Trace(2, ((Pair(2, 2),),))}
    result = copying.epoch(60.0)[SOURCE]
    assert result.was_javas


def test_a_settled_position_needs_no_match(copying: Copying) -> None:
    """Nothing of ours lies behind it, whatever the producer ids say."""
    copying.begin()
    copying.copy().write(b"aborted", producer=Producer(OURS.producer_id, 0))
    handover = copying.handovers[SOURCE]
    copying.handovers[SOURCE] = replace(handover, clean=False, position=replace(handover.position, settled=True))
    copying.source().write(b"1")
    result = copying.epoch()[SOURCE]
    assert copying.copy().values() == [b"0", b"aborted", b"1"]
    assert (stands(result), result.stopped) == ((2, 3, True), None)


# What has become of the logs meanwhile.


def test_a_source_created_anew_is_copied_from_its_start_behind_a_gap(copying: Copying) -> None:
    copying.begin(b"0", b"1")
    copying.east.create("orders")
    copying.source().write(b"new")
    result = copying.epoch()[SOURCE]
    assert copying.copy().values() == [b"0", b"1", b"new"]
    assert [(gap.kind, gap.passed) for gap in copying.state().gaps.values()] == [(GapKind.RECREATED, True)]
    assert stands(result) == (1, 3, True)
    assert result.handover is not None
    assert result.handover.position.topic_id == copying.east.topic_id("orders")
    assert copying.mm2_position() == 1, "it went back before the new one was begun"


def test_whether_a_topic_is_another_one_is_asked_of_the_clusters_and_not_taken_from_the_plan(copying: Copying) -> None:
    """The plan may be some seconds old."""
    copying.begin(b"0", b"1")
    handover = copying.handovers[SOURCE]
    copying.works[SOURCE] = {"topic_id": handover.position.topic_id}
    copying.handovers[SOURCE] = replace(handover, clean=False)
    copying.east.create("orders")
    copying.source().write(b"new")
    copying.epoch()
    assert [gap.kind for gap in copying.state().gaps.values()] == [GapKind.RECREATED]
    assert copying.copy().values() == [b"0", b"1", b"new"]


def test_mm2s_position_goes_back_before_ours_does(copying: Copying) -> None:
    """One of MirrorMaker's that is ahead of ours would be taken for Java MirrorMaker's own."""
    copying.begin(b"0", b"1")
    copying.east.create("orders")
    mm2 = copying.west[TopicPartition(MM2, 0)]
    before = mm2.end
    ends: list[tuple[int, int | None]] = []
    copying.world.once(
        lambda: bool(copying.state().gaps), lambda: ends.append((mm2.end - before, copying.mm2_position()))
    )
    copying.epoch()
    assert ends == [(1, None)]


def test_a_source_that_lost_its_end_goes_back_to_where_it_parts(copying: Copying) -> None:
    copying.begin(b"0")
    copying.source().write(b"1")
    copying.epoch(0.5)
    copying.source().truncate(1)
    copying.source().write(b"another")
    first = copying.epoch(1.0)[SOURCE]
    assert first.trouble is not None or first.stopped is None
    copying.epoch(1.0)
    assert copying.copy().values() == [b"0", b"1", b"another"]
    (gap,) = copying.state().gaps.values()
    assert (gap.start, gap.end, gap.kind, gap.passed) == (1, 2, GapKind.TRUNCATED, True)
    assert copying.recorded() == 2


def test_a_source_that_lost_all_of_two_leaders_goes_back_behind_what_is_left_of_the_one_before(
    copying: Copying,
) -> None:
    copying.begin(b"0", b"1")
    for value in (b"2", b"3"):
        copying.source().elect(1)
        copying.source().write(value)
        copying.epoch(0.5)
    copying.source().truncate(2)
    copying.source().write(b"another")
    copying.handovers[SOURCE] = replace(copying.handovers[SOURCE], clean=False)
    copying.epoch(1.0)
    assert copying.copy().values() == [b"0", b"1", b"2", b"3", b"another"]
    (gap,) = copying.state().gaps.values()
    assert (gap.start, gap.end, gap.kind, gap.passed) == (2, 4, GapKind.TRUNCATED, True)


def test_which_of_the_leaders_before_is_common_is_asked_for_one_after_the_other(copying: Copying) -> None:
    """The source has one that was never read, of which it tells first."""
    copying.begin(b"0", b"1")
    copying.source().leader_epoch = 2
    copying.source().write(b"2")
    copying.epoch(0.5)
    copying.source().truncate(1)
    copying.source().leader_epoch = 1
    copying.source().write(b"another")
    copying.source().leader_epoch = 5
    copying.handovers[SOURCE] = replace(copying.handovers[SOURCE], clean=False)
    copying.epoch(1.0)
    assert copying.copy().values() == [b"0", b"1", b"2", b"another"]
    (gap,) = copying.state().gaps.values()
    assert (gap.start, gap.end, gap.kind, gap.passed) == (0, 3, GapKind.TRUNCATED, True)


def test_copies_that_are_gone_from_the_target_stop_the_copy(copying: Copying) -> None:
    copying.begin(b"0")
    copying.source().write(b"1")
    copying.epoch(0.5)
    copying.copy().truncate(1)
    handover = copying.handovers[SOURCE]
    copying.handovers[SOURCE] = replace(handover, clean=False)
    result = copying.epoch(60.0)[SOURCE]
    assert result.stopped is not None
    assert "ended at offset 1, before the position 2 recorded for it" in result.stopped
    (gap,) = copying.state().gaps.values()
    copying.works[SOURCE] = {"gaps": GapPolicy(barrier=gap, is_lifted=True)}
    again = copying.epoch()[SOURCE]
    assert (again.stopped, copying.copy().values(), copying.recorded()) == (None, [b"0", b"1"], 2)


def test_a_gap_that_was_passed_but_not_recorded_is_recorded_by_who_matches_the_tail(copying: Copying) -> None:
    copying.begin()
    copying.source().write(b"1")
    copying.source().write(b"2")
    copying.source().delete_records(3)
    handover = copying.handovers[SOURCE]
    lose_the_answer(copying, b"3")
    assert copying.copy().values() == [b"0", b"3"]
    copying.handovers[SOURCE] = replace(handover, clean=False)
    result = copying.epoch()[SOURCE]
    assert copying.copy().values() == [b"0", b"3"]
    (gap,) = copying.state().gaps.values()
    assert (gap.start, gap.end, gap.kind, gap.passed) == (1, 3, GapKind.RETENTION, True)
    assert (stands(result), result.stopped) == ((4, 2, True), None)


def test_an_offset_map_that_is_lost_on_the_way_is_read_from_the_state_topic(copying: Copying) -> None:
    copying.begin(b"0", b"1")
    copying.west.create("east.orders")
    copying.copy().write(b"of somebody else")
    result = copying.epoch(60.0)[SOURCE]
    assert result.stopped is not None
    assert "was deleted and created anew; 2 copies of orders-0's records are gone" in result.stopped


# What is left out, and what was learned.


def test_what_other_flows_have_mirrored_into_the_source_is_left_out_of_a_match_too(copying: Copying) -> None:
    copying.east.create(BACK)
    key, value = writer_record(40, 0)
    log = copying.east[TopicPartition(BACK, 0)]
    from mirror.kafka import batch
    from mirror.kafka.batch import Record

    log.put(bytes(batch.encode([Record(0, 5, key, value, (), -1)], 0, batch.PLAIN, -1)))
    copying.works[SOURCE] = {"left_out": (BACK,)}
    copying.begin()
    copying.source().write(b"mirrored", producer=Producer(40, 0))
    lose_the_answer(copying, b"1")
    result = copying.epoch()[SOURCE]
    assert copying.copy().values() == [b"0", b"1"]
    assert result.handover is not None
    assert (stands(result), result.handover.position.left_out) == ((3, 2, True), 1)


def test_what_cannot_be_told_to_be_left_out_waits(copying: Copying) -> None:
    copying.east.create(BACK)
    copying.works[SOURCE] = {"left_out": (BACK,)}
    copying.begin()
    copying.east[TopicPartition(BACK, 0)].leader = None
    copying.source().write(b"1", producer=Producer(40, 0))
    copying.world.after(2.0, partial(copying.east[TopicPartition(BACK, 0)].elect, 1))
    seen: list[list[bytes | None]] = []
    copying.world.after(1.5, lambda: seen.append(copying.copy().values()))
    copying.epoch(8.0)
    assert seen == [[b"0"]]
    assert copying.copy().values() == [b"0", b"1"]
    assert any(
        "whether the batches of producer id 40 were mirrored there" in said for said in copying.driver.troubles()
    )
    assert copying.driver.told[-1] == ({}, set())


def test_how_large_a_joined_batch_may_be_is_kept_from_one_epoch_to_the_next(copying: Copying) -> None:
    copying.begin()
    copying.copy().limit = 5_000
    copying.copy().hold()

    def epoch(first: int) -> int:
        for number in range(first, first + 12):
            copying.world.after(0.1 + number / 1000, partial(copying.source().write, b"x" * 1_000))
        copying.world.after(0.5, copying.copy().release)
        before = copying.copy().refused
        copying.epoch()
        return copying.copy().refused - before

    assert epoch(1) > 0
    copying.copy().hold()
    assert epoch(1) == 0
    assert len(copying.copy().values()) == 25


def test_a_partition_that_was_not_reached_says_nothing_of_its_sequence(copying: Copying) -> None:
    copying.source().leader = None
    result = copying.epoch(0.5)[SOURCE]
    assert (result.sequence, result.may_arrive_late) == (None, False)


def test_what_is_handed_over_has_the_time_it_took(copying: Copying) -> None:
    copying.epoch(1.0)
    assert copying.last is not None
    assert copying.last.wall_seconds == pytest.approx(1.0, abs=0.1)
    assert 0.0 <= copying.last.cpu_seconds < 60.0
