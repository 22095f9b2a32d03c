"""A broker that does not know our versions of the requests is told apart before it hangs up on them."""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mirror.cli import app
from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster
from mirror.kafka.problems import ClusterUnreachable
from mirror.kafka.versions import ALWAYS, FETCH, PRODUCE, TRANSACTIONS, misfit

Offered = dict[int, tuple[int, int]]

NEWEST: Offered = {each.key: (each.oldest, each.newest + 3) for each in (*ALWAYS, *TRANSACTIONS)} | {18: (0, 0)}
# What brokers of Kafka 2.6 offer of these.
OLD: Offered = NEWEST | {0: (0, 8), 1: (0, 11)}
# Brokers to come, that have dropped what is spoken here.
TOO_NEW: Offered = NEWEST | {0: (9, 15)}
API_VERSIONS, UNSUPPORTED_VERSION = 18, 35


class Broker(socketserver.StreamRequestHandler):
    """Answers which versions it offers, in the oldest form, and hangs up on anything else."""

    offered: Mapping[int, tuple[int, int]]

    def handle(self) -> None:
        while size := self.rfile.read(4):
            request = self.rfile.read(int.from_bytes(size))
            key, version, correlation = struct.unpack_from(">hhi", request)
            if key != API_VERSIONS:
                return
            entries = [struct.pack(">hhh", each, *versions) for each, versions in self.offered.items()]
            head = struct.pack(">ihi", correlation, UNSUPPORTED_VERSION if version else 0, len(entries))
            answer = head + b"".join(entries)
            self.wfile.write(struct.pack(">i", len(answer)) + answer)


@pytest.fixture
def broker() -> Iterator[Callable[[Offered], str]]:
    """Start brokers that offer something; returns where one listens."""
    with ExitStack() as running:

        def start(offered: Offered) -> str:
            handler = type("Offering", (Broker,), {"offered": offered})
            server = running.enter_context(socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler))
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
            running.callback(server.shutdown)
            return f"127.0.0.1:{server.server_address[1]}"

        yield start


def test_what_fits_is_not_spoken_of() -> None:
    assert misfit(NEWEST, (*ALWAYS, *TRANSACTIONS)) is None


def test_what_is_missing_is_named_with_both_sides_versions() -> None:
    assert misfit(OLD, ALWAYS) == (
        "it offers Fetch versions 0 to 11, and version 12 is needed: it must be of Kafka 2.7 or later"
    )
    assert misfit(TOO_NEW, ALWAYS) == (
        "it offers Produce versions 9 to 15, and version 8 is needed: it is too new for this release of the engine"
    )
    assert misfit({}, (FETCH,)) == "it does not offer Fetch at all, of which version 12 is needed"
    both = misfit({0: (9, 9), 1: (3, 3)}, (PRODUCE, FETCH))
    assert both is not None
    assert both.count("; ") == 1


@pytest.mark.parametrize(
    ("offered", "told"),
    [
        (OLD, "Fetch versions 0 to 11, and version 12 is needed"),
        (TOO_NEW, "Produce versions 9 to 15, and version 8 is"),
    ],
)
def test_a_cluster_of_another_age_is_refused_with_broker_and_versions(
    offered: Offered, told: str, broker: Callable[[Offered], str]
) -> None:
    address = broker(offered)
    with pytest.raises(ClusterUnreachable, match=rf"cluster east: .*{address}: it offers {told}"):
        Cluster.connect(ClusterSettings("east", {"bootstrap.servers": address}), timeout_seconds=5)


def test_an_engine_does_not_start_and_says_where_the_cluster_stands_in_the_file(
    tmp_path: Path, broker: Callable[[Offered], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The log is a process's for good, and this one goes on.
    monkeypatch.setattr("mirror.commands.replication.set_up", lambda *_: None)
    file = tmp_path / "mirror.properties"
    file.write_text(
        f"clusters = east, west\neast.bootstrap.servers = {broker(OLD)}\n"
        f"west.bootstrap.servers = {broker(OLD)}\neast->west.enabled = true\n"
    )
    done = CliRunner().invoke(app, ["run", str(file)])
    assert done.exit_code == 3
    said = " ".join(done.output.split())
    assert "mirror.properties:3: west.bootstrap.servers: cluster west" in said
    assert "it offers Fetch versions 0 to 11, and version 12 is needed: it must be of Kafka 2.7 or later" in said
