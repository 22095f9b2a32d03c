"""Behind a killed Java MirrorMaker the two logs say exactly how far it got, or that they cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.copier.tail_match import Batch
from mirror.copier.takeover import Found, JavaWrote, SourceLog, Unclear, match, search, watched
from mirror.kafka import batch
from mirror.kafka.batch import PLAIN, Producer, Record
from mirror.kafka.fingerprints import Fingerprints, all_fingerprints
from mirror.model.mm2_trace import Anchor, Mm2Trace, Pair, SyncTrail, find_anchor
from mirror.model.offset_map import Run
from tests.unit.copier.builders import TIME, as_logged, dense, flagged, record, sparse

FOREIGN, IDEMPOTENT, OURS = Producer(99, 0), Producer(50, 0), Producer(7, 0)


def is_ours(producer_id: int) -> bool:
    return producer_id == OURS.producer_id


@dataclass
class World:
    """A source, and what lives of MirrorMaker and others have written to the target."""

    source: list[Record]
    target: list[Batch] = field(default_factory=list)
    trail: SyncTrail = field(default_factory=SyncTrail)
    copies: list[tuple[int, int]] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.target[-1][1].next_offset if self.target else 0

    def append(self, records: Sequence[Record], producer: Producer, codec: int = 0) -> int:
        base = self.end
        self.target.append(as_logged(batch.encode(records, codec, producer, 0), base))
        return base

    def life(self, start: int, sizes: Sequence[int], producer: Producer, syncs: Sequence[bool], codec: int = 0) -> int:
        """Copy from index ``start`` on in batches of these sizes; the first sync is owed, later ones may come."""
        index = start
        for number, size in enumerate(sizes):
            part = self.source[index : index + size]
            if not part:
                break
            base = self.append(part, producer, codec)
            self.copies += [(one.offset, base + place) for place, one in enumerate(part)]
            if syncs[number % len(syncs)]:
                self.trail.take(Pair(part[-1].offset, base + len(part) - 1) if number else Pair(part[0].offset, base))
            index += len(part)
        return index

    def log(self, start: int = 0) -> SourceLog:
        cut = [dense([one]) for one in self.source if one.offset >= start]
        return SourceLog(all_fingerprints(cut), start)

    def prints(self, start: int = 0) -> list[Fingerprints]:
        return [each for each in all_fingerprints(self.target) if each.offsets[-1] >= start]

    def matched(self, position: int | None, *, is_shared: bool = True, newest: bool = False) -> Found | Unclear:
        anchor = find_anchor(Mm2Trace(position, self.trail.stretches()), None, 0, 0, self.end, newest=newest)
        assert isinstance(anchor, Anchor)
        return match(
            self.log(anchor.source_from),
            self.prints(anchor.at.downstream),
            anchor,
            position,
            is_ours=is_ours,
            is_shared=is_shared,
        )


def assert_exact(world: World, found: Found | Unclear, furthest: int) -> None:
    """Copying goes on behind the furthest copy, and the map leads every reader to where it misses nothing."""
    assert isinstance(found, Found), found
    assert found.upstream == world.source[furthest - 1].offset + 1
    pairs = [(run.upstream + place, run.downstream + place) for run in found.runs for place in range(run.length)]
    mapped = dict(pairs)
    assert set(pairs) <= set(world.copies)
    for one, following in pairwise(pairs):
        assert one[0] < following[0]
        assert one[1] < following[1]
    first = found.runs[0].upstream
    assert set(mapped) == {one.offset for one in world.source[:furthest] if one.offset >= first}
    for upstream, downstream in mapped.items():
        behind = {copy for copy, place in world.copies if place >= downstream}
        assert behind >= {one.offset for one in world.source[:furthest] if one.offset >= upstream}


sizes = st.lists(st.integers(1, 6), min_size=1, max_size=6)
lives = st.lists(st.tuples(sizes, st.integers(0, 12), st.lists(st.booleans(), min_size=1, max_size=3)), max_size=4)


@given(lives, st.sampled_from([PLAIN, IDEMPOTENT, OURS]), st.booleans(), st.integers(0, 4), st.data())
def test_however_often_it_was_killed_the_furthest_copy_is_found(
    later: list[tuple[list[int], int, list[bool]]], producer: Producer, alike: bool, codec: int, data: st.DataObject
) -> None:
    """Each life goes back to a position not past what was copied; with syncs even equal records are told apart."""
    hole = data.draw(st.integers(0, 30))
    world = World(
        [
            record(offset, b"alike")._replace(timestamp=TIME, key=None, headers=()) if alike else record(offset)
            for offset in range(40)
            if offset != hole or hole == 0
        ]
    )
    furthest = reached = world.life(0, data.draw(sizes), producer, [True])
    position = 0
    for cut, back, syncs in later:
        if data.draw(st.booleans()):
            world.append([record(10**6)], FOREIGN)
        position = data.draw(st.integers(position, reached)) if back else reached
        # No life records a position that it has not reached itself, also if an earlier one had got further.
        position = min(reached, max(position, furthest - back))
        reached = world.life(position, cut, producer, [True, *syncs], codec)
        furthest = max(furthest, reached)
    recorded = (
        data.draw(st.sampled_from([None, world.source[position].offset])) if position < len(world.source) else None
    )
    found = world.matched(recorded)
    assert_exact(world, found, furthest)
    assert isinstance(found, Found)
    assert found.doubled <= len(world.copies) - len({upstream for upstream, _ in world.copies})


@given(lives, st.data())
def test_lives_that_left_no_sync_are_told_by_contents(
    later: list[tuple[list[int], int, list[bool]]], data: st.DataObject
) -> None:
    world = World([record(offset) for offset in range(40)])
    furthest = world.life(0, data.draw(sizes), PLAIN, [True, False])
    for cut, back, _ in later:
        if data.draw(st.booleans()):
            world.append([record(10**6)], PLAIN)
        furthest = max(furthest, world.life(max(0, furthest - back), cut, PLAIN, [False]))
    assert_exact(world, world.matched(None), furthest)


@given(lives, st.integers(0, 39), st.data())
def test_without_any_sync_the_recorded_record_is_looked_for(
    later: list[tuple[list[int], int, list[bool]]], recorded: int, data: st.DataObject
) -> None:
    world = World([record(offset) for offset in range(40)])
    furthest = world.life(0, data.draw(sizes), PLAIN, [False])
    position = min(recorded, furthest)
    for cut, _, _ in later:
        furthest = max(furthest, world.life(position, cut, PLAIN, [False]))
    start = max(0, position - 1)
    outcome = search(world.log(start), world.prints(), position or None, is_ours=is_ours, is_shared=False)
    assert isinstance(outcome, Found)
    assert outcome.upstream == furthest


def test_without_any_sync_records_that_are_all_alike_are_ambiguous() -> None:
    same = [record(offset, b"alike")._replace(timestamp=TIME, key=None, headers=()) for offset in range(10)]
    world = World(same)
    world.life(0, [2, 2, 2], PLAIN, [False])
    outcome = search(world.log(1), world.prints(), 2, is_ours=is_ours, is_shared=False)
    assert isinstance(outcome, Unclear)
    assert "copying would go on at" in outcome.reason or "too much alike" in outcome.reason


def test_a_record_recorded_as_copied_that_is_not_there_is_not_explained_away() -> None:
    world = World([record(offset) for offset in range(10)])
    world.append([record(99)], PLAIN)
    outcome = search(world.log(4), world.prints(), 5, is_ours=is_ours, is_shared=False)
    assert isinstance(outcome, Unclear)
    assert "upstream offset 4" in outcome.reason


def test_nothing_of_a_source_never_copied_is_found() -> None:
    world = World([record(offset) for offset in range(10)])
    world.append([record(99)], PLAIN)
    assert search(world.log(), world.prints(), None, is_ours=is_ours, is_shared=True) is None


@pytest.mark.parametrize("is_shared", [True, False])
def test_records_of_nobody_known_are_passed_over_only_where_others_may_write(is_shared: bool) -> None:
    world = World([record(offset) for offset in range(20)])
    world.life(0, [3, 3], PLAIN, [True])
    world.append([record(77)], PLAIN)
    world.life(6, [3], PLAIN, [False])
    found = world.matched(2, is_shared=is_shared)
    if is_shared:
        assert_exact(world, found, 9)
        assert isinstance(found, Found)
        assert found.foreign == 1
    else:
        assert isinstance(found, Unclear)
        assert "from offset 6 of the target" in found.reason


def test_an_altered_record_is_not_guessed_around() -> None:
    world = World([record(offset) for offset in range(20)])
    world.life(0, [3, 3], IDEMPOTENT, [True])
    world.append([record(6)._replace(value=b"other")], IDEMPOTENT)
    found = world.matched(0)
    assert isinstance(found, Unclear)
    assert "producer id 50" in found.reason


def test_a_sync_further_on_than_what_was_found_is_not_believed_alone() -> None:
    """Records that should lie between are nowhere."""
    world = World([record(offset) for offset in range(20)])
    world.life(0, [3], PLAIN, [True])
    world.life(8, [3], PLAIN, [True])
    found = world.matched(0)
    assert isinstance(found, Unclear)
    assert "nothing from 3 on" in found.reason
    # The newest sync does say how far the copy got.
    newest = world.matched(0, newest=True)
    assert isinstance(newest, Found)
    assert newest.upstream == 11


def test_records_that_the_source_no_longer_has_are_passed_over_where_it_has_a_hole() -> None:
    whole = [record(offset) for offset in range(12)]
    world = World(whole)
    world.life(0, [5, 7], PLAIN, [True])
    left = [one for one in whole if one.offset not in (2, 7, 8)]
    source = SourceLog(all_fingerprints([sparse(left, 0, 12)]), 0)
    found = match(source, world.prints(), Anchor(Pair(0, 0), True, 0, {}), 0, is_ours=is_ours, is_shared=False)
    assert isinstance(found, Found)
    assert (found.upstream, found.gone, found.records) == (12, 3, 9)
    assert found.runs == (Run(0, 0, 2), Run(3, 3, 4), Run(9, 9, 3))


def test_a_target_that_stamps_records_itself_is_matched_by_the_rest() -> None:
    world = World([record(offset) for offset in range(6)])
    world.life(0, [3], PLAIN, [True])
    content, header = world.target[0]
    world.target[0] = flagged((content, header), 0x08)
    assert_exact(world, world.matched(0), 3)


def test_a_position_past_the_last_record_counts_when_the_source_has_none_between() -> None:
    """Markers and removed records have no copy."""
    world = World([record(offset) for offset in (0, 1, 2, 9)])
    world.life(0, [3], PLAIN, [True])
    found = world.matched(7)
    assert isinstance(found, Found)
    assert found.upstream == 7


def test_a_position_past_records_that_are_not_there_does_not_count() -> None:
    world = World([record(offset) for offset in range(9)])
    world.life(0, [3], PLAIN, [True])
    found = world.matched(7)
    assert isinstance(found, Found)
    assert found.upstream == 3


def test_a_batch_with_a_sync_that_is_not_ours_is_javas() -> None:
    ours = as_logged(dense([record(0)], producer=Producer(7, 0), sequence=0)[0], 4)
    javas = as_logged(dense([record(1)])[0], 5)
    stretches = ((Pair(0, 4), Pair(1, 5)),)
    assert list(watched([ours], stretches, lambda number: number == 7)) == [ours]
    assert list(watched([ours, javas], (), lambda number: number == 7)) == [ours, javas]
    with pytest.raises(JavaWrote):
        list(watched([ours, javas], stretches, lambda number: number == 7))


LIVES = {
    "deeper a second time": ([(0, 20), (15, 2), (10, 14)], 24),
    "less deep a second time": ([(0, 20), (10, 6), (13, 9)], 22),
    "again as far as before and no further": ([(0, 20), (10, 10)], 20),
    "not as far as before": ([(0, 20), (10, 5)], 20),
    "further on than the life before it had got": ([(0, 20), (10, 2), (15, 7)], 22),
    "deeper, and never as far again": ([(0, 20), (15, 2), (10, 3)], 20),
}


@pytest.mark.parametrize("syncs", [True, False])
@pytest.mark.parametrize(("copied", "furthest"), LIVES.values(), ids=LIVES)
def test_mirrormaker_went_back(copied: list[tuple[int, int]], furthest: int, syncs: bool) -> None:
    """Lives that begin at these offsets and copy so many records; the map is of the last that got furthest."""
    world = World([record(offset) for offset in range(40)])
    for number, (start, count) in enumerate(copied):
        world.life(start, [count], PLAIN, [syncs or number == 0])
    found = world.matched(0)
    assert_exact(world, found, furthest)
    assert isinstance(found, Found)
    assert (found.records, found.doubled) == (len(world.copies), len(world.copies) - furthest)


def test_a_later_copy_counts_as_soon_as_it_got_as_far_as_the_one_before() -> None:
    for count, runs in ((9, (Run(0, 0, 20),)), (10, (Run(0, 0, 10), Run(10, 20, 10)))):
        world = World([record(offset) for offset in range(40)])
        world.life(0, [20], PLAIN, [True])
        world.life(10, [count], PLAIN, [True])
        found = world.matched(0)
        assert isinstance(found, Found)
        assert found.runs == runs


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_batch_of_our_own_is_the_sources_or_nothing_is_guessed(is_shared: bool) -> None:
    """Nobody else has our producer ids, whoever may write there: it is no stranger's."""
    world = World([record(offset) for offset in range(20)])
    world.life(0, [3], PLAIN, [True])
    world.life(3, [2], OURS, [False])
    assert_exact(world, world.matched(0, is_shared=is_shared), 5)
    strange = World(world.source)
    strange.life(0, [3], PLAIN, [True])
    for one in (world, strange):
        one.append([record(77)], OURS)
        found = one.matched(0, is_shared=is_shared)
        assert isinstance(found, Unclear)
        assert "producer id 7" in found.reason


