"""What is said when none of the bootstrap servers lets a channel in."""

from __future__ import annotations

import errno
import os

import pytest

from mirror.kafka import channel
from mirror.kafka.channel import Channel
from mirror.kafka.problems import ConnectionFailed


def test_what_all_bootstrap_servers_answer_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong password was told three times in one line of a cluster of three brokers."""

    def knock(_: Channel, server: str) -> None:
        code = errno.EHOSTUNREACH if server == "b:1" else errno.ECONNREFUSED
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Channel, "_knock", knock)
    monkeypatch.setattr(channel.random, "shuffle", lambda servers: servers.reverse())
    with pytest.raises(ConnectionFailed) as failed:
        Channel("west", {"bootstrap.servers": "a:1,b:1,c:1"})
    assert str(failed.value) == "west: a:1, c:1: connection refused; b:1: no route to host"
