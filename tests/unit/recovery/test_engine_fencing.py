"""A flow that no engine leads is led for a moment; nobody is said to be gone who may come back behind that."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.config.settings import MirrorSettings
from mirror.control.flow_log import FlowLog
from mirror.engine import committed_copies
from mirror.engine.late_writes import FORMER_OFFSETS, KEEPS_OFFSETS
from mirror.engine.same_offsets_fence import Refusing
from mirror.engine.taken_producers import TakenProducers
from mirror.model import flow as model
from mirror.model.flow_state import FlowState
from mirror.model.leadership import Claim
from mirror.model.partition import TopicPartition
from mirror.model.pause import PauseReport, Pauses, PauseWish
from mirror.model.position import Position
from mirror.model.state_record import StateRecord
from mirror.model.state_values import (
    DataProducer,
    RunReport,
    claim_record,
    pause_record,
    pause_report_record,
    writer_record,
)
from mirror.model.verdict import Verdict
from mirror.recovery import engine_fencing
from mirror.recovery.engine_fencing import EngineFencing
from mirror.recovery.pause import _positions, _Waiting, plan_pause
from mirror.same_offsets.chain import producer_of
from tests.unit.control.builders import flow_settings

ORDERS, COPY = TopicPartition("orders", 0), TopicPartition("east.orders", 0)


class Flow:
    """In the place of the cluster: which terms are led from here, round by round, and what was done meanwhile."""

    def __init__(self, *terms: int | None) -> None:
        self.terms = list(terms)
        self.late: list[frozenset[TopicPartition]] = []
        self.done: list[str] = []
        self.said: list[StateRecord] = []
        # The election.
        self.term: int | None = None
        self.was_settled = self.has_lost = False
        self.former_seconds = 0.0
        self.reported: list[RunReport] = []
        # The hold.
        self.unrefused: DataProducer | None = None
        self.weakness: str | None = None
        self.note: str | None = None
        # The fence of the producer of the source's offsets.
        self.refusing = Refusing()
        # What was committed behind positions, as their copies tell.
        self.behind: frozenset[TopicPartition] = frozenset()
        self.asked_behind: list[dict[TopicPartition, Position]] = []
        self.state = FlowState()
        for record in (
            pause_record(PauseWish("all", None, True, "ann", 1)),
            claim_record(Claim("gone", 1)),
            Position(5, 5, 0, True, target="east.orders").record(ORDERS),
        ):
            self.state.apply(*record)

    def round(self, report: Callable[[], RunReport]) -> bool:
        self.term = self.terms.pop(0)
        if self.term is not None:
            self.state.run = report()
            self.reported.append(self.state.run)
        return self.term is not None

    def take(self, _: FlowLog, term: int) -> TakenProducers:
        self.done.append(f"took {term}")
        return TakenProducers(is_next=not self.has_lost)

    def fence(self, partitions: frozenset[TopicPartition]) -> dict[TopicPartition, str]:
        late = self.late.pop(0) if self.late else frozenset()
        self.done.append("fenced" if partitions else "fenced nothing")
        return dict.fromkeys(late & partitions, "it has no leader")

    def refuse_same_offsets(self, *asked: Any) -> Refusing:
        _, _, copies = asked
        if copies:
            self.done.append("fenced the source's offsets")
            return self.refusing
        return Refusing()

    def committed_behind(
        self, _: Any, positions: dict[TopicPartition, Position], is_ours: Callable[[int], bool]
    ) -> frozenset[TopicPartition]:
        self.asked_behind.append(positions)
        return self.behind

    def publish(self, record: StateRecord) -> None:
        self.said.append(record)

    def release(self, report: RunReport, *, is_settled: bool) -> None:
        self.reported.append(report)
        assert not is_settled, "what an engine that is gone has marked as settled is of another stop than this"
        self.done.append("released")
        self.term = None

    def poll(self) -> FlowState:
        return self.state

    def try_once(self, one: EngineFencing) -> PauseReport | None:
        return one.try_once(cast(FlowLog, self))


@pytest.fixture
def of(monkeypatch: pytest.MonkeyPatch) -> Any:
    def made(flow: Flow, *settings: str) -> EngineFencing:
        monkeypatch.setattr(engine_fencing, "Election", lambda *_, **_how: flow)
        monkeypatch.setattr(engine_fencing, "FlowProducers", lambda *_, **_how: flow)
        monkeypatch.setattr(engine_fencing, "refuse_same_offsets", flow.refuse_same_offsets)
        monkeypatch.setattr(committed_copies, "committed_behind", flow.committed_behind)
        monkeypatch.setattr(committed_copies, "Channel", lambda *_: SimpleNamespace(close=lambda: None))
        return EngineFencing(flow_settings(*settings), 6.0)

    return made


def test_the_flow_is_led_until_what_was_sent_is_refused_everywhere(of: Any) -> None:
    flow = Flow(2, 2, 2, 2)
    flow.late = [frozenset({COPY})]
    one = of(flow)
    first = flow.try_once(one)
    assert first is not None
    assert (first.busy, flow.said, flow.done) == ({ORDERS}, [], ["took 2", "fenced"])
    second = flow.try_once(one)
    assert second is not None
    assert (second.busy, len(flow.said)) == (frozenset(), 1)
    assert flow.done == ["took 2", "fenced", "fenced", "released"]


def test_what_was_sent_as_a_producer_that_nothing_refuses_may_arrive_once_its_right_to_write_is_over_too(
    of: Any,
) -> None:
    flow = Flow(2, 2)
    flow.unrefused, flow.weakness = DataProducer(7, 3), "grant Write"
    one = of(flow)
    one._timeout_seconds = 0.0
    found = flow.try_once(one)
    assert found is not None
    assert (found.busy, found.unrefused, found.weakness) == (frozenset(), {ORDERS}, "grant Write")
    flow = Flow(2, 2)
    flow.unrefused, flow.weakness, flow.was_settled = DataProducer(7, 3), "grant Write", True
    found = flow.try_once(of(flow))
    assert found is not None
    assert found.unrefused == frozenset(), "after a clean stop nothing is on its way"


def test_no_mark_counts_where_the_state_topic_has_lost_a_term(of: Any) -> None:
    """An engine has led since, and copied on behind what was marked as the last."""
    for has_lost in (False, True):
        flow = Flow(2, 2)
        flow.was_settled, flow.has_lost = True, has_lost
        flow.state.apply(*Position(5, 5, 0, True, target="east.orders", atomic=True).record(ORDERS))
        found = flow.try_once(of(flow))
        assert found is not None
        assert set(found.unsettled) == ({ORDERS} if has_lost else set())


def test_a_committed_position_does_not_count_where_more_was_committed_behind_it(of: Any) -> None:
    """In the term of the engine that is gone, so that no epoch of a producer tells."""
    for behind in (frozenset[TopicPartition](), frozenset({COPY})):
        flow = Flow(2, 2)
        flow.behind = behind
        flow.state.apply(*Position(5, 7, 0, True, target="east.orders", atomic=True).record(ORDERS))
        found = flow.try_once(of(flow))
        assert found is not None
        assert set(found.unsettled) == ({ORDERS} if behind else set())
        assert [{copy: at.downstream for copy, at in asked.items()} for asked in flow.asked_behind] == [{COPY: 7}]
    flow = Flow(2, 2)
    assert flow.try_once(of(flow)) is not None
    assert flow.asked_behind == [], "of what was not committed nothing is asked"


def test_nobody_is_said_to_be_gone_where_another_engine_leads_the_flow_by_then(of: Any) -> None:
    flow = Flow(2, None)
    assert flow.try_once(of(flow)) is None
    assert (flow.said, flow.done) == ([], ["took 2", "fenced"])


def test_nor_where_the_flow_is_led_from_here_in_another_term_by_then(of: Any) -> None:
    """An engine has led in between, and written."""
    flow = Flow(2, 4)
    assert flow.try_once(of(flow)) is None
    assert (flow.said, flow.done) == ([], ["took 2", "fenced"])


def test_what_nothing_refuses_is_waited_for_until_the_right_to_send_it_is_over(of: Any) -> None:
    flow = Flow(2, 2, 2)
    flow.unrefused, flow.weakness, flow.former_seconds = DataProducer(7, 3), "grant Write", 600.0
    one = of(flow)
    assert flow.try_once(one) is None
    assert (flow.said, flow.done) == ([], ["took 2"])
    flow.was_settled = True
    assert flow.try_once(one) is not None, "after a clean stop nobody is waited for"


def keeping_offsets(*terms: int | None) -> Flow:
    flow = Flow(*terms)
    flow.state.apply(*Position(5, 5, 0, True, target="east.orders", same_offsets=True).record(ORDERS))
    flow.state.apply(*writer_record(producer_of(model.Flow("east", "west")).producer_id, 1))
    return flow


def test_a_copy_with_the_source_s_offsets_gets_no_marker_and_it_is_told_that_nothing_is_refused_there(of: Any) -> None:
    """The marker took the next record's offset: once the flow was resumed the partition stopped for good."""
    flow = keeping_offsets(2, 2)
    one = of(flow, "mirror.offsets = same")
    one._timeout_seconds = 0.0
    found = flow.try_once(one)
    assert found is not None
    assert flow.done == ["took 2", "fenced nothing", "released"]
    assert (found.busy, found.unrefused) == (frozenset(), {ORDERS})
    assert found.weakness == KEEPS_OFFSETS
    flow = keeping_offsets(2, 2)
    flow.was_settled = True
    found = flow.try_once(of(flow, "mirror.offsets = same"))
    assert found is not None
    assert found.unrefused == frozenset(), "after a clean stop nothing is on its way"


