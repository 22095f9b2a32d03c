"""Two logs compared batch by batch: what is found equal is, and every other record is left to be looked at."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.kafka import batch
from mirror.kafka.batch import Header, Producer
from mirror.kafka.problems import ConnectionFailed
from mirror.model.absences import Absence, AbsenceKind
from mirror.model.offset_map import Run, Runs
from mirror.model.partition import TopicPartition
from mirror.proof.log_reader import LogRange
from mirror.proof.pairs import Amount, Mark, PartitionPair
from mirror.proof.raw_batches import RawComparison, RawFinding
from mirror.proof.raw_reader import shares_of
from tests.raw_logs import MIRROR, SOMEBODY, Log, Mirrored, happened, record

SOURCE, COPY = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
TRANSACTIONAL, DELETE_HORIZON = 0x10, 0x40


def pair_of(
    logs: Mirrored,
    source: tuple[int, int] | None = None,
    copy: tuple[int, int] | None = None,
    **more: object,
) -> PartitionPair:
    return PartitionPair(
        LogRange("east", {}, SOURCE, *(source or (0, logs.source.end))),
        LogRange("west", {}, COPY, *(copy or (0, logs.copy.end))),
        Runs.of(logs.runs),
        frozenset({MIRROR.producer_id}),
        **more,  # type: ignore[arg-type]
    )


def compared(logs: Mirrored, pair: PartitionPair) -> RawFinding:
    comparison = RawComparison(pair)
    comparison.compare(
        logs.source.read(pair.source.start, pair.source.end), logs.copy.read(pair.target.start, pair.target.end)
    )
    return comparison.found()


def three_batches() -> Mirrored:
    """Three batches of four records, copied as they are: offsets 0 to 11 on both sides."""
    logs = Mirrored()
    for first in (0, 4, 8):
        logs.source.append([record(first + number) for number in range(4)], 4)
        logs.record_run(first, logs.copy.mirror(logs.source.batches[-1][0]), 4)
    return logs


def changed(content: memoryview, **fields: int) -> memoryview:
    """A batch with other fields in its header, and the checksum of what it is now."""
    kept = memoryview(bytearray(content))
    header = Header._make(batch.HEADER.unpack_from(kept))._replace(**fields)
    batch.HEADER.pack_into(kept, 0, *header)
    struct.pack_into(">I", kept, 17, batch.crc32c(kept[21:]))
    return kept


def test_what_was_passed_on_is_equal_and_needs_no_look_at_its_records() -> None:
    logs = three_batches()
    found = compared(logs, pair_of(logs))

    assert found.amount == Amount(12, sum(len(content) for content, _ in logs.source.batches))
    assert (found.rest, found.target_rest, found.foreign) == ((), (), 0)
    assert list(Runs(found.equal)) == [Run(0, 0, 12)]
    last, copied = logs.source.batches[-1][1], logs.copy.batches[-1][1]
    assert (found.last, found.target_last) == (Mark(8, 3, last.crc), Mark(8, 3, copied.crc))


@pytest.mark.parametrize("flag", [TRANSACTIONAL, DELETE_HORIZON])
def test_transactions_and_the_delete_horizon_make_no_difference(flag: int) -> None:
    logs = three_batches()
    content, header = logs.source.batches[1]
    logs.source.batches[1] = next(
        batch.batches(it := changed(content, attributes=header.attributes | flag), 0, len(it))
    )

    assert compared(logs, pair_of(logs)).rest == ()


@pytest.mark.parametrize(
    "fields",
    [
        {"attributes": 4 | 0x08},
        {"base_timestamp": 1},
        {"max_timestamp": 1},
        {"record_count": 3},
        {"last_offset_delta": 2},
        {"producer_id": SOMEBODY.producer_id},
        {"base_offset": 5},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_header_that_says_something_else_of_the_records_leaves_them_to_be_compared(fields: dict[str, int]) -> None:
    logs = three_batches()
    it = changed(logs.copy.batches[1][0], **fields)
    logs.copy.batches[1] = next(batch.batches(it, 0, len(it)))
    found = compared(logs, pair_of(logs))

    assert found.rest == ((4, 8),)
    assert found.amount.records == 8
    assert len(found.target_rest) == 1


def test_one_bit_is_found() -> None:
    logs = three_batches()
    kept = memoryview(bytearray(logs.copy.batches[2][0]))
    kept[-1] ^= 1
    struct.pack_into(">I", kept, 17, batch.crc32c(kept[21:]))
    logs.copy.batches[2] = next(batch.batches(kept, 0, len(kept)))
    found = compared(logs, pair_of(logs))

    assert (found.rest, found.target_rest) == (((8, 12),), ((8, 12),))


def test_joined_and_cut_batches_are_left_and_nothing_around_them() -> None:
    logs = three_batches()
    logs.source.append([record(12), record(13)])
    logs.source.append([record(14)])
    logs.record_run(12, logs.copy.append([record(12), record(13), record(14)], 0, MIRROR), 3)
    logs.source.append([record(15), record(16)])
    logs.record_run(15, logs.copy.append([record(15)], 0, MIRROR), 1)
    logs.record_run(16, logs.copy.append([record(16)], 0, MIRROR), 1)
    logs.source.append([record(17)])
    logs.record_run(17, logs.copy.mirror(logs.source.batches[-1][0]), 1)
    found = compared(logs, pair_of(logs))

    assert (found.rest, found.target_rest) == (((12, 17),), ((12, 17),))
    assert found.amount.records == 13


def test_a_copy_that_is_not_where_the_map_says_is_left() -> None:
    logs = three_batches()
    logs.runs = [Run(0, 0, 4), Run(4, 5, 4), Run(8, 8, 4)]
    found = compared(logs, pair_of(logs))

    assert (found.rest, found.target_rest) == (((4, 8),), ((4, 8),))


@pytest.mark.parametrize("runs", [[Run(0, 0, 6), Run(8, 8, 4)], [Run(0, 0, 4), Run(6, 6, 6)]], ids=["end", "start"])
def test_a_batch_of_which_the_map_knows_only_a_part_is_left(runs: list[Run]) -> None:
    """The others of its records may be anywhere, as far as is known."""
    logs = three_batches()
    logs.runs = runs
    found = compared(logs, pair_of(logs))

    assert (found.rest, found.target_rest) == (((4, 8),), ((4, 8),))
    assert found.amount.records == 8


def test_a_batch_right_behind_what_is_said_to_be_absent_is_not_looked_at() -> None:
    logs = three_batches()
    gap = Absence(AbsenceKind.GAP, 2, 4, "poison", acknowledged=False)
    assert compared(logs, pair_of(logs, absences=(gap,))).rest == ((0, 4),)


def test_without_known_writers_whoever_wrote_it_is_taken_for_the_copy() -> None:
    logs = three_batches()
    pair = pair_of(logs)
    found = compared(logs, PartitionPair(pair.source, pair.target, pair.runs))
    assert (found.amount.records, found.rest) == (12, ())


def test_what_was_read_last_is_known_whatever_became_of_it() -> None:
    """Of two ranges, that of the later one; of a batch that was left, too."""
    logs = three_batches()
    logs.source.append([record(12), record(13)])
    logs.copy.append([record(12), record(99)], 0, MIRROR)
    logs.record_run(12, 12, 2)
    found = compared(logs, pair_of(logs))
    assert found.last is not None
    assert found.target_last is not None
    assert (found.last.base_offset, found.target_last.base_offset) == (12, 12)
    first, later = compared(logs, pair_of(logs, (0, 4), (0, 4))), compared(logs, pair_of(logs, (4, 12), (4, 12)))
    both = first.then(later)
    assert (both.last, both.target_last) == (later.last, later.target_last)
    assert later.then(RawFinding()).last == later.last


def test_what_is_not_copied_on_is_judged_though_it_is_the_last() -> None:
    logs = Mirrored()
    logs.source.append([record(0)])
    logs.record_run(0, logs.copy.mirror(logs.source.batches[-1][0]), 1)
    logs.source.append([record(1)], 0, Producer(55, 0))
    pair = pair_of(logs)

    def broken() -> Iterator[tuple[memoryview, Header]]:
        yield from logs.source.batches
        raise ConnectionFailed("east is gone")

    left_out = LogRange("east", {}, SOURCE, 0, 2, left_out=frozenset({55}))
    comparison = RawComparison(PartitionPair(left_out, pair.target, pair.runs, pair.writers))
    with pytest.raises(ConnectionFailed):
        comparison.compare(broken(), logs.copy.batches)
    assert comparison.found("east is gone").rest == ()


def test_batches_that_reach_beyond_the_range_are_left_as_far_as_they_lie_in_it() -> None:
    logs = three_batches()
    found = compared(logs, pair_of(logs, (1, 11), (1, 11)))

    assert (found.rest, found.target_rest) == (((1, 4), (8, 11)), ((1, 4), (8, 11)))
    assert found.amount.records == 4
    assert compared(logs, pair_of(logs, (1, 11))).rest == ((1, 4), (8, 11))
    assert compared(logs, pair_of(logs, copy=(1, 11))).rest == ((0, 4), (8, 12))


def test_what_is_said_to_be_absent_is_looked_at() -> None:
    logs = three_batches()
    gap = Absence(AbsenceKind.GAP, 5, 6, "poison", acknowledged=False)
    found = compared(logs, pair_of(logs, absences=(gap,)))

    assert (found.rest, found.target_rest) == (((4, 8),), ((4, 8),))


def test_what_others_wrote_is_counted_where_they_may_write_and_left_where_not() -> None:
    logs = three_batches()
    logs.copy.append([record(1), record(2)], 0, SOMEBODY)

    shared = compared(logs, pair_of(logs, is_shared=True))
    assert (shared.foreign, shared.target_rest) == (2, ())
    own = compared(logs, pair_of(logs))
    assert (own.foreign, own.target_rest) == (0, ((12, 14),))
    half = compared(logs, pair_of(logs, copy=(0, 13), is_shared=True))
    assert (half.foreign, half.target_rest) == (0, ((12, 13),))


def test_before_the_flow_took_over_the_copies_are_those_of_java_mirrormaker_which_has_no_producer_id() -> None:
    logs = Mirrored()
    for first in (0, 4):
        logs.source.append([record(first + number) for number in range(4)])
        logs.record_run(first, logs.copy.append([record(first + number) for number in range(4)]), 4)

    taken_over = compared(logs, pair_of(logs, own_from=4))
    assert (taken_over.amount.records, taken_over.rest, taken_over.target_rest) == (4, ((4, 8),), ((4, 8),))
    assert compared(logs, pair_of(logs, own_from=5)).rest == ()
    assert compared(logs, pair_of(logs, own_from=8, is_shared=True)).rest == ()


def test_before_the_flow_took_over_whoever_has_a_producer_id_is_somebody_else_where_others_may_write() -> None:
    logs = Mirrored()
    logs.source.append([record(0), record(1)])
    logs.record_run(0, logs.copy.append([record(0), record(1)], 0, SOMEBODY), 2)
    found = compared(logs, pair_of(logs, own_from=2, is_shared=True))
    assert (found.amount.records, found.foreign, found.rest) == (0, 2, ((0, 2),))
    assert compared(logs, pair_of(logs, own_from=2)).amount.records == 2


def test_of_others_only_whole_batches_are_counted_by_their_headers() -> None:
    logs = three_batches()
    logs.copy.append([record(1), record(2), record(3)], 0, SOMEBODY)
    at_first = compared(logs, pair_of(logs, (12, 12), (12, 15), is_shared=True))
    assert (at_first.foreign, at_first.target_rest) == (3, ())
    thin = changed(logs.copy.batches[-1][0], record_count=2)
    logs.copy.batches[-1] = next(batch.batches(thin, 0, len(thin)))
    found = compared(logs, pair_of(logs, is_shared=True))
    assert (found.foreign, found.target_rest) == (0, ((12, 15),))


def test_records_that_the_flow_does_not_copy_on_are_passed_over() -> None:
    logs = Mirrored()
    logs.source.append([record(0)], 0, Producer(55, 0))
    logs.source.append([record(1)])
    logs.record_run(1, logs.copy.mirror(logs.source.batches[-1][0]), 1)
    pair = pair_of(logs)
    source = LogRange("east", {}, SOURCE, 0, 2, left_out=frozenset({55}))
    found = compared(logs, PartitionPair(source, pair.target, pair.runs, pair.writers))

    assert (found.amount.records, found.rest) == (1, ())


def test_what_compaction_has_emptied_or_thinned_out() -> None:
    """A batch without records is nothing; one that lacks some was encoded anew by the copier."""
    logs = three_batches()
    content, _ = logs.source.batches[1]
    thin_copy = changed(logs.copy.batches[1][0], record_count=3)
    thin = changed(content, record_count=3)
    empty = changed(content[: batch.HEADER_BYTES], record_count=0, length=49)
    for it, rest in ((thin, ((4, 8),)), (empty, ())):
        logs.source.batches[1] = next(batch.batches(it, 0, len(it)))
        found = compared(logs, pair_of(logs))
        assert (found.rest, found.target_rest) == (rest, ((4, 8),))
    # Thinned out alike on both sides: the bytes do not say which offsets are left.
    for log, it in ((logs.source, thin), (logs.copy, thin_copy)):
        log.batches[1] = next(batch.batches(it, 0, len(it)))
    assert compared(logs, pair_of(logs)).rest == ((4, 8),)


def test_where_a_log_cannot_be_read_on_the_rest_is_left_and_what_was_found_stands() -> None:
    logs = three_batches()

    def broken() -> Iterator[tuple[memoryview, Header]]:
        yield from logs.copy.batches[:2]
        raise ConnectionFailed("west is gone")

    comparison = RawComparison(pair_of(logs))
    with pytest.raises(ConnectionFailed):
        comparison.compare(logs.source.batches, broken())
    found = comparison.found("west is gone")

    assert (found.amount.records, found.rest, found.target_rest) == (8, ((8, 12),), ((8, 12),))
    assert (found.last, found.target_last, found.problem) == (None, None, "west is gone")


@given(
    seed=st.integers(0, 2**32),
    damage=st.sampled_from([0.0, 0.05, 0.3]),
    share=st.sampled_from([5, 20, 1000]),
    is_shared=st.booleans(),
)
def test_every_record_is_either_found_equal_or_left_and_what_is_found_equal_is(
    seed: int, damage: float, share: int, is_shared: bool
) -> None:
    """Whatever has happened to the copy, in whatever pieces it is compared."""
    random = Random(seed)
    logs = happened(random, 25, damage=damage)
    start, end = sorted(random.sample(range(logs.source.end + 1), 2))
    first, last = sorted(random.sample(range(logs.copy.end + 1), 2))
    pair = pair_of(logs, (start, end), (first, last), is_shared=is_shared)
    found = RawFinding()
    for piece in (piece for pieces in shares_of({0: pair}, 1, fewest=share) for piece in pieces):
        found = found.then(compared(logs, piece.pair))
    equal = Runs(found.equal)
    proven = {run.upstream + index: run.downstream + index for run in equal for index in range(run.length)}

    def content(log: Log, within: tuple[int, int]) -> dict[int, tuple[object, ...]]:
        return {each.offset: (*each[1:5], each.producer_id) for each in log.records([within])}

    originals, copies = content(logs.source, (start, end)), content(logs.copy, (first, last))
    rest = {each.offset for each in logs.source.records(found.rest)}
    target_rest = {each.offset for each in logs.copy.records(found.target_rest)}
    of_others = {offset for offset, row in copies.items() if is_shared and row[-1] == SOMEBODY.producer_id}

    assert len(proven) == found.amount.records
    assert proven.keys() | rest == originals.keys()
    assert not proven.keys() & rest
    assert set(proven.values()) | target_rest | of_others == copies.keys()
    assert not set(proven.values()) & target_rest
    assert len(of_others - target_rest) == found.foreign
    assert all(originals[up][:4] == copies[down][:4] for up, down in proven.items())
    mapped = {run.upstream + index: run.downstream + index for run in logs.runs for index in range(run.length)}
    assert all(mapped[up] == down for up, down in proven.items())
