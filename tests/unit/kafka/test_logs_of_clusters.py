"""Who writes to one cluster, or follows a topic there, does not wait until another cluster is reached."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from mirror.kafka import lazy_channel
from mirror.kafka.log import LogWriter
from mirror.kafka.log_tail import LogTail
from mirror.kafka.problems import ConnectionFailed
from mirror.waiting import wait_until

Use = Callable[[str], object]


def write(alias: str) -> object:
    return LogWriter({}, alias=alias).append("mm2-state", 0, [(b"key", b"value", (), 5)])


def follow(alias: str) -> object:
    return LogTail({}, "mm2-state", alias=alias).poll()


@pytest.mark.parametrize("use", [write, follow])
def test_a_cluster_that_takes_long_to_be_reached_keeps_nobody_waiting_who_goes_to_another(
    use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_answer, asked = threading.Event(), []

    class Reached:
        """A channel that cannot be asked anything; to one cluster it does not even come about for now."""

        def __init__(self, alias: str, _: object) -> None:
            asked.append(alias)
            if alias == "frozen":
                wait_until(may_answer.is_set, "leave to answer", timeout_seconds=30)
            raise ConnectionFailed(f"{alias}: away")

    def begin(alias: str) -> threading.Thread:
        def run() -> Any:
            with suppress(ConnectionFailed):
                use(alias)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        wait_until(lambda: alias in asked, f"{alias} to be asked for", timeout_seconds=5)
        return thread

    monkeypatch.setattr(lazy_channel, "Channel", Reached)
    slow = begin("frozen")
    try:
        begin("west").join()
        assert slow.is_alive()
    finally:
        may_answer.set()
        slow.join()
