"""Engines of one flow in one state topic, in memory: who bids, leads, stands by, and what each writes of it."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import psutil
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mirror.engine import election
from mirror.engine.election import Election
from mirror.kafka.problems import ConnectionFailed
from mirror.model.flow import Flow
from mirror.model.leadership import Claim, digest_of
from mirror.model.partition import TopicPartition
from mirror.model.pause import PauseReport, Pauses, PauseWish
from mirror.model.position import Position
from mirror.model.state_record import stamped, term_of
from mirror.model.state_values import RunReport, claim_record, no_standby_record, pause_record, pause_report_record
from tests.unit.engine.elections import HERE, REPORT, TIMEOUT, Topic, in_place, report

RENEWAL, STANDBY, FORGOTTEN = 1.5, 5.0, 60.0


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    return in_place(Topic(), monkeypatch)


@pytest.fixture
def gone() -> int:
    """The id of a process that is there no more."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


def test_the_first_engine_bids_for_the_first_term_sees_its_bid_win_and_confirms_it(topic: Topic) -> None:
    first = topic.engine("first", settings={"topics": "abc"})
    assert first.round(report)
    assert (first.term, first.was_settled, first.renewed_at) == (1, False, topic.now)
    bid = Claim("first", 1, 0, False, False, False, "host", os.getpid(), "this machine", {"topics": "abc"}, TIMEOUT)
    assert topic.claims() == [bid, bid.renewed()]
    assert topic.state.run == REPORT


def test_a_leader_renews_four_times_in_the_time_out_and_writes_nothing_in_between(topic: Topic) -> None:
    first = topic.engine("first")
    first.round(report)
    written = len(topic.log)
    topic.now += RENEWAL - 0.001
    assert first.round(report)
    assert len(topic.log) == written
    topic.now += 0.001
    assert first.round(report)
    assert topic.claims()[-1].renewals == 2
    assert first.renewed_at == topic.now


def test_what_a_leader_writes_has_its_term(topic: Topic) -> None:
    first = topic.engine("first")
    first.round(report)
    bid, renewal, said = topic.log
    assert [term_of(headers) for _, _, headers, _ in (bid, renewal, said)] == [None, 1, 1]


def test_another_stands_by_and_says_so_now_and_then_with_what_differs_in_its_file(topic: Topic) -> None:
    first, second = topic.engine("first", settings={"topics": "a"}), topic.engine("second", settings={"topics": "b"})
    first.round(report)
    assert not second.round(report)
    assert second.claim == topic.claims()[-1]
    assert second.term is None
    assert [(each.engine, each.differs_in) for each in topic.state.standbys.values()] == [("second", ("topics",))]
    said = len(topic.log)
    topic.now += STANDBY - 0.001
    second.round(report)
    assert len(topic.log) == said
    topic.now += 0.001
    second.round(report)
    assert len(topic.log) == said + 1


def test_the_engine_that_leads_differs_from_none(topic: Topic) -> None:
    first = topic.engine("first", settings={"topics": "a"})
    for _ in range(2):
        first.round(report)
        topic.now += RENEWAL
    assert first.differs_in == ()


@pytest.mark.parametrize("is_settled", [True, False])
def test_a_released_flow_is_led_by_another_at_once_in_the_next_term(topic: Topic, is_settled: bool) -> None:
    first, second = topic.engine("first"), topic.engine("second")
    first.round(report)
    second.round(report)
    first.release(REPORT, is_settled=is_settled)
    assert first.term is None
    last = topic.claims()[-1]
    assert (last.engine, last.is_released, last.is_settled) == ("first", True, is_settled)
    assert second.round(report)
    assert (second.term, second.was_settled) == (2, is_settled)


A, B = {"topics": "a"}, {"topics": "b"}
RUNNING = RunReport("RUNNING", (), 5, settings=digest_of(A))


@pytest.mark.parametrize(
    ("last", "shared", "at_ms"),
    [
        (RUNNING, A, 5),
        (replace(RUNNING, state="STOPPED"), A, 5),
        (replace(RUNNING, state="DEGRADED", reasons=("no leader",), untroubled_at_ms=3), A, 3),
        (replace(RUNNING, state="PAUSED", untroubled_at_ms=3), A, 3),
        (replace(RUNNING, state="STARTING"), A, None),
        # Another file may select other topics, and a version that does not say by which file it reports one like it.
        (RUNNING, B, None),
        (replace(RUNNING, settings=""), A, None),
    ],
)
def test_a_leader_knows_since_when_those_before_it_had_trouble(
    topic: Topic, last: RunReport, shared: dict[str, str], at_ms: int | None
) -> None:
    first, second = topic.engine("first", settings=A), topic.engine("second", settings=shared)
    assert first.round(lambda: last)
    assert first.was_untroubled_at_ms is None
    first.release(last, is_settled=True)
    assert second.round(report)
    assert second.was_untroubled_at_ms == at_ms


