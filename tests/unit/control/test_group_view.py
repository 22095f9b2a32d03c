"""A group whose position the source does not tell is named: who reads the table must not take it for all there is."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from mirror import cli
from mirror.commands import observation
from mirror.control.checkpoints import last_checkpoints
from mirror.control.group_view import GroupView, TranslatedPosition, translate_again
from mirror.control.unknown_positions import unknown_positions
from mirror.kafka.answers import Found
from mirror.kafka.batch import Record
from mirror.kafka.cluster_model import GroupPosition
from mirror.model.checkpoint import Checkpoint, CheckpointedCopy
from mirror.model.offset_map import OffsetMap, Run, Runs
from mirror.model.partition import TopicPartition
from mirror.model.state_values import RunReport
from mirror.model.translation import Bounded, Exact, NotMirrored, Translation

ORDERS = TopicPartition("orders", 3)
NOT_TOLD = GroupView((), None, ("group billing on A: not authorized",))


def test_groups_and_partitions_that_are_not_told_are_named_with_the_reason() -> None:
    told = Found({TopicPartition("orders", 0): GroupPosition(5)}, {ORDERS: "unstable"})
    assert unknown_positions(Found({"shipping": told}, {"billing": "not authorized"}), "east") == (
        "group billing on east: not authorized",
        "group shipping on east, orders-3: unstable",
    )


def test_offsets_says_so_and_ends_with_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observation, "view_groups", lambda *_, **__: NOT_TOLD)
    file = tmp_path / "mirror.properties"
    file.write_text("clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n")
    done = CliRunner().invoke(cli.app, ["offsets", str(file), "--json"])
    assert (done.exit_code, done.stdout.strip()) == (1, "[]")
    assert "group billing on A: not authorized" in done.stderr


@pytest.mark.parametrize(("more", "code"), [(("--group", "svc[/prod]"), 1), ((), 0)])
def test_offsets_of_a_group_that_is_not_there_end_as_its_rehearsal_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...], code: int
) -> None:
    """It said that there is nothing, and ended with 0; a script took that for a group without positions."""
    told = "no group on A matches; escape it as 'svc\\[/prod\\]'"
    monkeypatch.setattr(observation, "view_groups", lambda *_, **__: GroupView((), None, unmatched=told))
    file = tmp_path / "mirror.properties"
    file.write_text("clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n")
    done = CliRunner().invoke(cli.app, ["offsets", str(file), *more])
    assert (done.exit_code, told in done.stderr) == (code, bool(more))


def test_the_age_of_checkpoints_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever fails over from them must know how far back they reach."""
    monkeypatch.setattr("mirror.control.group_view.now_ms", lambda: 100_000)
    aged = TranslatedPosition("billing", "A.orders", 0, 5, Exact(5), checkpoint_at_ms=35_600)
    ages = (
        aged,
        replace(aged, partition=1, checkpoint_at_ms=None),
        replace(aged, partition=2, checkpoint_at_ms=100_001),
    )
    monkeypatch.setattr(observation, "view_groups", lambda *_, **__: GroupView(ages, None))
    monkeypatch.setattr(observation, "out", Console(width=120, color_system=None))
    file = tmp_path / "mirror.properties"
    file.write_text("clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n")
    done = CliRunner().invoke(cli.app, ["offsets", str(file), "--json"])
    assert [row["checkpoint_age_seconds"] for row in json.loads(done.stdout)] == [64.4, None, 0.0]
    cells = [
        [cell.strip() for cell in line.split("│")]
        for line in CliRunner().invoke(cli.app, ["offsets", str(file)]).stdout.splitlines()
    ]
    assert [line[5] for line in cells if len(line) > 5] == ["64", "-", "0"]


