"""What a connection that is given up has not sent yet: dropped, not sent on for as long as a slow line takes."""

from __future__ import annotations

import contextlib
import socket

import pytest

from mirror.kafka.connection import Connection


@pytest.mark.parametrize("is_given_up", [True, False])
def test_what_is_unsent_is_dropped_with_a_connection_that_is_given_up(*, is_given_up: bool) -> None:
    """A request that arrived later would be appended behind what its successor has found at the end of the log."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sock = socket.create_connection(server.getsockname())
        peer, _ = server.accept()
    connection = Connection("west", 1, sock, sock.close)
    sock.setblocking(False)
    sent = filled(sock)
    if is_given_up:
        connection.discard_unsent()
    connection.close()
    with peer:
        peer.settimeout(60)
        if is_given_up:
            with pytest.raises(ConnectionResetError):
                received(peer)
        else:
            assert received(peer) == sent


def filled(sock: socket.socket) -> int:
    """Send until the kernel takes no more; return how many bytes it took."""
    count = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            count += sock.send(bytes(1 << 20))
    return count


def received(peer: socket.socket) -> int:
    count = 0
    while got := len(peer.recv(1 << 20)):
        count += got
    return count
