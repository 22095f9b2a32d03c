"""The runbook `migration` of one's own file, where copies have the source's offsets: group by group, nothing twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.lab import clusters, processes
from mirror.lab.clusters import LabCluster
from mirror.parts import read_rows
from mirror.waiting import wait_until
from tests.brokers import lab_applications
from tests.brokers.command import FACTORS, status_of

pytestmark = [pytest.mark.soak, pytest.mark.drill]

ROOT = Path(__file__).parents[2]
PARTITIONS = 2
IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"


@pytest.fixture
def old(tmp_path: Path) -> Iterator[LabCluster]:
    """A cluster that nobody else uses: what remains on it at the end is told."""
    directory = tmp_path / "old"
    yield clusters.up(directory, ["old"], owner_pid=os.getpid()).clusters["old"]
    clusters.down(directory, discard_data=True)


def ids_of(rows: pd.DataFrame) -> list[tuple[str, int]]:
    return list(zip(rows.producer, rows.sequence, strict=True))


@pytest.mark.parametrize("policy", ["", IDENTITY], ids=["MirrorMaker's names", "unchanged names"])
def test_groups_move_one_by_one_to_the_same_offsets_and_read_each_record_once(
    policy: str,
    old: LabCluster,
    west: Cluster,
    settings_of: Callable[[str], ClusterSettings],
    unique: Callable[[str], str],
    tmp_path: Path,
) -> None:
    alias, topic = unique("old").replace("-", ""), unique("orders")
    groups = [unique("audit"), unique("billing")]
    new = settings_of("west").client["bootstrap.servers"]
    file = tmp_path / "mirror.properties"
    file.write_text(
        f"clusters = {alias}, west\n{alias}.bootstrap.servers = {old.bootstrap_servers}\n"
        f"west.bootstrap.servers = {new}\n{alias}->west.enabled = true\nwest->{alias}.enabled = true\n"
        f"topics = {topic}\ngroups = {'|'.join(groups)}\nemit.checkpoints.interval.seconds = 1\n{FACTORS}"
        f"mirror.offsets = same\n{policy}"
    )
    with Cluster.connect(ClusterSettings(alias, {"bootstrap.servers": old.bootstrap_servers})) as cluster:
        cluster.create_topics([NewTopic(topic, PARTITIONS, 1)])
    west.create_topics([NewTopic(topic, PARTITIONS, 1)])
    played = tmp_path / "applications"
    reads = [topic] if policy else [topic, f"{alias}.{topic}"]
    applications = lab_applications.write(
        played,
        {alias: old.bootstrap_servers, "west": new},
        {alias: topic, "west": topic},
        {alias: [topic], "west": reads},
        groups,
    )
    engine = processes.start(
        tmp_path, "engine", [sys.executable, "-m", "mirror", "run", str(file)], owner_pid=os.getpid()
    )
    try:
        lab_applications.start(played, alias)

        def read() -> pd.DataFrame:
            return read_rows(played / "ledger" / "reads", ["group", "cluster", "producer", "sequence"])

        wait_until(
            lambda: read().groupby("group").size().reindex(groups).fillna(0).min(),
            f"work on {alias}",
            timeout_seconds=300,
            until=lambda count: count >= 200,
        )

        def copied() -> list[int]:
            (flow,) = (each for each in status_of(file) if each["flow"] == f"{alias}->west")
            return [each["upstream_next"] or 0 for each in flow["partitions"] if each["topic"] == topic]

        wait_until(
            copied, "copies", timeout_seconds=300, until=lambda at: len(at) == PARTITIONS and min(at, default=0) > 0
        )
        facts = migrated(file, f"{alias}->west", applications, tmp_path / "runs")
        assert {each["group"] for each in facts["moved_groups"]} == set(groups)
        moved = [each for each in facts["moved_groups"] if each["topic"] == reads[-1]]
        assert len(moved) == len(groups) * PARTITIONS
        assert all(each["exact"] and each["upstream"] == each["after"] for each in moved)
        names = [each["name"] for each in facts["procedure_steps"]]
        assert names.index(f"{groups[0]}: reads") < names.index(f"{groups[1]}: stop") < names.index("producers: stop")

        lab_applications.stop_part(played, "west")
        sends = read_rows(played / "ledger" / "sends", ["cluster", "status", "producer", "sequence"])
        acked = sends[sends.status == "acked"]
        assert set(acked.cluster) == {alias, "west"}
        wanted = set(ids_of(acked))
        wait_until(
            lambda: [wanted - set(ids_of(of)) for _, of in read().groupby("group")],
            "every group to have read all",
            timeout_seconds=300,
            until=lambda left: len(left) == len(groups) and not any(left),
        )
        lab_applications.stop(played, "west")
        for group, of in read().groupby("group"):
            assert len(set(ids_of(of))) == len(of), f"{group} has read some records twice"
    finally:
        processes.end(processes.running(played), timeout_seconds=20)
        engine.kill()


def migrated(file: Path, flow: str, applications: Path, runs: Path) -> dict[str, Any]:
    """Run the runbook, which passes; return the facts of its step."""
    given = {"properties_file": file, "flow": flow, "applications": applications}
    parameters = [part for name, value in given.items() for part in ("-p", f"{name}={value}")]
    argv = [sys.executable, "-m", "mirror", "runbook", "run", "migration", "--runs-directory", str(runs), *parameters]
    # The notebook's kernel is at work in the run's own folder, and the commands of the applications are modules here.
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    (directory,) = runs.iterdir()
    outcome = json.loads((directory / "outcomes" / "migration.json").read_text())
    assert outcome["verdict"] == "PASS", outcome["reasons"]
    facts: dict[str, Any] = outcome["facts"]
    return facts
