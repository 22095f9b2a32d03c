"""Where a copy under its own name is gone on with, whose end others write to: behind what the flow itself has written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.copier import same_places
from mirror.copier.append_point import AppendPoint
from mirror.copier.placing import LogHistory
from mirror.copier.resume import Ends, NotYet, Place, Ready, Refused
from mirror.copier.same_lane import SameOffsetsLane
from mirror.copier.tail_match import Batch
from mirror.copier.work import FlowWork, GapPolicy, Handover, PartitionWork
from mirror.kafka import batch
from mirror.kafka.channel import Channel
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.gap import Gap, GapKind
from mirror.model.leader_epochs import EpochEnd, find_divergence
from mirror.model.offset_map import Run
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.same_offsets.chain import producer_of
from mirror.same_offsets.fillers import RESERVED_KEY
from tests.flows import flow_work
from tests.unit.copier.builders import as_logged, dense, record
from tests.unit.copier.lanes import take

FLOW, ORDERS = Flow("west", "east"), TopicPartition("orders", 0)
OURS, THEIRS = producer_of(FLOW).producer_id, 7
Stretch = tuple[int, int, int]


@pytest.mark.parametrize(
    ("batches", "until"),
    [
        ([(10, 12, OURS), (12, 13, OURS)], 13),
        ([(10, 12, OURS), (12, 20, THEIRS)], 12),
        ([(10, 20, THEIRS)], 10),
        # Markers are not handed out: who has written them, nobody can tell.
        ([(10, 12, OURS), (14, 20, THEIRS)], 12),
        ([(10, 12, OURS)], 12),
        ([], 10),
    ],
)
def test_what_others_have_written_behind_the_position_is_theirs_also_a_marker_at_the_end(
    batches: Sequence[Stretch], until: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = max((each[1] for each in batches), default=10) + (until in (10, 12) and not batches[1:])

    def read(_: Channel, __: TopicPartition, start: int, ___: int) -> Iterator[tuple[None, Any]]:
        assert start == 10
        for first, behind, producer in batches:
            yield None, SimpleNamespace(base_offset=first, next_offset=behind, producer_id=producer)

    monkeypatch.setattr(same_places, "read_batches", read)
    work = PartitionWork(FLOW, ORDERS, ORDERS, "id", None)
    flow, ends = cast(FlowWork, SimpleNamespace(flow=FLOW)), Ends(0, 10, 0, end, end, 10)
    at = Position(10, 10, 0, True, same_offsets=True)
    assert same_places._own_until(work, ends, at, end, flow, cast(Channel, None), cast(Channel, None)) == until


@pytest.mark.parametrize(
    ("is_two_way", "position", "copied_back", "expected"),
    [
        # Records come to the original before this flow has read that it is one: they are being copied.
        (True, 0, None, NotYet),
        # What the flow back had copied was of topics made anew since.
        (True, 0, ("before", "before"), NotYet),
        # What is on record as copied is not there any more, whoever writes to the copy.
        (True, 5, None, Refused),
        (False, 0, None, Refused),
    ],
)
def test_a_copy_that_is_longer_than_its_source_is_waited_for_while_it_may_be_the_original(
    is_two_way: bool, position: int, copied_back: tuple[str, str] | None, expected: type[NotYet | Refused]
) -> None:
    on_record = Position(position, position, 0, True, 0, "here", "there", same_offsets=True)
    back = Position(0, 0, 0, True, 0, *copied_back, same_offsets=True) if copied_back is not None else None
    work = PartitionWork(FLOW, ORDERS, ORDERS, "here", None, target_id="there", is_two_way=is_two_way, copied_back=back)
    ends = cast(Ends, SimpleNamespace(source_start=0, source_end=3, source_written=3, target_start=0, target_end=10))
    place = gone_on(work, Handover(on_record, (), clean=True), ends)
    assert type(place) is expected
    if isinstance(place, Refused):
        advised = "it may be the original: delete it only if all" if is_two_way else "delete the topic there to have"
        assert advised in place.reason


@pytest.mark.parametrize(
    ("source_written", "back", "is_told"),
    [
        (4, None, True),
        (0, None, False),
        # What the flow back had copied was of topics made anew since.
        (4, Position(0, 0, 0, True, 0, "before", "before", same_offsets=True), True),
    ],
)
def test_where_both_sides_hold_records_before_either_is_copied_each_flow_names_what_ends_that(
    source_written: int, back: Position | None, is_told: bool
) -> None:
    """Each waited for the other one for good, and named nothing that anybody could do."""
    work = PartitionWork(FLOW, ORDERS, ORDERS, "here", None, target_id="there", is_two_way=True, copied_back=back)
    place = same_places._begun(
        cast(FlowWork, SimpleNamespace(flow=FLOW)),
        work,
        Ends(0, source_written, 0, 9, 9, source_written),
        AppendPoint(9, 0, is_compacted=False),
        cast(LogHistory, None),
    )
    assert isinstance(place, NotYet)
    assert ("it waits until east->west has copied it" in place.reason, "delete the topic there" in place.reason) == (
        True,
        is_told,
    )


def gone_on(
    work: PartitionWork,
    handover: Handover,
    ends: Ends,
    history: SimpleNamespace = SimpleNamespace(divergence=lambda *_: None),  # noqa: B008  # nobody changes it
    *,
    is_compacted: bool = False,
) -> Place:
    return same_places._gone_on(
        cast(FlowWork, SimpleNamespace(flow=FLOW, read_committed=False)),
        work,
        handover,
        ends,
        AppendPoint(ends.target_end, 0, is_compacted=is_compacted),
        cast(LogHistory, history),
        cast(Channel, "source"),
        cast(Channel, "target"),
    )


def test_of_leaders_that_are_not_on_record_what_was_compared_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Written under a new leader, copied, and not recorded: the copy was taken for one of another log, and stopped."""
    log_of(monkeypatch)
    on_record = Position(5, 5, 0, True, 0, "here", "there", epochs=(EpochEnd(3, 5),), same_offsets=True)
    work = PartitionWork(FLOW, ORDERS, TopicPartition("west.orders", 0), "here", None, target_id="there")
    source = {3: EpochEnd(3, 5), 4: EpochEnd(4, 8)}
    history = SimpleNamespace(divergence=lambda _, at: find_divergence(at.epochs, at.upstream, source.get))
    ends = Ends(0, 8, 0, 8, 8, 8)
    first = gone_on(work, Handover(on_record, (Run(0, 0, 5),), clean=True), ends, history)
    assert isinstance(first, Ready)
    assert (first.handover.position.upstream, first.handover.position.epochs) == (8, ())
    assert isinstance(gone_on(work, first.handover, ends, history), Ready)
    source[3] = EpochEnd(3, 8)
    kept = gone_on(work, Handover(on_record, (Run(0, 0, 5),), clean=True), ends, history)
    assert isinstance(kept, Ready)
    assert kept.handover.position.epochs == on_record.epochs


