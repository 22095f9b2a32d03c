"""The copy loop with clusters in memory: from fetch to handover while nothing goes wrong, and how an epoch ends."""

from __future__ import annotations

from functools import partial

import pytest

from mirror.config.fetching import FetchLimits
from mirror.copier import loop
from mirror.copier.epoch_channel import Signal
from mirror.copier.loop import GRACE_SECONDS
from mirror.copier.work import Throttled
from mirror.kafka.versions import FETCH, PRODUCE
from mirror.model.partition import TopicPartition
from tests.unit.copier.copying_in_memory import ORDERS, SYNCS, Copying

OTHER = TopicPartition("orders", 1)


def large(number: int) -> bytes:
    """What is not merged with others while it queues up."""
    return b"%d" % number + b"x" * 20_000


# From fetch to handover.


def test_what_is_fetched_is_produced_acknowledged_recorded_and_handed_over(copying: Copying) -> None:
    copying.source().write(b"a", b"b")
    copying.world.after(0.3, lambda: copying.source().write(b"c"))
    result = copying.epoch()[ORDERS]
    assert copying.copy().values() == [b"a", b"b", b"c"]
    assert (copying.recorded(), copying.mm2_position(), copying.syncs()[-1]) == (3, 3, (2, 2))
    assert (result.records, result.batches, result.stopped, result.trouble) == (3, 2, None, None)
    assert result.handover is not None
    assert (result.handover.position.upstream, result.handover.clean, result.handover.is_recorded) == (3, True, True)
    assert (result.sequence, result.may_arrive_late) == (3, False)
    assert copying.driver.told[-1] == ({}, set())


def test_the_next_epoch_goes_on_at_once_over_the_same_connections(copying: Copying) -> None:
    copying.begin(b"a")
    lines, asked = {*copying.east.lines(), *copying.west.lines()}, len(copying.east.asked + copying.west.asked)
    copying.source().write(b"b")
    copying.world.after(0.05, lambda: copying.driver.say(Signal.END))
    copying.epoch()
    assert copying.copy().values() == [b"a", b"b"]
    assert {*copying.east.lines(), *copying.west.lines()} == lines
    assert len(copying.east.asked + copying.west.asked) == asked, "nothing has to be looked up"


def test_positions_are_recorded_while_the_epoch_goes_on_and_not_again_while_they_stand_still(copying: Copying) -> None:
    copying.begin()
    before = copying.state_log.appended
    copying.source().write(b"1")
    seen: list[int | None] = []
    copying.world.after(0.3, lambda: seen.append(copying.recorded()))
    copying.epoch(3.0)
    assert seen == [2]
    assert copying.state_log.appended == before + 1


def test_an_offset_sync_goes_out_without_waiting_for_a_commit(copying: Copying) -> None:
    copying.begin()
    copying.source().write(b"1")
    seen: list[int | None] = []
    copying.world.once(lambda: (1, 1) in copying.syncs(), lambda: seen.append(copying.recorded()))
    copying.epoch(3.0, commit_seconds=2.0)
    assert (seen, copying.recorded()) == ([1], 2)


def test_five_requests_are_in_flight_once_a_first_one_is_acknowledged(copying: Copying) -> None:
    copying.begin()
    copying.writes_as(8)
    copying.copy().hold()
    in_flight: list[int] = []

    def look() -> None:
        in_flight.append(copying.west.in_flight(copying.pairs[ORDERS]))

    def take_one() -> None:
        look()
        copying.copy().release()
        copying.world.once(lambda: copying.copy().appended == 2, hold_again)

    def hold_again() -> None:
        copying.copy().hold()
        copying.world.after(0.1, look)
        copying.world.after(0.2, copying.copy().release)

    for number in range(9):
        copying.world.after(0.1 + number / 1000, partial(copying.source().write, large(number)))
    copying.world.after(0.3, take_one)
    copying.epoch()
    assert in_flight == [1, 5]
    assert copying.copy().values() == [b"0", *(large(number) for number in range(9))]


def test_partitions_go_over_the_connections_to_their_leaders(copying: Copying) -> None:
    copying.create("paid", (1, 2), (2, 1), (1, 2))
    for source in copying.pairs:
        copying.source(source).write(b"of %d" % source.partition)
    copying.epoch()
    assert all(copying.copy(source).values() == [b"of %d" % source.partition] for source in copying.pairs)
    produced = {node for node, key in copying.west.frames if key == PRODUCE.key}
    fetched = {node for node, key in copying.east.frames if key == FETCH.key}
    assert (produced, fetched) == ({1, 2}, {1, 2})


def test_of_an_answer_what_is_asked_for_next_is_only_what_has_not_come(copying: Copying) -> None:
    copying.begin()
    copying.source().reads.clear()
    copying.source().write(b"1")
    copying.world.after(0.4, lambda: copying.source().write(b"2"))
    copying.epoch()
    assert sorted(set(copying.source().reads)) == [1, 2, 3]


