"""Ports stay free for the broker that owns them."""

from __future__ import annotations

import ast
import random
import socket
import subprocess
import sys

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


def test_a_port_that_one_process_has_chosen_is_not_chosen_by_another() -> None:
    """It looks free until a broker listens there, seconds later: two clusters had one address, and one answered."""
    code = "import sys; from mirror.lab import ports; print(ports.choose(3)); sys.stdin.read()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin
        assert other.stdout
        chosen = ast.literal_eval(other.stdout.readline())
        assert [ports.is_free(port) for port in chosen] == [True] * 3
        assert [ports.claim(port) for port in chosen] == [False] * 3
        other.stdin.close()
    assert [ports.claim(port) for port in chosen] == [True] * 3
    assert not ports.claim(chosen[0])
