"""Groups anywhere in the log go on, on the target, where they were: no record is read again (OST-06, CKP-05, GOS-02)."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka
import pytest

from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupPosition, NewTopic
from mirror.kafka.log import read_records
from mirror.lab import mm2, processes
from mirror.lab.clusters import Lab
from mirror.lab.processes import ManagedProcess
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.command import FACTORS, address, mirror
from tests.brokers.copying import positions_of
from tests.positions import write_positions

# Where the groups stand, in percent of the log.
PLACES = (1.0, 10.0, 25.0, 50.0, 90.0, 99.9, 100.0)
_COPY_SECONDS = 240.0


@dataclass(frozen=True)
class Readers:
    """Groups that stand at some places of every partition of a topic, all of whose records are alike dense."""

    topic: str
    partitions: int
    records: int
    prefix: str

    def positions(self, place: float) -> dict[TopicPartition, int]:
        at = round(self.records * place / 100)
        return {TopicPartition(self.topic, number): at for number in range(self.partitions)}

    def group(self, place: float) -> str:
        return f"{self.prefix}-at-{place}"

    def stand(self, east: Cluster) -> None:
        """Commit the positions of all groups on the source."""
        for place in PLACES:
            wanted = {partition: GroupPosition(at) for partition, at in self.positions(place).items()}
            assert [each.problem for each in write_positions(east, self.group(place), wanted)] == [None for _ in wanted]

    def read_again(self, west: Cluster, alias: str) -> Mapping[float, float | None]:
        """Return how many records each group would read again, the mean of the partitions; None: it has no position."""
        found: dict[float, float | None] = {}
        for place in PLACES:
            there = positions_of(west, self.group(place))
            behind = [
                at - there[copy].position
                for partition, at in self.positions(place).items()
                if (copy := TopicPartition(f"{alias}.{partition.topic}", partition.partition)) in there
            ]
            found[place] = sum(behind) / len(behind) if len(behind) == self.partitions else None
        return found


def fill(bootstrap: str, readers: Readers) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "compression.type": "lz4"})
    for number in range(readers.records):
        for partition in range(readers.partitions):
            producer.produce(readers.topic, b"%d in %d" % (number, partition), partition=partition)
        if number % 2_000 == 0:
            producer.flush()
    assert producer.flush(60) == 0


def file(path: Path, alias: str, lab: Lab, readers: Readers) -> Path:
    """A flow with MirrorMaker's defaults, but that it looks at groups every second."""
    path.write_text(
        f"clusters = {alias}, west\n{alias}.bootstrap.servers = {address(lab, 'east')}\n"
        f"west.bootstrap.servers = {address(lab, 'west')}\n{alias}->west.enabled = true\n"
        f"{alias}->west.topics = {readers.topic}\n{alias}->west.groups = {readers.prefix}.*\n"
        "emit.checkpoints.interval.seconds = 1\nsync.group.offsets.enabled = true\n"
        f"sync.group.offsets.interval.seconds = 1\nrefresh.groups.interval.seconds = 1\n{FACTORS}"
    )
    return path


def until_copied(west: Cluster, alias: str, readers: Readers, replicator: ManagedProcess) -> None:
    """Wait until the copy is whole: then the place of every record is that of its original."""
    copies = [TopicPartition(f"{alias}.{readers.topic}", number) for number in range(readers.partitions)]

    def ends() -> set[int | None]:
        there = west.topics([copies[0].topic])
        return {west.offsets([each], "latest").get(each) for each in copies} if there else set()

    wait_until(
        ends,
        f"everything to be copied; see {replicator.directory}",
        timeout_seconds=_COPY_SECONDS,
        until=lambda at: at == {readers.records},
    )


@pytest.fixture
def readers(east: Cluster, unique: Callable[[str], str], request: pytest.FixtureRequest) -> Readers:
    partitions, records = request.param
    topic = unique("log")
    (created,) = east.create_topics([NewTopic(topic, partitions, 1)])
    assert created.problem is None
    return Readers(topic, partitions, records, unique("readers"))


def engine(path: Path, directory: Path) -> ManagedProcess:
    command = [sys.executable, "-m", "mirror", "run", str(path)]
    return processes.start(directory, "mirror", command, owner_pid=os.getpid())


@pytest.mark.parametrize("readers", [(2, 4_000)], indirect=True)
@pytest.mark.long
def test_groups_anywhere_in_the_log_read_no_record_again(
    east_west: Lab, east: Cluster, west: Cluster, readers: Readers, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Their positions on the target are written while the engine runs, and what lies there is what they would read."""
    alias = unique("shop").replace("-", "")
    fill(address(east_west, "east"), readers)
    readers.stand(east)
    path = file(tmp_path / "mirror.properties", alias, east_west, readers)
    running = engine(path, tmp_path)
    nothing = dict.fromkeys(PLACES, 0.0)
    try:
        until_copied(west, alias, readers, running)
        wait_until(
            lambda: readers.read_again(west, alias),
            "the groups to stand where they did",
            timeout_seconds=60,
            until=lambda found: found == nothing,
        )
    finally:
        running.terminate(60)
    done = mirror("offsets", str(path), "--json")
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    assert len(listed) == len(PLACES) * readers.partitions
    assert all(each["exact"] and each["upstream"] == each["downstream"] for each in listed)
    client = {"bootstrap.servers": address(east_west, "west")}
    for place in PLACES[:-1]:
        for partition, at in readers.positions(place).items():
            copy = TopicPartition(f"{alias}.{partition.topic}", partition.partition)
            (first,) = read_records(client, copy, at, at + 1)
            assert first.value == b"%d in %d" % (at, partition.partition)


@pytest.mark.soak
@pytest.mark.parametrize("readers", [(8, 250_000)], indirect=True)
def test_groups_anywhere_in_a_long_log_read_no_record_again_where_java_mirrormakers_read_thousands(
    east_west: Lab, east: Cluster, west: Cluster, readers: Readers, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Both copy the same log, one after the other; prints the figures of both."""
    fill(address(east_west, "east"), readers)
    readers.stand(east)
    found = {}
    for name in ("mirror", "Java MirrorMaker"):
        alias = unique("shop").replace("-", "")
        directory = tmp_path / alias
        directory.mkdir()
        path = file(directory / "mm2.properties", alias, east_west, readers)
        running = engine(path, directory) if name == "mirror" else mm2.start(directory, path, owner_pid=os.getpid())
        try:
            until_copied(west, alias, readers, running)
            found[name] = settled(readers, west, alias)
        finally:
            running.terminate(60)
    print(f"\nrecords read again, {readers.records} a partition, mean of {readers.partitions}")  # asked for
    print("".join(f"{f'at {place} %':>12}" for place in PLACES))  # asked for
    for name, figures in found.items():
        row = "".join(f"{'no position' if each is None else f'{each:,.0f}':>12}" for each in figures.values())
        print(f"{row}  {name}")  # asked for
    assert found["mirror"] == dict.fromkeys(PLACES, 0.0)


def settled(readers: Readers, west: Cluster, alias: str) -> Mapping[float, float | None]:
    """Return what the groups would read again once that has not changed for many rounds of their replicator."""
    seen: list[Mapping[float, float | None]] = []

    def is_settled() -> bool:
        seen.append(readers.read_again(west, alias))
        return len(seen) >= 15 and all(each == seen[-1] for each in seen[-15:])

    wait_until(
        is_settled,
        "positions of groups to settle",
        timeout_seconds=180,
        first_pause_seconds=1.0,
        longest_pause_seconds=1.0,
    )
    return seen[-1]
