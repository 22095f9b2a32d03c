"""MirrorMaker 2's own positions, byte for byte (section 3.3)."""

from __future__ import annotations

import pytest
from hypothesis import given

from mirror.model.connect_offsets import partition_of, read_source_positions, source_key, source_value
from mirror.model.partition import TopicPartition
from tests.strategies import OFFSETS, PARTITIONS, UNICODE

ORDERS = TopicPartition("orders", 3)


def test_the_golden_bytes() -> None:
    assert source_key("A", ORDERS) == b'["MirrorSourceConnector",{"cluster":"A","partition":3,"topic":"orders"}]'
    assert source_value(41) == b'{"offset":41}'


# Written by Connect's JsonConverter.
@pytest.mark.parametrize(
    ("alias", "written"),
    [
        ("é", "é".encode()),
        ('a"b', rb"a\"b"),
        ("a\\b", rb"a\\b"),
        ("a\\u001fb", rb"a\\u001fb"),
        ("a\x01\x1f\x7f\u2028", rb"a\u0001\u001F" + "\x7f\u2028".encode()),
        ("tab\t\n\r\b\f/", rb"tab\t\n\r\b\f/"),
        ("😀x", rb"\uD83D\uDE00x"),
    ],
)
def test_strings_are_escaped_as_jackson_does(alias: str, written: bytes) -> None:
    key = source_key(alias, ORDERS)
    assert key == b'["MirrorSourceConnector",{"cluster":"' + written + b'","partition":3,"topic":"orders"}]'


# Chosen by Kafka's default partitioner.
@pytest.mark.parametrize(
    ("alias", "source_partition", "partition"),
    [("A", 292, 4), ("é", 5, 17), ('a"b', 21, 11), ("a\\b", 60, 0), ("😀x", 202, 5), ("", 20, 5), ("us west", 229, 19)],
)
def test_a_key_goes_where_the_default_partitioner_puts_it(alias: str, source_partition: int, partition: int) -> None:
    assert partition_of(source_key(alias, TopicPartition("orders", source_partition)), 25) == partition


@given(alias=UNICODE, partition=PARTITIONS, last=OFFSETS)
def test_the_position_is_one_past_the_offset_kept(alias: str, partition: TopicPartition, last: int) -> None:
    assert read_source_positions([(source_key(alias, partition), source_value(last))], alias) == {partition: last + 1}


def test_the_newest_record_of_a_key_counts_and_a_tombstone_is_a_reset() -> None:
    """DED-14."""
    other = TopicPartition("orders", 4)
    records = [
        (source_key("A", ORDERS), source_value(1)),
        (source_key("A", other), source_value(7)),
        (source_key("A", ORDERS), source_value(2)),
        (source_key("A", other), None),
    ]
    assert read_source_positions(records, "A") == {ORDERS: 3}


def test_members_in_another_order_are_understood() -> None:
    key = b'[ "MirrorSourceConnector", {"topic": "orders", "partition": 3, "cluster": "A"} ]'
    assert read_source_positions([(key, b'{"offset": 4, "more": true}')], "A") == {ORDERS: 5}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b'{"offset":1}'),
        (b"", b'{"offset":1}'),
        (b"\xff", b'{"offset":1}'),
        (b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]', b'{"offset":0}'),
        (b'["MirrorCheckpointConnector",{"partition":3,"topic":"A.orders","group":"g"}]', b'{"offset":0}'),
        (source_key("B", ORDERS), source_value(1)),
        (b'["MirrorSourceConnector",{"cluster":"A","topic":"orders"}]', b'{"offset":1}'),
    ],
)
def test_entries_of_others_and_what_does_not_parse_are_passed_over(key: bytes | None, value: bytes) -> None:
    assert read_source_positions([(key, value)], "A") == {}
