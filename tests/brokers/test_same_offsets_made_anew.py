"""Making a copy anew, interrupted at each of its writes: nothing is lost, twice, or deleted that others have written."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mirror.kafka.channel import EARLIEST
from mirror.kafka.cluster import Cluster
from mirror.lab import processes
from mirror.lab.processes import ManagedProcess
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.copying import delete_records, ends_of, write
from tests.brokers.engines import PARTITIONS, Engines
from tests.brokers.same_offsets_engines import (
    SAME,
    await_anew,
    await_records,
    copied_and_killed,
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
    killed(engines, moment)
    engines.running["third"] = engines.start()
    await_anew(engines, west, engines.copies, former)
    for copy in engines.copies:
        await_records(engines, copy, 7)
        source = TopicPartition(engines.topic, copy.partition)
        assert read(engines.target, copy, "read_uncommitted") == read(engines.source, source, "read_uncommitted")
    assert gaps_of(engines) == {(number, 0, 10, "recreated") for number in range(PARTITIONS)}
    assert not is_closed(west, engines.copies[0].topic)


@pytest.mark.parametrize(
    "moment",
    [
        "behind the deletion",
        "behind the creation",
        "behind the first positions",
        "behind the padding",
        "behind the removal of the padding",
        "behind the first batch",
    ],
)
def test_an_engine_that_is_killed_while_it_begins_the_new_copy_has_every_record_at_its_offset_once(
    moment: str, engines: Engines, east: Cluster, west: Cluster
) -> None:
    """Of a topic whose head is removed, so that the copy is padded first."""
    former = recreated(engines, east, west)
    sources = [TopicPartition(engines.topic, copy.partition) for copy in engines.copies]
    for source in sources:
        delete_records(engines.source, source, 5)
    killed(engines, moment)
    for source in sources:
        write(engines.source, source, range(20, 23))
    engines.running["third"] = engines.start()
    await_anew(engines, west, engines.copies, former)
    for source, copy in zip(sources, engines.copies, strict=True):
        originals = read(engines.source, source, "read_uncommitted")
        # Padding is seen until it is removed.
        wait_until(
            lambda copy=copy: read(engines.target, copy, "read_uncommitted"),
            f"{copy} to have what {source} has",
            timeout_seconds=240,
            until=lambda found, originals=originals: found == originals,
        )
        assert sorted(originals) == [5, 6, 7, 8, 9]
        assert ends_of(engines.target, [copy], EARLIEST) == {copy: 5}
    assert gaps_of(engines) == {(number, 0, 10, "recreated") for number in range(PARTITIONS)}


@pytest.mark.parametrize("by_now", ["stops", "translated", "not chosen"])
def test_a_copy_that_a_killed_engine_has_closed_is_told_and_opened_by_the_next_one_whatever_the_file_says_by_now(
    by_now: str, engines: Engines, east: Cluster, west: Cluster
) -> None:
    """Not by the settings of its topic, which are not kept in step here."""
    recreated(engines, east, west)
    keeps_settings = "sync.topic.configs.enabled = false\n"
    engines.settings += keeps_settings
    killed(engines, "behind the closing")
    copy = engines.copies[0].topic
    assert is_closed(west, copy)
    wait_until(
        lambda: engines.status()["notes"],
        "the note",
        timeout_seconds=60,
        until=lambda notes: any(f"--entity-name {copy} --alter --delete-config max.message" in each for each in notes),
    )

    engines.settings = (
        keeps_settings
        + {
            "stops": SAME,
            "translated": "",
            "not chosen": f"{SAME}mirror.offsets.recreated = make-anew\n{engines.alias}->west.topics.exclude = {engines.topic}\n",
        }[by_now]
    )
    engines.running["third"] = engines.start()
    wait_until(
        lambda: not is_closed(west, copy),
        f"{copy} to be open",
        timeout_seconds=120,
    )
    if by_now == "translated":
        for each in engines.copies:
            await_records(engines, each, 10 + 7)
        assert {kind for *_, kind in gaps_of(engines)} == {"recreated"}, "nothing was refused or parked"


def is_closed(cluster: Cluster, topic: str) -> bool:
    return any(each.name == "max.message.bytes" and each.value == "0" for each in cluster.topic_configs([topic])[topic])


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
    former = copied_and_killed(engines, west)
    deleted_and_created_anew(east, engines.topic, PARTITIONS)
    for number in range(PARTITIONS):
        write(engines.source, TopicPartition(engines.topic, number), range(7))
    return former


def killed(engines: Engines, moment: str) -> None:
    """Have a second engine go on until it is killed at a moment."""
    engines.running["second"] = started(engines, moment)
    assert wait_until(engines.running["second"].return_code, f"the kill {moment}", timeout_seconds=120) == -9


def started(engines: Engines, moment: str) -> ManagedProcess:
    """Start an engine to which something happens at a moment."""
    told = [moment, engines.copies[0].topic, engines.target["bootstrap.servers"], "run", str(engines.file)]
    argv = [sys.executable, "-m", "tests.brokers.making_anew_program", *told]
    root = {"PYTHONPATH": str(Path(__file__).parents[2])}
    return processes.start(engines.directory, "interrupted", argv, env=root, owner_pid=os.getpid())
