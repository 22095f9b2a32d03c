"""What tells one record from another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.model.ledger import LEDGER_HEADER, RecordId, digest, encode_content, record_id

content = st.none() | st.binary(max_size=20)
headers = st.lists(st.tuples(st.text(max_size=5), content), max_size=4)
records = st.tuples(content, content, headers)


@given(records, records)
def test_records_have_the_same_encoding_only_if_they_are_the_same(one: tuple, other: tuple) -> None:  # type: ignore[type-arg]
    assert (encode_content(*one) == encode_content(*other)) == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((None, b"", []), (b"", None, [])),
        ((b"a", b"bc", []), (b"ab", b"c", [])),
        ((b"k", b"v", [("h", None)]), (b"k", b"v", [("h", b"")])),
        ((b"k", b"v", [("a", b"1"), ("b", b"2")]), (b"k", b"v", [("b", b"2"), ("a", b"1")])),
        ((b"k", b"v", [("a", b"1"), ("a", b"1")]), (b"k", b"v", [("a", b"1")])),
    ],
    ids=["null is not empty", "bytes moved", "null header is not empty", "headers swapped", "header doubled"],
)
def test_a_difference_that_a_careless_copy_makes_changes_the_digest(one: tuple, other: tuple) -> None:  # type: ignore[type-arg]
    assert digest(encode_content(*one)) != digest(encode_content(*other))


def test_the_encoding_is_that_of_a_kafka_record() -> None:
    """Zigzag varints: length 1 is 02, null is 01, 200 is 90 03, and two headers are 04."""
    encoded = encode_content(b"k", None, [("h", b"x" * 200), ("n", None)])

    assert encoded == b"\x02k" + b"\x01" + b"\x04" + b"\x02h" + b"\x90\x03" + b"x" * 200 + b"\x02n" + b"\x01"


@pytest.mark.parametrize("length", [0, 63, 64, 4095, 4096, 2_100_000])
def test_lengths_of_any_size_are_encoded(length: int) -> None:
    encoded = encode_content(None, bytes(length), [])
    number, shift = 0, 0
    for byte in encoded[1:6]:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break

    assert number >> 1 == length


@given(st.text(min_size=1, max_size=20), st.integers(min_value=0, max_value=2**62))
def test_an_id_travels_in_its_header(producer: str, sequence: int) -> None:
    identity = RecordId(producer, sequence)

    assert record_id([("trace", b"x"), identity.header()]) == identity


@pytest.mark.parametrize("value", [None, b"", b"p", b":5", b"p:", b"p:x", b"p:-1", b"p:\xc2\xb2", b"\xff"])
def test_a_header_of_that_name_in_another_form_is_somebody_elses(value: bytes | None) -> None:
    assert record_id([(LEDGER_HEADER, value)]) is None
