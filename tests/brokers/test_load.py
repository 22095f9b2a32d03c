"""Load generators and readers on real brokers: their ledger agrees with the logs, whatever happens to either."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupPosition, NewTopic
from mirror.kafka.log import LogWriter, read_records
from mirror.lab import clusters
from mirror.lab.load import EXIT_NOT_STARTED, EXIT_USAGE
from mirror.model.ledger import COMMITS, READS, SENDS
from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict
from mirror.parts import arrow_schema
from mirror.proof.delivery import GroupCommits, GroupReading, Place, Route, judge_groups, judge_logs
from mirror.proof.equivalence import verify
from mirror.proof.evidence import inspect_parts, read_parts
from mirror.proof.findings import NOTHING_TOLERATED, Anomaly
from mirror.proof.group_positions import read_positions
from mirror.proof.log_reader import LogRange, gaps_of, log_rows, logs_frame, read_logs
from mirror.proof.pairs import PartitionPair
from mirror.proof.schemas import COMMITS_SCHEMA, READS_SCHEMA, SENDS_SCHEMA
from mirror.waiting import wait_until
from tests.brokers.copying import positions_of
from tests.positions import write_positions
from tests.spark.small import small_spark

SECONDS = 60.0


@contextmanager
def running(module: str, ledger: Path, servers: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """An application as a process; killed at the end if the test has not ended it."""
    command = [sys.executable, "-m", f"mirror.lab.{module}", "--bootstrap", servers, "--cluster", "east"]
    command += ["--ledger", str(ledger), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str]) -> int:
    """Ask a process to end, and return its exit code."""
    process.terminate()
    return process.wait(SECONDS)


def rows(directory: Path, columns: tuple = SENDS) -> list[dict[str, object]]:  # type: ignore[type-arg]
    """What is in the ledger by now."""
    if not directory.exists():
        return []
    return ds.dataset(sorted(directory.glob("[!.]*.parquet")), schema=arrow_schema(columns)).to_table().to_pylist()


def count(directory: Path, status: str) -> int:
    return sum(row["status"] == status for row in rows(directory))


def create(cluster: Cluster, **partitions: int) -> None:
    results = cluster.create_topics([NewTopic(topic, number, 1) for topic, number in partitions.items()])
    assert not [result.problem for result in results if result.problem]


def addresses(**partitions: int) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for topic, number in partitions.items() for partition in range(number)]


def log_of(settings: ClusterSettings, cluster: Cluster, partitions: list[TopicPartition]) -> dict[tuple, tuple]:  # type: ignore[type-arg]
    """What the logs hold: (topic, partition, offset) -> (producer, sequence, digest, size, timestamp)."""
    ends = cluster.offsets(partitions, "latest")
    return {
        (row[1], row[2], row[3]): (row[5], row[6], row[7], row[8], row[4])
        for partition in partitions
        for row in log_rows("east", partition, read_records(settings.client, partition, 0, ends[partition]))
    }


def test_ledger_logs_and_readers_agree(
    east: Cluster, settings_of: Callable[[str], ClusterSettings], unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Three producers send 6,000 records to two topics, two consumers read them, and all three accounts are the same."""
    orders, payments = unique("orders"), unique("payments")
    topics = {orders: 3, payments: 2}
    partitions = addresses(**topics)
    create(east, **topics)
    both = ("--topic", orders, "--topic", payments)
    shape = ("--producers", "3", "--records", "6000", "--tombstones", "0.05", "--value-bytes", "200", "--name", "a")
    group = unique("billing")

    with running("readers", tmp_path, east.bootstrap_servers, *both, "--group", group, "--consumers", "2") as reader:
        with running("load", tmp_path, east.bootstrap_servers, *both, *shape) as load:
            assert load.wait(SECONDS) == 0, load.stdout.read() if load.stdout else ""
        wait_until(
            lambda: len(rows(tmp_path / "reads", READS)),
            "all reads",
            timeout_seconds=SECONDS,
            until=lambda n: n >= 6000,
        )
        assert ended(reader) == 0

    sends, reads = inspect_parts(tmp_path / "sends"), inspect_parts(tmp_path / "reads")
    assert (sends.rows, sends.gaps, reads.rows, reads.gaps) == (6000, (), 6000, ())

    log = log_of(settings_of("east"), east, partitions)
    assert log == {
        (row["topic"], row["partition"], row["offset"]): (
            *(row["producer"], row["sequence"], row["digest"], row["size_bytes"], row["timestamp_ms"]),
        )
        for row in rows(tmp_path / "sends")
    }
    assert {place: (*content[:3], content[4]) for place, content in log.items()} == {
        (row["topic"], row["partition"], row["offset"]): (
            *(row["producer"], row["sequence"], row["digest"], row["timestamp_ms"]),
        )
        for row in rows(tmp_path / "reads", READS)
    }
    positions = {partition: each.position for partition, each in positions_of(east, group).items()}
    assert positions == dict(east.offsets(partitions, "latest"))

    # What members write down of their commits is what the cluster knows, the last one included.
    commits = rows(tmp_path / "commits", COMMITS)
    assert inspect_parts(tmp_path / "commits").gaps == ()
    assert {row["group"] for row in commits} == {group}
    newest: dict[TopicPartition, int] = {}
    for row in commits:
        partition = TopicPartition(str(row["topic"]), int(str(row["partition"])))
        newest[partition] = max(newest.get(partition, 0), int(str(row["position"])))
    assert newest == positions

    # A position that somebody else has written counts, and a group without any has none.
    other, nobody = unique("audit"), unique("nobody")
    written = write_positions(east, other, {partitions[0]: GroupPosition(7)})
    assert [each.problem for each in written] == [None]
    place = Place("east", orders)
    readings = [GroupReading(each, (place,)) for each in (group, other, nobody)]
    found, unknown = read_positions(readings, {"east": settings_of("east")})
    known = {(group, "east", partition): at for partition, at in positions.items()}
    assert (found, unknown) == (known | {(other, "east", partitions[0]): 7}, ())
    assert read_positions(readings, {}, frozenset({"east"})) == ({}, ())