@pytest.mark.parametrize("offsets", ["same", "translated"])
def test_the_right_to_write_such_a_copy_has_run_out_before_anybody_is_said_to_be_gone(of: Any, offsets: str) -> None:
    flow = keeping_offsets(2, 2)
    flow.former_seconds = 600.0
    assert flow.try_once(of(flow, f"mirror.offsets = {offsets}")) is None
    assert (flow.said, flow.done) == ([], ["took 2"])


def test_a_copy_that_is_translated_from_now_on_is_fenced_against_both_producers(of: Any) -> None:
    """The marker of the flow's own producer says nothing of that of the source's offsets."""
    flow = keeping_offsets(2, 2)
    one = of(flow)
    one._timeout_seconds = 0.0
    found = flow.try_once(one)
    assert found is not None
    assert flow.done == ["took 2", "fenced", "fenced the source's offsets", "released"]
    assert (found.busy, found.unrefused) == (frozenset(), frozenset())


def test_where_that_is_not_to_be_had_it_is_told_or_tried_again(of: Any) -> None:
    flow = keeping_offsets(2, 2, 2, 2)
    one = of(flow)
    one._timeout_seconds = 0.0
    flow.refusing = Refusing(troubles={COPY: "it has no leader"})
    found = flow.try_once(one)
    assert found is not None
    assert (found.busy, flow.said) == ({ORDERS}, [])
    flow.refusing = Refusing(frozenset({COPY}))
    found = flow.try_once(one)
    assert found is not None
    assert (found.unrefused, found.weakness) == ({ORDERS}, FORMER_OFFSETS)


