"""A copy task that goes on where a copy was truncated, and where what lies in a copy only looks like it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.copier.work import GapPolicy, Handover
from mirror.kafka import batch
from mirror.kafka.batch import LARGEST_SEQUENCE, Producer, Record
from mirror.model.flow import Flow
from mirror.model.gap import GapKind
from mirror.model.offset_map import Run
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_values import writer_record
from mirror.same_offsets.chain import producer_of
from tests.unit.copier.builders import TIME
from tests.unit.copier.copying_in_memory import ORDERS, OURS, Copying, both_positions, slot

BACK = "mirror-state.west"


@pytest.mark.parametrize("behind", [1, 2, 5])
@pytest.mark.parametrize("who", ["a takeover", "others"])
def test_copies_that_are_gone_are_noticed_however_much_was_written_in_their_place(
    copying: Copying, who: str, behind: int
) -> None:
    """A leader without the newest copies was elected; a marker is written before anybody looks where the copy ends."""
    copying.begin(b"0")
    for value in (b"1", b"2"):
        copying.source().write(value)
    copying.epoch(0.5)
    handover = copying.handovers[ORDERS]
    assert (handover.position.upstream, handover.position.downstream) == (3, 3)
    copying.copy().truncate(1)
    for _ in range(behind):
        if who == "others":
            copying.copy().write(b"theirs")
        else:
            copying.copy().mark(Producer(OURS.producer_id, 1))
    copying.handovers[ORDERS] = replace(handover, clean=False)
    result = copying.epoch(60.0)[ORDERS]
    assert result.stopped is not None
    assert "ended at offset 1, before the position 3 recorded for it: it was truncated; 2 copies" in result.stopped
    (gap,) = copying.state().gaps.values()
    assert (gap.start, gap.end, gap.downstream, gap.kind) == (1, 3, 1, GapKind.TARGET_LOST)
    copying.works[ORDERS] = {"gaps": GapPolicy(barrier=gap, is_lifted=True)}
    again = copying.epoch()[ORDERS]
    theirs = [b"theirs"] * behind if who == "others" else []
    assert (again.stopped, copying.copy().values()) == (None, [b"0", *theirs, b"1", b"2"])


def show_that_copies_are_gone(copying: Copying) -> None:
    """Have the target lose two copies of three while an engine runs, and a record written in the place of the first."""
    copying.begin(b"0")
    for value in (b"1", b"2"):
        copying.source().write(value)
    copying.epoch(0.5)
    copying.copy().truncate(1)
    copying.source().write(b"3")
    copying.epoch(1.0)


def test_the_record_that_shows_that_copies_are_gone_is_told_to_be_there_twice(copying: Copying) -> None:
    """It stands where they were; a copy in order has it behind them once more."""
    show_that_copies_are_gone(copying)
    stopped = copying.epoch(5.0)[ORDERS]
    assert "it was truncated; 2 copies" in str(stopped.stopped)
    again, lost = copying.state().gaps.values()
    assert (again.start, again.end, again.downstream, again.kind) == (3, 4, 1, GapKind.COPIED_AGAIN)
    assert (lost.start, lost.end, lost.kind) == (1, 3, GapKind.TARGET_LOST)
    copying.works[ORDERS] = {"gaps": GapPolicy(barrier=lost, is_lifted=True)}
    assert copying.epoch()[ORDERS].stopped is None
    assert copying.copy().values() == [b"0", b"3", b"1", b"2", b"3"]


@pytest.mark.parametrize("who", ["the same engine", "the next one"])
def test_copies_that_are_gone_are_noticed_where_the_flow_itself_has_written_on_before_anybody_knew(
    copying: Copying, who: str
) -> None:
    """An engine was killed before it had put the answer on record that shows it."""
    copying.begin(b"0")
    for value in (b"1", b"2"):
        copying.source().write(value)
    copying.epoch(0.5)
    handover = copying.handovers[ORDERS]
    following = handover.position.next_batch
    assert following is not None
    copying.copy().truncate(1)
    later = Producer(OURS.producer_id, 0 if who == "the same engine" else 1)
    for number, value in enumerate((b"3", b"4")):
        copying.source().write(value)
        written = Record(0, TIME, None, value, (), -1)
        sequence = following.sequence + number if who == "the same engine" else number
        copying.copy().put(bytes(batch.encode([written], 0, later, sequence)))
    copying.handovers[ORDERS] = replace(handover, clean=False)
    result = copying.epoch(60.0)[ORDERS]
    assert result.stopped is not None
    assert "ended at offset 1, before the position 3 recorded for it: it was truncated; 2 copies" in result.stopped


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "at work"])
def test_where_the_target_has_lost_what_others_wrote_alone_nothing_is_copied_again(
    copying: Copying, others: int, is_killed: bool
) -> None:
    """The marker that a takeover had left behind the last copy, or an application's records, and no copy."""
    copying.begin(b"0")
    for _ in range(others):
        copying.copy().write(b"theirs")
    fenced_as(copying, 1)
    copying.epoch(0.5)
    handover = copying.handovers[ORDERS]
    assert handover.position.downstream == 2 + others
    copying.copy().truncate(1)
    if is_killed:
        copying.source().write(b"1")
        (original,) = [content for content, header in copying.source().log if header.base_offset == 1]
        copying.copy().put(bytes(batch.encode(batch.records(original), 0, Producer(OURS.producer_id, 1), 0)))
        copying.handovers[ORDERS] = handover
        fenced_as(copying, 2)
    else:
        copying.source().write(b"1")
        copying.epoch(1.0)
    copying.source().write(b"2")
    result = copying.epoch(5.0)[ORDERS]
    assert result.stopped is None
    assert copying.copy().values() == [b"0", b"1", b"2"]
    assert copying.state().gaps == {}
    known = copying.state().offset_map(ORDERS)
    assert known is not None
    first = known.runs.last_before_copy(2)
    assert first is not None
    assert (first.upstream, first.downstream, first.length >= 2) == (0, 0, True)


