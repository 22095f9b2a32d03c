"""The offset map: a copied record's position is exact in both directions, and a hole is known to be a hole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.model.mm2_trace import Pair
from mirror.model.offset_map import (
    Chunk,
    OffsetMap,
    Run,
    Runs,
    SparseOffsetMap,
    cut,
    extend,
    runs_before,
    runs_from,
    runs_of,
)
from mirror.model.translation import Bounded, Exact, NotMirrored, Same, TooOld
from tests.unit.model.builders import BY_JAVA


def test_runs_are_cut_at_a_position_and_those_that_end_there_are_gone() -> None:
    runs = (Run(0, 10, 5), Run(7, 15, 3))
    assert (runs_from(runs, 5), runs_before(runs, 7)) == ((Run(7, 15, 3),), (Run(0, 10, 5),))
    assert (runs_from(runs, 4), runs_before(runs, 8)) == ((Run(4, 14, 1), runs[1]), (runs[0], Run(7, 15, 1)))
    assert (runs_from(runs, 10), runs_before(runs, 0)) == ((), ())


def test_with_the_sources_offsets_no_position_leads_beyond_the_end_of_the_copy() -> None:
    """What fills the last offsets may not be there yet: a reader beyond the end would begin elsewhere."""
    known = OffsetMap(0, True, Runs.of([Run(0, 0, 5)]), 9, 5, same_offsets=True)
    found = [known.translate(position) for position in (3, 5, 6, 9)]
    assert found == [Same(3), Same(5), Exact(5), Exact(5)]


@dataclass(frozen=True)
class History:
    """What was copied, record by record, and the map that speaks of it."""

    copied: dict[int, int]
    map: OffsetMap


def in_chunks(runs: list[Run], size: int) -> Runs:
    return Runs(Chunk.of(runs[first : first + size]) for first in range(0, len(runs), size))


@st.composite
def histories(draw: st.DrawFn, *, complete: bool = True) -> History:
    """Copies with holes on both sides: markers and compaction upstream, other writers downstream."""
    origin = draw(st.integers(0, 5))
    upstream, downstream = origin, draw(st.integers(0, 5))
    copied: dict[int, int] = {}
    runs: list[Run] = []
    for upstream_hole, downstream_hole, length in draw(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 4)), max_size=8)
    ):
        upstream += upstream_hole
        downstream += downstream_hole
        extend(runs, Run(upstream, downstream, length))
        copied |= {upstream + number: downstream + number for number in range(length)}
        upstream += length
        downstream += length
    upstream += draw(st.integers(0, 3))
    return History(copied, OffsetMap(origin, complete, in_chunks(runs, draw(st.integers(1, 4))), upstream, downstream))


@given(histories())
def test_a_copied_record_is_found_exactly(history: History) -> None:
    assert {upstream: history.map.translate(upstream) for upstream in history.copied} == {
        upstream: Exact(downstream) for upstream, downstream in history.copied.items()
    }


@given(histories())
def test_a_copy_leads_back_to_its_record(history: History) -> None:
    assert {downstream: history.map.source_of(downstream) for downstream in history.copied.values()} == {
        downstream: upstream for upstream, downstream in history.copied.items()
    }


@given(histories(), st.integers(0, 60))
def test_a_reader_goes_on_at_the_first_copied_record_not_before_its_position(history: History, position: int) -> None:
    if position <= history.map.upstream_next:
        following = [downstream for upstream, downstream in history.copied.items() if upstream >= position]
        assert history.map.translate(position) == Exact(min(following, default=history.map.downstream_next))


@given(histories(), st.integers(0, 60))
def test_the_source_of_the_first_copy_not_before_a_position_is_known(history: History, position: int) -> None:
    if history.copied and position <= history.map.downstream_next:
        following = [upstream for upstream, downstream in history.copied.items() if downstream >= position]
        assert history.map.source_of(position) == min(following, default=history.map.upstream_next)


@given(histories(), st.integers(0, 60))
def test_a_reader_goes_back_behind_the_source_of_the_last_copy_before_its_position(
    history: History, position: int
) -> None:
    """What was not copied it has not read: on the source it is handed that."""
    if history.copied and position <= history.map.downstream_next:
        read = [upstream for upstream, downstream in history.copied.items() if downstream < position]
        assert history.map.translate_back(position) == Exact(max(read, default=history.map.origin - 1) + 1)


@given(histories(complete=False), st.integers(0, 60))
def test_there_and_back_leads_no_further_than_where_one_began(history: History, position: int) -> None:
    there = history.map.translate(position)
    if not history.copied or isinstance(there, TooOld | NotMirrored):
        return
    back = history.map.translate_back(there.downstream)
    assert isinstance(back, Exact)
    assert back.downstream <= position


@st.composite
def taken_over(draw: st.DrawFn) -> tuple[dict[int, int], OffsetMap]:
    """A stretch that Java MirrorMaker copied, with holes on both sides, of which some syncs are known; and runs."""
    upstream, downstream = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    start, downstream_start, copied, pairs = upstream, downstream, {}, []
    steps = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()), min_size=1, max_size=12)
    for upstream_hole, downstream_hole, is_known in draw(steps):
        upstream, downstream = upstream + upstream_hole, downstream + downstream_hole
        copied[upstream] = downstream
        if is_known:
            pairs.append(Pair(upstream, downstream))
        upstream, downstream = upstream + 1, downstream + 1
    end, length = upstream + draw(st.integers(0, 2)), draw(st.integers(1, 3))
    sparse_map = SparseOffsetMap(start, end, downstream_start, downstream, tuple(pairs))
    runs = Runs.of([Run(end, downstream, length)])
    return copied, OffsetMap(end, False, runs, end + length, downstream + length, (sparse_map,))


@given(taken_over(), st.integers(0, 60))
def test_there_and_back_over_what_java_mirrormaker_copied_leads_no_further_either(
    taken: tuple[dict[int, int], OffsetMap], position: int
) -> None:
    there = taken[1].translate(position)
    if isinstance(there, Exact | Bounded):
        back = taken[1].translate_back(there.downstream)
        assert isinstance(back, TooOld) or (isinstance(back, Exact | Bounded) and back.downstream <= position)


@given(histories())
def test_translation_never_goes_backwards(history: History) -> None:
    for translate, end in (
        (history.map.translate, history.map.upstream_next),
        (history.map.translate_back, history.map.downstream_next),
    ):
        found = [
            outcome.downstream
            for position in range(end + 5)
            if isinstance(outcome := translate(position), (Exact, Bounded))
        ]
        assert found == sorted(found)


@given(histories(), st.integers(1, 1000))
def test_a_position_ahead_of_the_copy_is_bounded_by_how_far_it_is_ahead(history: History, ahead: int) -> None:
    known = history.map
    assert known.translate(known.upstream_next + ahead) == Bounded(known.downstream_next, ahead)
    assert known.translate_back(known.downstream_next + ahead) == Bounded(known.upstream_next, ahead)


@given(histories(complete=False))
def test_what_lies_before_the_beginning_of_the_copy_is_too_old(history: History) -> None:
    """Copying began in the middle of the source: nothing is known of what lay before."""
    known = history.map
    assert all(known.translate(position) == TooOld(known.origin) for position in range(known.origin))
    if known.runs.first is not None:
        first = known.runs.first.downstream
        assert all(known.translate_back(position) == TooOld(first) for position in range(first))


@pytest.mark.parametrize("position", [0, 1])
def test_where_nothing_was_copied_yet_readers_have_read_nothing(position: int) -> None:
    """Consumers pass the marker of an engine's fence: a planned failover was refused for groups behind one."""
    nothing = OffsetMap(3, True, Runs(), 3, 1)
    assert nothing.translate(3) == Exact(1)
    assert nothing.translate_back(position) == Exact(3)
    assert replace(nothing, complete_from_origin=False).translate_back(position) == NotMirrored()
    assert replace(nothing, is_pruned=True).translate_back(position) == NotMirrored()


