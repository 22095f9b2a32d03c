"""Ports stay free for the broker that owns them."""

from __future__ import annotations

import random
import socket

import pytest

from mirror.lab import ports


def test_ports_are_different_free_and_never_lent_to_outgoing_connections() -> None:
    taken = set(range(20_000, 20_010))

    chosen = ports.choose(5, free=lambda port: port not in taken, below=20_016, chance=random.Random(1))

    assert len(set(chosen)) == 5
    assert set(chosen) <= set(range(20_010, 20_016))


def test_too_few_free_ports_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"no 7 free ports between .* and 20006"):
        ports.choose(7, free=lambda port: True, below=20_006)


def test_a_port_that_somebody_listens_on_is_not_free() -> None:
    with socket.socket() as server:
        server.bind((ports.LOOPBACK, 0))
        server.listen()
        port = server.getsockname()[1]
        assert not ports.is_free(port)
    assert ports.is_free(port)
