"""A round of control work reports what it did and what went wrong; it never dies of a cluster and hides nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mirror.control.heartbeats import HeartbeatsTick
from mirror.control.tick import TickReport, run_tick
from mirror.kafka.log import NewRecord
from mirror.kafka.problems import ClusterError
from tests.unit.control.builders import flow_settings


class Log:
    """Keeps what is appended, or fails."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.appended: list[tuple[str, int, NewRecord]] = []
        self._failure = failure

    def append(self, topic: str, partition: int, records: Sequence[NewRecord]) -> int:
        if self._failure is not None:
            raise self._failure
        self.appended += [(topic, partition, record) for record in records]
        return 0


def test_a_heartbeat_is_written_on_the_target_with_its_time_in_value_and_timestamp() -> None:
    """HB-01, and section 3.2 for the bytes."""
    log = Log()
    flow = flow_settings(flow="west->east")
    report = HeartbeatsTick(flow, log, clock=lambda: 1_700_000_000_000).tick()
    assert report == TickReport("heartbeats west->east", 1_700_000_000_000, 1)
    key = bytes.fromhex("0004") + b"west" + bytes.fromhex("0004") + b"east"
    value = bytes.fromhex("0000 0000018bcfe56800")
    assert log.appended == [("heartbeats", 0, (key, value, (), 1_700_000_000_000))]


def test_a_cluster_that_fails_is_a_problem_of_the_round() -> None:
    report = HeartbeatsTick(flow_settings(), Log(ClusterError("west", "writing", "no")), clock=lambda: 5).tick()
    assert report == TickReport("heartbeats east->west", 5, 0, ("cluster west: writing: no",))
    assert not report.is_ok


def test_a_defect_is_not_mistaken_for_a_cluster_that_fails() -> None:
    def round_of_work(_: int) -> tuple[int, Sequence[str]]:
        raise KeyError("oops")

    with pytest.raises(KeyError):
        run_tick("any", lambda: 0, round_of_work)