def test_a_paused_partition_is_recorded_and_not_read(copying: Copying) -> None:
    copying.source().write(b"0")
    copying.works[ORDERS] = {"is_paused": True}
    result = copying.epoch(10.0)[ORDERS]
    assert (copying.copy().values(), copying.source().reads, copying.recorded()) == ([], [], 0)
    assert result.handover is not None
    assert (result.handover.position.upstream, result.handover.clean) == (0, True)
    assert copying.took < 3.0, "somebody may wait for its position"


def test_more_is_fetched_only_when_targets_have_taken_what_was(
    copying: Copying, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_BACKLOG_BYTES", 30_000)
    copying.told(fetch_limits=FetchLimits(partition_bytes=1))
    copying.begin()
    copying.copy().hold()
    for number in range(6):
        copying.source().write(large(number))
    seen: list[int] = []
    copying.world.after(0.5, lambda: seen.append(max(copying.source().reads)))
    copying.world.after(0.6, copying.copy().release)
    copying.epoch()
    assert seen == [2], "of two more than 30,000 bytes wait"
    assert len(copying.copy().values()) == 7


def test_what_others_have_written_into_a_copy_at_rest_is_passed_by(copying: Copying) -> None:
    """A task that resumes here need not read it."""
    copying.begin()
    copying.copy().write(b"of somebody else")
    result = copying.epoch(4.0)[ORDERS]
    assert result.handover is not None
    assert (result.handover.position.upstream, result.handover.position.downstream) == (1, 2)
    assert copying.state().positions[ORDERS].downstream == 2


def test_it_is_not_asked_where_copies_end_in_a_short_epoch_before_half_of_it(copying: Copying) -> None:
    copying.begin()
    copying.west.asked.clear()
    copying.world.after(1.9, lambda: asked.append(copying.west.asked.count("ListOffsetsRequest")))
    copying.world.after(2.2, lambda: asked.append(copying.west.asked.count("ListOffsetsRequest")))
    asked: list[int] = []
    copying.epoch(4.0)
    copying.epoch(40.0)
    assert asked == [0, 1]
    assert copying.west.asked.count("ListOffsetsRequest") == 1 + 3, "every ten seconds"


def test_what_comes_in_while_it_is_asked_where_a_copy_ends_is_not_passed_by(copying: Copying) -> None:
    """What lies behind may be of ours, still unanswered."""
    copying.begin()
    asked = copying.west.asked
    asked.clear()
    copying.world.once(lambda: "ListOffsetsRequest" in asked, lambda: copying.source().write(b"1"))
    copying.world.once(lambda: "ListOffsetsRequest" in asked, lambda: copying.copy().write(b"of somebody else"))
    result = copying.epoch(4.0)[ORDERS]
    assert result.handover is not None
    assert result.handover.position.upstream == 2
    assert result.handover.position.downstream == copying.copy().end


# How an epoch ends.


def test_an_epoch_takes_as_long_as_it_is_planned(copying: Copying) -> None:
    copying.begin()
    copying.epoch(3.0)
    assert 3.0 <= copying.took < 3.1
    copying.epoch(0.0)
    assert copying.took < 0.1


def test_a_ring_ends_it_at_once_with_all_that_was_fetched_copied_and_recorded(copying: Copying) -> None:
    copying.begin()
    copying.world.after(0.2, lambda: copying.source().write(b"1"))
    copying.world.once(lambda: copying.copy().appended == 2, lambda: copying.driver.say(Signal.END))
    result = copying.epoch(60.0)[ORDERS]
    assert copying.took < 1.0
    assert result.handover is not None
    assert (result.handover.clean, result.handover.is_recorded, copying.recorded()) == (True, True, 2)


def test_what_has_come_in_when_the_epoch_is_to_end_goes_out_all_the_same(copying: Copying) -> None:
    copying.begin()

    def write_and_end_epoch() -> None:
        copying.source().write(b"1")
        copying.driver.say(Signal.END)

    copying.world.after(0.2, write_and_end_epoch)
    copying.epoch(60.0)
    assert (copying.copy().values(), copying.recorded()) == ([b"0", b"1"], 2)


def test_a_ring_before_the_first_fetch_ends_it_with_nothing_copied(copying: Copying) -> None:
    copying.begin()
    copying.source().write(b"1")
    copying.driver.say(Signal.END)
    result = copying.epoch(60.0)[ORDERS]
    assert copying.took < 0.1
    assert copying.copy().values() == [b"0"]
    assert result.handover == copying.handovers[ORDERS]
    assert result.handover is not None
    assert (result.handover.clean, result.trouble) == (True, None)


def test_a_ring_while_a_batch_is_unanswered_waits_for_the_answer(copying: Copying) -> None:
    copying.begin()
    copying.copy().hold()
    copying.source().write(b"1")
    copying.world.after(0.2, lambda: copying.driver.say(Signal.END))
    copying.world.after(1.5, copying.copy().release)
    result = copying.epoch(60.0)[ORDERS]
    assert 1.5 < copying.took < 2.0
    assert copying.world.turns < 500, "it does not turn without waiting meanwhile"
    assert result.handover is not None
    assert (result.handover.clean, result.may_arrive_late, copying.recorded()) == (True, False, 2)


def test_what_was_fetched_and_not_sent_when_the_epoch_is_to_end_is_dropped_and_read_by_the_next_epoch(
    copying: Copying,
) -> None:
    copying.begin()
    copying.writes_as(8)
    copying.copy().hold()
    for number in range(3):
        copying.source().write(large(number))
    copying.world.after(0.2, lambda: copying.driver.say(Signal.END))
    copying.world.after(0.4, copying.copy().release)
    result = copying.epoch(60.0)[ORDERS]
    assert copying.copy().values() == [b"0", large(0)]
    assert result.handover is not None
    assert (result.handover.position.upstream, result.handover.clean) == (2, True)
    copying.epoch()
    assert copying.copy().values() == [b"0", *(large(number) for number in range(3))]


def test_what_is_never_answered_is_handed_over_as_unsure_and_matched_by_the_next_epoch(copying: Copying) -> None:
    copying.begin()
    copying.copy().mute()
    copying.source().write(b"1")
    result = copying.epoch(1.0)[ORDERS]
    assert result.handover is not None
    assert (result.handover.clean, result.handover.position.upstream, result.may_arrive_late) == (False, 1, True)
    assert 5.0 <= copying.took < 5.5, "the line is silent for five seconds"
    copying.copy().release()
    copying.writes_as(8)
    again = copying.epoch()[ORDERS]
    assert copying.copy().values() == [b"0", b"1"]
    assert (again.skipped_by_match, again.records, copying.recorded()) == (1, 0, 2)


def test_a_line_on_which_something_moves_is_waited_for_but_not_for_ever(copying: Copying) -> None:
    copying.begin()
    (line,) = copying.west.lines(1)
    line.take(0)
    for number in range(40):
        copying.world.after(0.5 * number, partial(line.take, 100))
    copying.source().write(large(1))
    copying.epoch(1.0)
    assert copying.took == pytest.approx(1.0 + GRACE_SECONDS, abs=0.2)
    assert GRACE_SECONDS > 5 * 1.5, "each of the requests in flight can wait in vain for replicas"


def test_commits_that_are_not_answered_leave_the_position_unrecorded(copying: Copying) -> None:
    copying.begin()
    copying.state_log.hold()
    copying.source().write(b"1")
    result = copying.epoch(1.0)[ORDERS]
    assert result.handover is not None
    assert (result.handover.clean, result.handover.is_recorded, result.handover.position.upstream) == (True, False, 2)
    assert copying.recorded() == 1
    copying.state_log.release()
    copying.epoch(0.5)
    assert copying.recorded() == 2


def test_the_last_commit_is_waited_for(copying: Copying) -> None:
    copying.begin()
    copying.source().write(b"1")
    copying.world.once(lambda: copying.copy().appended == 2, lambda: copying.driver.say(Signal.END))
    copying.world.after(0.0, copying.state_log.hold)
    copying.world.after(1.5, copying.state_log.release)
    result = copying.epoch(60.0)[ORDERS]
    assert result.handover is not None
    assert (result.handover.is_recorded, copying.recorded()) == (True, 2)
    assert copying.mm2_position() == 2
    assert 1.5 < copying.took < 2.0


def test_an_offset_sync_that_is_not_answered_is_owed_and_holds_up_no_position(copying: Copying) -> None:
    copying.begin()
    syncs = copying.east[TopicPartition(SYNCS, 0)]
    syncs.hold()
    copying.source().write(b"1")
    result = copying.epoch(1.0)[ORDERS]
    assert result.handover is not None
    assert (result.handover.owes_sync, copying.recorded(), copying.mm2_position()) == (True, 2, 2)
    syncs.release()
    copying.epoch(0.5)
    assert copying.syncs()[-1] == (1, 1)


def test_a_driver_that_is_gone_ends_it_at_once_whatever_is_unanswered(copying: Copying) -> None:
    copying.begin()
    copying.copy().hold()
    copying.source().write(b"1")
    copying.world.after(0.5, lambda: copying.driver.say(Signal.SILENCE))
    result = copying.epoch(60.0)[ORDERS]
    assert copying.took < 0.6
    assert result.handover is not None
    assert (result.handover.clean, result.may_arrive_late) == (False, True)


def test_who_has_lost_its_parent_process_ends_at_once(copying: Copying) -> None:
    copying.begin()
    copying.copy().hold()
    copying.source().write(b"1")
    copying.world.after(0.5, lambda: setattr(copying.world, "parent", 17))
    copying.epoch(60.0)
    assert copying.took < 0.7


def test_nothing_is_written_before_the_driver_says_that_it_may(copying: Copying) -> None:
    copying.begin()
    copying.source().write(b"1")
    copying.driver.allow(False)
    seen: list[int] = []
    copying.world.after(0.5, lambda: seen.append(len([key for _, key in copying.west.frames if key == PRODUCE.key])))
    copying.west.frames.clear()
    copying.world.after(0.6, lambda: copying.driver.allow(True))
    copying.epoch()
    assert seen == [0]
    assert (copying.copy().values(), copying.recorded()) == ([b"0", b"1"], 2)


def test_without_a_driver_it_writes_as_long_as_it_runs(copying: Copying) -> None:
    copying.source().write(b"0")
    copying.epoch(0.5, heard=False)
    assert (copying.copy().values(), copying.recorded()) == ([b"0"], 1)


def test_a_connection_with_something_unanswered_is_not_used_again(copying: Copying) -> None:
    copying.begin()
    (line,) = copying.west.lines(1)
    copying.copy().hold()
    copying.source().write(b"1")
    copying.world.after(0.5, lambda: copying.driver.say(Signal.SILENCE))
    copying.epoch(60.0)
    assert line not in copying.west.lines()
    assert len(copying.east.lines()) == 1, "nor that of the fetch"


@pytest.mark.parametrize("of", ["a fetch", "a produce request"])
def test_an_answer_that_arrives_in_pieces_is_taken_in_when_it_is_there(copying: Copying, of: str) -> None:
    copying.begin()
    lines = copying.east.lines() if of == "a fetch" else copying.west.lines(1)
    for line in lines:
        line.bring(9)
        copying.world.after(0.4, line.bring)
    copying.source().write(b"1")
    result = copying.epoch()[ORDERS]
    assert (copying.copy().values(), copying.recorded()) == ([b"0", b"1"], 2)
    assert (result.trouble, set(lines) <= {*copying.east.lines(), *copying.west.lines()}) == (None, True)


def test_what_a_socket_does_not_take_at_once_goes_out_when_there_is_room(copying: Copying) -> None:
    copying.begin()
    (line,) = copying.west.lines(1)
    line.take(7)
    copying.source().write(b"1")
    seen: list[int] = []
    copying.world.after(0.5, lambda: seen.append(copying.copy().appended))
    copying.world.after(0.6, line.take)
    copying.epoch()
    assert seen == [1]
    assert copying.copy().values() == [b"0", b"1"]


def test_what_a_socket_has_not_taken_waits_while_nothing_may_be_written(copying: Copying) -> None:
    copying.begin()
    (line,) = copying.west.lines(1)
    line.take(7)
    copying.source().write(b"1")
    seen: list[int] = []
    copying.world.after(0.5, lambda: copying.driver.allow(False))
    copying.world.after(0.6, line.take)
    copying.world.after(0.8, lambda: seen.append(copying.copy().appended))
    copying.world.after(0.9, lambda: copying.driver.allow(True))
    copying.epoch(1.5)
    assert seen == [1]
    assert copying.copy().values() == [b"0", b"1"]
    assert copying.world.turns < 2_000, "it does not turn without waiting meanwhile"


def test_nothing_goes_out_at_the_very_moment_at_which_it_may_not_any_more(copying: Copying) -> None:
    copying.begin()
    (line,) = copying.west.lines(1)
    line.take(7)
    copying.source().write(b"1")
    seen: list[int] = []

    def lapse() -> None:
        copying.driver.allow(False)
        line.take()

    copying.world.after(0.5, lapse)
    copying.world.after(0.8, lambda: seen.append(copying.copy().appended))
    copying.world.after(0.9, lambda: copying.driver.allow(True))
    copying.epoch(1.5)
    assert seen == [1]
    assert copying.copy().values() == [b"0", b"1"]


def test_for_how_long_quotas_have_asked_for_silence_is_handed_over(copying: Copying) -> None:
    copying.begin()
    copying.east.throttle_ms, copying.west.throttle_ms = 30, 20
    copying.source().write(b"1")
    copying.epoch()
    assert copying.last is not None
    (throttled,) = copying.last.throttled.values()
    assert throttled.source_ms > 0
    assert throttled.target_ms > 0
    copying.east.throttle_ms = copying.west.throttle_ms = 0
    copying.source().write(b"2")
    copying.epoch()
    assert list(copying.last.throttled.values()) == [Throttled(0, 0)]
