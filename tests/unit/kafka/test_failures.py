"""People read what failed; only of a defect the name of the class says more than its text."""

from __future__ import annotations

import kafka.errors
import pytest

from mirror.kafka.failures import error_message
from mirror.kafka.problems import BrokerRefused, ClusterUnreachable, ConnectionFailed, LeaderUnknown


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConnectionFailed("west, broker 1: connection refused", "west"), "west, broker 1: connection refused"),
        (LeaderUnknown("west: orders-0 has no leader"), "west: orders-0 has no leader"),
        (
            BrokerRefused("west: fetch of orders-0", kafka.errors.TopicAuthorizationFailedError, "Read on the topic"),
            "west: fetch of orders-0: TopicAuthorizationFailed (needs Read on the topic)",
        ),
        (
            ClusterUnreachable("west", "w:1", "w:1: connection refused"),
            "cluster west: connecting to w:1: connection refused",
        ),
        (ConnectionResetError(104, "Connection reset by peer"), "the broker closed the connection"),
        (kafka.errors.KafkaTimeoutError("x"), "no answer in time"),
        (KeyError("epoch"), "KeyError: 'epoch'"),
    ],
)
def test_a_failure_is_told_in_words(error: Exception, said: str) -> None:
    assert error_message(error) == said
