"""The state topic: what is written is read back, the newest counts, and an unfinished commit does no harm."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.model.acl import Acl, Operation, Pattern, Permission, QuotaKey, Resource
from mirror.model.flow_state import DeadChunks, FlowState
from mirror.model.gap import Acknowledgement, Gap, GapKind
from mirror.model.leader_epochs import EpochEnd
from mirror.model.leadership import Claim
from mirror.model.mm2_trace import Pair
from mirror.model.offset_map import Chunk, OffsetMap, Run, Runs, SparseOffsetMap
from mirror.model.partition import TopicPartition
from mirror.model.pause import PauseReport
from mirror.model.placement import Placement
from mirror.model.position import NextBatch, Position
from mirror.model.state_record import StateRecord, state_topic
from mirror.model.state_values import (
    RUNS_PER_CHUNK,
    DataProducer,
    Loss,
    RunReport,
    Takeover,
    WrittenAs,
    acl_record,
    chunk_record,
    claim_record,
    no_chunk_record,
    pause_report_record,
    placement_record,
    producer_asked_for_record,
    quota_record,
    sparse_map_record,
    transactional_id_record,
    writer_record,
)
from mirror.model.translation import Exact, TooOld
from tests.unit.model.state_records import KINDS, ORDERS


def test_behind_an_open_transaction_counts_what_is_written_outside_of_any_and_by_the_leader() -> None:
    """Positions in it may be aborted, and positions behind it come when it ends: neither is known before."""
    state = FlowState()
    before, after = RunReport("RUNNING", (), 1), RunReport("DEGRADED", ("slow",), 2)
    state.apply(*before.record(), 1)
    state.apply(*claim_record(Claim("me", 1)))
    position = Position(9, 9, 0, complete=True).record(ORDERS)
    late = RunReport("RUNNING", (), 3)
    seen = state.with_beyond(
        [
            (*position, 1),
            (None, b"{}", None),
            (*claim_record(Claim("other", 2)), None),
            (*after.record(), 2),
            (*late.record(), 1),
            (*writer_record(77, 1), None),
        ]
    )
    assert (seen.writers, state.writers) == ({77}, set()), "who writes behind it is no stranger"
    assert seen.claim is not None
    assert (seen.run, seen.claim.engine, seen.positions) == (after, "other", {}), "one that leads no more is late"
    assert state.claim is not None
    assert (state.run, state.claim.engine, state.overwritten) == (before, "me", set()), "it is as it was"
    assert state.with_beyond([(*position, 1)]) is state


@pytest.mark.parametrize("former", [(None, None), (3, 4)])
def test_a_placement_that_is_pending_says_where_the_group_stood_and_one_that_was_answered_does_not(
    former: tuple[int | None, int | None],
) -> None:
    pending = Placement("billing", ORDERS, 5, 6, 7, "id", 2, *former)
    state = FlowState()
    for placement in (pending, pending.answered, pending):
        state.apply(*placement_record(placement))
        assert state.placements == {("billing", ORDERS): placement}
    assert b"before" not in (placement_record(pending.answered)[1] or b"")


partitions = st.builds(TopicPartition, st.text(min_size=1, max_size=20), st.integers(0, 2**31 - 1))
offsets = st.integers(0, 2**63 - 1)
epochs = st.lists(st.builds(EpochEnd, st.integers(-1, 2**31 - 1), offsets), max_size=3).map(tuple)
ids = st.text(max_size=22)
positions = st.builds(
    Position,
    offsets,
    offsets,
    offsets,
    st.booleans(),
    st.integers(0, 9),
    ids,
    ids,
    epochs,
    source_end=offsets,
    atomic=st.booleans(),
    settled=st.booleans(),
    compared=st.integers(-1, 2**63 - 1),
)
gaps = st.builds(
    Gap,
    partitions,
    offsets,
    offsets,
    st.text(max_size=30),
    offsets,
    st.sampled_from(GapKind),
    st.none() | offsets,
    ids,
    st.booleans(),
)
holes = st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(1, 9))


@st.composite
def runs_in_order(draw: st.DrawFn) -> tuple[Run, ...]:
    """Runs that ascend on both sides; often with the same hole, or of the same length, many times."""
    upstream, downstream = draw(st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)))
    runs = []
    for (up, down, length), count in draw(st.lists(st.tuples(holes, st.sampled_from([1, 1, 2, 5])), max_size=5)):
        for _ in range(count):
            runs.append(Run(upstream + up, downstream + down, length))
            upstream, downstream = runs[-1].upstream_end, runs[-1].downstream_end
    return tuple(runs)


def folded(*records: StateRecord) -> FlowState:
    state = FlowState()
    for key, value in records:
        state.apply(key, value)
    return state


def test_the_topic_is_one_that_mm2_never_mirrors() -> None:
    """SEL-02: MM2's default excludes match all that ends in ``.internal``."""
    assert state_topic("east") == "mm2-state.east.internal"


