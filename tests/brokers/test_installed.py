"""The program as a wheel, installed into an empty environment as for its image, and used away from the checkout."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.lab import processes
from mirror.lab.clusters import Lab
from mirror.model.partition import TopicPartition
from mirror.waiting import WaitTimeout, wait_until
from tests.brokers.command import address, write

# Building the environment is most of it.
pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
# What the image is built of: files, and folders with a slash at the end.
PARTS = tuple(part for line in re.findall(r"^COPY (?!--)(.*) \S+$", DOCKERFILE, re.MULTILINE) for part in line.split())
# A root and an environment that cannot be written to, a /tmp that nothing can be executed in, a user without rights, and
# the first process of all: how a container runs it. Arguments: the folders to be seen, one to a line, those above them
# that let nobody but their owner through, which are hidden, and the command.
IN_A_CONTAINER = """
set -eu
umask 022
mount --make-rprivate /
mount -t tmpfs tmpfs /mnt
number=0
for place in $1; do number=$((number + 1)); mkdir /mnt/$number; mount --bind "$place" /mnt/$number; done
for place in $2; do mount -t tmpfs -o mode=755 tmpfs "$place"; done
mount -t tmpfs -o noexec,nosuid,nodev,mode=1777 tmpfs /tmp
number=0
for place in $1; do
  number=$((number + 1)); mkdir -p "$place"; mount --bind /mnt/$number "$place"; mount -o remount,bind,ro "$place"
done
mount -o remount,bind,ro /
shift 2
cd /tmp
exec setpriv --reuid nobody --regid nogroup --clear-groups --inh-caps=-all --no-new-privs \\
  env -i "PATH=$PATH" HOME=/tmp PYTHONDONTWRITEBYTECODE=1 "$@"
"""
ISOLATED = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
CAN_ISOLATE = (
    sys.platform == "linux"
    and os.geteuid() == 0
    and subprocess.run([*ISOLATED, "true"], capture_output=True, check=False).returncode == 0
)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment that has the wheel and what it needs, made as the image's is."""
    directory = tmp_path_factory.mktemp("installed")
    # The build leaves files beside what it builds.
    checkout = directory / "checkout"
    for each in done("git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard").splitlines():
        if (ROOT / each).is_file() and (each in PARTS or each.startswith(tuple(p for p in PARTS if p.endswith("/")))):
            (checkout / each).parent.mkdir(parents=True, exist_ok=True)
            (checkout / each).write_bytes((ROOT / each).read_bytes())
    environment, uv = directory / "environment", Path(sys.executable).parent
    install = ("sh", str(ROOT / "container" / "install.sh"), str(checkout), str(environment))
    done("env", f"PATH={uv}:{os.environ['PATH']}", f"PYTHON={sys.executable}", *install)
    return environment / "bin"


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


def in_a_container(programs: Path, folder: Path, *argv: str) -> list[str]:
    """Return what runs an installed program as a container would, with ``folder`` to read from; else as it is."""
    if not CAN_ISOLATE:
        return [str(programs / argv[0]), *argv[1:]]
    places = (Path(sys.base_prefix), programs.parent, folder)
    seen = "\n".join(map(str, places))
    hidden = "\n".join(sorted({str(above) for place in places for above in closed_above(place)[:1]}))
    path = f"PATH={programs}:{os.environ['PATH']}"
    return ["env", path, *ISOLATED, "sh", "-c", IN_A_CONTAINER, "sh", seen, hidden, *argv]


def closed_above(place: Path) -> list[Path]:
    """Return the folders above one that only their owner may pass, the outermost first."""
    return [each for each in reversed(place.resolve().parents) if not each.stat().st_mode & stat.S_IXOTH]


def engine_of(started: processes.ManagedProcess) -> psutil.Process:
    """Return the process of the engine, which in a container is the only child of what made that."""
    found = psutil.Process(started.pid)
    return found.children()[0] if CAN_ISOLATE else found


def others(java: psutil.Process, engine: psutil.Process) -> list[psutil.Process]:
    """The JVMs of an engine but for this one."""
    return [each for each in engine.children() if each.name() == "java" and each != java]


def zombies_of(engine: psutil.Process) -> list[psutil.Process]:
    return [each for each in engine.children() if each.status() == psutil.STATUS_ZOMBIE]


def test_an_installed_engine_copies_as_in_its_image(
    programs: Path, east_west: Lab, east: Cluster, west: Cluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """As the first process it takes in what Spark leaves behind, and SIGTERM ends it in order."""
    topic = unique("orders")
    copy = TopicPartition(f"east.{topic}", 0)
    east.create_topics([NewTopic(topic, 1, 1, {})])
    producer = Producer({"bootstrap.servers": address(east_west, "east")})

    def await_copied(count: int) -> None:
        producer.produce(topic, b"1", partition=0)
        assert producer.flush(60) == 0
        wait_until(
            lambda: west.offsets([copy], "latest")[copy] if copy.topic in west.topics([copy.topic]) else 0,
            f"{count} records",
            timeout_seconds=120,
            until=lambda there: there == count,
        )

    folder = tmp_path / "etc"
    folder.mkdir()
    more = f"east->west.enabled = true\neast->west.topics = {topic}\n"
    file = write(folder / "mirror.properties", address(east_west, "east"), address(east_west, "west"), more)
    argv = in_a_container(programs, folder, "mirror", "run", str(file), "--status-port", "0")
    engine = processes.start(tmp_path, "engine", argv, owner_pid=os.getpid())
    try:
        try:
            await_copied(1)
        except WaitTimeout as late:
            raise AssertionError(f"ended with {engine.return_code()}; the engine said {engine.log_tail()}") from late
        process = engine_of(engine)
        if CAN_ISOLATE:
            assert process.username() == "nobody"
        check = json.loads(re.findall(r"^HEALTHCHECK .*\\\n +CMD (.*)$", DOCKERFILE, re.MULTILINE)[0])
        (port,) = re.findall(r"status: http://127.0.0.1:(\d+) ", engine.log_tail(200))
        done(str(programs / check[0]), check[1], check[2].replace("8083", port))
        (java,) = (each for each in process.children() if each.name() == "java")
        java.kill()
        try:
            wait_until(lambda: others(java, process), "another Spark", timeout_seconds=120)
            await_copied(2)
            wait_until(lambda: not zombies_of(process), "nobody left behind", timeout_seconds=60)
        except WaitTimeout as late:
            left = [(each.pid, each.name(), each.status()) for each in process.children(recursive=True)]
            raise AssertionError(f"there are {left}; the engine said {engine.log_tail()}") from late
        process.terminate()
        wait_until(engine.return_code, "the end", timeout_seconds=60, until=lambda code: code is not None)
    finally:
        engine.kill()
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
