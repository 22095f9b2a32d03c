"""What only saves time is made once, is used only when it is whole, and stops nobody when it cannot be made."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import NoReturn

import pytest

from mirror import cache
from mirror.waiting import wait_until

CONTENT = b"classes"


def write(made: Path) -> None:
    (made.parent / "passing").write_bytes(b"left beside it")
    made.write_bytes(CONTENT)


def never(made: Path) -> NoReturn:
    raise AssertionError("it is there already")


def broken(made: Path) -> NoReturn:
    made.write_bytes(CONTENT[:3])
    raise cache.NotMade("the disk is full\nand more about that")


def nothing(made: Path) -> None:
    """A JVM that is killed before it writes leaves no file."""


def test_a_file_is_made_once_and_nothing_else_stays(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "archive.jsa"

    assert cache.offer(path, "The archive", write) == path
    assert cache.offer(path, "The archive", never) == path
    assert path.read_bytes() == CONTENT
    assert {each.name for each in path.parent.iterdir()} == {"archive.jsa", "archive.jsa.size", "archive.lock"}


@pytest.mark.parametrize(("make", "reason"), [(broken, "the disk is full"), (nothing, "No such file or directory")])
def test_what_cannot_be_made_is_done_without_and_said_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], make: cache.Make, reason: str
) -> None:
    path = tmp_path / "archive.jsa"

    assert cache.offer(path, "The archive", make) is None
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("The archive: not made, so starts take longer: ")
    assert reason in line
    assert [each.name for each in tmp_path.iterdir()] == ["archive.lock"]
    assert cache.offer(path, "The archive", write) == path, "the next one who asks tries again"


def test_a_cache_that_cannot_be_written_stops_nobody(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "archive.jsa"

    assert not cache.is_whole(path)
    assert cache.offer(path, "The archive", never) is None
    assert len(capfd.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("half", [b"", CONTENT[:3]])
def test_a_file_that_was_cut_short_is_not_used_but_made_again(tmp_path: Path, half: bytes) -> None:
    path = tmp_path / "archive.jsa"
    cache.offer(path, "The archive", write)
    path.write_bytes(half)

    assert not cache.is_whole(path)
    assert cache.offer(path, "The archive", write) == path
    assert path.read_bytes() == CONTENT


def test_a_file_whose_size_was_never_written_down_may_be_half_a_one(tmp_path: Path) -> None:
    path = tmp_path / "archive.jsa"
    path.write_bytes(CONTENT)

    assert not cache.is_whole(path)


def test_an_interruption_is_no_reason_to_go_on(tmp_path: Path) -> None:
    def interrupted(made: Path) -> NoReturn:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.offer(tmp_path / "archive.jsa", "The archive", interrupted)


HOLDING = """
import sys
from pathlib import Path
from mirror import cache
with cache.exclusive(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_whoever_waits_for_another_process_says_for_whom(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A fetch takes up to ten minutes, in which the second process printed nothing."""
    lock = tmp_path / "jars.lock"
    had = threading.Event()

    def wait_for_it() -> None:
        with cache.exclusive(lock):
            had.set()

    with subprocess.Popen(
        [sys.executable, "-c", HOLDING, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        waiting = threading.Thread(target=wait_for_it)
        waiting.start()
        line, said = f"waiting for another process ({holder.pid}) that fills the cache: {lock}\n", ""

        def told() -> bool:
            # Threads of other tests may print, too.
            nonlocal said
            said += capfd.readouterr().err
            return line in said

        wait_until(told, "the line about waiting", timeout_seconds=60)
        assert not had.is_set()
        holder.stdin.close()
        waiting.join(60)
    assert had.is_set()
    assert int(lock.read_text()) == os.getpid()


@pytest.mark.parametrize(("spark", "kafka", "status"), [(0, 0, 0), (137, 0, 0), (0, 3, 3), (137, 3, 3)])
def test_setup_fails_without_kafka_and_not_without_what_only_saves_time(
    tmp_path: Path, spark: int, kafka: int, status: int
) -> None:
    """As the recipe of `make setup` has it; 137 is a process that was killed."""
    recipe = (Path(__file__).parents[2] / "Makefile").read_text()
    lines = recipe[recipe.index("\t@$(BIN)/python -m mirror.spark &") :].split("\n\n")[0]
    fake = tmp_path / "python"
    fake.write_text(f"#!/bin/sh\ncase $2 in mirror.spark) exit {spark};; *) exit {kafka};; esac\n")
    fake.chmod(0o755)
    (tmp_path / "Makefile").write_text(f"BIN := {tmp_path}\nsetup:\n{lines}\n")

    done = subprocess.run(["make", "-C", str(tmp_path), "setup"], capture_output=True, text=True, check=False)

    assert (done.returncode != 0, "Error 3" in done.stderr) == (status != 0, status != 0), done.stderr
    assert ("starts take longer" in done.stdout) is (spark != 0)
