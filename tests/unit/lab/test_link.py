"""What a link does to what passes over it; the broker is played by a server that says everything twice."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirror.lab import ports
from mirror.lab.errors import LabError
from mirror.lab.link import Link
from mirror.lab.relay import ANSWERS, Line, Pair, Relay
from mirror.waiting import wait_until

MEGABYTE = bytes(range(256)) * 4096


class Echo(socketserver.BaseRequestHandler):
    """Sends back what comes in, and a full stop at the end."""

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            while data := self.request.recv(1 << 16):
                self.request.sendall(data)
            self.request.sendall(b".")


@pytest.fixture(scope="module")
def echo() -> Iterator[str]:
    """The address of an echo server."""
    with socketserver.ThreadingTCPServer((ports.LOOPBACK, 0), Echo) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"{ports.LOOPBACK}:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def one_link(tmp_path_factory: pytest.TempPathFactory, echo: str) -> Iterator[Link]:
    """A link to the echo server."""
    listen, control = ports.choose(2)
    link = Link(tmp_path_factory.mktemp("link"), "line", listen, control, echo)
    link.start(owner_pid=os.getpid())
    yield link
    link.stop()


@pytest.fixture
def link(one_link: Link) -> Link:
    """The link as it was at first."""
    one_link.heal()
    one_link.set(delay_ms=0, jitter_ms=0, bandwidth=None)
    return one_link


def client_of(link: Link) -> socket.socket:
    return socket.create_connection((ports.LOOPBACK, link.listen_port), timeout=10)


def exchange(client: socket.socket, data: bytes) -> bytes:
    """Send and return what comes back."""
    sending = threading.Thread(target=client.sendall, args=(data,))
    sending.start()
    got = bytearray()
    while len(got) < len(data):
        got += client.recv(1 << 20)
    sending.join()
    return bytes(got)


def test_everything_passes_unaltered_and_the_end_of_a_stream_too(link: Link) -> None:
    with client_of(link) as client:
        assert exchange(client, MEGABYTE) == MEGABYTE
        client.shutdown(socket.SHUT_WR)
        assert client.recv(10) == b"."
        assert client.recv(10) == b""


def test_a_round_trip_takes_the_delay_of_both_directions_and_keeps_order(link: Link) -> None:
    link.set(delay_ms=30, jitter_ms=10)
    with client_of(link) as client:
        began = time.monotonic()
        assert exchange(client, b"a") == b"a"
        assert time.monotonic() - began >= 0.06
        assert exchange(client, MEGABYTE) == MEGABYTE


def test_a_narrow_line_passes_no_more_than_its_bandwidth(link: Link) -> None:
    link.set(bandwidth=4 << 20)
    with client_of(link) as client:
        began = time.monotonic()
        assert exchange(client, MEGABYTE) == MEGABYTE
        assert time.monotonic() - began >= 0.2


def test_a_dead_line_says_nothing_and_what_was_under_way_arrives_when_it_is_healed(link: Link) -> None:
    with client_of(link) as client:
        assert exchange(client, b"a") == b"a"
        link.cut()
        client.sendall(b"b")
        client.settimeout(0.1)
        with pytest.raises(TimeoutError):
            client.recv(1)
        with client_of(link) as new:
            new.sendall(b"c")
            wait_until(link.under_way, "two bytes", timeout_seconds=60, until=lambda size: size == 2)
            link.heal()
            client.settimeout(10)
            assert client.recv(1) == b"b"
            assert new.recv(1) == b"c"
            assert link.under_way() == 0


def test_on_a_line_that_is_cut_one_way_questions_arrive_and_answers_come_when_it_is_healed(
    link: Link, echo: str
) -> None:
    with client_of(link) as client:
        assert exchange(client, b"a") == b"a"
        link.cut_answers()
        with client_of(link) as new:
            client.sendall(b"b")
            new.sendall(b"c")
            new.shutdown(socket.SHUT_WR)
            for each in (client, new):
                each.settimeout(0.1)
                with pytest.raises(TimeoutError):
                    each.recv(1)
            link.heal()
            for each, answer in ((client, b"b"), (new, b"c")):
                each.settimeout(10)
                assert each.recv(1) == answer


def test_a_broken_line_resets_and_refuses(link: Link) -> None:
    with client_of(link) as client:
        assert exchange(client, b"a") == b"a"
        link.cut(silently=False)
        with pytest.raises(ConnectionResetError):
            client.recv(1)
        with pytest.raises(ConnectionRefusedError):
            client_of(link)
    link.heal()
    with client_of(link) as client:
        assert exchange(client, b"a") == b"a"


def test_a_target_that_is_not_there_is_seen_as_a_connection_that_ends(tmp_path: Path) -> None:
    nobody, listen, control = ports.choose(3)
    listen, control = ports.choose(2)
    link = Link(tmp_path, "line", listen, control, f"{ports.LOOPBACK}:{nobody}")
    link.start(Line(delay_ms=1), owner_pid=os.getpid())
    try:
        # Which may be before it was even told that it is connected.
        with contextlib.suppress(ConnectionResetError), client_of(link) as client:
            assert client.recv(1) == b""
        with pytest.raises(LabError, match="unexpected keyword"):
            link.set(colour=1)
    finally:
        link.stop()
    assert not link.is_alive()
    with pytest.raises(LabError, match="does not answer"):
        link.heal()


class HungUp(asyncio.Transport):
    """A connection that the other side has just reset, which nobody here has been told yet."""

    def is_closing(self) -> bool:
        return False

    def write_eof(self) -> None:
        raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))


def test_a_client_that_hung_up_does_not_keep_the_line_from_healing() -> None:
    async def heal() -> None:
        relay = Relay(0, (ports.LOOPBACK, 0), Line(cut=ANSWERS), seed=0)
        pair = Pair(relay)
        relay.pairs.add(pair)
        pair.back.writes(HungUp())
        pair.back.put(b"")
        relay.line = Line()
        pair.back.pump()

    asyncio.run(heal())
