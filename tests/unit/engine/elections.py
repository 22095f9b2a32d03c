"""A state topic in memory in which engines find out who leads, and the clock of all of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest

from mirror.engine import election
from mirror.engine.election import Election, Identity
from mirror.kafka.batch import Record
from mirror.kafka.log import NewRecord
from mirror.kafka.problems import ConnectionFailed
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.leadership import Claim
from mirror.model.state_record import term_of
from mirror.model.state_values import RunReport

HERE = Identity("first", "host", os.getpid(), "this machine")
TIMEOUT = 6.0
REPORT = RunReport("RUNNING", (), 5)


def report() -> RunReport:
    return REPORT


class Topic:
    """The state topic, and the clock of all who read it."""

    def __init__(self) -> None:
        self.name = "mm2-state.east.internal"
        self.log: list[NewRecord] = []
        self.now = 1000.0
        self.is_down = False
        #: Another one once it was deleted and created anew.
        self.topic_id = "first"
        #: Whether the next to read was away for so long that what was deleted meanwhile may be told no more.
        self.was_long_away = False
        #: What happens before the next append: somebody else was faster.
        self.before_append: list[Callable[[], object]] = []

    def append(self, topic: str, partition: int, records: Sequence[NewRecord]) -> int:
        assert (topic, partition) == (self.name, 0)
        if self.is_down:
            raise ConnectionFailed("west does not answer")
        while self.before_append:
            self.before_append.pop()()
        self.log += records
        return len(self.log) - len(records)

    def tail(self, _: object, topic: str, *, committed: bool, **__: object) -> SimpleNamespace:
        assert topic == self.name
        assert not committed, "a claim may lie behind the start of an open transaction"
        seen = 0
        tail = SimpleNamespace(close=lambda: None, has_begun_anew=False, topic_id="")

        def poll() -> list[Record]:
            nonlocal seen
            if self.is_down:
                raise ConnectionFailed("west does not answer")
            tail.has_begun_anew, self.was_long_away = self.was_long_away, False
            seen = 0 if tail.has_begun_anew or tail.topic_id != self.topic_id else seen
            tail.topic_id = self.topic_id
            new, seen = self.log[seen:], len(self.log)
            return [Record(0, time, key, value, headers, -1) for key, value, headers, time in new]

        tail.poll = poll
        return tail

    def engine(self, name: str, timeout: float = TIMEOUT, **more: str | int | dict[str, str]) -> Election:
        same = more.pop("settings", {})
        assert isinstance(same, dict)
        who = replace(HERE, engine=name, **more)  # type: ignore[arg-type]
        return Election(Flow("east", "west"), {}, {}, who, timeout_seconds=timeout, settings=same)

    def claims(self) -> list[Claim]:
        """Every claim in the log, as it was written."""
        found = []
        for key, value, _, _ in self.log:
            one = FlowState()
            if key == b'["claim"]':
                one.apply(key, value)
                assert one.claim is not None
                found.append(one.claim)
        return found

    @property
    def state(self) -> FlowState:
        known = FlowState()
        for key, value, headers, _ in self.log:
            assert key is not None
            known.apply(key, value, term_of(headers))
        return known


def in_place(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> Topic:
    monkeypatch.setattr(election, "LogTail", topic.tail)
    monkeypatch.setattr(
        election, "LogWriter", lambda *_, **__: SimpleNamespace(append=topic.append, close=lambda: None)
    )
    monkeypatch.setattr(election, "steady_seconds", lambda: topic.now)
    # Clocks of different machines need not agree, nor go forward.
    monkeypatch.setattr(election, "now_ms", lambda: -int(topic.now))
    return topic