def test_an_engine_that_was_killed_before_its_first_report_vouches_for_nothing_that_was_reported_before(
    topic: Topic,
) -> None:
    """What is on record then is of an engine whose file differs, beside a claim with the file of this one."""
    first, second, third = (topic.engine(name, settings=by) for name, by in (("1", A), ("2", B), ("3", B)))
    first.round(lambda: RUNNING)
    first.release(RUNNING, is_settled=True)

    def killed() -> RunReport:
        raise ConnectionFailed("killed")

    with pytest.raises(ConnectionFailed):
        second.round(killed)
    third.round(report)
    topic.now += TIMEOUT + 0.001
    assert third.round(report)
    assert third.was_untroubled_at_ms is None


@pytest.mark.parametrize(("shared", "at_ms"), [(A, 5), (B, None)])
def test_a_fence_in_between_changes_nothing_of_when_an_engine_had_no_trouble(
    topic: Topic, shared: dict[str, str], at_ms: int | None
) -> None:
    """Who fences a flow that no engine leads, for a pause or a failover, has no file's settings in its claim."""
    first, fence, second = (topic.engine(name, settings=by) for name, by in (("1", A), ("2", {}), ("3", shared)))
    first.round(lambda: RUNNING)
    first.release(RUNNING.left_behind(), is_settled=True)
    fence.round(RUNNING.left_behind)
    fence.release(RUNNING.left_behind(), is_settled=False)
    assert second.round(report)
    assert second.was_untroubled_at_ms == at_ms


def test_what_an_engine_reports_that_thaws_while_another_leads_does_not_count(topic: Topic) -> None:
    first, second, third = (topic.engine(name, settings=A) for name in "123")
    first.round(lambda: RUNNING)
    second.round(report)
    topic.now += TIMEOUT + 0.001
    assert second.round(lambda: replace(RUNNING, state="DEGRADED", reasons=("away",), untroubled_at_ms=5))
    late = replace(RUNNING, at_ms=99).record()
    topic.log += stamped([late], 1, 0)
    third.round(report)
    topic.now += TIMEOUT + 0.001
    assert third.round(report)
    assert third.was_untroubled_at_ms == 5


def test_a_released_term_is_not_led_on_by_a_late_round_of_the_same_engine(topic: Topic) -> None:
    first = topic.engine("first")
    first.round(report)
    first.release(REPORT, is_settled=True)
    assert first.round(report)
    assert first.term == 2


def test_a_leader_is_given_the_whole_time_and_not_more(topic: Topic) -> None:
    first, second = topic.engine("first"), topic.engine("second")
    first.round(report)
    second.round(report)
    topic.now += TIMEOUT
    assert not second.round(report)
    topic.now += 0.001
    assert second.round(report)
    assert (second.term, second.was_settled) == (2, False)


def test_a_leader_whose_file_gives_it_more_time_has_that_and_is_waited_for_as_long(topic: Topic) -> None:
    """By its own clock it may write for two thirds of that, whatever the file of the engine says that stands by."""
    first, second = topic.engine("first", timeout=10 * TIMEOUT), topic.engine("second")
    first.round(report)
    second.round(report)
    topic.now += 10 * TIMEOUT
    assert not second.round(report)
    topic.now += 0.001
    assert second.round(report)
    assert second.former_seconds == 10 * TIMEOUT
    # The first may have renewed its claim right before the second bid: its time is counted from then.
    topic.now += 10 * TIMEOUT
    second.round(report)
    third = topic.engine("third", timeout=2 * TIMEOUT)
    third.round(report)
    topic.now += 2 * TIMEOUT + 1
    assert third.round(report)
    assert third.former_seconds == 2 * TIMEOUT, "its own is more than that of the one before"


