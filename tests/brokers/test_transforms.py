"""Records that are changed, dropped and sent elsewhere on their way: each once, and known by its offset all the same."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from mirror.copier.work import Handover
from mirror.kafka.batch import Record
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import GroupPosition, NewTopic
from mirror.kafka.log import read_records
from mirror.lab import processes
from mirror.lab.clusters import Lab
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.transforms.chain import Chain, ChainedTransform
from mirror.model.transforms.python_function import PythonFunction
from mirror.model.translation import Exact
from mirror.waiting import wait_until
from tests.brokers.command import address, in_process, status_of, write
from tests.brokers.copying import NewCopying
from tests.brokers.copying import write as write_numbers
from tests.positions import write_positions
from tests.spark.small import small_spark

Unique = Callable[[str], str]

CONNECT = "org.apache.kafka.connect.transforms."
FLOW = "east->west."
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def functions_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions of one's own are in PYTHONPATH, for the driver and for Spark's workers."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def chain() -> str:
    """Drop what is marked, stamp the rest, shout it, and take the source's alias off the name of the topic."""
    return "\n".join(
        (
            "transforms = drop, stamp, shout, home",
            f"{FLOW}transforms.drop.type = {CONNECT}Filter",
            f"{FLOW}transforms.drop.predicate = marked",
            f"{FLOW}transforms.stamp.type = {CONNECT}InsertHeader",
            f"{FLOW}transforms.stamp.header = from",
            f"{FLOW}transforms.stamp.value.literal = east",
            f"{FLOW}transforms.shout.type = python:tests.transform_functions:shout",
            f"{FLOW}transforms.home.type = {CONNECT}RegexRouter",
            rf"{FLOW}transforms.home.regex = east\\.(.*)",
            f"{FLOW}transforms.home.replacement = $1",
            "predicates = marked",
            f"{FLOW}predicates.marked.type = {CONNECT}predicates.HasHeaderKey",
            f"{FLOW}predicates.marked.name = marked",
            "",
        )
    )


def changed(record: Record) -> tuple[Any, ...]:
    """What the chain makes of a record: timestamp, key, value, headers."""
    headers = (*record.headers, ("from", b"east"), ("by", b"shout"))
    return record.timestamp + 1, (record.key or b"") + b"!", (record.value or b"").upper(), headers


def log_of(client: Any, cluster: Cluster, partition: TopicPartition) -> list[Record]:
    end = cluster.offsets([partition], "latest")[partition]
    return list(read_records(client, partition, 0, end))


@pytest.mark.soak
def test_a_changed_copy_is_whole_after_kill_9_and_groups_go_on_at_the_right_record(
    east_west: Lab,
    east: Cluster,
    west: Cluster,
    settings_of: Callable[[str], Any],
    unique: Unique,
    tmp_path: Path,
) -> None:
    """Every fifth record is dropped; the engine is killed under load; ``mirror verify`` compares what should be there."""
    topic, group = unique("changed"), unique("readers")
    east.create_topics([NewTopic(topic, 2, 1)])
    west.create_topics([NewTopic(topic, 2, 1)])
    more = f"{FLOW}enabled = true\n{FLOW}topics = {topic}\n{FLOW}groups = {group}\nmirror.epoch.seconds = 2\n"
    file = write(tmp_path / "mirror.properties", address(east_west, "east"), address(east_west, "west"), more + chain())
    producer = Producer({"bootstrap.servers": address(east_west, "east"), "linger.ms": 5, "compression.type": "zstd"})

    def send(first: int, count: int) -> None:
        for number in range(first, first + count):
            headers: Any = [("marked", b"")] if number // 2 % 5 == 4 else [("n", b"%d" % number)]
            producer.produce(topic, b"value %d" % number, b"%d" % number, number % 2, headers=headers)
            if number % 500 == 0:
                producer.flush()
        producer.flush()

    def upstream() -> int:
        (flow,) = status_of(file)
        return sum(each["upstream_next"] for each in flow["partitions"] if each["topic"] == topic)

    for life in range(2):
        engine = processes.start(
            tmp_path, f"engine-{life}", [sys.executable, "-m", "mirror", "run", str(file)], owner_pid=os.getpid()
        )
        send(10_000 * life, 5_000)
        wait_until(upstream, "the engine to copy", timeout_seconds=90, until=lambda seen, was=10_000 * life: seen > was)
        send(10_000 * life + 5_000, 5_000)
        if life == 0:
            engine.kill()
    wait_until(upstream, "everything to be copied", timeout_seconds=60, until=lambda seen: seen == 20_000)
    assert engine.terminate(60)
    assert engine.return_code() == 0, engine.log_tail()
    clients = {alias: settings_of(alias).client for alias in ("east", "west")}
    kept: dict[TopicPartition, list[Record]] = {}
    places: dict[TopicPartition, list[int]] = {}
    for partition in (TopicPartition(topic, 0), TopicPartition(topic, 1)):
        originals = log_of(clients["east"], east, partition)
        kept[partition] = [each for each in originals if each.headers != (("marked", b""),)]
        assert len(kept[partition]) == len(originals) * 4 / 5
        copies = log_of(clients["west"], west, partition)
        assert [tuple(each[1:5]) for each in copies] == [changed(each) for each in kept[partition]]
        # One place is that of the marker that fenced the killed engine.
        places[partition] = [each.offset for each in copies]
        # MirrorMaker creates the topic that is no longer written to, and so does this.
        assert log_of(clients["west"], west, TopicPartition(f"east.{topic}", partition.partition)) == []
    small_spark(tmp_path)
    verified = in_process("verify", str(file), "--json")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert json.loads(verified.stdout)["verdict"] == "PASS"
    # A position on a record, and one on a dropped record: its reader goes on with the next that is there.
    for position in (1_000, 2_004, 9_999):
        partition = TopicPartition(topic, position % 2)
        write_positions(east, group, {partition: GroupPosition(position)})
        (found,) = [
            each
            for each in json.loads(in_process("offsets", str(file), "--group", group, "--json").stdout)
            if each["partition"] == partition.partition
        ]
        following = sum(each.offset < position for each in kept[partition])
        expected = (*places[partition], places[partition][-1] + 1)[following]
        assert (found["topic"], found["downstream"], found["exact"]) == (topic, expected, True)


