"""What is not confirmed by whoever leads the flow has not been done, and what stays open is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirror.config.settings import load
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.pause import PauseWish
from mirror.recovery import engine_pausing
from mirror.recovery.engine_pausing import EnginePausing
from mirror.recovery.pause import Paused, PausedPosition, Resumed
from mirror.waiting import WaitTimeout

FLOW = Flow("east", "west")
WISH = PauseWish("w", None, True, "ann", 5)
ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def pausing(tmp_path: Path) -> EnginePausing:
    file = tmp_path / "mirror.properties"
    file.write_text(
        "clusters=east,west\neast.bootstrap.servers=e:1\nwest.bootstrap.servers=w:1\neast->west.enabled=true"
    )
    return EnginePausing(load(file), awaits_open_ends=False)


def test_a_pause_counts_once_it_is_confirmed(pausing: EnginePausing, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Paused(FLOW, WISH, problem="the engine has not taken it in")
    asked: list[Any] = []

    def pause(_: object, flow: Any, **named: Any) -> Paused:
        asked.append((flow.flow, named["awaits_open_ends"]))
        return found

    monkeypatch.setattr(engine_pausing, "pause", pause)
    with pytest.raises(WaitTimeout, match="nobody confirms that east->west is paused: the engine has not taken it in"):
        pausing.pause(FLOW)
    position = PausedPosition(ORDERS, 5, ORDERS, 5, open_end="it was killed")
    found = replace(found, confirmed_by="no engine leads the flow", positions=(position,), problem=None)
    assert pausing.pause(FLOW).endswith("copies that may reach further than is on record: orders-0: it was killed")
    assert asked == [(FLOW, False)] * 2
    position = PausedPosition(ORDERS, 5, ORDERS, 5, may_arrive="grant Write")
    found = replace(found, positions=(position,))
    assert pausing.pause(FLOW).endswith("would still be appended (orders-0): grant Write")


def test_so_does_a_resumption(pausing: EnginePausing, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Resumed(FLOW, WISH, problem="silence")
    monkeypatch.setattr(engine_pausing, "resume", lambda *_, **__: found)
    with pytest.raises(WaitTimeout, match="silence"):
        pausing.resume(FLOW)
    found = Resumed(FLOW, WISH)
    assert pausing.resume(FLOW) == "east->west will be copied again by the next engine"
    found = Resumed(FLOW, WISH, has_engine=True)
    assert pausing.resume(FLOW) == "east->west is copied again"