def fenced_as(copying: Copying, epoch: int) -> None:
    """Take the flow over: go on in another epoch of the producer, and leave its marker."""
    producer = Producer(OURS.producer_id, epoch)
    copying.copy().mark(producer)
    copying.told(producer=producer)
    copying.sequences.clear()
    copying.handovers[ORDERS] = replace(copying.handovers[ORDERS], clean=False)


def taken_up_again(copying: Copying, epoch: int) -> None:
    """Have another engine go on from what the state topic says, in another epoch of the producer."""
    state = copying.state()
    copying.handovers[ORDERS] = Handover(state.positions[ORDERS], state.open_runs(ORDERS), clean=False)
    fenced_as(copying, epoch)


def test_a_copy_that_is_made_again_goes_on_after_a_crash_too_behind_what_showed_that_copies_were_gone(
    copying: Copying,
) -> None:
    """The engine was killed before it had put the first of them on record."""
    show_that_copies_are_gone(copying)
    copying.epoch(5.0)
    (lost,) = (each for each in copying.state().gaps.values() if each.kind is GapKind.TARGET_LOST)
    copying.works[ORDERS] = {"gaps": GapPolicy(barrier=lost, is_lifted=True)}
    copying.copy().hold()
    copying.epoch(0.5)
    copying.copy().release()
    copying.works.clear()
    taken_up_again(copying, 1)
    assert copying.epoch()[ORDERS].stopped is None
    assert copying.copy().values() == [b"0", b"3", b"1", b"2", b"3"]


