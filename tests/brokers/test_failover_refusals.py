"""`mirror failover` beside another one, and with applications commands that fail: told, nothing half done, gone on."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from mirror.config.resolving import load
from mirror.evidence.journal import Event, Journal
from mirror.kafka.cluster import Cluster
from mirror.model.partition import TopicPartition
from mirror.model.state_record import state_topic
from mirror.recovery.steps import Progress
from mirror.waiting import wait_until
from tests.brokers.command import FACTORS, in_process, status_of
from tests.brokers.copying import positions_of
from tests.brokers.on_record import CHECKPOINT, copied

DONE = "true"
FAILS = "ls /nothing/like/this"
KILLED = "sh -c 'echo on its way; kill -9 $$'"
NOT_ALL_SEEN = 1


@dataclass(frozen=True)
class Site:
    """A flow whose source is gone, with a group to move; ``waits`` is a command that goes on once ``go_on`` is called."""

    flow: str
    group: str
    copy: TopicPartition
    file: Path
    directory: Path
    west: Cluster

    @property
    def fifo(self) -> Path:
        return self.directory / "fifo"

    @property
    def waits(self) -> str:
        return f"cat {self.fifo}"

    def go_on(self) -> None:
        """Let the command go on that waits; one that has ended, or was never begun, is told."""

        def is_opened() -> bool:
            try:
                os.close(os.open(self.fifo, os.O_WRONLY | os.O_NONBLOCK))
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                return False
            return True

        wait_until(is_opened, "a command that waits", timeout_seconds=60)

    def applications(self, **commands: str) -> tuple[str, str]:
        """Write a file in which commands end well but for those that are given; return the option that names it."""
        lines = ["timeout_seconds = 300", "service_seconds = 1", "[clusters.west]"]
        lines += [f"{what} = {json.dumps(commands.get(what, DONE))}" for what in ("start", "probe")]
        lines += [f"[clusters.{self.flow.partition('->')[0]}]", f"stop = {json.dumps(commands.get('stop', DONE))}"]
        path = self.directory / "applications.toml"
        path.write_text("\n".join(lines) + "\n")
        return "--applications", str(path)

    def impatient(self) -> None:
        """Have the commands of the file killed after a second."""
        path = self.directory / "applications.toml"
        path.write_text(path.read_text().replace("timeout_seconds = 300", "timeout_seconds = 1"))

    def failover(self, run: Path, *options: str) -> subprocess.CompletedProcess[str]:
        return in_process("failover", *self.options(run), *options)

    def options(self, run: Path) -> list[str]:
        return [str(self.file), "--flow", self.flow, "--yes", "--run-directory", str(run)]

    def state(self) -> object:
        """Return what a failover changes on the target: the flow's state, and where the group is."""
        topic = TopicPartition(state_topic(self.flow.partition("->")[0]), 0)
        return self.west.offsets([topic], "written"), positions_of(self.west, self.group)


@pytest.fixture
def site(west: Cluster, unique: Callable[[str], str], tmp_path: Path) -> Site:
    alias, topic, group = unique("shop").replace("-", ""), unique("orders"), unique("billing")
    file = tmp_path / "mirror.properties"
    file.write_text(
        f"clusters = {alias}, west\n{alias}.bootstrap.servers = 127.0.0.1:1\n"
        f"west.bootstrap.servers = {west.bootstrap_servers}\n{alias}->west.enabled = true\ntopics = {topic}\n{FACTORS}"
    )
    (flow,) = load(file).enabled_flows
    copy = copied(west, flow, TopicPartition(topic, 0), [group])
    made = Site(f"{alias}->west", group, copy, file, tmp_path, west)
    os.mkfifo(made.fifo)
    return made


def said(done: subprocess.CompletedProcess[str]) -> str:
    return " ".join(done.stderr.split())


def steps(done: subprocess.CompletedProcess[str]) -> dict[str, tuple[str, str]]:
    return {each["name"]: (each["verdict"], each["detail"]) for each in json.loads(done.stdout)["steps"]}


@pytest.mark.long
def test_while_a_failover_is_under_way_a_second_one_is_refused_and_the_first_is_named(site: Site) -> None:
    run, other = site.directory / "run", site.directory / "other"
    argv = [sys.executable, "-m", "mirror", "failover", *site.options(run), *site.applications(stop=site.waits)]
    first = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        wait_until(
            lambda: (
                first.poll() is not None or "stop" in Progress.of(Journal(run / "journal.jsonl").read().entries).begun
            ),
            "the first to wait for the applications",
            timeout_seconds=240,
        )
        assert first.poll() is None, first.communicate()
        before = site.state()
        ((on_record,),) = [each["failovers"] for each in status_of(site.file)]

        same = site.failover(run)
        assert (same.returncode, "a run is under way" in said(same)) == (2, True), said(same)
        assert str(first.pid) in said(same)

        beside = site.failover(other)
        assert (beside.returncode, beside.stdout) == (2, "")
        for word in (f"a failover (unplanned) of {site.flow} is under way", str(run), "--run-directory", "--give-up"):
            assert word in said(beside)
        assert on_record["run"] in said(beside)
        assert not other.exists()
        assert site.state() == before
    finally:
        site.go_on()
        told, _ = first.communicate(timeout=240)
    # The engine has never said how far it copied, since there was none: so that is not known.
    assert first.returncode == NOT_ALL_SEEN, told
    assert positions_of(site.west, site.group)[site.copy].position == CHECKPOINT

    again = site.failover(other)
    assert (again.returncode, again.stdout, other.exists()) == (2, "", False)
    assert f"{site.flow} is failed over already (unplanned" in said(again)
    assert "mirror failback is the way back" in said(again)


