"""Looking at flows leaves no connection behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.config.settings import MirrorSettings, load
from mirror.control.status import SILENT_AFTER_MS, FlowObserver, judge_state, observe
from mirror.model.flow import Flow
from mirror.model.flow_state import RunReport


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


@pytest.mark.parametrize(
    ("state", "reasons", "age_ms", "judged"),
    [
        ("STARTING", (), 0, "STARTING"),
        ("STARTING", ("the source does not answer",), 0, "DEGRADED"),
        ("STARTING", (), SILENT_AFTER_MS + 1, "STOPPED"),
        ("RUNNING", (), 0, "RUNNING"),
        ("STOPPED", (), 0, "STOPPED"),
    ],
)
def test_a_flow_runs_only_once_an_epoch_has_reported(
    state: str, reasons: tuple[str, ...], age_ms: int, judged: str
) -> None:
    run = RunReport(state, reasons, 1_000_000)
    assert judge_state(run, 1_000_000 + age_ms, ())[0] == judged


def test_before_its_first_run_a_flow_is_said_to_have_had_none() -> None:
    assert judge_state(None, 5, ()) == ("STOPPED", ("this flow has never run",))
