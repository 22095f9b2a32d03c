"""What brokers older than 0.11 stored is read as Java reads it, and comes as batches that can be copied."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from mirror.kafka import batch, old_format
from mirror.kafka.batch import CorruptBatch, Record

# Written, and read back, by Java's classes of Kafka 4.3.1: bytes, and (offset, timestamp, key, value) of each record.
GOLDEN: dict[str, Any] = json.loads(Path(__file__).with_name("golden_old_batches.json").read_text())
NONE, GZIP = 0, 1


nullable = st.none() | st.binary(max_size=30)
# Hole before the record, timestamp, key, value.
contents = st.lists(
    st.tuples(st.sampled_from([0, 0, 0, 1, 7]), st.integers(-1, 2**45), nullable, nullable), min_size=1, max_size=6
)
# Message format, codec, contents of what one wrapper or row of plain messages holds.
sets = st.lists(st.tuples(st.sampled_from([0, 1]), st.sampled_from([NONE, GZIP]), contents), min_size=1, max_size=5)


def unhexed(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def read_all(content: bytes) -> list[Record]:
    """Every record, by way of batches of format 2."""
    found = []
    for part, header in batch.batches(memoryview(content), 0, len(content)):
        records = batch.records(part)
        assert (header.magic, header.is_dense, header.is_control, header.producer_id) == (2, True, False, -1)
        assert (header.base_offset, header.next_offset) == (records[0].offset, records[-1].offset + 1)
        found += records
    return found


def message(offset: int, magic: int, value: bytes | None, *, attributes: int = 0, timestamp: int = 5) -> bytes:
    """A message without a key."""
    field = struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    checked = struct.pack(">BB", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    checked += struct.pack(">i", -1) + field
    return struct.pack(">qiI", offset, len(checked) + 4, zlib.crc32(checked)) + checked


@pytest.mark.parametrize("name", GOLDEN)
def test_what_java_has_written_is_read_as_java_reads_it(name: str) -> None:
    found = read_all(bytes.fromhex(GOLDEN[name]["bytes"]))
    assert [each[:4] for each in found] == [
        (offset, timestamp, unhexed(key), unhexed(value))
        for offset, timestamp, key, value, _ in GOLDEN[name]["records"]
    ]
    assert {each.headers for each in found} == {()}


@pytest.mark.parametrize("name", [name for name in GOLDEN if "compacted" not in name])
def test_compression_stays_as_it_was(name: str) -> None:
    content = bytes.fromhex(GOLDEN[name]["bytes"])
    codecs = {header.codec for _, header in batch.batches(memoryview(content), 0, len(content))}
    assert codecs == {["none", "gzip", "snappy", "lz4"].index(name.split("-")[2])}


def written(
    shapes: list[tuple[int, int, list[tuple[int, int, bytes | None, bytes | None]]]],
) -> tuple[bytes, list[Any]]:
    """A log of both formats as another implementation writes it, and what is in it."""
    log, expected, offset = b"", [], 3
    for magic, codec, records in shapes:
        builder = LegacyRecordBatchBuilder(magic, codec, 1 << 30)
        base = offset
        for hole, timestamp, key, value in records:
            offset += hole
            is_relative = bool(codec) and magic == 1
            builder.append(offset - base if is_relative else offset, timestamp, key, value)
            expected.append((offset, timestamp if magic else -1, key, value))
            offset += 1
        content = bytearray(builder.build())
        if codec:
            struct.pack_into(">q", content, 0, offset - 1)
        log += content
    return log, expected


@given(sets)
def test_every_record_of_a_log_is_read_whatever_the_formats(shapes: Any) -> None:
    log, expected = written(shapes)
    assert [each[:4] for each in read_all(log)] == expected


@given(sets, st.integers(0, 300))
def test_the_torn_end_of_a_fetch_is_left_and_all_before_it_is_read(shapes: Any, cut: int) -> None:
    log, expected = written(shapes)
    found = [each[:4] for each in read_all(log[: max(0, len(log) - cut)])]
    assert found == expected[: len(found)]
    if not cut:
        assert len(found) == len(expected)


def test_a_log_goes_on_in_format_2() -> None:
    """A cluster was upgraded: old segments end, new batches follow."""
    new = bytearray(batch.encode([Record(0, 9, b"k", b"v", (("h", b""),), -1)], NONE))
    struct.pack_into(">q", new, 0, 52)
    old = bytes.fromhex(GOLDEN["magic-0-none"]["bytes"]) + bytes.fromhex(GOLDEN["magic-1-lz4-compacted"]["bytes"])
    assert [each.offset for each in read_all(old + bytes(new))] == [41, 42, 43, 44, 41, 44, 50, 51, 52]


def test_plain_messages_are_read_together_and_not_without_bound() -> None:
    log = b"".join(message(offset, 1, b"x" * 1000) for offset in range(300))
    parts = list(batch.batches(memoryview(log), 0, len(log)))
    assert sum(header.record_count for _, header in parts) == 300
    assert len(parts) == 3
    assert max(len(content) for content, _ in parts) <= old_format.MOST_BYTES_TOGETHER


def test_a_wrapper_at_offset_0_has_right_offsets_in_it() -> None:
    """As certain versions of librdkafka wrote it, and Java's consumer reads it."""
    inner = message(0, 1, b"a") + message(1, 1, b"b")
    wrapper = message(0, 1, batch.compression.compress(GZIP, inner), attributes=GZIP)
    assert [each.offset for each in read_all(wrapper)] == [0, 1]


