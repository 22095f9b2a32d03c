"""What the control plane of a flow does when its term ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.config.settings import FlowSettings
from mirror.control.groups import follow_log
from mirror.control.routes import Routes
from mirror.control.tick import NotLeading, TickReport, run_tick
from mirror.engine import flow_control
from mirror.engine.flow_control import FlowControl
from mirror.engine.flow_pauses import FlowCut
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.lease import Lease
from mirror.engine.ticking import Ticking
from mirror.kafka.answers import Found
from mirror.kafka.cluster_model import Topic
from mirror.model.flow_state import FlowState
from mirror.model.leadership import Claim
from mirror.model.partition import TopicPartition
from mirror.model.pause import Pauses
from mirror.model.placement import Placement
from mirror.model.state_record import Headers, StateRecord, term_of
from mirror.model.state_values import claim_record, placement_record
from mirror.waiting import wait_until
from tests.unit.control.builders import flow_settings

# Of the real time: a thread that does not get there.
_STUCK_SECONDS = 60.0
LOOKED = TickReport("foreign writers", 5, 0)
ORDERS, COPY = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
NO_TICKING = Ticking(lambda _: None, flow_settings().flow)


def brokers(**answers: Any) -> Any:
    """Return a cluster that answers some requests, whoever asks for whom."""
    cluster = SimpleNamespace(**{"cluster_id": "west", "topics": None, **answers})
    cluster.asking = lambda _: cluster
    return cluster


class Once:
    """Runs what is to be run once, and ends at once what would go on."""

    def __init__(self) -> None:
        self.done: list[object] = []

    def once(self, tick: Callable[[], TickReport]) -> None:
        self.done.append(tick())

    def until(self, over: threading.Event, *_: object) -> None:
        self.done.append(over)


@pytest.mark.parametrize("found", [True, False])
def test_what_others_wrote_is_looked_at_also_if_it_was_found_with_the_last_results(
    monkeypatch: pytest.MonkeyPatch, *, found: bool
) -> None:
    """The position is behind it by then: neither this engine nor the next would look there again."""
    runtime, ticking = FlowRuntime(flow_settings()), Once()
    stand_in = SimpleNamespace(
        tick=lambda: "topics", side_topics_are_there=True, close=lambda: None, writable=None, refresh=None
    )
    names = ("TopicsTick", "FlowLog", "LagLine", "DeadChunksTick", "TopicConfigsTick", "GoneTopicsTick")
    more = ("LogTail", "FlowTranslator", "GroupTranslator", "CheckpointsTick", "CheckpointCopies")
    for name in (*names, *more):
        monkeypatch.setattr(flow_control, name, lambda *_, **__: stand_in)

    def writer(*_: object, **__: object) -> SimpleNamespace:
        ticking.done.append("reads and writes")
        return stand_in

    monkeypatch.setattr(flow_control, "LogWriter", writer)
    monkeypatch.setattr(
        flow_control, "ForeignWriters", lambda *_: SimpleNamespace(tick=lambda: LOOKED, close=lambda: None)
    )
    target = brokers()
    control = FlowControl(runtime, target, target, NO_TICKING, cast(Any, None), matches_mm2=False)

    def last_results() -> None:
        ticking.done.append("last results")
        if found:
            runtime.foreign_ranges.append((ORDERS, (24, 25)))

    stop = threading.Event()
    stop.set()
    control.keep_up(target, cast(Any, ticking), stop, last_results)
    # What this engine writes would be taken for left by one before it, were that not known before.
    begun = ["topics", control._may_keep_up, "reads and writes", stop]
    assert ticking.done == [*begun, "last results", *([LOOKED] if found else [])]


def test_a_defect_of_one_thread_ends_the_control_without_waiting_for_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs it ends the engine, and with that the other one."""
    runtime, stop = FlowRuntime(flow_settings()), threading.Event()
    target = brokers()
    control = FlowControl(runtime, target, target, NO_TICKING, cast(Any, None), matches_mm2=False)

    def keep_up(_: object, __: object, over: threading.Event, *___: object) -> None:
        wait_until(over.is_set, "the engine to end", timeout_seconds=_STUCK_SECONDS)

    def take_over(_: threading.Event) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(control, "keep_up", keep_up)
    monkeypatch.setattr(control, "take_over", take_over)
    with pytest.raises(ZeroDivisionError):
        control.run(stop)
    stop.set()


