"""After a crash the tail of the target says exactly how far the copy had got, whatever was written in between."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from mirror.copier.tail_match import Batch, Matched, Mismatch, match_tail
from mirror.kafka import batch
from mirror.kafka.batch import Producer, Record
from mirror.model.offset_map import Run
from tests.unit.copier.builders import TIME, as_logged, dense, record, sparse

OURS, ALSO_OURS, FOREIGN = Producer(7, 0), Producer(8, 3), Producer(99, 0)


def is_ours(producer_id: int) -> bool:
    return producer_id in (7, 8)


@dataclass(frozen=True)
class Log:
    """A source log: its batches, and the data records in them."""

    batches: tuple[Batch, ...]
    records: tuple[Record, ...]


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Batches of all codecs, some compacted, with holes between them where markers were."""
    batches: list[Batch] = []
    records: list[Record] = []
    offset = draw(st.integers(0, 4))
    for count, hole, codec, kept in draw(
        st.lists(
            st.tuples(st.integers(1, 5), st.integers(0, 2), st.integers(0, 4), st.sets(st.integers(0, 4), max_size=4)),
            min_size=1,
            max_size=8,
        )
    ):
        whole = [record(offset + number) for number in range(count)]
        some_left = [each for number, each in enumerate(whole) if number in kept]
        if some_left and len(some_left) < count:
            batches.append(sparse(some_left, offset, offset + count, codec))
            records += some_left
        else:
            batches.append(dense(whole, codec))
            records += whole
        offset += count + hole
    return Log(tuple(batches), tuple(records))


def copied(batches: Sequence[Batch], upstream: int, producer: Producer) -> list[bytes]:
    """What a lane that begins at ``upstream`` makes of the batches, as it sends it."""
    sent = []
    for content, header in batches:
        if header.is_dense and header.base_offset >= upstream:
            frame = memoryview(bytearray(content))
            sent.append(bytes(batch.pass_on(frame, header, producer, 5)))
        else:
            kept = [each for each in batch.records(content) if each.offset >= upstream]
            if kept:
                sent.append(bytes(batch.encode(kept, header.codec, producer, 5)))
    return sent


def appended(contents: Sequence[bytes], downstream: int) -> list[Batch]:
    """The log that holds ``contents`` from offset ``downstream`` on."""
    log = []
    for content in contents:
        log.append(as_logged(content, downstream))
        downstream = log[-1][1].next_offset
    return log


def pairs(runs: Sequence[Run]) -> list[tuple[int, int]]:
    return [(run.upstream + number, run.downstream + number) for run in runs for number in range(run.length)]


@given(logs(), st.data())
def test_the_tail_is_matched_exactly(source: Log, data: st.DataObject) -> None:
    """Whatever the crash left, wherever the last commit was, whoever wrote in between."""
    upstream = data.draw(st.integers(source.batches[0][1].base_offset, source.batches[-1][1].next_offset), "position")
    left = [each for each in source.batches if each[1].next_offset > upstream]
    sent = copied(left, upstream, data.draw(st.sampled_from([OURS, ALSO_OURS])))
    survived = sent[: data.draw(st.integers(0, len(sent)), "batches that had arrived")]
    tail: list[bytes] = []
    for content in survived:
        others = data.draw(st.integers(0, 2), "batches of others")
        tail += [bytes(batch.encode([record(10**6)], 0, FOREIGN, 0))] * others
        tail.append(content)
    log = appended(tail, data.draw(st.integers(0, 50)))

    outcome = match_tail(left, log, upstream, is_ours)

    assert isinstance(outcome, Matched)
    expected = [each for each in source.records if each.offset >= upstream]
    there = [each for content, header in log if is_ours(header.producer_id) for each in batch.records(content)]
    assert pairs(outcome.runs) == [
        (original.offset, copy.offset) for original, copy in zip(expected, there, strict=False)
    ]
    assert outcome.records == len(there)
    assert [each for each in expected if each.offset >= outcome.upstream] == expected[len(there) :]


@given(logs(), st.data())
def test_batches_need_not_have_been_cut_alike(source: Log, data: st.DataObject) -> None:
    """The records are what counts: a lane that begins elsewhere cuts elsewhere."""
    count = data.draw(st.integers(0, len(source.records)))
    contents: list[bytes] = []
    backoff = list(source.records[:count])
    while backoff:
        size = data.draw(st.integers(1, len(backoff)))
        contents.append(bytes(batch.encode(backoff[:size], data.draw(st.integers(0, 4)), OURS, 0)))
        backoff = backoff[size:]
    outcome = match_tail(source.batches, appended(contents, 10), source.records[0].offset, is_ours)
    assert isinstance(outcome, Matched)
    assert pairs(outcome.runs) == [(each.offset, 10 + place) for place, each in enumerate(source.records[:count])]
    assert outcome.records == count