@pytest.mark.parametrize(
    ("mirrors", "stranger", "is_known"),
    [
        (IDEMPOTENT, PLAIN, True),
        (IDEMPOTENT, FOREIGN, True),
        (PLAIN, FOREIGN, True),
        (PLAIN, PLAIN, False),
        (IDEMPOTENT, IDEMPOTENT, False),
    ],
)
def test_where_nobody_else_should_write_only_another_kind_of_producer_is_another(
    mirrors: Producer, stranger: Producer, is_known: bool
) -> None:
    """What can have been written by MirrorMaker, and is not the source's, is not passed over."""
    world = World([record(offset) for offset in range(20)])
    world.life(0, [3], mirrors, [True])
    world.append([record(77)], stranger)
    world.life(3, [3], mirrors, [False])
    found = world.matched(0, is_shared=False)
    if is_known:
        assert_exact(world, found, 6)
        assert isinstance(found, Found)
        assert found.foreign == 1
    else:
        assert isinstance(found, Unclear)


def test_a_sync_one_record_further_on_than_what_was_found_is_not_believed_either() -> None:
    world = World([record(offset) for offset in range(20)])
    world.life(0, [3], PLAIN, [True])
    world.life(4, [3], PLAIN, [True])
    found = world.matched(0)
    assert isinstance(found, Unclear)
    assert "nothing from 3 on" in found.reason


