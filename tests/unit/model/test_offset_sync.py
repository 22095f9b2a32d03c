"""Offset syncs: their bytes (section 3.2)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror.model.offset_sync import OffsetSync
from mirror.model.partition import TopicPartition
from tests.strategies import OFFSETS, PARTITIONS

ORDERS = TopicPartition("orders", 3)


def test_the_golden_bytes() -> None:
    sync = OffsetSync(ORDERS, 100, 42)
    assert sync.key_bytes().hex() == "00066f726465727300000003"
    assert sync.value_bytes().hex() == "0000000000000064000000000000002a"


@given(partition=PARTITIONS, upstream=OFFSETS, downstream=OFFSETS)
def test_what_is_written_reads_back(partition: TopicPartition, upstream: int, downstream: int) -> None:
    sync = OffsetSync(partition, upstream, downstream)
    assert OffsetSync.parse(sync.key_bytes(), sync.value_bytes()) == sync


@given(key=st.none() | st.binary(max_size=20), value=st.none() | st.binary(max_size=15))
def test_what_does_not_parse_is_passed_over(key: bytes | None, value: bytes | None) -> None:
    assert OffsetSync.parse(key, value) is None