@given(st.sets(st.integers(0, 30), min_size=1), st.integers(0, 100))
def test_runs_say_what_was_copied_and_no_two_could_be_one(offsets: set[int], downstream: int) -> None:
    runs = runs_of(sorted(offsets), downstream)
    said = {run.upstream + number: run.downstream + number for run in runs for number in range(run.length)}
    assert said == {upstream: downstream + number for number, upstream in enumerate(sorted(offsets))}
    assert not any(
        (run.upstream_end, run.downstream_end) == (later.upstream, later.downstream) for run, later in pairwise(runs)
    )


@given(histories(), st.integers(0, 60))
def test_cut_runs_speak_of_everything_before_the_cut_and_of_nothing_else(history: History, at: int) -> None:
    said = {
        run.upstream + number: run.downstream + number
        for run in runs_before(history.map.runs, at)
        for number in range(run.length)
    }
    assert said == {upstream: downstream for upstream, downstream in history.copied.items() if upstream < at}


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), min_size=1, max_size=4))
def test_spans_are_cut_between_two_records_and_none_of_either_part_is_empty(
    steps: list[tuple[int, int]],
) -> None:
    spans, offset = [], 0
    for hole, length in steps:
        spans.append((offset + hole, length))
        offset += hole + length
    records = [first + number for first, length in spans for number in range(length)]
    for count in range(1, len(records)):
        parts = cut(spans, count)
        said = [[first + number for first, length in part for number in range(length)] for part in parts]
        assert said == [records[:count], records[count:]]
        assert all(length > 0 for part in parts for _, length in part)