def test_an_empty_copy_that_is_to_have_the_source_s_offsets_from_now_on_gets_no_marker(of: Any) -> None:
    flow = Flow(2, 2)
    found = flow.try_once(of(flow, "mirror.offsets = same"))
    assert found is not None
    assert (flow.done, found.unrefused) == (["took 2", "fenced nothing", "released"], {ORDERS})
    flow = Flow(2, 2)
    assert flow.try_once(of(flow, "mirror.offsets = same", "mirror.offsets.refused = translate")) is not None
    assert flow.done == ["took 2", "fenced", "released"], "an engine goes on translating it"


def test_in_another_term_all_that_was_sent_before_it_is_refused_too(of: Any) -> None:
    """An engine may have led, and have been killed, between the two."""
    flow = Flow(2, None, 4, 4)
    one = of(flow)
    assert flow.try_once(one) is None
    assert flow.try_once(one) is not None
    assert flow.done == ["took 2", "fenced", "took 4", "fenced", "released"]


def test_when_the_engine_that_is_gone_last_reported_stays_on_record(of: Any) -> None:
    """That of the fence passed for it: the records of a minute and a half were missing in what may be lost."""
    flow = Flow(2, 2, 2, 2)
    flow.late = [frozenset({COPY})]
    stopped = {ORDERS: "its topic was created anew"}
    flow.state.run = RunReport("DEGRADED", ("east does not answer",), 1_000, ("a note",), stopped, 900)
    one = of(flow)
    assert flow.try_once(one) is not None
    assert flow.try_once(one) is not None
    # Without what was wrong then all that it had seen counted as copied up to some seconds before that report.
    kept = RunReport("STOPPED", ("east does not answer",), 1_000, (), stopped, 900)
    assert flow.reported == [kept] * len(flow.reported) != []