@given(partitions, positions, runs_in_order(), gaps, st.integers(0, 2**63 - 1))
def test_what_is_written_is_read_back(
    source: TopicPartition, position: Position, written: tuple[Run, ...], gap: Gap, writer: int
) -> None:
    known = Acknowledgement("ann", "größer", 6)
    report = RunReport("DEGRADED", ("a reason", "größe"), 5, ("a note",), {source: "größer"}, 4, "a digest")
    state = folded(
        position.record(source),
        chunk_record(source, 2, written),
        gap.record(),
        known.record(gap.key),
        writer_record(writer, 77),
        transactional_id_record("east-mm2-MirrorSourceConnector-0", 78),
        claim_record(Claim("an engine", 1)),
        claim_record(Claim("another", 2)),
        report.record(),
    )
    assert state.positions == {source: position}
    assert state.chunks == {source: {2: Chunk.of(written)}}
    assert state.gaps == {gap.key: gap}
    assert state.acknowledgements == {gap.key: known}
    assert state.writers == {writer}
    assert state.transactional_ids == {"east-mm2-MirrorSourceConnector-0"}
    assert state.claim == Claim("another", 2)
    assert state.run == report


def test_a_transaction_that_has_not_ended_is_on_record_until_it_has() -> None:
    """Its transactional id is to be taken over all the while."""
    state = folded(transactional_id_record("an id", 78), transactional_id_record("an id", 79, (7, 3)))
    assert (state.transactional_ids, state.unended) == ({"an id"}, {"an id": (7, 3)})
    state.apply(*transactional_id_record("an id", 80))
    assert (state.transactional_ids, state.unended) == ({"an id"}, {})


def test_as_whom_a_transactional_id_is_written_is_on_record_until_it_is_used_no_more() -> None:
    used = WrittenAs(7, 3, 5)
    state = folded(transactional_id_record("an id", 79, written_as=used))
    assert (state.transactional_ids, state.written_as) == ({"an id"}, {"an id": used})
    state.apply(*transactional_id_record("an id", 80, (7, 4)))
    assert (state.unended, state.written_as) == ({"an id": (7, 4)}, {})


def test_what_was_created_on_the_target_is_on_record_until_it_is_given_up() -> None:
    """Of another origin it is still one ACL."""
    origin = Acl(Resource.TOPIC, Pattern.LITERAL, "größe", "User:ann", "*", Operation.ALL, Permission.ALLOW)
    copy = replace(origin, name="east.größe", operation=Operation.READ)
    quota = QuotaKey((("client-id", None), ("user", "ann")), "producer_byte_rate")
    written = (acl_record(copy, copy), acl_record(copy, origin), quota_record(quota, 2.5))
    state = folded(*written)
    assert (state.acls, state.quotas) == ({copy: origin}, {quota: 2.5})
    given_up = folded(*written, acl_record(copy, None), quota_record(quota, None))
    assert (given_up.acls, given_up.quotas) == ({}, {})


def test_a_report_of_before_there_were_notes_is_read() -> None:
    state = folded((b'["run"]', b'{"state":"RUNNING","reasons":[],"at_ms":5}'))
    assert state.run == RunReport("RUNNING", (), 5)


