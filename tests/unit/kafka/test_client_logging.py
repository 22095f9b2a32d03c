"""kafka-python's log lines: news, not every attempt."""

from __future__ import annotations

import logging

import pytest

from mirror.kafka.client_logging import OnlyNews


def test_a_line_is_passed_on_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    handler = OnlyNews(clock=lambda: now)

    def fail(attempt: int) -> None:
        handler.emit(logging.LogRecord("kafka.net", logging.ERROR, "net.py", 7, "attempt %d", (attempt,), None))

    fail(1)
    fail(2)
    handler.emit(logging.LogRecord("kafka.net", logging.ERROR, "net.py", 8, "something else", (), None))
    now = 61.0
    fail(3)
    assert [record.getMessage() for record in caplog.records] == ["attempt 1", "something else", "attempt 3"]
