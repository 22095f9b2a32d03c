"""What a stage starts is named by what it is, ends with its owner, and is told what was declared."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mirror.lab import processes, readers
from mirror.lab.applications import Deployment, Group, Load
from mirror.lab.service_times import Service
from mirror.lab.stage import LOAD, READERS, Stage


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What was started, by the name of the process; nothing is."""
    found: dict[str, Any] = {}

    def start(directory: Path, name: str, argv: list[str], *, env: object, owner_pid: int | None) -> None:
        found[name] = SimpleNamespace(directory=directory, argv=argv, owner_pid=owner_pid)

    monkeypatch.setattr(processes, "start", start)
    monkeypatch.setattr(Stage, "cluster", lambda _, alias: SimpleNamespace(bootstrap_servers=f"{alias}:1"))
    return found


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path / "lab", tmp_path / "logs", tmp_path / "ledger", 7, 1.0)


def options(argv: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, value in zip(argv[3::2], argv[4::2], strict=True):
        found.setdefault(key, []).append(value)
    return found


def test_producers_are_told_what_was_declared(stage: Stage, started: dict[str, Any]) -> None:
    stage.start_load(Load("east", ("a", "b"), rate=20, client={"x": "1"}), "main", 5)
    (one,) = (started[name] for name in started if name.startswith(LOAD))
    told = options(one.argv)

    assert (one.directory, one.owner_pid) == (stage.logs, 7)
    assert (told["--name"], told["--topic"], told["--seed"]) == (["east-main"], ["a", "b"], ["5"])
    assert (told["--bootstrap"], told["--ledger"]) == (["east:1"], [str(stage.ledger)])
    assert told["--client-property"] == ["x=1"]


def test_members_of_a_group_are_told_what_was_declared(stage: Stage, started: dict[str, Any]) -> None:
    stage.start_readers([Group("billing", "west", ("a", "east.a"), members=2, max_rate=3.0)], "after")
    (one,) = (started[name] for name in started if name.startswith(READERS))
    told = options(one.argv)

    assert (told["--group"], told["--name"]) == (["billing"], ["billing-west-after"])
    assert (told["--consumers"], told["--max-rate"], told["--topic"]) == (["2"], ["3.0"], ["a", "east.a"])


def test_an_application_with_bookmarks_keeps_those_of_each_cluster_in_a_file(
    stage: Stage, started: dict[str, Any]
) -> None:
    stage.start_readers([Group("stream", "west", ("a",), bookmarks=True)], "after")
    (one,) = (started[name] for name in started if name.startswith(READERS))
    assert options(one.argv)["--bookmarks"] == [str(stage.ledger / "bookmarks" / "stream-west.json")]


def test_groups_of_one_process_read_the_same_there(stage: Stage, started: dict[str, Any]) -> None:
    groups = [Group(f"group-{number}", "west", ("a",), process="many") for number in range(3)]
    stage.start_applications(Deployment("west", (), tuple(groups), "after"))
    (one,) = (started[name] for name in started if name.startswith(READERS))
    told = options(one.argv)

    assert (told["--group"], told["--name"]) == (["group-0", "group-1", "group-2"], ["many-west-after"])


def test_members_of_a_process_write_down_what_they_have_read_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty that did so at once, a second after their start, held up their first reads."""
    firsts: list[float] = []

    class Member:
        failure = None
        is_cut_off = False
        records = 0

        def __init__(self, name: str, *, first_part_seconds: float, **_: object) -> None:
            self.name = name
            firsts.append(first_part_seconds)

        def start(self) -> None:
            pass

        def join(self, _: float) -> None:
            pass

        def is_alive(self) -> bool:
            return False

    monkeypatch.setattr(readers, "GroupMember", Member)
    monkeypatch.setattr(readers, "Consumer", lambda _: None)
    monkeypatch.setattr(readers, "StopRequest", lambda: SimpleNamespace(listen=lambda: None, asked=True))
    readers.readers(bootstrap="west:1", cluster="west", group=["a", "b", "c", "d"], topic=["orders"], ledger=tmp_path)
    assert firsts == [0.25, 0.5, 0.75, 1.0]


APPLICATIONS = Deployment(
    "west", (Load("west", ("a",)), Load("west", ("b",))), (Group("billing", "west", ("a",)),), "after", 7
)


def test_applications_run_under_names_that_are_each_of_one_ledger(
    stage: Stage, started: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What runs is left alone; what was stopped, or has ended, is started under a name that was not there."""
    alive: set[str] = set()

    def find(_: Path, name: str) -> SimpleNamespace | None:
        return SimpleNamespace(is_alive=lambda: name in alive) if name in started else None

    monkeypatch.setattr(processes, "find", find)
    stage.start_applications(APPLICATIONS)
    first = {"load-west-after", "load-west-after-1", "readers-billing-west-after"}
    assert set(started) == first
    assert options(started["load-west-after"].argv)["--seed"] == ["7"]
    alive |= first
    stage.start_applications(APPLICATIONS)
    assert set(started) == first
    alive.remove("load-west-after")
    stage.start_applications(APPLICATIONS)
    assert set(started) - first == {"load-west-after.2"}


def test_applications_are_stopped_and_what_else_writes_on_that_cluster_is_not(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(Stage, "stop", lambda _, *prefixes: asked.extend(prefixes) or ())
    stage.stop_applications(APPLICATIONS)

    assert asked == ["load-west-after", "readers-billing-west-"]
    assert not any("load-west-forgotten".startswith(prefix) for prefix in asked)


@pytest.mark.parametrize("targets", [(), ("west",)])
def test_an_engine_without_named_targets_runs_all_flows(
    stage: Stage, started: dict[str, Any], tmp_path: Path, targets: tuple[str, ...]
) -> None:
    stage.start_engine("replicator", tmp_path / "f.properties", targets=targets)

    assert started["replicator"].argv[3:] == [
        "run",
        str(tmp_path / "f.properties"),
        *(["--clusters", "west"] if targets else []),
    ]


def test_what_has_not_come_about_in_time_is_told_as_such(stage: Stage) -> None:
    """There is no ledger yet."""
    assert stage.await_service("west", ["a"], ["billing"], since_ms=0, seconds=0.01) == Service(None, {"billing": None})


def test_where_no_group_is_waited_for_the_ledger_of_reads_is_not_read(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stage, "reads", lambda *_: pytest.fail("it is by far the larger"))
    assert stage.await_service("west", ["a"], [], since_ms=0, seconds=0.01) == Service(None, {})
