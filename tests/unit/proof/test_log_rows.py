from __future__ import annotations

from pathlib import Path

import pytest

from mirror.kafka.batch import Record
from mirror.model.ledger import LOGS, RecordId, digest, encode_content
from mirror.model.partition import TopicPartition
from mirror.model.transforms.chain import Chain, ChainedTransform
from mirror.model.transforms.python_function import PythonFunction
from mirror.proof.log_reader import ChangedRecords, Filtered, LogOutcome, LogRange, _read_range, gaps_of, log_rows

PARTITION = TopicPartition("orders", 3)


def test_a_record_becomes_a_row_that_says_who_sent_it_and_what_it_is() -> None:
    mine, others = (RecordId("p-0", 41).header(), ("trace", None)), (("trace", b"x"),)
    records = [Record(7, 1000, b"k", None, mine, 99), Record(9, 1001, None, b"v", others, -1)]
    first, second = (
        dict(zip([column.name for column in LOGS], row, strict=True)) for row in log_rows("east", PARTITION, records)
    )

    assert first == {
        "cluster": "east",
        "topic": "orders",
        "partition": 3,
        "offset": 7,
        "timestamp_ms": 1000,
        "producer": "p-0",
        "sequence": 41,
        "digest": digest(encode_content(b"k", None, mine)),
        "size_bytes": len(encode_content(b"k", None, mine)),
        "producer_id": 99,
    }
    assert (second["producer"], second["sequence"]) == (None, None)


def test_a_log_that_was_not_read_to_its_end_is_a_gap_that_names_it() -> None:
    whole = LogOutcome("east", PARTITION, 0, 10, 10, 0.1, None, Path("a"))
    short = LogOutcome("west", PARTITION, 5, 10, 2, 0.1, "ConnectionFailed: gone", Path("b"))

    [gap] = gaps_of([whole, short])
    assert str(gap) == "west orders-3 [5, 10): was not read to the end: ConnectionFailed: gone"
    assert gap.log == ("west", PARTITION)


def test_records_are_looked_at_as_the_transforms_make_them() -> None:
    """One that they leave out is counted; one that they fail on is still looked for, or ends the copy."""

    def wanted(name: str, *, skips_errors: bool = False) -> LogRange:
        chain = Chain((ChainedTransform("mine", PythonFunction(f"tests.transform_functions:{name}")),), skips_errors)
        return LogRange("east", {}, PARTITION, 0, 9, transform=chain.of_topic("east.orders"))

    records = [Record(offset, 1000, None, value, (), -1) for offset, value in enumerate([b"a", b"poison", b"b"])]
    assert list(ChangedRecords(records, LogRange("east", {}, PARTITION, 0, 9))) == records
    dropping = ChangedRecords(records, wanted("drop_odd"))
    assert list(dropping) == [records[0], records[2]]
    assert dropping.filtered == Filtered(1, 1, 1)
    failing = ChangedRecords(records, wanted("fail_on_poison", skips_errors=True))
    assert list(failing) == records
    assert failing.filtered == Filtered()
    with pytest.raises(ValueError, match="at offset 1"):
        list(ChangedRecords(records, wanted("fail_on_poison")))


def test_a_topic_with_the_longest_name_is_read_into_a_file_of_its_own(tmp_path: Path) -> None:
    """The name of the file was too long, and with it the comparison of all topics ended."""
    names = ("t" * 249, f"{'t' * 248}u")
    found = [
        _read_range(LogRange("east", {}, TopicPartition(each, 0), 0, 10, stretches=()), tmp_path) for each in names
    ]
    assert [each.problem for each in found] == [None, None]
    assert len(list(tmp_path.glob("*.parquet"))) == 2