@given(st.lists(st.tuples(partitions, positions), max_size=10))
def test_the_newest_record_of_a_key_counts(written: list[tuple[TopicPartition, Position]]) -> None:
    """So compaction changes nothing."""
    state = folded(*(position.record(source) for source, position in written))
    assert state.positions == dict(written)
    newest = dict(position.record(source) for source, position in written)
    assert folded(*newest.items()).positions == state.positions


def test_chunks_make_one_map() -> None:
    state = folded(
        chunk_record(ORDERS, 0, [Run(0, 0, 5), Run(6, 5, 4)]),
        chunk_record(ORDERS, 1, [Run(20, 9, 2)]),
        Position(23, 11, 0, True, 1, "id").record(ORDERS),
    )
    assert state.offset_map(ORDERS) == OffsetMap(0, True, Runs.of([Run(0, 0, 5), Run(6, 5, 4), Run(20, 9, 2)]), 23, 11)
    assert state.open_runs(ORDERS) == (Run(20, 9, 2),)


def test_what_java_mirrormaker_copied_is_part_of_the_map() -> None:
    sparse_map = SparseOffsetMap(0, 50, 0, 51, (Pair(0, 0), Pair(40, 41)))
    taken = Takeover(ORDERS, 45, 60, 61, 10, 10, 10, 1, 2, 3, "a note")
    state = folded(
        taken.record(),
        sparse_map_record(ORDERS, sparse_map),
        chunk_record(ORDERS, 0, [Run(50, 51, 10)]),
        Position(60, 61, 50, False).record(ORDERS),
    )
    assert state.offset_map(ORDERS) == OffsetMap(50, False, Runs.of([Run(50, 51, 10)]), 60, 61, (sparse_map,))
    assert state.takeovers == {ORDERS: taken}


def test_a_partition_never_copied_has_no_map() -> None:
    assert folded().offset_map(ORDERS) is None
    assert folded().open_runs(ORDERS) == ()


def test_a_commit_that_was_not_finished_does_not_speak_of_more_than_the_position() -> None:
    """Chunks are written before the position they belong to; a kill in between leaves them ahead of it."""
    before = [chunk_record(ORDERS, 0, [Run(0, 0, 5)]), Position(5, 5, 0, True).record(ORDERS)]
    unfinished = [chunk_record(ORDERS, 0, [Run(0, 0, 8), Run(9, 8, 2)]), chunk_record(ORDERS, 1, [Run(11, 10, 2)])]
    state = folded(*before, *unfinished)
    assert state.offset_map(ORDERS) == folded(*before).offset_map(ORDERS)
    assert state.open_runs(ORDERS) == (Run(0, 0, 5),)


def test_a_chunk_left_by_an_unfinished_commit_is_not_taken_for_what_came_later_instead() -> None:
    state = folded(
        chunk_record(ORDERS, 0, [Run(0, 0, 5)]),
        chunk_record(ORDERS, 1, [Run(5, 5, 3)]),
        Position(5, 5, 0, True).record(ORDERS),
        # The copy goes on, still in its first chunk, behind records of another writer.
        chunk_record(ORDERS, 0, [Run(0, 0, 5), Run(5, 7, 3)]),
        Position(8, 10, 0, True).record(ORDERS),
    )
    known = state.offset_map(ORDERS)
    assert known is not None
    assert tuple(known.runs) == (Run(0, 0, 5), Run(5, 7, 3))


@given(runs_in_order())
def test_packed_runs_are_the_same_runs(written: tuple[Run, ...]) -> None:
    assert Chunk.of(written).runs() == written


def test_the_bytes_of_a_chunk() -> None:
    """Behind each run stands a marker on the target; four transactions were alike, and once the source had a hole."""
    runs = [Run(10, 10, 7), *(Run(17 + 3 * n, 18 + 4 * n, 3) for n in range(4)), Run(31, 33, 5)]
    assert chunk_record(ORDERS, 2, runs) == (
        b'["runs","orders",3,2]',
        b'{"from":[10,10],"to":[36,38],"hole":[0,1],"runs":[7,[4,3],[2,0,5]]}',
    )