def test_a_sync_into_a_batch_that_is_not_the_sources_is_not_explained_by_another_writer() -> None:
    world = World([record(offset) for offset in range(20)])
    world.life(0, [3], PLAIN, [True])
    base = world.append([record(77)], FOREIGN)
    world.trail.take(Pair(3, base))
    world.life(3, [3], PLAIN, [False])
    found = world.matched(0)
    assert isinstance(found, Unclear)
    assert "producer id 99" in found.reason


def holed(tail: Sequence[tuple[Sequence[Record], Producer]]) -> Found | Unclear:
    """Match a tail against a source of twelve records that has lost those at 3 and 4."""
    world = World([record(offset) for offset in range(12)])
    for records, producer in tail:
        world.append(records, producer)
    left = [one for one in world.source if one.offset not in (3, 4)]
    source = SourceLog(all_fingerprints([sparse(left, 0, 12)]), 0)
    return match(source, world.prints(), Anchor(Pair(0, 0), True, 0, {}), 0, is_ours=is_ours, is_shared=False)


def test_a_hole_explains_as_many_records_as_it_is_wide_in_however_many_batches() -> None:
    begin = [record(0), record(1), record(2)]
    alone = [([each], IDEMPOTENT) for each in (record(3), record(4), record(5))]
    found = holed([(begin, IDEMPOTENT), *alone])
    assert isinstance(found, Found)
    assert (found.upstream, found.gone, found.foreign) == (6, 2, 0)
    again = [([each], IDEMPOTENT) for each in (record(3), record(4), record(44), record(5))]
    assert isinstance(holed([(begin, IDEMPOTENT), *again]), Unclear)


