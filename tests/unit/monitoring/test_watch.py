"""The status of an engine while it runs: served where the file says, from what was seen, and never in its way."""

from __future__ import annotations

import json
import socket
import threading
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mirror.config.errors import ConfigError
from mirror.config.resolving import load
from mirror.config.settings import MirrorSettings
from mirror.control.flow_status import FlowStatus
from mirror.control.status import FlowObserver
from mirror.engine import flow_messages
from mirror.engine.run import Engine
from mirror.history.reading import read_history
from mirror.model.partition import TopicPartition
from mirror.monitoring import server, watch
from mirror.monitoring.metrics import exposition
from mirror.monitoring.watch import Watching, served, watched
from mirror.waiting import wait_until
from tests.unit.monitoring.views import FLOW, partition, status

FILE = (
    "clusters = east, west\neast.bootstrap.servers = east:9092\nwest.bootstrap.servers = west:9092\n"
    "east->west.enabled = true\neast->west.metric.names.formats = new\nmirror.status.cliff.seconds = 60\n"
)


@pytest.fixture
def settings(tmp_path: Path) -> MirrorSettings:
    file = tmp_path / "mirror.properties"
    file.write_text(FILE)
    return load(file)


@pytest.fixture
def engine(settings: MirrorSettings) -> Engine:
    return Engine(settings, reports_copied=True)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What each look sees, in turn; the last again and again."""
    seen: list[Any] = [status(partition(0))]

    def look(_: FlowObserver) -> FlowStatus:
        found = seen.pop(0) if len(seen) > 1 else seen[0]
        if isinstance(found, Exception):
            raise found
        assert isinstance(found, FlowStatus)
        return found

    monkeypatch.setattr(FlowObserver, "look", look)
    monkeypatch.setattr(watch, "_INTERVAL_SECONDS", 0.01)
    monkeypatch.setattr(watch, "_SHARE", 0)
    return seen


def test_a_flow_is_seen_as_the_clusters_and_the_engine_say(
    settings: MirrorSettings, engine: Engine, looks: list[Any]
) -> None:
    over, stop = threading.Event(), threading.Event()
    watching = Watching(engine, stop)
    (before,) = watching.view().flows
    assert (before.status, before.term, before.has_reported) == (None, None, False)
    (thread,) = watching.start(over)
    seen = wait_until(watching.view, "a look", timeout_seconds=20, until=lambda view: view.flows[0].status is not None)
    over.set()
    thread.join()
    (flow,) = seen.flows
    assert flow.flow == FLOW
    assert flow.copies == {TopicPartition("orders", 3): TopicPartition("east.orders", 3)}
    assert (flow.source_names, flow.checkpoint_names) == (frozenset({"new"}), frozenset({"new"}))
    assert (seen.cliff_seconds, seen.is_stopping, seen.wrong) == (60.0, False, ())
    stop.set()
    assert watching.view().is_stopping


def test_a_look_that_fails_by_a_defect_is_told_and_the_next_one_comes(
    settings: MirrorSettings, engine: Engine, looks: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """A thread that ends by a defect ends the engine; this one is not worth that."""
    looks.insert(0, KeyError("oops"))
    over = threading.Event()
    watching = Watching(engine, threading.Event())
    (thread,) = watching.start(over)
    wait_until(lambda: watching.view().flows[0].status, "the look after it", timeout_seconds=20)
    over.set()
    thread.join()
    assert "the flow cannot be looked at" in caplog.text


def test_it_is_served_while_the_engine_runs(settings: MirrorSettings, engine: Engine, looks: list[Any]) -> None:
    with watched(engine, threading.Event()) as watching, served(engine, watching, 0) as where:
        with urllib.request.urlopen(f"{where}/health", timeout=20) as answer:
            assert answer.read() == b"ok\n"
        with urllib.request.urlopen(f"{where}/metrics", timeout=20) as answer:
            assert b"mirror_flow_leader" in answer.read()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"{where}/health", timeout=20)


def test_a_port_that_is_taken_is_refused_with_the_key_or_the_option(settings: MirrorSettings, engine: Engine) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        for asked_by in ("mirror.status.port", "--status-port"):
            with (
                pytest.raises(ConfigError, match=f"{asked_by}.*{port}.*in use") as refused,
                served(engine, Watching(engine, threading.Event()), port, asked_by),
            ):
                pass
            assert str(settings.path) in str(refused.value)


def test_what_is_seen_is_kept_where_the_file_says_so(tmp_path: Path, looks: list[Any]) -> None:
    file, folder = tmp_path / "mirror.properties", tmp_path / "history"
    lines = f"mirror.history.directory = {folder}\nmirror.history.interval.seconds = 0.5\neast->west.ssl.key.password = hush\n"
    file.write_text(FILE + lines)
    settings = load(file)
    with watched(Engine(settings, reports_copied=True), threading.Event()) as watching:
        kept = wait_until(
            lambda: watching.view().history,
            "three samples",
            timeout_seconds=60,
            until=lambda kept: kept is not None and kept.samples >= 3,
        )
    assert kept is not None
    assert (kept.trouble, kept.files) == (None, 2)
    found = read_history(folder)
    assert set(found.flows["flow"]) == {"east->west"}
    assert len(found.flows) >= 3
    assert not any(b"hush" in path.read_bytes() for path in folder.iterdir())


def test_a_history_that_cannot_be_kept_is_a_note_of_the_flow_and_no_more(tmp_path: Path, looks: list[Any]) -> None:
    file, folder = tmp_path / "mirror.properties", tmp_path / "history"
    folder.write_text("a file")
    file.write_text(f"{FILE}mirror.history.directory = {folder}\n")
    settings = load(file)
    engine = Engine(settings, reports_copied=True)
    with watched(engine, threading.Event()) as watching:
        (note,) = wait_until(lambda: flow_messages.notes(engine.runtimes[FLOW]), "a note", timeout_seconds=60)
        view = watching.view()
    assert note.startswith(f"history east->west: {folder} cannot be written to: ")
    assert flow_messages.reasons(engine.runtimes[FLOW]) == ()
    assert b"mirror_history_writable 0.0" in exposition(view)
    assert json.loads(server.status(view).content)["history"]["trouble"] in note


@pytest.mark.parametrize("address", ["192.0.2.1", "a" * 70])
def test_an_address_that_is_not_this_machines_is_refused_with_its_line(tmp_path: Path, address: str) -> None:
    file = tmp_path / "mirror.properties"
    file.write_text(f"{FILE}mirror.status.address = {address}\n")
    engine = Engine(load(file))
    with (
        pytest.raises(ConfigError, match=r"mirror\.properties:7: mirror\.status\.address"),
        served(engine, Watching(engine, threading.Event()), 0),
    ):
        pass


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("mirror.status.port = 65536", "mirror.status.port"),
        ("mirror.status.port = http", "mirror.status.port"),
        ("mirror.status.cliff.seconds = -1", "mirror.status.cliff.seconds"),
        ("mirror.history.interval.seconds = 0.1", "mirror.history.interval.seconds"),
        ("mirror.history.retention.hours = 0", "mirror.history.retention.hours"),
        ("mirror.history.retention.bytes = 1000", "mirror.history.retention.bytes"),
        ("mirror.history.folder = x", "mirror.history.directory"),
    ],
)
def test_a_value_that_cannot_be_is_refused(tmp_path: Path, line: str, key: str) -> None:
    file = tmp_path / "mirror.properties"
    file.write_text(f"{FILE.replace('mirror.status.cliff.seconds = 60', '')}{line}\n")
    with pytest.raises(ConfigError, match=key):
        load(file)
