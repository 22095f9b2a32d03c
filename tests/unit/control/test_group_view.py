"""A group whose position the source does not tell is named: who reads the table must not take it for all there is."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from mirror import cli
from mirror.control.group_view import GroupView
from mirror.control.unread import unread
from mirror.drill import group_moves
from mirror.drill.group_moves import MoveRefused, move_groups
from mirror.kafka.cluster import Found, GroupPosition
from mirror.model.partition import TopicPartition
from tests.unit.config.files import flows_of

ORDERS = TopicPartition("orders", 3)
NOT_TOLD = GroupView((), None, ("group billing on A: not authorized",))


def test_groups_and_partitions_that_are_not_told_are_named_with_the_reason() -> None:
    told = Found({TopicPartition("orders", 0): GroupPosition(5)}, {ORDERS: "unstable"})
    assert unread(Found({"shipping": told}, {"billing": "not authorized"}), "east") == (
        "group billing on east: not authorized",
        "group shipping on east, orders-3: unstable",
    )


def test_such_a_group_is_not_moved_and_nothing_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_moves, "view_groups", lambda *_, **__: NOT_TOLD)
    with pytest.raises(MoveRefused, match="group billing on A: not authorized"):
        move_groups(flows_of("A->B")[0], {}, ["billing"], ask_source=True)


def test_offsets_says_so_and_ends_with_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "view_groups", lambda *_, **__: NOT_TOLD)
    file = tmp_path / "mirror.properties"
    file.write_text("clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n")
    done = CliRunner().invoke(cli.app, ["offsets", str(file), "--json"])
    assert (done.exit_code, done.stdout.strip()) == (1, "[]")
    assert "group billing on A: not authorized" in done.stderr
