"""What `mirror record` keeps of a flow from outside, whoever copies it, and what a disaster would have cost by it."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from mirror.config.resolving import load
from mirror.history.backtest import Course, cost
from mirror.history.reading import read_history
from mirror.history.recorder import AnyObserver
from mirror.lab import processes
from mirror.waiting import wait_until
from tests.interop.world import PATIENCE_SECONDS, World

FLOW, TOPIC = "primary->backup", "test-recorded"


def rows_of(directory: Path) -> pd.DataFrame:
    """The rows of the topic, in the order of time."""
    found = pd.concat(pq.ParquetFile(path).read().to_pandas() for path in read_history(directory).partitions)
    return found[found["topic"] == TOPIC].sort_values(["partition", "at_ms"])


def until_seen(world: World, lag: int) -> None:
    """Wait until who looks from outside finds each partition so many records behind."""
    settings = load(world.file, applies_transforms=False)
    (flow,) = (each for each in settings.enabled_flows if str(each.flow) == FLOW)
    with closing(AnyObserver(settings, flow)) as observer:
        wait_until(
            lambda: {each.partition: each.lag_records for each in observer.look().partitions if each.topic == TOPIC},
            f"{FLOW} to be seen {lag} records behind",
            timeout_seconds=PATIENCE_SECONDS,
            until=lambda seen: seen == {0: lag, 1: lag},
        )


def record(world: World, directory: Path) -> pd.DataFrame:
    """Record the flow by the command for a moment, and return what it adds to a history."""
    before = {each.name for each in directory.glob("*")}
    argv = [sys.executable, "-m", "mirror", "record", str(world.file), "--flow", FLOW]
    argv += ["--directory", str(directory), "--interval", "0.5"]
    recorder = processes.start(directory.parent, f"record-{len(before)}", argv, owner_pid=os.getpid())
    try:
        # The first sample is written at once.
        wait_until(
            lambda: {each.name for each in directory.glob("flows-*.parquet")} - before,
            f"a history; it said {recorder.log_tail()}",
            timeout_seconds=PATIENCE_SECONDS,
        )
        assert recorder.terminate(60), recorder.log_tail()
    finally:
        recorder.kill()
    assert recorder.return_code() == 0, recorder.log_tail()
    return rows_of(directory)


@pytest.mark.interop
def test_the_lag_of_an_outage_and_its_cost_are_recorded_from_outside(world: World, tmp_path: Path) -> None:
    """Nothing is asked of the replicator, and positions that Java last wrote a while ago are no lag (MET-08)."""
    directory = tmp_path / "history"
    world.create(TOPIC, 2)

    def send(first: int) -> None:
        for partition in (0, 1):
            world.send(TOPIC, partition, [b"%d" % number for number in range(first, first + 100)])

    send(0)
    world.until_copied(f"primary.{TOPIC}", [100, 100])
    until_seen(world, lag=0)
    copied = record(world, directory)
    world.stop()
    send(100)
    until_seen(world, lag=100)
    behind = record(world, directory)
    world.start()
    world.until_copied(f"primary.{TOPIC}", [200, 200])
    until_seen(world, lag=0)
    found = record(world, directory)

    outage = behind[behind["at_ms"] > copied["at_ms"].max()]
    healed = found[found["at_ms"] > behind["at_ms"].max()]
    for rows, position, end in ((copied, 100, 100), (outage, 100, 200), (healed, 200, 200)):
        assert set(zip(rows["partition"], rows["position"], rows["source_end"], strict=True)) == {
            (0, position, end),
            (1, position, end),
        }
        assert not rows["carried"].any()
    # A disaster at the last moment of the outage costs what is not copied, back to when the source ended there.
    for _, rows in found.groupby("partition"):
        course = Course(
            rows["at_ms"].to_numpy(dtype=float) / 1000,
            rows["position"].to_numpy(dtype=float),
            rows["source_end"].to_numpy(dtype=float),
        )
        moments = np.array([copied["at_ms"].max(), outage["at_ms"].max(), healed["at_ms"].min()]) / 1000
        records, seconds = cost(course, moments, longest_gap=86_400.0)
        assert records.tolist() == [0, 100, 0]
        assert seconds.tolist() == pytest.approx([0, moments[1] - moments[0], 0])
