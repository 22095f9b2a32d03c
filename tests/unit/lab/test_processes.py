"""Managed processes survive their starter, never their owner, and are never taken for somebody else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mirror.lab import keeper, processes
from mirror.lab.processes import ManagedProcess, ProcessError
from mirror.waiting import wait_until

#: Prints, then waits for ever; SIGTERM ends it with code 7.
OBEDIENT = (
    "import signal,sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); print('up', flush=True); signal.pause()"
)
#: Ignores SIGTERM.
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()"


def running(directory: Path, name: str, program: str, **options: object) -> ManagedProcess:
    """Start a Python program and return when it has printed its first line."""
    process = processes.start(directory, name, [sys.executable, "-I", "-S", "-c", program], **options)  # type: ignore[arg-type]
    wait_until(process.log_tail, f"the first line of {name}", timeout_seconds=10)
    return process


def gone(process: ManagedProcess) -> bool:
    """Tell whether neither the child nor its keeper runs."""
    return not process.is_alive() and keeper.start_mark(process.keeper_pid) != process.keeper_started


def test_terminate_ends_the_child_and_the_keeper_writes_down_how(tmp_path: Path) -> None:
    """A clean end is reported, with its return code, and leaves no process."""
    process = running(tmp_path, "obedient", OBEDIENT)

    assert process.is_alive()
    assert process.return_code() is None
    assert process.terminate(10)
    assert process.return_code() == 7
    assert gone(process)


def test_terminate_reports_a_child_that_does_not_end_and_kill_ends_it(tmp_path: Path) -> None:
    """SIGTERM is a question, SIGKILL is not."""
    process = running(tmp_path, "stubborn", STUBBORN)

    assert not process.terminate(0.2)
    assert process.is_alive()
    process.kill()
    assert process.return_code() == -signal.SIGKILL
    assert gone(process)


def test_any_process_finds_it_again_and_a_second_start_is_refused_while_it_runs(tmp_path: Path) -> None:
    """The directory is the only memory: handles read back are equal."""
    process = running(tmp_path, "obedient", OBEDIENT)

    assert processes.find(tmp_path, "obedient") == process
    assert processes.all(tmp_path) == (process,)
    assert processes.find(tmp_path, "other") is None
    with pytest.raises(ProcessError, match=f"obedient already runs in .*pid {process.pid}"):
        processes.start(tmp_path, "obedient", ["true"])
    process.kill()


def test_the_log_is_kept_over_restarts_and_its_tail_is_of_the_last_start(tmp_path: Path) -> None:
    """What a killed process said is evidence."""
    running(tmp_path, "twice", OBEDIENT.replace("up", "first")).kill()
    second = running(tmp_path, "twice", OBEDIENT.replace("up", "second"))
    second.kill()

    assert second.log_tail() == "second"
    assert "first" in second.log_path.read_text()


def test_it_survives_its_starter_and_ends_with_its_owner(tmp_path: Path) -> None:
    """``kill -9`` of the owner ends the child; the end of the starter does not."""
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", OBEDIENT], stdout=subprocess.PIPE) as owner:
        starter = (
            "import sys; from pathlib import Path; from mirror.lab import processes;"
            f"processes.start(Path({str(tmp_path)!r}), 'owned', [sys.executable, '-c', {OBEDIENT!r}], owner_pid={owner.pid})"
        )
        subprocess.run([sys.executable, "-c", starter], check=True)
        process = processes.find(tmp_path, "owned")
        assert process is not None
        wait_until(process.log_tail, "its first line", timeout_seconds=10)
        assert process.is_alive()

        owner.kill()
        wait_until(lambda: gone(process), "the end of the owned process", timeout_seconds=10)
    assert process.return_code() == 7


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
def test_it_never_outlives_its_keeper(tmp_path: Path) -> None:
    """Not even ``kill -9`` of the keeper leaves the child behind."""
    process = running(tmp_path, "obedient", OBEDIENT)
    os.kill(process.keeper_pid, signal.SIGKILL)

    wait_until(lambda: gone(process), "the end of the child", timeout_seconds=10)
    assert process.return_code() is None


def test_without_process_descriptors_the_keeper_looks_from_time_to_time() -> None:
    """The way taken where the kernel has no descriptors for processes ends the child with its owner too."""
    sleeper = [sys.executable, "-I", "-S", "-c", "import signal; signal.pause()"]
    with subprocess.Popen(sleeper) as owner, subprocess.Popen(sleeper) as child:
        owner.kill()

        assert keeper.keep(child, owner.pid, descriptors=False) == -signal.SIGTERM


def test_a_later_process_with_the_same_pid_is_not_taken_for_it(tmp_path: Path) -> None:
    """A stale state file names this very test's pid: it is neither alive nor killed."""
    process = running(tmp_path, "stale", OBEDIENT)
    process.kill()
    state = json.loads((tmp_path / "stale.json").read_text())
    (tmp_path / "stale.json").write_text(json.dumps({**state, "pid": os.getpid()}))

    impostor = processes.find(tmp_path, "stale")

    assert impostor == replace(process, pid=os.getpid())
    assert not impostor.is_alive()
    impostor.kill()


@pytest.mark.parametrize(
    ("argv", "owner_pid", "message"),
    [
        (["no-such-command"], None, "cannot start it: cannot run no-such-command: No such file or directory"),
        (["true"], 2**22 + 1, r"cannot start it: its owner \(pid 4194305\) does not run"),
    ],
)
def test_a_start_that_fails_says_why(tmp_path: Path, argv: list[str], owner_pid: int | None, message: str) -> None:
    """Nothing is left behind that looks like a process."""
    with pytest.raises(ProcessError, match=message):
        processes.start(tmp_path, "it", argv, owner_pid=owner_pid)
    assert processes.find(tmp_path, "it") is None


def test_other_json_files_in_the_directory_are_no_processes(tmp_path: Path) -> None:
    """A directory may hold state of others, as a lab's does."""
    (tmp_path / "lab.json").write_text('{"clusters": {}}')

    assert processes.all(tmp_path) == ()
