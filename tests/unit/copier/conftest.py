"""Copying between clusters in memory, by a clock that goes as fast as there is something to do."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from mirror.copier import task
from mirror.kafka.channel import Channel
from tests.unit.copier.clusters_in_memory import MemoryCluster
from tests.unit.copier.connected_in_memory import connected_with
from tests.unit.copier.copying_in_memory import PAID, Copying
from tests.unit.copier.simulated import World
from tests.worker_process import forget_all


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The time that the copy goes by; in the end every connection is closed."""
    made = World()
    made.install(monkeypatch)
    forget_all()
    # How long what has failed is left alone is shortened by chance.
    chance = random.getstate()
    random.seed(1)
    yield made
    random.setstate(chance)
    made.end()
    forget_all()
    assert not made.lines, "somebody has left connections open"


@pytest.fixture
def copying(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Copying]:
    """A flow from east to west with one partition, of which nothing is copied yet."""
    clusters: dict[str, MemoryCluster] = {}
    monkeypatch.setattr(Channel, "_bootstrap", connected_with(clusters))
    made = Copying(world, clusters)
    monkeypatch.setattr(task.EpochChannelListener, "answered", lambda _: made.driver)
    yield made
    made.driver.end()


@pytest.fixture
def two(copying: Copying) -> Copying:
    """A second partition, whose copy has the same leader but other replicas; of both the first record is copied."""
    copying.create("paid", (1, 2))
    copying.west[copying.pairs[PAID]].replicas = (1,)
    for source in copying.pairs:
        copying.source(source).write(b"0")
    copying.epoch(0.5)
    copying.driver.told.clear()
    return copying
