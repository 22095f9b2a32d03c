"""The holder of a run: what it holds lives and ends with it, and it ends when nobody uses the run."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from mirror.lab import holder, processes
from mirror.waiting import wait_until

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]
SECONDS = 60.0


@pytest.fixture
def run(tmp_path: Path) -> Path:
    run = tmp_path / "practice"
    run.mkdir()
    return run


def test_a_run_has_one_holder_however_often_it_is_asked_for(run: Path) -> None:
    first = holder.hold(run)
    try:
        assert holder.hold(run) == first
        assert holder.holder_of(run) == first
        assert holder.held(run.parent) == [run]
    finally:
        holder.release(run)
    assert holder.held(run.parent) == []
    assert holder.holder_of(run) is None


@pytest.mark.parametrize("ending", ["released", "killed"])
def test_what_a_holder_holds_ends_with_it(run: Path, ending: str) -> None:
    process = processes.start(run / "logs", "sleeper", SLEEPER, owner_pid=holder.hold(run).pid)
    if ending == "released":
        holder.release(run)
    else:
        holder.hold(run).kill()
    wait_until(lambda: not process.is_alive(), "the end of what was held", timeout_seconds=SECONDS)


def test_what_works_on_the_clusters_ends_before_they_do(run: Path) -> None:
    """They end with their holder; an engine that stops writes to them how far it has copied."""
    held = holder.hold(run)
    told = run / "told"
    program = (
        "import pathlib, psutil, signal\n"
        "def end(*_):\n"
        f"    pathlib.Path({str(told)!r}).write_text(str(psutil.pid_exists({held.pid})))\n"
        "    raise SystemExit\n"
        "signal.signal(signal.SIGTERM, end)\n"
        f"pathlib.Path({str(told)!r}).touch()\n"
        "signal.pause()"
    )
    engine = processes.start(run / "logs", "engine", [sys.executable, "-c", program], owner_pid=held.pid)
    wait_until(told.exists, "the engine", timeout_seconds=SECONDS)
    holder.release(run)
    wait_until(lambda: not engine.is_alive(), "the end of the engine", timeout_seconds=SECONDS)
    assert told.read_text() == "True"
    assert holder.holder_of(run) is None


def test_a_run_that_nobody_uses_ends_and_says_why(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(holder.ABANDONED_MINUTES_VARIABLE, "0.001")
    held = holder.hold(run)
    wait_until(lambda: holder.holder_of(run) is None, "the end of an unused run", timeout_seconds=SECONDS)
    assert "nobody has used this run for 0.001 minutes" in held.log_path.read_text()


def test_a_run_that_is_used_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the wall clock does: only that the file was touched counts, and a clock that does not jump."""
    used = tmp_path / "used"
    used.touch()
    touched, now, looks = 1, 0.0, 0

    class Told(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            nonlocal touched, now, looks
            looks += 1
            now += 40.0
            if looks < 5:
                touched -= 1  # the clock goes backwards
            return False

    monkeypatch.setattr(holder, "_touched", lambda _: touched)
    monkeypatch.setattr(holder, "time", SimpleNamespace(monotonic=lambda: now))
    holder.wait_until_unused(used, 60.0, Told())
    assert looks == 6


def test_a_holder_whose_run_was_removed_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holder, "_LOOK_SECONDS", 0.01)
    holder.wait_until_unused(tmp_path / "gone", 60.0, threading.Event())


@pytest.mark.parametrize("text", ["soon", "0", "-1", "inf", "nan"])
def test_minutes_that_are_none_are_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(holder.ABANDONED_MINUTES_VARIABLE, text)
    with pytest.raises(holder.BadMinutes, match=f"MIRROR_ABANDONED_MINUTES={text}"):
        holder.abandoned_minutes()
