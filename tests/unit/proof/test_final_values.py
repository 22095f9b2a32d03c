"""What compaction promises to keep: the newest value of every key."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror.kafka.batch import Record
from mirror.proof.final_values import FinalValues, compare_final_values

KEYS = st.sampled_from([b"a", b"b", b"c", b"d"])
VALUES = st.none() | st.binary(max_size=2)


def log(*pairs: tuple[bytes | None, bytes | None]) -> list[Record]:
    return [Record(offset, 0, key, value, (), 1) for offset, (key, value) in enumerate(pairs)]


def compacted(records: list[Record], up_to: int) -> list[Record]:
    """What a cleaner leaves that has come as far as an offset."""
    last = {record.key: record.offset for record in records if record.offset < up_to}
    return [record for record in records if record.offset >= up_to or last[record.key] == record.offset]


@given(
    pairs=st.lists(st.tuples(KEYS, VALUES), max_size=20), cleaned=st.integers(0, 20), copy_cleaned=st.integers(0, 20)
)
def test_how_far_either_cleaner_has_come_makes_no_difference(
    pairs: list[tuple[bytes, bytes | None]], cleaned: int, copy_cleaned: int
) -> None:
    records = log(*pairs)

    assert compare_final_values(compacted(records, cleaned), compacted(records, copy_cleaned)).stale == 0


def test_an_old_value_a_missing_key_and_one_that_should_be_deleted_are_stale() -> None:
    source = log((b"a", b"2"), (b"b", b"1"), (b"c", None), (b"d", b"1"))
    copy = log((b"a", b"1"), (b"c", b"9"), (b"d", b"1"), (None, b"x"))

    assert compare_final_values(source, copy) == FinalValues(keys=3, stale=3)