def in_chunks(runs: Sequence[Run], size: int) -> list[StateRecord]:
    parts = [runs[first : first + size] for first in range(0, len(runs), size)] or [()]
    end = runs[-1] if runs else Run(0, 0, 0)
    position = Position(end.upstream_end, end.downstream_end, 0, False, len(parts) - 1)
    return [*(chunk_record(ORDERS, number, part) for number, part in enumerate(parts)), position.record(ORDERS)]


@given(runs_in_order(), st.integers(1, 3), st.data())
def test_what_is_dead_can_be_forgotten_without_changing_any_position_from_the_log_start_on(
    runs: tuple[Run, ...], size: int, data: st.DataObject
) -> None:
    """A position before it leads to what is left, and no further."""
    end = runs[-1].downstream_end if runs else 0
    start = data.draw(st.integers(runs[0].downstream if runs else 0, end))
    whole, left = folded(*in_chunks(runs, size)), folded(*in_chunks(runs, size))
    dead = whole.dead_chunks(ORDERS, start)
    for chunk in dead.chunks if dead else ():
        left.apply(*no_chunk_record(ORDERS, chunk))
    before, after = whole.offset_map(ORDERS), left.offset_map(ORDERS)
    assert before is not None
    assert after is not None
    assert left.open_runs(ORDERS) == whole.open_runs(ORDERS)
    corners = {each + by for run in runs for each in (run.upstream, run.upstream_end) for by in (-1, 0, 1)}
    for position in corners:
        if isinstance(found := before.translate(position), Exact) and found.downstream >= start:
            assert after.translate(position) == found
    for position in {each for run in runs for each in range(run.downstream - 1, run.downstream_end + 2)}:
        if position >= start:
            assert after.translate_back(position) == before.translate_back(position)
            assert after.source_of(position) == before.source_of(position)
    if dead and after.runs.first is not None:
        assert after.translate(0) == Exact(after.runs.first.downstream)
        assert after.translate_back(0) == TooOld(after.runs.first.downstream)
        assert after.runs.first.downstream < start


def test_the_chunk_that_is_being_filled_is_never_dead() -> None:
    records = in_chunks([Run(0, 0, 5), Run(5, 6, 5), Run(10, 12, 5)], 1)
    assert folded(*records).dead_chunks(ORDERS, 100) == DeadChunks(0, (0, 1))
    assert folded(*records).dead_chunks(ORDERS, 4) is None


def test_by_the_chunk_before_the_log_a_reader_at_its_start_is_led_back() -> None:
    records = in_chunks([Run(0, 0, 5), Run(9, 6, 5), Run(30, 12, 5)], 1)
    state = folded(*records)
    assert state.dead_chunks(ORDERS, 6) is None
    assert state.dead_chunks(ORDERS, 12) == DeadChunks(0, (0,))
    state.apply(*no_chunk_record(ORDERS, 0))
    known = state.offset_map(ORDERS)
    assert known is not None
    assert known.translate_back(12) == Exact(14)


def test_a_million_transactions_are_some_megabytes() -> None:
    """Of ten thousand transactions of any sizes, each leaving a marker."""
    sizes = [1 + number * 7919 % 5000 for number in range(10_000)]
    starts = accumulate(sizes, initial=0)
    runs = [Run(start, start + number, size) for number, (start, size) in enumerate(zip(starts, sizes, strict=False))]
    assert sum(len(key) + len(value or b"") for key, value in in_chunks(runs, RUNS_PER_CHUNK)) < 6 * len(runs)


def test_a_gap_is_open_until_it_is_acknowledged_and_a_barrier_until_it_is_passed() -> None:
    """Two losses at the same offset are two gaps: knowing of one is not knowing of the other."""
    first, second = Gap(ORDERS, 5, 9, "gone", 1), Gap(ORDERS, 5, 30, "gone again", 2, passed=False)
    known = Acknowledgement("ann", "a test", 3)
    state = folded(first.record(), second.record(), known.record(first.key))
    assert state.open_gaps == [second]
    assert state.barriers == {ORDERS: second}
    for key, value in (known.record(second.key), replace(second, passed=True).record()):
        state.apply(key, value)
    assert (state.open_gaps, state.barriers) == ([], {})


