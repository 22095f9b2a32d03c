"""Who has written between our batches: by producer id, and where anybody may write only what is late of our own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.control import foreign_records
from mirror.control.foreign_records import find_foreign
from mirror.kafka.channel import Channel
from mirror.model.partition import TopicPartition
from mirror.model.state_values import ForeignWriter

COPY = TopicPartition("east.orders", 1)
OURS, OTHER_MIRROR, STRANGER, NOBODY = 7, 8, 99, -1


def header(start: int, count: int, producer_id: int, *, is_transactional: bool = False) -> SimpleNamespace:
    return SimpleNamespace(
        base_offset=start,
        next_offset=start + count,
        record_count=count,
        producer_id=producer_id,
        is_transactional=is_transactional,
    )


class Reader:
    """A log whose batches come one a fetch, from the one that holds the offset that is asked for."""

    log: list[Any]
    fetched: int

    def __init__(self, _: object, __: TopicPartition, start: int) -> None:
        self.position = start

    def fetch(self, *, most_bytes: int) -> list[tuple[None, Any]]:
        Reader.fetched += 1
        found = [each for each in self.log if each.next_offset > self.position][:1]
        self.position = found[0].next_offset if found else self.position
        return [(None, each) for each in found]


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.setattr(foreign_records, "LogReader", Reader)
    Reader.log, Reader.fetched = [], 0
    return Reader.log


def found(
    start: int, end: int, *, mirrors: frozenset[int] | None = frozenset({OURS, OTHER_MIRROR}), **known: Any
) -> list[ForeignWriter]:
    told = find_foreign(cast(Channel, None), COPY, (start, end), mirrors, known.get("known", {}), 5, {OURS})
    assert told.keys() == {(COPY, each.producer_id) for each in told.values()}
    return list(told.values())


def test_whoever_is_no_mirror_is_told_with_where_and_how_much(log: list[Any]) -> None:
    log += [header(0, 3, STRANGER), header(3, 2, OTHER_MIRROR), header(5, 1, NOBODY), header(6, 2, STRANGER)]
    assert found(0, 8) == [ForeignWriter(COPY, STRANGER, 0, 8, 5, 5), ForeignWriter(COPY, NOBODY, 5, 6, 1, 5)]


def test_only_the_stretch_between_our_batches_is_told(log: list[Any]) -> None:
    """A batch that begins before it is not of it."""
    log += [header(0, 4, STRANGER), header(4, 1, STRANGER), header(5, 1, STRANGER)]
    assert found(2, 5) == [ForeignWriter(COPY, STRANGER, 4, 5, 1, 5)]
    assert Reader.fetched == 2, "no more is read than that"


def test_what_bears_our_own_id_is_late_unless_it_is_of_an_aborted_transaction(log: list[Any]) -> None:
    log += [header(0, 1, OURS), header(1, 1, OURS, is_transactional=True), header(2, 1, STRANGER)]
    assert found(0, 3, mirrors=None) == [ForeignWriter(COPY, OURS, 0, 1, 1, 5)], "anybody else may write there"
    assert [each.producer_id for each in found(0, 3)] == [OURS, STRANGER]


def test_what_was_known_of_a_writer_is_added_to(log: list[Any]) -> None:
    log += [header(10, 2, STRANGER)]
    known = {(COPY, STRANGER): ForeignWriter(COPY, STRANGER, 3, 4, 1, 1)}
    assert found(10, 12, known=known) == [ForeignWriter(COPY, STRANGER, 3, 12, 3, 5)]


def test_of_a_long_stretch_only_the_beginning_is_read(log: list[Any]) -> None:
    log += [header(number, 1, STRANGER) for number in range(100)]
    assert found(0, 100) == [ForeignWriter(COPY, STRANGER, 0, 4, 4, 5)]
    told = find_foreign(cast(Channel, None), COPY, (0, 100), frozenset(), {}, 5, (), is_whole=True)
    assert told == {(COPY, STRANGER): ForeignWriter(COPY, STRANGER, 0, 100, 100, 5)}
    assert find_foreign(cast(Channel, None), COPY, (0, 101), frozenset(), {}, 5, (), is_whole=True) == told, (
        "a log that ends before is not waited for"
    )
