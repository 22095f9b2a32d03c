"""Two logs are found to be the same by the fast path only if no record differs in anything and each lies where the offset map says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mirror.model.absences import Absence, AbsenceKind
from mirror.model.offset_map import Run, Runs
from mirror.model.partition import TopicPartition
from mirror.proof.fast_path import same_records
from mirror.proof.log_reader import LogRange

SOURCE = LogRange("east", {}, TopicPartition("orders", 0), 0, 10)
COPY = LogRange("west", {}, TopicPartition("east.orders", 0), 0, 10)
Rows = Sequence[tuple[int, str, int, int]]
ORIGINALS = [(0, "a", 100, -1), (1, "b", 101, -1), (4, "c", 104, -1), (5, "d", 105, -1)]
COPIES = [(2, "a", 100, 7), (3, "b", 101, 7), (4, "c", 104, 7), (5, "d", 105, 7)]
RUNS = (Run(0, 2, 2), Run(4, 4, 2))
OURS = frozenset({7})


def file_of(rows: Rows, path: Path) -> Path:
    names = ("offset", "digest", "timestamp_ms", "producer_id")
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    pq.write_table(pa.table({**columns, "digest": [each.encode() for each in columns["digest"]]}), path)
    return path


def same(
    folder: Path,
    copies: Rows = COPIES,
    runs: Sequence[Run] = RUNS,
    writers: frozenset[int] = OURS,
    absent: Sequence[Absence] = (),
    originals: Rows = ORIGINALS,
    own_from: int = 0,
) -> int | None:
    source, copy = file_of(originals, folder / "source.parquet"), file_of(copies, folder / "copy.parquet")
    return same_records((SOURCE, source), (COPY, copy), Runs.of(runs), writers, absent, own_from)


def test_the_same_records_where_the_map_says(tmp_path: Path) -> None:
    assert same(tmp_path) == 4
    assert same(tmp_path, runs=()) == 4
    assert same(tmp_path, writers=frozenset()) == 4


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("changed", [(0, "x", 0, 0), (0, "", 1, 0), (0, "", 0, 92)], ids=["content", "time", "writer"])
def test_a_record_that_differs(tmp_path: Path, place: int, changed: tuple[int, str, int, int]) -> None:
    copies = list(COPIES)
    offset, digest, timestamp, producer = copies[place]
    copies[place] = offset, changed[1] or digest, timestamp + changed[2], producer + changed[3]
    assert same(tmp_path, copies) is None


def test_one_that_is_not_there_or_there_once_more(tmp_path: Path) -> None:
    assert same(tmp_path, COPIES[:3]) is None
    assert same(tmp_path, [*COPIES, (6, "d", 105, 7)]) is None


@pytest.mark.parametrize(
    "runs",
    [
        (Run(0, 2, 2), Run(4, 4, 1)),
        (Run(0, 2, 2), Run(4, 4, 3)),
        (Run(0, 2, 1), Run(1, 4, 1), Run(4, 5, 2)),
        (Run(0, 1, 2), Run(4, 4, 2)),
        (Run(0, 2, 2), Run(4, 5, 2)),
        (Run(0, 2, 4),),
    ],
    ids=["one too few", "one too many", "cut elsewhere", "begins elsewhere", "ends elsewhere", "over the hole"],
)
def test_a_map_that_says_something_else(tmp_path: Path, runs: Sequence[Run]) -> None:
    assert same(tmp_path, runs=runs) is None


def test_a_run_of_which_only_one_end_is_where_the_map_says(tmp_path: Path) -> None:
    """As many records as the run has, over a hole on one side."""
    originals = [(0, "a", 100, -1), (1, "b", 101, -1), (3, "c", 104, -1)]
    copies = [(2, "a", 100, 7), (3, "b", 101, 7), (4, "c", 104, 7)]
    assert same(tmp_path, copies, (Run(0, 2, 3),), originals=originals) is None


def test_what_is_known_to_be_absent_is_not_counted(tmp_path: Path) -> None:
    gap = Absence(AbsenceKind.GAP, 4, 5, "poison", acknowledged=True, records=1)
    copies = [COPIES[0], COPIES[1], (4, "d", 105, 7)]
    assert same(tmp_path, copies, (Run(0, 2, 2), Run(5, 4, 1)), absent=[gap]) == 3
    assert same(tmp_path, copies, (Run(0, 2, 2), Run(5, 4, 1))) is None


def test_what_lies_before_the_flows_own_records_may_be_of_others(tmp_path: Path) -> None:
    copies = [(2, "a", 100, -1), (3, "b", 101, -1), *COPIES[2:]]
    assert same(tmp_path, copies) is None
    assert same(tmp_path, copies, own_from=4) == 4
    assert same(tmp_path, copies, own_from=3) is None