def test_a_clock_that_stepped_back_hides_no_barrier_and_brings_none_back() -> None:
    """Which gap is a partition's newest is told by the order of the log."""
    passed = Gap(ORDERS, 5, 9, "gone", 2_000)
    later = Gap(ORDERS, 40, 50, "gone again", 1_000, passed=False)
    assert folded(passed.record(), later.record()).barriers == {ORDERS: later}
    went_on = Gap(ORDERS, 60, 61, "and again", 500)
    assert folded(passed.record(), later.record(), went_on.record()).barriers == {}
    assert folded(replace(later, passed=True).record(), passed.record(), later.record()).barriers == {ORDERS: later}


def test_an_acknowledgement_is_of_the_gap_that_was_there_not_of_a_later_one_with_the_same_time() -> None:
    gap, known = Gap(ORDERS, 5, 9, "gone", 1_000, passed=False), Acknowledgement("ann", "a test", 3)
    acknowledged = (gap.record(), known.record(gap.key), replace(gap, passed=True).record())
    assert folded(*acknowledged).acknowledgements == {gap.key: known}
    assert folded(*acknowledged, gap.record()).open_gaps == [gap]


def test_going_back_forgets_what_the_map_says_of_later_offsets() -> None:
    """The copy goes over the same upstream offsets again; the runs stay in order on both sides, in every chunk."""
    state = folded(
        chunk_record(ORDERS, 0, [Run(0, 0, 5), Run(6, 5, 4)]),
        chunk_record(ORDERS, 1, [Run(20, 9, 2)]),
        chunk_record(ORDERS, 2, [Run(30, 11, 2)]),
        Position(32, 13, 0, True, 2).record(ORDERS),
    )
    assert state.chunk_before(ORDERS, 31) == (2, (Run(30, 11, 1),))
    assert state.chunk_before(ORDERS, 30) == (1, (Run(20, 9, 2),))
    assert state.chunk_before(ORDERS, 8) == (0, (Run(0, 0, 5), Run(6, 5, 2)))
    assert state.chunk_before(ORDERS, 0) == (0, ())
    for key, value in (
        chunk_record(ORDERS, 0, [Run(0, 0, 5), Run(6, 5, 2), Run(8, 13, 30)]),
        Position(38, 43, 0, True, 0).record(ORDERS),
    ):
        state.apply(key, value)
    known = state.offset_map(ORDERS)
    assert known is not None
    assert tuple(known.runs) == (Run(0, 0, 5), Run(6, 5, 2), Run(8, 13, 30))
    assert [known.translate(each) for each in (7, 8, 31)] == [Exact(6), Exact(13), Exact(36)]
    # Of what the target still has of the old offsets a reader goes on where the source was replaced.
    assert known.translate_back(9) == Exact(8)


def test_after_a_loss_tails_are_not_known_until_something_is_recorded_again() -> None:
    """Told by the order of the log, which compaction keeps."""
    other = TopicPartition("orders", 4)
    first, second = Position(7, 5, 0, True).record(ORDERS), Position(7, 5, 0, True).record(other)
    state = folded(first, second, Loss(5, "deleted", are_tails_unknown=True).record(), second)
    assert state.unsettled == {ORDERS}
    assert folded(first, Loss(5, "deleted").record()).unsettled == set()


UNKNOWN = [
    (None, b"{}"),
    (b"no json", b"{}"),
    (b'{"a":1}', b"{}"),
    (b'["something else"]', b"{}"),
    (b'["something else"]', b"not json"),
    (b'["run"]', b'{"v":2,"state":"RUNNING","reasons":[],"at_ms":5}'),
    (b'["acknowledged","orders",3,0,1]', b'{"by":"ann"}'),
    (b'["acl","a"]', b"{}"),
]
# A record of another version, of each kind without which a partition cannot be copied.
VITAL = [
    (b'["position","orders",3]', b'{"v":2,"upstream":1,"downstream":1,"origin":0,"complete":true}'),
    (b'["position","orders",3]', b'{"upstream":1}'),
    (b'["gap","orders",3,0,1]', b'{"until":1}'),
    (b'["runs","orders",3,0]', b'{"v":2}'),
    (b'["sketch","orders",3,0]', b"[]"),
]


