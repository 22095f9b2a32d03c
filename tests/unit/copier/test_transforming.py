"""A lane with transforms accounts for every record too, and its tail is matched as it was sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from mirror.copier.lane import Lane
from mirror.copier.resume import Ends, Logs, Ready, Refused, resume
from mirror.copier.syncs import PartitionSyncs
from mirror.copier.tail_match import Batch
from mirror.copier.work import Handover, PartitionWork
from mirror.kafka import batch
from mirror.kafka.batch import Record
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.offset_map import Run
from mirror.model.position import Position
from mirror.model.transforms.chain import ChainedTransform, TopicTransform
from mirror.model.transforms.stock import Filter, HasHeaderKey, InsertHeader
from tests.unit.copier.builders import as_logged, dense, record, sparse
from tests.unit.copier.lanes import OURS, SOURCE, TARGET, own, send_all, take, transform_of

MARKED = ("marked", b"1")


WITHOUT_MARKED_AND_STAMPED = transform_of(
    ChainedTransform("drop", Filter(), HasHeaderKey("marked")), ChainedTransform("stamp", InsertHeader("from", b"east"))
)


def new_lane(transform: TopicTransform, upstream: int = 0, downstream: int = 0) -> Lane:
    work = PartitionWork(Flow("east", "west"), SOURCE, TARGET, "id", None, transform=transform)
    handover = Handover(Position(upstream, downstream, upstream, True), (), clean=True)
    return Lane(work, handover, OURS, 0, PartitionSyncs(SOURCE, 100))


def state_of(lane: Lane) -> FlowState:
    state = FlowState()
    for key, value in lane.unrecorded():
        state.apply(key, value)
    return state


def pairs(runs: Sequence[Run]) -> list[tuple[int, int]]:
    return [(run.upstream + number, run.downstream + number) for run in runs for number in range(run.length)]


def marked(each: Record) -> Record:
    return each._replace(headers=(*each.headers, MARKED))


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[Batch], list[Record]]:
    """Batches, some compacted, all codecs; of some records the transform drops every one."""
    batches, records, offset = [], [], 0
    for count, hole, codec, drops, kept in draw(
        st.lists(
            st.tuples(
                st.integers(1, 5),
                st.integers(0, 2),
                st.integers(0, 4),
                st.sets(st.integers(0, 4), max_size=5),
                st.sets(st.integers(0, 4), max_size=4),
            ),
            min_size=1,
            max_size=6,
        )
    ):
        whole = [record(offset + number) for number in range(count)]
        whole = [marked(each) if number in drops else each for number, each in enumerate(whole)]
        left = [each for number, each in enumerate(whole) if number in kept]
        is_sparse = bool(left) and len(left) < count
        batches.append(sparse(left, offset, offset + count, codec) if is_sparse else dense(whole, codec))
        records += left if is_sparse else whole
        offset += count + hole
    return batches, records


def sent(records: Sequence[Record]) -> list[Record]:
    """What the transform of these tests makes of records."""
    return [each._replace(headers=(*each.headers, ("from", b"east"))) for each in records if MARKED not in each.headers]


@given(logs(), st.integers(0, 9), st.booleans())
def test_what_is_left_is_copied_in_order_and_mapped(
    log: tuple[list[Batch], list[Record]], base_offset: int, queues_up: bool
) -> None:
    """Dropped records are holes: the position moves past them, also past those at the end."""
    batches, records = log
    lane = new_lane(WITHOUT_MARKED_AND_STAMPED, 0, base_offset)
    copies: list[Record] = []
    for one in batches:
        take(lane, one)
        if not queues_up:
            copies += send_all(lane, base_offset + len(copies))
    copies += send_all(lane, base_offset + len(copies))
    expected = sent(records)
    assert [each[1:5] for each in copies] == [each[1:5] for each in expected]
    known = state_of(lane).offset_map(SOURCE)
    assert known is not None
    assert pairs(known.runs) == [(each.offset, base_offset + place) for place, each in enumerate(expected)]
    assert known.upstream_next == lane.upstream == batches[-1][1].next_offset
    assert lane.acknowledged_sequence == len(expected)


def test_the_first_record_behind_dropped_ones_owes_a_sync() -> None:
    """OSW-01, OSW-06: nothing is said of what was dropped; what follows a gap is said at once."""
    lane = new_lane(WITHOUT_MARKED_AND_STAMPED)
    take(lane, dense([record(0), marked(record(1)), record(2)]))
    send_all(lane, 10)
    assert lane.syncs is not None
    due = lane.syncs.take_due()
    assert due is not None
    assert (due.upstream, due.downstream) == (2, 11)


def test_a_failing_record_stops_the_partition_behind_what_came_before() -> None:
    lane = new_lane(own("fail_on_poison"))
    take(lane, dense([record(0), record(1)]), dense([record(2), record(3, b"poison"), record(4)]), dense([record(5)]))
    copies = send_all(lane, 0)
    assert [each.value for each in copies] == [record(number).value for number in range(3)]
    result = lane.result()
    assert result.handover is not None
    assert (result.handover.position.upstream, result.handover.position.downstream) == (3, 3)
    assert result.stopped is not None
    assert "the transform mine failed: ValueError: cannot read b'poison', at upstream offset 3 of orders-3" in (
        result.stopped
    )
    assert "errors.tolerance = all" in result.stopped


def test_a_failing_first_record_stops_it_there() -> None:
    lane = new_lane(own("fail_on_poison"))
    take(lane, dense([record(0, b"poison"), record(1)]))
    assert (lane.upstream, lane.is_over, lane.stream.is_idle) == (0, True, True)


def test_a_failing_record_with_holes_before_it_stops_it_right_there() -> None:
    """Nothing is missing before it; the next start begins with it."""
    lane = new_lane(own("fail_on_poison"))
    take(lane, sparse([record(3, b"poison"), record(5)], 0, 8))
    assert (lane.upstream, lane.is_over, lane.stream.is_idle) == (3, True, True)


def test_a_gap_of_records_left_out_is_to_be_written_down_though_nothing_more_is_copied() -> None:
    """What was read before them is under way, so that the position stays where it is."""
    lane = new_lane(own("fail_on_poison", skips_errors=True))
    take(lane, dense([record(0)]))
    lane.unrecorded()
    lane.recorded()
    take(lane, dense([record(1, b"poison")]))
    assert lane.upstream == 0
    assert lane.is_dirty
    assert [gap.start for gap in state_of(lane).gaps.values()] == [1]


def test_records_left_out_because_of_errors_are_gaps() -> None:
    """Each row of them is one, with the reason of its first."""
    lane = new_lane(own("fail_on_poison", skips_errors=True))
    bad = [record(number, b"poison") for number in (1, 2, 4)]
    take(lane, dense([record(0), bad[0], bad[1], record(3), bad[2]]))
    copies = send_all(lane, 0)
    assert [each.value for each in copies] == [record(0).value, record(3).value]
    gaps = state_of(lane).gaps
    assert {(start, gap.end) for (_, start, _), gap in gaps.items()} == {(1, 3), (4, 5)}
    assert all(
        "errors.tolerance = all" in gap.reason and "cannot read b'poison'" in gap.reason for gap in gaps.values()
    )
    assert (lane.upstream, lane.stopped) == (5, None)


@given(logs(), st.data())
def test_the_tail_is_matched_as_it_was_sent(log: tuple[list[Batch], list[Record]], data: st.DataObject) -> None:
    """Whatever the crash left, however it was cut: no record twice, none lost."""
    batches, records = log
    upstream = data.draw(st.integers(0, batches[-1][1].next_offset))
    expected = sent([each for each in records if each.offset >= upstream])
    there = data.draw(st.integers(0, len(expected)))
    tail, backoff = [], expected[:there]
    while backoff:
        size = data.draw(st.integers(1, len(backoff)))
        tail.append(as_logged(batch.encode(backoff[:size], 3, OURS, 0), 40 + there - len(backoff)))
        backoff = backoff[size:]
    work = PartitionWork(Flow("east", "west"), SOURCE, TARGET, "id", None, transform=WITHOUT_MARKED_AND_STAMPED)
    handover = Handover(Position(upstream, 40, 0, True), (), clean=False)
    left = [each for each in batches if each[1].next_offset > upstream]
    ends = Ends(0, 99, 0, 40 + there, 40 + there, 99)
    ready = resume(work, handover, ends, lambda producer_id: producer_id == 7, lambda: Logs(left, tail))
    assert isinstance(ready, Ready)
    assert pairs(ready.handover.runs) == [(each.offset, 40 + place) for place, each in enumerate(expected[:there])]
    lane = Lane(work, ready.handover, OURS, 0, None)
    take(lane, *[each for each in batches if each[1].next_offset > lane.fetch_position])
    assert [each[1:5] for each in send_all(lane, 40 + there)] == [each[1:5] for each in expected[there:]]


def test_what_was_left_out_before_a_crash_is_a_gap_after_it() -> None:
    work = PartitionWork(
        Flow("east", "west"), SOURCE, TARGET, "id", None, transform=own("fail_on_poison", skips_errors=True)
    )
    source = [dense([record(0), record(1, b"poison"), record(2), record(3, b"poison")])]
    # The position may lie right in front of it.
    for upstream, there in ((0, [record(0), record(2)]), (1, [record(2)])):
        tail = [as_logged(batch.encode(there, 0, OURS, 0), 0)]
        handover = Handover(Position(upstream, 0, 0, True), (), clean=False)
        ends = Ends(0, 4, 0, len(there), len(there), 4)
        ready = resume(work, handover, ends, lambda _: True, lambda tail=tail: Logs(source, tail))  # type: ignore[misc]
        assert isinstance(ready, Ready)
        state = FlowState()
        for key, value in ready.records:
            state.apply(key, value)
        assert [(start, gap.end) for (_, start, _), gap in state.gaps.items()] == [(1, 2)]
        assert ready.handover.position.upstream == 3


def test_a_tail_written_with_other_transforms_is_refused() -> None:
    work = PartitionWork(Flow("east", "west"), SOURCE, TARGET, "id", None, transform=own("shout"))
    tail = [as_logged(batch.encode([record(0)], 0, OURS, 0), 0)]
    handover = Handover(Position(0, 0, 0, True), (), clean=False)
    refused = resume(work, handover, Ends(0, 1, 0, 1, 1, 1), lambda _: True, lambda: Logs([dense([record(0)])], tail))
    assert isinstance(refused, Refused)
    assert "run it once as it was set before" in refused.reason
    plain = replace(work, transform=None)
    assert isinstance(
        resume(plain, handover, Ends(0, 1, 0, 1, 1, 1), lambda _: True, lambda: Logs([dense([record(0)])], tail)), Ready
    )
