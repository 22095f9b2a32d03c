"""A copy task with clusters in memory: where it begins with a partition, what it writes down before, what it hands back."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from mirror.copier import task
from mirror.copier.epoch_channel import Signal
from mirror.copier.loop import TROUBLED_SECONDS
from mirror.copier.work import GapPolicy
from mirror.kafka import batch
from mirror.kafka.batch import Producer
from mirror.model.gap import Gap, GapKind
from mirror.model.mm2_trace import Mm2Trace
from mirror.model.offset_map import Run
from mirror.model.partition import TopicPartition
from mirror.model.state_record import epoch_of, term_of
from mirror.model.state_values import chunk_record
from tests.flows import EAST_WEST
from tests.unit.copier.copying_in_memory import MM2, ORDERS, PAID, Copying, both_positions

# Beginning.


def test_a_new_partition_begins_at_the_start_of_the_source_which_is_recorded_first(copying: Copying) -> None:
    copying.source().write(b"0")
    copying.source().write(b"1")
    copying.source().delete_records(1)
    ends: list[int] = []
    copying.world.once(
        lambda: copying.west.in_flight(copying.pairs[ORDERS]) > 0, lambda: ends.append(copying.recorded() or 0)
    )
    result = copying.epoch()[ORDERS]
    assert ends == [1]
    assert copying.copy().values() == [b"1"]
    assert both_positions(result) == (2, 1, True)
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
    result = copying.epoch(0.3)[ORDERS]
    assert both_positions(result)[0] == 0


def test_a_copy_that_java_mirror_maker_may_have_made_is_taken_over_first(copying: Copying) -> None:
    copying.works[ORDERS] = {"mm2": Mm2Trace(1)}
    copying.copy().write(b"0")
    copying.source().write(b"0")
    result = copying.epoch(60.0)[ORDERS]
    assert (result.written_by_mm2, result.handover, copying.copy().values()) == (True, None, [b"0"])
    assert copying.took < 1.0, "nothing else is to be copied"


def test_a_copy_without_records_is_begun_whoever_has_a_position(copying: Copying) -> None:
    copying.works[ORDERS] = {"mm2": Mm2Trace(1)}
    copying.source().write(b"0")
    copying.epoch()
    assert copying.copy().values() == [b"0"]


def test_a_copy_whose_beginning_somebody_has_allowed_is_begun_behind_what_it_holds(copying: Copying) -> None:
    copying.works[ORDERS] = {"mm2": Mm2Trace(1)}
    copying.copy().write(b"of whoever")
    copying.source().write(b"0")
    barrier = Gap(ORDERS, 0, 0, "nobody knows", 5, GapKind.UNKNOWN_ORIGIN, passed=False)
    copying.works[ORDERS]["gaps"] = GapPolicy(barrier=barrier, is_lifted=True)
    copying.epoch()
    assert copying.copy().values() == [b"of whoever", b"0"]


def test_a_copy_begun_behind_records_that_mirrors_alone_should_write_says_so(copying: Copying) -> None:
    """If they are copies after all, they come twice: nobody could tell."""
    copying.works[ORDERS] = {"is_watched": True}
    copying.copy().write(b"of whoever")
    copying.source().write(b"0")
    result = copying.epoch()[ORDERS]
    assert copying.copy().values() == [b"of whoever", b"0"]
    assert "east.orders-0 on west holds records from offset 0 up to 1, and nothing on record says" in result.note
    assert copying.state().takeovers[ORDERS].note == result.note
    assert copying.epoch()[ORDERS].note == "", "once"


@pytest.mark.parametrize("told", [{"is_watched": False}, {"is_watched": True}])
def test_of_a_copy_that_is_empty_or_that_others_write_to_as_well_nothing_is_said(
    copying: Copying, told: dict[str, bool]
) -> None:
    copying.works[ORDERS] = dict(told)
    if not told["is_watched"]:
        copying.copy().write(b"of an application")
    copying.source().write(b"0")
    assert copying.epoch()[ORDERS].note == ""
    assert ORDERS not in copying.state().takeovers


def test_whether_a_copy_has_records_is_asked_again_when_it_cannot_be_told(copying: Copying) -> None:
    copying.works[ORDERS] = {"mm2": Mm2Trace(1)}
    copying.copy().write(b"0")
    copying.copy().is_damaged = True
    copying.source().write(b"0")
    copying.world.after(0.5, lambda: setattr(copying.copy(), "is_damaged", False))
    result = copying.epoch(4.0)[ORDERS]
    assert result.written_by_mm2
    assert copying.driver.troubles() != []


def test_a_partition_that_was_copied_to_another_topic_is_refused(copying: Copying) -> None:
    copying.begin()
    handover = copying.handovers[ORDERS]
    copying.handovers[ORDERS] = replace(handover, position=replace(handover.position, target="orders.copy"))
    copying.source().write(b"1")
    result = copying.epoch(60.0)[ORDERS]
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
    assert copying.epoch(60.0)[PAID].written_by_mm2
    assert copying.took == pytest.approx(TROUBLED_SECONDS, abs=0.3)
    assert copying.copy().values() == [b"0", b"1"]


def test_a_task_whose_driver_is_gone_does_nothing(copying: Copying, monkeypatch: pytest.MonkeyPatch) -> None:
    copying.begin()
    copying.source().write(b"1")

    def nobody(_: object) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(task.EpochChannelListener, "answered", nobody)
    handover = copying.handovers[ORDERS]
    result = copying.epoch()[ORDERS]
    assert result.trouble == "the driver cannot be reached from its task: [Errno 111] Connection refused"
    assert (result.handover, copying.copy().values()) == (handover, [b"0"])


def test_a_task_without_partitions_ends_at_once(copying: Copying) -> None:
    copying.pairs.clear()
    assert copying.epoch(60.0) == {}
    assert copying.took == 0.0
    assert copying.driver.is_closed, "it hangs up, by which the others hear of it"


# While it is found out where to begin.


def test_who_leads_what_is_found_out_meanwhile(copying: Copying) -> None:
    """Nothing is asked any more between the look-up and the first batch."""
    copying.source().write(b"0")
    asked: list[int] = []

    def count() -> None:
        asked.append(len(copying.east.asked + copying.west.asked))

    copying.world.once(lambda: copying.state_log.end > 0, count)
    copying.world.once(lambda: copying.copy().end > 0, count)
    copying.epoch()
    assert len(asked) == 2
    assert asked[0] == asked[1]


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("question", ["start", "end", "written"])
def test_whichever_end_of_a_log_is_not_told_is_asked_for_again(copying: Copying, side: str, question: str) -> None:
    log = copying.source() if side == "source" else copying.copy()
    log.not_told = question
    copying.source().write(b"0")
    copying.world.after(1.0, partial(setattr, log, "not_told", ""))
    result = copying.epoch(6.0)[ORDERS]
    assert copying.copy().values() == [b"0"]
    assert both_positions(result) == (1, 1, True)
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
    assert (both_positions(results[PAID]), results[PAID].trouble) == ((1, 1, True), None)


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


def test_how_much_is_copied_is_told_once_a_second_if_the_driver_asks_for_that(copying: Copying) -> None:
    """Up to now; also if nothing has come since, for what was on its way has arrived."""
    copying.begin()
    copying.world.after(0.5, partial(copying.source().write, b"1", b"2"))
    copying.world.after(2.5, partial(copying.source().write, b"3"))
    result = copying.epoch(5.0, reports_copied=True)[ORDERS]
    told = [news[EAST_WEST, ORDERS] for news in copying.driver.copied]
    assert [each.records for each in told] == [2, 3]
    assert (told[-1].bytes, told[-1].waiting) == (result.bytes, None)
    assert [(each.read.count, each.acknowledged.count) for each in told] == [(2, 2), (1, 1)]
    copying.source().write(b"4")
    copying.epoch(3.0)
    assert len(copying.driver.copied) == 2, "nobody has asked"


def test_what_could_not_be_found_out_is_handed_back_with_the_reason(copying: Copying) -> None:
    copying.source().leader = None
    result = copying.epoch(1.0)[ORDERS]
    assert (result.handover, result.trouble) == (None, "east: orders-0 has no leader")
    assert copying.took < 1.5


def test_an_end_that_comes_while_it_is_found_out_waits_for_that(copying: Copying) -> None:
    """It would be interrupted again and again otherwise."""
    copying.west.latency_seconds = 0.5
    copying.source().write(b"0")
    result = copying.epoch(0.5)[ORDERS]
    assert both_positions(result)[2]
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
    assert both_positions(results[PAID]) == (0, 0, True)
    assert both_positions(results[ORDERS]) == (2, 2, True)


def test_an_end_is_not_waited_with_for_ever(copying: Copying) -> None:
    copying.west.reaching_seconds = 20.0
    result = copying.epoch(1.0)[ORDERS]
    assert result.handover is None
    assert copying.took == pytest.approx(30.0, abs=0.5)


def test_a_ring_while_it_is_found_out_is_not_waited_with_for_long(copying: Copying) -> None:
    copying.west.latency_seconds = 5.0
    copying.world.after(0.5, lambda: copying.driver.say(Signal.END))
    result = copying.epoch(60.0)[ORDERS]
    assert result.handover is None
    assert copying.took == pytest.approx(2.0, abs=0.3)


def test_what_was_found_out_when_the_epoch_is_to_end_is_written_down_before_it_is_handed_over(copying: Copying) -> None:
    copying.west.latency_seconds = copying.east.latency_seconds = 0.1
    copying.world.after(0.3, lambda: copying.driver.say(Signal.END))
    result = copying.epoch(60.0)[ORDERS]
    assert copying.took < 2.0
    assert both_positions(result) == (0, 0, True)
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
    copying.told(term=17, epoch=3)
    copying.source().write(b"0")
    copying.epoch()
    said = [each.headers for content, _ in copying.state_log.log for each in batch.records(content)]
    assert {(term_of(headers), epoch_of(headers)) for headers in said} == {(17, 3)}
    mm2 = copying.west[TopicPartition(MM2, 0)]
    assert {each.headers for content, _ in mm2.log for each in batch.records(content)} == {()}


def test_what_was_found_before_is_written_down_before_the_first_batch(copying: Copying) -> None:
    """And its partition does not wait until others are looked up."""
    copying.begin()
    handover = copying.handovers[ORDERS]
    chunk = chunk_record(ORDERS, 0, [Run(0, 0, 1)])
    copying.handovers[ORDERS] = replace(handover, is_recorded=False, unwritten=(chunk,))
    copying.create("paid")
    copying.copy(PAID).leader = None
    copying.source().write(b"1")
    before = copying.state_log.end
    ends: list[int] = []
    copying.world.once(
        lambda: copying.west.in_flight(copying.pairs[ORDERS]) > 0, lambda: ends.append(copying.state_log.end)
    )
    copying.epoch(1.0)
    assert ends == [before + 1]
    assert copying.copy().values() == [b"0", b"1"]
    assert copying.handovers[ORDERS].is_recorded