@pytest.mark.parametrize(("key", "value"), UNKNOWN)
def test_a_record_that_is_not_understood_ends_nothing_and_is_counted_until_it_is_gone(
    key: bytes | None, value: bytes
) -> None:
    state = folded(Position(7, 5, 0, True).record(ORDERS))
    state.apply(key, value)
    assert (len(state.not_understood), state.stops, state.positions) == (1, {}, {ORDERS: Position(7, 5, 0, True)})
    state.apply(key, None)
    assert state.not_understood == {}


@pytest.mark.parametrize(("key", "value"), VITAL)
def test_a_partition_stops_when_a_record_it_depends_on_is_not_understood(key: bytes, value: bytes) -> None:
    """Nothing of such a record is used, nor what stood there before; the partition goes on once it is understood."""
    known = [chunk_record(ORDERS, 0, [Run(0, 0, 5)]), Position(5, 5, 0, True).record(ORDERS)]
    state = folded(*known, (key, value))
    assert set(state.stops) == {ORDERS}
    assert "run the version that wrote it" in state.stops[ORDERS]
    assert state.offset_map(ORDERS) is None
    for each in ((key, None), *known):
        state.apply(*each)
    assert (state.not_understood, state.stops) == ({}, {})
    assert state.offset_map(ORDERS) is not None


def test_fields_of_a_newer_version_are_written_on() -> None:
    """What need not be understood is of the same version; who does not know it must not lose it."""
    value = b'{"upstream":7,"downstream":5,"origin":0,"complete":true,"newer":{"a":[1]}}'
    (position,) = folded((b'["position","orders",3]', value)).positions.values()
    assert position == Position(7, 5, 0, True, unknown='{"newer":{"a":[1]}}')
    moved = replace(position, upstream=8)
    assert json.loads(moved.record(ORDERS)[1] or b"")["newer"] == {"a": [1]}
    assert folded(moved.record(ORDERS)).positions == {ORDERS: moved}


def test_how_far_a_copy_was_compared_counts_for_its_turn_alone() -> None:
    """A version that does not know the field writes it on, also with a position from which the copy went back."""
    value = b'{"upstream":7,"downstream":5,"origin":0,"complete":true,"turn":%d,"compared":[1,4]}'
    for incarnation, compared in ((1, 4), (2, -1)):
        assert folded((b'["position","orders",3]', value % incarnation)).positions[ORDERS].compared == compared
    assert folded((b'["position","orders",3]', value.replace(b',"compared":[1,4]', b"") % 1)).positions[
        ORDERS
    ] == Position(7, 5, 0, True, incarnation=1)


def test_what_was_not_compared_before_a_turn_counts_for_that_turn_alone() -> None:
    position = Position(7, 12, 0, True, incarnation=3, compared=12, uncompared=(4, 12))
    assert folded(position.record(ORDERS)).positions == {ORDERS: position}
    later = json.loads(position.record(ORDERS)[1] or b"") | {"turn": 4}
    assert folded((b'["position","orders",3]', json.dumps(later).encode())).positions[ORDERS].uncompared is None
    assert b"uncompared" not in (Position(7, 12, 0, True).record(ORDERS)[1] or b"")


def test_as_whom_a_copy_goes_on_is_known_of_the_position_that_it_was_recorded_with_alone() -> None:
    """A version that does not know the field writes it on, also with a position that has moved."""
    position = Position(7, 12, 0, True, next_batch=NextBatch(4, 2, 9))
    key, value = position.record(ORDERS)
    assert value is not None
    assert value.endswith(b',"next_batch":[7,12,4,2,9]}')
    assert folded((key, value)).positions[ORDERS].next_batch == NextBatch(4, 2, 9)
    for moved in ({"upstream": 8}, {"downstream": 13}):
        later = json.dumps(json.loads(value) | moved).encode()
        assert folded((key, later)).positions[ORDERS].next_batch is None
    assert b"next_batch" not in (Position(7, 12, 0, True).record(ORDERS)[1] or b"")