def damaged(name: str, position: int) -> bytes:
    content = bytearray(bytes.fromhex(GOLDEN[name]["bytes"]))
    content[position] ^= 1
    return bytes(content)


GZIPPED = batch.compression.compress(GZIP, message(0, 0, b"a"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (damaged("magic-0-none", 30), "offset 41 does not match its checksum"),
        (damaged("magic-1-lz4", -1), "offset 44 does not match its checksum"),
        (struct.pack(">qiIBB", 7, 3, 0, 0, 0) + bytes(20), "offset 7 says that it has 3 bytes"),
        (message(5, 1, None, attributes=GZIP), "offset 5 .* cannot be decompressed"),
        (message(5, 1, b"no gzip", attributes=GZIP), "offset 5 cannot be decompressed"),
        (message(5, 0, b"\x04\x22\x4d\x18", attributes=3), "offset 5 cannot be decompressed"),
        (message(5, 1, b"zstd", attributes=4), r"offset 5 \(codec 4\)"),
        (message(5, 1, GZIPPED, attributes=GZIP), "offset 5 holds what is no plain message"),
        (message(5, 1, batch.compression.compress(GZIP, b""), attributes=GZIP), "offset 5 has no messages"),
        (
            message(5, 1, batch.compression.compress(GZIP, message(6, 1, b"a")), attributes=GZIP),
            "offset 5 has the offset 6 in it",
        ),
        (
            message(5, 0, batch.compression.compress(GZIP, message(5, 0, GZIPPED, attributes=GZIP)), attributes=GZIP),
            "no plain message",
        ),
    ],
)
def test_damage_is_named_and_what_came_before_it_is_read(content: bytes, said: str) -> None:
    whole = message(1, 1, b"a") + message(2, 1, b"b")
    found = batch.batches(memoryview(whole + content), 0, len(whole) + len(content))
    assert [each.offset for each in batch.records(next(found)[0])] == [1, 2]
    with pytest.raises(CorruptBatch, match=said):
        next(found)


def test_damage_inside_a_compressed_message_is_found_too() -> None:
    """Its own checksum covers what was compressed, right or wrong: so the messages inside are checked."""
    inner = bytearray(message(0, 1, b"value"))
    inner[-1] ^= 1
    wrapper = message(9, 1, batch.compression.compress(GZIP, bytes(inner)), attributes=GZIP)
    with pytest.raises(CorruptBatch, match="does not match its checksum"):
        read_all(wrapper)
