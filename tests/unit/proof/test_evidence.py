"""A ledger that is not whole says so, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.model.ledger import Column
from mirror.model.verdict import Verdict
from mirror.parts import PartWriter, read_rows
from mirror.proof.evidence import MissingEvidence, inspect_parts, joined, with_gaps

COLUMNS = (Column("producer", "string"), Column("sequence", "long"))


def write_ledger(directory: Path, writer: str, *, parts: int = 3, closed: bool = True) -> None:
    output = PartWriter(directory, writer, COLUMNS)
    for number in range(parts):
        output.write([(writer, number), (writer, number + 100)], last=closed and number == parts - 1)


def test_whole_ledgers_leave_no_gap(tmp_path: Path) -> None:
    write_ledger(tmp_path, "a")
    write_ledger(tmp_path, "b-1", parts=12)
    found = inspect_parts(tmp_path)

    assert (found.gaps, found.rows, len(found.paths)) == ((), 30, 15)


def test_a_writer_that_was_killed_leaves_a_ledger_that_is_not_closed(tmp_path: Path) -> None:
    """It also leaves a file it had begun, which nobody reads."""
    write_ledger(tmp_path, "a", closed=False)
    (tmp_path / ".a-3.parquet.unfinished").write_bytes(b"PAR1")
    found = inspect_parts(tmp_path)

    assert [Path(gap.where).name for gap in found.gaps] == ["a-2.parquet"]
    assert "was not closed" in found.gaps[0].what
    assert found.rows == 6


def test_a_part_that_is_missing_in_between_is_noticed(tmp_path: Path) -> None:
    write_ledger(tmp_path, "a")
    (tmp_path / "a-1.parquet").unlink()

    [gap] = inspect_parts(tmp_path).gaps
    assert gap.what.startswith("part 1 of a is missing")


def test_a_part_that_cannot_be_read_is_told_with_its_path(tmp_path: Path) -> None:
    write_ledger(tmp_path, "a")
    (tmp_path / "a-2.parquet").write_bytes(b"not parquet at all")
    found = inspect_parts(tmp_path)

    assert [Path(gap.where).name for gap in found.gaps] == ["a-2.parquet", "a-1.parquet"]
    assert "cannot be read" in found.gaps[0].what
    assert found.rows == 4


def test_parts_of_two_runs_of_one_writer_do_not_make_a_whole_ledger(tmp_path: Path) -> None:
    """The numbers go on, and the rows do not: one of them was written in another run, or came twice."""
    write_ledger(tmp_path / "first", "a")
    write_ledger(tmp_path / "second", "a", parts=4)
    longer = PartWriter(tmp_path / "third", "a", COLUMNS)
    longer.write([("a", 0)])
    for name in ("a-1.parquet", "a-2.parquet"):
        (tmp_path / "first" / name).rename(tmp_path / "third" / name)
    assert [gap.what for gap in inspect_parts(tmp_path / "third").gaps] == [
        "part 1 of a is missing, or holds other rows than it held"
    ]
    (tmp_path / "second" / "a-3.parquet").rename(tmp_path / "second" / "b.parquet")
    (tmp_path / "second" / "a-2.parquet").unlink()
    assert [Path(gap.where).name for gap in inspect_parts(tmp_path / "second").gaps] == ["b.parquet"]


@pytest.mark.parametrize("name", [".", "there is no such directory"])
def test_no_parts_are_a_gap(tmp_path: Path, name: str) -> None:
    assert [gap.what for gap in inspect_parts(tmp_path / name).gaps] == ["holds no parts"]


def test_missing_evidence_takes_a_pass_away_and_nothing_else() -> None:
    gap = [MissingEvidence("somewhere", "something")]

    assert [with_gaps(verdict, gap) for verdict in Verdict] == [Verdict.UNKNOWN, Verdict.FAIL, Verdict.UNKNOWN]
    assert [with_gaps(verdict, []) for verdict in Verdict] == list(Verdict)


def test_parts_joined_into_one_file_hold_the_same_rows_and_gaps(tmp_path: Path) -> None:
    write_ledger(tmp_path / "sends", "a")
    write_ledger(tmp_path / "sends", "b", closed=False)
    found = inspect_parts(tmp_path / "sends")
    (tmp_path / "one").mkdir()
    one = joined(found, tmp_path / "one" / "sends.parquet")

    assert (one.paths, one.rows, one.gaps) == ((tmp_path / "one" / "sends.parquet",), found.rows, found.gaps)
    columns = [column.name for column in COLUMNS]
    rows = [read_rows(folder, columns).values.tolist() for folder in (tmp_path / "sends", tmp_path / "one")]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 12