def test_that_the_first_producer_is_asked_for_is_on_record_until_it_is_known() -> None:
    asked = producer_asked_for_record("an id")
    assert asked == (b'["producer"]', b'{"producer_id":-1,"epoch":-1,"transactional_id":"an id"}')
    state = folded(asked)
    assert (state.producer, state.is_producer_asked_for) == (None, True)
    state.apply(*DataProducer(7, 0, "an id").record())
    assert (state.producer, state.is_producer_asked_for) == (DataProducer(7, 0, "an id"), True)


def test_a_gap_of_a_newer_kind_is_in_the_ledger_and_keeps_its_kind() -> None:
    written = b'["gap","orders",3,5,1234]', b'{"end":9,"reason":"new","kind":"newer","passed":false}'
    state = folded(written)
    (gap,) = state.open_gaps
    assert (gap.kind, gap.reason, state.barriers) == (GapKind.OTHER, "new", {ORDERS: gap})
    assert json.loads(gap.record()[1] or b"")["kind"] == "newer"
    assert folded(gap.record()).gaps == {gap.key: gap}


def test_a_gap_of_a_newer_kind_stops_its_partition_until_somebody_has_acknowledged_it() -> None:
    """One of a kind that is known is for the task to judge."""
    newer = b'["gap","orders",3,5,1234]', b'{"end":9,"reason":"new","kind":"newer","passed":false}'
    state = folded(newer)
    assert state.stops.keys() == {ORDERS}
    assert "mirror gaps FILE --acknowledge" in state.stops[ORDERS]
    (gap,) = state.open_gaps
    state.apply(*Acknowledgement("ann", "seen", 5).record(gap.key))
    assert state.stops == {}
    assert folded(Gap(ORDERS, 5, 9, "gone", 1, GapKind.RETENTION, passed=False).record()).stops == {}


def test_fields_that_older_versions_did_not_write_have_defaults() -> None:
    state = folded(
        (b'["position","orders",3]', b'{"upstream":7,"downstream":5,"origin":0,"complete":true}'),
        (b'["gap","orders",3,5,1234]', b'{"end":9,"reason":"gone"}'),
    )
    assert state.positions == {ORDERS: Position(7, 5, 0, True)}
    assert list(state.gaps.values()) == [Gap(ORDERS, 5, 9, "gone", 1234)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_bytes_of_every_kind_of_record(kind: str) -> None:
    """Other versions read them, the versions before this one too; each can be taken back."""
    written, key, value = KINDS[kind]
    assert written == (key, value)
    assert json.loads(key)[0] == kind
    state = folded(written)
    assert state.not_understood == {}
    assert state != FlowState()
    state.apply(key, None)
    for kept in (state.chunks, state.sparse_maps):
        kept.pop(ORDERS, None)
    assert state == FlowState()


def test_a_report_of_the_version_before_names_no_partition_that_is_stopped() -> None:
    value = b'{"state":"DEGRADED","reasons":["orders-3 is stopped: why"],"at_ms":5,"notes":[]}'
    assert folded((b'["run"]', value)).run == RunReport("DEGRADED", ("orders-3 is stopped: why",), 5)


def test_how_far_an_engine_had_copied_that_led_no_longer_is_remembered_as_the_furthest_of_its_positions() -> None:
    """MirrorMaker's position may say the same, and is no trace of Java then."""
    state = FlowState()
    state.apply(*claim_record(Claim("second", 2)))
    assert state.apply(*Position(5, 5, 0, True).record(ORDERS), 2)
    for upstream in (7, 9, 8):
        assert not state.apply(*Position(upstream, upstream, 0, True).record(ORDERS), 1)
    assert (state.positions[ORDERS].upstream, state.late) == (5, {ORDERS: 9})


def test_what_an_engine_that_led_before_says_of_pauses_is_not_what_the_leader_says() -> None:
    """It may go on copying; the leader has not said anything yet."""
    state = FlowState()
    said = PauseReport("first", ("all",))
    for claim, found in ((Claim("first", 1), said), (Claim("second", 2), None)):
        state.apply(*claim_record(claim))
        state.apply(*pause_report_record(said))
        assert state.leaders_pause_report == found