@pytest.mark.parametrize("is_released", [True, False])
def test_what_is_left_of_the_time_of_the_leader_before_is_handed_on_by_a_short_term(
    topic: Topic, *, is_released: bool
) -> None:
    """A task of the first that was cut off may write on, whoever has led since."""
    first, second = topic.engine("first", timeout=10 * TIMEOUT), topic.engine("second")
    first.round(report)
    first.release(REPORT, is_settled=False)
    second.round(report)
    topic.now += 2 * TIMEOUT
    second.round(report)
    if is_released:
        second.release(REPORT, is_settled=False)
    third = topic.engine("third")
    third.round(report)
    if not is_released:
        topic.now += TIMEOUT + 0.001
        third.round(report)
    assert (third.term, third.former_seconds) == (3, 8 * TIMEOUT)
    topic.now += 9 * TIMEOUT
    third.release(REPORT, is_settled=False)
    fourth = topic.engine("fourth")
    fourth.round(report)
    assert fourth.former_seconds == TIMEOUT, "the first's is over"


def test_a_bid_that_its_engine_did_not_live_to_confirm_hands_on_what_is_left_of_the_time_before_it(
    topic: Topic,
) -> None:
    first, second = topic.engine("first", timeout=10 * TIMEOUT), topic.engine("second")
    first.round(report)
    first.release(REPORT, is_settled=False)
    second._read()
    second._bid()
    third = topic.engine("third")
    third.round(report)
    topic.now += TIMEOUT + 0.001
    third.round(report)
    assert (third.term, third.former_seconds) == (3, 10 * TIMEOUT)


def test_of_a_leader_that_has_stopped_with_all_in_the_log_nothing_is_left_to_hand_on(topic: Topic) -> None:
    first, second, third = topic.engine("first", timeout=10 * TIMEOUT), topic.engine("second"), topic.engine("third")
    first.round(report)
    first.release(REPORT, is_settled=True)
    second.round(report)
    second.release(REPORT, is_settled=False)
    third.round(report)
    assert third.former_seconds == TIMEOUT


def test_while_the_topic_cannot_be_read_a_leader_is_not_silent(topic: Topic) -> None:
    first, second = topic.engine("first"), topic.engine("second")
    first.round(report)
    second.round(report)
    topic.is_down = True
    topic.now += 2 * TIMEOUT
    with pytest.raises(ConnectionFailed):
        second.round(report)
    topic.is_down = False
    topic.now += TIMEOUT
    assert not second.round(report)
    topic.now += TIMEOUT
    assert not second.round(report)


def test_a_renewal_that_fails_changes_nothing_of_who_leads_and_is_tried_again_at_once(topic: Topic) -> None:
    first = topic.engine("first")
    first.round(report)
    began, topic.now, topic.is_down = topic.now, topic.now + RENEWAL, True
    for _ in range(2):
        with pytest.raises(ConnectionFailed):
            first.round(report)
    assert (first.term, first.renewed_at) == (1, began)
    topic.is_down = False
    assert first.round(report)
    assert first.renewed_at == topic.now


def test_a_leader_that_thaws_sees_the_later_term_and_leads_no_more(topic: Topic) -> None:
    first, second = topic.engine("first"), topic.engine("second")
    first.round(report)
    second.round(report)
    topic.now += TIMEOUT + 1
    second.round(report)
    assert not first.round(report)
    assert first.term is None
    assert first.claim is not None
    assert (first.claim.engine, first.claim.term) == ("second", 2)


def test_of_two_who_bid_at_once_the_first_in_the_log_leads(topic: Topic) -> None:
    first, second = topic.engine("first"), topic.engine("second")
    topic.before_append.append(lambda: second.round(report))
    assert not first.round(report)
    assert second.term == 1
    assert first.term is None
    assert [each.engine for each in topic.claims()] == ["second", "second", "first"]


def test_a_renewal_that_arrives_behind_the_bid_of_another_does_not_count(topic: Topic) -> None:
    """The right to write would last on beside that of the other."""
    first = topic.engine("first")
    first.round(report)
    renewed_at = first.renewed_at
    bid = replace(topic.claims()[-1], engine="second", term=2, renewals=0, is_confirmed=False)
    topic.now += RENEWAL
    topic.before_append.append(lambda: topic.log.extend(stamped([claim_record(bid)], None, 0)))
    assert not first.round(report)
    assert (first.term, first.renewed_at) == (None, renewed_at)


def test_a_renewal_counts_from_when_it_was_sent_however_long_it_took_to_arrive(topic: Topic) -> None:
    """Others count from there, as far as they can tell."""

    def be_slow() -> None:
        topic.now += 3.0

    first = topic.engine("first")
    first.round(report)
    topic.now += RENEWAL
    sent_at = topic.now
    topic.before_append.append(be_slow)
    assert first.round(report)
    assert first.renewed_at == sent_at


