"""A copy task that goes on where somebody stopped: what lies on the target, what became of the logs, what is left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from mirror.copier import share
from mirror.copier.epoch_channel import Signal
from mirror.copier.placing import find_places
from mirror.copier.resume import Place
from mirror.copier.work import ForeignUntil, GapPolicy, Handover
from mirror.kafka import batch
from mirror.kafka.batch import Producer, Record
from mirror.kafka.connection import Connection
from mirror.model.gap import GapKind
from mirror.model.mm2_trace import Mm2Trace, Pair
from mirror.model.offset_map import Run
from mirror.model.partition import TopicPartition
from mirror.model.position import NextBatch
from mirror.model.state_values import writer_record
from tests.unit.copier.builders import TIME
from tests.unit.copier.copying_in_memory import MM2, ORDERS, OURS, Copying, both_positions

BACK = "mirror-state.west"


def lose_the_answer(copying: Copying, *values: bytes) -> None:
    """Copy records of which nobody knows afterwards: the next task has only what the state topic says."""
    copying.copy().mute()
    copying.state_log.hold()
    for value in values:
        copying.source().write(value)
    copying.world.after(0.3, lambda: copying.driver.say(Signal.SILENCE))
    copying.epoch(60.0)
    copying.copy().release()
    copying.state_log.release()
    copying.driver.told.clear()
    copying.writes_as(OURS.producer_id + 1)


def test_what_lies_on_the_target_already_is_not_copied_again(copying: Copying) -> None:
    copying.begin()
    lose_the_answer(copying, b"1")
    assert copying.copy().values() == [b"0", b"1"]
    copying.source().write(b"2")
    result = copying.epoch()[ORDERS]
    assert copying.copy().values() == [b"0", b"1", b"2"]
    assert (both_positions(result), result.skipped_by_match, result.records) == ((3, 3, True), 1, 1)
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
    copying.world.after(0.5, lambda: copying.driver.say(Signal.SILENCE))
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
    result = copying.epoch(20.0)[ORDERS]
    assert copying.copy().values() == held
    assert both_positions(result) == (7, 7, True)
    assert result.handover is not None
    assert result.handover.runs == (Run(0, 0, 7),)
    assert len(copying.driver.troubles()) > 1
    assert all(said.startswith("matching what lies on the target: at offset ") for said in copying.driver.troubles())
    assert copying.recorded() == 7


def test_long_tails_do_not_keep_another_partition_waiting_until_each_has_had_its_turn(copying: Copying) -> None:
    """Also where one of them cannot be asked for: the others do not rest with it."""
    copying.begin()
    names = ("a", "b", "c", "d")
    for name in names:
        copying.create(name)
        copying.source(TopicPartition(name, 0)).write(b"0")
    copying.epoch()
    for name in names:
        copy = copying.copy(TopicPartition(name, 0))
        for _ in range(9):
            copy.write(b"theirs")
        copy.most_bytes = 1
    copying.handovers = {
        source: replace(copying.handovers[source], clean=False)
        for source in (*(TopicPartition(name, 0) for name in names), ORDERS)
    }
    copying.west.latency_seconds = 0.2
    copying.copy(TopicPartition("d", 0)).high = 1
    copying.source().write(b"1")
    began, reached = copying.world.now, list[float]()
    copying.world.once(lambda: copying.copy().appended == 2, lambda: reached.append(copying.world.now))
    copying.epoch(30.0)
    assert reached[0] - began < 4.0
    for name in ("a", "b", "c"):
        assert copying.handovers[TopicPartition(name, 0)].clean


def test_a_line_so_slow_that_a_batch_takes_longer_than_a_piece_may_still_gets_on(copying: Copying) -> None:
    long_tail(copying)
    copying.west.latency_seconds = 1.2
    result = copying.epoch(25.0)[ORDERS]
    assert both_positions(result) == (7, 7, True)


def test_a_match_that_an_end_interrupts_goes_on_in_the_next_epoch(copying: Copying) -> None:
    long_tail(copying)
    copying.west.latency_seconds = 0.4
    copying.world.after(5.5, lambda: copying.driver.say(Signal.END))
    first = copying.epoch(60.0)[ORDERS]
    assert 1 < both_positions(first)[0] < 7
    assert not both_positions(first)[2]
    assert first.trouble is not None
    second = copying.epoch(20.0)[ORDERS]
    assert both_positions(second) == (7, 7, True)
    known = copying.state().offset_map(ORDERS)
    assert known is not None
    assert list(known.runs) == [Run(0, 0, 7)]


def record(offset: int, key: bytes) -> Record:
    return Record(0, TIME + offset, key, b"%d" % offset, (), -1)


def thin_tail(copying: Copying, keys: str, *, source_lacks: str = "", copy_lacks: str = "", others: int = 0) -> None:
    """A tail of one record a batch of which the cleaners have removed some, of either log; a fetch brings one batch.

    ``keys``: of the records 1 to 9, of which each has been copied to its own offset; what lacks is said by offset.
    """
    copying.begin()
    for offset, key in enumerate(keys, start=1):
        for log, lacks in ((copying.source(), source_lacks), (copying.copy(), copy_lacks)):
            producer = OURS if log is copying.copy() else batch.PLAIN
            if str(offset) in lacks:
                log.end += 1
            else:
                log.put(
                    bytes(batch.encode([record(offset, key.encode())], 0, producer, offset if producer is OURS else -1))
                )
    for _ in range(others):
        copying.copy().write(b"theirs")
    copying.handovers[ORDERS] = replace(copying.handovers[ORDERS], clean=False)
    copying.writes_as(OURS.producer_id + 1)
    copying.copy().most_bytes = 1


@pytest.mark.parametrize("latency_seconds", [0.0, 0.2, 0.4, 0.6, 1.2])
@pytest.mark.parametrize(
    ("keys", "source_lacks", "copy_lacks"),
    [
        # The copy of 1 was removed for that of 8, which is in another piece; so it is not certain before that.
        ("abcddddae", "456", "1456"),
        ("abcdddaef", "45", "145"),
        ("abddddaef", "345", "1345"),
        ("abcdefgae", "", "1"),
        # All that a piece holds is certain, and what lies at its end says something of the next one.
        ("abacdefgh", "", "1"),
        ("abcdcefgh", "", "3"),
    ],
)
def test_a_long_tail_that_compaction_has_thinned_is_not_copied_again(
    copying: Copying, keys: str, source_lacks: str, copy_lacks: str, latency_seconds: float
) -> None:
    thin_tail(copying, keys, source_lacks=source_lacks, copy_lacks=copy_lacks, others=3)
    held = copying.copy().values()
    copying.west.latency_seconds = latency_seconds
    result = copying.epoch(60.0)[ORDERS]
    assert result.stopped is None
    assert copying.copy().values() == held
    assert both_positions(result) == (10, 13, True)
    known = copying.state().offset_map(ORDERS)
    assert known is not None
    lacks = {int(each) for each in source_lacks + copy_lacks}
    copied = [offset for run in known.runs for offset in range(run.upstream, run.upstream_end)]
    assert copied == [offset for offset in range(10) if offset not in lacks]
    assert all(run.upstream == run.downstream for run in known.runs)


def _is_past(copying: Copying, end: float) -> bool:
    return copying.world.now > end


def _until(is_over: Callable[[], bool], *asked: Any) -> dict[TopicPartition, Place]:
    """Find places until an epoch is over, as another thread would say."""
    *first, _ = asked
    return find_places(*first, is_over)  # type: ignore[call-arg]


def test_what_is_certain_of_a_thinned_tail_when_an_epoch_ends_need_not_be_found_in_the_next(
    copying: Copying, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is certain within a piece, and the whole takes longer than an epoch: it began anew in each, for good."""
    thin_tail(copying, "abacdefgh", copy_lacks="1", others=3)
    held = copying.copy().values()
    copying.west.latency_seconds = 0.4
    reached = []
    for _ in range(6):
        end = copying.world.now + 4.0
        monkeypatch.setattr(share, "find_places", partial(_until, partial(_is_past, copying, end)))
        reached.append(both_positions(copying.epoch(4.0)[ORDERS]))
    assert (1, 1, False) in reached
    assert reached[-1] == (10, 13, True)
    assert copying.copy().values() == held