@given(logs(), st.data())
def test_what_the_source_does_not_have_is_found(source: Log, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(source.records) - 1))
    altered = list(source.records)
    altered[place] = altered[place]._replace(
        **data.draw(st.sampled_from([{"value": b"other"}, {"key": None}, {"headers": ()}, {"timestamp": TIME - 1}]))
    )
    contents = [bytes(batch.encode([each], 0, OURS, 0)) for each in altered]
    outcome = match_tail(source.batches, appended(contents, 0), source.records[0].offset, is_ours)
    assert isinstance(outcome, Mismatch)
    assert f"at offset {place}," in outcome.reason
    assert f"from offset {altered[place].offset} on" in outcome.reason


@given(logs(), st.data())
def test_a_lost_or_a_doubled_record_is_found(source: Log, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(source.records) - 1))
    records = list(source.records)
    if place < len(records) - 1 and data.draw(st.booleans()):
        del records[place]
    else:
        records.insert(place, records[place])
    contents = [bytes(batch.encode([each], 0, OURS, 0)) for each in records]
    assert isinstance(match_tail(source.batches, appended(contents, 0), source.records[0].offset, is_ours), Mismatch)


def test_more_than_the_source_has_is_a_mismatch() -> None:
    """The source lost its end, or is another topic."""
    tail = appended([bytes(batch.encode([record(0), record(1)], 0, OURS, 0))], 0)
    outcome = match_tail([dense([record(0)])], tail, 0, is_ours)
    assert isinstance(outcome, Mismatch)


def test_what_lies_in_the_tail_of_a_transaction_is_no_copy() -> None:
    """Its position would have been committed with it: it was aborted."""
    inside = [bytes(batch.encode([record(number)], 0, Producer(7, 0, is_transactional=True), 0)) for number in (0, 1)]
    outside = bytes(batch.encode([record(0)], 0, ALSO_OURS, 0))
    outcome = match_tail([dense([record(0)])], appended([inside[0], outside, inside[1]], 4), 0, is_ours)
    assert outcome == Matched(1, (Run(0, 5, 1),), 1)


def test_a_target_that_stamps_records_itself_is_matched_by_the_rest() -> None:
    content = bytearray(batch.encode([record(0), record(1)], 0, OURS, 0))
    struct.pack_into(">h", content, 21, 0x08)
    struct.pack_into(">q", content, 35, TIME + 10**6)
    outcome = match_tail([dense([record(0), record(1)])], appended([bytes(content)], 3), 0, is_ours)
    assert outcome == Matched(2, (Run(0, 3, 2),), 2)


def test_without_a_tail_the_source_is_not_even_read() -> None:
    def unread() -> list[Batch]:
        raise AssertionError("the source was read")
        yield

    assert match_tail(unread(), [], 5, is_ours) == Matched(5, (), 0)


def test_a_record_that_is_missing_before_a_whole_batch_is_a_mismatch() -> None:
    """The batch behind it is the source's, byte for byte; what is left of the one before must not be passed over."""
    source = [dense([record(0), record(1)]), dense([record(2), record(3)])]
    tail = [bytes(batch.encode([record(0)], 0, OURS, 0)), bytes(batch.encode([record(2), record(3)], 0, OURS, 1))]
    outcome = match_tail(source, appended(tail, 0), 0, is_ours)
    assert isinstance(outcome, Mismatch)
    assert "from offset 1 on" in outcome.reason


def test_a_batch_that_begins_before_the_position_is_not_taken_as_a_whole() -> None:
    """The record before it is recorded already: there again it would be there twice."""
    source = [dense([record(0), record(1)])]
    tail = appended([bytes(batch.encode([record(0), record(1)], 0, OURS, 0))], 1)
    assert isinstance(match_tail(source, tail, 1, is_ours), Mismatch)
    assert match_tail(source, tail, 0, is_ours) == Matched(2, (Run(0, 1, 2),), 2)


def test_what_lies_before_the_position_on_the_copy_is_not_matched_once_more() -> None:
    """A match in pieces goes on right behind a record, in the middle of a batch perhaps."""
    source = [dense([record(1)]), dense([record(2)])]
    tail = appended([bytes(batch.encode([record(0), record(1), record(2)], 0, OURS, 0))], 8)
    assert match_tail(source, tail, 1, is_ours, downstream=9) == Matched(3, (Run(1, 9, 2),), 2)
    whole = [dense([record(1), record(2)])]
    assert match_tail(whole, tail, 1, is_ours, downstream=9) == Matched(3, (Run(1, 9, 2),), 2)
    doubled = appended([bytes(batch.encode([record(1), record(2)], 0, OURS, 0))], 8)
    assert isinstance(match_tail(whole, doubled, 1, is_ours, downstream=9), Mismatch)


def test_where_both_cleaners_have_removed_the_same_each_copy_has_its_own_offset() -> None:
    """A position that was translated back stood behind a record that was not read."""
    source = [sparse([record(20), record(22)], 20, 23)]
    content, header = sparse([record(20)._replace(offset=8), record(22)._replace(offset=10)], 8, 11)
    ours = (content, header._replace(producer_id=OURS.producer_id))
    assert match_tail(source, [ours], 20, is_ours) == Matched(23, (Run(20, 8, 1), Run(22, 10, 1)), 2)