def test_a_source_that_does_not_answer_holds_up_neither_positions_nor_fencing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do very many groups: what is kept up beside has a thread of its own."""
    is_asked, answers, stop = threading.Event(), threading.Event(), threading.Event()
    kept_up: list[threading.Thread] = []
    done = {name: threading.Event() for name in ("_keep_known", "_fence", "_follow", "_keep_alive")}

    class Stuck:
        side_topics_are_there = False

        def tick(self) -> TickReport:
            is_asked.set()
            wait_until(answers.is_set, "the source to answer", timeout_seconds=_STUCK_SECONDS)
            return TickReport("topics", 5, 0)

    monkeypatch.setattr(flow_control, "TopicsTick", lambda *_: Stuck())
    for name in ("FlowLog", "LogWriter"):
        monkeypatch.setattr(flow_control, name, lambda *_, **__: SimpleNamespace(close=lambda: None))
    runtime = FlowRuntime(flow_settings())
    names = {"mm2-state.east.internal", runtime.settings.offset_storage_topic}
    target = brokers(topics=lambda asked: dict.fromkeys(names & asked))
    ticking = Ticking(lambda _: None, runtime.settings.flow)
    control = FlowControl(runtime, target, target, ticking, cast(Any, None), matches_mm2=False)
    for name, each in done.items():
        monkeypatch.setattr(control, name, lambda *_, each=each, name=name: each.set() or TickReport(name, 5, 1))
    running = threading.Thread(target=lambda: kept_up.append(control.run(stop)), daemon=True)
    running.start()
    for name, each in {"the source to be asked": is_asked, **done}.items():
        wait_until(each.is_set, name, timeout_seconds=_STUCK_SECONDS)
    stop.set()
    running.join(_STUCK_SECONDS)
    assert not running.is_alive(), "the next term begins while the source is still asked for this one"
    assert not answers.is_set()
    answers.set()
    kept_up[0].join(_STUCK_SECONDS)
    assert not kept_up[0].is_alive()


class Late:
    """What is kept up beside in a term that ends while it is at it, and the rounds that it runs then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runtime = runtime = FlowRuntime(flow_settings())
        runtime.lead(3, was_settled=False, lease=Lease())
        self.rounds: dict[str, Callable[[], TickReport]] = {}
        source, target = brokers(topics=dict), brokers(topics=dict)
        nothing = SimpleNamespace(
            tick=lambda: TickReport("nothing", 5, 0),
            side_topics_are_there=True,
            close=lambda: None,
            poll=FlowState,
            state=FlowState(),
        )
        self.every: dict[object, float] = {}
        monkeypatch.setattr(flow_control, "LagLine", lambda *_: SimpleNamespace(tick=lag_told))
        names = ("TopicsTick", "FlowLog", "SourceBrokersTick", "TopicConfigsTick", "ForeignWriters")
        for name in names:
            monkeypatch.setattr(flow_control, name, lambda *_, **__: nothing)
        monkeypatch.setattr(flow_control, "access_ticks", lambda *_: [])
        monkeypatch.setattr(flow_control, "DeadChunksTick", lambda *given: self.round("dead", given[-1], {ORDERS: ()}))
        monkeypatch.setattr(flow_control, "GoneTopicsTick", lambda *given: self.round("gone", given[-1], {ORDERS}))
        monkeypatch.setattr(flow_control, "plan_routes", lambda *_: Routes(((ORDERS, COPY, "id", "id"),)))
        monkeypatch.setattr(FlowControl, "_group_ticks", lambda *_: [])
        self.control = FlowControl(runtime, source, target, NO_TICKING, cast(Any, None), matches_mm2=False)
        monkeypatch.setattr(flow_control, "Mirrors", lambda *_: SimpleNamespace(**MIRRORS))
        self.control.keep_up(source, cast(Any, self), threading.Event())

    def round(self, name: str, take: Callable[[Any], None], found: object) -> Any:
        return SimpleNamespace(tick=lambda: run_tick(name, lambda: 5, lambda _: (take(found), (1, ()))[1]))

    def once(self, tick: Callable[[], TickReport]) -> bool:
        return tick().is_ok

    def until(
        self, _: threading.Event, ticks: Sequence[tuple[float, Callable[[], TickReport]]], __: object = None
    ) -> None:
        self.rounds = {str(number): tick for number, (_, tick) in enumerate(ticks)}
        self.every = {tick: seconds for seconds, tick in ticks}

    def run_all(self) -> list[TickReport]:
        return [tick() for tick in self.rounds.values()]