@pytest.mark.parametrize(
    ("report", "age", "line"),
    [
        (None, None, "No engine of A->B has reported yet."),
        (RunReport("RUNNING", (), 35_600), 64.4, "The engine of A->B last reported 64 s ago (1970-01-01T00:00:35Z)."),
        (
            RunReport("DEGRADED", ("A does not answer",), 35_600),
            64.4,
            "The engine of A->B last reported 64 s ago (1970-01-01T00:00:35Z), that it is DEGRADED: mirror status says why.",
        ),
        (
            RunReport("STOPPED", (), -86_400_000 * 3),
            259_300.0,
            "The engine of A->B last reported 3 days ago (1969-12-29T00:00:00Z), that it is STOPPED: mirror status says why.",
        ),
    ],
)
def test_offsets_tells_when_the_engine_last_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: RunReport | None, age: float | None, line: str
) -> None:
    """An engine reports on also while its source is away: then what it reports tells how old the positions may be."""
    monkeypatch.setattr("mirror.control.group_view.now_ms", lambda: 100_000)
    view = GroupView((TranslatedPosition("billing", "A.orders", 0, 5, Exact(5)),), None, report=report)
    monkeypatch.setattr(observation, "view_groups", lambda *_, **__: view)
    file = tmp_path / "mirror.properties"
    file.write_text("clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n")
    done = CliRunner().invoke(cli.app, ["offsets", str(file), "--json"])
    assert [row["report_age_seconds"] for row in json.loads(done.stdout)] == [age]
    assert line in " ".join(CliRunner().invoke(cli.app, ["offsets", str(file)]).stdout.split())


def test_a_checkpoint_is_as_old_as_its_record() -> None:
    said = Checkpoint("billing", COPY, 5, 7)
    record = Record(9, 35_600, said.key_bytes(), said.value_bytes(), (), -1)
    (found,) = last_checkpoints([record]).values()
    assert (found, found.at_ms, found.offset) == (said, 35_600, 9)


class Told:
    """Tells checkpoints of an earlier copy as it was told to."""

    def __init__(self, lowered: Checkpoint | None = None, *, current: bool = True) -> None:
        self._current, self._lowered = current, lowered

    def is_current(self, checkpoint: Checkpoint) -> bool:
        return self._current

    def unrecorded(self, targets: Iterable[TopicPartition], since: int) -> list[CheckpointedCopy]:
        raise AssertionError

    def lowered(self, checkpoint: Checkpoint) -> Checkpoint | None:
        return self._lowered


COPY = TopicPartition("east.orders", 3)
KNOWN = OffsetMap(100, False, Runs.of([Run(100, 50, 100)]), 200, 150)


def again(upstream: int, downstream: int, known: OffsetMap | None = KNOWN, *, shares: bool = False) -> Translation:
    return translate_again(Checkpoint("billing", COPY, upstream, downstream), known, Told(), shares=shares)


def test_a_checkpoint_is_translated_again_by_what_was_copied_since() -> None:
    """Written when the copy had got to 60, though the group was at 180."""
    assert again(180, 60) == Exact(130)
    assert again(250, 60) == Bounded(150, 50)
    assert again(150, 120) == Exact(100)


def test_without_a_map_and_for_a_position_older_than_it_the_checkpoint_counts() -> None:
    assert again(180, 60, None) == Bounded(60, 0)
    assert again(20, 7) == Bounded(7, 0)


def test_where_both_sides_write_to_a_topic_the_lower_position_counts() -> None:
    """Between the two may lie records of the target that the group had not read; only the source could tell."""
    assert again(180, 60, shares=True) == Bounded(60, 70)
    assert again(150, 120, shares=True) == Exact(100)


def test_what_was_written_before_the_map_began_counts_where_it_is_lower() -> None:
    assert again(180, 49) == Bounded(49, 81)
    assert again(180, 50) == Exact(130)


def test_of_an_earlier_copy_the_lowered_position_counts_or_none() -> None:
    old = Checkpoint("billing", COPY, 180, 900)
    lower = Checkpoint("billing", COPY, 180, 130)
    assert translate_again(old, KNOWN, Told(lower, current=False), shares=False) == Bounded(130, 20)
    assert translate_again(old, KNOWN, Told(current=False), shares=False) == NotMirrored()
    assert translate_again(old, None, Told(current=False), shares=False) == NotMirrored(), "its map is not understood"


def test_what_is_no_further_than_was_said_is_as_exact_as_the_map() -> None:
    """Also where both sides write to the topic; and a position at the end of the copy lies behind nothing."""
    assert again(180, 130, shares=True) == Exact(130)
    old, at_the_end = Checkpoint("billing", COPY, 250, 900), Checkpoint("billing", COPY, 250, 150)
    assert translate_again(old, KNOWN, Told(at_the_end, current=False), shares=False) == Bounded(150, 0)