def test_where_no_engine_has_reported_the_time_of_the_fence_does_not_pass_for_that_of_a_report(of: Any) -> None:
    """What a failover may lose was bounded by it: nothing is known of what the source had acknowledged before."""
    flow = Flow(2, 2)
    assert flow.try_once(of(flow)) is not None
    assert {report.troubles for report in flow.reported} == {("no engine's report was on record",)}


def test_it_is_no_engine_that_leads_the_flow_from_here(of: Any) -> None:
    waiting = _Waiting.__new__(_Waiting)
    waiting._fencing = of(Flow())
    state = FlowState()
    state.apply(*claim_record(Claim(waiting._fencing.engine, 2, host="here", pid=7)))
    assert waiting._leader(state) is None
    state.apply(*claim_record(Claim("another", 3, host="there", pid=8)))
    assert waiting._leader(state) is not None


def test_what_is_not_known_of_a_partition_without_a_position_is_told() -> None:
    flow, wish = flow_settings(), PauseWish("all", None, True, "ann", 1)
    (told,) = _positions(
        flow, wish, FlowState(wishes=Pauses((wish,))), PauseReport("me", ("all",), unsettled={ORDERS: "no"})
    )
    assert (told.source, told.copy, told.upstream, told.open_end) == (ORDERS, COPY, 0, "no")


@pytest.mark.parametrize("engine", ["me", None])
def test_nothing_is_copied_again_while_a_wish_is_not_understood(engine: str | None) -> None:
    """It may be about any topic; a wish about some of them does not undo it."""
    state = FlowState()
    resumed = PauseWish("again", "orders", False, "ann", 2)
    for record in (pause_record(resumed), (b'["pause","b.*"]', b'{"v":2}')):
        state.apply(*record)
    if engine is not None:
        for record in (claim_record(Claim(engine, 1)), pause_report_record(PauseReport(engine, ("again",)))):
            state.apply(*record)
    waiting = _Waiting.__new__(_Waiting)
    waiting._flow, waiting._wish, waiting._offset, waiting._fencing = flow_settings(), resumed, 0, None
    waiting._log = cast(FlowLog, SimpleNamespace(poll=lambda: state, position=2))
    found = waiting.look_for_end()
    assert found.verdict is Verdict.FAIL
    assert "a record of a pause or resume is not understood" in str(found.problem)


def test_what_is_no_regular_expression_is_never_put_on_record() -> None:
    """Engines would take it for a wish about anything, and copy nothing."""
    with pytest.raises(ValueError, match=r"'\[' is not a regular expression"):
        plan_pause(cast(MirrorSettings, None), flow_settings(), "[")