def lag_told() -> TickReport:
    return TickReport("lag", 5, 0)


MIRRORS = {
    "known": {"mm2-state.north.internal": "it"},
    "look": lambda _: (),
    "loop_problem": None,
    "left_out": lambda _: ("north",),
    "has_way_back": lambda _: False,
    "is_two_way": lambda _: False,
    "copied_back": {},
    "close": lambda: None,
}


def test_what_a_round_finds_out_behind_the_end_of_its_term_is_not_of_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log may have other copies by then, and the tasks of the next term other positions."""
    late = Late(monkeypatch)
    runtime = late.runtime
    runtime.handovers[ORDERS] = cast(Any, "of the next term")
    runtime.stand_by()
    runtime.lead(5, was_settled=False, lease=Lease())
    said = [report for report in late.run_all() if not report.is_ok]
    assert {report.name for report in said} == {"dead", "gone", "partitions east->west"}
    assert all("another engine may lead the flow by now" in report.problems[0] for report in said)
    assert (runtime.partitions, runtime.dead, runtime.watched, runtime.left_out) == ((), {}, frozenset(), {})
    assert runtime.handovers == {ORDERS: "of the next term"}
    assert not runtime.has_looked


def test_the_lag_is_told_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Late(monkeypatch).every[lag_told] == 60.0


def test_what_a_round_finds_by_settings_of_before_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions may have been read back meanwhile, of topics that are chosen otherwise."""
    late = Late(monkeypatch)
    late.runtime.take_settings(replace(late.runtime.settings))
    assert all(report.is_ok for report in late.run_all())
    assert late.runtime.partitions == ()


