"""A flow with the source's offsets that is paused while no engine lives: what fences the dead one takes no offset."""

from __future__ import annotations

import json

import pytest

from mirror.model.partition import TopicPartition
from tests.brokers.command import mirror
from tests.brokers.copying import ends_of
from tests.brokers.engines import PARTITIONS, Engines
from tests.brokers.same_offsets_engines import SAME, await_copies
from tests.brokers.same_offsets_killed import read

pytestmark = pytest.mark.long


def test_a_flow_whose_engine_was_killed_is_paused_and_goes_on_at_the_same_offsets(engines: Engines) -> None:
    engines.settings = SAME
    engines.send(PARTITIONS * 10)
    engines.running["first"] = engines.start()
    await_copies(engines)
    engines.running["first"].kill()
    done = mirror("pause", str(engines.file), "--yes", "--json", timeout_seconds=120.0)
    assert json.loads(done.stdout)["confirmed_by"] is not None, (done.stdout, done.stderr)
    assert list(ends_of(engines.target, engines.copies).values()) == [10] * PARTITIONS
    engines.send(PARTITIONS * 5)
    mirror("resume", str(engines.file), "--yes")
    engines.running["second"] = engines.start()
    await_copies(engines)
    for number, copy in enumerate(engines.copies):
        originals = read(engines.source, TopicPartition(engines.topic, number), "read_uncommitted")
        assert read(engines.target, copy, "read_uncommitted") == originals
