"""What the control plane of a flow does when it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.control.tick import TickReport
from mirror.engine import flow_control
from mirror.engine.flow_control import FlowControl
from mirror.engine.standing import FlowStanding
from mirror.engine.ticking import Ticking
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.unit.control.builders import flow_settings

# Of the real time: a thread that does not get there.
_STUCK_SECONDS = 60.0
LOOKED = TickReport("foreign writers", 5, 0)


class Once:
    """Runs what is to be run once, and ends at once what would go on."""

    def __init__(self) -> None:
        self.done: list[object] = []

    def once(self, tick: Callable[[], TickReport]) -> None:
        self.done.append(tick())

    def until(self, over: threading.Event, _: Sequence[object]) -> None:
        self.done.append(over)


@pytest.mark.parametrize("found", [True, False])
def test_what_others_wrote_is_looked_at_also_if_it_was_found_with_the_last_results(
    monkeypatch: pytest.MonkeyPatch, *, found: bool
) -> None:
    """The position is behind it by then: neither this engine nor the next would look there again."""
    standing, ticking = FlowStanding(flow_settings()), Once()
    stand_in = SimpleNamespace(
        tick=lambda: "topics", side_topics_are_there=True, close=lambda: None, writable=None, refresh=None
    )
    names = ("TopicsTick", "FlowLog", "LagLine", "DeadChunksTick", "TopicConfigsTick", "GoneTopicsTick")
    more = ("LogTail", "FlowTranslator", "GroupTranslator", "CheckpointsTick", "AclsTick", "CheckpointCopies")
    for name in (*names, *more):
        monkeypatch.setattr(flow_control, name, lambda *_, **__: stand_in)

    def writer(*_: object, **__: object) -> SimpleNamespace:
        ticking.done.append("reads and writes")
        return stand_in

    monkeypatch.setattr(flow_control, "LogWriter", writer)
    monkeypatch.setattr(flow_control, "Strangers", lambda *_: SimpleNamespace(tick=lambda: LOOKED, close=lambda: None))
    target: Any = SimpleNamespace(cluster_id="west")
    control = FlowControl(
        standing.settings, standing, target, target, cast(Any, ticking), cast(Any, None), matches_mm2=False
    )

    def last_results() -> None:
        ticking.done.append("last results")
        if found:
            standing.others.append((TopicPartition("orders", 0), (24, 25)))

    stop = threading.Event()
    stop.set()
    control.keep_up(target, stop, 5.0, last_results)
    # What this engine writes would be taken for left by one before it, were that not known before.
    begun = ["topics", control._may_keep_up, "reads and writes", stop]
    assert ticking.done == [*begun, "last results", *([LOOKED] if found else [])]


def test_a_defect_of_one_thread_ends_the_control_without_waiting_for_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs it ends the engine, and with that the other one."""
    standing, stop = FlowStanding(flow_settings()), threading.Event()
    target: Any = SimpleNamespace(cluster_id="west")
    control = FlowControl(
        standing.settings, standing, target, target, cast(Any, None), cast(Any, None), matches_mm2=False
    )

    def keep_up(_: object, over: threading.Event, *__: object) -> None:
        wait_until(over.is_set, "the engine to end", timeout_seconds=_STUCK_SECONDS)

    def take_over(_: threading.Event) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(control, "keep_up", keep_up)
    monkeypatch.setattr(control, "take_over", take_over)
    with pytest.raises(ZeroDivisionError):
        control.run(stop, 5.0)
    stop.set()


def test_a_source_that_does_not_answer_holds_up_neither_positions_nor_fencing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do very many groups: what is kept up beside has a thread of its own."""
    is_asked, answers, stop = threading.Event(), threading.Event(), threading.Event()
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
    standing = FlowStanding(flow_settings())
    names = {"mm2-state.east.internal", standing.settings.offset_storage_topic}
    target: Any = SimpleNamespace(cluster_id="west", topics=lambda asked: dict.fromkeys(names & asked))
    ticking = Ticking(lambda _: None, standing.settings.flow)
    control = FlowControl(standing.settings, standing, target, target, ticking, cast(Any, None), matches_mm2=False)
    for name, each in done.items():
        monkeypatch.setattr(control, name, lambda *_, each=each, name=name: each.set() or TickReport(name, 5, 1))
    running = threading.Thread(target=control.run, args=(stop, 5.0), daemon=True)
    running.start()
    for name, each in {"the source to be asked": is_asked, **done}.items():
        wait_until(each.is_set, name, timeout_seconds=_STUCK_SECONDS)
    assert not answers.is_set()
    stop.set()
    answers.set()
    running.join(_STUCK_SECONDS)
    assert not running.is_alive()


@pytest.mark.parametrize("is_known", [True, False])
def test_positions_that_were_read_without_the_source_are_read_again_before_anything_is_found_there(
    monkeypatch: pytest.MonkeyPatch, *, is_known: bool
) -> None:
    """What Java MirrorMaker has left on it was not known before; a source that is not found is not asked."""
    target: Any = SimpleNamespace(cluster_id="west")
    for source in ("the east", None):
        standing, done = FlowStanding(flow_settings()), list[object]()
        control = FlowControl(
            standing.settings, standing, None, target, cast(Any, None), cast(Any, None), matches_mm2=False
        )
        control._is_known_without_source = is_known
        monkeypatch.setattr(control, "take_over", lambda _: None)
        monkeypatch.setattr(FlowStanding, "read_again", lambda _, done=done: done.append("read again"))
        monkeypatch.setattr(control, "keep_up", lambda found, *_, done=done: done.append(found))
        control.run(threading.Event(), 5.0, find_source=lambda _, source=source: cast(Any, source))  # type: ignore[misc]
        assert done == [*(["read again"] if is_known else []), *([source] if source else [])]