def test_settings_that_change_begin_anew_what_is_kept_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the same thread: what goes by the settings of before has ended by then."""
    runtime, stop, seen = FlowRuntime(flow_settings()), threading.Event(), list[int]()
    target = brokers()

    class Topics:
        side_topics_are_there = False

        def __init__(self, _: object, __: object, settings: FlowSettings) -> None:
            self.settings = settings

        def tick(self) -> TickReport:
            seen.append(self.settings.replication_factor)
            if len(seen) == 1:
                runtime.take_settings(replace(runtime.settings, replication_factor=7))
            else:
                stop.set()
            return TickReport("topics", 5, 0)

    monkeypatch.setattr(flow_control, "TopicsTick", Topics)
    ticking = Ticking(lambda _: None, runtime.settings.flow)
    control = FlowControl(runtime, target, target, ticking, cast(Any, None), matches_mm2=False)
    monkeypatch.setattr(control, "take_over", lambda _: None)
    before = runtime.settings.replication_factor
    control.run(stop).join(_STUCK_SECONDS)
    assert seen == [before, 7]


def test_what_a_round_finds_out_in_its_term_is_taken_in(monkeypatch: pytest.MonkeyPatch) -> None:
    late = Late(monkeypatch)
    late.runtime.handovers[ORDERS] = cast(Any, "of this term")
    assert all(report.is_ok for report in late.run_all())
    assert late.runtime.partitions == ((ORDERS, COPY, "id", "id"),)
    assert late.runtime.dead == {ORDERS: ()}
    assert late.runtime.watched == {"orders"}


@pytest.mark.parametrize("has_source", [True, False])
def test_of_a_round_that_ends_behind_its_term_nobody_hears_and_no_other_begins(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *, has_source: bool
) -> None:
    """A source that did not answer then may answer now: nothing would ever take such a report back."""
    runtime, kept, rounds = FlowRuntime(flow_settings()), list[TickReport](), list[str]()
    runtime.lead(3, was_settled=False, lease=Lease())
    refused = TickReport("topics east->west", 5, 0, ("no answer in time",))

    def tick() -> TickReport:
        rounds.append("topics")
        runtime.stand_by()
        runtime.lead(5, was_settled=False, lease=Lease())
        return refused

    def find_source(ticking: Ticking, _: threading.Event) -> Any:
        ticking.once(tick)
        return brokers()

    monkeypatch.setattr(flow_control, "TopicsTick", lambda *_: SimpleNamespace(tick=tick, side_topics_are_there=False))
    monkeypatch.setattr(FlowRuntime, "keep", lambda _, report: kept.append(report))
    source = brokers() if has_source else None
    control = FlowControl(runtime, source, brokers(), NO_TICKING, cast(Any, None), matches_mm2=False)
    monkeypatch.setattr(control, "take_over", lambda _: None)
    control._is_known_without_source = True
    control.run(threading.Event(), find_source=find_source).join(_STUCK_SECONDS)
    assert (rounds, kept, caplog.messages) == (["topics"], [], [])
    runtime.between_epochs()
    assert not runtime._is_to_be_read_again, "the next term reads its positions for itself"


@pytest.mark.parametrize("is_known", [True, False])
def test_positions_that_were_read_without_the_source_are_read_again_before_anything_is_found_there(
    monkeypatch: pytest.MonkeyPatch, *, is_known: bool
) -> None:
    """What Java MirrorMaker has left on it was not known before; a source that is not found is not asked."""
    target = brokers()
    for source in ("the east", None):
        runtime, done = FlowRuntime(flow_settings()), list[object]()
        control = FlowControl(runtime, None, target, NO_TICKING, cast(Any, None), matches_mm2=False)
        control._is_known_without_source = is_known
        monkeypatch.setattr(control, "take_over", lambda _: None)
        monkeypatch.setattr(FlowRuntime, "read_again", lambda _, done=done: done.append("read again"))
        stop = threading.Event()

        def keep_up(found: object, *_: object, done: list[object] = done, stop: threading.Event = stop) -> None:
            done.append(found)
            stop.set()

        monkeypatch.setattr(control, "keep_up", keep_up)
        control.run(stop, find_source=lambda *_, source=source: cast(Any, source)).join()  # type: ignore[misc]
        assert done == [*(["read again"] if is_known else []), *([source] if source else [])]


def test_where_groups_were_put_is_written_again_in_its_term_by_the_thread_that_puts_them_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By another one it could come behind where a group was put meanwhile."""
    late, since = Placement("billing", COPY, 5, 6, 6), Placement("billing", COPY, 40, 50, 50)
    state, written = FlowState(), list[tuple[StateRecord, int | None]]()

    def append(_: str, __: int, content: Sequence[tuple[bytes, bytes | None, Headers, int]]) -> None:
        written.extend(((key, value), term_of(headers)) for key, value, headers, _ in content)
        for key, value, headers, _ in content:
            state.apply(key, value, term_of(headers))

    state.apply(*claim_record(Claim("me", 3)))
    state.apply(*placement_record(since), 3)
    state.apply(*placement_record(late), 2)
    runtime = FlowRuntime(flow_settings())
    runtime.lead(3, was_settled=False, lease=Lease())
    control = FlowControl(runtime, None, brokers(), NO_TICKING, cast(Any, None), matches_mm2=False)
    # What ends its term says so; it writes nothing in the next.
    runtime.lead(5, was_settled=False, lease=Lease())
    log: Any = SimpleNamespace(poll=lambda: state)
    for _ in range(2):
        record = control.recorder(cast(Any, SimpleNamespace(append=append)))
        assert follow_log(runtime.settings.flow, log, record).is_ok
    assert written == [(placement_record(since), 3)], "once"


