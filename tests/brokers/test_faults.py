"""Whatever is killed or frozen, and whenever: the copy is the source, every record once and in order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tqdm import tqdm

from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.lab import clusters
from tests.brokers.faults import PARTITIONS, TOPIC, Bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Two clusters of its own: they are killed."""
    lab = clusters.up(tmp_path / "lab", ["east", "west"], owner_pid=os.getpid())
    bench = Bench(tmp_path, lab)
    with Cluster.connect(ClusterSettings("east", bench.client("east"))) as east:
        (created,) = east.create_topics([NewTopic(TOPIC, PARTITIONS, 1, {})])
        assert created.problem is None
    bench.write_properties()
    yield bench
    clusters.down(tmp_path / "lab")


@pytest.mark.long
@pytest.mark.parametrize(
    "faults",
    [
        pytest.param(3, id="three"),
        pytest.param(7, id="each kind once", marks=pytest.mark.soak),
    ],
)
def test_a_few_faults(bench: Bench, faults: int) -> None:
    bench.run(faults, seed=1)
    assert bench.differences() == [], bench.happened


@pytest.mark.soak
def test_a_hundred_faults(bench: Bench) -> None:
    """``MIRROR_SOAK_FAULTS`` and ``MIRROR_SOAK_SEED`` set how many and which."""
    count, seed = int(os.environ.get("MIRROR_SOAK_FAULTS", "100")), int(os.environ.get("MIRROR_SOAK_SEED", "1"))
    with tqdm(total=count, unit="fault") as bar:

        def show(kind: str) -> None:
            bar.set_postfix_str(kind)
            bar.update()

        bench.run(count, seed, show)
    assert bench.differences() == [], bench.happened
