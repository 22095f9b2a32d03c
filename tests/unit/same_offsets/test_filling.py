"""Whatever becomes of an engine and its requests, a copy's records have the offsets of the source's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.model.position import Position
from mirror.same_offsets.filling import (
    FILLERS_A_BATCH,
    MANY,
    MARKERS_A_REQUEST,
    Ahead,
    Bounds,
    Copy,
    DeleteBefore,
    ManyMarkers,
    MarkerProducer,
    OneMarker,
    Padding,
    RaiseEpoch,
    Records,
    Refusal,
    Step,
    Tombstones,
    may_begin,
    next_step,
    origin,
)
from tests.unit.same_offsets.dense_broker import FILLER, MARKER, Partition, Refused, Wire

Draw = Callable[[st.SearchStrategy[Any]], Any]
FATES = [*["answered"] * 6, "no answer", "killed before it is read", "killed before the answer"]
ALLOWED, DENIED = MarkerProducer(3, writes_many=True), MarkerProducer(3, writes_many=False)


@pytest.mark.parametrize(
    ("source", "copy", "limit", "refusal"),
    [
        (Bounds(0, 10), Bounds(0, 0), 0, None),
        (Bounds(700, 900), Bounds(0, 0), 700, None),
        (Bounds(700, 900), Bounds(0, 0), 699, Refusal.OVER_LIMIT),
        # All that was there is removed: what is padded comes behind it.
        (Bounds(700, 900), Bounds(600, 600), 100, None),
        (Bounds(700, 900), Bounds(701, 701), 1000, Refusal.AHEAD),
        (Bounds(0, 900), Bounds(0, 1), 1000, Refusal.NOT_EMPTY),
    ],
)
def test_a_copy_may_begin_that_is_empty_and_not_ahead_of_the_source(
    source: Bounds, copy: Bounds, limit: int, refusal: Refusal | None
) -> None:
    found = may_begin(source, copy, limit)
    assert (found.refusal if found else None) is refusal


@pytest.mark.parametrize(
    ("copy", "ahead", "markers", "step"),
    [
        (Copy(Bounds(0, 0)), Ahead(120_000, 5), ALLOWED, Padding(FILLERS_A_BATCH)),
        (Copy(Bounds(0, 100_000)), Ahead(120_000, 5), ALLOWED, Padding(20_000)),
        (Copy(Bounds(0, 0), is_compacted=True), Ahead(120_000, 5), ALLOWED, Tombstones(FILLERS_A_BATCH)),
        (Copy(Bounds(0, 120_000)), Ahead(120_000, 5), ALLOWED, DeleteBefore(120_000)),
        (Copy(Bounds(120_000, 120_000)), Ahead(120_000, 5), ALLOWED, Records(5)),
        (Copy(Bounds(120_000, 120_005)), None, ALLOWED, None),
        (Copy(Bounds(120_000, 120_005)), Ahead(120_006, 5), ALLOWED, OneMarker()),
        (Copy(Bounds(120_000, 120_005)), Ahead(120_005 + MANY, 5), ALLOWED, ManyMarkers(MANY - 1)),
        (Copy(Bounds(120_000, 120_005)), Ahead(120_005 + MANY, 5), DENIED, OneMarker()),
        (Copy(Bounds(120_000, 120_005), is_compacted=True), Ahead(120_205, 5), ALLOWED, Tombstones(200)),
        # Brokers refuse DeleteRecords where nothing is deleted but by key.
        (Copy(Bounds(0, 120_000), is_compacted=True), Ahead(120_000, 5), ALLOWED, Records(5)),
        # What an engine of before may still have on its way is refused only behind a marker of this epoch.
        (Copy(Bounds(120_000, 120_005), may_get_markers=True), Ahead(120_205, 5), ALLOWED, OneMarker()),
        (Copy(Bounds(120_000, 120_005), marker_epoch=3), Ahead(120_205, 5), ALLOWED, RaiseEpoch()),
        (Copy(Bounds(120_000, 120_005)), Ahead(120_205, 5), MarkerProducer(0, writes_many=True), RaiseEpoch()),
    ],
)
def test_each_hole_is_filled_by_what_fits_it(
    copy: Copy, ahead: Ahead, markers: MarkerProducer, step: Step | None
) -> None:
    assert next_step(120_000, copy, ahead, markers) == step


class Engine:
    """One engine from its start until it is killed: all that it knows it has asked the broker."""

    def __init__(self, broker: Partition, late: Wire, draw: Draw, *, is_compacted: bool) -> None:
        """Take over; ``late`` is what others have sent and the broker may still read."""
        self.broker, self.late, self.draw, self.is_compacted = broker, late, draw, is_compacted
        #: What it has sent itself when it was killed.
        self.sent = Wire()
        self.writes_many = draw(st.booleans())
        self.may_get_markers = True
        self.epoch = broker.take_id()
        self.look()

    def look(self) -> None:
        """Sequence and end are two questions: what arrives in between shows in the sequence."""
        while True:
            self.sequence = self.broker.sequence
            self.wait()
            self.bounds = Bounds(self.broker.start, self.broker.end)
            self.wait()
            if self.broker.sequence == self.sequence:
                return

    def wait(self) -> None:
        if self.late.has_unread:
            self.late.deliver(self.draw(st.integers(0, 2)))

    def carry_out(self, step: Step) -> bool:
        """Return whether the engine lives."""
        for request in self.requests(step):
            self.wait()
            match self.draw(st.sampled_from(FATES)):
                case "killed before it is read":
                    self.sent.send(request)
                    return False
                case "killed before the answer":
                    is_read(request)
                    return False
                case "no answer":
                    # The connection breaks, and the broker may read the request later all the same.
                    self.late.send(request)
                    self.may_get_markers |= isinstance(step, ManyMarkers)
                    if isinstance(step, OneMarker):
                        # What is late of this epoch must not begin another transaction.
                        self.epoch = self.broker.take_id()
                    self.look()
                    return True
            if not is_read(request):
                self.look()
                return True
        self.took(step)
        return True

    def requests(self, step: Step) -> list[Callable[[], object]]:
        broker, epoch, sequence, end = self.broker, self.epoch, self.sequence, self.bounds.end
        match step:
            case Padding(count) | Tombstones(count):
                return [lambda: broker.append(sequence, [FILLER] * count)]
            case Records(count):
                return [lambda: broker.append(sequence, range(end, end + count))]
            case ManyMarkers(count):
                return [lambda: broker.write_markers(epoch - 1, count)]
            case OneMarker():
                return [lambda: broker.add_to_transaction(epoch), lambda: broker.end_transaction(epoch)]
            case DeleteBefore(offset):
                return [lambda: broker.delete_before(offset)]
        return []

    def took(self, step: Step) -> None:
        """What was answered is known."""
        match step:
            case Padding(count) | Tombstones(count) | Records(count):
                self.sequence, self.bounds = self.sequence + count, Bounds(self.bounds.start, self.bounds.end + count)
            case ManyMarkers(count):
                self.bounds = Bounds(self.bounds.start, self.bounds.end + count)
            case OneMarker() if self.may_get_markers:
                # What was on its way came before this one, or will be refused.
                self.may_get_markers = False
                self.look()
            case OneMarker():
                self.bounds = Bounds(self.bounds.start, self.bounds.end + 1)
            case DeleteBefore(offset):
                self.bounds = Bounds(offset, self.bounds.end)
            case RaiseEpoch():
                self.epoch = self.broker.take_id()

    def copy(self) -> Copy:
        return Copy(self.bounds, self.is_compacted, self.broker.marker_epoch, self.may_get_markers)

    def markers(self) -> MarkerProducer:
        return MarkerProducer(self.epoch, self.writes_many)


def is_read(request: Callable[[], object]) -> bool:
    try:
        request()
    except Refused:
        return False
    return True


def next_run(records: Sequence[int], end: int, draw: Draw) -> Ahead | None:
    """What a fetch brings: the next records, as many as it likes."""
    ahead = [each for each in records if each >= end]
    if not ahead:
        return None
    together = next((n for n, each in enumerate(ahead) if each != ahead[0] + n), len(ahead))
    return Ahead(ahead[0], draw(st.integers(1, together)))


@given(st.data())
def test_records_have_the_source_s_offsets_whatever_becomes_of_engines_and_their_requests(data: st.DataObject) -> None:
    is_compacted, head = data.draw(st.booleans()), data.draw(st.sampled_from([0, 1, 7]))
    holes = st.integers(1, 3) | st.integers(MANY, MANY + MARKERS_A_REQUEST)
    records: list[int] = []
    end = head
    for length, hole in data.draw(st.lists(st.tuples(st.integers(1, 9), holes), max_size=5)):
        records += range(end, end + length)
        end += length + hole
    broker, late, kills = Partition(), Wire(), 0
    engine = Engine(broker, late, data.draw, is_compacted=is_compacted)
    while (
        step := next_step(head, engine.copy(), next_run(records, engine.bounds.end, data.draw), engine.markers())
    ) is not None:
        if not engine.carry_out(step):
            kills += 1
            # A network that never gets better copies nothing.
            late = engine.sent if kills < 5 else Wire()
            engine = Engine(broker, late, data.draw, is_compacted=is_compacted)
    late.deliver(1000)
    copied = {offset: each for offset, each in enumerate(broker.log) if offset >= broker.start and each != MARKER}
    assert {offset: each for offset, each in copied.items() if each != FILLER} == {each: each for each in records}
    assert broker.start == (0 if is_compacted else head)
    assert is_compacted or FILLER not in copied.values()


@pytest.mark.parametrize(
    ("before", "is_two_way", "from_latest", "expected"),
    [
        (None, False, True, (900, False)),
        (None, False, False, (20, True)),
        # It had all; all from an offset on; and from one on that the source has removed since.
        (Position(500, 500, 0, True, 0, "here", "there"), False, True, (20, True)),
        (Position(500, 500, 100, False, 0, "here", "there"), False, True, (100, False)),
        (Position(500, 500, 10, False, 0, "here", "there"), False, True, (20, True)),
        # The source was created anew, or comes home to a topic that is made anew.
        (Position(500, 500, 100, False, 0, "former", "there"), False, True, (20, True)),
        (Position(500, 500, 100, False, 0, "here", "there"), True, True, (20, True)),
    ],
)
def test_latest_is_where_a_partition_begins_that_was_never_copied_and_not_where_its_copy_is_made_anew(
    before: Position | None, is_two_way: bool, from_latest: bool, expected: tuple[int, bool]
) -> None:
    """A failback made the old topic anew, and empty: verify said that the flow began behind all of it."""
    assert origin(Bounds(20, 900), before, "here", from_latest=from_latest, is_two_way=is_two_way) == expected
