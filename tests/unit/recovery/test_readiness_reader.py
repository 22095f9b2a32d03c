"""Readiness looks at the same groups as the plan of a failover."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.config.resolving import load
from mirror.model.flow import Flow
from mirror.recovery import readiness_reader
from mirror.recovery.group_moves import MovePlan
from mirror.recovery.readiness_facts import Side


@pytest.mark.parametrize("internal", [{"__consumer_offsets": None}, {}])
def test_readiness_asks_of_the_groups_that_read_copies_of_the_flow_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, internal: dict[str, None]
) -> None:
    """It went by the topic filter alone, and said that one could fail over where the failover is refused."""
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = east, west\neast.bootstrap.servers = e:9092\nwest.bootstrap.servers = w:9092\n"
        "east->west.enabled = true\neast->west.topics = orders\n"
        "west->east.enabled = true\nwest->east.topics = orders\n"
    )
    everything = load(file)
    settings = everything.flow(Flow("east", "west"))
    assert settings is not None
    asked: list[Any] = []

    def ask(*_: object, **named: object) -> object:
        asked.append(named.get("back"))
        return MovePlan(settings, ()) if internal else SimpleNamespace(positions=(), source_problem=None)

    monkeypatch.setattr(readiness_reader, "plan_moves", ask)
    monkeypatch.setattr(readiness_reader, "view_groups", ask)
    monkeypatch.setattr(readiness_reader, "untranslated", lambda *_: ((), ()))
    readiness_reader._moves(everything, settings, cast(Side, SimpleNamespace(topics=internal)), asks_source=True)
    assert asked == [everything.back_of(settings.flow)]