class Made(SimpleNamespace):
    """In the place of the parts of the control plane: what each was made of."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        super().__init__()
        for name in names:
            monkeypatch.setattr(flow_control, name, self._maker(name))

    def _maker(self, name: str) -> Callable[..., SimpleNamespace]:
        def make(*given: object, **named: object) -> SimpleNamespace:
            made = SimpleNamespace(
                given=given,
                close=lambda: None,
                tick=lambda: None,
                refresh=lambda: None,
                side_topics_are_there=True,
                writable=None,
                **named,
            )
            setattr(self, name, made)
            return made

        return make


LED = "nothing was written: another engine may lead the flow by now"
WRITES = ("the state, by who takes over", "the state, by who keeps up", "groups")


@pytest.mark.parametrize("what", WRITES)
def test_a_term_that_is_over_by_then_lets_nothing_be_written(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """Asked right before each request: what was found out before says nothing of who leads now."""
    made = Made(monkeypatch, "FlowLog", "LogWriter", "TopicsTick", "LogTail", "CheckpointsTick", "GroupOffsetsTick")
    runtime, stop = FlowRuntime(flow_settings("sync.group.offsets.enabled = true")), threading.Event()
    runtime.lead(3, was_settled=False, lease=Lease())
    target = brokers()
    control = FlowControl(runtime, target, target, cast(Any, Once()), cast(Any, None), matches_mm2=False)
    if what == WRITES[0]:
        monkeypatch.setattr(control, "_has_topics", lambda: True)
        control.take_over(stop)
        before = made.LogWriter.before
    elif what == WRITES[1]:
        monkeypatch.setattr(flow_control, "follow_log", lambda *_: True)
        with pytest.raises(NotLeading):
            control.keep_up(target, cast(Any, UntilWriter(runtime)), stop)
        before = made.LogWriter.before
    else:
        group_ticks(control)
        before = made.GroupOffsetsTick.before_writing
    if what != WRITES[1]:
        before()
        runtime.lease.end()
    with pytest.raises(NotLeading, match=LED):
        before()


class UntilWriter(Once):
    """Ends the term once the control plane is at work."""

    def __init__(self, runtime: FlowRuntime) -> None:
        super().__init__()
        self._runtime = runtime

    def once(self, tick: Callable[[], Any]) -> bool:  # type: ignore[override]
        super().once(tick)
        return True

    def until(self, over: threading.Event, *more: object) -> None:
        super().until(over, *more)
        if len(self.done) > 2:
            self._runtime.lease.end()
            raise NotLeading(LED)


def group_ticks(control: FlowControl, thirds: Any = None) -> None:
    """Have it make what keeps up checkpoints and positions of groups."""
    log: Any = SimpleNamespace()
    thirds = thirds or SimpleNamespace(of_topic=lambda _: [])
    control._group_ticks(control._settings, brokers(), log, log, lambda *_: None, thirds, [control._settings])


def test_groups_are_put_nowhere_in_a_round_that_is_under_way_when_the_flow_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Made(monkeypatch, "LogTail", "CheckpointsTick", "GroupOffsetsTick")
    runtime = FlowRuntime(flow_settings("sync.group.offsets.enabled = true"))
    runtime.lead(3, was_settled=False, lease=Lease())
    target = brokers()
    group_ticks(FlowControl(runtime, target, target, NO_TICKING, cast(Any, None), matches_mm2=False))
    made.GroupOffsetsTick.before_writing()
    # A wish of a later version may be a cut.
    runtime.pauses = Pauses(obscure="it")
    with pytest.raises(FlowCut):
        made.GroupOffsetsTick.before_writing()


def test_positions_of_groups_are_translated_by_what_all_flows_have_recorded_when_the_positions_were_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of third clusters too: a group that reads a topic of several is led past nothing of any."""
    made = Made(monkeypatch, "LogTail", "FlowTranslator", "MeshTranslator", "GroupTranslator", "CheckpointsTick")
    runtime, thirds, target = FlowRuntime(flow_settings()), SimpleNamespace(of_topic=lambda _: []), brokers()
    group_ticks(FlowControl(runtime, target, target, NO_TICKING, cast(Any, None), matches_mm2=False), thirds)
    assert made.MeshTranslator.given == (made.FlowTranslator, thirds.of_topic)
    assert made.GroupTranslator.given == (made.FlowTranslator, made.MeshTranslator)
    assert made.CheckpointsTick.before_translating is made.GroupTranslator.refresh


def test_that_the_state_of_a_flow_into_the_source_is_hidden_is_a_note_of_the_checkpoints(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It passed for a flow that never ran, and nothing was said: a group that it had put there was carried on."""
    made = Made(monkeypatch, "LogTail", "FlowTranslator", "GroupTranslator", "CheckpointsTick")
    runtime, log = FlowRuntime(flow_settings()), cast(Any, SimpleNamespace())
    found = Found[str, Topic](
        {}, {"mm2-state.west.internal": "TOPIC_AUTHORIZATION_FAILED (needs Describe on the topic)"}
    )
    source, thirds = brokers(topics=lambda _: found), SimpleNamespace(of_topic=lambda _: [])
    control = FlowControl(runtime, source, brokers(), NO_TICKING, cast(Any, None), matches_mm2=False)
    control._group_ticks(control._settings, source, log, log, lambda *_: None, cast(Any, thirds), [control._settings])
    assert made.CheckpointsTick.notes() == ()
    assert made.GroupTranslator.find("west") is None
    (note,) = made.CheckpointsTick.notes()
    assert "mm2-state.west.internal is not shown there: TOPIC_AUTHORIZATION_FAILED" in note
    assert note.endswith("allow the flow's user to Describe and Read the topic mm2-state.west.internal on east")
    found.problems.clear()
    assert made.GroupTranslator.find("west") is None
    assert made.CheckpointsTick.notes() == (), "it has never run"
