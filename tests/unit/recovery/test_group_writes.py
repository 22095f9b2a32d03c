"""Carrying out a plan of group moves: saved before, told where it failed, refused where nobody knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mirror.config.settings import ClusterSettings
from mirror.control.group_view import GroupView, TranslatedPosition
from mirror.control.groups import TargetGroups
from mirror.kafka.answers import Found, ItemResult
from mirror.kafka.cluster_model import GroupDescription, GroupPosition
from mirror.model.partition import TopicPartition
from mirror.model.translation import Exact
from mirror.recovery import group_moves
from mirror.recovery.group_moves import MovePlan, apply_moves, plan_moves
from mirror.recovery.group_snapshot import GroupSnapshot
from tests.unit.config.files import flows_of

FLOW = flows_of("A->B")[0]
COPY = TopicPartition("A.orders", 3)
CLUSTERS = {"B": ClusterSettings("B", {})}


@dataclass
class Standby:
    """A target with one idle group at 3, of which something may be wrong; ``done`` says what came when."""

    groups: TargetGroups
    problem: str | None = None
    snapshot: Path | None = None
    done: list[str] = field(default_factory=list)
    cluster_id: str = "id of B"

    def __enter__(self) -> Standby:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def write_positions_of_groups(
        self, wanted: Mapping[str, Mapping[TopicPartition, GroupPosition]], before: Callable[[], None]
    ) -> dict[str, list[ItemResult]]:
        if wanted:
            self.done.append("saved" if self.snapshot and self.snapshot.exists() else "not saved")
        return {group: [ItemResult(str(each), self.problem) for each in found] for group, found in wanted.items()}


class Writer:
    """Takes what is put on record."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def append(self, *_: object) -> int:
        return 0

    def close(self) -> None:
        pass


def idle() -> TargetGroups:
    at = Found({COPY: GroupPosition(3)})
    return TargetGroups(Found({"audit": GroupDescription("Empty", 0)}), Found({"audit": at}), Found({COPY: 20}))


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Callable[[Standby], MovePlan]:
    def plan(standby: Standby) -> MovePlan:
        view = GroupView((TranslatedPosition("audit", *COPY, 5, Exact(5)),), None)
        monkeypatch.setattr(group_moves, "view_groups", lambda *_, **__: view)
        monkeypatch.setattr(group_moves, "read_target_groups", lambda *_: standby.groups)
        monkeypatch.setattr(group_moves, "LogWriter", Writer)
        monkeypatch.setattr(group_moves.Cluster, "connect", lambda *_: standby)
        return plan_moves(FLOW, CLUSTERS, groups=["audit"])

    return plan


def test_what_was_there_is_saved_before_anything_is_written(
    planned: Callable[[Standby], MovePlan], tmp_path: Path
) -> None:
    standby = Standby(idle(), snapshot=tmp_path / "before.json")
    moves = apply_moves(planned(standby), CLUSTERS, snapshot=standby.snapshot)
    assert (standby.done, moves.written, moves.refused) == (["saved"], 1, ())
    assert standby.snapshot is not None
    (kept,) = GroupSnapshot.load(standby.snapshot).positions
    assert (kept.group, kept.partition, kept.before) == ("audit", COPY, GroupPosition(3))


def test_a_position_that_could_not_be_written_is_refused_and_its_group_has_not_moved(
    planned: Callable[[Standby], MovePlan],
) -> None:
    moves = apply_moves(planned(Standby(idle(), problem="COORDINATOR_NOT_AVAILABLE")), CLUSTERS)
    assert [str(each) for each in moves.refused] == [
        "group audit, A.orders-3: it could not be written: COORDINATOR_NOT_AVAILABLE"
    ]
    assert (moves.written, moves.moved(["audit"])) == (0, [])


@pytest.mark.parametrize(
    "groups",
    [
        TargetGroups(Found({}, {"audit": "NOT_COORDINATOR"}), Found({}), Found({COPY: 20})),
        TargetGroups(Found({"audit": GroupDescription("Empty", 0)}), Found({}, {"audit": "denied"}), Found({COPY: 20})),
        TargetGroups(
            Found({"audit": GroupDescription("Empty", 0)}), Found({"audit": Found({})}), Found({}, {COPY: "x"})
        ),
    ],
    ids=["state", "position", "end"],
)
def test_where_the_target_does_not_tell_what_must_be_known_the_group_is_refused(
    planned: Callable[[Standby], MovePlan], groups: TargetGroups
) -> None:
    standby = Standby(groups)
    moves = apply_moves(planned(standby), CLUSTERS)
    assert (standby.done, [each.group for each in moves.refused], moves.moved(["audit"])) == ([], ["audit"], [])
