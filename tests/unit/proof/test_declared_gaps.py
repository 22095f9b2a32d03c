"""What is said to be absent explains only what is as it is said: counted, and parked with its content."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from mirror.model.absences import Absence, AbsenceKind
from mirror.model.partition import TopicPartition
from mirror.proof.declared_gaps import ParkedContent, filtered, held, without
from mirror.proof.log_reader import Filtered, LogRange

RANGE = LogRange("east", {}, TopicPartition("orders", 3), 2, 20)
GAP = Absence(AbsenceKind.GAP, 4, 8, "poison", acknowledged=False)
PARKED = Absence(AbsenceKind.PARKED, 9, 10, "too large", acknowledged=True)


def source(path: Path) -> Path:
    """Records at 0, 3, 5, 6, 9 and 12; each of its own content, at its own time."""
    offsets = [0, 3, 5, 6, 9, 12]
    columns = {"offset": offsets, "digest": [b"%d" % each for each in offsets], "timestamp_ms": offsets}
    pq.write_table(pa.table(columns), path / "rows.parquet")
    return path / "rows.parquet"


def test_gaps_are_counted_by_the_records_the_source_has_there(tmp_path: Path) -> None:
    path = source(tmp_path)
    before, empty = replace(GAP, start=0, end=2), replace(GAP, start=13, end=15)
    assert held([before, GAP, empty], {}, RANGE, path) == (replace(GAP, records=2),)
    last = replace(GAP, start=12, end=13)
    assert held([last], {}, replace(RANGE, end=13), path) == (replace(last, records=1),)
    assert held([last], {}, replace(RANGE, end=12), path) == (), "the end is not in it"


def test_a_record_that_is_said_to_be_parked_must_lie_there_as_it_was(tmp_path: Path) -> None:
    path = source(tmp_path)
    for letter, holds in (
        (ParkedContent(b"9", 9), True),
        (ParkedContent(b"other", 9), False),
        (ParkedContent(b"9", 8), False),
    ):
        assert bool(held([PARKED], {9: letter}, RANGE, path)) is holds
    assert held([PARKED], {}, RANGE, path) == ()


def test_what_is_absent_is_taken_out_of_the_rows(tmp_path: Path) -> None:
    table = pq.read_table(source(tmp_path))
    assert without(table, [GAP, PARKED])["offset"].to_pylist() == [0, 3, 12]
    assert without(table, ())["offset"].to_pylist() == [0, 3, 5, 6, 9, 12]


def test_what_transforms_leave_out_is_one_absence() -> None:
    assert filtered(Filtered()) == ()
    (found,) = filtered(Filtered().also(4).also(9))
    assert (found.kind, found.start, found.end, found.records) == (AbsenceKind.FILTERED, 4, 10, 2)