def test_a_claim_of_a_version_without_terms_is_no_leaders(topic: Topic) -> None:
    topic.log += stamped([claim_record(Claim("old"))], None, 5)
    first = topic.engine("first")
    assert first.round(report)
    assert first.term == 1


def test_of_the_topic_only_claims_and_standbys_are_read(topic: Topic) -> None:
    topic.log += stamped([Position(1, 1, 0, True).record(TopicPartition("orders", 0))], None, 5)
    topic.log.append((None, b"no key", (), 5))
    topic.log.append((b'["claim"', b"{", (), 5))
    first = topic.engine("first")
    assert first.round(report)
    assert first._state.positions == {}


# An engine that has died, as others on the same machine see it.


def died(topic: Topic, pid: int, place: str = "this machine", seen_from: str = "this machine") -> bool:
    """Whether an engine that sees it for the first time leads at once."""
    topic.engine("first", pid=pid, place=place).round(report)
    return topic.engine("second", place=seen_from).round(report)


def test_a_leader_whose_process_is_gone_is_not_waited_for(topic: Topic, gone: int) -> None:
    assert died(topic, gone)


def test_a_leader_whose_process_is_there_is_waited_for(topic: Topic) -> None:
    assert not died(topic, os.getpid())


def test_of_a_process_on_another_machine_nothing_is_known(topic: Topic, gone: int) -> None:
    assert not died(topic, gone, place="another machine")


def test_machines_that_cannot_be_told_apart_are_not_taken_for_one(topic: Topic, gone: int) -> None:
    assert not died(topic, gone, place="", seen_from="")


