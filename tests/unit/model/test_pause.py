"""What is paused: the last that speaks of a topic counts, whatever compaction has left of the log."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.pause import PauseReport, Pauses, PauseWish, paused_of
from mirror.model.state_record import StateRecord
from mirror.model.state_values import pause_record, pause_report_record

ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 1)


def wish(topics: str | None, number: int, *, is_pause: bool = True) -> PauseWish:
    return PauseWish(f"wish {number}", topics, is_pause, "ann", number)


def folded(*records: StateRecord) -> FlowState:
    state = FlowState()
    for record in records:
        state.apply(*record)
    return state


WISHES = st.lists(st.tuples(st.sampled_from([None, "orders", "b.*", ".*"]), st.booleans()), max_size=12).map(
    lambda drawn: [wish(topics, number, is_pause=is_pause) for number, (topics, is_pause) in enumerate(drawn)]
)


@given(WISHES, st.sampled_from(["orders", "bills", "else"]))
def test_the_last_that_speaks_of_a_topic_counts(wishes: list[PauseWish], topic: str) -> None:
    state = folded(*map(pause_record, wishes))
    spoken = [each for each in wishes if each.speaks_of(topic)]
    assert state.pauses.is_paused(topic) == (bool(spoken) and spoken[-1].is_pause)


def test_a_wish_speaks_of_topics_whose_whole_name_matches() -> None:
    assert not wish("order", 1).speaks_of("orders")
    assert not wish("rders", 1).speaks_of("orders")
    assert wish("order.", 1).speaks_of("orders")
    assert wish(None, 1).speaks_of("orders")


@given(WISHES)
def test_compaction_changes_nothing(wishes: list[PauseWish]) -> None:
    records = [pause_record(each) for each in wishes]
    newest = {key: place for place, (key, _) in enumerate(records)}
    left = [record for place, record in enumerate(records) if newest[record[0]] == place]
    assert folded(*left).pauses == folded(*records).pauses


def cut(number: int, *, is_pause: bool = True) -> PauseWish:
    return PauseWish(f"cut {number}", None, is_pause, "mirror failover", number, is_cut=True)


def test_a_cut_tells_where_logs_of_the_target_ended() -> None:
    known = replace(cut(1), log_ends={"orders": [3, None]})
    found = folded(pause_record(known)).pauses.cut
    assert found == known
    ends = [found.log_end(TopicPartition(topic, number)) for topic in ("orders", "bills") for number in range(3)]
    assert ends == [3, None, 0, 0, 0, 0], "None: its leader did not tell; 0: the partition was not there"


def test_a_cut_of_an_earlier_version_tells_no_log_ends() -> None:
    assert "log_ends" not in cut(1).content()
    assert cut(1).log_end(ORDERS) is None


@pytest.mark.parametrize("ends", [None, {"orders": [3]}])
def test_a_cut_that_is_made_again_is_one_since_the_first(ends: dict[str, list[int]] | None) -> None:
    """Where nothing was on record the ends of the second counted: what was written between the two was passed by."""
    again = replace(cut(2), log_ends={"orders": [5]}).continuing(replace(cut(1), log_ends=ends))
    assert (again.wish, again.at_ms, again.log_ends) == ("cut 2", 1, ends)


@given(WISHES, WISHES, st.sampled_from(["orders", "bills", "else"]))
def test_a_cut_stops_everything_and_its_end_leaves_the_pauses_by_hand_as_they_were(
    before: list[PauseWish], meanwhile: list[PauseWish], topic: str
) -> None:
    by_hand = folded(*map(pause_record, (*before, *meanwhile))).pauses
    during = folded(*map(pause_record, (*before, cut(1), *meanwhile))).pauses
    assert (during.is_paused(topic), during.pauses_any, during.is_cut) == (True, True, True)
    assert during.descriptions()[-1].endswith("the cut of a failover")
    records = [pause_record(each) for each in (*before, cut(1), *meanwhile, cut(2, is_pause=False))]
    newest = {key: place for place, (key, _) in enumerate(records)}
    for left in (records, [record for place, record in enumerate(records) if newest[record[0]] == place]):
        after = folded(*left).pauses
        assert (after.is_paused(topic), after.wishes, after.is_cut) == (by_hand.is_paused(topic), by_hand.wishes, False)
        assert after == by_hand


def test_the_end_of_a_cut_leaves_no_record_that_an_earlier_version_would_not_understand() -> None:
    key, value = pause_record(cut(2, is_pause=False))
    assert (key, value) == (b'["pause",null,"cut"]', None)
    report = pause_report_record(PauseReport("engine", ("cut 1",)))
    state = folded(pause_record(cut(1)), report, (key, value))
    assert (state.is_cut_ended, state.pause_report) == (True, None), "what was said before it tells nothing of it"
    assert not folded((key, value), pause_record(cut(3))).is_cut_ended


def test_a_cut_that_a_version_before_has_ended_with_a_record_is_over() -> None:
    state = folded(
        pause_record(cut(1)), (pause_record(cut(1))[0], json.dumps(cut(2).content() | {"paused": False}).encode())
    )
    assert (state.pauses, state.is_cut_ended) == (Pauses(), True)


@pytest.mark.parametrize("value", [b"{", b'{"v":9}', b"{}"], ids=["no JSON", "a later version", "without its fields"])
def test_a_resume_of_all_by_hand_ends_no_cut_that_is_not_understood(value: bytes) -> None:
    """It would end none that is understood either; what is wished by hand and not understood it ends."""
    by_hand, resumed = (b'["pause","a.*"]', value), pause_record(PauseWish("all", None, False, "ann", 2))
    key, _ = pause_record(cut(1))
    unread = folded((key, value), by_hand, resumed)
    assert unread.pauses.is_paused("orders")
    assert set(unread.not_understood) == {key}
    ended = folded((key, value), resumed, pause_record(cut(2, is_pause=False)))
    assert not ended.pauses.is_paused("orders"), "only the cut's own end does"


def test_a_record_without_a_value_takes_a_wish_back() -> None:
    key, value = pause_record(wish("orders", 1))
    assert folded((key, value)).pauses.is_paused("orders")
    assert folded((key, value), (key, None)).pauses == Pauses()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (["pause", "orders"], {"v": 2}),
        (["pause", "("], wish("(", 1).content()),
        (["pause", "orders"], wish("orders", 1).content() | {"paused": "until noon"}),
        (["pause", "orders", "of today"], wish("orders", 1).content()),
    ],
)
def test_a_wish_that_is_not_understood_pauses_everything_until_there_is_one_about_everything(
    key: list[str], value: dict[str, object]
) -> None:
    """It might be about any topic, and what is copied cannot be taken back."""
    obscure = json.dumps(key, separators=(",", ":")).encode(), json.dumps(value).encode()
    state = folded(obscure)
    assert state.pauses.is_paused("bills")
    assert state.pauses.pauses_any
    assert "is not understood" in state.pauses.descriptions()[0]
    state.apply(*pause_record(wish("bills", 1, is_pause=False)))
    assert state.pauses.is_paused("bills")
    state.apply(*pause_record(wish(None, 2, is_pause=False)))
    assert not state.pauses.is_paused("bills")
    assert state.pauses.descriptions() == ()


def test_what_the_leader_says_is_read_back_and_does_not_count_of_an_earlier_one() -> None:
    report = PauseReport("engine", ("wish 1",), frozenset({ORDERS}), {BILLS: "its tail is compared"})
    state = folded(pause_report_record(report))
    assert state.pause_report == report
    assert state.record_of(b'["paused"]') == pause_report_record(report)
    claim = {"engine": "other", "term": 5, "confirmed": True}
    state.apply(b'["claim"]', json.dumps(claim).encode(), 5)
    late = pause_report_record(PauseReport("engine", ("wish 2",)))
    assert not state.apply(*late, 4)
    assert state.pause_report == report
    assert state.apply(*late, 5)


def test_only_partitions_of_topics_that_are_paused_are() -> None:
    pauses = Pauses().with_wish(wish("ord.*", 1))
    assert paused_of(pauses, [ORDERS, BILLS]) == {ORDERS}
    assert pauses.descriptions() == ("topics that match ord.*, paused by ann at 1970-01-01T00:00:00Z",)
    again = pauses.with_wish(wish("orders", 2, is_pause=False))
    assert paused_of(again, [ORDERS, BILLS]) == frozenset()
    assert again.has("wish 1")
    assert not again.with_wish(wish(None, 3)).has("wish 1")
