"""Java MirrorMaker's syncs say where it went back to, and behind which of them a reader misses nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror.model.mm2_trace import MOST_PAIRS, Anchor, Mm2Trace, NoAnchor, Pair, SyncTrail, find_anchor, safe_pairs


def trail_of(*pairs: tuple[int, int]) -> SyncTrail:
    trail = SyncTrail()
    for pair in pairs:
        trail.take(Pair(*pair))
    return trail


def anchored(trace: Mm2Trace, own: Pair | None = None, start: int = 0, end: int = 10_000) -> Anchor:
    anchor = find_anchor(trace, own, start, 0, end)
    assert isinstance(anchor, Anchor)
    return anchor


def test_a_stretch_begins_where_mirrormaker_went_back() -> None:
    trail = trail_of((0, 0), (100, 100), (50, 151), (160, 261), (160, 300))
    assert trail.stretches() == (
        (Pair(0, 0), Pair(100, 100)),
        (Pair(50, 151), Pair(160, 261)),
        (Pair(160, 300),),
    )
    assert trail.stretches(from_downstream=151)[0] == (Pair(50, 151), Pair(160, 261))


def test_syncs_of_another_log_of_the_target_are_forgotten() -> None:
    assert trail_of((0, 0), (100, 100), (101, 0), (150, 49)).stretches() == ((Pair(101, 0), Pair(150, 49)),)


def test_a_sync_written_twice_is_one() -> None:
    assert trail_of((3, 3), (3, 3)).stretches() == ((Pair(3, 3),),)


@given(st.integers(MOST_PAIRS, 5000))
def test_a_long_trail_is_thinned_towards_the_past(count: int) -> None:
    trail = trail_of(*((100 * number, 100 * number) for number in range(count)))
    (stretch,) = trail.stretches()
    assert len(stretch) <= MOST_PAIRS
    assert stretch[0] == Pair(0, 0)
    assert stretch[-200:] == tuple(Pair(100 * number, 100 * number) for number in range(count - 200, count))
    assert list(stretch) == sorted(stretch)


def test_the_anchor_is_the_last_sync_not_past_the_position() -> None:
    stretches = trail_of(*((100 * number, 100 * number) for number in range(90))).stretches()
    anchor = anchored(Mm2Trace(8050, stretches))
    assert anchor.at == Pair(8000, 8000)
    assert anchor.is_record
    assert anchor.source_from == 8000
    assert anchor.marks == {100 * number: 100 * number for number in range(81, 90)}
    # It recorded no position: all that it wrote lies behind.
    assert anchored(Mm2Trace(None, stretches)).at == Pair(0, 0)
    # What the source no longer has cannot be compared.
    assert anchored(Mm2Trace(None, stretches), start=8550).at == Pair(8500, 8500)


def test_what_a_life_wrote_that_got_further_than_those_after_it_lies_behind_the_anchor() -> None:
    stretches = trail_of((0, 0), (50, 50), (90, 90), (60, 120), (70, 130)).stretches()
    anchor = anchored(Mm2Trace(65, stretches))
    assert anchor.at == Pair(90, 90)
    assert anchor.source_from == 60
    # The first life can have got as far as the target got longer before the second began.
    unseen = trail_of((0, 0), (50, 50), (52, 120), (60, 128)).stretches()
    assert anchored(Mm2Trace(55, unseen)).at == Pair(50, 50)
    # The second has certainly got further.
    passed = trail_of((0, 0), (50, 50), (52, 120), (60, 128), (900, 968), (910, 978)).stretches()
    assert anchored(Mm2Trace(905, passed)).at == Pair(900, 968)


def test_our_own_position_serves_like_a_sync() -> None:
    own = Pair(50, 60)
    stretches = trail_of((10, 10), (50, 60), (150, 160)).stretches()
    anchor = anchored(Mm2Trace(100, stretches[:1]), own)
    assert (anchor.at, anchor.is_record) == (Pair(50, 60), True)
    assert anchored(Mm2Trace(None), own) == Anchor(own, False, 50, {})
    # MirrorMaker went back before it.
    back = anchored(Mm2Trace(None, trail_of((45, 70), (55, 80)).stretches()), own)
    assert (back.at, back.is_record, back.source_from) == (own, False, 45)
    # Older syncs are not about what came later.
    assert anchored(Mm2Trace(None, trail_of((1, 1)).stretches()), own).marks == {}


def test_what_the_target_does_not_reach_is_about_another_log() -> None:
    stretches = trail_of((4, 9)).stretches()
    assert isinstance(find_anchor(Mm2Trace(5, stretches), None, 0, 0, 9), NoAnchor)
    assert isinstance(find_anchor(Mm2Trace(5), Pair(4, 10), 0, 0, 9), NoAnchor)
    assert isinstance(find_anchor(Mm2Trace(5), Pair(4, 9), 0, 0, 9), Anchor)
    assert find_anchor(Mm2Trace(5), None, 0, 0, 9) is None
    # What the target no longer has is of no use.
    assert find_anchor(Mm2Trace(5, stretches), None, 0, 10, 12) is None


def test_behind_a_safe_pair_nothing_is_missing() -> None:
    went_on = trail_of((0, 0), (100, 100), (50, 151), (160, 261)).stretches()
    assert safe_pairs(went_on, Pair(900, 900)) == (Pair(0, 0), Pair(50, 151), Pair(160, 261))
    assert safe_pairs(went_on, Pair(60, 162)) == (Pair(0, 0), Pair(50, 151))
    # What was copied further before would be missing behind these.
    fell_short = trail_of((0, 0), (100, 100), (50, 151), (60, 161)).stretches()
    assert safe_pairs(fell_short, Pair(900, 900)) == (Pair(0, 0), Pair(100, 100))
