"""Stranded records in files: found by comparing two logs at the same offsets, saved, and made sure of."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.kafka.batch import Record
from mirror.kafka.old_topics import OldTopic
from mirror.model.partition import TopicPartition
from mirror.recovery.stranded_files import Stranded, next_directory, save, saved_in, seal, unmatched
from tests.unit.copier.builders import sparse

ORDERS = TopicPartition("orders", 0)
TOPIC = OldTopic("orders", "id", 1, 1, {"retention.ms": "5"})


def records(*offsets: int, value: bytes = b"value") -> list[Record]:
    return [Record(offset, 1_000 + offset, b"key", value, (("h", None),), -1) for offset in offsets]


def log(*batches: Sequence[Record]) -> list:  # type: ignore[type-arg]
    return [sparse(list(each), each[0].offset, each[-1].offset + 1) for each in batches if each]


def lacking(source: list, copies: list) -> list[int]:  # type: ignore[type-arg]
    return [each.offset for each in unmatched(source, copies)]


@pytest.mark.parametrize(
    ("source", "copies", "expected"),
    [
        ([records(0, 1, 2)], [records(0, 1, 2)], []),
        ([records(0, 1), records(2, 3)], [records(0), records(1, 2, 3)], []),
        # The tail, what retention or compaction has removed there, and another record at the same offset.
        ([records(0, 1, 2)], [records(0)], [1, 2]),
        ([records(0, 1, 2)], [records(2)], [0, 1]),
        ([records(0, 1, 2, 5)], [records(0, 2), records(9)], [1, 5]),
        ([records(0, 1)], [records(0), records(1, value=b"other")], [1]),
        ([records(0, 1)], [], [0, 1]),
        ([], [records(0)], []),
    ],
)
def test_what_the_copy_does_not_have_at_the_same_offset_is_found(
    source: list[list[Record]], copies: list[list[Record]], expected: list[int]
) -> None:
    assert lacking(log(*source), log(*copies)) == expected


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)), st.integers(1, 7), st.integers(1, 7))
def test_however_the_logs_are_cut_into_batches(here: set[int], there: set[int], one: int, two: int) -> None:
    source, copies = records(*sorted(here)), records(*sorted(there))
    cut = [source[at : at + one] for at in range(0, len(source), one)]
    others = [copies[at : at + two] for at in range(0, len(copies), two)]
    assert lacking(log(*cut), log(*others)) == sorted(here - there)


def test_a_line_has_all_of_a_record(tmp_path: Path) -> None:
    record = Record(7, -1, None, b"\xff\x00", (("n\udc80", b""), ("h", None)), 5)
    file = save(tmp_path, ORDERS, 9, [record])
    (line,) = (tmp_path / "orders-0.jsonl").read_text().splitlines()
    told = json.loads(line)
    assert (told["offset"], told["timestamp"], told["key"]) == (7, -1, None)
    assert base64.b64decode(told["value"]) == b"\xff\x00"
    assert told["headers"] == [["n\udc80", ""], ["h", None]]
    assert (file.records, file.end, file.problem()) == (1, 9, None)


@pytest.mark.parametrize(
    "spoil",
    [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-3]), lambda path: path.write_bytes(b"{}\n{}\n")],
    ids=["gone", "cut short", "others"],
)
def test_a_file_that_is_not_what_was_written_is_told(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    file = save(tmp_path, ORDERS, 2, records(0, 1))
    spoil(file.path)
    assert str(file.path) in (file.problem() or "")


@pytest.mark.parametrize("length", [240, 249])
def test_a_topic_may_have_the_longest_name_there_is(length: int, tmp_path: Path) -> None:
    """A name of 249 characters, and what stands behind it, is longer than that of a file may be."""
    topics = [TopicPartition("t" * (length - 1) + last, 1_000) for last in "ab"]
    files = tuple(save(tmp_path, each, 1, [Record(0, 1, None, b"value", (), -1)]) for each in topics)
    saved = Stranded(tmp_path, (), files)
    assert saved.problems() == []
    assert len({each.path.name for each in files}) == 2
    assert all(each.path.name.endswith("-1000.jsonl") for each in files)


def test_what_was_saved_counts_once_its_manifest_is_there_and_is_never_written_over(tmp_path: Path) -> None:
    found = []
    for end in (1, 2):
        directory = next_directory(tmp_path)
        directory.mkdir()
        file = save(directory, ORDERS, end, records(*range(end)))
        assert saved_in(tmp_path).get("orders") == (found[-1] if found else None)
        found.append(Stranded(directory, (TOPIC,), (file,)))
        seal(found[-1])
    assert [each.name for each in sorted(tmp_path.iterdir())] == ["stranded-1", "stranded-2"]
    assert saved_in(tmp_path) == {"orders": found[1]}
    assert (found[1].records, found[1].ends(), found[1].problems()) == (2, {ORDERS: 2}, [])
    with pytest.raises(FileExistsError):
        save(found[1].directory, ORDERS, 3, [])


def test_the_folder_of_what_was_saved_is_on_disk_by_its_name_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic is deleted next: behind a power cut the folder must be there."""
    forced: list[Path] = []
    monkeypatch.setattr("mirror.recovery.stranded_files.force_names", forced.append)
    directory = next_directory(tmp_path)
    directory.mkdir()
    seal(Stranded(directory, (TOPIC,), ()))
    assert forced == [tmp_path]
