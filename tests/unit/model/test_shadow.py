"""The judgement of a test failover: right positions pass, wrong ones are named with how far they are off, the rest is doubt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.model.copy_map import CopyMap
from mirror.model.counts import counted
from mirror.model.offset_map import OffsetMap, Run, Runs, extend
from mirror.model.partition import TopicPartition
from mirror.model.patterns import PatternFilter
from mirror.model.shadow import (
    Forecast,
    Handed,
    Processed,
    Seen,
    ShadowPartition,
    SourceWindow,
    TriedPartition,
    is_shadow,
    judge,
    processed,
    shadow_name,
)
from mirror.model.translation import Exact
from mirror.model.verdict import Verdict

PASS, FAIL, UNKNOWN = Verdict.PASS, Verdict.FAIL, Verdict.UNKNOWN


@dataclass(frozen=True)
class World:
    """A partition and its copy: records by offset on both sides, those of others among the copies, and the map."""

    source: Mapping[int, bytes]
    target: Mapping[int, bytes]
    copied: Mapping[int, int]
    map: CopyMap

    def try_out(
        self,
        upstream: int,
        position: int,
        *,
        stands: Processed | None = None,
        read_again: int | None = 0,
        with_map: bool = True,
        window: SourceWindow | None = None,
        most: int = 10,
    ) -> TriedPartition:
        """Read ``most`` records from ``position`` on and judge it as the place where ``upstream`` goes on."""
        handed = [Seen(offset, self.target[offset]) for offset in sorted(self.target) if offset >= position][:most]
        plan = ShadowPartition(
            "billing",
            TopicPartition("orders", 0),
            TopicPartition("east.orders", 0),
            upstream,
            position,
            processed=stands or Processed(upstream, upstream),
            forecast=Forecast(0, read_again),
        )
        whole = SourceWindow(0, 10**6, tuple(Seen(*each) for each in sorted(self.source.items())))
        origins = self.map.origins(seen.offset for seen in handed) if with_map else {}
        return judge(plan, Handed(tuple(handed), 0.1), window or whole, origins, self.map.copies_between)


@st.composite
def worlds(draw: st.DrawFn, *, others: bool = True) -> World:
    """Markers upstream, records of other writers downstream, contents that repeat."""
    source: dict[int, bytes] = {}
    target: dict[int, bytes] = {}
    copied: dict[int, int] = {}
    runs: list[Run] = []
    upstream = downstream = 0
    for _ in range(draw(st.integers(1, 25))):
        upstream += draw(st.integers(0, 2))
        for _ in range(draw(st.integers(0, 2)) if others else 0):
            target[downstream] = b"other"
            downstream += 1
        source[upstream] = target[downstream] = draw(st.sampled_from([b"a", b"b", b"c"]))
        copied[upstream] = downstream
        extend(runs, Run(upstream, downstream, 1))
        upstream, downstream = upstream + 1, downstream + 1
    return World(source, target, copied, CopyMap(OffsetMap(0, True, Runs.of(runs), upstream, downstream)))


@st.composite
def tried(draw: st.DrawFn, *, others: bool = True) -> tuple[World, int, int, int]:
    """A world, an upstream position, a position on the target, and by how many records that is off."""
    world = draw(worlds(others=others))
    upstream = draw(st.integers(0, max(world.source)))
    right = world.map.offset_map.translate(upstream)
    assert isinstance(right, Exact)
    position = draw(st.one_of(st.just(right.downstream), st.integers(0, max(world.target))))
    late = sum(up >= upstream and down < position for up, down in world.copied.items())
    early = sum(up < upstream and down >= position for up, down in world.copied.items())
    return world, upstream, position, late - early


@given(tried())
def test_only_the_right_position_passes_and_how_far_a_wrong_one_is_off_is_told(
    case: tuple[World, int, int, int],
) -> None:
    world, upstream, position, off = case
    found = world.try_out(upstream, position)
    if found.first is None:
        assert found.verdict is not PASS, "the source has records to come"
        return
    assert (found.verdict, found.displaced) == (PASS if off == 0 else FAIL, off)
    assert (found.skipped, found.read_again) == (max(0, off), (max(0, -off),) * 2)
    assert any(
        f"{counted(abs(off), 'record')} too {'late' if off > 0 else 'early'}" in each for each in found.reasons
    ) is (off != 0)


@given(tried(others=False))
def test_without_a_map_the_contents_tell_or_nobody_does(case: tuple[World, int, int, int]) -> None:
    """Contents that are found at several places prove nothing; found at one they are as good as the map."""
    world, upstream, position, off = case
    found = world.try_out(upstream, position, with_map=False)
    assert found.verdict is (PASS if off == 0 else FAIL) or found.first_upstream is None
    assert found.verdict is not PASS or off == 0
    assert found.displaced in (off, None)


def world_of(contents: bytes, copies: bytes | None = None) -> World:
    """Return records of one letter each, copied to the same offsets; ``copies`` says what is there instead."""
    source = {offset: bytes([letter]) for offset, letter in enumerate(contents)}
    target = {offset: bytes([letter]) for offset, letter in enumerate(copies or contents)}
    end = len(contents)
    return World(source, target, {}, CopyMap(OffsetMap(0, True, Runs.of([Run(0, 0, end)]), end, end)))


def test_a_wrong_map_is_found_by_the_contents() -> None:
    """The map has position 4 at 5: what the group is handed there is not what the map says that it is."""
    world = world_of(b"abcdefghij")
    wrong = replace(world, map=CopyMap(OffsetMap(0, True, Runs.of([Run(0, 1, 9)]), 9, 10)))
    found = wrong.try_out(4, 5)
    assert (found.verdict, found.displaced) == (FAIL, 1)
    assert any("the offset map is wrong: it says that 5 is the copy of 4" in reason for reason in found.reasons)


@pytest.mark.parametrize(
    ("copies", "said"),
    [
        (b"abcdeXghij", "1 record is altered, the first at 5: it is not what the source has at 5"),
        (b"abcdUVWXYZ", "none of those around the group's position"),
    ],
)
def test_copies_that_are_not_what_the_source_has_fail(copies: bytes, said: str) -> None:
    found = world_of(b"abcdefghij", copies).try_out(4, 4)
    assert found.verdict is FAIL
    assert said in found.reasons[0]


def test_copies_with_the_source_s_offsets_are_copies_of_the_records_there() -> None:
    world = world_of(b"abcdefghij")
    same = replace(world, map=CopyMap(replace(world.map.offset_map, same_offsets=True)))
    assert same.map.origins(range(10)) == {each: each for each in range(10)}
    found = same.try_out(4, 4)
    assert (found.verdict, found.reasons) == (PASS, ())


def test_a_record_that_lacks_among_the_copies_is_named_unless_it_is_on_record_as_missing() -> None:
    world = world_of(b"abcdefghij")
    holed = replace(
        world,
        target={offset: content for offset, content in world.target.items() if offset != 6},
        map=CopyMap(OffsetMap(0, True, Runs.of([Run(0, 0, 6), Run(7, 7, 3)]), 10, 10)),
    )
    assert "1 record of orders-0 is not handed, the first at offset 6" in holed.try_out(4, 4).reasons[0]
    plan = holed.try_out(4, 4).plan
    handed = Handed(tuple(Seen(*each) for each in sorted(holed.target.items()) if each[0] >= 4))
    window = SourceWindow(0, 10, tuple(Seen(*each) for each in sorted(holed.source.items())))
    origins = holed.map.origins(seen.offset for seen in handed.records)
    assert judge(plan, handed, window, origins, holed.map.copies_between, [(6, 7)]).verdict is PASS
    assert judge(plan, handed, replace(window, compacted=True), origins, holed.map.copies_between).verdict is PASS


def test_what_a_group_does_meanwhile_widens_what_it_reads_again_and_nothing_else() -> None:
    """The checkpoint said 3; the group was seen at 3 and then at 6."""
    stands = processed(3, 3, 6)
    assert stands == Processed(3, 6)
    found = world_of(b"abcdefghij").try_out(3, 3, stands=stands, read_again=3)
    assert (found.verdict, found.skipped, found.read_again) == (PASS, 0, (0, 3))
    assert world_of(b"abcdefghij").try_out(3, 3, stands=stands, read_again=2).verdict is FAIL
    assert world_of(b"abcdefghij").try_out(3, 3, stands=stands, read_again=None).verdict is UNKNOWN


def test_an_old_checkpoint_is_read_again_from_and_one_ahead_of_a_reset_group_skips() -> None:
    assert processed(5, 3, 5) == Processed(5, 5)
    assert world_of(b"abcdefghij").try_out(3, 3, stands=Processed(5, 5), read_again=2).read_again == (2, 2)
    ahead = processed(1, 3, 1)
    assert ahead == Processed(1, 1)
    found = world_of(b"abcdefghij").try_out(3, 3, stands=ahead)
    assert (found.verdict, found.skipped) == (FAIL, 2)
    assert "skips 2 records: the group stands at 1" in found.reasons[0]


@pytest.mark.parametrize(("before", "after"), [(None, 3), (3, None), (6, 3)])
def test_a_group_that_came_went_or_went_back_proves_nothing(before: int | None, after: int | None) -> None:
    assert processed(before, 3, after) is None


def test_at_the_end_of_both_sides_there_is_nothing_to_hand() -> None:
    assert world_of(b"abc").try_out(3, 3).verdict is PASS
    late = world_of(b"abc").try_out(2, 3)
    assert (late.verdict, "no record came in time" in late.reasons[0]) == (UNKNOWN, True)
    assert world_of(b"abc").try_out(3, 3, stands=Processed(1, 1)).verdict is FAIL


def test_what_could_not_be_read_is_not_proven_and_a_position_outside_the_log_fails() -> None:
    plan = world_of(b"abc").try_out(1, 1).plan
    window = SourceWindow(0, 0, ())
    for handed, verdict in ((Handed(problem="cut off"), UNKNOWN), (Handed(out_of_range=True), FAIL)):
        assert judge(plan, handed, window, {}, lambda start, end: 0).verdict is verdict
    for refused, verdict in ((False, UNKNOWN), (True, FAIL)):
        untried = replace(plan, refusal="too old", must_fail=refused)
        found = judge(untried, Handed(), window, {}, lambda start, end: 0)
        assert (found.verdict, found.reasons) == (verdict, ("too old",))


def test_how_many_records_were_handed_and_compared_is_told_whatever_comes_of_it() -> None:
    world = world_of(b"abcdefghij")
    good = world.try_out(4, 4)
    assert (good.verdict, good.handed, good.compared, good.seconds_to_first) == (PASS, 6, 6, 0.1)
    by_content = world.try_out(4, 4, with_map=False)
    assert (by_content.verdict, by_content.handed, by_content.compared) == (PASS, 6, 6)
    narrow = SourceWindow(0, 6, tuple(Seen(*each) for each in sorted(world.source.items()) if each[0] < 6))
    assert (world.try_out(4, 4, window=narrow).handed, world.try_out(4, 4, window=narrow).compared) == (6, 2)
    other = world_of(b"abcdefghij", b"abcdUVWXYZ").try_out(4, 4)
    assert (other.verdict, other.handed, other.compared) == (FAIL, 6, 6)


def test_how_many_records_were_handed_is_told_of_what_is_not_proven() -> None:
    plan = world_of(b"abcdefghij").try_out(4, 4).plan
    handed = Handed((Seen(4, b"e"), Seen(5, b"f")))
    window = SourceWindow(0, 0, ())
    for tried_plan, what in (
        (replace(plan, processed=None), handed),
        (plan, replace(handed, problem="cut off")),
    ):
        found = judge(tried_plan, what, window, {}, lambda start, end: 0)
        assert (found.verdict, found.handed, found.compared) == (UNKNOWN, 2, 0)
    others = judge(plan, handed, window, {4: None, 5: None}, lambda start, end: 0)
    assert (others.verdict, others.handed) == (PASS, 2)
    ahead = judge(replace(plan, processed=Processed(1, 1)), handed, window, {4: None, 5: None}, lambda start, end: 0)
    assert (ahead.verdict, ahead.handed) == (FAIL, 2)
    waiting = SourceWindow(0, 9, (Seen(8, b"x"),))
    late = judge(plan, handed, waiting, {4: None, 5: None}, lambda start, end: 0)
    assert (late.verdict, late.handed) == (UNKNOWN, 2)


def test_a_known_gap_ends_before_its_end() -> None:
    """Offset 6 lacks, and is no part of the gap from 5 to 6."""
    world = world_of(b"abcdefghij")
    lacking = replace(
        world,
        target={offset: content for offset, content in world.target.items() if offset != 6},
        map=CopyMap(OffsetMap(0, True, Runs.of([Run(0, 0, 6), Run(7, 7, 3)]), 10, 10)),
    )
    handed = Handed(tuple(Seen(*each) for each in sorted(lacking.target.items()) if each[0] >= 4))
    window = SourceWindow(0, 10, tuple(Seen(*each) for each in sorted(world.source.items())))
    origins = lacking.map.origins(seen.offset for seen in handed.records)
    plan = world.try_out(4, 4).plan
    assert judge(plan, handed, window, origins, lacking.map.copies_between, [(5, 6)]).verdict is FAIL


def test_what_compaction_may_have_removed_is_doubted_and_not_called_skipped() -> None:
    world = world_of(b"abcdefghij")
    whole = SourceWindow(0, 10, tuple(Seen(*each) for each in sorted(world.source.items())))
    assert world.try_out(4, 5, window=whole).verdict is FAIL
    assert world.try_out(4, 5, window=replace(whole, compacted=True)).verdict is UNKNOWN


def test_when_half_of_the_records_differ_they_are_altered_and_when_more_do_they_are_others() -> None:
    half, more = (world_of(b"abcdefghij", copies).try_out(4, 4) for copies in (b"abcdeXgYiZ", b"abcdeXYZWV"))
    assert half.reasons[0].startswith("3 records are altered, the first at 5")
    assert "none of those" in more.reasons[0]


def test_a_group_that_returns_to_the_original_is_followed_through_the_opposite_map() -> None:
    """CKP-07: on the source it read a copy; upstream of that copy is the target."""
    copies = CopyMap(OffsetMap(0, True, Runs.of([Run(0, 10, 3), Run(5, 13, 2)]), 7, 15), is_return=True)
    assert copies.origins([0, 2, 3, 5, 6, 7]) == {0: 10, 2: 12, 3: None, 5: 13, 6: 14}
    assert (copies.first_at(3), copies.copies_between(12, 14), copies.known_end, copies.source_end) == (13, 2, 7, 15)


def test_mirrormakers_default_filter_leaves_shadows_out() -> None:
    """So no flow behind the target carries them on (CFG-040)."""
    name = shadow_name("20260101T000000Z-0000", "billing")
    assert is_shadow(name)
    assert not PatternFilter((".*",), ("console-consumer-.*", "connect-.*", "__.*")).matches(name)


def test_where_the_source_has_none_of_the_records_handed_any_more_nothing_is_proven() -> None:
    """By the map alone the position is right; whether the map is, only contents tell."""
    gone = world_of(b"abcdefghij").try_out(4, 4, window=SourceWindow(0, 10, ()))
    assert (gone.verdict, gone.compared) == (UNKNOWN, 0)
    assert "contents could not be compared" in gone.reasons[0]


def test_records_that_come_twice_fail() -> None:
    world = world_of(b"abcdef")
    plan = world.try_out(2, 2).plan
    handed = Handed(tuple(Seen(offset, bytes([each])) for offset, each in enumerate(b"cdcdef", 2)))
    origins = dict(zip(range(2, 8), (2, 3, 2, 3, 4, 5), strict=True))
    window = SourceWindow(0, 10**6, tuple(Seen(*each) for each in sorted(world.source.items())))
    found = judge(plan, handed, window, origins, world.map.copies_between)
    assert found.verdict is FAIL
    assert "handed twice or out of order" in found.reasons[0]


@pytest.mark.parametrize(
    ("before", "used", "after", "found"),
    [
        (3, 5, 9, Processed(5, 9)),
        (5, 5, 5, Processed(5, 5)),
        # A checkpoint is older than what was seen before, or was taken of a position that came later.
        (3, 2, 9, Processed(3, 9)),
        (3, 10, 9, Processed(3, 9)),
        (9, 9, 3, None),
        (None, 5, 9, None),
        (3, 5, None, None),
    ],
)
def test_what_a_group_had_processed_lies_between_what_it_stood_at_before_and_after(
    before: int | None, used: int, after: int | None, found: Processed | None
) -> None:
    assert processed(before, used, after) == found


ORDERS, COPY = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
ALL = {offset: b"%d" % offset for offset in range(10)}
PLAIN = OffsetMap(0, True, Runs.of([Run(0, 0, 10)]), 10, 10)
PLAN = ShadowPartition("billing", ORDERS, COPY, 5, 5, processed=Processed(5, 5), forecast=Forecast(0, 2))


@pytest.mark.parametrize(("position", "verdict"), [(5, PASS), (3, PASS), (2, FAIL)])
def test_it_may_begin_as_many_records_too_early_as_was_forecast_and_not_one_more(
    position: int, verdict: Verdict
) -> None:
    plan = replace(PLAN, position=position, early_records=2)
    handed = tuple(Seen(offset, ALL[offset]) for offset in range(position, 10))
    window = SourceWindow(0, 10, tuple(Seen(*each) for each in ALL.items()))
    copies = CopyMap(PLAIN)
    origins = copies.origins(each.offset for each in handed)
    found = judge(plan, Handed(handed, 0.1), window, origins, copies.copies_between)
    assert found.verdict is verdict
    early = [each for each in found.reasons if "too early, where at most 2 were forecast" in each]
    assert len(early) == (verdict is FAIL)


def test_a_record_that_is_handed_twice_is_noticed() -> None:
    window = SourceWindow(5, 7, (Seen(5, b"a"), Seen(6, b"b")))
    handed = Handed((Seen(5, b"a"), Seen(6, b"a"), Seen(7, b"b")), 0.1)
    found = judge(PLAN, handed, window, {5: 5, 6: 5, 7: 6}, lambda *_: 0)
    assert (found.verdict, found.reasons) == (FAIL, ("records of orders-0 are handed twice or out of order",))


@pytest.mark.parametrize(("low", "verdict"), [(5, PASS), (4, FAIL)])
def test_where_nothing_is_handed_a_group_that_stands_before_its_position_would_skip(low: int, verdict: Verdict) -> None:
    """Also if it has got there in between."""
    plan = replace(PLAN, processed=Processed(low, 5))
    found = judge(plan, Handed((), None), SourceWindow(5, 5, ()), {}, lambda *_: 0)
    assert found.verdict is verdict