def test_where_the_source_was_truncated_each_engine_goes_on_behind_what_a_killed_one_had_copied_before(
    copying: Copying,
) -> None:
    """Nothing new is there to be copied: the position stays where it was when that was put on record."""
    copying.begin(b"0")
    copying.source().write(b"1")
    copying.epoch(0.5)
    handover = copying.handovers[ORDERS]
    copying.source().write(b"2")
    copying.epoch(0.5)
    copying.handovers[ORDERS] = replace(handover, clean=False)
    copying.source().truncate(1)
    fenced_as(copying, 1)
    for epoch in (2, 3):
        assert copying.epoch(0.5)[ORDERS].stopped is None
        taken_up_again(copying, epoch)
    copying.source().write(b"another")
    assert copying.epoch()[ORDERS].stopped is None
    assert copying.copy().values() == [b"0", b"1", b"2", b"another"]
    assert [each.kind for each in copying.state().gaps.values()] == [GapKind.TRUNCATED]


def test_what_nobody_has_matched_is_not_passed_by_when_another_engine_comes_to_it(copying: Copying) -> None:
    """Where a producer is known to go on, the next engine takes it that nothing of the flow lies behind that."""
    copying.begin(b"0")
    copying.copy().write(b"theirs")
    fenced_as(copying, 1)
    copying.epoch(0.5)
    handover = copying.handovers[ORDERS]
    copying.copy().truncate(1)
    copying.source().write(b"1")
    unknown = Record(0, TIME, None, b"nobody's", (), -1)
    copying.copy().put(bytes(batch.encode([unknown], 0, Producer(OURS.producer_id, 1), 0)))
    copying.handovers[ORDERS] = handover
    fenced_as(copying, 2)
    assert "are not the source's from offset 1 on" in str(copying.epoch(5.0)[ORDERS].stopped)
    position = copying.state().positions[ORDERS]
    assert (position.downstream, position.next_batch) == (1, None)


@pytest.mark.parametrize("whose", ["the same slot", "another slot"])
def test_so_they_are_where_that_was_in_a_transaction_which_came_to_nothing(copying: Copying, whose: str) -> None:
    """Of another slot, as after the partition was given to another task, no sequence tells."""
    other = Producer(OURS.producer_id + 1, 0, is_transactional=True)
    copying.told(slot=slot(), producer=None, writers=copying.flow.writers | {other.producer_id})
    copying.begin(b"0")
    copying.source().write(b"1", b"2")
    copying.epoch(0.5)
    handover = copying.handovers[ORDERS]
    following = handover.position.next_batch
    assert following is not None
    copying.copy().truncate(2)
    producer = slot().producer if whose == "the same slot" else other
    copying.copy().open[producer.producer_id] = 2
    written = [Record(number, TIME, None, b"aborted", (), -1) for number in range(3)]
    copying.copy().put(bytes(batch.encode(written, 0, producer, following.sequence)))
    copying.copy().abort(producer.producer_id)
    copying.handovers[ORDERS] = replace(handover, clean=False)
    result = copying.epoch(60.0)[ORDERS]
    assert "ended at offset 2, before the position 4 recorded for it: it was truncated; 2 copies" in str(result.stopped)


def test_while_an_application_s_transaction_keeps_that_from_being_told_the_last_copy_passes_for_one(
    copying: Copying,
) -> None:
    copying.told(slot=slot(), producer=None)
    copying.begin(b"0")
    handover = copying.handovers[ORDERS]
    copying.copy().open[40] = 0
    position = replace(handover.position, next_batch=None)
    copying.handovers[ORDERS] = replace(handover, clean=False, position=position)
    assert copying.epoch()[ORDERS].stopped is None


def test_the_last_copy_is_none_that_was_written_behind_the_position_where_sequences_begin_again(
    copying: Copying,
) -> None:
    copying.sequences[copying.pairs[ORDERS]] = LARGEST_SEQUENCE - 1
    copying.begin(b"0")
    for value in (b"1", b"2", b"3"):
        copying.source().write(value)
        copying.epoch(0.5)
        handover = copying.handovers[ORDERS]
        copying.handovers[ORDERS] = replace(handover, clean=False)
        assert copying.epoch(0.5)[ORDERS].stopped is None
    assert copying.copy().values() == [b"0", b"1", b"2", b"3"]


