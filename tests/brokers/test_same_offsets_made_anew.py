"""Making a copy anew, interrupted at each of its writes: nothing is lost, twice, or deleted that others have written."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mirror.kafka.cluster import Cluster
from mirror.lab import processes
from mirror.lab.processes import ManagedProcess
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.copying import write
from tests.brokers.engines import PARTITIONS, Engines
from tests.brokers.same_offsets_engines import (
    SAME,
    await_anew,
    await_copies,
    await_records,
    deleted_and_created_anew,
    gaps_of,
)
from tests.brokers.same_offsets_killed import read

pytestmark = pytest.mark.long


@pytest.mark.parametrize(
    "moment",
    [
        "behind the closing",
        "before the deletion",
        "behind the deletion",
        "created automatically",
        "behind the creation",
    ],
)
def test_an_engine_that_is_killed_while_it_makes_a_copy_anew_leaves_the_rest_to_the_next_one(
    moment: str, engines: Engines, east: Cluster, west: Cluster
) -> None:
    """What was created automatically is what a client of a target with auto.create.topics.enable leaves: a partition."""
    former = recreated(engines, east, west)
    engines.running["second"] = started(engines, moment)
    code = wait_until(engines.running["second"].return_code, f"the kill {moment}", timeout_seconds=120)
    assert code == -9
    engines.running["third"] = engines.start()
    await_anew(engines, west, engines.copies, former)
    for copy in engines.copies:
        await_records(engines, copy, 7)
        source = TopicPartition(engines.topic, copy.partition)
        assert read(engines.target, copy, "read_uncommitted") == read(engines.source, source, "read_uncommitted")
    assert gaps_of(engines) == {(number, 0, 10, "recreated") for number in range(PARTITIONS)}
    configs = west.topic_configs([engines.copies[0].topic])[engines.copies[0].topic]
    assert [each.value for each in configs if each.name == "max.message.bytes"] != ["0"]


def test_what_an_application_writes_to_the_copy_just_before_it_is_deleted_is_refused_not_lost(
    engines: Engines, east: Cluster, west: Cluster
) -> None:
    former = recreated(engines, east, west)
    engines.running["second"] = started(engines, "a write before the deletion")
    await_anew(engines, west, engines.copies, former)
    said = "the application was told"
    wait_until(
        lambda: engines.running["second"].log_tail(400),
        "what became of the write",
        timeout_seconds=60,
        until=lambda lines: said in str(lines),
    )
    assert f"{said}: None" not in str(engines.running["second"].log_tail(400)), "it was taken, and deleted"


def recreated(engines: Engines, east: Cluster, west: Cluster) -> str:
    """Have a topic copied, its engine killed, and the topic deleted and created anew; return the copy's id."""
    engines.settings = f"{SAME}mirror.offsets.recreated = make-anew\n"
    engines.send(PARTITIONS * 10)
    engines.running["first"] = engines.start()
    await_copies(engines)
    engines.running["first"].kill()
    copy = engines.copies[0].topic
    former = west.topics([copy])[copy].topic_id
    deleted_and_created_anew(east, engines.topic, PARTITIONS)
    for number in range(PARTITIONS):
        write(engines.source, TopicPartition(engines.topic, number), range(7))
    return former


def started(engines: Engines, moment: str) -> ManagedProcess:
    """Start an engine to which something happens at a moment."""
    told = [moment, engines.copies[0].topic, engines.target["bootstrap.servers"], "run", str(engines.file)]
    argv = [sys.executable, "-m", "tests.brokers.making_anew_program", *told]
    root = {"PYTHONPATH": str(Path(__file__).parents[2])}
    return processes.start(engines.directory, "interrupted", argv, env=root, owner_pid=os.getpid())
