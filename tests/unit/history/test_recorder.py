"""What is recorded of a flow while clusters come and go, whoever copies it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mirror.config.resolving import load
from mirror.config.settings import MirrorSettings
from mirror.control.flow_status import FlowStatus
from mirror.history import recorder as recording
from mirror.history.copy_observer import estimated_positions
from mirror.history.kept import Bounds
from mirror.history.recorder import AnyObserver, FlowNews, FlowRecorder
from mirror.history.samples import Sample
from mirror.history.store import HistoryWriter
from mirror.kafka.answers import PartitionAnswers
from mirror.kafka.channel import EARLIEST
from mirror.kafka.problems import ConnectionFailed
from mirror.model.mm2_trace import Pair
from mirror.model.partition import TopicPartition
from tests.unit.history.builders import NOW_MS, partition, status

ORDERS = TopicPartition("orders", 0)


class Source:
    """A source cluster that answers, or does not."""

    def __init__(self) -> None:
        self.ends: dict[TopicPartition, int] | None = {ORDERS: 150}
        self.retention: dict[str, str | None] = {"retention.ms": "3600000"}
        self.opened = 0

    def channel(self, *_: Any, **__: Any) -> Source:
        self.opened += 1
        return self

    def find_offsets(self, _: Any, at: int) -> PartitionAnswers[int]:
        if self.ends is None:
            raise ConnectionFailed("east: refused")
        return PartitionAnswers(dict.fromkeys(self.ends, 30) if at == EARLIEST else self.ends)

    def close(self) -> None:
        pass


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    made = Source()
    monkeypatch.setattr(recording, "Channel", made.channel)
    monkeypatch.setattr(recording, "topic_settings", lambda *_: {"orders": made.retention})
    return made


@pytest.fixture
def settings(tmp_path: Path) -> MirrorSettings:
    file = tmp_path / "mirror.properties"
    file.write_text(
        "clusters = east, west\neast.bootstrap.servers = east:9092\nwest.bootstrap.servers = west:9092\n"
        "east->west.enabled = true\n"
    )
    return load(file)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[Sample]:
    found: list[Sample] = []

    def take(_: HistoryWriter, sample: Sample) -> tuple[str, ...]:
        found.append(sample)
        return ()

    monkeypatch.setattr(HistoryWriter, "take", take)
    return found


@pytest.fixture
def recorder(settings: MirrorSettings, tmp_path: Path) -> FlowRecorder:
    return FlowRecorder(settings.clusters["east"], HistoryWriter(tmp_path, Bounds()), 10.0)


def test_samples_are_as_far_apart_as_asked_for(recorder: FlowRecorder, source: Source, taken: list[Sample]) -> None:
    for seconds in range(0, 60, 5):
        recorder.take(status(partition()), NOW_MS + 1000 * seconds)
    assert [(each.at_ms - NOW_MS) // 1000 for each in taken] == [0, 10, 20, 30, 40, 50]


def test_while_the_target_is_away_positions_are_carried_and_the_source_is_asked_where_it_ends(
    recorder: FlowRecorder, source: Source, taken: list[Sample]
) -> None:
    recorder.take(status(partition(position=100, end=110)), NOW_MS)
    recorder.take(status(state="FAILED", reasons=("west: refused",)), NOW_MS + 10_000)
    source.ends = None
    recorder.take(status(state="FAILED", reasons=("west: refused",)), NOW_MS + 20_000)
    recorder.take(status(partition(position=160, end=160)), NOW_MS + 30_000)
    told = [(each.is_carried, each.status.partitions[0]) for each in taken]
    assert [(is_carried, one.upstream_next, one.source_end) for is_carried, one in told] == [
        (False, 100, 110), (True, 100, 150), (True, 100, None), (False, 160, 160)
    ]  # fmt: skip
    assert [(one.lag_records, one.lag_seconds) for _, one in told[1:3]] == [(50, None), (None, None)]


def test_a_flow_that_was_never_seen_has_nothing_to_carry(
    recorder: FlowRecorder, source: Source, taken: list[Sample]
) -> None:
    recorder.take(status(state="FAILED", reasons=("west: refused",)), NOW_MS)
    assert [(each.is_carried, each.status.partitions) for each in taken] == [(False, ())]
    assert source.opened == 0


def test_what_the_source_keeps_is_asked_for_every_five_minutes_and_again_if_it_did_not_tell(
    recorder: FlowRecorder, source: Source, taken: list[Sample]
) -> None:
    ends, source.ends = source.ends, None
    recorder.take(status(partition()), NOW_MS)
    source.ends = ends
    for seconds in range(10, 640, 10):
        recorder.take(status(partition()), NOW_MS + 1000 * seconds)
    told = [((each.at_ms - NOW_MS) // 1000, each.logs[ORDERS].start) for each in taken if each.logs]
    assert told == [(10, 30), (310, 30), (610, 30)]


@pytest.mark.parametrize(
    ("recorded", "sync", "copy_end", "source_end", "position"),
    [
        (None, (40, 10), 15, 100, 45),  # five records behind the sync
        (44, (40, 10), 13, 100, 44),  # the copy does not tell more than is recorded
        (44, None, 15, 100, 44),  # no syncs
        (None, (40, 10), None, 100, 0),  # no copy is to be seen
        (None, (40, 10), 10, 100, 0),  # the copy ends before what the sync speaks of
        (None, (40, 10), 99, 60, 60),  # others write there too: never beyond the source
        (44, (40, 10), 15, None, 45),  # the source does not tell
    ],
)
def test_a_position_is_what_is_recorded_or_what_sync_and_copy_say_together(
    recorded: int | None, sync: tuple[int, int] | None, copy_end: int | None, source_end: int | None, position: int
) -> None:
    def of(value: Any) -> dict[TopicPartition, Any]:
        return {} if value is None else {ORDERS: value}

    found = estimated_positions(of(recorded), of(sync and Pair(*sync)), of(copy_end), of(source_end))
    assert found == {ORDERS: position}


@pytest.mark.parametrize(
    ("own", "other", "expected"),
    [
        (status(partition(position=5)), status(partition(position=9)), "own"),
        (status(state="STOPPED"), status(partition(position=9)), "other"),
        (status(partition(position=9), state="STOPPED"), status(partition(position=7)), "own"),
        (status(partition(position=7), state="STOPPED"), status(partition(position=9)), "other"),
        (status(state="STOPPED"), status(state="STOPPED"), "own"),
        (status(state="STOPPED"), status(state="FAILED"), "other"),
        (status(state="FAILED"), status(partition()), "own"),
    ],
)
def test_of_a_flow_that_no_engine_of_this_program_runs_the_replicator_that_is_further_tells(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch, own: FlowStatus, other: FlowStatus, expected: str
) -> None:
    monkeypatch.setattr(recording.FlowObserver, "look", lambda _: own)
    monkeypatch.setattr(recording.CopyObserver, "look", lambda _: other)
    (flow,) = settings.enabled_flows
    assert AnyObserver(settings, flow).look() is {"own": own, "other": other}[expected]


def test_who_records_a_cluster_that_does_not_answer_is_told_once_and_when_it_does_again() -> None:
    """Seventeen samples of 0 rows, and not a word of why, was all that was said of a dead cluster."""
    news = FlowNews()
    away = status(state="FAILED", reasons=("west: refused",))
    assert news.of(status(partition())) is None
    assert news.of(away) == "cannot be seen: west: refused; positions known before are carried on"
    assert news.of(away) is None
    other = status(state="FAILED", reasons=("west: timed out",))
    assert news.of(other) is None
    assert news.of(status(partition())) == "is seen again"
    assert news.of(status(partition())) is None


def test_a_flow_that_was_not_seen_yet_has_nothing_that_is_carried_on() -> None:
    assert FlowNews().of(status(state="FAILED", reasons=("west: refused",))) == "cannot be seen: west: refused"
