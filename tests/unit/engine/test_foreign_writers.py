"""Foreign writers are looked for where the copy met them, and written down once the mirrors are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka.errors import for_code

from mirror.control.tick import TickReport
from mirror.copier.work import Handover, PartitionResult
from mirror.engine import flow_messages, foreign_writers
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.foreign_writers import ForeignWriters
from mirror.engine.lease import Lease
from mirror.engine.mm2_traces import Mm2Traces
from mirror.engine.taken_producers import TakenProducers
from mirror.kafka.problems import BrokerRefused, ConnectionFailed, LeaderUnknown
from mirror.model.flow_state import FlowState
from mirror.model.gap import Gap, GapKind
from mirror.model.offset_map import OffsetMap, Run
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_values import ForeignWriter, chunk_record
from mirror.model.writers import KnownWriters
from tests.unit.control.builders import flow_settings, topic

ORDERS, COPY = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
STATE = "mm2-state.east.internal"


class Written:
    def __init__(self) -> None:
        self.records: list[Any] = []

    def append(self, topic: str, partition: int, records: Any) -> int:
        assert (topic, partition) == (STATE, 0)
        self.records += records
        return 0


@pytest.fixture
def runtime() -> FlowRuntime:
    runtime = FlowRuntime(flow_settings())
    runtime.partitions = ((ORDERS, COPY, "", ""),)
    runtime.watched = frozenset({"orders"})
    return runtime


def looked(
    runtime: FlowRuntime,
    monkeypatch: pytest.MonkeyPatch,
    problems: dict[str, Exception],
    *,
    problem: Exception | None = None,
    state: FlowState | None = None,
) -> tuple[Written, tuple[str, ...]]:
    """One round, in which producers 7 and 8 are found between ours, and 8 is a mirror's."""

    def find(
        _: Any, copy: TopicPartition, stretch: tuple[int, int], mirrors: frozenset[int], *_rest: Any, **_how: Any
    ) -> Any:
        if problem is not None:
            raise problem
        return {(copy, each): ForeignWriter(copy, each, *stretch, 2, 5) for each in {7, 8} - mirrors}

    logs = SimpleNamespace(known={STATE: KnownWriters(frozenset({8}))}, catch_up=lambda _: problems, close=lambda: None)
    monkeypatch.setattr(foreign_writers, "WriterLogs", lambda *_: logs)
    monkeypatch.setattr(foreign_writers, "Channel", lambda *_: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(foreign_writers, "find_foreign", find)
    target: Any = SimpleNamespace(alias="west", topics=lambda: {STATE: topic(STATE)})
    written = Written()
    log: Any = SimpleNamespace(state=state or FlowState())
    return written, ForeignWriters(runtime.settings, runtime, log, target, written, runtime.lease).tick().problems


def test_who_is_no_mirror_is_written_down(runtime: FlowRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime.foreign_ranges.append((ORDERS, (3, 5)))
    written, problems = looked(runtime, monkeypatch, {})
    state = FlowState()
    for key, value, *_ in written.records:
        state.apply(key, value)
    assert state.foreign == {(COPY, 7): ForeignWriter(COPY, 7, 3, 5, 2, 5)}
    assert (problems, list(runtime.foreign_ranges)) == ((), [])


def test_who_was_called_foreign_before_a_way_back_was_known_is_so_no_more(
    runtime: FlowRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flow back may be started after this one: what it copies from here was produced here."""
    state = FlowState()
    state.apply(*ForeignWriter(COPY, -1, 3, 5, 2, 5).record())
    runtime.watched = frozenset()
    runtime.foreign_ranges.append((ORDERS, (5, 9)))
    written, problems = looked(runtime, monkeypatch, {}, state=state)
    for key, value, *_ in written.records:
        state.apply(key, value)
    assert (problems, list(runtime.foreign_ranges), state.foreign) == ((), [], {})


@pytest.mark.parametrize(
    ("passed", "end", "is_told"),
    [(False, 0, False), (False, 3, False), (False, 4, True), (True, 0, True)],
    ids=["topic created anew", "cut off before it", "some of it is left", "the copy has gone on since"],
)
def test_who_wrote_what_was_lost_with_the_copy_is_told_no_more(
    runtime: FlowRuntime, monkeypatch: pytest.MonkeyPatch, passed: bool, end: int, is_told: bool
) -> None:
    state = FlowState()
    state.apply(*ForeignWriter(COPY, 7, 3, 5, 2, 5).record())
    state.apply(*Gap(ORDERS, 0, 5, "gone", 9, GapKind.TARGET_LOST, end, passed=passed).record())
    written, problems = looked(runtime, monkeypatch, {}, state=state)
    for key, value, *_ in written.records:
        state.apply(key, value)
    assert ((COPY, 7) in state.foreign, problems) == (is_told, ())


def test_what_could_not_be_written_down_is_looked_at_again(
    runtime: FlowRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The offsets are nowhere else on record."""

    def refuse(*_: object) -> int:
        raise ConnectionFailed("west does not answer")

    runtime.foreign_ranges.append((ORDERS, (3, 5)))
    monkeypatch.setattr(Written, "append", refuse)
    _, problems = looked(runtime, monkeypatch, {})
    assert problems == ("west does not answer",)
    assert list(runtime.foreign_ranges) == [(ORDERS, (3, 5))]


def test_nobody_is_called_foreign_while_the_mirrors_are_not_known(
    runtime: FlowRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.foreign_ranges.append((ORDERS, (3, 5)))
    written, (problem,) = looked(runtime, monkeypatch, {STATE: BrokerRefused("west: state", LookupError)})
    assert written.records == []
    assert "who mirrors into west is not known" in problem
    assert list(runtime.foreign_ranges) == [(ORDERS, (3, 5))]


def test_what_cannot_be_read_any_more_is_told_all_the_same(
    runtime: FlowRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.foreign_ranges.append((ORDERS, (3, 5)))
    _, (problem,) = looked(runtime, monkeypatch, {}, problem=BrokerRefused("west: fetch", for_code(1)))
    assert list(runtime.foreign_ranges) == [], "the log has it no more"
    assert "who has written to east.orders-0 at offsets 3 to 4 could not be looked up" in problem


@pytest.mark.parametrize(
    "problem",
    [BrokerRefused("west: fetch", for_code(29)), LeaderUnknown("no leader"), ConnectionFailed("west is away")],
    ids=lambda problem: type(problem).__name__,
)
def test_what_cannot_be_read_now_is_looked_at_again(
    runtime: FlowRuntime, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    runtime.foreign_ranges.extend([(ORDERS, (3, 5)), (ORDERS, (7, 9))])
    written, problems = looked(runtime, monkeypatch, {}, problem=problem)
    assert (written.records, len(problems), len(runtime.foreign_ranges)) == ([], 2, 2)
    written, problems = looked(runtime, monkeypatch, {})
    assert (len(written.records), problems, list(runtime.foreign_ranges)) == (1, (), [])


def test_a_foreign_writer_degrades_the_flow_for_an_hour(runtime: FlowRuntime) -> None:
    runtime.foreign = (ForeignWriter(COPY, 7, 3, 5, 2, foreign_writers.now_ms()), ForeignWriter(COPY, 9, 3, 5, 2, 5))
    (reason,) = flow_messages.reasons(runtime)
    assert "no mirror wrote (producer id 7)" in reason


def test_nothing_is_wrong_with_a_partition_that_is_not_copied_any_more(runtime: FlowRuntime) -> None:
    runtime.troubles[ORDERS] = "the source refuses to read orders-0: UnknownTopicOrPartition"
    runtime.stopped[ORDERS] = "a gap"
    runtime.take_partitions(())
    assert flow_messages.reasons(runtime) == ()


class Known:
    """In the place of a flow's log: what is on record of one partition."""

    def __init__(self, position: Position, *runs: Run) -> None:
        self.state = FlowState()
        for key, value in (position.record(ORDERS), chunk_record(ORDERS, 0, runs)):
            self.state.apply(key, value)

    def offset_map(self, source: TopicPartition) -> OffsetMap | None:
        return self.state.offset_map(source)


@pytest.mark.parametrize(
    ("compared", "looked_at"),
    [(0, [(3, 5), (9, 12)]), (4, [(4, 5), (9, 12)]), (9, [(9, 12)]), (12, []), (-1, [])],
    ids=["nothing was", "half of it", "between batches", "all of it", "by another version"],
)
def test_what_an_engine_before_had_not_compared_is_looked_at_once(
    runtime: FlowRuntime, monkeypatch: pytest.MonkeyPatch, compared: int, looked_at: list[tuple[int, int]]
) -> None:
    """Killed, it had told nobody what lies between its batches, or behind them before what it had passed by."""
    position = Position(7, 12, 0, True, compared=compared)
    runtime.handovers[ORDERS] = Handover(position, (), clean=False)
    known = Known(position, Run(0, 0, 3), Run(3, 5, 4))
    seen: list[tuple[int, int]] = []
    round_ = looking(runtime, monkeypatch, known, seen)
    runtime.foreign_ranges.append((ORDERS, (9, 14)))
    assert (round_().problems, seen) == ((), []), "what lies behind its position is not known yet"
    runtime.handovers[ORDERS] = Handover(position, (), clean=True)
    assert round_().problems == ()
    assert seen == [*looked_at, (12, 14)], "the tasks' own is looked at where the record ends"
    assert runtime.handovers[ORDERS].position.compared == 12
    assert round_().problems == ()
    assert len(seen) == len(looked_at) + 1
    last = replace(position, upstream=9, downstream=14)
    runtime.take_result(PartitionResult(runtime.settings.flow, ORDERS, Handover(last, (), clean=True)))
    assert runtime.handovers[ORDERS].position.compared == 12, "a task knows what it was given"
    assert round_().problems == ()
    assert runtime.handovers[ORDERS].position.compared == 14


def test_a_copy_is_compared_no_further_than_was_read(runtime: FlowRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    position = Position(7, 12, 0, True, compared=0)
    runtime.handovers[ORDERS] = Handover(position, (), clean=True)
    seen: list[tuple[int, int]] = []
    problems: list[Exception] = [ConnectionFailed("west is away")]
    round_ = looking(runtime, monkeypatch, Known(position, Run(0, 0, 3), Run(3, 5, 4)), seen, problems)
    assert len(round_().problems) == 1
    assert runtime.handovers[ORDERS].position.compared == 0
    assert round_().problems == ()
    assert (sorted(seen), runtime.handovers[ORDERS].position.compared) == ([(3, 5), (9, 12)], 12)


def test_where_others_may_write_nothing_is_left_for_the_day_when_they_may_not(
    runtime: FlowRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.watched = frozenset()
    position = Position(7, 12, 0, True, compared=0)
    runtime.handovers[ORDERS] = Handover(position, (), clean=True)
    seen: list[tuple[int, int]] = []
    round_ = looking(runtime, monkeypatch, Known(position, Run(0, 0, 3), Run(3, 5, 4)), seen)
    assert round_().problems == ()
    assert (seen, runtime.handovers[ORDERS].position.compared) == ([], 12)


def test_what_the_tasks_of_an_epoch_that_was_lost_could_not_tell_is_looked_at_on_record(
    runtime: FlowRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They had written positions down before they died; of what lies between their batches nobody has heard."""
    position = Position(3, 3, 0, True, compared=3)
    runtime.handovers[ORDERS] = Handover(position, (), clean=True)
    known = Known(position, Run(0, 0, 3))
    seen: list[tuple[int, int]] = []
    round_ = looking(runtime, monkeypatch, known, seen)
    assert (round_().problems, seen) == ((), [])
    for key, value in (
        replace(position, upstream=7, downstream=12).record(ORDERS),
        chunk_record(ORDERS, 0, [Run(0, 0, 3), Run(3, 5, 4)]),
    ):
        known.state.apply(key, value)
    runtime.take_state(known.state, Mm2Traces(), TakenProducers())
    assert (round_().problems, seen) == ((), [])
    assert runtime.handovers[ORDERS].position.compared == 3, "what lies behind it may be the copy's own"
    found = replace(runtime.handovers[ORDERS], clean=True)
    runtime.take_result(PartitionResult(runtime.settings.flow, ORDERS, found))
    assert (round_().problems, seen) == ((), [(3, 5), (9, 12)])
    assert runtime.handovers[ORDERS].position.compared == 12


def test_of_what_is_not_looked_at_because_there_is_too_much_nothing_is_said_to_be_compared(
    runtime: FlowRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that starts finds it once more; a later stretch of this one's does not hide it."""
    bills, copy = TopicPartition("bills", 0), TopicPartition("east.bills", 0)
    runtime.partitions += ((bills, copy, "", ""),)
    runtime.watched |= {"bills"}
    position = Position(7, 12, 0, True, compared=12)
    runtime.handovers = {source: Handover(position, (), clean=True) for source in (ORDERS, bills)}
    seen: list[tuple[int, int]] = []
    round_ = looking(runtime, monkeypatch, Known(position, Run(0, 0, 12)), seen)
    round_()
    flow, most = runtime.settings.flow, runtime.foreign_ranges.maxlen
    assert most is not None
    ended = Handover(replace(position, downstream=12 + 2 * most), (), clean=True)
    runtime.take_result(PartitionResult(flow, bills, ended, foreign=((12, 14),)))
    many = tuple((place, place + 1) for place in range(12, 12 + 2 * most, 2))
    runtime.take_result(PartitionResult(flow, ORDERS, ended, foreign=many))
    while runtime.foreign_ranges:
        assert round_().problems == ()
    assert runtime.handovers[bills].position.compared == 12
    assert runtime.handovers[ORDERS].position.compared == ended.position.downstream


def test_what_others_wrote_into_a_copy_that_is_not_found_for_now_is_not_said_to_be_compared(
    runtime: FlowRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    position = Position(7, 12, 0, True, compared=12)
    runtime.handovers[ORDERS] = Handover(position, (), clean=True)
    seen: list[tuple[int, int]] = []
    round_ = looking(runtime, monkeypatch, Known(position, Run(0, 0, 12)), seen)
    round_()
    ended = Handover(replace(position, downstream=16), (), clean=True)
    runtime.take_result(PartitionResult(runtime.settings.flow, ORDERS, ended, foreign=((12, 14),)))
    copies, runtime.partitions = runtime.partitions, ()
    assert round_().problems == ()
    runtime.partitions = copies
    assert round_().problems == ()
    assert (seen, runtime.handovers[ORDERS].position.compared) in (([], 12), ([(12, 14)], 16))


def looking(
    runtime: FlowRuntime,
    monkeypatch: pytest.MonkeyPatch,
    known: Known,
    seen: list[tuple[int, int]],
    problems: list[Exception] | None = None,
) -> Callable[[], TickReport]:
    """Return what does a round; what it looks at is ``seen``, but for the first of each of the ``problems``."""

    def find(_: Any, _copy: TopicPartition, stretch: tuple[int, int], *_rest: Any, **_how: Any) -> Any:
        if problems:
            raise problems.pop()
        seen.append(stretch)
        return {}

    logs = SimpleNamespace(known={}, catch_up=lambda _: {}, close=lambda: None)
    monkeypatch.setattr(foreign_writers, "WriterLogs", lambda *_: logs)
    monkeypatch.setattr(foreign_writers, "Channel", lambda *_: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(foreign_writers, "find_foreign", find)
    target: Any = SimpleNamespace(alias="west", topics=dict)
    return ForeignWriters(runtime.settings, runtime, cast(Any, known), target, cast(Any, Written()), runtime.lease).tick


def test_of_a_copy_that_has_gone_back_what_nobody_had_compared_is_looked_at_for_others_than_the_flow(
    runtime: FlowRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own batches there are those that the map has forgotten, and none that came late."""
    before = Position(9, 9, 0, True, compared=9)
    runtime.handovers[ORDERS] = Handover(before, (), clean=True)
    known = Known(before, Run(0, 0, 9))
    known.state.writers.add(7)
    seen: list[tuple[int, int]] = []
    round_ = looking(runtime, monkeypatch, known, seen)
    round_()
    back = Position(5, 14, 0, True, incarnation=1, compared=14, uncompared=(9, 14))
    flow = runtime.settings.flow
    runtime.take_result(PartitionResult(flow, ORDERS, Handover(back, (), clean=True)))
    assert (round_().problems, seen) == ((), []), "it is not on record yet"
    assert runtime.handovers[ORDERS].position.uncompared == (9, 14)
    for key, value in (back.record(ORDERS), chunk_record(ORDERS, 0, [Run(0, 0, 5)])):
        known.state.apply(key, value)
    told: list[Any] = []

    def find(
        _: Any, _copy: TopicPartition, stretch: tuple[int, int], mirrors: frozenset[int], *rest: Any, **how: Any
    ) -> Any:
        told.append((stretch, mirrors, rest[-1], how["is_whole"]))
        return {}

    monkeypatch.setattr(foreign_writers, "find_foreign", find)
    assert round_().problems == ()
    assert told == [((9, 14), frozenset({7}), (), True)]
    assert runtime.handovers[ORDERS].position == replace(back, uncompared=None)
    # A task that was given the position before that hands it back as it knew it.
    on = replace(back, upstream=6, downstream=15)
    runtime.take_result(PartitionResult(flow, ORDERS, Handover(on, (), clean=True)))
    assert runtime.handovers[ORDERS].position == replace(on, uncompared=None)
    assert (round_().problems, len(told)) == ((), 1)


def test_a_single_offset_that_the_map_lacks_is_looked_at_also_where_transactions_leave_markers(
    runtime: FlowRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime.settings = flow_settings("west.exactly.once.source.support = enabled")
    position = Position(7, 8, 0, True, compared=0)
    runtime.handovers[ORDERS] = Handover(position, (), clean=True)
    seen: list[tuple[int, int]] = []
    round_ = looking(runtime, monkeypatch, Known(position, Run(0, 0, 3), Run(3, 4, 4)), seen)
    assert (round_().problems, seen) == ((), [(3, 4)])


def test_behind_the_end_of_its_term_a_round_takes_nothing_that_the_next_term_is_to_look_at(
    runtime: FlowRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it say how far the copies of that one are compared: it knows other positions."""
    position = Position(10, 13, 0, True, compared=0)
    runtime.handovers[ORDERS] = Handover(position, (), clean=True)
    runtime.foreign_ranges.append((ORDERS, (22, 24)))
    round_ = looking(runtime, monkeypatch, Known(position, Run(0, 0, 5), Run(5, 8, 5)), [])
    looked_at: list[object] = []

    def find(_: Any, _copy: TopicPartition, stretch: tuple[int, int], *_rest: Any, **_how: Any) -> Any:
        looked_at.append(stretch)
        runtime.stand_by()
        runtime.lead(5, was_settled=False, lease=Lease())
        return {}

    monkeypatch.setattr(foreign_writers, "find_foreign", find)
    (problem,) = round_().problems
    assert "another engine may lead the flow by now" in problem
    assert (looked_at, list(runtime.foreign_ranges)) == ([(5, 8)], [(ORDERS, (22, 24))])
    assert runtime.handovers[ORDERS].position.compared == 0
