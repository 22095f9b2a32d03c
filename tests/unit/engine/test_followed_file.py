"""An engine's file while it runs: a change is taken once it is whole, and a file that cannot be used changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from mirror.config.changes import in_effect
from mirror.config.mirror_maker import MirrorMakerConfig
from mirror.config.properties import read
from mirror.config.resolving import load
from mirror.config.settings import MirrorSettings
from mirror.engine import followed_file
from mirror.engine.followed_file import FollowedFile, following
from mirror.waiting import wait_until
from tests.flows import EAST_WEST

FILE = (
    "clusters = east, west\neast.bootstrap.servers = east:9092\nwest.bootstrap.servers = west:9092\n"
    "east->west.enabled = true\n"
)


class Running:
    """An engine, as far as it has to do with its file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_text(FILE)
        self.began = MirrorMakerConfig.of(read(path))
        self.settings = load(path)
        self.file = FollowedFile(self, self.began, path)
        self.notes: tuple[str, ...] = ()
        self.taken = 0

    def take_settings(self, new: MirrorSettings) -> None:
        self.settings = in_effect(self.settings, new)
        self.taken += 1

    def take_file_notes(self, notes: Sequence[str]) -> None:
        self.notes = tuple(notes)

    def has(self, more: str, beginning: str = FILE) -> None:
        """Have the file changed, and looked at as often as it takes."""
        self.path.write_text(beginning + more)
        self.look()

    def look(self) -> None:
        self.file.look()
        self.file.look()

    def copies(self, topic: str) -> bool:
        flow = self.settings.flow(EAST_WEST)
        assert flow is not None
        return flow.replicates(topic)


@pytest.fixture
def running(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Running:
    caplog.set_level("INFO", "mirror")
    found = Running(tmp_path / "mirror.properties")
    found.look()
    assert (found.taken, caplog.messages) == (0, []), "it is what the engine began with"
    return found


def test_a_change_is_taken_once_and_told_by_line_and_key(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    running.has("topics = orders\n")
    running.look()
    assert (running.copies("orders"), running.copies("bills"), running.taken) == (True, False, 1)
    assert caplog.messages == ["the file has changed, and this is followed from now on: line 5, topics"]
    assert running.notes == ()


def test_what_needs_a_restart_is_told_until_it_is_taken_back(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    note = "the file has changed: line 5, mirror.tasks: takes effect after a restart"
    running.has("mirror.tasks = 3\n")
    assert (running.notes, running.taken, caplog.messages) == ((note,), 0, [note])
    running.has("mirror.tasks = 3\ntopics = orders\n")
    assert (running.notes, running.taken) == ((note,), 1)
    running.has("topics = orders\n")
    assert running.notes == ()


def test_a_file_that_is_still_being_written_is_not_read(running: Running) -> None:
    """What is there of it may be a whole file of another meaning."""
    running.path.write_text(f"{FILE}topics = ord")
    running.file.look()
    running.path.write_text(f"{FILE}topics = orders, bills")
    running.file.look()
    assert running.taken == 0
    running.file.look()
    assert (running.copies("bills"), running.taken) == (True, 1)


@pytest.mark.parametrize(
    ("beginning", "more", "place"),
    [
        (FILE, "topics = (\n", "line 5, topics"),
        (FILE, "tpics = orders\n", "line 5, tpics"),
        (FILE, "mirror.tasks = many secrets\n", "line 5, mirror.tasks"),
        ("", "", "clusters"),
    ],
)
def test_a_file_that_cannot_be_used_changes_nothing_and_is_told_once(
    running: Running, caplog: pytest.LogCaptureFixture, beginning: str, more: str, place: str
) -> None:
    running.has("topics = orders\n")
    caplog.clear()
    running.has(more, beginning)
    running.look()
    (told,) = caplog.messages
    line, _, key = place.rpartition(", ")
    where = f"{running.path}:{line.removeprefix('line ')}: {key}" if line else f"{running.path}: {key}"
    assert told.startswith(f"the file has changed and cannot be used, so what was read before holds: {where}: ")
    (note,) = running.notes
    assert f"{line}: {key}" if line else key in note
    assert "secrets" not in note
    assert (running.copies("orders"), running.copies("bills"), running.taken) == (True, False, 1)
    running.has("topics = orders\n")
    assert (running.notes, running.taken) == ((), 1)


def test_of_several_mistakes_each_is_a_line_of_the_log_and_a_note(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    running.has("topics = (\nmirror.tasks = many secrets\n")
    refused = "the file has changed and cannot be used, so what was read before holds: "
    assert running.notes == tuple(
        f"{refused}line {line}: {key}: the log says why" for line, key in ((5, "topics"), (6, "mirror.tasks"))
    )
    assert [each.startswith(f"{refused}{running.path}:") for each in caplog.messages] == [True, True]


def test_a_file_that_is_away_changes_nothing(running: Running, caplog: pytest.LogCaptureFixture) -> None:
    running.path.unlink()
    running.look()
    assert len(running.notes) == len(caplog.messages) == 1
    running.has("")
    assert (running.notes, running.taken) == ((), 0)


def test_a_secret_that_has_changed_elsewhere_is_told_when_somebody_asks_and_never_shown(
    running: Running, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("password = geheim\n")
    more = (
        "config.providers = file\n"
        "config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider\n"
        f"east.ssl.truststore.password = ${{file:{secrets}:password}}\n"
    )
    running.path.write_text(FILE + more)
    began = MirrorMakerConfig.of(read(running.path))
    running.settings, running.file = load(running.path), FollowedFile(running, began, running.path)
    running.look()
    secrets.write_text("password = neues\n")
    running.file.read_anew()
    (note,) = running.notes
    assert note.endswith("takes effect after a restart")
    assert "neues" not in caplog.text + note


def test_it_is_followed_in_a_thread_and_read_at_once_when_somebody_asks(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(followed_file, "_LOOK_SECONDS", 600.0)
    asked = threading.Event()
    with following(running, running.began, running.path, asked):
        asked.set()
        wait_until(lambda: caplog.messages, "an answer", timeout_seconds=20)
        running.path.write_text(f"{FILE}topics = orders\n")
        asked.set()
        wait_until(lambda: running.taken, "the change", timeout_seconds=20)
    assert "nothing that could be followed at once is new" in caplog.messages[0]
    assert not [each for each in threading.enumerate() if each.name == "file"]
