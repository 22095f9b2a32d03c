"""What was compared with a source, and of which partitions nothing could be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from mirror.kafka.channel import Channel
from mirror.kafka.problems import LeaderUnknown
from mirror.model.failover import Phase
from mirror.model.flow_state import FlowState
from mirror.model.leader_epochs import EpochEnd
from mirror.model.position import Position
from mirror.model.verdict import Verdict
from mirror.recovery.failback import steps_home
from mirror.recovery.rewritten import Rewritten, find_rewritten
from tests.unit.recovery.world import ENTRY, ORDERS, THERE, StandInEnds, World, move_home

COPIED = Position(10, 10, 0, complete=True, epochs=(EpochEnd(3, 10),))


@dataclass
class Source:
    """A source whose leaders tell of epochs, or refuse to; where its logs begin it does not tell."""

    epoch_ends: Mapping[Any, EpochEnd | None] = field(default_factory=dict)

    def learn_leaders(self, _: object) -> None:
        """As `Channel`."""

    def topic_id(self, _: str) -> str:
        return ""

    def find_epoch_ends(
        self, wanted: Mapping[Any, int]
    ) -> tuple[Mapping[Any, EpochEnd | None], dict[Any, LeaderUnknown]]:
        return self.epoch_ends, {each: LeaderUnknown("no epochs") for each in wanted if each not in self.epoch_ends}

    def find_offsets(self, wanted: list[Any], _: int) -> tuple[dict[Any, int], dict[Any, LeaderUnknown]]:
        return {}, {each: LeaderUnknown("no start") for each in wanted}


def rewritten(source: Source) -> Rewritten:
    channel = cast(Channel, source)
    return find_rewritten(THERE, FlowState(), {ORDERS: COPIED}, channel, channel)


def test_what_neither_leader_epochs_nor_records_tell_is_not_known() -> None:
    found = rewritten(Source())
    assert (dict(found.differences), found.compared) == ({}, 0)
    assert found.untold() == ["orders-0: no start; of its leader epochs: no epochs"]


def test_leader_epochs_alone_are_enough() -> None:
    found = rewritten(Source({ORDERS: EpochEnd(3, 10)}))
    assert (dict(found.differences), dict(found.unknown), found.compared) == ({}, {}, 0)


@pytest.mark.parametrize(
    ("compared", "said"),
    [(2, "the last records that were copied are there, compared in 2 partitions"), (0, "no records were compared")],
)
def test_records_are_said_to_be_there_only_where_they_were_compared(compared: int, said: str, tmp_path: Path) -> None:
    world = World(rewritten=Rewritten(compared=compared), record={"ours": replace(ENTRY, phase=Phase.DONE)})
    steps = steps_home(move_home(world, tmp_path), StandInEnds(world, THERE.flow))
    returned = next(each for each in steps if each.name == "returned").act({})
    assert returned.verdict is Verdict.PASS
    assert said in returned.detail
    assert ("are there" in returned.detail) is bool(compared)
