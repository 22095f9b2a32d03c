"""What is not confirmed by whoever leads the flow has not been done, and what stays open is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirror.config.resolving import load
from mirror.engine.lease import LEASE_SHARE
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.pause import Pauses, PauseWish
from mirror.recovery import engine_pausing
from mirror.recovery.engine_pausing import EnginePausing
from mirror.recovery.flow_ends import Cut
from mirror.recovery.pause import Paused, PausedPosition, Resumed
from mirror.waiting import WaitTimeout

FLOW = Flow("east", "west")
WISH = PauseWish("w", None, True, "mirror failover", 5, is_cut=True)
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
        asked.append((flow.flow, named["awaits_open_ends"], named["is_cut"]))
        return found

    monkeypatch.setattr(engine_pausing, "pause", pause)
    with pytest.raises(WaitTimeout, match="nobody confirms that east->west is paused: the engine has not taken it in"):
        pausing.pause(FLOW)
    position = PausedPosition(ORDERS, 5, ORDERS, 5, open_end="it was killed")
    found = replace(found, confirmed_by="no engine leads the flow", positions=(position,), problem=None)
    confirmed = "east->west is paused: no engine leads the flow"
    assert pausing.pause(FLOW) == Cut(confirmed, {ORDERS: "it was killed"})
    assert asked == [(FLOW, False, True)] * 2
    found = replace(found, positions=(PausedPosition(ORDERS, 5, ORDERS, 5, may_arrive="grant Write"),))
    assert pausing.pause(FLOW) == Cut(confirmed, {}, found.limit), "what may still be appended is told"
    assert "grant Write" in str(found.limit)
    found = replace(found, confirmed_by="engine 7 on host", has_engine=True)
    assert pausing.pause(FLOW).detail == "east->west is paused, confirmed by engine 7 on host"


def test_it_is_waited_for_longer_than_an_engine_that_is_gone_keeps_others_waiting(tmp_path: Path) -> None:
    """With mirror.leader.timeout.seconds = 100 no failover of a flow whose engine had been killed was ever cut."""
    file = tmp_path / "mirror.properties"
    file.write_text(
        "clusters=east,west\neast.bootstrap.servers=e:1\nwest.bootstrap.servers=w:1\neast->west.enabled=true\n"
        "mirror.leader.timeout.seconds = 100\n"
    )
    assert EnginePausing(load(file), awaits_open_ends=False).timeout_seconds >= 100 + 100 * LEASE_SHARE + 60


def test_so_does_a_resumption_of_what_was_cut(pausing: EnginePausing, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = Pauses().with_wish(WISH)
    monkeypatch.setattr(EnginePausing, "_pauses", lambda *_: (pauses, {"orders"}))
    found = Resumed(FLOW, WISH, problem="silence")
    monkeypatch.setattr(engine_pausing, "resume", lambda *_, is_cut, **__: found if is_cut else None)
    with pytest.raises(WaitTimeout, match="silence"):
        pausing.resume(FLOW)
    found = Resumed(FLOW, WISH)
    assert pausing.resume(FLOW) == "east->west will be copied again by the next engine"
    found = Resumed(FLOW, WISH, has_engine=True)
    assert pausing.resume(FLOW) == "east->west is copied again"


def test_a_pause_by_hand_is_named_and_not_ended(pausing: EnginePausing, monkeypatch: pytest.MonkeyPatch) -> None:
    by_hand = Pauses().with_wish(PauseWish("h", "audit", True, "bob", 0))
    for pauses, said in (
        (by_hand, "east->west is not cut; "),
        (by_hand.with_wish(WISH), "east->west will be copied again by the next engine; "),
    ):
        monkeypatch.setattr(EnginePausing, "_pauses", lambda *_, found=pauses: (found, {"orders"}))
        monkeypatch.setattr(engine_pausing, "resume", lambda *_, **__: Resumed(FLOW, WISH))
        assert pausing.resume(FLOW) == (
            f"{said}paused by hand as before: topics that match audit, paused by bob at 1970-01-01T00:00:00Z"
        )


def test_a_flow_that_is_paused_by_hand_alone_is_not_cut_any_more(
    pausing: EnginePausing, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = pausing.settings.enabled_flows[0].flow
    by_hand = Pauses().with_wish(PauseWish("h", None, True, "bob", 0))
    for pauses, is_cut in ((by_hand, False), (by_hand.with_wish(WISH), True), (Pauses(obscure="later"), True)):
        monkeypatch.setattr(EnginePausing, "_pauses", lambda *_, found=pauses: (found, {"orders"}))
        assert (pausing.is_paused(flow), pausing.is_cut(flow)) == (True, is_cut), pauses
