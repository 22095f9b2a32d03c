"""What a load generator sends is decided by its seed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice

import pytest

from mirror.lab.workload import HeaderKind, PlannedRecord, Workload, partition_of, planned_records
from mirror.model.ledger import record_id

SHAPE = Workload((("orders", 4), ("payments", 2)), keys=50, value_bytes=100, tombstones=0.1, seed=7)


def first(count: int, workload: Workload = SHAPE, producer: str = "p-0") -> list[PlannedRecord]:
    return list(islice(planned_records(workload, producer), count))


def test_the_same_seed_gives_the_same_records_and_another_producer_gives_others() -> None:
    assert first(200) == first(200)
    assert [record.key for record in first(200)] != [record.key for record in first(200, producer="p-1")]


def test_every_record_carries_its_id_and_sequences_have_no_hole() -> None:
    records = first(500)

    assert [record_id(record.headers) for record in records] == [("p-0", number) for number in range(500)]
    assert all(record_id(record.headers) == record.id for record in records)


def test_a_key_always_goes_to_one_partition_of_a_topic_and_all_partitions_are_used() -> None:
    records = first(5000)

    assert all(record.partition == partition_of(record.key, dict(SHAPE.partitions)[record.topic]) for record in records)
    assert {(record.topic, record.partition) for record in records} == {
        (topic, number) for topic, count in SHAPE.partitions for number in range(count)
    }


def test_values_have_their_size_and_the_asked_fraction_is_null() -> None:
    records = first(5000)
    nulls = sum(record.value is None for record in records)

    assert {len(record.value) for record in records if record.value is not None} == {100}
    assert nulls == pytest.approx(500, rel=0.25)


def test_mixed_headers_hold_what_copies_break_on() -> None:
    seen = Counter()  # type: ignore[var-annotated]
    for record in first(200):
        names = [name for name, _ in record.headers]
        seen["none beside the ledger's"] += len(names) == 1
        seen["a name twice"] += len(names) != len(set(names))
        seen["null"] += any(value is None for _, value in record.headers)
        seen["empty"] += any(value == b"" for _, value in record.headers)

    assert all(seen[kind] for kind in ("none beside the ledger's", "a name twice", "null", "empty")), seen


@pytest.mark.parametrize(("kind", "count"), [(HeaderKind.NONE, 1), (HeaderKind.PLAIN, 2)])
def test_other_kinds_of_headers_are_the_same_for_all(kind: HeaderKind, count: int) -> None:
    workload = Workload(SHAPE.partitions, headers=kind)

    assert {len(record.headers) for record in first(50, workload)} == {count}


def test_a_topic_with_empty_values_and_one_key_is_possible() -> None:
    assert {(record.key, record.value) for record in first(50, Workload((("t", 3),), keys=1, value_bytes=0))} == {
        (b"key-0", b"")
    }


def test_large_records_are_drawn_apart_so_that_all_else_stays_as_it_is() -> None:
    plain = first(2000)
    mixed = first(2000, replace(SHAPE, large=0.05, large_bytes=5000))
    large = [record for record in mixed if len(record.value or b"") == 5000]

    assert 60 <= len(large) <= 140
    assert [(record.key, record.topic) for record in mixed] == [(record.key, record.topic) for record in plain]
    assert all(new == old for new, old in zip(mixed, plain, strict=True) if len(new.value or b"") != 5000)