@pytest.mark.soak
def test_spark_judges_what_applications_did(
    east: Cluster, settings_of: Callable[[str], ClusterSettings], unique: Callable[[str], str], tmp_path: Path
) -> None:
    """Logs are read by Spark tasks; a copy that lacks one record is told from its source, by ledger and by content."""
    orders = unique("orders")
    copy = unique("east.orders")
    create(east, **{orders: 2, copy: 2})
    shape = ("--topic", orders, "--records", "2000", "--name", "a")
    with running("load", tmp_path, east.bootstrap_servers, *shape) as load:
        assert load.wait(SECONDS) == 0
    reading = ("--topic", orders, "--group", unique("audit"), "--name", "c")
    with running("readers", tmp_path, east.bootstrap_servers, *reading) as reader:
        wait_until(
            lambda: len(rows(tmp_path / "reads", READS)),
            "all reads",
            timeout_seconds=SECONDS,
            until=lambda n: n >= 2000,
        )
        assert ended(reader) == 0

    client = settings_of("east").client
    ends = east.offsets(addresses(**{orders: 2}), "latest")
    writer = LogWriter(client)
    for partition, end in ends.items():
        records = [
            each for each in read_records(client, partition, 0, end) if (partition.partition, each.offset) != (1, 77)
        ]
        writer.append(
            copy, partition.partition, [(each.key, each.value, each.headers, each.timestamp) for each in records]
        )
    writer.close()

    spark = small_spark(tmp_path)
    copied = east.offsets(addresses(**{copy: 2}), "latest")
    pairs = [
        PartitionPair(
            LogRange("east", client, partition, 0, end),
            LogRange("east", client, kept, 0, copied[kept]),
        )
        for (partition, end), kept in zip(ends.items(), copied, strict=True)
    ]
    said = verify(spark, pairs, tmp_path / "verify")
    [wrong] = [pair for pair in said.partitions if pair.verdict is not Verdict.PASS]
    assert wrong.first_difference is not None
    assert (wrong.source, wrong.missing, wrong.first_difference.upstream_offset) == (TopicPartition(orders, 1), 1, 77)

    outcomes = read_logs(spark, [side for pair in pairs for side in (pair.source, pair.target)], tmp_path / "logs")
    own = Place("east", orders)
    sends, reads = inspect_parts(tmp_path / "sends"), inspect_parts(tmp_path / "reads")
    tables = read_parts(spark, sends, SENDS_SCHEMA), logs_frame(spark, outcomes)
    gaps = (*sends.gaps, *reads.gaps, *gaps_of(outcomes))
    whole = judge_logs(*tables, [Route.own(own)], gaps=gaps)
    lossy = judge_logs(*tables, [Route(own, Place("east", copy))], gaps=gaps)
    [group] = {str(row["group"]) for row in rows(tmp_path / "reads", READS)}
    readings = [GroupReading(group, (own,))]
    positions, _ = read_positions(readings, {"east": settings_of("east")})
    read = judge_groups(
        read_parts(spark, reads, READS_SCHEMA),
        *tables,
        readings,
        GroupCommits(positions, read_parts(spark, inspect_parts(tmp_path / "commits"), COMMITS_SCHEMA)),
        tolerated=NOTHING_TOLERATED,
        gaps=gaps,
    )

    assert (whole.verdict, read.verdict) == (Verdict.PASS, Verdict.PASS)
    assert [(each.anomaly, each.count, each.partition) for each in lossy.findings] == [
        (Anomaly.LOST, 1, TopicPartition(copy, 1))
    ]


