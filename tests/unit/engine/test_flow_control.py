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
from mirror.model.partition import TopicPartition
from tests.unit.control.builders import flow_settings

LOOKED = TickReport("foreign writers", 5, 0)


class Once:
    """Runs what is to be run once, and ends at once what would go on."""

    def __init__(self) -> None:
        self.done: list[object] = []

    def once(self, tick: Callable[[], TickReport]) -> None:
        self.done.append(tick())

    def until(self, _: threading.Event, __: Sequence[object]) -> None:
        self.done.append("ended")


@pytest.mark.parametrize("found", [True, False])
def test_what_others_wrote_is_looked_at_also_if_it_was_found_with_the_last_results(
    monkeypatch: pytest.MonkeyPatch, *, found: bool
) -> None:
    """The position is behind it by then: neither this engine nor the next would look there again."""
    standing, ticking = FlowStanding(flow_settings()), Once()
    stand_in = SimpleNamespace(
        tick=lambda: "topics", side_topics_are_there=True, close=lambda: None, writable=None, refresh=None
    )
    names = ("TopicsTick", "FlowLog", "LogWriter", "LagLine", "DeadChunksTick", "TopicConfigsTick", "GoneTopicsTick")
    more = ("LogTail", "FlowTranslator", "GroupTranslator", "CheckpointsTick", "AclsTick", "CheckpointCopies")
    for name in (*names, *more):
        monkeypatch.setattr(flow_control, name, lambda *_, **__: stand_in)
    monkeypatch.setattr(flow_control, "Strangers", lambda *_: SimpleNamespace(tick=lambda: LOOKED, close=lambda: None))
    target: Any = SimpleNamespace(cluster_id="west")
    control = FlowControl(
        standing.settings, standing, target, target, cast(Any, ticking), cast(Any, None), matches_mm2=False
    )

    def last_results() -> None:
        ticking.done.append("last results")
        if found:
            standing.others.append((TopicPartition("orders", 0), (24, 25)))

    control.run(threading.Event(), 5.0, last_results)
    assert ticking.done == ["topics", "ended", "last results", *([LOOKED] if found else [])]
