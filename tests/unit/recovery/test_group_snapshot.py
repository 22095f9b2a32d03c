"""What a move of groups has changed is put back exactly, or refused with the reason; nothing else is touched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.config.settings import ConfigError
from mirror.kafka.cluster import Found, GroupDescription, GroupPosition
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.recovery.group_snapshot import (
    ClusterNow,
    GroupSnapshot,
    RestoreAction,
    RestoreDecision,
    SavedPosition,
    plan_restore,
)

COPY = TopicPartition("A.orders", 3)
SAVED = SavedPosition("billing", COPY, "id", GroupPosition(5, "text"), GroupPosition(40, "read"))
IDLE = GroupDescription("Empty", 0)


def now(
    present: GroupPosition | None = SAVED.after,
    *,
    state: GroupDescription = IDLE,
    start: int | None = 0,
    end: int | None = 100,
    topic_id: str = "id",
) -> ClusterNow:
    return ClusterNow(
        Found({"billing": state}),
        Found({"billing": Found({COPY: present} if present else {})}),
        {COPY.topic: topic_id},
        Found({} if start is None else {COPY: start}),
        Found({} if end is None else {COPY: end}),
    )


def decide(saved: SavedPosition, seen: ClusterNow) -> RestoreDecision:
    (decision,) = plan_restore(GroupSnapshot(Flow("A", "B"), "west", (saved,)), seen)
    return decision


def test_a_position_is_put_back_and_one_that_was_not_there_is_deleted() -> None:
    assert decide(SAVED, now()).action is RestoreAction.WRITE
    assert decide(replace(SAVED, before=None), now()).action is RestoreAction.DELETE
    assert decide(SAVED, now(SAVED.before)).action is RestoreAction.KEEP
    assert decide(replace(SAVED, before=None), now(None)).action is RestoreAction.KEEP
    # The first position that a log has is its start, the last one its end.
    assert decide(SAVED, now(start=5)).action is RestoreAction.WRITE
    assert decide(SAVED, now(end=5)).action is RestoreAction.WRITE


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (now(state=GroupDescription("Stable", 2)), "in use"),
        (now(GroupPosition(41)), "is at 41"),
        (now(GroupPosition(39)), "is at 39"),
        (now(None), "has none any more"),
        (now(topic_id="another"), "not the one any more"),
        (now(end=4), "the log ends at 4"),
        (now(start=6), "the log begins at 6"),
        (now(start=None), "start of the log is not known"),
        (now(end=None), "end of the log is not known"),
        (replace(now(), states=Found({}, {"billing": "not authorized"})), "not authorized"),
        (replace(now(), positions=Found({}, {"billing": "no coordinator"})), "no coordinator"),
        (replace(now(), positions=Found({"billing": Found({}, {COPY: "unstable"})})), "unstable"),
    ],
)
def test_what_has_changed_or_is_not_known_is_refused(seen: ClusterNow, why: str) -> None:
    decision = decide(SAVED, seen)
    assert decision.action is RestoreAction.REFUSED
    assert why in decision.reason
    assert not decision.is_change


def test_a_snapshot_is_read_as_it_was_written_and_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "before.json"
    snapshot = GroupSnapshot(Flow("A", "B"), "west", (SAVED, replace(SAVED, group="audit", before=None)))
    snapshot.save(path)
    assert GroupSnapshot.load(path) == snapshot
    with pytest.raises(ConfigError, match="cannot be saved here"):
        GroupSnapshot(Flow("A", "B"), "west", ()).save(path)
    assert GroupSnapshot.load(path) == snapshot
    assert [each.name for each in tmp_path.iterdir()] == ["before.json"]
    assert snapshot.of_groups("aud.*").positions == snapshot.positions[1:]
    assert snapshot.of_groups("aud").positions == ()


@given(cut=st.integers(min_value=0, max_value=400))
def test_half_a_snapshot_is_none(cut: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("half") / "before.json"
    GroupSnapshot(Flow("A", "B"), "west", (SAVED,)).save(path)
    whole = path.read_text()
    path.write_text(whole[: min(cut, len(whole) - 3)])
    with pytest.raises(ConfigError, match=str(path)):
        GroupSnapshot.load(path)
