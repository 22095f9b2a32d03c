"""A state topic is read once and then followed; what has become stale is read anew, and nothing is left open."""

from __future__ import annotations

import gc
from collections.abc import Mapping

import pytest

from mirror.config.settings import ClusterSettings
from mirror.control.flow_log import NeverRun
from mirror.kafka.problems import ConnectionFailed
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.recovery import state_followers
from mirror.recovery.state_followers import StateFollowers

FLOW = Flow("east", "west")
CLUSTERS = {"west": ClusterSettings("west", {"bootstrap.servers": "w:1"})}


class Log:
    """A state topic; ``problems`` are what its next polls meet."""

    made: list[Log]
    problems: list[Exception]

    def __init__(self, client: Mapping[str, str], topic: str, *, alias: str) -> None:
        assert (topic, alias) == ("mm2-state.east.internal", "west")
        self.state = FlowState()
        self.loss: str | None = None
        self.polls, self.is_closed = 0, False
        Log.made.append(self)

    def poll(self) -> FlowState:
        self.polls += 1
        if Log.problems:
            raise Log.problems.pop(0)
        return self.state

    def observed(self) -> FlowState:
        return self.state

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture(autouse=True)
def logs(monkeypatch: pytest.MonkeyPatch) -> None:
    Log.made, Log.problems = [], []
    monkeypatch.setattr(state_followers, "FlowLog", Log)


def test_it_is_read_once_and_then_followed() -> None:
    states = StateFollowers()
    assert states.state(CLUSTERS, FLOW) is states.state(CLUSTERS, FLOW)
    (log,) = Log.made
    assert (log.polls, log.is_closed) == (2, False)


def test_one_whose_connection_has_ended_is_read_anew_and_a_cluster_that_is_away_is_told() -> None:
    states = StateFollowers()
    states.state(CLUSTERS, FLOW)
    Log.problems = [ConnectionFailed("reset")]
    assert states.state(CLUSTERS, FLOW) is Log.made[1].state
    Log.problems = [ConnectionFailed("reset"), ConnectionFailed("west does not answer")]
    with pytest.raises(ConnectionFailed, match="west does not answer"):
        states.state(CLUSTERS, FLOW)
    assert [each.is_closed for each in Log.made] == [True, True, True]


def test_what_is_not_there_any_more_is_read_anew() -> None:
    states = StateFollowers()
    states.state(CLUSTERS, FLOW)
    Log.made[0].loss = "the topic was created anew"
    assert states.state(CLUSTERS, FLOW) is Log.made[1].state
    assert Log.made[0].is_closed


def test_a_flow_that_has_never_run_has_nothing_on_record_and_may_begin() -> None:
    states = StateFollowers()
    Log.problems = [NeverRun("west", "mm2-state.east.internal")]
    assert states.log(CLUSTERS, FLOW) is None
    assert states.state(CLUSTERS, FLOW) is Log.made[1].state


def test_connections_end_with_it() -> None:
    states = StateFollowers()
    states.state(CLUSTERS, FLOW)
    del states
    gc.collect()
    assert Log.made[0].is_closed