@pytest.mark.parametrize("seconds", [0.0, 1.0, 2.0, 3.0])
def test_a_thinned_tail_that_an_epoch_has_no_time_to_compare_as_a_whole_does_not_stop_the_copy(
    copying: Copying, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    thin_tail(copying, "abacdefgh", copy_lacks="1", others=3)
    copying.west.latency_seconds = 0.4
    for _ in range(6):
        end = copying.world.now + seconds
        monkeypatch.setattr(share, "find_places", partial(_until, partial(_is_past, copying, end)))
        assert copying.epoch(seconds + 1.0)[ORDERS].stopped is None


def test_a_marker_in_a_tail_is_nothing_that_the_target_has_lost(copying: Copying) -> None:
    """Others write in transactions; meanwhile the source has removed the first record that was copied."""
    copying.begin()
    lose_the_answer(copying, b"1")
    copying.copy().mark(Producer(40, 0))
    copying.source().write(b"2")
    (original,) = [content for content, header in copying.source().log if header.base_offset == 2]
    copying.copy().put(bytes(batch.encode(batch.records(original), 0, OURS, 2)))
    copying.source().delete_records(2)
    result = copying.epoch()[ORDERS]
    assert (result.stopped, both_positions(result)) == (None, (3, 4, True))
    assert copying.copy().values() == [b"0", b"1", b"2"]
    assert copying.state().gaps == {}


def test_what_others_have_written_behind_a_copy_that_the_cleaner_has_removed_does_not_hide_that_it_was_made(
    copying: Copying,
) -> None:
    """They fill some pieces of a match. That the copy of 1 is gone explains why 1 does not come before 2."""
    copying.begin()
    for offset in (1, 2):
        copying.source().put(bytes(batch.encode([record(offset, b"key")], 0, batch.PLAIN, -1)))
    copying.copy().end += 1
    for _ in range(9):
        copying.copy().write(b"theirs")
    copying.copy().put(bytes(batch.encode([record(2, b"key")], 0, OURS, 2)))
    held = copying.copy().values()
    copying.handovers[ORDERS] = replace(copying.handovers[ORDERS], clean=False)
    copying.writes_as(OURS.producer_id + 1)
    copying.copy().most_bytes = 1
    copying.west.latency_seconds = 0.4
    result = copying.epoch(60.0)[ORDERS]
    assert copying.copy().values() == held
    assert both_positions(result) == (3, 12, True)


def test_how_far_a_match_has_looked_says_nothing_of_a_copy_that_has_been_cut_off_before(copying: Copying) -> None:
    copying.begin()
    lose_the_answer(copying, b"1")
    copying.handovers[ORDERS] = replace(copying.handovers[ORDERS], clean=False, looked_until=9)
    result = copying.epoch()[ORDERS]
    assert copying.copy().values() == [b"0", b"1"]
    assert both_positions(result) == (2, 2, True)


def test_a_tail_that_is_not_the_sources_stops_the_copy(copying: Copying) -> None:
    copying.begin()
    lose_the_answer(copying, b"1")
    copying.copy().write(b"no copy", producer=OURS)
    result = copying.epoch(60.0)[ORDERS]
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
    result = copying.epoch(60.0)[ORDERS]
    assert result.stopped is not None or result.trouble is not None


def test_a_position_that_was_committed_says_nothing_of_what_was_sent_without_transactions_since(
    copying: Copying,
) -> None:
    """The flow was set from exactly once to the default mode, and killed before it recorded another position."""
    copying.begin()
    lose_the_answer(copying, b"1")
    handover = copying.handovers[ORDERS]
    copying.handovers[ORDERS] = replace(handover, position=replace(handover.position, atomic=True), clean=False)
    copying.epoch()
    assert copying.copy().values() == [b"0", b"1"]


def test_what_is_not_sent_yet_is_dropped_with_the_connection_that_is_written_to(
    copying: Copying, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the kernel would go on sending for an engine that was killed, for as long as a slow line takes."""
    dropping: list[Connection] = []
    discard = Connection.discard_unsent
    monkeypatch.setattr(Connection, "discard_unsent", lambda each: (dropping.append(each), discard(each)))
    copying.begin()
    assert dropping != []


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
    copying.works[ORDERS] = {"mm2": Mm2Trace(2, ((Pair(2, 2),),))}
    result = copying.epoch(60.0)[ORDERS]
    assert result.written_by_mm2


def test_behind_a_settled_position_too_java_mirror_maker_may_have_written_since(copying: Copying) -> None:
    copying.begin()
    handover = copying.handovers[ORDERS]
    copying.handovers[ORDERS] = replace(handover, clean=False, position=replace(handover.position, settled=True))
    copying.copy().write(b"java's")
    copying.works[ORDERS] = {"mm2": Mm2Trace(2, ((Pair(1, 1),),))}
    assert copying.epoch(60.0)[ORDERS].written_by_mm2


def test_a_settled_position_needs_no_match(copying: Copying) -> None:
    """Nothing of ours lies behind it, whatever the producer ids say."""
    copying.begin()
    copying.copy().write(b"aborted", producer=Producer(OURS.producer_id, 0))
    handover = copying.handovers[ORDERS]
    copying.handovers[ORDERS] = replace(handover, clean=False, position=replace(handover.position, settled=True))
    copying.source().write(b"1")
    result = copying.epoch()[ORDERS]
    assert copying.copy().values() == [b"0", b"aborted", b"1"]
    assert (both_positions(result), result.stopped) == ((2, 3, True), None)


def others_wrote(copying: Copying, handover: Handover, offset: int = 4) -> None:
    """Begin again behind a position where the target said that others alone had written up to an offset."""
    copying.copy().write(b"theirs", b"theirs", b"theirs")
    said = ForeignUntil(offset, copying.copy().leader_epoch)
    copying.handovers[ORDERS] = replace(handover, clean=False, foreign_until=said)
    copying.copy().reads.clear()


def test_where_others_alone_have_written_nothing_is_read(copying: Copying) -> None:
    copying.begin()
    others_wrote(copying, copying.handovers[ORDERS])
    copying.source().write(b"1")
    result = copying.epoch()[ORDERS]
    assert copying.copy().reads == []
    assert both_positions(result) == (2, 5, True)
    assert result.handover is not None
    assert result.handover.foreign_until is None, "what is written from now on is its own"


def test_what_arrived_behind_that_is_matched(copying: Copying) -> None:
    copying.begin()
    handover = copying.handovers[ORDERS]
    others_wrote(copying, handover)
    copying.source().write(b"1")
    copying.copy().write(b"1", producer=OURS)
    (original,) = [content for content, header in copying.source().log if header.base_offset == 1]
    copying.copy().log.pop()
    copying.copy().end -= 1
    copying.copy().put(bytes(batch.encode(batch.records(original), 0, OURS, 1)))
    result = copying.epoch()[ORDERS]
    assert min(copying.copy().reads) == 4
    assert result.skipped_by_match == 1
    assert copying.copy().values() == [b"0", b"theirs", b"theirs", b"theirs", b"1"]


@pytest.mark.parametrize(
    ("offset", "latency_seconds"),
    [(1, 0.0), (1, 1.2), (4, 0.0)],
    ids=["all is read", "in pieces", "what others wrote is not"],
)
def test_what_others_wrote_and_is_not_read_is_no_hole_that_compaction_left(
    copying: Copying, offset: int, latency_seconds: float
) -> None:
    """Taken for one, it would explain why the records 1 and 2 are not there, and they would never be copied."""
    copying.begin()
    others_wrote(copying, copying.handovers[ORDERS], offset)
    for value in (b"1", b"2", b"3"):
        copying.source().write(value)
    (last,) = [content for content, header in copying.source().log if header.base_offset == 3]
    copying.copy().put(bytes(batch.encode(batch.records(last), 0, OURS, 1)))
    copying.copy().most_bytes = 1
    copying.west.latency_seconds = latency_seconds
    result = copying.epoch(60.0)[ORDERS]
    assert result.stopped is not None
    assert "is not what east has behind the position 1" in result.stopped


@pytest.mark.parametrize("becomes", ["truncated", "forked", "shorter", "synced"])
def test_all_is_read_where_what_the_target_said_may_be_past(copying: Copying, becomes: str) -> None:
    """Another log stands there after an unclean election; and Java MirrorMaker may be among the others."""
    copying.begin()
    others_wrote(copying, copying.handovers[ORDERS], offset=9 if becomes == "shorter" else 4)
    if becomes == "truncated":
        copying.copy().truncate(1)
        copying.copy().write(b"another", b"another", b"another", b"another")
    if becomes == "forked":
        # What it led with before that leader it has kept, and goes on with.
        said = ForeignUntil(4, copying.copy().leader_epoch + 1)
        copying.handovers[ORDERS] = replace(copying.handovers[ORDERS], foreign_until=said)
    if becomes == "synced":
        copying.works[ORDERS] = {"mm2": Mm2Trace(2, ((Pair(0, 0),),))}
    copying.epoch()
    assert 1 in copying.copy().reads


def test_as_whom_it_goes_on_is_on_record_before_and_behind_each_batch(copying: Copying) -> None:
    copying.begin()
    assert copying.state().positions[ORDERS].next_batch == NextBatch(OURS.producer_id, OURS.epoch, 1)
    lose_the_answer(copying, b"1")
    copying.epoch()
    assert copying.state().positions[ORDERS].next_batch == NextBatch(OURS.producer_id + 1, 0, 0)
    copying.source().write(b"2", b"3")
    copying.epoch()
    assert copying.state().positions[ORDERS].next_batch == NextBatch(OURS.producer_id + 1, 0, 2)


def test_as_whom_a_tail_goes_on_that_is_matched_in_part_is_not_known(copying: Copying) -> None:
    """Should the state topic be lost meanwhile, what was not matched yet lies behind the position."""
    long_tail(copying)
    copying.west.latency_seconds = 0.4
    copying.world.after(5.5, lambda: copying.driver.say(Signal.END))
    found = copying.epoch(60.0)[ORDERS].handover
    assert found is not None
    assert not found.clean
    assert found.position.next_batch is None


# What has become of the logs meanwhile.


def test_a_source_created_anew_is_copied_from_its_start_behind_a_gap(copying: Copying) -> None:
    copying.begin(b"0", b"1")
    copying.east.create("orders")
    copying.source().write(b"new")
    result = copying.epoch()[ORDERS]
    assert copying.copy().values() == [b"0", b"1", b"new"]
    (gap,) = copying.state().gaps.values()
    assert (gap.kind, gap.passed, gap.found_at_ms > TIME) == (GapKind.RECREATED, True, True)
    assert both_positions(result) == (1, 3, True)
    assert result.handover is not None
    assert result.handover.position.topic_id == copying.east.topic_id("orders")
    assert copying.mm2_position() == 1, "it went back before the new one was begun"


def test_whether_a_topic_is_another_one_is_asked_of_the_clusters_and_not_taken_from_the_plan(copying: Copying) -> None:
    """The plan may be some seconds old."""
    copying.begin(b"0", b"1")
    handover = copying.handovers[ORDERS]
    copying.works[ORDERS] = {"topic_id": handover.position.topic_id}
    copying.handovers[ORDERS] = replace(handover, clean=False)
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
    first = copying.epoch(1.0)[ORDERS]
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
    copying.handovers[ORDERS] = replace(copying.handovers[ORDERS], clean=False)
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
    copying.handovers[ORDERS] = replace(copying.handovers[ORDERS], clean=False)
    copying.epoch(1.0)
    assert copying.copy().values() == [b"0", b"1", b"2", b"another"]
    (gap,) = copying.state().gaps.values()
    assert (gap.start, gap.end, gap.kind, gap.passed) == (0, 3, GapKind.TRUNCATED, True)


def test_copies_that_are_gone_from_the_target_stop_the_copy(copying: Copying) -> None:
    copying.begin(b"0")
    copying.source().write(b"1")
    copying.epoch(0.5)
    copying.copy().truncate(1)
    handover = copying.handovers[ORDERS]
    copying.handovers[ORDERS] = replace(handover, clean=False)
    result = copying.epoch(60.0)[ORDERS]
    assert result.stopped is not None
    assert "ended at offset 1, before the position 2 recorded for it" in result.stopped
    (gap,) = copying.state().gaps.values()
    copying.works[ORDERS] = {"gaps": GapPolicy(barrier=gap, is_lifted=True)}
    again = copying.epoch()[ORDERS]
    assert (again.stopped, copying.copy().values(), copying.recorded()) == (None, [b"0", b"1"], 2)


def test_a_gap_that_was_passed_but_not_recorded_is_recorded_by_who_matches_the_tail(copying: Copying) -> None:
    copying.begin()
    copying.source().write(b"1")
    copying.source().write(b"2")
    copying.source().delete_records(3)
    handover = copying.handovers[ORDERS]
    lose_the_answer(copying, b"3")
    assert copying.copy().values() == [b"0", b"3"]
    copying.handovers[ORDERS] = replace(handover, clean=False)
    result = copying.epoch()[ORDERS]
    assert copying.copy().values() == [b"0", b"3"]
    (gap,) = copying.state().gaps.values()
    assert gap.found_at_ms > TIME, "in milliseconds"
    assert (gap.start, gap.end, gap.kind, gap.passed) == (1, 3, GapKind.RETENTION, True)
    assert (both_positions(result), result.stopped) == ((4, 2, True), None)


def killed_and_fenced(copying: Copying) -> None:
    """Kill the engine; another one fences what it has sent."""
    producer = Producer(OURS.producer_id, 1)
    copying.copy().mark(producer)
    copying.told(producer=producer)
    copying.sequences.clear()
    state = copying.state()
    copying.handovers[ORDERS] = Handover(state.positions[ORDERS], state.open_runs(ORDERS), clean=False)


@pytest.mark.parametrize("theirs", [0, 1])
@pytest.mark.parametrize(
    "batches",
    [[(b"1", b"2", b"3"), (b"4", b"5")], [(b"1", b"2", b"3", b"4", b"5")], [(b"1",), (b"2", b"3", b"4", b"5")]],
    ids=["at a batch", "within the first batch", "within a later batch"],
)
def test_what_was_copied_behind_a_gap_is_found_wherever_the_log_starts_in_a_batch(
    copying: Copying, batches: Sequence[Sequence[bytes]], theirs: int
) -> None:
    """A broker hands out all of such a batch: the copy stopped, and had it twice when that was acknowledged."""
    copying.begin(b"0")
    for _ in range(theirs):
        copying.copy().write(b"theirs")
    for each in batches:
        copying.source().write(*each)
    copying.source().delete_records(4)
    copying.state_log.hold()
    copying.epoch(0.5)
    copying.state_log.release()
    assert copying.recorded() == 1
    killed_and_fenced(copying)
    copying.source().write(b"6")
    assert copying.epoch()[ORDERS].stopped is None
    assert copying.copy().values() == [b"0", *[b"theirs"] * theirs, b"4", b"5", b"6"]
    assert [(each.start, each.end) for each in copying.state().gaps.values()] == [(1, 4)]


def test_a_record_that_was_copied_before_its_batch_was_cut_by_the_log_s_start_is_in_no_gap(copying: Copying) -> None:
    """One record was missing, and two gaps told of one each."""
    copying.begin(b"0")
    copying.source().write(b"1")
    copying.state_log.hold()
    copying.epoch(0.5)
    copying.state_log.release()
    assert (copying.copy().values(), copying.recorded()) == ([b"0", b"1"], 1)
    # The batch is longer than what was sent of it.
    (content, _), log = copying.source().log.pop(), copying.source()
    log.end = 1
    (first,) = batch.records(content)
    more = [first._replace(value=b"%d" % number, timestamp=first.timestamp + number) for number in (2, 3, 4)]
    log.put(bytes(batch.encode([first, *more], 0, batch.PLAIN, -1)))
    log.delete_records(3)
    killed_and_fenced(copying)
    assert copying.epoch()[ORDERS].stopped is None
    assert copying.copy().values() == [b"0", b"1", b"3", b"4"]
    assert [(each.start, each.end) for each in copying.state().gaps.values()] == [(2, 3)]


def removed_unseen(copying: Copying, *later: bytes) -> None:
    """Copies of which nobody knows, and that the target has removed since; others have written ``later`` behind them."""
    copying.begin()
    lose_the_answer(copying, b"1", b"2")
    copying.copy().delete_records(3)
    for value in later:
        copying.copy().write(value)
    copying.source().write(b"3")


@pytest.mark.parametrize("later", [(), (b"theirs",)], ids=["nothing is left", "others wrote on"])
def test_copies_that_the_target_removed_before_they_were_recorded_are_made_again_and_counted(
    copying: Copying, later: tuple[bytes, ...]
) -> None:
    """Retention, or deleted records, while no engine ran: which of them there were nobody can tell any more."""
    removed_unseen(copying, *later)
    result = copying.epoch()[ORDERS]
    assert copying.copy().values() == [*later, b"1", b"2", b"3"]
    assert (both_positions(result), result.stopped) == ((4, 6 + len(later), True), None)
    (gap,) = copying.state().gaps.values()
    assert (gap.start, gap.end, gap.kind, gap.passed) == (1, 3, GapKind.COPIED_AGAIN, True)
    assert gap.reason == (
        "west removed the offsets 1 to 2 of east.orders-0 (retention, or deleted records) before it was on record what "
        "lay there. What east has from offset 1 of orders-0 on is copied: of that 2 records at most had been copied "
        "before, and may have been read twice"
    )


def test_a_strict_copy_does_not_make_them_again_before_somebody_says_so(copying: Copying) -> None:
    removed_unseen(copying)
    copying.works[ORDERS] = {"gaps": GapPolicy(stops=True)}
    result = copying.epoch(60.0)[ORDERS]
    assert result.stopped is not None
    assert "2 records at most had been copied before" in result.stopped
    assert copying.copy().values() == []
    (gap,) = copying.state().gaps.values()
    copying.works[ORDERS] = {"gaps": GapPolicy(stops=True, barrier=gap, is_lifted=True)}
    again = copying.epoch()[ORDERS]
    assert (again.stopped, copying.copy().values()) == (None, [b"1", b"2", b"3"])
    assert [each.passed for each in copying.state().gaps.values()] == [True]


@pytest.mark.parametrize("told_by", ["position", "target", "source"])
def test_where_none_of_what_was_removed_was_the_flows_nothing_is_told(copying: Copying, told_by: str) -> None:
    """It had settled there; or its leader has said so; or there was nothing more to be copied."""
    copying.begin()
    handover = replace(copying.handovers[ORDERS], clean=False)
    copying.copy().write(b"theirs")
    copying.copy().write(b"theirs")
    copying.copy().delete_records(2)
    if told_by == "position":
        handover = replace(handover, position=replace(handover.position, settled=True))
    if told_by == "target":
        handover = replace(handover, foreign_until=ForeignUntil(3, copying.copy().leader_epoch))
    copying.handovers[ORDERS] = handover
    if told_by != "source":
        copying.source().write(b"1")
    copying.epoch()
    assert copying.state().gaps == {}


def test_an_offset_map_that_is_lost_on_the_way_is_read_from_the_state_topic(copying: Copying) -> None:
    copying.begin(b"0", b"1")
    copying.west.create("east.orders")
    copying.copy().write(b"of somebody else")
    result = copying.epoch(60.0)[ORDERS]
    assert result.stopped is not None
    assert "was deleted and created anew; 2 copies of orders-0's records are gone" in result.stopped


# What is left out, and what was learned.


def test_what_other_flows_have_mirrored_into_the_source_is_left_out_of_a_match_too(copying: Copying) -> None:
    copying.east.create(BACK)
    key, value = writer_record(40, 0)
    log = copying.east[TopicPartition(BACK, 0)]
    log.put(bytes(batch.encode([Record(0, 5, key, value, (), -1)], 0, batch.PLAIN, -1)))
    copying.works[ORDERS] = {"left_out": (BACK,)}
    copying.begin()
    copying.source().write(b"mirrored", producer=Producer(40, 0))
    lose_the_answer(copying, b"1")
    result = copying.epoch()[ORDERS]
    assert copying.copy().values() == [b"0", b"1"]
    assert result.handover is not None
    assert (both_positions(result), result.handover.position.left_out) == ((3, 2, True), 1)


def test_what_cannot_be_told_to_be_left_out_waits(copying: Copying) -> None:
    copying.east.create(BACK)
    copying.works[ORDERS] = {"left_out": (BACK,)}
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
    result = copying.epoch(0.5)[ORDERS]
    assert (result.sequence, result.may_arrive_late) == (None, False)
