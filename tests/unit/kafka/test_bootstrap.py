"""What is said when none of the bootstrap servers lets a channel in."""

from __future__ import annotations

import errno
import os

import kafka.errors
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


def test_a_login_that_one_server_refuses_is_not_repeated_at_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each further try may lock the account."""
    tried = []

    def bootstrap(_: Channel, server: str) -> None:
        tried.append(server)
        raise kafka.errors.SaslAuthenticationFailedError("wrong")

    monkeypatch.setattr(Channel, "_knock", lambda *_: None)
    monkeypatch.setattr(Channel, "_bootstrap_at", bootstrap)
    monkeypatch.setattr(channel.random, "shuffle", lambda _: None)
    with pytest.raises(ConnectionFailed) as failed:
        Channel("west", {"bootstrap.servers": "a:1,b:1,c:1"})
    assert tried == ["a:1"]
    assert failed.value.is_refusal
    assert str(failed.value).startswith("west: a:1: ")
    assert "b:1" not in str(failed.value)
