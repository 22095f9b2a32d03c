"""A copy in transactions whose positions are older than what was committed: the state topic has lost its end."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from mirror.copier import committed_tail
from mirror.copier.work import Handover
from mirror.kafka import batch
from mirror.kafka.batch import Producer
from mirror.kafka.channel import Channel
from mirror.model.gap import GapKind
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from tests.unit.copier.copying_in_memory import ORDERS, PAID, Copying, both_positions, slot, taken_over

THEIRS = Producer(40, 0, is_transactional=True)


@pytest.fixture
def exact(copying: Copying) -> Copying:
    """A flow in transactions whose partition is copied up to its first record."""
    copying.told(slot=slot(), producer=None)
    copying.begin()
    return copying


def handed_over(copying: Copying) -> Handover:
    """Where an engine that reads the state topic now goes on."""
    state = copying.state()
    return Handover(state.positions[ORDERS], state.open_runs(ORDERS), clean=False)


def commit_more(copying: Copying, *values: bytes) -> None:
    """Copy records, each in a transaction of its own, of which the state topic knows nothing afterwards."""
    before = handed_over(copying)
    for value in values:
        copying.source().write(value)
        copying.epoch(0.5)
    lost = copying.state().positions[ORDERS].upstream - before.position.upstream
    assert lost == len(values)
    copying.state_log.truncate(_end_of(copying, before))
    copying.handovers[ORDERS] = handed_over(copying)
    assert copying.handovers[ORDERS] == before
    taken_over(copying)


def _end_of(copying: Copying, before: Handover) -> int:
    """Where the state topic ended when it knew no more than that."""
    log = copying.state_log
    kept, end = list(log.log), log.end
    while handed_over(copying) != before:
        _, header = log.log.pop()
        found = header.base_offset
    log.log, log.end = kept, end
    return found


def abort_something(copying: Copying) -> None:
    """Leave what the flow has written in a transaction that came to nothing."""
    copying.copy().open[slot().producer.producer_id] = copying.copy().end
    copying.copy().write(b"aborted", producer=slot().producer)
    copying.copy().abort(slot().producer.producer_id)


def test_what_was_committed_behind_a_position_that_the_state_topic_has_lost_is_not_copied_again(
    exact: Copying,
) -> None:
    commit_more(exact, b"1", b"2")
    exact.source().write(b"3")
    result = exact.epoch()[ORDERS]
    assert exact.copy().committed() == [b"0", b"1", b"2", b"3"]
    assert (result.skipped_by_match, result.records, result.stopped) == (2, 1, None)
    assert both_positions(result)[0] == exact.recorded() == 4
    assert "has lost the end" in result.note
    known = exact.state().offset_map(ORDERS)
    assert known is not None
    assert [(run.upstream, run.downstream) for run in known.runs] == [(0, 0), (1, 2), (2, 4), (3, 6)]


def test_what_was_aborted_and_what_others_wrote_beside_is_passed_by(exact: Copying) -> None:
    exact.copy().write(b"theirs")
    abort_something(exact)
    commit_more(exact, b"1", b"2")
    abort_something(exact)
    result = exact.epoch()[ORDERS]
    assert (result.skipped_by_match, result.stopped) == (2, None)
    assert exact.copy().committed() == [b"0", b"theirs", b"1", b"2"]


def test_of_what_was_committed_and_is_not_the_source_s_the_partition_stops(exact: Copying) -> None:
    commit_more(exact, b"1")
    exact.source().log[-1:] = []
    exact.source().end -= 1
    exact.source().write(b"another")
    result = exact.epoch(60.0)[ORDERS]
    assert result.stopped is not None
    assert [gap.kind for gap in exact.state().gaps.values()] == [GapKind.UNMATCHED]
    assert exact.copy().committed() == [b"0", b"1"]


def test_the_markers_of_transactions_do_not_explain_why_a_record_was_not_copied(exact: Copying) -> None:
    """One that was parked, for the target found it too large, and that was put on record in what is lost."""
    commit_more(exact, b"1")
    exact.source().log[-1:] = []
    exact.source().end -= 1
    exact.source().write(b"parked")
    (copied,) = batch.records(exact.copy().log[-2][0])
    exact.source().put(bytes(batch.encode([copied], 0, batch.PLAIN, -1)))
    result = exact.epoch(60.0)[ORDERS]
    assert result.stopped is not None
    assert exact.copy().committed() == [b"0", b"1"]


def test_behind_a_position_that_is_the_last_nothing_is_read_but_the_marker_it_ends_with(exact: Copying) -> None:
    """Each start of an engine looks at every partition."""
    exact.handovers[ORDERS] = handed_over(exact)
    taken_over(exact)
    exact.copy().reads.clear()
    exact.epoch()
    assert exact.copy().reads == [0], "where the last copy lies"


def test_what_was_aborted_or_written_by_others_disproves_no_position(exact: Copying) -> None:
    exact.copy().write(b"theirs", b"theirs", producer=THEIRS)
    exact.copy().mark(THEIRS)
    abort_something(exact)
    exact.handovers[ORDERS] = handed_over(exact)
    taken_over(exact)
    exact.source().write(b"1")
    result = exact.epoch()[ORDERS]
    assert (result.skipped_by_match, result.note, result.stopped) == (0, "", None)
    assert exact.copy().committed() == [b"0", b"theirs", b"theirs", b"1"]


def test_a_flow_that_is_set_to_go_on_without_transactions_finds_what_was_committed_too(exact: Copying) -> None:
    commit_more(exact, b"1", b"2")
    exact.told(slot=None)
    exact.writes_as(8)
    result = exact.epoch()[ORDERS]
    assert (result.skipped_by_match, exact.copy().committed()) == (2, [b"0", b"1", b"2"])


def test_a_flow_that_was_set_to_transactions_finds_what_was_committed_behind_the_last_position_of_before(
    copying: Copying,
) -> None:
    """No position that was committed is left."""
    copying.begin()
    copying.told(slot=slot(), producer=None)
    copying.handovers[ORDERS] = handed_over(copying)
    commit_more(copying, b"1", b"2")
    assert not copying.handovers[ORDERS].position.atomic
    result = copying.epoch()[ORDERS]
    assert (result.skipped_by_match, result.stopped) == (2, None)
    assert "has lost the end" in result.note
    assert copying.copy().committed() == [b"0", b"1", b"2"]


def much_of_others(exact: Copying, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have others write to the copy four times as much as is read of them, in batches that are read one at a time."""
    monkeypatch.setattr(committed_tail, "_MOST_OF_OTHERS", 1_000)
    exact.copy().most_bytes = 1
    for _ in range(10):
        exact.copy().write(b"x" * 400)


