"""The stage of a drill: who only looks at a run starts nothing, and what is copied counts once something was written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from mirror.drill.steps import mirroring
from mirror.drill.steps.layout import Layout
from mirror.drill.steps.stage import DrillStage
from mirror.evidence.run_directory import RunDirectory
from mirror.kafka.cluster import Cluster
from mirror.lab import holder, processes
from mirror.model.partition import TopicPartition

ACTIVE, TOPICS = Layout().active, Layout().topics


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunDirectory]:
    made = RunDirectory.create(tmp_path, "drill", started_at=datetime.now(UTC))
    yield made
    holder.release(made.path)


def test_a_step_that_only_reads_starts_no_holder_and_what_is_started_belongs_to_one(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = DrillStage.of(run)
    assert stage.alive() == []
    assert stage.sends().empty
    assert holder.holder_of(run.path) is None
    started: list[Any] = []

    def start(*args: Any, **how: Any) -> Any:
        started.append((args, how))
        return SimpleNamespace(pid=7)

    monkeypatch.setattr(processes, "start", start)
    stage.start("load-east", ["true"])
    ((_, name, _), _), (_, owned) = started
    assert (name, owned["owner_pid"]) == ("holder", 7)


def test_what_is_copied_is_looked_at_once_the_applications_have_written_to_every_topic(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may have been started a moment ago: of logs that are empty all is copied."""
    ends = [TopicPartition(name, 0) for name in TOPICS]
    written: list[str] = []
    looks: list[str] = []

    def sends(_: DrillStage) -> pd.DataFrame:
        looks.append("ledger")
        found = pd.DataFrame({"cluster": ACTIVE, "topic": list(written), "status": "acked"})
        # Each look finds one topic more.
        written.append(TOPICS[len(written) % len(TOPICS)])
        return found

    def offsets(*_: object) -> dict[TopicPartition, int]:
        looks.append("ends")
        return dict.fromkeys(ends, 3)

    cluster = SimpleNamespace(
        topics=lambda _: {name: SimpleNamespace(topic_partitions=[]) for name in TOPICS}, offsets=offsets
    )
    monkeypatch.setattr(DrillStage, "sends", sends)
    monkeypatch.setattr(DrillStage, "settings", SimpleNamespace(clusters={ACTIVE: None}))
    monkeypatch.setattr(Cluster, "connect", lambda _: nullcontext(cluster))
    monkeypatch.setattr(DrillStage, "start_lag_sampler", lambda _: None)
    copied = SimpleNamespace(
        partitions=[SimpleNamespace(topic=each.topic, partition=0, upstream_next=3) for each in ends],
        as_json=lambda: {"partitions": []},
    )
    monkeypatch.setattr(mirroring, "status_of", lambda _: copied)
    mirroring.wait_until_mirrored(DrillStage.of(run))
    assert looks == ["ledger"] * (len(TOPICS) + 1) + ["ends"]
