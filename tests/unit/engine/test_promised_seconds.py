"""What operators are promised in seconds, by a clock that stands unless somebody waits: another constant breaks it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.config.engine_keys import ENGINE
from mirror.config.settings import ClusterSettings
from mirror.control.tick import TickReport
from mirror.copier import epoch_channel, loop
from mirror.engine import flow_control, run
from mirror.engine import leader as leaders
from mirror.engine import lease as leases
from mirror.engine.election import Election
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.leader import FlowLeader
from mirror.engine.ticking import Ticking
from mirror.model.pause import PauseWish
from mirror.model.state_record import stamped
from mirror.model.state_values import pause_record
from tests.unit.control.builders import flow_settings
from tests.unit.engine.elections import REPORT, Topic, in_place, report

TIMEOUT = ENGINE["mirror.leader.timeout.seconds"].default


class Rested(threading.Event):
    """What a leader's thread waits for between its looks: the clock goes on by that, and somebody does something."""

    def __init__(self, topic: Topic, meanwhile: Callable[[], None]) -> None:
        super().__init__()
        self._topic, self._meanwhile = topic, meanwhile

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self._topic.now += timeout
        self._meanwhile()
        return True


@dataclass
class Standby:
    """An engine on another machine, with the settings that it has by itself."""

    topic: Topic
    meanwhile: Callable[[], None]
    runtime: FlowRuntime = field(default_factory=lambda: FlowRuntime(flow_settings()))

    def run(self) -> None:
        """Take part in the election until told to end."""
        self.runtime.pause_changed = Rested(self.topic, self.meanwhile)
        who = SimpleNamespace(engine="second", host="another", pid=1, place="another machine")
        self.leader = FlowLeader(self.runtime.settings, self.runtime, cast(Any, who), timeout_seconds=TIMEOUT)
        self.leader.run(ClusterSettings("west", {}), Ticking(self.keep, self.runtime.settings.flow))

    def keep(self, told: TickReport) -> None:
        assert told.is_ok, told


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    topic = in_place(Topic(), monkeypatch)
    monkeypatch.setattr(leases, "steady_seconds", lambda: topic.now)
    monkeypatch.setattr(leaders.Cluster, "connect", lambda _: nullcontext())
    monkeypatch.setattr(leaders, "create_state_topic", lambda *_: (True, ()))
    return topic


def seconds_without_leader(topic: Topic, end: Callable[[Election], None]) -> float:
    """Return after how long a standby leads, once the first engine has come to its end right behind a look of it."""
    first, at = topic.engine("first"), dict[str, float]()

    def meanwhile() -> None:
        if "ended" not in at:
            first.round(report)
            if topic.claims()[-1].renewals == 3:
                end(first)
                at["ended"] = topic.now - leaders._LOOK_SECONDS
        elif "led" in at:
            standby.leader.end(is_settled=False)
        assert topic.now < 1_100.0, "nobody leads the flow"

    assert first.round(report)
    standby = Standby(topic, meanwhile)
    standby.runtime.changed = lambda: at.setdefault("led", topic.now)
    standby.run()
    return at["led"] - at["ended"]


def test_behind_a_kill_a_standby_on_another_machine_leads_in_half_of_the_time_until_it_copies(topic: Topic) -> None:
    """It is to copy within 15 s; the other half is for taking the producers over, and for the first epoch."""
    assert seconds_without_leader(topic, lambda _: None) <= 15.0 / 2


def test_what_a_successor_waits_for_besides_is_within_15_seconds_of_a_kill() -> None:
    """Looking for topics, reading back, fencing; and the next epoch, which is short until it is known how it goes."""
    assert 4 * flow_control._RETRY_SECONDS + run._BACKOFF_SECONDS + run._FIRST_EPOCH_SECONDS <= 15.0 / 2


def test_behind_a_stop_in_order_a_standby_copies_within_5_seconds(topic: Topic) -> None:
    """What the engine that stops may take for its last records, and then the standby for seeing it and for reading."""
    seen = seconds_without_leader(topic, lambda first: first.release(REPORT, is_settled=True))
    assert run._STOP_SECONDS + seen + 2 * flow_control._RETRY_SECONDS <= 5.0


def test_a_pause_holds_within_2_seconds(topic: Topic) -> None:
    """The leader sees the wish at its next look, tasks hear of it at their next beat, and then write nothing more."""
    at, wish = dict[str, float](), PauseWish("all", None, True, "ann", 1)

    def meanwhile() -> None:
        if leader.runtime.term is not None and "wished" not in at:
            topic.log += stamped([pause_record(wish)], None, 5)
            at["wished"] = topic.now - leaders._LOOK_SECONDS
        elif leader.runtime.pauses.pauses_any:
            at.setdefault("seen", topic.now - leaders._LOOK_SECONDS)
            leader.leader.end(is_settled=True)
        assert topic.now < 1_100.0, "nobody sees the wish"

    leader = Standby(topic, meanwhile)
    leader.run()
    assert at["seen"] - at["wished"] + epoch_channel._BEAT_SECONDS + loop._TICK_SECONDS <= 2.0


def test_a_lease_is_renewed_often_enough_to_outlive_a_renewal_that_is_lost(topic: Topic) -> None:
    """And it is over before another engine may lead."""
    first, renewed = topic.engine("first", TIMEOUT), list[float]()
    for _ in range(40):
        assert first.round(report)
        renewed.append(first.renewed_at)
        topic.now += leaders._LOOK_SECONDS
    pauses = [after - before for before, after in pairwise(renewed)]
    assert 2 * max(pauses) <= leases.LEASE_SHARE * TIMEOUT < TIMEOUT
