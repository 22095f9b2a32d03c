"""`mirror status --watch`: every look is shown, it fits, and it ends when it is told to, whatever the clusters do."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from mirror.cli import app
from mirror.commands.status_page import Looking, page, watch
from mirror.config.resolving import load
from mirror.control.flow_status import FlowStatus, PartitionStatus
from mirror.control.status import FlowObserver
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.state_values import stopped_reason

FLOW = Flow("east", "west")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mirror.properties"
    path.write_text(
        "clusters=east,west\neast.bootstrap.servers=127.0.0.1:1\nwest.bootstrap.servers=127.0.0.1:1\n"
        "east->west.enabled=true"
    )
    return path


@pytest.fixture
def stop() -> threading.Event:
    return threading.Event()


def status(lag: int, partitions: int = 1) -> FlowStatus:
    found = tuple(PartitionStatus("orders", each, 0, lag, 0, lag, 1.0) for each in range(partitions))
    return FlowStatus(FLOW, "RUNNING", (), found)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch, stop: threading.Event) -> list[FlowStatus | Exception]:
    """What the looks see, one after the other; with the last one the watching is told to end."""
    left: list[FlowStatus | Exception] = []

    def look(_: FlowObserver) -> FlowStatus:
        if not left:
            stop.set()
            return status(0)
        found = left.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(FlowObserver, "glance", look)
    return left


@pytest.fixture
def watched(file: Path, stop: threading.Event) -> Callable[..., str]:
    def run(*, as_json: bool = False, show_all: bool = False, **console: object) -> str:
        settings, stream = load(file), io.StringIO()
        shown = Console(file=stream, width=100, color_system=None, **console)  # type: ignore[arg-type]
        looking = Looking(settings, settings.enabled_flows)
        watch(looking, file, shown, 0.001, stop, as_json=as_json, show_all=show_all)
        return stream.getvalue()

    return run


def test_elsewhere_than_in_a_terminal_a_page_follows_the_other(
    looks: list[FlowStatus | Exception], watched: Callable[..., str]
) -> None:
    looks += [status(5), status(7)]
    said = watched()
    assert said.count("east->west  RUNNING") == 2
    assert said.index("│              5 │") < said.index("│              7 │")


def test_as_json_each_look_is_a_line(
    looks: list[FlowStatus | Exception], watched: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    looks += [status(5), status(7)]
    assert watched(as_json=True) == ""
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["flows"][0]["partitions"][0]["lag_records"] for line in lines] == [5, 7]
    assert all(line["at"] and line["flows"][0]["fenced_side"] is None for line in lines)


def test_in_a_terminal_the_page_fits_it(looks: list[FlowStatus | Exception], watched: Callable[..., str]) -> None:
    looks += [status(5, partitions=40)]
    said = watched(force_terminal=True, height=24)
    assert "… and 26 more, --all shows them" in said
    # A frame begins with its first line; the last one is drawn once more at the end.
    assert said.split("; Ctrl-C ends")[1].count("\n") < 24


def test_a_defect_ends_it_and_is_told(looks: list[FlowStatus | Exception], watched: Callable[..., str]) -> None:
    looks += [status(5), KeyError("oops")]
    with pytest.raises(KeyError, match="oops"):
        watched()


def stopped(whys: Mapping[int, str], *others: str) -> FlowStatus:
    """Return a flow of which partitions are stopped, each by itself among the reasons."""
    stops = {TopicPartition("orders", number): why for number, why in whys.items()}
    told = [stopped_reason(*each) for each in stops.items()]
    return FlowStatus(FLOW, "DEGRADED", (*told, *others), (), stops=stops)


def lines_of(found: FlowStatus, most_rows: int | None = 20) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=300, color_system=None).print(page(found, Path("f"), 300, most_rows=most_rows))
    return [line.strip() for line in stream.getvalue().splitlines()]


def test_partitions_stopped_for_one_reason_are_one_paragraph() -> None:
    """Six of them were six paragraphs of the same words."""
    found = stopped(dict.fromkeys(range(7), "the copy is not empty") | {7: "deleted"}, "west: no leader")
    assert lines_of(found)[1:4] == [
        "orders-0, orders-1, orders-2, orders-3, orders-4 and 2 more are stopped: the copy is not empty",
        "orders-7 is stopped: deleted",
        "west: no leader",
    ]
    assert "orders-5, orders-6 are stopped: the copy" in lines_of(found, most_rows=None)[1]
    assert len(found.as_json()["reasons"]) == 9


def test_partitions_stopped_for_reasons_that_name_each_are_one_paragraph() -> None:
    found = stopped({each: f"others write to east.orders-{each}" for each in range(2)})
    assert lines_of(found)[1] == "orders-0, orders-1 are stopped: others write to east.orders-0"


def test_partitions_stopped_at_other_offsets_for_reasons_of_one_kind_are_one_paragraph_unless_all_is_asked_for() -> (
    None
):
    """Ten of them were ten paragraphs of five lines, behind a failover."""
    found = stopped({each: f"orders-{each} on west goes up to offset 4{each}0" for each in range(3)})
    assert lines_of(found)[1] == (
        "orders-0, orders-1, orders-2 are stopped for reasons like that of orders-0: orders-0 on west goes up to offset 400"
    )
    each_one = [f"orders-{each} is stopped: orders-{each} on west goes up to offset 4{each}0" for each in range(3)]
    assert lines_of(found, most_rows=None)[1:4] == each_one


def test_how_many_more_partitions_an_engine_names_as_stopped_is_told_as_such() -> None:
    found = stopped({0: "deleted", 1: "deleted"}, "... and 4 more", "west: no leader", "... and 3 more")
    assert lines_of(found)[1:5] == [
        "orders-0, orders-1 are stopped: deleted",
        "... and 4 more partitions are stopped",
        "west: no leader",
        "... and 3 more",
    ]


def test_who_asks_for_a_verdict_asks_once(file: Path) -> None:
    done = CliRunner().invoke(app, ["status", str(file), "--watch", "--check"])
    assert (done.exit_code, "--check asks once" in done.stderr) == (2, True)


@pytest.mark.parametrize("is_terminal", [False, True])
def test_ctrl_c_ends_it_with_0_and_without_a_word_of_a_defect(file: Path, is_terminal: bool) -> None:
    ours, theirs = pty.openpty() if is_terminal else os.pipe()
    argv = [sys.executable, "-m", "mirror", "status", str(file), "--watch"]
    with subprocess.Popen(argv, stdout=theirs, stderr=subprocess.PIPE, text=True) as process:
        os.close(theirs)
        said = b""
        while b"FAILED" not in said:
            said += os.read(ours, 1 << 16)
        process.send_signal(signal.SIGINT)
        if is_terminal:
            # What is left in a terminal that nobody reads would hold up who writes to it.
            threading.Thread(target=_drain, args=(ours,), daemon=True).start()
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


def _drain(terminal: int) -> None:
    try:
        while os.read(terminal, 1 << 16):
            pass
    except OSError:
        pass
