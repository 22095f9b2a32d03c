"""The copy loop where records and positions are written in transactions: where that differs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from mirror.copier.epoch_channel import Signal
from mirror.copier.loop import GRACE_SECONDS
from mirror.copier.work import SlotEnd
from mirror.kafka import batch
from mirror.model.partition import TopicPartition
from tests.flows import EAST_WEST
from tests.unit.copier.copying_in_memory import MM2, ORDERS, PAID, SYNCS, Copying, slot, stands, taken_over

TIMED_OUT, NO_COORDINATOR, NOT_COORDINATOR, TOO_FEW_REPLICAS, INVALID_EPOCH, CONCURRENT = 7, 15, 16, 19, 47, 51


@pytest.fixture
def exact(copying: Copying) -> Copying:
    """A flow in transactions whose partition is copied up to its first record."""
    copying.told(slot=slot(), producer=None)
    copying.begin()
    copying.west.coordinator.asked.clear()
    return copying


def left(copying: Copying) -> SlotEnd:
    """How the slot is left."""
    assert copying.last is not None
    return copying.last.slots[EAST_WEST]


def test_records_and_positions_are_committed_together(exact: Copying) -> None:
    committed: list[tuple[int | None, int | None]] = []
    asked = exact.west.coordinator.asked
    exact.world.once(lambda: "commit" in asked, lambda: committed.append((exact.recorded(), exact.mm2_position())))
    exact.source().write(b"1")
    result = exact.epoch()[ORDERS]
    assert exact.copy().values() == [b"0", b"1"]
    assert committed == [(2, 2)], "they are written before it is committed"
    assert asked == ["add", "commit"]
    assert stands(result) == (2, True)
    assert result.handover is not None
    assert result.handover.position.atomic
    assert left(exact).lost is None
    kinds = {header.is_transactional for _, header in exact.copy().log if not header.is_control}
    assert kinds == {True}


def test_sequences_go_on_from_one_epoch_to_the_next(exact: Copying) -> None:
    exact.source().write(b"1", b"2")
    exact.epoch()
    assert left(exact).sequences[exact.pairs[ORDERS]] == 3
    exact.source().write(b"3")
    exact.epoch()
    assert exact.copy().values() == [b"0", b"1", b"2", b"3"]


def test_the_connection_to_the_coordinator_is_used_by_the_next_epoch(exact: Copying) -> None:
    lines = set(exact.west.lines())
    exact.source().write(b"1")
    exact.epoch()
    assert set(exact.west.lines()) == lines


def test_transactions_follow_one_another_while_records_come_in(exact: Copying) -> None:
    for number in range(1, 9):
        exact.world.after(0.2 * number, partial(exact.source().write, b"%d" % number))
    exact.epoch(2.5)
    assert exact.copy().values() == [b"%d" % number for number in range(9)]
    assert exact.west.coordinator.asked.count("commit") >= 3
    assert exact.recorded() == 9


def test_a_first_position_is_part_of_the_first_transaction(copying: Copying) -> None:
    """A fenced task could add it otherwise."""
    copying.told(slot=slot(), producer=None)
    copying.source().write(b"0")
    copying.epoch()
    assert all(header.is_transactional for _, header in copying.state_log.log)
    assert copying.recorded() == 1


def test_a_first_position_is_committed_although_there_is_nothing_to_copy(copying: Copying) -> None:
    copying.told(slot=slot(), producer=None)
    result = copying.epoch()[ORDERS]
    assert (stands(result), copying.recorded()) == ((0, True), 0)


def test_a_flow_that_writes_in_transactions_no_longer_does_not_say_that_it_does(exact: Copying) -> None:
    """Whatever lay behind the position was of an aborted transaction; what comes now is not."""
    handover = exact.handovers[ORDERS]
    assert handover.position.atomic
    exact.handovers[ORDERS] = replace(handover, clean=False)
    exact.told(slot=None)
    exact.writes_as(8)
    exact.epoch()
    assert not exact.state().positions[ORDERS].atomic


def test_a_partition_without_a_leader_is_looked_up_again_in_transactions_too(copying: Copying) -> None:
    copying.told(slot=slot(), producer=None)
    copying.copy().leader = None
    copying.source().write(b"0")
    copying.world.after(0.5, partial(copying.copy().elect, 2))
    result = copying.epoch(4.0)[ORDERS]
    assert copying.copy().committed() == [b"0"]
    assert (stands(result), copying.recorded()) == ((1, True), 1)


def test_a_ring_commits_what_was_sent(exact: Copying) -> None:
    assert exact.flow.slot is not None
    exact.told(slot=replace(exact.flow.slot, seconds=30.0, idle_seconds=None))
    exact.source().write(b"1")
    exact.world.once(lambda: exact.copy().end == 3, lambda: exact.driver.say(Signal.END))
    result = exact.epoch(60.0)[ORDERS]
    assert (stands(result), exact.recorded()) == ((2, True), 2)
    assert exact.took < 1.0


def test_a_ring_before_anything_was_sent_still_gets_something_across(exact: Copying) -> None:
    """An epoch that is short for what a fetch brings would otherwise never get anywhere."""
    exact.source().write(b"1")
    exact.world.once(lambda: "add" in exact.west.coordinator.asked, lambda: exact.driver.say(Signal.END))
    result = exact.epoch(60.0)[ORDERS]
    assert stands(result) == (2, True)
    assert exact.took < 1.0


@pytest.mark.parametrize("phase", ["add", "commit"])
def test_a_connection_to_the_coordinator_that_breaks_is_opened_again(exact: Copying, phase: str) -> None:
    exact.west.coordinator.is_silent = True
    coordinating = exact.west.lines(1)

    def break_off() -> None:
        for line in coordinating:
            if any(asked.key in (24, 26) for asked in line.requests):
                line.cut()
        exact.west.coordinator.is_silent = False

    if phase == "commit":
        exact.west.coordinator.is_silent = False
        exact.world.once(lambda: exact.state_log.end > 2, partial(setattr, exact.west.coordinator, "is_silent", True))
    exact.source().write(b"1")
    exact.world.after(0.5, break_off)
    result = exact.epoch(2.0)[ORDERS]
    assert exact.copy().values() == [b"0", b"1"]
    assert (stands(result), left(exact).lost, exact.recorded()) == ((2, True), None, 2)


def test_a_coordinator_that_has_moved_is_found(exact: Copying) -> None:
    exact.west.coordinator.node = 2
    exact.west.coordinator.added_with = [NOT_COORDINATOR]
    exact.source().write(b"1")
    result = exact.epoch(2.0)[ORDERS]
    assert (stands(result), left(exact).lost) == ((2, True), None)
    assert (2, 24) in exact.west.frames


def test_a_coordinator_that_cannot_be_reached_is_told_and_found_when_it_is_back(exact: Copying) -> None:
    exact.west.coordinator.node = 2
    exact.west.brokers[2].stop()
    exact.west.coordinator.added_with = [NOT_COORDINATOR]
    exact.world.after(1.0, exact.west.brokers[2].start)
    exact.source().write(b"1")
    result = exact.epoch(4.0)[ORDERS]
    assert (stands(result), left(exact).lost) == ((2, True), None)
    assert any("nobody answers" in said for said in exact.driver.troubles())
    assert exact.driver.told[-1] == ({}, set())


def test_a_cluster_without_a_coordinator_for_now_is_asked_again(exact: Copying) -> None:
    exact.west.coordinator.found_with = [NO_COORDINATOR, NO_COORDINATOR]
    exact.source().write(b"1")
    result = exact.epoch(2.0)[ORDERS]
    assert (stands(result), left(exact).lost) == ((2, True), None)
    assert exact.west.coordinator.found_with == []


def test_a_target_that_is_away_for_a_while_is_told_and_loses_nothing(exact: Copying) -> None:
    for broker in exact.west.brokers.values():
        exact.world.after(0.1, broker.stop)
        exact.world.after(1.0, broker.start)
    exact.world.after(0.2, partial(exact.source().write, b"1"))
    result = exact.epoch(6.0)[ORDERS]
    assert (stands(result), left(exact).lost) == ((2, True), None)
    assert any("nobody answers" in said for said in exact.driver.troubles())
    assert exact.driver.told[-1] == ({}, set())


def test_a_commit_that_is_refused_loses_the_slot_and_counts_nothing(exact: Copying) -> None:
    exact.west.coordinator.ended_with = [INVALID_EPOCH]
    exact.source().write(b"1")
    result = exact.epoch(60.0)[ORDERS]
    lost = left(exact)
    assert lost.lost is not None
    assert "InvalidProducerEpoch" in lost.lost
    assert not lost.is_stuck, "another has taken it over"
    assert stands(result) == (1, False)
    assert exact.took < 1.0


def test_what_was_lost_with_a_transaction_is_copied_by_the_next_epoch_without_looking_for_it(exact: Copying) -> None:
    """Positions were committed with their records: nothing behind them counts."""
    exact.west.coordinator.ended_with = [INVALID_EPOCH]
    exact.source().write(b"1")
    exact.epoch(60.0)
    taken_over(exact)
    result = exact.epoch()[ORDERS]
    assert (stands(result), result.skipped_by_match, left(exact).lost) == ((2, True), 0, None)
    assert exact.copy().committed() == [b"0", b"1"]


def test_a_commit_that_is_not_answered_is_not_waited_for_for_ever(exact: Copying) -> None:
    exact.world.once(lambda: exact.copy().end > 2, partial(setattr, exact.west.coordinator, "is_silent", True))
    exact.source().write(b"1")
    result = exact.epoch(1.0)[ORDERS]
    assert exact.took == pytest.approx(1.0 + GRACE_SECONDS, abs=0.2)
    assert stands(result) == (1, False)
    assert left(exact).lost is not None
    assert left(exact).is_stuck


def test_a_partition_that_does_not_answer_is_not_waited_for_for_ever(exact: Copying) -> None:
    exact.create("paid")
    exact.epoch(0.5)
    exact.copy(PAID).hold()
    for source in exact.pairs:
        exact.source(source).write(b"1")
    exact.epoch(30.0)
    lost = left(exact)
    assert lost.lost is not None
    assert lost.is_stuck
    assert exact.took < 15.0
    exact.copy(PAID).release()
    taken_over(exact)
    exact.epoch()
    assert exact.copy().committed() == [b"0", b"1"]
    assert exact.copy(PAID).committed() == [b"1"]


def test_what_is_unsure_when_the_epoch_is_to_end_is_sent_again_so_that_the_transaction_can_be_committed(
    exact: Copying,
) -> None:
    assert exact.flow.slot is not None
    exact.told(slot=replace(exact.flow.slot, patience_seconds=10.0))
    exact.copy().refuse(TIMED_OUT)
    exact.source().write(b"1")
    exact.world.after(3.0, lambda: exact.driver.say(Signal.END))
    exact.world.after(3.5, partial(exact.copy().refuse, 0))
    result = exact.epoch(60.0)[ORDERS]
    assert (stands(result), left(exact).lost) == ((2, True), None)
    assert exact.took < 6.0


def test_a_partition_without_enough_replicas_holds_up_no_other(exact: Copying) -> None:
    exact.create("paid")
    exact.epoch(0.5)
    exact.copy(PAID).refuse(TOO_FEW_REPLICAS)
    for source in exact.pairs:
        exact.source(source).write(b"1")
    results = exact.epoch(4.0)
    assert exact.copy().committed() == [b"0", b"1"]
    assert (stands(results[ORDERS]), left(exact).lost) == ((2, True), None)
    assert results[PAID].trouble == "the target answers NotEnoughReplicas as the test wants"
    assert exact.driver.troubles() == []


def test_the_last_transaction_of_an_id_that_does_not_end_is_waited_for_for_a_while(exact: Copying) -> None:
    exact.west.coordinator.added_with = [CONCURRENT] * 5
    exact.source().write(b"1")
    result = exact.epoch()[ORDERS]
    assert (stands(result), left(exact).lost) == ((2, True), None)
    assert exact.driver.troubles() == []


def test_a_position_that_moved_without_records_is_committed_too(exact: Copying) -> None:
    """Markers of the source take offsets."""
    exact.source().mark(replace(slot().producer, producer_id=40))
    result = exact.epoch()[ORDERS]
    assert (stands(result), exact.recorded()) == ((2, True), 2)


def test_offset_syncs_are_of_what_is_committed(exact: Copying) -> None:
    syncs = exact.east[TopicPartition(SYNCS, 0)]
    exact.world.once(lambda: exact.copy().end > 2, partial(setattr, exact.west.coordinator, "is_silent", True))
    seen: list[list[tuple[int, int]]] = []
    exact.world.after(0.6, lambda: seen.append(exact.syncs()))
    exact.world.after(0.7, partial(setattr, exact.west.coordinator, "is_silent", False))
    exact.source().write(b"1")
    exact.epoch(2.0)
    assert seen == [[(0, 0)]]
    assert exact.syncs() == [(0, 0), (1, 2)]
    assert not any(header.is_transactional for _, header in syncs.log)


def test_what_others_write_into_a_copy_at_rest_is_not_asked_for(exact: Copying) -> None:
    exact.west.asked.clear()
    exact.epoch(4.0)
    assert "ListOffsetsRequest" not in exact.west.asked


def test_the_markers_of_commits_are_no_others(exact: Copying) -> None:
    exact.works[ORDERS] = {"is_watched": True}
    for number in range(1, 5):
        exact.world.after(0.3 * number, partial(exact.source().write, b"%d" % number))
    result = exact.epoch(2.0)[ORDERS]
    assert result.foreign == ()
    exact.copy().write(b"of somebody else")
    exact.source().write(b"5")
    assert len(exact.epoch(1.0)[ORDERS].foreign) == 1


def test_mm2s_positions_are_part_of_the_transaction(exact: Copying) -> None:
    exact.source().write(b"1")
    exact.epoch()
    log = exact.west[TopicPartition(MM2, 0)].log
    assert all(header.is_transactional or header.is_control for _, header in log)
    assert len([each for content, header in log if not header.is_control for each in batch.records(content)]) == 2
