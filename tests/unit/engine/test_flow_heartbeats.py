"""How often a flow beats, and that its file may say never."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from mirror.engine import flow_heartbeats
from mirror.engine.flow_heartbeats import FlowHeartbeats
from mirror.engine.ticking import Timed
from tests.unit.control.builders import flow_settings


class Ticking:
    """Tells how often which ticks are to run; its second round is the last."""

    def __init__(self, stop: threading.Event) -> None:
        self.rounds: list[list[float]] = []
        self._stop = stop

    def until(self, stop: threading.Event, ticks: Sequence[Timed], is_outdated: Callable[[], bool]) -> None:
        self.rounds.append([seconds for seconds, _ in ticks])
        if len(self.rounds) == 2:
            stop.set()


class Writer:
    def __init__(self, *_: object, **__: object) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_negative_interval_means_never_until_the_file_says_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """CFG-060."""
    monkeypatch.setattr(flow_heartbeats, "LogWriter", Writer)
    never, again = (flow_settings(f"emit.heartbeats.interval.seconds = {seconds}") for seconds in (-1, 3))
    settings = iter((never, never, again))
    has_topics, stop = threading.Event(), threading.Event()
    has_topics.set()
    ticking = Ticking(stop)
    FlowHeartbeats(lambda: next(settings), lambda: True, cast(Any, ticking)).run(has_topics, stop)
    assert ticking.rounds == [[], [3]]
