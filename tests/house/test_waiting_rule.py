"""Nothing sleeps: code and tests wait for a condition through ``mirror.waiting.wait_until``."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Files that may pause, each with the reason. `wait_until` itself pauses inside tenacity.
MAY_PAUSE: dict[str, str] = {
    "mirror/copier/epoch_channel.py": "a task says every second that it lives, until it ends",
    "mirror/copier/epochs.py": "the watchdog of an epoch waits for the epoch channel or the end, not for a condition to look at",
    "mirror/display.py": "that something goes on is shown every few seconds, until it is over",
    "mirror/drill/lag.py": "a sample is due every second, or never again once the word to stop comes",
    "mirror/engine/cluster_news.py": "between two looks at a cluster it waits a while or for the word to stop",
    "mirror/engine/connecting.py": "before a cluster is asked again it waits a while or for the word to stop",
    "mirror/engine/flow_heartbeats.py": "it waits for the topics, and for a first start not longer than some seconds",
    "mirror/engine/followed_file.py": "between two looks at the file it waits a while or for the wish to read it",
    "mirror/engine/leader.py": "between two looks at the election it waits a while or for the word to end",
    "mirror/engine/flow_control.py": "before the next try it waits a while or for the word to stop",
    "mirror/engine/run.py": "with nothing to copy, or after a failure, it waits a while or for the word to stop",
    "mirror/engine/takeovers.py": "with nothing to take over, or after a failure, it waits a while or for the word to stop",
    "mirror/engine/ticking.py": "a tick waits for the time it is due or for the word to stop",
    "mirror/history/recorder.py": "a sample is due every so many seconds, or never again once the word to stop comes",
    "mirror/lab/holder.py": "every second it looks whether the run was used, until it is told to end",
    "mirror/lab/keeper.py": "the standard library alone, and no process descriptors to wait on outside Linux",
    "mirror/lab/readers.py": "a reader keeps a rate: it waits for its next poll's time or for the word to stop",
    "mirror/legacy/run.py": "it passes the word to stop on to the streams, whenever that comes",
    "mirror/monitoring/watch.py": "between two looks at the clusters it waits a while or for the engine to end",
    "mirror/recovery/probing.py": "the next round of probes is due after a while, or never once the plan is made",
    "mirror/commands/status_page.py": "the next look is due after a while, or never once the word to stop comes",
    "tests/brokers/faults.py": "the load keeps a rate: it waits for the time of its next records or for the word to stop",
}


def pauses(code: str) -> list[int]:
    """Lines that sleep, and lines that wait on a `threading.Event`, which with a time-out is a sleep by another name."""
    tree = ast.parse(code)
    has_events = any(
        (isinstance(node, ast.Attribute) and node.attr == "Event")
        or (isinstance(node, ast.ImportFrom) and "Event" in {alias.name for alias in node.names})
        for node in ast.walk(tree)
    )
    return sorted(
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Name) and node.func.id == "sleep")
            or (isinstance(node.func, ast.Attribute) and node.func.attr == "sleep")
            or (has_events and isinstance(node.func, ast.Attribute) and node.func.attr == "wait")
        )
    )


SOURCES = sorted(
    source for folder in ("mirror", "runbooks", "scenarios", "tests") for source in (ROOT / folder).rglob("*.py")
)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.relative_to(ROOT).as_posix())
def test_nothing_sleeps_where_it_could_wait_for_a_condition(source: Path) -> None:
    path = source.relative_to(ROOT).as_posix()
    lines = pauses(source.read_text())
    assert lines == [] or path in MAY_PAUSE, f"{path}, lines {lines}: use mirror.waiting.wait_until"


@pytest.mark.parametrize("path", MAY_PAUSE)
def test_every_exception_is_still_needed(path: str) -> None:
    assert pauses((ROOT / path).read_text()) != []


@pytest.mark.parametrize(
    "code",
    [
        "import time\ntime.sleep(1)",
        "from time import sleep\nsleep(1)",
        "import asyncio\nasync def f():\n    await asyncio.sleep(1)",
        "import threading\nthreading.Event().wait(1)",
        "from threading import Event\nstop = Event()\nstop.wait(1)",
    ],
)
def test_a_pause_is_seen(code: str) -> None:
    assert len(pauses(code)) == 1


def test_waiting_for_a_process_is_no_pause() -> None:
    assert pauses("import subprocess\nsubprocess.Popen(['true']).wait(timeout=5)") == []
