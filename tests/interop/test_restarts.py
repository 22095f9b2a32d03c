"""Stopping, starting again, and not starting at all."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys

import pytest

from mirror.lab import mm2
from mirror.waiting import wait_until
from tests.brokers.command import mirror
from tests.interop.world import PATIENCE_SECONDS, World


@pytest.mark.interop
def test_a_restart_goes_on_where_it_stopped(world: World) -> None:
    """Nothing is lost or there twice, and checkpoints never go back (REC-11, REC-14, CKP-06, CLI-04, MET-08).

    Upstream's testRestartReplication.
    """
    topic = world.create("test-restarted", 2)
    copy = f"primary.{topic}"

    def send(first: int) -> None:
        for partition in (0, 1):
            world.send(topic, partition, [b"%d" % number for number in range(first, first + 100)])

    def until_followed(end: int) -> None:
        world.commit("test-restarted", {(topic, 0): end, (topic, 1): end})
        world.until_copied(copy, [end, end])
        world.until(
            lambda: [world.position("test-restarted", copy, partition) for partition in (0, 1)],
            "the group to reach the end",
            lambda seen: all(one is not None and end - one <= 10 for one in seen),
        )

    send(0)
    until_followed(100)
    assert world.process is not None
    process = world.process
    world.stop()
    assert process.return_code() == (143 if world.is_java else 0)
    send(100)
    if not world.is_java:
        # Who looks sees what is not copied yet, also while nobody copies; Java has no such figure (MET-08).
        (flow,) = (
            one
            for one in json.loads(mirror("status", str(world.file), "--json").stdout)["flows"]
            if one["flow"] == "primary->backup"
        )
        assert flow["state"] == "STOPPED"
        lag = {one["partition"]: one["lag_records"] for one in flow["partitions"] if one["topic"] == topic}
        assert lag == {0: 100, 1: 100}
    world.start()
    until_followed(200)
    for partition in (0, 1):
        assert world.values(copy, partition) == [b"%d" % number for number in range(200)]
    checkpoints = [one for one in world.checkpoints("test-restarted") if one.topic_partition.partition == 0]
    assert all(before.downstream <= after.downstream for before, after in itertools.pairwise(checkpoints))


@pytest.mark.interop
def test_no_flow_to_run_ends_at_once(world: World) -> None:
    """``--clusters`` keeps flows by their target; exit code 2 when none is left (CLI-02, CLI-03)."""
    assert world.process is not None
    if world.is_java:
        ended = mm2.start(world.directory, world.file, name="nowhere", clusters=["nowhere"], owner_pid=os.getpid())
        seen = wait_until(
            ended.return_code, "it to end", timeout_seconds=PATIENCE_SECONDS, until=lambda code: code is not None
        )
        assert seen == 2, ended.log_tail()
        return
    command = [sys.executable, "-m", "mirror", "run", str(world.file), "--clusters", "nowhere"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
    assert done.returncode == 2, done.stderr
    assert "nowhere" in done.stderr