def test_copies_that_are_gone_are_noticed_behind_a_settled_position_too_where_as_much_was_written_since(
    copying: Copying,
) -> None:
    """An engine that ended in order left nothing under way; where the copy ends tells nothing of what lies there."""
    copying.begin(b"0")
    copying.source().write(b"1", b"2")
    copying.epoch(0.5)
    handover = copying.handovers[ORDERS]
    copying.copy().truncate(1)
    copying.copy().write(b"theirs", b"theirs")
    copying.handovers[ORDERS] = replace(handover, clean=False, position=replace(handover.position, settled=True))
    result = copying.epoch(60.0)[ORDERS]
    assert result.stopped is not None
    assert "it was truncated; 2 copies" in result.stopped


@pytest.mark.parametrize("is_kept", [True, False], ids=["the copy is there", "retention has removed it"])
def test_originals_that_were_passed_by_with_the_source_s_offsets_are_nobody_s_truncation(
    copying: Copying, is_kept: bool
) -> None:
    """Both flows had kept the offsets under one name and translate now: the map has originals of the applications."""
    had_kept_offsets(copying, producer_of(Flow("west", "east")))
    if not is_kept:
        copying.source().delete_records(2)
    result = copying.epoch(60.0)[ORDERS]
    assert result.stopped is None
    assert (both_positions(result), copying.copy().values()) == ((2, 2, True), [b"0", b"1"])


def test_of_a_copy_that_never_had_them_nothing_is_taken_for_an_original_whatever_the_source_has_removed(
    copying: Copying,
) -> None:
    """Both ways under one name a new topic has the same offsets on both sides anyway, as long as nothing goes wrong."""
    copying.east.create(BACK)
    copying.begin(b"0")
    copying.source().write(b"1", b"2")
    copying.epoch(0.5)
    handover = copying.handovers[ORDERS]
    copying.copy().truncate(1)
    copying.copy().write(*[b"theirs"] * 5)
    copying.source().write(b"3")
    copying.source().delete_records(3)
    copying.handovers[ORDERS] = replace(handover, clean=False)
    copying.works[ORDERS] = {"left_out": (BACK,)}
    copying.epoch(60.0)
    (gap,) = copying.state().gaps.values()
    assert (gap.start, gap.end, gap.kind) == (1, 3, GapKind.TARGET_LOST)


def test_what_the_flow_back_has_not_copied_is_no_original_of_what_lies_at_its_offset(copying: Copying) -> None:
    had_kept_offsets(copying, Producer(77, 0))
    result = copying.epoch(60.0)[ORDERS]
    assert result.stopped is not None
    assert "ended at offset 0, before the position 2 recorded for it" in result.stopped


def had_kept_offsets(copying: Copying, read: Producer) -> None:
    """An application has written the copy, and ``read`` what is read at the same offsets, where the position is."""
    copying.east.create(BACK)
    key, value = writer_record(producer_of(Flow("west", "east")).producer_id, 0)
    log = copying.east[TopicPartition(BACK, 0)]
    log.put(bytes(batch.encode([Record(0, 5, key, value, (), -1)], 0, batch.PLAIN, -1)))
    copying.works[ORDERS] = {"left_out": (BACK,)}
    copying.source().write(b"0", b"1", producer=read)
    copying.copy().write(b"0", b"1")
    ids = copying.east.topic_id(ORDERS.topic), copying.west.topic_id(copying.pairs[ORDERS].topic)
    position = Position(2, 2, 0, True, 0, *ids, target=copying.pairs[ORDERS].topic, same_offsets=True)
    copying.handovers[ORDERS] = Handover(position, (Run(0, 0, 2),), clean=False)
