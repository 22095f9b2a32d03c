"""What a move of groups has changed is put back exactly, or refused with the reason; nothing else is touched."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.config.errors import ConfigError
from mirror.kafka.answers import Found
from mirror.kafka.cluster_model import GroupDescription, GroupPosition
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
SAVED = SavedPosition("billing", COPY, "id", GroupPosition(5, "text", 3), GroupPosition(40, "read"))
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
    before = GroupSnapshot.load(path).positions[0].before
    assert before is not None
    assert before.leader_epoch == 3, "as its reader has committed it; without one it would count as set by hand"
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


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"group": ["billing"]}, "positions[0].group: Expected `str`, got `array`"),
        ({"partition": -1}, "positions[0].partition: Expected `int` >= 0"),
        ({"partition": 1.5}, "positions[0].partition: Expected `int`, got `float`"),
        ({"before": {"position": -5, "metadata": ""}}, "before.position: Expected `int` >= 0"),
        ({"before": {"position": 1.7, "metadata": ""}}, "before.position: Expected `int`, got `float`"),
        ({"before": 5}, "before: Expected `object | null`, got `int`"),
        ({"after": {"position": "40", "metadata": ""}}, "after.position: Expected `int`, got `str`"),
        ({"after": {"position": float("inf"), "metadata": ""}}, "after.position: Expected `int`, got `float`"),
        ({"after": None}, "after: Expected `object`, got `null`"),
    ],
)
def test_what_no_move_has_written_is_refused_with_its_place(tmp_path: Path, wrong: dict[str, Any], told: str) -> None:
    """Also without the digest, which a snapshot of an earlier version does not have."""

    def change(content: dict[str, Any]) -> None:
        content["positions"][0] |= wrong
        del content["digest"]

    assert told in refused(tmp_path, change)


def test_a_snapshot_that_was_changed_is_refused_whatever_was_changed(tmp_path: Path) -> None:
    def put_elsewhere(content: dict[str, Any]) -> None:
        content["positions"][0]["before"]["position"] = 7

    def twice(content: dict[str, Any]) -> None:
        content["positions"] *= 2
        del content["digest"]

    assert "was changed since it was written" in refused(tmp_path, put_elsewhere)
    assert "two positions of group billing in A.orders-3" in refused(tmp_path, twice)
    assert "version 2, and this program reads version 1" in refused(tmp_path, lambda each: each.update(version=2))
    assert "is no snapshot of groups" in refused(tmp_path, lambda each: each.update(kind="positions"))
    assert "positions: Expected `array`, got `null`" in refused(
        tmp_path, lambda each: each.update(positions=None, digest=None)
    )


def test_a_snapshot_of_an_earlier_version_without_a_digest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "before.json"
    snapshot = GroupSnapshot(Flow("A", "B"), "west", (SAVED,))
    snapshot.save(path)
    content = json.loads(path.read_text())
    del content["digest"]
    path.write_text(json.dumps(content))
    assert GroupSnapshot.load(path) == snapshot


@pytest.mark.parametrize("text", ["", "[" * 100_000, "[]"])
def test_what_is_no_snapshot_at_all_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "before.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match="is no snapshot of groups"):
        GroupSnapshot.load(path)


def test_a_snapshot_that_is_not_there_is_told_in_words(tmp_path: Path) -> None:
    path = tmp_path / "absent.json"
    with pytest.raises(ConfigError) as caught:
        GroupSnapshot.load(path)
    assert str(caught.value) == f"{path}: is no snapshot of groups that can be read: No such file or directory"


def refused(directory: Path, change: Callable[[dict[str, Any]], None]) -> str:
    """Return why a snapshot of which something was changed is refused."""
    path = directory / "before.json"
    path.unlink(missing_ok=True)
    GroupSnapshot(Flow("A", "B"), "west", (SAVED,)).save(path)
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(ConfigError) as wrong:
        GroupSnapshot.load(path)
    assert str(path) in str(wrong.value)
    return str(wrong.value)
