"""Flows that have, had, or are to have the source's offsets, paused while no engine lives, and what fences the dead one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mirror.engine.late_writes import KEEPS_OFFSETS
from mirror.kafka import codes
from mirror.kafka.cluster import Cluster
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.command import mirror
from tests.brokers.copying import ends_of
from tests.brokers.engines import PARTITIONS, Engines
from tests.brokers.same_offsets_engines import SAME, TRANSLATED, await_copies, copied_and_killed
from tests.brokers.same_offsets_killed import read
from tests.brokers.same_offsets_late import late_append

pytestmark = pytest.mark.long


def paused(engines: Engines) -> list[dict[str, Any]]:
    """The positions of the topic's partitions, as a confirmed pause says them."""
    done = mirror("pause", str(engines.file), "--yes", "--json", timeout_seconds=120.0)
    said = json.loads(done.stdout)
    assert said["confirmed_by"] is not None, (done.stdout, done.stderr)
    return [each for each in said["positions"] if each["topic"] == engines.topic]


def test_a_flow_whose_engine_was_killed_goes_on_at_the_same_offsets_behind_a_pause(
    engines: Engines, west: Cluster
) -> None:
    """The marker of the fence took the offset of the next record."""
    engines.settings = SAME
    copied_and_killed(engines, west)
    assert {each["may_arrive"] for each in paused(engines)} == {KEEPS_OFFSETS}
    assert list(ends_of(engines.target, engines.copies).values()) == [10] * PARTITIONS
    engines.send(PARTITIONS * 5)
    mirror("resume", str(engines.file), "--yes")
    engines.running["second"] = engines.start()
    await_copies(engines)
    for number, copy in enumerate(engines.copies):
        originals = read(engines.source, TopicPartition(engines.topic, number), "read_uncommitted")
        assert read(engines.target, copy, "read_uncommitted") == originals


def test_what_a_killed_engine_had_sent_is_refused_where_the_file_translates_by_now(
    engines: Engines, west: Cluster
) -> None:
    engines.settings = SAME
    copied_and_killed(engines, west)
    late = late_append(engines.target, Flow(engines.alias, "west"), west, engines.copies[0], b"10")
    engines.settings = TRANSLATED
    assert {each["may_arrive"] for each in paused(engines)} == {None}
    assert late() == codes.INVALID_PRODUCER_EPOCH


def test_a_copy_that_was_deleted_keeps_nobody_from_pausing_the_flow(engines: Engines, west: Cluster) -> None:
    """Nothing can arrive in it; the engine waited for a leader of it, and every pause for the engine."""
    engines.settings = SAME
    copied_and_killed(engines, west)
    name = engines.copies[0].topic
    west.delete_topics([name])
    wait_until(lambda: name not in west.topics([name]), f"{name} to be gone", timeout_seconds=60)
    engines.settings = f"{TRANSLATED}topics.exclude = {engines.topic}\n"
    engines.running["second"] = engines.start()
    wait_until(lambda: engines.status()["state"], "the engine", timeout_seconds=120, until=lambda at: at == "RUNNING")
    paused(engines)


def test_an_empty_copy_that_was_translated_can_have_the_source_s_offsets_behind_a_pause(engines: Engines) -> None:
    engines.settings = TRANSLATED
    engines.running["first"] = engines.start()
    wait_until(
        lambda: [each for each in engines.status()["partitions"] if each["topic"] == engines.topic],
        "every partition to be begun",
        timeout_seconds=120,
        until=lambda found: len(found) == PARTITIONS,
    )
    engines.running["first"].kill()
    engines.settings = SAME
    paused(engines)
    mirror("resume", str(engines.file), "--yes")
    engines.send(PARTITIONS * 5)
    engines.running["second"] = engines.start()
    await_copies(engines)
