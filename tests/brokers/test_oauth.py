"""Logging in with tokens of an OAuth server that comes and goes."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from mirror.config.settings import ClusterSettings
from mirror.control.tick import run_tick
from mirror.kafka.channel import Channel
from mirror.kafka.cluster import Cluster
from mirror.kafka.problems import ClusterUnreachable, ConnectionFailed
from mirror.kafka.security import UnsecuredTokens
from mirror.lab import clusters, ports
from mirror.lab.clusters import EmbeddedCluster


@contextmanager
def token_server(port: int, answer: bytes | None = None) -> Iterator[None]:
    """Give out unsigned tokens that are to be renewed at once, or ``answer``."""

    class Tokens(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            given = {"access_token": UnsecuredTokens("ann").token(), "expires_in": 0}
            self.wfile.write(json.dumps(given).encode() if answer is None else answer)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", port), Tokens) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield
        finally:
            server.shutdown()
            serving.join()


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    directory = tmp_path / "secured"
    lab = clusters.up(directory, ["secured"], owner_pid=os.getpid(), secured=["secured"])
    cluster = lab.clusters["secured"]
    assert isinstance(cluster, EmbeddedCluster)
    yield cluster
    clusters.down(directory, discard_data=True)


def test_an_oauth_server_that_is_down_is_a_trouble_that_passes(secured: EmbeddedCluster) -> None:
    """CLI-05: whether it is down at the start or later, and whatever it answers instead of a token."""
    (port,) = ports.choose(1)
    login = (
        'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId="me" clientSecret="pw";'
    )
    settings = ClusterSettings(
        "secured",
        {
            "bootstrap.servers": secured.secured_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": login,
            "sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{port}/token",
        },
    )
    why = f"no token from http://127.0.0.1:{port}/token for client me: "

    def look(_: int) -> tuple[int, tuple[str, ...]]:
        with Cluster.connect(settings) as cluster:
            return len(cluster.broker_ids()), ()

    (problem,) = run_tick("look", lambda: 5, look).problems
    assert why in problem
    with pytest.raises(ConnectionFailed, match=why):
        Channel("secured", settings.client)
    for answer in (b"[]", b'{"error": "invalid_client"}', b"<html>"):
        with token_server(port, answer), pytest.raises(ClusterUnreachable, match=why):
            Cluster.connect(settings)
    with token_server(port):
        assert run_tick("look", lambda: 5, look).done == 1
        connected = Cluster.connect(settings)
        Channel("secured", settings.client).close()
    with connected:
        # Its connection to the broker has gone, and a token is needed for the next.
        connected._manager.run(_hang_up, connected._manager)
        (problem,) = run_tick("ask", lambda: 5, lambda _: (len(connected.broker_ids()), ())).problems
        assert why in problem
        with token_server(port):
            assert run_tick("ask", lambda: 5, lambda _: (len(connected.broker_ids()), ())).done == 1


async def _hang_up(manager: object) -> None:
    for connection in list(manager._conns.values()):  # type: ignore[attr-defined]
        connection.close()