def test_what_another_may_have_written_is_no_record_that_the_source_has_lost() -> None:
    """It would use the hole up, and what was really copied out of it would not be explained any more."""
    begin = [record(0), record(1), record(2)]
    found = holed([(begin, IDEMPOTENT), ([record(77)], FOREIGN), ([record(each) for each in (3, 4, 5)], IDEMPOTENT)])
    assert isinstance(found, Found)
    assert (found.upstream, found.gone, found.foreign) == (6, 2, 1)


def test_a_record_with_another_time_is_no_copy_unless_the_source_has_none() -> None:
    """REC-03."""
    begin = [record(offset) for offset in range(9)]
    for timestamp, is_copy in ((TIME + 500, False), (-1, True)):
        world = World([*begin[:3], begin[3]._replace(timestamp=timestamp), *begin[4:]])
        world.append(begin[:3], PLAIN)
        world.trail.take(Pair(0, 0))
        world.append(begin[3:4], PLAIN)
        found = world.matched(0, is_shared=False)
        assert isinstance(found, Found if is_copy else Unclear)
        assert not isinstance(found, Found) or found.upstream == 4


@pytest.mark.parametrize(("count", "is_clear"), [(16, True), (17, False)])
def test_too_many_places_where_the_copy_could_begin_are_not_tried(count: int, is_clear: bool) -> None:
    """The same record, copied again and again by lives that got no further."""
    world = World([record(offset) for offset in range(10)])
    for _ in range(count):
        world.life(0, [1], PLAIN, [False])
    outcome = search(world.log(), world.prints(), None, is_ours=is_ours, is_shared=False)
    assert isinstance(outcome, Found if is_clear else Unclear)
    assert not isinstance(outcome, Unclear) or "17 records like the one at upstream offset 0" in outcome.reason


