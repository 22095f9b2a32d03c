"""A history is whole or not there, stays within its bounds, and says what it could not keep."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.evidence.refusal import Refused
from mirror.history.kept import Bounds
from mirror.history.reading import read_history
from mirror.history.samples import FLOWS, PARTITIONS, SourceLog
from mirror.history.store import WRITE_SECONDS, HistoryWriter, files, keep_bounds
from mirror.model.cliff import Retention
from mirror.model.partition import TopicPartition
from tests.unit.history.builders import NOW_MS, Sample, partition, sample, status


def rows(directory: Path, table: str = "partitions") -> list[dict[str, object]]:
    """All rows of a table, in the order of time."""
    found = pa.concat_tables(pq.ParquetFile(each.path).read() for each in files(directory) if each.table == table)
    return sorted(found.to_pylist(), key=lambda row: (row["at_ms"], row.get("topic", ""), row.get("partition", 0)))


def test_what_is_taken_in_is_what_is_read(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path, Bounds())
    away = partition(1, 7, None, topic="audits", lag_seconds=None, stopped="a gap", gaps=2, is_paused=True)
    log = SourceLog(40, Retention(3_600_000))
    told = Sample(NOW_MS, status(partition(), away, notes=("a note",)), logs={TopicPartition("orders", 0): log})
    assert writer.take(told) == ()
    assert writer.take(Sample(NOW_MS + 10_000, status(state="FAILED", reasons=("west: refused",)))) == ()
    assert writer.close() == ()

    audits, orders = rows(tmp_path)
    assert orders == {
        "at_ms": NOW_MS, "flow": "east->west", "topic": "orders", "partition": 0, "position": 100, "source_end": 110,
        "copy_position": 100, "lag_seconds": 2.0, "carried": False, "stopped": False, "paused": False, "gaps": 0,
        "source_start": 40, "retention_ms": 3_600_000, "retention_bytes": -1,
    }  # fmt: skip
    assert [audits[name] for name in ("source_end", "lag_seconds", "stopped", "paused", "gaps", "source_start")] == [
        *(None, None, True, True, 2, None)
    ]
    first, second = rows(tmp_path, "flows")
    assert (first["state"], first["notes"], first["partitions"], first["term"]) == ("RUNNING", ["a note"], 2, None)
    assert (second["state"], second["reasons"], second["partitions"]) == ("FAILED", ["west: refused"], 0)
    assert (writer.kept.samples, writer.kept.rows, writer.kept.files, writer.kept.words) == (2, 2, 2, ())


def test_rows_of_a_partition_stand_together_in_the_order_of_time(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path, Bounds())
    for seconds in (0, 10, 20):
        writer.take(sample(seconds, partition(1), partition(0), partition(0, topic="audits")))
    writer.close()
    (path,) = (each.path for each in files(tmp_path) if each.table == "partitions")
    found = pq.ParquetFile(path).read().select(["topic", "partition", "at_ms"]).to_pylist()
    groups = [found[at : at + 3] for at in (0, 3, 6)]
    assert all(len({(row["topic"], row["partition"]) for row in group}) == 1 for group in groups)
    assert [[row["at_ms"] - NOW_MS for row in group] for group in groups] == [[0, 10_000, 20_000]] * 3


def test_who_is_killed_loses_no_more_than_was_taken_since_the_last_writing(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path, Bounds())
    for number in range(20):
        writer.take(sample(10 * number))
    written = max(int(str(row["at_ms"])) for row in rows(tmp_path))
    assert NOW_MS + 190_000 - written <= 1000 * WRITE_SECONDS


def test_a_file_is_closed_after_an_hour(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path, Bounds())
    for minutes in range(0, 130, 10):
        writer.take(sample(60 * minutes))
    writer.close()
    began = [each.began_ms - NOW_MS for each in files(tmp_path) if each.table == "partitions"]
    assert began == [0, 3_600_000, 7_200_000]
    assert len(rows(tmp_path)) == 13


@given(sizes=st.lists(st.integers(1, 3_000), min_size=1, max_size=12), most=st.integers(1_000, 10_000))
@settings(deadline=None)
def test_the_oldest_go_until_the_size_is_kept_and_never_one_too_many(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], most: int
) -> None:
    folder = tmp_path_factory.mktemp("history")
    for number, size in enumerate(sizes):
        path = folder / f"partitions-{NOW_MS + number:013d}-00000000.parquet"
        path.write_bytes(b"x" * size)
        os.utime(path, ns=(NOW_MS * 1_000_000, NOW_MS * 1_000_000))
    removed = keep_bounds(folder, Bounds(seconds=60, bytes=most), NOW_MS)
    left = [each.size for each in files(folder)]
    assert sum(left) <= most
    assert [each.size for each in removed] + left == sizes
    assert not removed or sum(left) + removed[-1].size > most


def test_what_is_too_old_goes_and_is_told_and_nothing_else_in_the_folder(tmp_path: Path) -> None:
    old = tmp_path / f"flows-{NOW_MS - 10**9:013d}-00000000.parquet"
    abandoned = tmp_path / f".flows-{NOW_MS - 10**9:013d}-00000000.parquet.unfinished"
    others = [tmp_path / "flows.parquet", tmp_path / "notes.txt"]
    for path in (old, abandoned, *others):
        path.write_bytes(b"x")
        os.utime(path, (NOW_MS / 1000 - 10**6, NOW_MS / 1000 - 10**6))
    writer = HistoryWriter(tmp_path, Bounds(seconds=3600))
    (told,) = writer.take(sample())
    assert "1 files" in told
    assert old.name in told
    assert writer.kept.removed == 1
    assert [path.exists() for path in (old, abandoned, *others)] == [False, False, True, True]


def test_no_history_grows_beyond_its_bound(tmp_path: Path) -> None:
    """By the end of each writing, but for the pair that is being written."""
    bounds = Bounds(bytes=40_000)
    writer = HistoryWriter(tmp_path, bounds)
    for number in range(100):
        # What does not compress: positions of no order.
        found = (partition(each, pow(7, number * 50 + each, 1 << 40), None) for each in range(50))
        writer.take(sample(WRITE_SECONDS * number, *found))
        assert sum(each.size for each in files(tmp_path)) <= bounds.bytes * 9 // 8
    assert writer.kept.removed > 0


def test_a_folder_that_cannot_be_written_to_is_told_once_and_that_it_can_again(tmp_path: Path) -> None:
    folder = tmp_path / "history"
    folder.write_text("a file")
    writer = HistoryWriter(folder, Bounds())
    (told,) = writer.take(sample())
    assert f"{folder} cannot be written to: " in told
    assert writer.kept.words == (told,)
    assert writer.take(sample(WRITE_SECONDS)) == ()
    folder.unlink()
    (told,) = writer.take(sample(2 * WRITE_SECONDS))
    assert told == f"{folder} is written to again"
    assert (writer.kept.trouble, writer.kept.lost_rows, len(rows(folder))) == (None, 0, 3)


def test_what_could_not_be_written_for_an_hour_is_given_up_and_counted(tmp_path: Path) -> None:
    folder = tmp_path / "history"
    folder.write_text("a file")
    writer = HistoryWriter(folder, Bounds())
    for minutes in (0, 30, 61):
        writer.take(sample(60 * minutes))
    folder.unlink()
    writer.close()
    assert (writer.kept.lost_rows, len(rows(folder))) == (2, 1)
    assert writer.kept.words == (f"{folder} lacks 2 rows that could not be written",)


def test_a_torn_file_is_passed_over_and_told(tmp_path: Path) -> None:
    for seconds in (0, 10, 20, 30):
        writer = HistoryWriter(tmp_path, Bounds())
        writer.take(sample(seconds))
        writer.close()
    first, second, third, fourth = (each.path for each in files(tmp_path) if each.table == "partitions")
    first.write_bytes(first.read_bytes()[:-20])
    second.write_bytes(b"")
    pq.write_table(pa.table({"at_ms": [1]}), third)
    found = read_history(tmp_path)
    assert found.partitions == (fourth,)
    assert [each.split(":")[0] for each in found.torn] == [first.name, second.name, third.name]
    assert "not of a history" in found.torn[2]
    assert len(found.flows) == 4


@pytest.mark.parametrize("name", ["", "absent"])
def test_where_there_is_no_history_that_is_said(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refused, match=str(tmp_path)):
        read_history(tmp_path / name)


def test_the_columns_are_those_of_the_page() -> None:
    page = (Path(__file__).parents[3] / "docs" / "history.md").read_text()
    assert [name for name in (*PARTITIONS.names, *FLOWS.names) if f"| `{name}` |" not in page] == []
