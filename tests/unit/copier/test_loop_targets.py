"""The copy loop when target brokers fail, refuse, move, or are silent: who needs them waits, and nobody else."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from mirror.copier import task
from mirror.copier.epoch_channel import Signal
from mirror.copier.loop import TROUBLED_SECONDS
from mirror.kafka import codes
from mirror.kafka.versions import FETCH, PRODUCE
from mirror.model.flow import Flow
from mirror.model.gap import GapKind
from mirror.model.partition import TopicPartition
from tests.flows import EAST_WEST
from tests.unit.copier.clusters_in_memory import MemoryCluster
from tests.unit.copier.copying_in_memory import MM2, ORDERS, PAID, PARKED, STATE, Copying, stands

UNKNOWN, CORRUPT, TIMED_OUT, TOO_FEW_REPLICAS, DENIED, INVALID_RECORD = -1, 2, 7, 19, 29, 87
SESSION_NOT_FOUND = 70


@pytest.mark.parametrize("is_appended", [True, False], ids=["behind the append", "before the append"])
def test_a_connection_lost_between_send_and_answer_doubles_nothing(copying: Copying, is_appended: bool) -> None:
    copying.begin()
    (line,) = copying.west.lines(1)
    copying.copy().mute() if is_appended else copying.copy().hold()
    copying.source().write(b"1", b"2")

    def break_off() -> None:
        line.cut()
        copying.copy().release()

    copying.world.once(
        lambda: copying.west.in_flight(copying.pairs[ORDERS]) > 0, partial(copying.world.after, 0.05, break_off)
    )
    result = copying.epoch()[ORDERS]
    assert copying.copy().values() == [b"0", b"1", b"2"]
    assert (stands(result), result.trouble, result.sequence) == ((3, True), None, 3)
    assert line not in copying.west.lines()


def test_a_connection_lost_with_five_requests_in_flight_sends_them_again_in_order(copying: Copying) -> None:
    copying.begin()
    (line,) = copying.west.lines(1)
    values = [b"%d" % number + b"x" * 20_000 for number in range(6)]
    copying.source().write(values[0])
    copying.world.once(lambda: copying.copy().appended == 2, copying.copy().mute)
    for number in range(1, 6):
        copying.world.after(0.1 + number / 500, partial(copying.source().write, values[number]))

    def break_off() -> None:
        line.cut()
        copying.copy().release()

    copying.world.after(0.3, break_off)
    result = copying.epoch()[ORDERS]
    assert copying.copy().values() == [b"0", *values]
    assert stands(result) == (7, True)


def test_a_partition_whose_leader_moves_goes_on_at_the_next_one(copying: Copying) -> None:
    copying.begin()
    copying.world.after(0.2, partial(copying.source().elect, 2))
    copying.world.after(0.2, partial(copying.copy().elect, 2))
    copying.world.after(0.3, partial(copying.source().write, b"1"))
    result = copying.epoch(2.0)[ORDERS]
    assert copying.copy().values() == [b"0", b"1"]
    assert stands(result) == (2, True)
    assert (2, PRODUCE.key) in copying.west.frames
    assert (2, FETCH.key) in copying.east.frames
    assert copying.driver.troubles() == [] or copying.driver.told[-1] == ({}, set())


def test_a_partition_without_a_leader_is_told_and_copied_when_it_has_one(two: Copying) -> None:
    two.world.after(0.1, partial(two.copy().elect, None))
    two.world.after(0.2, partial(two.source().write, b"1"))
    two.world.after(0.2, partial(two.source(PAID).write, b"1"))
    two.world.after(1.5, partial(two.copy().elect, 2))
    two.epoch(4.0)
    assert two.copy().values() == two.copy(PAID).values() == [b"0", b"1"]
    assert "west: east.orders-0 has no leader" in two.driver.troubles()
    assert two.driver.troubles(PAID) == []
    assert two.driver.told[-1] == ({}, set())


def test_a_source_partition_without_a_leader_is_told_and_read_when_it_has_one(two: Copying) -> None:
    two.world.after(0.1, partial(two.source().elect, None))
    two.world.after(0.2, partial(two.source(PAID).write, b"1"))
    two.world.after(1.5, partial(two.source().elect, 2))
    two.world.after(1.6, partial(two.source().write, b"1"))
    two.epoch(5.0)
    assert two.copy().values() == two.copy(PAID).values() == [b"0", b"1"]
    assert "east: orders-0 has no leader" in two.driver.troubles()
    assert two.driver.troubles(PAID) == []


def test_an_idle_partition_is_in_no_trouble_any_more_when_its_leader_is_back(copying: Copying) -> None:
    copying.begin()
    copying.world.after(0.1, partial(copying.copy().elect, None))
    for line in copying.west.lines(1):
        copying.world.after(0.1, line.cut)
    copying.world.after(1.0, partial(copying.copy().elect, 2))
    copying.epoch(4.0)
    assert "west: east.orders-0 has no leader" in copying.driver.troubles()
    assert copying.driver.told[-1] == ({}, set())


def test_what_the_target_refuses_for_good_stops_its_partition_and_no_other(two: Copying) -> None:
    two.copy().refuse(INVALID_RECORD)
    for source in two.pairs:
        two.source(source).write(b"1")
    results = two.epoch(60.0)
    assert two.copy(PAID).values() == [b"0", b"1"]
    assert results[ORDERS].stopped == (
        "the target refuses the batch behind upstream offset 1: InvalidRecord as the test wants"
    )
    assert stands(results[ORDERS]) == (1, True)
    assert (results[PAID].stopped, results[PAID].trouble) == (None, None)
    assert two.took == pytest.approx(TROUBLED_SECONDS, abs=0.3), "somebody is to hear of it"


def test_a_sick_partition_holds_up_no_other_and_recovers(two: Copying) -> None:
    two.copy().refuse(TOO_FEW_REPLICAS)
    for number in range(1, 6):
        two.world.after(0.1 * number, partial(two.source().write, b"%d" % number))
        two.world.after(0.1 * number, partial(two.source(PAID).write, b"%d" % number))
    seen: list[list[bytes | None]] = []
    two.world.after(0.7, lambda: seen.append(two.copy(PAID).values()))
    two.world.after(1.0, partial(two.copy().refuse, 0))
    results = two.epoch(4.0)
    assert seen == [[b"%d" % number for number in range(6)]]
    assert two.copy().values() == seen[0]
    assert stands(results[ORDERS]) == (6, True)
    assert two.driver.troubles() == ["the target answers NotEnoughReplicas as the test wants"]
    assert two.driver.troubles(PAID) == []
    assert two.driver.told[-1] == ({}, set())


def test_a_partition_that_stays_sick_is_handed_over_at_the_end_without_holding_it_up(two: Copying) -> None:
    two.copy().refuse(TOO_FEW_REPLICAS)
    for source in two.pairs:
        two.source(source).write(b"1")
    results = two.epoch(3.0)
    assert stands(results[ORDERS]) == (1, True), "nothing of it was appended"
    assert results[ORDERS].trouble == "the target answers NotEnoughReplicas as the test wants"
    assert (stands(results[PAID]), results[PAID].trouble) == ((2, True), None)
    assert two.took < 3.5


def test_one_whose_append_is_unsure_is_not_clean_and_waits_over_a_connection_of_its_own(two: Copying) -> None:
    two.copy().refuse(TIMED_OUT)
    two.source().write(b"1")
    before = len(two.west.lines())
    seen: list[int] = []
    two.world.after(1.0, lambda: seen.append(len(two.west.lines())))
    results = two.epoch(2.0)
    assert seen == [before + 1]
    assert stands(results[ORDERS]) == (1, False)
    assert results[ORDERS].may_arrive_late
    assert two.took < 2.0 + 3.0
    two.copy().refuse(0)
    two.writes_as(8)
    two.epoch()
    assert two.copy().values() == [b"0", b"1"]


def test_one_that_does_not_answer_does_not_keep_those_with_other_replicas_waiting(two: Copying) -> None:
    two.copy().hold()
    two.source().write(b"1")
    two.world.after(0.2, partial(two.source(PAID).write, b"1"))
    seen: list[list[bytes | None]] = []
    two.world.after(0.4, lambda: seen.append(two.copy(PAID).values()))
    two.world.after(0.6, two.copy().release)
    two.epoch()
    assert seen == [[b"0", b"1"]]
    assert two.copy().values() == [b"0", b"1"]


def test_a_target_that_is_away_for_a_while_is_told_and_written_to_when_it_is_back(copying: Copying) -> None:
    copying.begin()
    for broker in copying.west.brokers.values():
        copying.world.after(0.2, broker.stop)
        copying.world.after(1.5, broker.start)
    copying.world.after(0.3, partial(copying.source().write, b"1"))
    result = copying.epoch(6.0)[ORDERS]
    assert copying.copy().values() == [b"0", b"1"]
    assert stands(result) == (2, True)
    assert any("nobody answers" in said for said in copying.driver.troubles())
    assert copying.driver.told[-1] == ({}, set())


def test_a_frozen_broker_keeps_only_those_waiting_that_it_leads(two: Copying) -> None:
    two.copy().elect(2)
    two.source().write(b"1")
    two.epoch(1.0)
    two.west.brokers[2].freeze()
    for line in two.west.lines(2):
        line.cut()
    for source in two.pairs:
        two.source(source).write(b"2")
    seen: list[list[bytes | None]] = []
    two.world.after(0.5, lambda: seen.append(two.copy(PAID).values()))
    results = two.epoch(1.0)
    assert seen == [[b"0", b"2"]]
    assert two.took < 4.0
    assert stands(results[PAID]) == (2, True)
    assert stands(results[ORDERS]) == (2, True)
    two.west.brokers[2].thaw()
    two.epoch(15.0)
    assert two.copy().values() == [b"0", b"1", b"2"]


def test_a_connection_that_comes_too_late_is_kept_for_the_next_epoch(two: Copying) -> None:
    two.west.reaching_seconds = 5.0
    for line in two.west.lines():
        line.cut()
    two.source().write(b"1")
    two.epoch(0.5)
    assert (two.copy().values(), two.west.lines()) == ([b"0"], [])
    two.world.wait(11.0)
    late = two.west.lines()
    assert late
    two.epoch(0.5)
    assert two.copy().values() == [b"0", b"1"]
    assert two.west.lines() == late


def test_a_log_that_ended_before_the_position_is_found_out_by_the_first_acknowledgement(copying: Copying) -> None:
    copying.begin(b"0", b"1", b"2")
    copying.copy().log.clear()
    copying.copy().end = 1
    copying.writes_as(8)
    copying.source().write(b"3")
    copying.world.after(0.5, partial(copying.source().write, b"4"))
    result = copying.epoch(60.0)[ORDERS]
    assert result.trouble == "the target appends at offset 1, before the position 3 already written"
    assert stands(result) == (3, False)
    assert result.handover is not None
    assert result.handover.target_ended_at == 1
    assert copying.copy().values() == [b"3"], "nothing is written behind it"
    assert copying.took < 1.0, "it is looked up at once"


def test_what_others_have_written_before_the_first_acknowledgement_is_told(copying: Copying) -> None:
    copying.begin()
    copying.works[ORDERS] = {"is_watched": True}
    copying.copy().write(b"of somebody else")
    copying.source().write(b"1")
    result = copying.epoch()[ORDERS]
    assert result.foreign == ((1, 2),)
    assert result.handover is not None
    assert (stands(result), result.handover.position.downstream) == ((2, True), 3)


def test_a_producer_that_was_fenced_writes_nothing_more_and_is_looked_up(copying: Copying) -> None:
    copying.begin()
    copying.copy().refuse(47)
    copying.source().write(b"1")
    result = copying.epoch(60.0)[ORDERS]
    assert result.trouble is not None
    assert "InvalidProducerEpoch" in result.trouble
    assert (stands(result)[1], result.stopped, result.may_arrive_late) == (False, None, True)
    assert copying.took < 1.0


def test_batches_that_are_too_large_go_in_smaller_ones(copying: Copying) -> None:
    copying.begin()
    copying.copy().limit = 1_000
    values = [b"%d" % number + b"x" * 300 for number in range(10)]
    copying.source().write(*values)
    result = copying.epoch()[ORDERS]
    assert copying.copy().values() == [b"0", *values]
    assert (stands(result), result.trouble) == ((11, True), None)


def test_a_record_that_is_too_large_is_parked_and_the_next_goes_on_behind_it(copying: Copying) -> None:
    copying.told(parked_topic=PARKED)
    copying.begin()
    copying.copy().limit = 1_000
    copying.source().write(b"1")
    copying.source().write(b"x" * 2_000)
    copying.source().write(b"3")
    result = copying.epoch(3.0, commit_seconds=2.0)[ORDERS]
    assert copying.copy().values() == [b"0", b"1", b"3"]
    assert [len(value or b"") for value in copying.west[TopicPartition(PARKED, 0)].values()] == [2_000]
    assert [(gap.start, gap.kind, gap.passed) for gap in copying.state().gaps.values()] == [(2, GapKind.PARKED, True)]
    assert (stands(result), result.stopped) == ((4, True), None)


def test_what_waits_for_a_parked_record_does_not_wait_for_the_next_commit(copying: Copying) -> None:
    copying.told(parked_topic=PARKED)
    copying.begin()
    copying.copy().limit = 1_000
    copying.source().write(b"x" * 2_000)
    copying.source().write(b"2")
    seen: list[list[bytes | None]] = []
    copying.world.after(0.9, lambda: seen.append(copying.copy().values()))
    copying.epoch(3.0, commit_seconds=2.0)
    assert seen == [[b"0", b"2"]]


def test_a_record_that_is_too_large_stops_its_partition_when_none_are_parked(copying: Copying) -> None:
    copying.begin()
    copying.copy().limit = 1_000
    copying.source().write(b"x" * 2_000)
    result = copying.epoch(60.0)[ORDERS]
    assert result.stopped is not None
    assert "mirror.oversized.records = park" in result.stopped
    assert stands(result) == (1, True)


def test_no_batch_is_larger_than_what_the_broker_reads_at_once(copying: Copying) -> None:
    for broker in copying.west.brokers.values():
        broker.largest_request = 30_000
    copying.source().write(*(b"%d" % number + b"x" * 4_000 for number in range(10)))
    copying.epoch()
    assert len(copying.copy().values()) == 10
    assert copying.copy().appended > 1


def test_a_target_that_is_away_holds_up_no_flow_to_another(copying: Copying) -> None:
    """Of the same source, too: each flow reads it over a connection of its own."""
    north = copying.clusters.setdefault("north", MemoryCluster(copying.world, "north"))
    for topic in (STATE, MM2, "east.orders"):
        north.create(topic)
    copying.begin()
    fetching = len(copying.east.lines())
    flow = replace(
        copying.flow,
        flow=Flow("east", "north"),
        target_client={"bootstrap.servers": "north:9092"},
        syncs_topic=None,
    )
    for broker in copying.west.brokers.values():
        broker.stop()
    copying.source().write(b"1")
    plan = copying.work(3.0)
    added = replace(plan.partitions[0], flow=flow.flow, handover=None, target_id=north.topic_id("east.orders"))
    seen: list[tuple[list[bytes | None], int]] = []
    target = north[TopicPartition("east.orders", 0)]
    copying.world.after(1.0, lambda: seen.append((target.values(), len(copying.east.lines()))))
    result = task.copy(replace(plan, flows=(*plan.flows, flow), partitions=(*plan.partitions, added)))
    assert seen == [([b"0", b"1"], fetching + 1)]
    by_flow = {each.flow.target: each for each in result.partitions}
    assert (stands(by_flow["north"]), by_flow["north"].trouble) == ((2, True), None)
    assert by_flow["west"].trouble is not None
    assert {flow for troubles, _ in copying.driver.told for flow, _ in troubles} == {EAST_WEST}


def test_flows_of_one_source_ask_it_one_after_the_other_who_leads_what(copying: Copying) -> None:
    north = copying.clusters.setdefault("north", MemoryCluster(copying.world, "north"))
    for topic in (STATE, MM2, "east.orders"):
        north.create(topic)
    flow = replace(
        copying.flow, flow=Flow("east", "north"), target_client={"bootstrap.servers": "north:9092"}, syncs_topic=None
    )
    copying.source().write(b"0")
    plan = copying.work(1.0)
    added = replace(plan.partitions[0], flow=flow.flow, target_id=north.topic_id("east.orders"))
    task.copy(replace(plan, flows=(*plan.flows, flow), partitions=(*plan.partitions, added)))
    assert north[TopicPartition("east.orders", 0)].values() == copying.copy().values() == [b"0"]


# What is told.


def test_what_was_in_trouble_is_told_once_it_goes_on(two: Copying) -> None:
    two.works[ORDERS] = {"is_troubled": True}
    two.epoch(0.5)
    assert two.driver.told[-1] == ({}, {(EAST_WEST, ORDERS)})


def test_what_is_read_but_cannot_be_written_does_not_go_on(two: Copying) -> None:
    two.works[ORDERS] = {"is_troubled": True}
    two.copy().elect(None)
    two.copy().leader_epoch = 0
    two.west.brokers[1].stop()
    two.west.brokers[2].stop()
    two.epoch(0.5)
    assert all(going_on == set() for _, going_on in two.driver.told)


def test_a_state_topic_that_refuses_is_told_of_every_partition_and_stops_no_copy(two: Copying) -> None:
    two.state_log.refuse(DENIED)
    two.source().write(b"1")
    results = two.epoch(1.0)
    assert two.copy().values() == [b"0", b"1"]
    said = (
        "what the flow writes down in mirror-state.east-0 on the target is not acknowledged: the target answers "
        "TopicAuthorizationFailed as the test wants (needs Write on the topic)"
    )
    assert two.driver.troubles() == two.driver.troubles(PAID) == [said]
    assert results[ORDERS].trouble == results[PAID].trouble == said
    handover = results[ORDERS].handover
    assert handover is not None
    assert not handover.is_recorded
    assert two.driver.says is Signal.NOTHING


def test_what_was_on_its_way_to_a_copy_that_was_deleted_is_not_the_first_of_the_one_made_anew(copying: Copying) -> None:
    """With the source's offsets that stopped the partition, which asked for the copy to be deleted once more."""
    copying.begin()
    before = copying.copy()

    def made_anew() -> None:
        copying.west.create("east.orders")

    def deleted() -> None:
        before.refuse(codes.UNKNOWN_TOPIC)
        copying.source().write(b"1")
        copying.world.after(0.5, made_anew)

    copying.world.after(0.2, deleted)
    result = copying.epoch(30.0)[ORDERS]
    assert copying.copy().values() == []
    assert result.handover is not None
    assert not result.handover.clean
    assert "UnknownTopicOrPartition the topic was deleted and created anew" in str(result.trouble)