def test_a_stretch_known_by_syncs_only_is_exact_at_them_and_bounded_between() -> None:
    assert BY_JAVA.translate(20) == Exact(1020)
    assert BY_JAVA.translate(21) == Exact(1021)
    assert BY_JAVA.translate(45) == Bounded(1021, 24)
    assert BY_JAVA.translate(60) == Exact(1060)
    assert BY_JAVA.translate(99) == Bounded(1061, 38)
    assert BY_JAVA.translate(100) == Exact(1100)
    assert BY_JAVA.translate(19) == TooOld(20)
    assert BY_JAVA.translate_back(1020) == Exact(20)
    assert BY_JAVA.translate_back(1045) == Bounded(21, 24)
    assert BY_JAVA.translate_back(1100) == Exact(100)
    assert BY_JAVA.translate_back(1015) == TooOld(1020)


@given(st.integers(20, 99))
def test_what_is_bounded_is_never_past_the_exact_position_and_not_further_off_than_said(position: int) -> None:
    found = BY_JAVA.translate(position)
    assert isinstance(found, Exact | Bounded)
    behind = found.behind_records if isinstance(found, Bounded) else 0
    assert found.downstream <= 1000 + position <= found.downstream + behind


@given(histories(), st.integers(0, 60), st.integers(0, 60))
def test_packed_runs_are_cut_like_any_others(history: History, start: int, end: int) -> None:
    runs = history.map.runs
    assert tuple(runs.before(end)) == runs_before(runs, end)
    assert tuple(runs.within(start, end)) == runs_from(runs_before(runs, end), start)
    assert runs.records_between(start, end) == sum(start <= each < end for each in history.copied)
    assert runs.copies_between(start, end) == sum(start <= each < end for each in history.copied.values())


@given(histories(), st.integers(0, 60))
def test_runs_are_cut_at_a_position_without_loss(history: History, position: int) -> None:
    before, behind = runs_before(history.map.runs, position), runs_from(history.map.runs, position)
    copied = {
        run.upstream + number: run.downstream + number for run in (*before, *behind) for number in range(run.length)
    }
    assert copied == history.copied
    assert all(run.upstream_end <= position for run in before)
    assert all(run.upstream >= position for run in behind)


def sketched(*pairs: Pair, runs: Runs | None = None, complete: bool = False) -> OffsetMap:
    """Java MirrorMaker copied some of 0 to 49 to 10 to 39; five others lie behind it, then the map is exact."""
    runs = Runs.of([Run(60, 45, 5)]) if runs is None else runs
    return OffsetMap(60, complete, runs, 65, 50, (SparseOffsetMap(0, 50, 10, 40, pairs),))


