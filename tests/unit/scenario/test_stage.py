"""A run whose applications or replicator end by themselves at the start is over, and says why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from mirror.lab.errors import LabError
from mirror.scenario.declaration import Replicator
from mirror.scenario.folder import RunFolder
from mirror.scenario.stage import ScenarioStage
from mirror.waiting import wait_until
from tests.unit.scenario.builders import SMALL


def test_who_has_ended_before_anything_was_done_to_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = ScenarioStage.of(RunFolder(tmp_path), SMALL, Replicator.MIRROR, 1)
    monkeypatch.setattr(ScenarioStage, "cluster", lambda *_: SimpleNamespace(bootstrap_servers="127.0.0.1:1"))
    stage.require_alive()
    stage.start_load(replace(SMALL.loads[0], client={"no.such.setting": "1"}), "main", 1)
    (load,) = stage._started
    wait_until(load.is_alive, "it to end", timeout_seconds=20, until=lambda alive: not alive)
    with pytest.raises(LabError, match=rf"(?s){load.name} has ended before anything was done to it.*no\.such\.setting"):
        stage.require_alive()