@pytest.mark.long
def test_of_two_failovers_that_begin_at_once_one_moves_the_groups_and_the_other_names_it(site: Site) -> None:
    named = site.applications(stop=site.waits)
    runs = [site.directory / name for name in ("one", "other")]
    both = [
        subprocess.Popen(
            [sys.executable, "-m", "mirror", "failover", *site.options(run), *named],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for run in runs
    ]
    wait_until(lambda: any(each.poll() is not None for each in both), "one to be refused", timeout_seconds=240)
    (went_on,) = [number for number, each in enumerate(both) if each.poll() is None]
    refused, _ = both[1 - went_on].communicate()
    ((on_record,),) = [each["failovers"] for each in status_of(site.file)]
    assert str(runs[went_on]) in on_record["where"]
    site.go_on()
    told, _ = both[went_on].communicate(timeout=240)
    # Refused by its plan, or, where the other came in between, by its first step.
    assert both[1 - went_on].returncode in {1, 2}, refused
    assert f"a failover (unplanned) of {site.flow} is under way" in " ".join(refused.split())
    # However long the path is: words that are longer than a line are broken.
    assert str(runs[went_on]) in "".join(refused.split())
    assert (both[went_on].returncode, positions_of(site.west, site.group)[site.copy].position) == (1, CHECKPOINT), told


@pytest.mark.long
def test_applications_commands_that_fail_hang_or_are_killed_stop_the_run_where_it_stands_and_it_goes_on_from_there(
    site: Site,
) -> None:
    run = site.directory / "run"

    def stands(at: str, is_moved: bool, *words: str, **commands: str) -> None:
        named = site.applications(**commands)
        if site.waits in commands.values():
            site.impatient()
        done = site.failover(run, *named)
        assert done.returncode == 1, said(done)
        assert f"It stands at {at}." in said(done)
        assert "To go on" in said(done)
        assert f": mirror failover {site.file} --flow '{site.flow}' --run-directory {run}" in said(done)
        told = " ".join(done.stdout.split())
        for word in words:
            assert word in told
        assert (site.copy in positions_of(site.west, site.group)) == is_moved

    stands("stop", False, "`ls /nothing/like/this` ended with 2", "No such file", stop=FAILS)
    stands("stop", False, "was killed, since it took longer than 1 s", stop=site.waits)
    stands("stop", False, "was ended by SIGKILL; it said: on its way", stop=KILLED)
    stands("start", True, "`ls /nothing/like/this` ended with 2", "No such file", start=FAILS)
    stands("start", True, "was killed, since it took longer than 1 s", start=site.waits)
    stands("start", True, "was ended by SIGKILL; it said: on its way", start=KILLED)

    # What only looks keeps nothing from being done: all is on record, and what was not seen is named.
    for probe, why in ((FAILS, "ended with 2"), (site.waits, "took longer than 1 s"), (KILLED, "ended by SIGKILL")):
        named = site.applications(probe=probe)
        if probe == site.waits:
            site.impatient()
        done = site.failover(run, *named, "--json")
        found = steps(done)
        assert done.returncode == 1
        assert found["first write"][0] == found["first reads"][0] == "FAIL"
        assert why in found["first write"][1]
        assert found["finish"][0] == "PASS"
        assert "All is done, and on record; what was not seen:" in said(done)

    # Nothing has been started: a probe that only ends well is checked with the cluster, and no moment is made of it.
    done = site.failover(run, *site.applications(), "--json")
    found = steps(done)
    not_passed = {name for name, (verdict, _) in found.items() if verdict != "PASS"}
    assert (done.returncode, not_passed) == (1, {"cut", "first write", "first reads"}), found
    assert found["first write"][0] == found["first reads"][0] == "UNKNOWN"
    assert "no topic of the flow has a record there with a time from behind the cut" in found["first write"][1]
    assert "it has no member on west, and has not read on there" in found["first reads"][1]

    now = time.time_ns() // 1_000_000
    seen = f'echo \'{{"first_write_at_ms": {now}, "groups": {{"{site.group}": {now}}}}}\''
    done = site.failover(run, *site.applications(probe=seen), "--json")
    found = steps(done)
    assert (done.returncode, {name for name, (verdict, _) in found.items() if verdict != "PASS"}) == (1, {"cut"}), found
    begun = [each.step for each in Journal(run / "journal.jsonl").read().entries if each.event is Event.STEP_STARTED]
    assert begun.count("groups") == 1