@pytest.mark.parametrize(
    ("pairs", "position", "back"),
    [
        ((Pair(10, 20),), 20, Exact(10)),
        ((Pair(10, 20), Pair(15, 21)), 21, Exact(11)),
        ((Pair(10, 20), Pair(15, 22)), 22, Exact(15)),
        ((Pair(10, 20), Pair(15, 22)), 21, Exact(11)),
        ((Pair(10, 20), Pair(13, 30)), 29, Bounded(11, 2)),
        ((Pair(10, 20), Pair(40, 30)), 24, Bounded(11, 3)),
        ((Pair(48, 20),), 38, Bounded(49, 1)),
        ((Pair(10, 20),), 19, TooOld(20)),
        ((Pair(10, 20),), 10, TooOld(20)),
        ((), 39, TooOld(40)),
        ((Pair(0, 10),), 10, Exact(0)),
    ],
)
def test_inside_a_stretch_a_reader_goes_back_by_the_last_sync_and_not_past_the_next(
    pairs: tuple[Pair, ...], position: int, back: Exact | Bounded | TooOld
) -> None:
    """Between two copies in a row there is none of what lies between their records."""
    assert sketched(*pairs).translate_back(position) == back


@pytest.mark.parametrize(
    ("pairs", "position", "there"),
    [
        ((Pair(10, 20), Pair(30, 22)), 25, Bounded(21, 1)),
        ((Pair(10, 20), Pair(30, 21)), 25, Exact(21)),
        ((Pair(10, 38),), 45, Bounded(39, 1)),
        ((Pair(10, 20),), 9, TooOld(10)),
        ((), 45, TooOld(50)),
    ],
)
def test_inside_a_stretch_a_reader_goes_on_by_the_last_sync_and_not_past_the_next(
    pairs: tuple[Pair, ...], position: int, there: Exact | Bounded | TooOld
) -> None:
    assert sketched(*pairs).translate(position) == there


@pytest.mark.parametrize("runs", [Runs.of([Run(60, 45, 5)]), Runs()])
@pytest.mark.parametrize("position", [40, 42, 45])
@pytest.mark.parametrize(
    ("pairs", "read_to"), [((Pair(0, 10), Pair(20, 39)), 21), ((Pair(0, 10), Pair(20, 38)), 50), ((), 50)]
)
def test_behind_a_stretch_all_that_was_copied_of_it_is_read(
    pairs: tuple[Pair, ...], read_to: int, position: int, runs: Runs
) -> None:
    """Its last copy tells how far that is, if a sync is known of it."""
    assert sketched(*pairs, runs=runs).translate_back(position) == Exact(read_to)


def test_a_stretch_between_runs_counts_before_the_later_and_behind_the_earlier_one() -> None:
    runs = Runs.of([Run(0, 0, 5), Run(60, 45, 5)])
    known = OffsetMap(0, True, runs, 65, 50, (SparseOffsetMap(5, 50, 10, 40, (Pair(20, 39),)),))
    assert [known.translate_back(each) for each in (5, 9, 41, 46)] == [Exact(5), Exact(5), Exact(21), Exact(61)]


def test_the_next_copy_is_told_where_it_is_known_and_nowhere_else() -> None:
    known = sketched(Pair(0, 10), Pair(20, 39))
    assert [known.source_of(each) for each in (10, 11, 38, 39)] == [0, None, None, 20]
    assert [known.source_of(each) for each in (40, 44, 45, 49, 50, 51)] == [None, None, 60, 64, 65, None]
    assert known.source_of(9) is None, "the first of the stretch"
    begun_later = OffsetMap(60, False, Runs.of([Run(60, 45, 5)]), 65, 50)
    assert [begun_later.source_of(each) for each in (44, 45)] == [None, 60]
    whole = OffsetMap(60, True, Runs.of([Run(60, 45, 5)]), 65, 50)
    pruned = OffsetMap(0, False, Runs.of([Run(60, 45, 5)]), 65, 50, is_pruned=True)
    assert (whole.source_of(3), pruned.source_of(3)) == (60, 60)
    assert OffsetMap(0, True, Runs(), 9, 9).source_of(3) is None


def test_a_position_before_the_first_copy_leads_back_to_where_copying_began_if_that_is_known() -> None:
    runs = Runs.of([Run(60, 45, 5)])
    assert OffsetMap(50, True, runs, 65, 50).translate_back(45) == Exact(50)
    assert OffsetMap(50, False, runs, 65, 50).translate_back(44) == TooOld(45)
    assert OffsetMap(50, False, runs, 65, 50).translate_back(45) == Exact(50)
    assert OffsetMap(50, True, runs, 65, 50, is_pruned=True).translate_back(45) == TooOld(45)
