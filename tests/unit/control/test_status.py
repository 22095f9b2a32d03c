"""Looking at flows leaves no connection behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.config.settings import MirrorSettings, load
from mirror.control.status import FlowObserver, PartitionStatus, observe, worst_first
from mirror.model.flow import Flow


@pytest.fixture
def settings(tmp_path: Path) -> MirrorSettings:
    file = tmp_path / "mirror.properties"
    file.write_text(
        "clusters = east, west\neast.bootstrap.servers = east:9092\nwest.bootstrap.servers = west:9092\n"
        "east->west.enabled = true\nwest->east.enabled = true\n"
    )
    return load(file)


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> list[FlowObserver]:
    """Every observer that was closed."""
    found: list[FlowObserver] = []

    def close(self: FlowObserver) -> None:
        found.append(self)

    monkeypatch.setattr(FlowObserver, "close", close)
    return found


def test_every_observer_is_closed_also_when_a_look_raises(
    settings: MirrorSettings, closed: list[FlowObserver], monkeypatch: pytest.MonkeyPatch
) -> None:
    def defect(self: FlowObserver) -> None:
        raise ValueError("unknown record in the state topic")

    monkeypatch.setattr(FlowObserver, "look", defect)
    with pytest.raises(ValueError, match="unknown record"), observe(settings) as observers:
        observers[0].look()
    assert len(closed) == 2
    assert set(closed) == set(observers)


def test_only_the_flows_asked_for_are_observed(settings: MirrorSettings, closed: list[FlowObserver]) -> None:
    with observe(settings, {Flow("west", "east")}) as observers:
        assert len(observers) == 1
    assert closed == observers


def test_the_worst_partitions_come_first() -> None:
    def one(partition: int, lag: int | None, gaps: int = 0, stopped: str | None = None) -> PartitionStatus:
        return PartitionStatus("orders", partition, 1, 1, 1, lag, None, gaps=gaps, stopped=stopped)

    fine, late, later = one(0, 0), one(1, 5), one(2, 50)
    silent, holed, stopped = one(3, None), one(4, 0, gaps=2), one(5, 0, stopped="why")
    assert worst_first([fine, late, later, silent, holed, stopped]) == [stopped, holed, silent, later, late, fine]