def test_a_process_that_has_ended_and_was_not_waited_for_is_gone(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    status = SimpleNamespace(status=lambda: psutil.STATUS_ZOMBIE)
    monkeypatch.setattr(election.psutil, "Process", lambda _: status)
    assert died(topic, os.getpid())


@pytest.mark.parametrize("problem", [PermissionError(), psutil.AccessDenied()])
def test_a_process_that_may_not_be_seen_is_taken_to_be_there(
    topic: Topic, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    def refuse(*_: object) -> None:
        raise problem

    monkeypatch.setattr(election.os, "kill", refuse)
    assert not died(topic, os.getpid())


# Engines that stand by, as the leader sees them.


def test_a_leader_strikes_off_itself_and_who_was_not_heard_of_for_a_minute_of_its_own_clock(topic: Topic) -> None:
    first, second, third = (topic.engine(name) for name in ("first", "second", "third"))
    first.round(report)
    second.round(report)
    third.round(report)
    first.release(REPORT, is_settled=True)
    second.round(report)
    assert topic.state.standbys.keys() == {"third"}
    topic.now += FORGOTTEN
    second.round(report)
    assert topic.state.standbys.keys() == {"third"}
    topic.now += RENEWAL
    second.round(report)
    assert topic.state.standbys == {}


def test_a_standby_that_goes_on_speaking_is_kept_whatever_its_clock_says(topic: Topic) -> None:
    first, second = topic.engine("first"), topic.engine("second")
    first.round(report)
    for _ in range(40):
        second.round(report)
        assert first.round(report)
        topic.now += RENEWAL
    assert topic.state.standbys.keys() == {"second"}


def test_who_stands_by_and_ends_is_struck_off_by_itself(topic: Topic) -> None:
    first, second = topic.engine("first"), topic.engine("second")
    first.round(report)
    second.round(report)
    second.round(report)
    second.release(REPORT, is_settled=True)
    assert topic.state.standbys == {}
    assert topic.log[-1][:2] == no_standby_record("second")
    assert not topic.claims()[-1].is_released


def test_who_has_never_said_anything_ends_without_a_word(topic: Topic) -> None:
    topic.engine("first").release(REPORT, is_settled=True)
    assert topic.log == []


class Engines(RuleBasedStateMachine):
    """Three engines in turns, at times between another's look and its append, with pauses of any length."""

    def __init__(self) -> None:
        super().__init__()
        self._patch = pytest.MonkeyPatch()
        self.topic = in_place(Topic(), self._patch)
        # Not of one machine: none sees that another one's process is there.
        self.engines = [self.topic.engine(name, place=name) for name in ("first", "second", "third")]

    def teardown(self) -> None:
        self._patch.undo()

    @rule(seconds=st.sampled_from([0.1, RENEWAL, TIMEOUT, TIMEOUT + 0.1]))
    def time_passes(self, seconds: float) -> None:
        self.topic.now += seconds

    @rule(number=st.integers(0, 2))
    def one_has_its_turn(self, number: int) -> None:
        self.engines[number].round(report)

    @rule(order=st.permutations(range(3)))
    def others_come_between_its_look_and_its_append(self, order: list[int]) -> None:
        first, *others = (self.engines[number] for number in order)
        self.topic.before_append += [lambda each=each: each.round(report) for each in others]  # type: ignore[misc]
        first.round(report)
        self.topic.before_append.clear()

    @rule(number=st.integers(0, 2), is_settled=st.booleans())
    def one_stops_in_order_and_begins_anew(self, number: int, is_settled: bool) -> None:
        self.engines[number].release(REPORT, is_settled=is_settled)

    @invariant()
    def a_term_has_one_leader(self) -> None:
        terms = [each.term for each in self.engines if each.term is not None]
        assert len(terms) == len(set(terms))
        confirmed = {(each.term, each.engine) for each in self.topic.claims() if each.is_confirmed}
        assert len(confirmed) == len({term for term, _ in confirmed})

    @invariant()
    def whoever_leads_the_last_term_is_who_all_readers_see(self) -> None:
        claim, terms = self.topic.state.claim, [each.term or 0 for each in self.engines]
        if claim is not None and not claim.is_released and claim.is_confirmed:
            leader = next(each for each in self.engines if each._identity.engine == claim.engine)
            assert leader.term == claim.term == max(terms)


TestEngines = Engines.TestCase
TestEngines.settings = settings(max_examples=settings.default.max_examples, stateful_step_count=20)


def test_a_flow_may_be_led_over_another_topic(topic: Topic) -> None:
    topic.name = "mm2-state.of-another-source.internal"
    engine = Election(Flow("east", "west"), {}, {}, HERE, timeout_seconds=TIMEOUT, settings={}, topic=topic.name)
    assert engine.round(report)
    assert topic.state.claim is not None


def test_who_has_not_led_yet_knows_of_no_right_to_write_and_of_no_leader_before(topic: Topic) -> None:
    engine = topic.engine("first")
    assert (engine.term, engine.claim, engine.was_settled, engine.renewed_at) == (None, None, False, -math.inf)


def test_a_leader_sees_whether_what_it_has_said_of_pauses_still_counts(topic: Topic) -> None:
    """Not behind the end of a cut, also one that began and ended between two looks; and not once it is written over."""
    first = topic.engine("first")
    first.round(report)
    said = PauseReport("first", ())
    first.publish(pause_report_record(said))
    first.round(report)
    assert first.pause_report == said
    cut = PauseWish("cut", None, True, "ann", 5, is_cut=True)
    topic.append(topic.name, 0, stamped(map(pause_record, (cut, replace(cut, is_pause=False))), None, 5))
    first.round(report)
    assert (first.pauses, first.pause_report) == (Pauses(), None)
    first.publish(pause_report_record(said))
    topic.append(topic.name, 0, stamped([pause_report_record(PauseReport("before", ()))], 0, 5))
    first.round(report)
    assert first.pause_report == PauseReport("before", ())


def test_an_engine_that_was_cut_off_until_the_end_of_a_cut_was_cleaned_away_is_not_cut_for_ever(topic: Topic) -> None:
    """The record that ended it is there no more; nor is the one that began it."""
    first = topic.engine("first")
    cut = PauseWish("cut", None, True, "ann", 5, is_cut=True)
    topic.append(topic.name, 0, stamped([pause_record(cut)], None, 5))
    first.round(report)
    assert first.pauses.is_cut
    topic.log = [each for each in topic.log if each[0] != pause_record(cut)[0]]
    topic.was_long_away = True
    first.round(report)
    assert not first.pauses.is_cut
    assert first.term == 1, "its claim stands there still"


def test_who_led_in_a_state_topic_that_was_deleted_does_not_lead_in_the_one_that_another_leads_in(topic: Topic) -> None:
    """By the claim that it remembered, of a later term, it led in the new one too, and the other stopped."""
    first = topic.engine("first")
    topic.log.append((*claim_record(Claim("before", 6, is_released=True)), (), 0))
    assert first.round(report)
    assert first.term == 7
    topic.log, topic.topic_id = [], "second"
    other = topic.engine("other")
    assert other.round(report)
    topic.now += RENEWAL
    assert not first.round(report)
    assert (first.term, other.term) == (None, 1)
    topic.now += RENEWAL
    assert other.round(report)
