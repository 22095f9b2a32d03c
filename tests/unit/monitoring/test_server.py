"""The server that answers who watches an engine: what it says, what it refuses, and that no client holds it up."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

import pytest

from mirror.monitoring import server as module
from mirror.monitoring.server import PATHS, Answers, StatusServer
from mirror.monitoring.view import EngineView
from tests.unit.monitoring.views import engine, flow, status


@dataclass
class Engine:
    """An engine that counts how often it is looked at."""

    view: EngineView = field(default_factory=engine)
    looks: int = 0
    now: float = 0.0

    def look(self) -> EngineView:
        self.looks += 1
        return self.view

    def clock(self) -> float:
        return self.now


@pytest.fixture
def watched() -> Engine:
    return Engine()


@pytest.fixture
def server(watched: Engine) -> Iterator[StatusServer]:
    serving = StatusServer("127.0.0.1", 0, Answers(watched.look, watched.clock))
    thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield serving
    serving.shutdown()
    serving.server_close()
    thread.join()


Ask = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ask(server: StatusServer) -> Ask:
    """Ask for a path; the status code, the kind of content, and the content come back."""

    def asked(path: str, method: str = "GET") -> tuple[int, str, str]:
        with closing(http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=20)) as line:
            line.request(method, path)
            answer = line.getresponse()
            return answer.status, answer.headers["Content-Type"], answer.read().decode()

    return asked


def test_metrics_are_served_as_prometheus_reads_them(ask: Ask) -> None:
    code, kind, content = ask("/metrics")
    assert (code, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert 'kafka_connect_mirror_mirrorsourceconnector_record_count{partition="3"' in content


def test_health_and_readiness_say_why_not(ask: Ask, watched: Engine) -> None:
    assert [ask(path)[::2] for path in ("/health", "/ready")] == [(200, "ok\n")] * 2
    watched.view, watched.now = engine(flow(has_reported=False)), 10.0
    assert ask("/health")[0] == 200, "it is alive"
    assert ask("/ready")[::2] == (503, "east->west: no epoch has reported yet\n")
    watched.view, watched.now = engine(wrong=("leader east->west has ended",)), 20.0
    assert ask("/health")[::2] == (503, "leader east->west has ended\n")


def test_the_status_is_that_of_the_command(ask: Ask, watched: Engine) -> None:
    found = json.loads(ask("/status")[2])
    (told,) = found["flows"]
    assert told.items() >= status().as_json().items()
    assert (told["fenced_side"], told["seen_at"], found["version"]) == (None, "2023-11-14T22:13:19Z", "0.1")
    watched.view, watched.now = engine(flow(status=None, seen_ms=None)), 10.0
    (told,) = json.loads(ask("/status")[2])["flows"]
    assert (told["state"], told["reasons"], told["seen_at"]) == ("STARTING", ["not looked at yet"], None)


def test_other_paths_and_methods_are_refused_with_what_there_is(ask: Ask) -> None:
    code, _, content = ask("/")
    assert code == 404
    assert all(path in content for path in PATHS)
    assert ask("/metrics/../status")[0] == 404
    assert ask("/health?verbose=1")[0] == 200
    code, _, content = ask("/metrics", "POST")
    assert (code, content) == (405, "only GET and HEAD are answered here\n")
    assert ask("/metrics", "HEAD")[::2] == (200, "")


def test_a_request_that_is_none_is_refused_and_the_next_one_answered(server: StatusServer, ask: Ask) -> None:
    with socket.create_connection(server.server_address[:2], timeout=20) as line:
        line.sendall(b"\x16\x03\x01 what is this\r\n\r\n")
        assert b"Bad request" in line.recv(1 << 16)
    assert ask("/health")[0] == 200


def test_figures_are_put_together_once_a_second_however_many_ask(ask: Ask, watched: Engine) -> None:
    for _ in range(5):
        ask("/metrics")
    assert watched.looks == 1
    watched.now = 0.9
    ask("/metrics")
    assert watched.looks == 1
    watched.now = 1.0
    ask("/metrics")
    assert watched.looks == 2


def test_clients_that_say_nothing_give_way_to_those_that_ask(server: StatusServer, ask: Ask) -> None:
    """The one that has been served longest is hung up on: a probe is answered whoever holds connections."""
    with ExitStack() as held:
        silent = [
            held.enter_context(socket.create_connection(server.server_address[:2], timeout=20))
            for _ in range(2 * module._MOST_CLIENTS)
        ]
        assert ask("/health")[0] == 200
        assert silent[0].recv(1) == b"", "it was hung up on"


def test_a_defect_is_told_to_who_asks_and_the_next_is_answered(
    ask: Ask, watched: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def defect(_: EngineView) -> module.Answer:
        raise ValueError("oops")

    monkeypatch.setitem(module.PATHS, "/metrics", defect)  # type: ignore[arg-type]  # a dictionary, which is not to be changed
    code, _, content = ask("/metrics")
    assert (code, content) == (500, "a defect of the engine's: ValueError('oops')\n")
    assert ask("/health")[0] == 200


def test_a_port_that_is_taken_and_an_address_of_another_machine_are_refused(server: StatusServer) -> None:
    answers = Answers(engine)
    with pytest.raises(OSError, match="in use"):
        StatusServer("127.0.0.1", server.server_address[1], answers)
    with pytest.raises(OSError, match="assign"):
        StatusServer("192.0.2.1", 0, answers)


def test_it_says_where_it_listens(server: StatusServer) -> None:
    assert server.where == f"http://127.0.0.1:{server.server_address[1]}"