@pytest.mark.long
def test_a_log_that_cannot_be_read_is_a_gap_and_not_an_end(
    settings_of: Callable[[str], ClusterSettings], unique: Callable[[str], str], tmp_path: Path
) -> None:
    nowhere = LogRange("east", settings_of("east").client, TopicPartition(unique("nowhere"), 0), 0, 10)
    [gap] = gaps_of(read_logs(small_spark(tmp_path), [nowhere], tmp_path))

    assert gap.log == ("east", nowhere.partition)
    assert "was not read to the end" in str(gap)


@pytest.mark.soak
def test_applications_outlive_their_cluster(mortal: clusters.LabCluster, tmp_path: Path) -> None:
    """The only broker is killed under load and comes back: sends of that time are indeterminate, all acked ones are there."""
    ledger = tmp_path / "ledger"
    settings = ClusterSettings("east", {"bootstrap.servers": mortal.bootstrap_servers})
    with Cluster.connect(settings) as admin:
        create(admin, orders=2)
    shape = ("--topic", "orders", "--rate", "500", "--message-timeout-ms", "1500", "--name", "a")
    reading = ("--topic", "orders", "--group", "billing", "--name", "c")
    with (
        running("readers", ledger, mortal.bootstrap_servers, *reading) as reader,
        running("load", ledger, mortal.bootstrap_servers, *shape) as load,
    ):
        wait_until(
            lambda: len(rows(ledger / "reads", READS)), "reads", timeout_seconds=SECONDS, until=lambda n: n > 500
        )
        mortal.kill()
        wait_until(lambda: count(ledger / "sends", "indeterminate"), "time-outs", timeout_seconds=SECONDS)
        before = count(ledger / "sends", "acked")
        mortal.start()
        wait_until(
            lambda: count(ledger / "sends", "acked"),
            "new acks",
            timeout_seconds=SECONDS,
            until=lambda n: n > before + 500,
        )
        assert ended(load) == 0
        acked = {(row["producer"], row["sequence"]) for row in rows(ledger / "sends") if row["status"] == "acked"}
        wait_until(
            lambda: acked - {(row["producer"], row["sequence"]) for row in rows(ledger / "reads", READS)},
            "everything acked to be read",
            timeout_seconds=SECONDS,
            until=lambda unread: not unread,
        )
        assert ended(reader) == 0

    with Cluster.connect(settings) as admin:
        log = log_of(settings, admin, addresses(orders=2))
    assert acked <= {(content[0], content[1]) for content in log.values()}
    assert (inspect_parts(ledger / "sends").gaps, inspect_parts(ledger / "reads").gaps) == ((), ())


