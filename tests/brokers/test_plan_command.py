"""`mirror plan` and the start of `mirror run` say what stands in the way, before anything is created."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from mirror.kafka.cluster import Cluster, NewTopic
from mirror.lab.clusters import Lab
from tests.brokers.command import FACTORS, address, mirror


def write(tmp_path: Path, alias: str, source: str, target: str, *lines: str) -> Path:
    """Write a file with a flow that has never run; its keys win over the factors for one broker."""
    file = tmp_path / "mirror.properties"
    head = (f"clusters = {alias}, west", f"{alias}.bootstrap.servers = {source}", f"west.bootstrap.servers = {target}")
    file.write_text("\n".join((*head, f"{alias}->west.enabled = true", *lines)) + f"\n{FACTORS}")
    return file


def test_one_cluster_under_two_names_is_a_problem_of_the_plan(
    east_west: Lab, unique: Callable[[str], str], tmp_path: Path
) -> None:
    both = address(east_west, "west")
    file = write(tmp_path, unique("shop").replace("-", ""), both, both)
    done = mirror("plan", str(file))
    assert done.returncode == 1, done.stderr
    assert "are the same cluster" in " ".join(done.stdout.split())
    planned = mirror("plan", str(file), "--json")
    assert planned.returncode == 1
    assert all("are the same cluster" in flow["problem"] for flow in json.loads(planned.stdout)["flows"])


def test_more_replicas_than_brokers_is_told_before_anything_is_created(
    east_west: Lab, east: Cluster, west: Cluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    alias, topic = unique("shop").replace("-", ""), unique("orders")
    east.create_topics([NewTopic(topic, 1, 1)])
    ends = address(east_west, "east"), address(east_west, "west")
    # The topic of the copies, one of the side topics on the target, and the one on the source.
    for key in ("replication.factor", "checkpoints.topic.replication.factor", "offset-syncs.topic.replication.factor"):
        file = write(tmp_path, alias, *ends, f"topics = {topic}", f"{alias}->west.{key} = 3")
        before = set(east.topics()), set(west.topics())
        done = mirror("run", str(file))
        said = done.stderr.replace("\n", " ")
        assert done.returncode == 2, said
        assert f"{file}:6: {alias}->west.{key}: " in said
        assert "has 1 broker" in said
        assert (set(east.topics()), set(west.topics())) == before
        planned = mirror("plan", str(file), "--flow", f"{alias}->west")
        assert planned.returncode == 1
        assert "problem" in planned.stdout
