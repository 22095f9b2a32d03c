"""The program as a wheel, installed into an empty environment and used away from the checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from email import message_from_string
from importlib.metadata import requires
from pathlib import Path

import pytest
from confluent_kafka import Producer
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mirror.kafka.cluster import Cluster, NewTopic
from mirror.lab import processes
from mirror.lab.clusters import Lab
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.command import address, write

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
# The entries of the lock, a package's name and the whole entry; some have several, for different machines.
LOCK = re.findall(r"^(([\w.-]+)==.*(?:\n .*)*\n)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment that has the wheel and what it needs, without any extra."""
    directory = tmp_path_factory.mktemp("installed")
    # The build leaves files beside what it builds.
    checkout = directory / "checkout"
    tracked = done("git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    for each in tracked:
        if (ROOT / each).is_file() and not each.startswith(("tests/", "docs/")):
            (checkout / each).parent.mkdir(parents=True, exist_ok=True)
            (checkout / each).write_bytes((ROOT / each).read_bytes())
    done(str(UV), "build", "--quiet", "--wheel", "--no-build-isolation", "--python", sys.executable, str(checkout))
    (wheel,) = (checkout / "dist").glob("*.whl")
    environment = directory / "environment"
    done(str(UV), "venv", "--quiet", "--python", sys.executable, str(environment))
    python = str(environment / "bin" / "python")
    # Pinned as by `make setup`, so that what it has fetched and built is taken from uv's cache.
    pinned = directory / "requirements.lock"
    needed = needed_by(wheel)
    pinned.write_text("".join(entry for entry, name in LOCK if name in needed))
    done(str(UV), "pip", "sync", "--quiet", "--python", python, "--require-hashes",
         "--build-constraints", str(ROOT / "requirements.lock"), str(pinned))  # fmt: skip
    done(str(UV), "pip", "install", "--quiet", "--python", python, "--no-deps", str(wheel))
    done(str(UV), "pip", "check", "--python", python)
    return environment / "bin"


def needed_by(wheel: Path) -> set[str]:
    """Return the packages of the lock that a wheel wants without any extra, and those that they want."""
    (metadata,) = (each for each in zipfile.Path(wheel).iterdir() if each.name.endswith(".dist-info"))
    asked = message_from_string((metadata / "METADATA").read_text(encoding="utf-8")).get_all("Requires-Dist")
    found: set[str] = set()
    to_follow = list(asked or ())
    while to_follow:
        requirement = Requirement(to_follow.pop())
        name = canonicalize_name(requirement.name)
        if name in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        found.add(name)
        to_follow += requires(name) or ()
    return found


def done(*argv: str) -> str:
    """Carry out a command that must end well, and return what it said."""
    ended = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=600)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture
def run(programs: Path, tmp_path: Path) -> Callable[[Sequence[str]], subprocess.CompletedProcess[str]]:
    """Run the installed command in an empty folder."""
    return lambda argv: subprocess.run(
        [str(programs / "mirror"), *argv], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )


def test_an_installed_engine_copies(
    programs: Path, east_west: Lab, east: Cluster, west: Cluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic = unique("orders")
    east.create_topics([NewTopic(topic, 1, 1, {})])
    producer = Producer({"bootstrap.servers": address(east_west, "east")})
    producer.produce(topic, b"1", partition=0)
    producer.flush()
    more = f"east->west.enabled = true\neast->west.topics = {topic}\n"
    file = write(tmp_path / "mirror.properties", address(east_west, "east"), address(east_west, "west"), more)
    argv = [str(programs / "mirror"), "run", str(file)]
    engine = processes.start(tmp_path, "engine", argv, owner_pid=os.getpid())
    try:
        copy = TopicPartition(f"east.{topic}", 0)
        wait_until(
            lambda: copy.topic in west.topics([copy.topic]) and west.offsets([copy], "latest")[copy],
            f"the record; the engine said {engine.log_tail()}",
            timeout_seconds=120,
        )
    finally:
        assert engine.terminate(60)
    assert engine.return_code() == 0, engine.log_tail()


def test_what_came_with_the_program_is_found_and_can_be_copied_out_once(
    run: Callable[[Sequence[str]], subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    for kind in ("runbook", "scenario"):
        listed = run([kind, "list"])
        assert listed.returncode == 0, listed.stderr
        came = {each.stem.replace("_", "-") for each in (ROOT / f"{kind}s").glob("[!_]*.py")}
        assert came <= set(listed.stdout.split())
    assert run(["lab", "init", "mine"]).returncode == 0
    for folder, pattern in (
        ("notebooks", "*.ipynb"),
        ("runbooks", "*.py"),
        ("runbooks", "*.md"),
        ("scenarios", "*.py"),
    ):
        files = {each.name: each.read_bytes() for each in (ROOT / folder).glob(pattern)}
        assert {each.name: each.read_bytes() for each in (tmp_path / "mine" / folder).glob(pattern)} == files != {}
    (tmp_path / "mine" / "scenarios" / "clean.py").unlink()
    again = run(["lab", "init", "mine"])
    assert (again.returncode, again.stdout) == (2, "")
    assert "has notebooks, runbooks, scenarios" in again.stderr
    assert not (tmp_path / "mine" / "scenarios" / "clean.py").exists()


def test_what_an_engine_does_not_need_is_asked_for_by_its_extra(
    run: Callable[[Sequence[str]], subprocess.CompletedProcess[str]],
) -> None:
    refused = run(["runbook", "run", "failover-drill"])
    assert refused.returncode == 2
    assert "pip install 'mirrorbook[lab]'" in refused.stderr
    assert "Traceback" not in refused.stderr
