"""Fingerprints tell equal records from others, without decoding them."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from mirror.kafka import batch
from mirror.kafka.batch import HEADER, HEADER_BYTES, CorruptBatch, Header, Record
from mirror.kafka.fingerprints import prints

TIME = 1_700_000_000_000


def logged(records: list[Record], base_offset: int, codec: int = 0) -> tuple[memoryview, Header]:
    """A batch as a log holds it."""
    content = batch.encode(records, codec)
    struct.pack_into(">q", content, 0, base_offset)
    return content, Header._make(HEADER.unpack_from(content))


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=60), st.integers(0, 4), st.booleans())
def test_prints_are_those_of_the_records(lengths: list[int], codec: int, has_key: bool) -> None:
    """Equal for equal records, wherever they lie in whatever batch; offsets and timestamps as decoded."""
    records = [
        Record(place, TIME + place * 70, b"k" if has_key else None, b"v" * length, (("h", None),), -1)
        for place, length in enumerate(lengths)
    ]
    content, header = logged(records, 1000, codec)
    found = prints(content, header)
    decoded = batch.records(content)
    assert [(one.offset, one.timestamp) for one in decoded] == list(zip(found.offsets, found.times, strict=True))
    for place, one in enumerate(records):
        (alone,) = prints(*logged([one], 0)).hashes
        assert alone == found.hashes[place]
        (other,) = prints(*logged([one._replace(value=b"other")], 0)).hashes
        assert other != alone


def test_a_batch_stamped_by_its_log_has_that_time() -> None:
    content, header = logged([Record(0, TIME, b"k", b"v", (), -1), Record(1, TIME + 5, b"k", b"v", (), -1)], 7)
    struct.pack_into(">h", content, 21, header.attributes | 0x08)
    struct.pack_into(">q", content, 35, TIME + 99)
    found = prints(content, Header._make(HEADER.unpack_from(content)))
    assert found.has_append_time
    assert found.times.tolist() == [TIME + 99] * 2
    assert found.hashes[0] == found.hashes[1]
    assert found.from_offset(8).offsets.tolist() == [8]


def test_a_batch_that_does_not_hold_together_is_refused() -> None:
    content, header = logged([Record(0, TIME, b"k", b"v" * 300, (), -1)], 7)
    cut = memoryview(bytearray(content[: HEADER_BYTES + 20]))
    struct.pack_into(">I", cut, 17, crc32c(cut[21:]))
    with pytest.raises(CorruptBatch, match="offset 7"):
        prints(cut, header)