def test_of_very_much_that_others_wrote_only_the_beginning_is_read(
    exact: Copying, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Applications at work on the target may have written for months since the flow rested."""
    much_of_others(exact, monkeypatch)
    exact.handovers[ORDERS] = handed_over(exact)
    taken_over(exact)
    exact.copy().reads.clear()
    assert exact.epoch()[ORDERS].stopped is None
    assert len(exact.copy().reads) < 6


def test_of_very_much_that_others_wrote_only_the_beginning_is_read_over_a_slow_line_too(
    exact: Copying, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In pieces, of which none was so long that the leader was asked, all of it was read."""
    for _ in range(15):
        much_of_others(exact, monkeypatch)
    monkeypatch.setattr(committed_tail, "_MOST_OF_OTHERS", 2_500)
    exact.handovers[ORDERS] = handed_over(exact)
    taken_over(exact)
    exact.west.latency_seconds = 0.4
    exact.copy().reads.clear()
    for _ in range(12):
        exact.epoch(5.0)
    assert len(exact.copy().reads) < 16


def test_of_very_much_that_others_wrote_all_is_read_where_the_leader_knows_that_the_flow_has_written_since(
    exact: Copying, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flow had rested meanwhile; what it committed then came twice."""
    much_of_others(exact, monkeypatch)
    commit_more(exact, b"1")
    result = exact.epoch()[ORDERS]
    assert (result.skipped_by_match, result.stopped) == (1, None)
    assert exact.copy().committed() == [b"0", *[b"x" * 400] * 10, b"1"]


def test_very_much_that_others_wrote_is_read_piece_by_piece_however_long_that_takes(
    exact: Copying, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is looked for longer than an epoch lasts is found by nobody, and other partitions wait for it."""
    for _ in range(15):
        much_of_others(exact, monkeypatch)
    commit_more(exact, b"1")
    exact.create("paid")
    exact.source(PAID).write(b"paid")
    exact.west.latency_seconds = 0.4
    exact.epoch(5.0)
    assert exact.copy(PAID).committed() == [b"paid"]
    for _ in range(12):
        result = exact.epoch(5.0)
    assert result[ORDERS].stopped is None
    assert exact.recorded() == 2
    assert exact.copy().committed() == [b"0", *[b"x" * 400] * 150, b"1"]


def test_where_the_copy_has_lost_what_others_wrote_alone_it_is_read_piece_by_piece_too(
    copying: Copying, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the copy goes on is found anew by each epoch, and how far one had looked was forgotten with that."""
    monkeypatch.setattr(committed_tail, "_MOST_OF_OTHERS", 0)
    copying.begin()
    copying.copy().most_bytes = 1
    for _ in range(100):
        copying.copy().write(b"theirs")
    copying.epoch(12.0)
    assert copying.handovers[ORDERS].position.downstream == 101
    copying.copy().truncate(1)
    # The flow is set to transactions; what the first engine then had sent is aborted.
    copying.told(slot=slot(), producer=None)
    abort_something(copying)
    for _ in range(40):
        copying.copy().write(b"theirs")
    copying.handovers[ORDERS] = replace(copying.handovers[ORDERS], clean=False)
    taken_over(copying)
    copying.source().write(b"1")
    copying.west.latency_seconds = 0.4
    for _ in range(30):
        result = copying.epoch(5.0)[ORDERS]
    assert both_positions(result)[0] == 2
    assert copying.copy().committed() == [b"0", *[b"theirs"] * 40, b"1"]


def test_while_somebody_s_transaction_keeps_it_from_being_read_it_is_waited_for(exact: Copying) -> None:
    exact.copy().open[THEIRS.producer_id] = exact.copy().end
    exact.copy().write(b"theirs", producer=THEIRS)
    commit_more(exact, b"1")
    exact.copy().open[THEIRS.producer_id] = 2
    exact.world.after(2.0, lambda: exact.copy().mark(THEIRS))
    result = exact.epoch(6.0)[ORDERS]
    assert (result.skipped_by_match, result.stopped) == (1, None)
    assert "a transaction is open" in exact.driver.troubles()[0]


def test_of_several_copies_those_are_named_in_which_more_was_committed_or_of_which_nobody_tells(exact: Copying) -> None:
    copy = exact.pairs[ORDERS]
    exact.create("paid")
    paid = exact.pairs[PAID]

    def found() -> frozenset[TopicPartition]:
        channel = Channel("west", exact.flow.target_client)
        with closing(channel):
            return committed_tail.committed_behind(
                channel, {copy: at, paid: Position(0, 0, 0, True)}, exact.flow.writers.__contains__
            )

    at = handed_over(exact).position
    assert found() == set()
    exact.source().write(b"1")
    exact.epoch(0.5)
    assert found() == {copy}
    at = handed_over(exact).position
    exact.copy().refuse_fetch(29)
    assert found() == {copy}
    exact.copy(PAID).leader = None
    exact.copy().refuse_fetch(0)
    assert found() == {paid}