def test_a_record_like_the_first_is_no_place_to_begin_where_what_follows_it_is_not_the_sources() -> None:
    """However often others have written such a one."""
    world = World([record(offset) for offset in range(10)])
    for _ in range(17):
        world.append([record(0), record(99)], PLAIN)
    assert search(world.log(), world.prints(), None, is_ours=is_ours, is_shared=True) is None
    recorded = search(world.log(), world.prints(), 1, is_ours=is_ours, is_shared=True)
    assert isinstance(recorded, Unclear)
    assert "the last one it recorded, is not on the target" in recorded.reason
    world.life(0, [3], PLAIN, [False])
    outcome = search(world.log(), world.prints(), None, is_ours=is_ours, is_shared=True)
    assert isinstance(outcome, Found)
    assert outcome.upstream == 3


def test_without_syncs_a_batch_that_can_be_a_copy_of_two_places_is_ambiguous() -> None:
    """Behind the one the copy would go on elsewhere than behind the other."""
    pair = [record(offset, b"alike")._replace(timestamp=TIME, key=None, headers=()) for offset in (3, 6)]
    source = [record(0), record(1), record(2), pair[0], record(4), record(5), pair[1], record(7)]
    world = World(source)
    world.life(0, [6], PLAIN, [False])
    world.append([pair[1]], PLAIN)
    outcome = search(world.log(), world.prints(), None, is_ours=is_ours, is_shared=False)
    assert isinstance(outcome, Unclear)
    assert "too much alike" in outcome.reason


def test_a_sync_that_points_right_behind_a_batch_is_not_into_it() -> None:
    strange = as_logged(dense([record(1)])[0], 5)
    assert list(watched([strange], ((Pair(0, 4), Pair(1, 6)),), is_ours)) == [strange]
    with pytest.raises(JavaWrote):
        list(watched([strange], ((Pair(0, 4), Pair(1, 5)),), is_ours))


def alike(letters: str, start: int = 0) -> list[Record]:
    """Return records of which those with one letter cannot be told apart."""
    return [
        record(start + place, letter.encode())._replace(timestamp=TIME, key=None, headers=())
        for place, letter in enumerate(letters)
    ]


def followed(
    world: World, position: int | None = None, *, marks: dict[int, int] | None = None, told: list[int] | None = None
) -> Found | Unclear:
    """Follow the target from its start, where the first record of the source is looked for."""
    anchor = Anchor(Pair(world.source[0].offset, 0), False, 0, marks or {})
    tell = told.append if told is not None else lambda _: None
    return match(world.log(), world.prints(), anchor, position, is_ours=is_ours, is_shared=True, on_progress=tell)


