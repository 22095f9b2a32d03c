"""The state topic: what is written is read back, the newest counts, and an unfinished commit does no harm."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirror.model.flow_state import (
    FlowState,
    Gap,
    Position,
    RunReport,
    StateRecord,
    chunk_record,
    claim_record,
    state_topic,
    transactional_id_record,
    writer_record,
)
from mirror.model.offset_map import OffsetMap, Run
from mirror.model.partition import TopicPartition

some = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
ORDERS = TopicPartition("orders", 3)

partitions = st.builds(TopicPartition, st.text(min_size=1, max_size=20), st.integers(0, 2**31 - 1))
offsets = st.integers(0, 2**63 - 1)
positions = st.builds(
    Position, offsets, offsets, offsets, st.booleans(), st.integers(0, 9), st.text(max_size=22), st.booleans()
)
gaps = st.builds(Gap, partitions, offsets, offsets, st.text(max_size=30), offsets)
runs = st.lists(st.builds(Run, offsets, offsets, st.integers(1, 9)), max_size=4).map(tuple)


def folded(*records: StateRecord) -> FlowState:
    state = FlowState()
    for key, value in records:
        state.apply(key, value)
    return state


def test_the_topic_is_one_that_mm2_never_mirrors() -> None:
    """SEL-02: MM2's default excludes match all that ends in ``.internal``."""
    assert state_topic("east") == "mm2-state.east.internal"


@some
@given(partitions, positions, runs, gaps, st.integers(0, 2**63 - 1))
def test_what_is_written_is_read_back(
    source: TopicPartition, position: Position, written: tuple[Run, ...], gap: Gap, writer: int
) -> None:
    report = RunReport("DEGRADED", ("a reason", "größe"), 5)
    state = folded(
        position.record(source),
        chunk_record(source, 2, written),
        gap.record(),
        writer_record(writer, 77),
        transactional_id_record("east-mm2-MirrorSourceConnector-0", 78),
        claim_record("an engine", 79),
        claim_record("another", 80),
        report.record(),
    )
    assert state.positions == {source: position}
    assert state.chunks == {source: {2: written}}
    assert state.gaps == {(gap.source, gap.start): gap}
    assert state.writers == {writer}
    assert state.transactional_ids == {"east-mm2-MirrorSourceConnector-0"}
    assert state.claim == "another"
    assert state.run == report


@some
@given(st.lists(st.tuples(partitions, positions), max_size=10))
def test_the_newest_record_of_a_key_counts(written: list[tuple[TopicPartition, Position]]) -> None:
    """So compaction changes nothing."""
    state = folded(*(position.record(source) for source, position in written))
    assert state.positions == dict(written)
    newest = dict(position.record(source) for source, position in written)
    assert folded(*newest.items()).positions == state.positions


def test_a_position_of_before_there_were_transactions_is_read() -> None:
    value = b'{"upstream":7,"downstream":5,"origin":0,"complete":true,"chunk":0,"topic_id":""}'
    assert folded((b'["position","orders",3]', value)).positions == {ORDERS: Position(7, 5, 0, True)}


def test_chunks_make_one_map() -> None:
    state = folded(
        chunk_record(ORDERS, 0, [Run(0, 0, 5), Run(6, 5, 4)]),
        chunk_record(ORDERS, 1, [Run(20, 9, 2)]),
        Position(23, 11, 0, True, 1, "id").record(ORDERS),
    )
    assert state.offset_map(ORDERS) == OffsetMap(0, True, (Run(0, 0, 5), Run(6, 5, 4), Run(20, 9, 2)), 23, 11)
    assert state.open_runs(ORDERS) == (Run(20, 9, 2),)


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
    assert known.runs == (Run(0, 0, 5), Run(5, 7, 3))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b'["run"]', None),
        (b'["something else"]', b"{}"),
        (b"no json", b"{}"),
        (b'["position","orders",3]', b'{"upstream":1}'),
        (b'["gap","orders",3,0]', b'{"until":1}'),
    ],
)
def test_a_record_of_something_else_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(ValueError, match="state topic"):
        FlowState().apply(key, value)