def test_applications_end_soon_also_while_their_cluster_is_dead(mortal: clusters.LabCluster, tmp_path: Path) -> None:
    """What is in flight when the generator is told to end is never told to have failed, and both ledgers are closed.

    It sends at full speed, so that mostly something is in flight then: that is indeterminate.
    """
    ledger = tmp_path / "ledger"
    with Cluster.connect(ClusterSettings("east", {"bootstrap.servers": mortal.bootstrap_servers})) as admin:
        create(admin, orders=2)
    shape = (
        *("--topic", "orders", "--rate", "0", "--message-timeout-ms", "60000"),
        *("--flush-seconds", "1", "--name", "a"),
    )
    reading = ("--topic", "orders", "--group", "billing", "--name", "c")
    with (
        running("readers", ledger, mortal.bootstrap_servers, *reading) as reader,
        running("load", ledger, mortal.bootstrap_servers, *shape) as load,
    ):
        wait_until(
            lambda: len(rows(ledger / "reads", READS)), "reads", timeout_seconds=SECONDS, until=lambda n: n > 100
        )
        mortal.kill()
        assert (ended(load), ended(reader)) == (0, 0)
    assert count(ledger / "sends", "failed") == 0
    assert (inspect_parts(ledger / "sends").gaps, inspect_parts(ledger / "reads").gaps) == ((), ())


def test_a_killed_generator_leaves_its_ledger_open(east: Cluster, unique: Callable[[str], str], tmp_path: Path) -> None:
    """At most the last second is not written down; and a successor may not take its name."""
    orders = unique("orders")
    create(east, **{orders: 1})
    shape = ("--topic", orders, "--rate", "1000", "--name", "a")
    with running("load", tmp_path, east.bootstrap_servers, *shape) as load:
        wait_until(lambda: count(tmp_path / "sends", "acked"), "acks", timeout_seconds=SECONDS)
        load.kill()
        load.wait()
    [gap] = inspect_parts(tmp_path / "sends").gaps
    assert "was not closed" in gap.what

    with running("load", tmp_path, east.bootstrap_servers, *shape) as successor:
        output, _ = successor.communicate(timeout=SECONDS)
    assert successor.returncode == EXIT_USAGE
    assert "another name" in output


@pytest.mark.parametrize("module", ["load", "readers"])
def test_a_wrong_setting_is_refused_in_a_sentence(module: str, tmp_path: Path) -> None:
    arguments = ("--topic", "orders", "--client-property", "no.such.setting=1")
    arguments += ("--group", "billing") if module == "readers" else ()
    with running(module, tmp_path, "localhost:1", *arguments) as process:
        output, _ = process.communicate(timeout=SECONDS)

    assert process.returncode == EXIT_USAGE
    assert "no.such.setting" in output
    assert "Traceback" not in output


def test_topics_that_do_not_come_about_are_named(east: Cluster, unique: Callable[[str], str], tmp_path: Path) -> None:
    topic = unique("nowhere")
    with running("load", tmp_path, east.bootstrap_servers, "--topic", topic, "--wait-seconds", "0.5") as process:
        output, _ = process.communicate(timeout=SECONDS)

    assert process.returncode == EXIT_NOT_STARTED
    assert topic in output
    assert "Traceback" not in output
