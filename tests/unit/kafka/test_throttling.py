"""For how long quotas hold back what is sent to a broker, and when another connection is tried."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from mirror.kafka.channel import Channel
from mirror.kafka.log import LogReader
from mirror.kafka.throttling import Throttling
from mirror.model.partition import TopicPartition


def test_silence_is_counted_as_it_passes_and_not_as_it_is_announced() -> None:
    throttling = Throttling()
    throttling.answered(100.0, 11_949_833)
    assert throttling.is_throttled
    assert throttling.silent_seconds(130.0) == 30.0
    throttling.answered(140.0, 0)
    assert not throttling.is_throttled
    assert throttling.silent_seconds(200.0) == 40.0


def test_a_minute_of_silence_is_kept_and_then_another_connection_is_tried() -> None:
    throttling = Throttling()
    throttling.answered(100.0, 70_000)
    assert [throttling.is_to_be_tried_anew(at) for at in (159.0, 160.0, 169.0, 170.0)] == [False, True, True, False]
    throttling.begin_anew(165.0)
    assert not throttling.is_to_be_tried_anew(166.0)
    assert throttling.silent_seconds(169.0) == 65.0
    assert throttling.is_throttled, "one request at a time until an answer says otherwise"


def test_silence_that_a_broker_asks_a_reader_for_is_told_as_people_say_it() -> None:
    """It was "throttled for 11949833 ms", which is no time that anybody has waited so far."""
    reader = LogReader(cast(Channel, SimpleNamespace(alias="east")), TopicPartition("orders", 0), 5)
    assert "silence" not in str(reader.standstill(9))
    reader._throttle_ms = 11_949_833
    assert "the broker throttles this client for 3 h 19 min: a quota of that cluster" in str(reader.standstill(9))
    reader._throttle_ms = 300
    assert "throttles this client for 1 s" in str(reader.standstill(9))
