"""A history kept by an engine and, beside it, by `mirror record`: both say what the clusters say; neither has a secret."""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.request
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from mirror.config.resolving import load
from mirror.config.settings import ClusterSettings
from mirror.history.copy_observer import CopyObserver
from mirror.history.reading import read_history
from mirror.kafka.log import LogWriter
from mirror.lab import processes
from mirror.lab.processes import ManagedProcess
from mirror.model.offset_sync import OffsetSync
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.copying import ends_of
from tests.brokers.engines import PARTITIONS, Engines

pytestmark = pytest.mark.brokers


def last_sample(directory: Path) -> dict[int, dict[str, Any]]:
    """The rows of the newest sample that is on disk, by partition."""
    found = pd.concat(pq.ParquetFile(path).read().to_pandas() for path in read_history(directory).partitions)
    newest = found[found["at_ms"] == found["at_ms"].max()]
    return {row["partition"]: row for row in newest.to_dict("records")}


def served(engine: ManagedProcess) -> dict[str, Any]:
    """What the engine's /status says."""
    where = wait_until(
        lambda: re.search(r"status: (http://\S+) serves", engine.log_path.read_text()),
        "its address",
        timeout_seconds=120,
    )
    assert where
    with urllib.request.urlopen(f"{where[1]}/status", timeout=30) as answer:
        return dict(json.load(answer))


def lags(flow: dict[str, Any]) -> list[int | None]:
    return [each["lag_records"] for each in flow["partitions"]]


@pytest.mark.long
def test_an_engine_and_who_looks_from_outside_record_the_same(
    engines: Engines, settings_of: Callable[[str], ClusterSettings], tmp_path: Path
) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    engines.settings = (
        f"mirror.history.directory = {inside}\nmirror.history.interval.seconds = 1\nwest.ssl.key.password = hush-hush\n"
    )
    engine = engines.running["engine"] = engines.start("--status-port", "0")
    engines.send(200)
    engines.await_all()
    wait_until(engines.status, "all", timeout_seconds=120, until=lambda flow: lags(flow) == [0] * PARTITIONS)
    before = served(engine)["history"]["samples"]
    # What it writes first is of after that.
    argv = [sys.executable, "-m", "mirror", "record", str(engines.file), "--directory", str(outside), "--interval", "1"]
    recorder = engines.running["record"] = processes.start(engines.directory, "record", argv, owner_pid=os.getpid())
    wait_until(lambda: list(outside.glob("flows-*.parquet")), "a history", timeout_seconds=120)
    kept = wait_until(
        lambda: served(engine)["history"],
        "a sample",
        timeout_seconds=120,
        until=lambda kept: kept["samples"] > before + 1,
    )
    assert (kept["trouble"], kept["lost_rows"]) == (None, 0)
    assert recorder.terminate(60)
    assert recorder.return_code() == 0
    assert engine.terminate(60)

    sources = [TopicPartition(engines.topic, number) for number in range(PARTITIONS)]
    ends = {source.partition: end for source, end in ends_of(engines.source, sources).items()}
    for history in (inside, outside):
        rows = last_sample(history)
        assert {number: row["source_end"] for number, row in rows.items()} == ends
        assert {number: row["position"] for number, row in rows.items()} == ends
        recorded = read_history(history)
        assert recorded.torn == ()
        assert {int(term) for term in recorded.flows["term"].dropna()} == {1}
        assert not any(b"hush-hush" in path.read_bytes() for path in history.iterdir())

    # Another replicator leaves positions and syncs as this engine does, and no state topic is read for them.
    settings = load(engines.file)
    (flow,) = settings.enabled_flows
    observer = CopyObserver(flow, settings.clusters[flow.flow.source], settings.clusters["west"])
    with closing(observer):
        seen = {each.partition: each.upstream_next for each in observer.look().partitions}
        assert seen == ends
        # What it copies on stands behind the last sync: as many records of the source.
        engines.send(40)
        with closing(LogWriter(flow.clients.offset_syncs_producer, alias="syncs")) as syncs:
            (copied,) = ends_of(engines.target, engines.copies[:1]).values()
            sync = OffsetSync(sources[0], ends[0], copied)
            syncs.append(flow.offset_syncs_topic, 0, [(sync.key_bytes(), sync.value_bytes(), (), 0)])
        with closing(LogWriter(dict(settings_of("west").client), alias="west")) as copier:
            copier.append(engines.copies[0].topic, 0, [(None, b"%d" % number, (), 0) for number in range(6)])
        found = observer.look()
    assert {each.partition: each.lag_records for each in found.partitions} == {
        0: 4,
        **dict.fromkeys(range(1, PARTITIONS), 10),
    }