def own(name: str, *, skips_errors: bool = False) -> Chain:
    return Chain((ChainedTransform("mine", PythonFunction(f"tests.transform_functions:{name}")),), skips_errors)


def test_a_function_that_fails_stops_its_partition_with_its_place_and_no_other(
    new_copying: NewCopying, new_process: Callable[[], None]
) -> None:
    """With ``errors.tolerance = all`` the record is left out, and is a gap, also when it was copied past in a crash."""
    copying = new_copying(partitions=2)
    good, bad = copying.pairs
    for source in copying.pairs:
        producer = Producer({**copying.flow.source_client, "linger.ms": 50})
        for number in range(10):
            value = b"poison" if source == bad and number == 3 else b"value %d" % number
            producer.produce(source.topic, value, partition=source.partition)
        producer.flush()
    copying.transforms = own("fail_on_poison")
    results = copying.epoch(1.0)
    assert (results[good].stopped, results[good].records) == (None, 10)
    assert f"cannot read b'poison', at upstream offset 3 of {bad}" in str(results[bad].stopped)
    stopped = copying.handovers[bad]
    assert (stopped.position.upstream, stopped.clean, stopped.is_recorded) == (3, True, True)
    copying.transforms = own("fail_on_poison", skips_errors=True)
    copying.stopped.clear()
    copying.until_caught_up()

    def holds() -> bool:
        gaps = copying.state().gaps.values()
        known = copying.state().offset_map(bad)
        assert known is not None
        # Found once more when the position goes back, as it was when the first find was not recorded.
        assert {(gap.source, gap.start, gap.end) for gap in gaps} == {(bad, 3, 4)}
        assert [known.translate(each) for each in (2, 3, 4, 10)] == [Exact(2), Exact(3), Exact(3), Exact(9)]
        return [each.value for each in copying.copies(bad)] == [b"value %d" % each for each in range(10) if each != 3]

    assert holds()
    copying.handovers[bad] = replace(stopped, clean=False)
    new_process()
    assert copying.epoch()[bad].skipped_by_match == 6
    copying.until_caught_up()
    assert holds()


def test_a_changed_tail_is_found_on_the_target_and_not_written_again(
    new_copying: NewCopying, new_process: Callable[[], None]
) -> None:
    """Records that were acknowledged and not recorded: compared as they were sent."""
    copying = new_copying()
    (source,) = copying.pairs
    copying.transforms = Chain((*own("drop_odd").stages, *own("shout").stages))
    write_numbers(copying.flow.source_client, source, range(100), compression_type="lz4")
    copying.until_caught_up()
    recorded = replace(copying.handovers[source], clean=False)
    write_numbers(copying.flow.source_client, source, range(100, 301), compression_type="gzip", linger_ms=100)
    copying.until_caught_up()
    copying.handovers[source] = recorded
    new_process()
    assert copying.epoch(1.0)[source].skipped_by_match == 101
    write_numbers(copying.flow.source_client, source, range(301, 310))
    copying.until_caught_up()
    kept = [each for each in copying.originals(source) if each.offset % 2 == 0]
    copies = copying.copies(source)
    assert [each.value for each in copies] == [(each.value or b"").upper() for each in kept]
    assert {each.headers for each in copies} == {(("by", b"shout"),)}
    known = copying.state().offset_map(source)
    assert known is not None
    assert [known.translate(each.offset) for each in kept] == [Exact(each.offset) for each in copies]
    assert known.upstream_next == 310


def test_transforms_set_otherwise_while_a_tail_is_open_stop_the_partition(
    new_copying: NewCopying, new_process: Callable[[], None]
) -> None:
    copying = new_copying()
    (source,) = copying.pairs
    write_numbers(copying.flow.source_client, source, range(5))
    copying.transforms = own("shout")
    copying.until_caught_up()
    copying.handovers[source] = Handover(Position(0, 0, 0, True), (), clean=False)
    copying.transforms = own("drop_odd")
    new_process()
    assert "run it once as it was set before" in str(copying.epoch()[source].stopped)
