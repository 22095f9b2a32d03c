"""Of several engines that want to lead a flow one does, and every reader of the state topic sees the same one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.engine.mm2_traces import traces_of
from mirror.model.flow_state import FlowState
from mirror.model.gap import Acknowledgement, Gap, GapKind
from mirror.model.leadership import Claim, Silence, differing, newest
from mirror.model.offset_map import Run
from mirror.model.partition import TopicPartition
from mirror.model.placement import Placement
from mirror.model.position import Position
from mirror.model.state_record import StateRecord, epoch_of, stamped, term_header, term_of
from mirror.model.state_values import (
    DataProducer,
    RunReport,
    Standby,
    Takeover,
    WrittenAs,
    chunk_record,
    claim_record,
    no_placement_record,
    no_standby_record,
    placement_record,
    transactional_id_record,
    writer_record,
)
from mirror.model.translation import Exact

ORDERS = TopicPartition("orders", 0)


def bid(engine: str, term: int) -> Claim:
    return Claim(engine, term, is_confirmed=False)


def folded(*claims: Claim) -> Claim | None:
    known: Claim | None = None
    for claim in claims:
        known = newest(known, claim)
    return known


def state_of(*records: tuple[StateRecord, int | None]) -> FlowState:
    state = FlowState()
    for (key, value), term in records:
        state.apply(key, value, term)
    return state


def test_the_first_bid_for_a_term_wins() -> None:
    assert folded(Claim("a", 1), bid("b", 2), bid("c", 2)) == bid("b", 2)


def test_a_claim_of_an_earlier_term_changes_nothing() -> None:
    """A leader that was frozen renews its claim when it thaws."""
    assert folded(bid("b", 2).renewed(), Claim("a", 1).renewed()) == bid("b", 2).renewed()


def test_a_renewal_of_the_winner_counts_where_compaction_has_left_the_losers_bid() -> None:
    won = bid("b", 2).renewed()
    assert folded(bid("c", 2), won) == won
    assert folded(won, bid("c", 2)) == won


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=1, max_size=12), st.data())
def test_readers_of_a_compacted_topic_agree_with_those_who_read_all_of_it(
    turns: list[tuple[str, bool]], data: st.DataObject
) -> None:
    """Engines bid for the term after the one they see, two of them at once at times; only winners renew."""
    log: list[Claim] = []
    for engine, is_contested in turns:
        seen = folded(*log)
        term = (seen.term if seen else 0) + 1
        log += [bid(engine, term), *([bid("d", term)] if is_contested else [])]
        winner = folded(*log)
        assert winner is not None
        assert winner.engine == engine
        log.append(winner.renewed())
    kept_from = data.draw(st.integers(0, len(log) - 1))
    # Of one key compaction keeps the last record, and what is newer than the cleaned part.
    assert folded(*log[kept_from:]) == folded(*log)


def test_a_released_claim_says_whether_anything_can_arrive_late() -> None:
    claim = bid("a", 3).renewed()
    assert claim.released(is_settled=True).is_settled
    assert claim.released(is_settled=True).is_released
    assert not claim.released(is_settled=False).is_settled


def test_a_claim_is_read_back_as_it_was_written() -> None:
    claim = Claim("a", 3, 7, True, True, True, "host", 42, "place", {"topics": "abc"}, 60.0, 12.5)
    assert state_of((claim_record(claim), None)).claim == claim


def test_a_claim_of_a_version_without_terms_counts_until_the_first_bid() -> None:
    state = FlowState()
    state.apply(b'["claim"]', b'{"engine":"old","since_ms":5}')
    assert state.claim == Claim("old")
    state.apply(*claim_record(bid("new", 1)))
    assert state.claim == bid("new", 1)


def test_silence_is_counted_from_the_last_renewal_seen_while_the_topic_could_be_read() -> None:
    silence, claim = Silence(), Claim("a", 1)
    assert silence.look(claim, 10.0, 10.0) == 0
    assert silence.look(claim, 13.0, 13.0) == 3
    assert silence.look(claim.renewed(), 14.0, 14.0) == 0
    assert silence.look(claim.renewed(), 15.0, 15.0) == 1
    silence.unreadable()
    assert silence.look(claim.renewed(), 60.0, 60.0) == 0
    assert silence.look(claim.renewed(), 64.0, 64.0) == 4


def test_the_time_that_reading_took_is_nobodys_silence() -> None:
    """A reader that was stopped, or whose broker was slow, has seen nothing meanwhile."""
    silence, claim = Silence(), Claim("a", 1)
    assert silence.look(claim, 10.0, 40.0) == 0
    assert silence.look(claim, 41.0, 90.0) == 1
    assert silence.look(claim, 39.0, 39.0) == 0


def test_a_new_leader_begins_a_new_silence() -> None:
    silence = Silence()
    silence.look(Claim("a", 1, 4), 10.0, 10.0)
    assert silence.look(Claim("b", 2, 4), 18.0, 18.0) == 0


def test_engines_say_in_which_settings_their_files_differ() -> None:
    assert differing({"topics": "1", "groups": "2"}, {"topics": "1", "groups": "3", "new": "4"}) == ("groups", "new")
    assert differing({"topics": "1"}, {}) == (), "a leader of a version that does not tell"


def test_standbys_come_and_go() -> None:
    standby = Standby("a", "host", 42, 5, ("topics",))
    state = state_of((standby.record(), None))
    assert state.standbys == {"a": standby}
    state.apply(*no_standby_record("a"))
    assert state.standbys == {}


def test_the_term_of_a_record_stands_in_its_headers() -> None:
    assert term_of(term_header(17)) == 17
    assert term_of((("other", b"5"),)) is None


# What an engine that led before had on its way when another took over.

OLD, NEW = Position(10, 10, 0, True), Position(20, 20, 0, True)


def test_a_late_position_of_an_earlier_leader_does_not_count_and_is_written_again() -> None:
    late = replace(OLD, upstream=5, downstream=5)
    state = state_of(
        (OLD.record(ORDERS), 1),
        (chunk_record(ORDERS, 0, [Run(0, 0, 10)]), 1),
        (claim_record(bid("b", 2)), None),
        (chunk_record(ORDERS, 0, [Run(0, 0, 20)]), 2),
        (NEW.record(ORDERS), 2),
        (chunk_record(ORDERS, 0, [Run(0, 0, 5)]), 1),
        (late.record(ORDERS), 1),
    )
    assert state.positions[ORDERS] == NEW
    assert state.open_runs(ORDERS) == (Run(0, 0, 20),)
    repaired = [state.record_of(key) for key in sorted(state.overwritten)]
    assert repaired == [NEW.record(ORDERS), chunk_record(ORDERS, 0, [Run(0, 0, 20)])]
    for key, value in repaired:
        state.apply(key, value, 2)
    assert state.overwritten == set()


FULL = [Run(10 * each, 11 * each, 9) for each in range(300)]


def test_what_a_task_writes_behind_those_that_have_taken_its_place_does_not_count() -> None:
    """One that is cut off from its engine goes on for a while. A group in the hole of the map would pass records."""

    def of_epoch(epoch: int, *records: StateRecord) -> None:
        for key, value, headers, _ in stamped(records, 1, 0, epoch):
            state.apply(key, value, term_of(headers), epoch_of(headers))

    state = state_of((claim_record(bid("a", 1)), None))
    before = Position(2_499, 2_748, 0, True, chunk=0)
    of_epoch(1, chunk_record(ORDERS, 0, FULL[:250]), before.record(ORDERS))
    matched = Position(2_999, 3_298, 0, True, chunk=1)
    of_epoch(2, chunk_record(ORDERS, 0, FULL[:256]), chunk_record(ORDERS, 1, FULL[256:]), matched.record(ORDERS))
    of_epoch(1, chunk_record(ORDERS, 0, FULL[:251]), replace(before, upstream=2_509).record(ORDERS))
    known = state.offset_map(ORDERS)
    assert known is not None
    assert [known.translate(each) for each in (2_505, 2_555, 2_999)] == [Exact(2_755), Exact(2_810), Exact(3_298)]
    assert state.positions[ORDERS] == matched
    assert state.overwritten == {key for key, _ in (chunk_record(ORDERS, 0, []), matched.record(ORDERS))}
    for key in sorted(state.overwritten):
        state.apply(*state.record_of(key), 1)
    assert state.overwritten == set()


def test_in_another_term_epochs_are_counted_anew() -> None:
    state = state_of((claim_record(bid("a", 1)), None))
    state.apply(*OLD.record(ORDERS), 1, 7)
    state.apply(*claim_record(bid("b", 2)))
    state.apply(*NEW.record(ORDERS), 2, 1)
    assert (state.positions, state.overwritten) == ({ORDERS: NEW}, set())


def test_what_a_task_says_first_of_a_partition_counts_in_whichever_epoch() -> None:
    state = state_of((claim_record(bid("a", 1)), None))
    state.apply(*OLD.record(ORDERS), 1, 2)
    other = TopicPartition("orders", 1)
    state.apply(*NEW.record(other), 1, 1)
    assert state.positions == {ORDERS: OLD, other: NEW}


def test_the_first_position_of_a_partition_counts_however_late() -> None:
    """Its records may have come too: without it the copy would begin anew and double them."""
    state = state_of((claim_record(bid("b", 2)), None), (OLD.record(ORDERS), 1))
    assert state.positions == {ORDERS: OLD}
    assert state.overwritten == set()


def test_a_position_of_the_leader_and_what_is_of_no_engine_counts() -> None:
    state = state_of((claim_record(bid("b", 2)), None), (OLD.record(ORDERS), 2), (NEW.record(ORDERS), None))
    assert state.positions == {ORDERS: NEW}


def test_a_late_report_and_a_late_producer_do_not_count() -> None:
    state = state_of(
        (claim_record(bid("b", 2)), None),
        (RunReport("RUNNING", (), 5).record(), 2),
        (DataProducer(7, 3, "id").record(), 2),
        (RunReport("DEGRADED", ("frozen",), 3).record(), 1),
        (DataProducer(7, 2, "id").record(), 1),
    )
    assert state.run == RunReport("RUNNING", (), 5)
    assert state.producer == DataProducer(7, 3, "id")
    assert [state.record_of(key) for key in sorted(state.overwritten)] == [
        DataProducer(7, 3, "id").record(),
        RunReport("RUNNING", (), 5).record(),
    ]


def test_who_has_written_is_known_however_late_it_is_said() -> None:
    state = state_of((claim_record(bid("b", 2)), None), (writer_record(7, 5), 1))
    assert state.writers == {7}


def test_a_transactional_id_is_registered_however_late_and_what_is_known_of_it_is_the_leaders_word() -> None:
    """Else who comes next would wait for a transaction behind which nobody writes."""
    new, old = transactional_id_record("b-0", 5), transactional_id_record("a-0", 5, (7, 3))
    own = transactional_id_record("b-0", 6, (7, 4), WrittenAs(7, 4, 2))
    late = transactional_id_record("b-0", 4, written_as=WrittenAs(7, 2, 1))
    state = state_of((claim_record(bid("b", 2)), None), (old, 1), (new, 2), (own, 2), (late, 1))
    assert state.transactional_ids == {"a-0", "b-0"}
    assert state.unended == {"a-0": (7, 3), "b-0": (7, 4)}
    assert state.written_as == {"b-0": WrittenAs(7, 4, 2)}
    assert [state.record_of(key) for key in sorted(state.overwritten)] == [own]


@pytest.mark.parametrize("passed", [False, True])
def test_a_late_gap_that_nobody_else_has_found_counts_and_stops_nothing(*, passed: bool) -> None:
    """It may be one that stops the partition, of a copy that has gone on since; nor does it say that it has."""
    stopped = Gap(ORDERS, 40, 50, "gone again", 7, GapKind.RETENTION, passed=False)
    gap = Gap(ORDERS, 3, 5, "gone", 9, GapKind.RETENTION, passed=passed)
    chunk = chunk_record(ORDERS, 3, [Run(0, 0, 5)])
    state = state_of((claim_record(bid("b", 2)), None), (stopped.record(), 2), (gap.record(), 1), (chunk, 1))
    late = replace(gap, is_repeated=True)
    for _ in range(2):
        assert (state.gaps, state.barriers) == ({stopped.key: stopped, late.key: late}, {ORDERS: stopped})
        assert state.chunks == {}
        again = [state.record_of(key) for key in sorted(state.overwritten)]
        for key, value in again:
            state.apply(key, value, 2)
        assert again in ([late.record(), (chunk[0], None)], [])
    state.apply(*gap.record(), 1)
    assert (state.gaps[gap.key], [state.record_of(key) for key in state.overwritten]) == (late, [late.record()])
    state.apply(gap.record()[0], None, 1)
    assert state.open_gaps == [late, stopped], "nor does an engine that leads no longer take it back"
    state = state_of((claim_record(bid("b", 2)), None), (late.record(), 2), ((gap.record()[0], None), 2))
    state.apply(gap.record()[0], None, 1)
    assert (state.gaps, state.overwritten) == ({}, set())


def test_a_gap_that_is_written_again_does_not_hide_the_one_at_which_the_partition_stopped_since() -> None:
    """Whoever reads the log after it was compacted finds the older gap behind the newer one."""
    passed = Gap(ORDERS, 3, 5, "gone", 9, GapKind.RETENTION)
    stopped = Gap(ORDERS, 40, 50, "gone again", 7, GapKind.RETENTION, passed=False)
    other = Gap(TopicPartition("bills", 0), 40, 50, "gone", 8)
    state = state_of(
        (passed.record(), 1),
        (claim_record(bid("b", 2)), None),
        (stopped.record(), 2),
        (other.record(), 2),
        (passed.record(), 1),
    )
    for _ in range(2):
        again = [state.record_of(key) for key in sorted(state.overwritten)]
        for key, value in again:
            state.apply(key, value, 2)
        assert (state.overwritten, state.barriers, len(state.gaps)) == (set(), {ORDERS: stopped}, 3)
        compacted = state_of((claim_record(bid("b", 2)), None), (stopped.record(), 2), (again[0], 2))
        assert (compacted.barriers, compacted.gaps.keys()) == ({ORDERS: stopped}, {passed.key, stopped.key})
        state.apply(*passed.record(), 1)
    state.apply(*replace(stopped, passed=True).record(), 2)
    assert state.barriers == {}


def test_the_newest_gap_that_is_written_again_stays_the_newest() -> None:
    passed = Gap(ORDERS, 3, 5, "gone", 9, GapKind.RETENTION)
    stopped = Gap(ORDERS, 40, 50, "gone again", 7, GapKind.RETENTION, passed=False)
    state = state_of((stopped.record(), 1), (claim_record(bid("b", 2)), None), (stopped.record(), 1))
    assert state.record_of(stopped.record()[0]) == stopped.record()
    state = state_of((passed.record(), 1), (stopped.record(), 1), (claim_record(bid("b", 2)), None))
    for gap in (passed, stopped):
        state.apply(*gap.record(), 1)
    for key in sorted(state.overwritten, reverse=True):
        state.apply(*state.record_of(key), 2)
    assert state.barriers == {ORDERS: stopped}


def test_how_far_an_earlier_leader_was_with_a_takeover_does_not_undo_what_came_of_it() -> None:
    done, doing = Takeover(ORDERS, 20, 30, 30, 10, 10), Takeover(ORDERS, 20, None, None, 5, 10)
    state = state_of((claim_record(bid("b", 2)), None), (done.record(), 2), (doing.record(), 1))
    assert state.takeovers == {ORDERS: done}
    assert [state.record_of(key) for key in sorted(state.overwritten)] == [done.record()]


def test_mirrormakers_position_that_follows_a_late_one_of_ours_is_no_sign_of_java() -> None:
    state = state_of(
        (OLD.record(ORDERS), 1), (claim_record(bid("b", 2)), None), (replace(OLD, upstream=20).record(ORDERS), 1)
    )
    assert state.late == {ORDERS: 20}
    assert not traces_of({ORDERS: 20}, {}, state, matches=True, has_run=False).certain
    assert traces_of({ORDERS: 21}, {}, state, matches=True, has_run=False).certain.keys() == {ORDERS}


BEFORE, SINCE = Placement("billing", ORDERS, 5, 6, 6), Placement("billing", ORDERS, 40, 50, 50)


def test_where_an_earlier_leader_was_about_to_put_a_group_does_not_hide_where_it_was_put_since() -> None:
    """By the late one the group would seem to have read up to 50: led back, it would pass what it has not read."""
    state = state_of(
        (placement_record(BEFORE), 1),
        (claim_record(bid("b", 2)), None),
        (placement_record(SINCE), 2),
        (placement_record(BEFORE), 1),
    )
    assert state.placements == {("billing", ORDERS): SINCE}
    assert [state.record_of(key) for key in sorted(state.overwritten)] == [placement_record(SINCE)]


def test_that_an_earlier_leader_could_not_put_a_group_somewhere_does_not_take_back_where_it_was_put_since() -> None:
    state = state_of((claim_record(bid("b", 2)), None), (placement_record(SINCE), 2), (no_placement_record(BEFORE), 1))
    assert state.placements == {("billing", ORDERS): SINCE}


def test_the_first_placement_of_a_group_counts_however_late() -> None:
    """Its position may be there too: without it the group would seem to have read up to it."""
    state = state_of((claim_record(bid("b", 2)), None), (placement_record(BEFORE), 1))
    assert (state.placements, state.overwritten) == ({("billing", ORDERS): BEFORE}, set())


def test_whoever_moves_groups_by_hand_is_of_no_term_and_counts() -> None:
    state = state_of((claim_record(bid("b", 2)), None), (placement_record(SINCE), 2), (placement_record(BEFORE), None))
    assert state.placements == {("billing", ORDERS): BEFORE}


def test_what_a_task_of_a_topic_before_records_in_one_that_was_created_anew_counts_for_nothing() -> None:
    """An engine of term 7 is cut off, the state topic is deleted, and another one leads in term 1 of the new one.

    A task that nobody can tell that it is over records once more. All that was recorded since seemed to be late.
    """

    def at(offset: int) -> StateRecord:
        return Position(offset, offset, 0, True, 0, "here", "there").record(ORDERS)

    state = state_of((claim_record(bid("b", 1)), None))
    state.apply(*at(100), 1, 5)
    state.apply(*at(10), 7, 3)
    state.apply(*at(600), 1, 6)
    assert (state.positions[ORDERS].upstream, state.overwritten) == (600, set())


def test_behind_a_claim_that_is_not_understood_terms_go_on() -> None:
    """It is of a later version, and so may be what it leads."""
    key, _ = claim_record(bid("c", 2))
    state = state_of((claim_record(bid("b", 1)), None), ((key, b'{"v":9}'), None))
    state.apply(*Position(600, 600, 0, True, 0, "here", "there").record(ORDERS), 2, 1)
    assert state.positions[ORDERS].upstream == 600


def test_that_a_late_gap_is_written_again_does_not_take_back_that_somebody_has_acknowledged_it() -> None:
    gap = Gap(ORDERS, 40, 50, "gone", 7, GapKind.RETENTION, passed=False)
    state = state_of((claim_record(bid("b", 2)), None), (gap.record(), 1))
    state.apply(*Acknowledgement("ann", "seen", 9).record(gap.key))
    (key,) = state.overwritten
    state.apply(*state.record_of(key), 2)
    assert state.open_gaps == []
