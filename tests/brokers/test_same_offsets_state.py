"""Copies with the source's offsets whose flow has lost its state topic: nothing is twice, or at another offset."""

from __future__ import annotations

from typing import Any

import pytest

from mirror.kafka.cluster import Cluster
from mirror.model.partition import TopicPartition
from mirror.model.state_record import state_topic
from mirror.waiting import wait_until
from tests.brokers.engines import PARTITIONS, Engines
from tests.brokers.same_offsets_engines import SAME, await_copies, await_records
from tests.brokers.same_offsets_killed import read

pytestmark = pytest.mark.long


def test_an_engine_whose_state_topic_is_deleted_while_it_runs_goes_on_at_the_source_s_offsets_and_says_so(
    engines: Engines, west: Cluster
) -> None:
    copied(engines)
    west.delete_topics([state_topic(engines.alias)])
    engines.send(PARTITIONS * 10)
    await_reason(engines, "created anew")
    await_copies(engines)
    assert_same_records(engines)
    engines.running["first"].kill()
    engines.send(PARTITIONS * 10)
    engines.running["first"] = engines.start()
    await_copies(engines)
    assert_same_records(engines)


def test_a_state_topic_that_is_deleted_while_no_engine_runs_stops_the_copies_by_name(
    engines: Engines, west: Cluster
) -> None:
    before = without_state(engines, west)
    engines.running["second"] = engines.start()
    await_reason(engines, "nothing says that they are the source's")
    await_reason(engines, "is not looked up: its partition stops until the copy is deleted")
    assert [read(engines.target, each, "read_uncommitted") for each in engines.copies] == before


def test_a_state_topic_that_is_deleted_while_no_engine_runs_has_copies_translated_where_the_file_says_so(
    engines: Engines, west: Cluster
) -> None:
    """What was copied is found by its contents: nothing is there twice, and it is told that offsets are others now."""
    without_state(engines, west)
    engines.settings += "mirror.offsets.refused = translate\n"
    engines.running["second"] = engines.start()
    for copy in engines.copies:
        await_records(engines, copy, 20)
        source = TopicPartition(engines.topic, copy.partition)
        copied, originals = (
            list(read(client, each, "read_uncommitted").values())
            for client, each in ((engines.target, copy), (engines.source, source))
        )
        assert copied == originals
    await_reason(engines, f"{PARTITIONS} partitions are translated")
    await_reason(engines, "is translated from now on (mirror.offsets.refused), and looked up")


def without_state(engines: Engines, west: Cluster) -> list[dict[int, tuple[Any, ...]]]:
    """Have a topic copied, its engine killed, and its state lost; return the copies, which lack the newest records."""
    copied(engines)
    engines.running["first"].kill()
    west.delete_topics([state_topic(engines.alias)])
    engines.send(PARTITIONS * 10)
    return [read(engines.target, each, "read_uncommitted") for each in engines.copies]


def copied(engines: Engines) -> None:
    engines.settings = SAME
    engines.send(PARTITIONS * 10)
    engines.running["first"] = engines.start()
    await_copies(engines)


def assert_same_records(engines: Engines) -> None:
    for copy in engines.copies:
        source = TopicPartition(engines.topic, copy.partition)
        assert read(engines.target, copy, "read_uncommitted") == read(engines.source, source, "read_uncommitted")


def await_reason(engines: Engines, said: str) -> None:
    wait_until(
        lambda: (found := engines.status())["reasons"] + found["notes"],
        said,
        timeout_seconds=200,
        until=lambda found: any(said in each for each in found),
    )