def copied(source: Sequence[Record], *lives: tuple[int, int]) -> World:
    """Return a world in which each of the lives has copied from one index of the source to another."""
    world = World(list(source))
    for start, stop in lives:
        world.life(start, [stop - start], PLAIN, [False])
    return world


def test_a_life_that_ended_before_it_was_as_far_as_the_one_before_is_followed_by_one_that_was() -> None:
    """Without a sync: what was copied again leads nowhere, and readers are led by what was copied first."""
    world = copied([record(offset) for offset in range(10)], (0, 6), (2, 4), (6, 8))
    found = followed(world)
    assert_exact(world, found, 8)
    assert isinstance(found, Found)
    assert found.runs == (Run(0, 0, 6), Run(6, 8, 2))
    assert (found.records, found.doubled, found.foreign) == (10, 2, 0)


def test_what_can_be_a_copy_of_several_earlier_records_is_taken_for_the_latest() -> None:
    """However that was, the copy goes on at the same place."""
    world = copied(alike("ABABC"), (0, 5), (2, 4), (4, 5))
    found = followed(world, marks={0: 0})
    assert isinstance(found, Found)
    assert (found.upstream, found.doubled) == (5, 3)
    assert found.runs == (Run(0, 0, 2), Run(2, 5, 3))


def test_what_can_be_earlier_records_or_partly_new_ones_is_not_guessed() -> None:
    world = copied(alike("AABAAD"), (0, 4))
    world.append(alike("AA"), PLAIN)
    outcome = followed(world, marks={0: 0})
    assert isinstance(outcome, Unclear)
    assert "from offset 4 of the target on can be copies of different ones" in outcome.reason


def test_where_the_target_holds_nothing_more_the_copy_goes_on_where_the_anchor_says() -> None:
    world = World([record(offset) for offset in range(10)])
    anchor = Anchor(Pair(5, 5), False, 5, {})
    found = match(world.log(5), [], anchor, None, is_ours=is_ours, is_shared=True)
    assert found == Found(5, (), 0, 0, 0, 0)


@pytest.mark.parametrize(("position", "upstream"), [(None, 5), (3, 5), (5, 5), (8, 8), (10, 10), (11, 5), (12, 5)])
def test_a_recorded_position_counts_as_far_as_the_source_has_no_record_before_it(
    position: int | None, upstream: int
) -> None:
    """MirrorMaker has been past a hole; a record that is not on the target it has not copied."""
    source = [record(offset) for offset in (*range(5), *range(10, 15))]
    found = followed(copied(source, (0, 5)), position)
    assert isinstance(found, Found)
    assert found.upstream == upstream


def test_behind_the_last_record_of_the_source_any_recorded_position_counts() -> None:
    found = followed(copied([record(offset) for offset in range(5)], (0, 5)), 9)
    assert isinstance(found, Found)
    assert found.upstream == 9


@pytest.mark.parametrize(("gone", "is_clear"), [(3, True), (4, False)])
def test_a_hole_of_the_source_explains_as_many_records_of_the_target_as_it_is_wide(
    gone: int, *, is_clear: bool
) -> None:
    """Of the source offsets 0 to 2 have been cleaned away; the target has them still."""
    kept = [record(offset) for offset in range(3, 6)]
    world = World(kept)
    world.append([record(100 + number) for number in range(gone)] + kept, PLAIN)
    found = followed(world)
    assert isinstance(found, Found)
    assert (found.gone, found.records, found.foreign) == ((3, 3, 0) if is_clear else (0, 0, 7))


def test_one_record_that_is_the_first_of_the_source_is_no_strangers() -> None:
    found = followed(copied([record(offset) for offset in range(3)], (0, 1)))
    assert isinstance(found, Found)
    assert (found.upstream, found.records, found.foreign) == (1, 1, 0)


def test_how_many_records_were_looked_at_is_told_on_the_way() -> None:
    world = copied([record(offset) for offset in range(9)], (0, 2), (2, 5))
    world.append([record(77)], FOREIGN)
    told: list[int] = []
    followed(world, told=told)
    assert told == [2, 5, 6]