def lies_at(offset: int, producer: int, value: bytes | None, leader_epoch: int = 0, key: bytes | None = None) -> Batch:
    """Return a batch of one record as it lies in a log."""
    content, header = as_logged(
        batch.encode([batch.Record(0, 0, key, value, (), -1)], 0, batch.Producer(producer, 0), 0), offset
    )
    return content, header._replace(leader_epoch=leader_epoch)


@pytest.mark.parametrize("markers", [0, 1])
def test_under_which_leaders_was_written_what_is_compared_is_on_record_from_then_on(
    markers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With none on record the source could have been truncated, and written again, without being found out."""

    def read(channel: Channel, _: TopicPartition, start: int, end: int, **__: object) -> Iterator[Batch]:
        for offset in range(start, end - markers):
            is_source = str(channel) == "source"
            yield lies_at(offset, THEIRS if is_source else OURS, b"%d" % offset, 3 + (offset > 6) if is_source else 0)

    monkeypatch.setattr(same_places, "read_batches", read)
    on_record = Position(5, 5, 0, True, 0, "here", "there", epochs=(EpochEnd(3, 5),), same_offsets=True)
    work = PartitionWork(FLOW, ORDERS, TopicPartition("west.orders", 0), "here", None, target_id="there")
    source = {3: EpochEnd(3, 7), 4: EpochEnd(4, 9 - markers), 5: EpochEnd(5, 9)}
    history = SimpleNamespace(divergence=lambda _, at: find_divergence(at.epochs, at.upstream, source.get))
    place = gone_on(work, Handover(on_record, (Run(0, 0, 5),), clean=True), Ends(0, 9, 0, 9, 9, 9), history)
    assert isinstance(place, Ready)
    # Who wrote the marker that is last is not known, and the log of the leader before it ends there.
    assert place.handover.position.epochs == (() if markers else (EpochEnd(3, 7), EpochEnd(4, 9)))


@pytest.mark.parametrize(("starts_at", "is_followed"), [(5, False), (6, True), (9, True), (12, True)])
def test_what_the_source_has_removed_of_what_came_from_the_copy_is_no_gap(
    starts_at: int, is_followed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy is the original of it: it was reported as missing on the flow that leads home."""
    log_of(monkeypatch)
    on_record = Position(5, 5, 0, True, 0, "here", "there", same_offsets=True)
    gap = Gap(ORDERS, 1, 2, "removed", 1).record()
    handover = Handover(on_record, (Run(0, 0, 5),), clean=True, unwritten=(gap,))
    back = Position(10, 10, 0, True, 0, "there", "here", same_offsets=True)
    work = PartitionWork(FLOW, ORDERS, ORDERS, "here", handover, target_id="there", is_two_way=True, copied_back=back)
    place = gone_on(work, handover, Ends(starts_at, 12, 0, 10, 10, 12))
    assert isinstance(place, Ready)
    assert (place.handover.position.read_from, place.followed_to) == (10, 10 if is_followed else None)
    assert place.records[0] == gap


def test_a_gap_that_was_found_and_not_recorded_is_on_record_when_a_copy_is_made_anew() -> None:
    """The topic of the copy was deleted before the next commit."""
    gap = Gap(ORDERS, 1, 2, "removed", 1).record()
    on_record = Position(5, 5, 0, True, 0, "here", "before", same_offsets=True)
    handover = Handover(on_record, (), clean=True, unwritten=(gap,))
    work = PartitionWork(FLOW, ORDERS, TopicPartition("west.orders", 0), "here", handover, target_id="there")
    place = same_places._begun(
        cast(FlowWork, SimpleNamespace(flow=FLOW, from_latest=False)),
        work,
        Ends(0, 5, 0, 0, 0, 5),
        AppendPoint(0, 0, is_compacted=False),
        cast(LogHistory, None),
    )
    assert isinstance(place, Ready)
    assert place.records[0] == gap


FORMER = Position(5, 5, 0, True, 0, "here", "before", same_offsets=True)
"""How far a copy had got that was deleted."""


def begun_anew(
    starts_at: int, *, policy: GapPolicy | None = None, back: Position | None = None, before: Position = FORMER
) -> Place:
    """Begin with a copy that was deleted; the source, which ends at 20, begins elsewhere by now."""
    target = ORDERS if back is not None else TopicPartition("west.orders", 0)
    work = PartitionWork(
        *(FLOW, ORDERS, target, "here", Handover(before, (), clean=True)),
        target_id="there",
        gaps=policy or GapPolicy(),
        pad_limit=1_000,
        is_two_way=back is not None,
        copied_back=back,
    )
    return same_places._begun(
        cast(FlowWork, SimpleNamespace(flow=FLOW, from_latest=False)),
        work,
        Ends(starts_at, 20, 0, 0, 0, 20),
        AppendPoint(0, 0, is_compacted=False),
        cast(LogHistory, SimpleNamespace(state=lambda *_: FlowState())),
    )


def gaps_in(place: Place) -> list[Gap]:
    assert isinstance(place, Ready | Refused)
    state = FlowState()
    for key, value in place.records:
        state.apply(key, value)
    return list(state.gaps.values())


def test_what_the_source_removed_before_it_was_copied_to_a_copy_that_was_deleted_since_is_a_gap() -> None:
    """Both clusters had lost it, and nothing said so: what is made anew begins where the source does."""
    place = begun_anew(9)
    assert isinstance(place, Ready)
    assert place.handover.position.origin == 9
    (gap,) = gaps_in(place)
    assert (gap.start, gap.end, gap.kind, gap.passed, gap.topic_id) == (5, 9, GapKind.RETENTION, True, "here")
    assert gaps_in(begun_anew(5)) == []
    assert gaps_in(begun_anew(3)) == []
    (of_the_former_log,) = gaps_in(begun_anew(9, before=replace(FORMER, topic_id="former")))
    assert of_the_former_log.kind is GapKind.RECREATED
    assert isinstance(begun_anew(9, policy=GapPolicy(stops=True), before=replace(FORMER, topic_id="former")), Ready)


def test_a_gap_before_a_copy_that_is_made_anew_stops_it_where_that_is_wanted_until_it_is_acknowledged() -> None:
    stopped = begun_anew(9, policy=GapPolicy(stops=True))
    assert isinstance(stopped, Refused)
    assert "to let the copy go on, acknowledge it" in stopped.reason
    (barrier,) = gaps_in(stopped)
    assert (barrier.start, barrier.end, barrier.passed) == (5, 9, False)
    again = begun_anew(11, policy=GapPolicy(True, barrier))
    assert isinstance(again, Refused)
    assert again.records == ()
    lifted = begun_anew(11, policy=GapPolicy(True, barrier, is_lifted=True))
    assert isinstance(lifted, Ready)
    (gap,) = gaps_in(lifted)
    assert (gap.key, gap.end, gap.passed) == (barrier.key, 11, True)


def test_what_is_on_record_as_a_gap_already_is_not_told_once_more_when_a_copy_is_made_anew() -> None:
    before = replace(FORMER, passed_gaps=((5, 7),))
    assert gaps_in(begun_anew(7, before=before)) == []
    (gap,) = gaps_in(begun_anew(9, before=before))
    assert (gap.start, gap.end) == (7, 9)
    (gap,) = gaps_in(begun_anew(9, before=replace(FORMER, passed_gaps=((7, 9),))))
    assert (gap.start, gap.end) == (5, 7)


def test_what_came_from_the_copy_that_was_deleted_is_no_gap_of_the_source() -> None:
    """A topic under its own name is made anew to be copied home: the flow back had copied it, or begun behind it."""
    former = Position(12, 12, 0, True, 0, "before", "here", same_offsets=True)
    assert gaps_in(begun_anew(9, back=former)) == []
    (gap,) = gaps_in(begun_anew(15, back=former))
    assert (gap.start, gap.end) == (12, 15)
    headless = Position(15, 0, 15, True, 0, "before", "here", same_offsets=True)
    assert gaps_in(begun_anew(15, back=headless)) == []
    (gap,) = gaps_in(begun_anew(15, back=replace(former, target_id="former")))
    assert (gap.start, gap.end) == (5, 15)


@pytest.mark.parametrize("copy_begins", [0, 6, 7, 9, 10])
def test_what_was_removed_from_the_copy_behind_the_position_on_record_is_nobody_s_write(
    copy_begins: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine was killed, and retention or somebody removed what it had copied last: the copy stopped for good."""

    def read(channel: Channel, _: TopicPartition, start: int, end: int, **__: object) -> Iterator[tuple[Any, Any]]:
        first, producer = {"source": (0, THEIRS), "target": (copy_begins, OURS)}[str(channel)]
        for offset in range(max(first, start), end):
            yield lies_at(offset, producer, b"%d" % offset)

    monkeypatch.setattr(same_places, "read_batches", read)
    on_record = Position(6, 6, 0, True, 0, "here", "there", same_offsets=True)
    work = PartitionWork(FLOW, ORDERS, TopicPartition("west.orders", 0), "here", None, target_id="there")
    place = gone_on(work, Handover(on_record, (Run(0, 0, 6),), clean=False), Ends(0, 12, copy_begins, 10, 10, 12))
    assert isinstance(place, Ready), place
    assert place.handover.position.upstream == 10
    assert place.handover.runs == (Run(0, 0, 10),)


@pytest.mark.parametrize(
    ("theirs_in_the_copy", "source_has", "end"), [(False, False, 10), (True, False, 6), (False, True, 6)]
)
def test_markers_of_a_killed_engine_over_an_aborted_transaction_are_passed(
    theirs_in_the_copy: bool, source_has: bool, end: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were taken for the end of what the flow has written, and both topics for ones with different records."""

    def read(channel: Channel, _: TopicPartition, start: int, to: int, **__: object) -> Iterator[tuple[Any, Any]]:
        for offset in range(start, to) if {"source": source_has, "target": theirs_in_the_copy}[str(channel)] else ():
            yield lies_at(offset, THEIRS, b"order")

    monkeypatch.setattr(same_places, "read_batches", read)
    work = PartitionWork(FLOW, ORDERS, ORDERS, "here", None, target_id="there", is_two_way=True)
    flow = cast(FlowWork, SimpleNamespace(flow=FLOW, read_committed=True))
    channels = cast(Channel, "source"), cast(Channel, "target")
    at = Position(6, 6, 0, True, same_offsets=True)
    assert same_places._own_until(work, Ends(0, 10, 0, 10, 10, 10), at, 10, flow, *channels) == end


@pytest.mark.parametrize(
    ("topic_id", "is_two_way", "begin"), [("here", False, 100), ("former", False, 20), ("here", True, 20)]
)
def test_a_copy_of_a_topic_that_is_another_or_comes_home_has_all_of_it(
    topic_id: str, is_two_way: bool, begin: int
) -> None:
    handover = Handover(Position(500, 500, 100, False, 0, topic_id, "there"), (), clean=True)
    work = PartitionWork(FLOW, ORDERS, ORDERS, "here", handover, target_id="", is_two_way=is_two_way, pad_limit=1_000)
    flow = replace(flow_work(), flow=FLOW, from_latest=True)
    history = cast(LogHistory, SimpleNamespace(state=lambda *_: FlowState()))
    place = same_places._begun(flow, work, Ends(20, 900, 0, 0, 0, 900), AppendPoint(0, 0, False), history)
    assert isinstance(place, Ready)
    assert place.handover.position.origin == begin


def begins_at(place: Place) -> int:
    assert isinstance(place, Ready), place
    assert place.append_point is not None
    return place.append_point.begins_at


def log_of(monkeypatch: pytest.MonkeyPatch, *batches: tuple[int, bytes | None, bytes | None]) -> None:
    """Have the copy begin with these batches, of a producer and of a record with a key and a value."""

    def read(*_: object, **__: object) -> Iterator[Batch]:
        for producer, key, value in batches:
            one = batch.Record(0, 0, key, value, (), -1)
            yield as_logged(batch.encode([one], 0, batch.Producer(producer, 0), 0), 0)

    monkeypatch.setattr(same_places, "read_batches", read)


PADDING, TOMBSTONE, COPIED = (OURS, None, None), (OURS, RESERVED_KEY, None), (OURS, None, b"order")
ORDER, EMPTY = (THEIRS, None, b"order"), (THEIRS, None, None)


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        # Records of applications, or one that this flow has copied while these were on the other side.
        ([ORDER], -1),
        ([EMPTY], -1),
        ([COPIED], -1),
        ([PADDING, ORDER], -1),
        # Records of applications without key and value, which this flow has copied there once, and others behind them.
        ([PADDING, COPIED], -1),
        ([], -1),
        # An engine was killed before it had removed its padding.
        ([PADDING, PADDING], 500),
    ],
)
def test_only_padding_of_the_flow_itself_is_removed_from_the_beginning_of_a_copy(
    batches: list[tuple[int, bytes | None, bytes | None]], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records of an original were deleted when the flow back, which had nothing to copy, looked a second time."""
    log_of(monkeypatch, *batches)
    back = Position(500, 500, 500, False, 0, "there", "here", same_offsets=True)
    work = PartitionWork(FLOW, ORDERS, ORDERS, "here", None, target_id="there", is_two_way=True, copied_back=back)
    ends = Ends(500, 500, 0, 500, 500, 500)
    first = same_places._begun(
        cast(FlowWork, SimpleNamespace(flow=FLOW, from_latest=False)),
        work,
        ends,
        AppendPoint(500, 0, is_compacted=False),
        cast(LogHistory, SimpleNamespace()),
    )
    assert begins_at(first) == -1
    assert isinstance(first, Ready)
    assert begins_at(gone_on(work, first.handover, ends)) == expected


@pytest.mark.parametrize(
    ("batches", "is_refused"),
    [([], False), ([PADDING], False), ([TOMBSTONE], False), ([ORDER], True), ([PADDING, ORDER], True)],
)
@pytest.mark.parametrize("is_two_way", [False, True])
def test_a_copy_that_others_have_written_to_before_its_head_was_whole_stops(
    batches: list[tuple[int, bytes | None, bytes | None]],
    is_refused: bool,
    is_two_way: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Applications moved to it while no engine ran: what they had written was removed with the padding."""
    log_of(monkeypatch, *batches)
    on_record = Position(500, 0, 500, True, 0, "here", "there", same_offsets=True)
    work = PartitionWork(FLOW, ORDERS, ORDERS, "here", None, target_id="there", is_two_way=is_two_way)
    place = gone_on(work, Handover(on_record, (), clean=True), Ends(500, 600, 0, 5, 5, 600))
    if is_refused:
        assert isinstance(place, Refused)
        assert "holds records of somebody else before offset 500" in place.reason
    else:
        assert begins_at(place) == 500


def test_what_others_write_at_the_offset_of_a_parked_record_stops_the_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The position is behind it before its offset is filled; that an engine was killed in between nobody noticed."""
    log_of(monkeypatch, ORDER)
    on_record = Position(6, 5, 0, True, 0, "here", "there", same_offsets=True)
    work = PartitionWork(FLOW, ORDERS, TopicPartition("west.orders", 0), "here", None, target_id="there")
    handover = Handover(on_record, (Run(0, 0, 5),), clean=True)
    place = gone_on(work, handover, Ends(0, 6, 0, 6, 6, 6))
    assert isinstance(place, Refused)
    assert "somebody else has written at offset" in place.reason
    log_of(monkeypatch)
    assert isinstance(gone_on(work, handover, Ends(0, 6, 0, 6, 6, 6)), Ready)


@pytest.mark.parametrize(
    ("is_made_anew", "advice"),
    [
        (False, "keeps what it has: delete the topic there to have it made anew, or set mirror.offsets.recreated"),
        (True, "is deleted by the engine, to be made anew, as mirror.offsets.recreated says"),
    ],
)
def test_a_partition_that_a_recreated_topic_has_more_is_not_begun_in_the_copy_of_the_former_one(
    is_made_anew: bool, advice: str
) -> None:
    """Nobody is told to delete what the engine is about to delete."""
    work = PartitionWork(
        FLOW,
        ORDERS,
        TopicPartition("west.orders", 0),
        "new",
        None,
        target_id="old",
        is_outdated=True,
        is_made_anew=is_made_anew,
    )
    place = same_places._begun(
        cast(FlowWork, SimpleNamespace(flow=FLOW)),
        work,
        cast(Ends, SimpleNamespace(target_end=0)),
        AppendPoint(0, 0, is_compacted=False),
        cast(LogHistory, None),
    )
    assert isinstance(place, Refused)
    assert place.reason.startswith("orders on west was deleted and created anew")
    assert f"west.orders on east {advice}" in place.reason


def copied_by_the_flow(source_starts: int, copy_ends: int) -> Callable[..., Iterator[Batch]]:
    """Have the copy hold what this flow has copied, and the source what applications have written."""

    def read(channel: Channel, _: TopicPartition, start: int, end: int, **__: object) -> Iterator[Batch]:
        is_source = str(channel) == "source"
        for offset in range(max(start, source_starts if is_source else 0), min(end, 99 if is_source else copy_ends)):
            yield lies_at(offset, THEIRS if is_source else OURS, b"%d" % offset)

    return read


@pytest.mark.parametrize("back_at", [5, 8, 16])
@pytest.mark.parametrize("starts_at", [4, 15, 20])
def test_what_the_flow_itself_has_copied_behind_what_was_copied_back_is_neither_a_gap_nor_somebody_else_s(
    starts_at: int, back_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both engines were killed: this flow had copied up to 20, 5 is on record, and of the flow back a bit more."""
    monkeypatch.setattr(same_places, "read_batches", copied_by_the_flow(starts_at, 20))
    on_record = Position(5, 5, 0, True, 0, "here", "there", same_offsets=True)
    back = Position(back_at, back_at, 0, True, 0, "there", "here", same_offsets=True)
    handover = Handover(on_record, (Run(0, 0, 5),), clean=False)
    work = PartitionWork(
        FLOW, ORDERS, ORDERS, "here", handover, target_id="there", is_two_way=True, copied_back=back, pad_limit=1000
    )
    place = gone_on(work, handover, Ends(starts_at, 23, 0, 20, 20, 23))
    assert isinstance(place, Ready)
    assert place.append_point is not None
    lane = SameOffsetsLane(work, place.handover, producer_of(FLOW), place.append_point, None)
    if lane.fetch_position < starts_at:
        lane.skip_gap(starts_at, 1)
    first = max(lane.fetch_position, starts_at)
    take(lane, dense([record(offset) for offset in range(first, 23)]))
    assert lane.wants_look
    lane.asks()
    lane.looked(20)
    # But for the chunk and the position.
    assert (lane.stopped, lane.unrecorded()[:-2]) == (None, [])


def test_where_the_source_has_removed_its_records_markers_of_others_do_not_pass_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The copy has markers at 5 and 6; the source had records up to 20 that were never copied, and has removed them."""
    monkeypatch.setattr(same_places, "read_batches", copied_by_the_flow(20, 5))
    on_record = Position(5, 5, 0, True, 0, "here", "there", same_offsets=True)
    back = Position(5, 5, 0, True, 0, "there", "here", same_offsets=True)
    handover = Handover(on_record, (Run(0, 0, 5),), clean=False)
    work = PartitionWork(
        FLOW, ORDERS, ORDERS, "here", handover, target_id="there", is_two_way=True, copied_back=back, pad_limit=1000
    )
    place = gone_on(work, handover, Ends(20, 23, 0, 7, 7, 23))
    assert isinstance(place, Ready)
    state = FlowState()
    assert place.append_point is not None
    lane = SameOffsetsLane(work, place.handover, producer_of(FLOW), place.append_point, None)
    lane.skip_gap(20, 1)
    for key, value in (*place.records, *lane.unrecorded()):
        state.apply(key, value)
    assert [(each.start, each.end) for each in state.open_gaps] == [(5, 20)]


def test_offsets_that_the_source_has_again_are_read_although_they_were_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that had fallen behind was elected: it wrote on at 150, within what its leader had removed."""
    monkeypatch.setattr(same_places, "read_batches", lambda *_, **__: iter(()))
    epochs = (EpochEnd(3, 60),)
    on_record = Position(
        60, 60, 0, True, 0, "here", "there", epochs=epochs, same_offsets=True, passed_gaps=((10, 200),)
    )
    handover = Handover(on_record, (Run(0, 0, 10),), clean=False)
    work = PartitionWork(FLOW, ORDERS, TopicPartition("west.orders", 0), "here", handover, target_id="there")
    source = {3: EpochEnd(3, 150), 4: EpochEnd(4, 180)}
    history = SimpleNamespace(divergence=lambda _, at: find_divergence(at.epochs, at.upstream, source.get))
    place = gone_on(work, handover, Ends(0, 180, 0, 60, 60, 180), history)
    assert isinstance(place, Ready)
    assert place.handover.read_from == 60


def test_what_was_written_within_a_head_that_is_not_filled_is_not_taken_for_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """East's partition is empty and begins at 1000; west was padded to 300, and applications have written on there."""
    monkeypatch.setattr(same_places, "read_batches", copied_by_the_flow(300, 0))
    there = Position(1000, 300, 1000, True, 0, "there", "here", same_offsets=True)
    work = PartitionWork(
        *(FLOW, ORDERS, ORDERS, "here", None), target_id="there", is_two_way=True, copied_back=there, pad_limit=10_000
    )
    place = same_places._place(
        cast(FlowWork, SimpleNamespace(flow=FLOW, read_committed=False, from_latest=False)),
        work,
        Ends(0, 400, 1000, 1000, 1000, 400),
        AppendPoint(1000, 0, is_compacted=False),
        cast(LogHistory, None),
        cast(Channel, "source"),
        cast(Channel, "target"),
    )
    assert not isinstance(place, Ready) or place.handover.position.upstream <= 300


HEADLESS = Position(150, 0, 150, True, 0, "there", "here", same_offsets=True)
"""Of a flow back whose source had removed its offsets up to 150, while the head of its copy is being filled."""


@pytest.mark.parametrize("before", [None, Position(0, 0, 0, True, 0, "here", "there", same_offsets=True)])
@pytest.mark.parametrize(("starts_at", "goes_on_at"), [(0, 0), (150, 150), (160, 0)])
def test_the_head_that_the_flow_back_has_padded_and_removed_is_no_gap(
    starts_at: int, goes_on_at: int, before: Position | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was told as lost of both clusters where one of them had removed it, and the failback was refused.

    What starts elsewhere was removed by somebody else, who may have removed what was written there.
    """
    log_of(monkeypatch, ORDER)
    handover = Handover(before, (), clean=True) if before is not None else None
    work = PartitionWork(
        *(FLOW, ORDERS, ORDERS, "here", handover), target_id="there", is_two_way=True, copied_back=HEADLESS
    )
    place = same_places._place(
        cast(FlowWork, SimpleNamespace(flow=FLOW, read_committed=False, from_latest=False)),
        work,
        Ends(starts_at, 200, 150, 500, 500, 200),
        AppendPoint(500, 0, is_compacted=False),
        cast(LogHistory, SimpleNamespace(divergence=lambda *_: None)),
        cast(Channel, "source"),
        cast(Channel, "target"),
    )
    assert isinstance(place, Ready), place
    assert place.handover.position.read_from == goes_on_at


def goes_on_with(
    monkeypatch: pytest.MonkeyPatch,
    held: str,
    epochs: Sequence[int],
    gaps: tuple[tuple[int, int], ...] = (),
    *,
    is_compacted: bool,
    known: int | None = 3,
) -> Place:
    """Go on at 5 with a copy that has from there on, a letter an offset, a copy, a tombstone, an other or no record.

    The source has a record at each offset, by who led when it was written.
    """

    def read(channel: Channel, _: TopicPartition, start: int, end: int, **__: object) -> Iterator[Batch]:
        for at in range(max(5, start), end):
            if str(channel) == "source":
                yield lies_at(at, THEIRS, b"%d" % at, epochs[at - 5])
            elif (kind := held[at - 5]) != "_":
                key, value = {"t": (RESERVED_KEY, None), "o": (None, b"other"), "c": (None, b"%d" % at)}[kind]
                yield lies_at(at, OURS, value, key=key)

    monkeypatch.setattr(same_places, "read_batches", read)
    read_of = (EpochEnd(known, 5),) if known is not None else ()
    on_record = Position(5, 5, 0, True, 0, "here", "there", epochs=read_of, same_offsets=True, passed_gaps=gaps)
    work = PartitionWork(FLOW, ORDERS, TopicPartition("west.orders", 0), "here", None, target_id="there")
    end = 5 + len(held)
    ends = Ends(0, end, 0, end, end, end)
    return gone_on(work, Handover(on_record, (Run(0, 0, 5),), clean=False), ends, is_compacted=is_compacted)


@pytest.mark.parametrize(
    ("held", "gaps", "is_compacted", "runs"),
    [
        # The replica that was read had been cleaned, and another one leads.
        ("ctt", (), True, [Run(0, 0, 6)]),
        ("tct", (), True, [Run(0, 0, 5), Run(6, 6, 1)]),
        # A gap is on record that the source has in part again; some of it was copied then.
        ("__", ((5, 9),), False, [Run(0, 0, 5)]),
        ("_c", ((5, 9),), False, [Run(0, 0, 5), Run(6, 6, 1)]),
        ("tt", ((5, 9),), True, [Run(0, 0, 5)]),
    ],
)
def test_what_fills_offsets_at_which_another_replica_of_the_source_has_records_is_neither_somebody_else_s_nor_a_copy(
    held: str,
    gaps: tuple[tuple[int, int], ...],
    is_compacted: bool,
    runs: list[Run],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was taken for a foreign record, and the partition stopped for good."""
    place = goes_on_with(monkeypatch, held, [3] * len(held), gaps, is_compacted=is_compacted)
    assert isinstance(place, Ready), place
    assert place.handover.position.upstream == 5 + len(held)
    assert list(place.handover.runs) == runs


@pytest.mark.parametrize(
    ("held", "gaps", "is_compacted", "reason"),
    [
        # Nothing of what a log keeps that is not cleaned by key may be passed by, unless it is on record.
        ("t", (), False, "something else lies at offset 5"),
        ("_", (), False, "something else lies at offset 5"),
        ("__", ((5, 6),), False, "something else lies at offset 6"),
        ("o", (), True, "its record at offset 5 is not the source's"),
        ("o", ((5, 9),), False, "its record at offset 5 is not the source's"),
        ("to", (), True, "its record at offset 6 is not the source's"),
    ],
)
def test_a_record_of_the_source_that_no_gap_and_no_cleaner_explains_stops_the_copy(
    held: str, gaps: tuple[tuple[int, int], ...], is_compacted: bool, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = goes_on_with(monkeypatch, held, [3] * len(held), gaps, is_compacted=is_compacted)
    assert isinstance(place, Refused)
    assert reason in place.reason


@pytest.mark.parametrize(
    ("held", "epochs", "known", "lacked"),
    [
        # The last thing copied was a marker; the source has lost it since, and another leader has written there.
        ("t", [4], 3, 5),
        ("tt", [3, 4], 3, 6),
        ("ctt", [4, 5, 6], 3, 6),
        ("ctt", [4, 4, 4], 3, None),
        # Both have what is behind it: it is the same log.
        ("ttc", [4, 4, 4], 3, None),
        # Nothing was copied yet, or by a version that knew no leaders.
        ("t", [4], None, None),
        ("t", [-1], 3, None),
    ],
)
def test_a_filler_where_a_truncated_source_has_another_record_by_now_stops_the_copy(
    held: str, epochs: list[int], known: int | None, lacked: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = goes_on_with(monkeypatch, held, epochs, is_compacted=True, known=known)
    if lacked is None:
        assert isinstance(place, Ready), place
    else:
        assert isinstance(place, Refused)
        assert f"it lacks the source's record at offset {lacked}, of a later leader" in place.reason


@pytest.mark.parametrize(
    ("value", "behind", "lost"),
    [
        (b"order", [], 4),
        (b"order", [b"other"], 4),
        # The copy of that one is what the cleaner has removed the record for.
        (b"order", [b"key"], None),
        # Up to there the copy does not reach: no cleaner has removed anything for what is not copied yet.
        (b"order", [b"other", b"key"], 4),
        # What deletes a key is removed after a while without any.
        (None, [], None),
    ],
)
def test_of_a_compacted_copy_the_last_record_is_lost_where_no_later_one_of_its_key_explains_that_it_is_gone(
    value: bytes | None, behind: Sequence[bytes], lost: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target has lost it, and the cleaner has removed what filled its offset since."""
    source = [(4, b"key", value), *((5 + number, key, b"later") for number, key in enumerate(behind))]

    def read(channel: Channel, _: TopicPartition, start: int, end: int, **__: object) -> Iterator[Batch]:
        for offset, key, content in source if str(channel) == "source" else ():
            if start <= offset < end:
                yield lies_at(offset, THEIRS, content, key=key)

    monkeypatch.setattr(same_places, "read_batches", read)
    on_record = Position(5, 5, 0, True, 0, "here", "there", same_offsets=True)
    work = PartitionWork(FLOW, ORDERS, TopicPartition("west.orders", 0), "here", None, target_id="there")
    ends = Ends(0, 9, 0, 6, 6, 9)
    place = gone_on(work, Handover(on_record, (Run(0, 0, 5),), clean=False), ends, is_compacted=True)
    if lost is None:
        assert isinstance(place, Ready), place
    else:
        assert isinstance(place, Refused)
        assert f"something else lies at offset {lost}, where the source has a record that was copied" in place.reason
