"""Where exactly a gap begins and ends, and what people are told of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.copier import gaps
from mirror.copier.work import GapPolicy
from tests.unit.copier.test_gaps import ENDS, NOW, POSITION, SOURCE, found, known, work


def test_a_detour_is_known_to_the_state_as_soon_as_it_is_taken() -> None:
    """What comes next, as the gap behind it, is found from there; all that is behind it is known for certain."""
    detour, state = found(work(), diverged=65), known()
    assert detour is not None
    handover, _ = gaps.take(detour, detour.gap, SOURCE, state)
    assert handover.clean
    assert state.positions[SOURCE] == handover.position
    assert state.open_runs(SOURCE) == handover.runs


def test_only_where_nothing_tells_what_is_the_same_somebody_must_decide() -> None:
    for detour in (
        found(work(), diverged=65),
        found(work(topic_id="new id")),
        found(work(), replace(ENDS, target_end=55, target_written=55)),
    ):
        assert detour is not None
        assert detour.is_certain


@pytest.mark.parametrize(("start", "is_gap"), [(100, False), (101, True)])
def test_a_source_that_begins_where_the_copy_ended_lacks_nothing(start: int, *, is_gap: bool) -> None:
    later = replace(POSITION, upstream=110, downstream=95)
    gap = gaps.unrecorded(work(), POSITION, later, replace(ENDS, source_start=start), NOW)
    assert (gap is not None) is is_gap
    if gap is not None:
        assert (gap.start, gap.end, gap.passed) == (100, 101, True)
        assert "had the offsets 100 of" in gap.reason, "one offset is no range"
    two = gaps.overtaken(work(), POSITION, 102, None, NOW)
    assert "had the offsets 100 to 101 of" in two.reason


def test_a_run_that_ends_where_the_target_does_is_not_lost_and_the_reason_says_what_happened() -> None:
    """Of the two chunks the second run ends at 60 of the target, the third at 90."""
    cut = found(work(), replace(ENDS, target_end=60, target_written=60))
    assert cut is not None
    assert cut.gap is not None
    assert cut.gap.start == 70
    assert "30 copies" in cut.gap.reason
    assert "ended at offset 60, before the position 90" in cut.gap.reason
    assert "which is from" not in cut.gap.reason

    at_the_start = found(work(), replace(ENDS, target_end=60, target_written=60, source_start=70))
    assert at_the_start is not None
    assert at_the_start.gap is not None
    assert "which is from" not in at_the_start.gap.reason, "it still has all of it"

    anew = found(work(target_id="new id"), replace(ENDS, target_end=0, target_written=0, source_start=5))
    assert anew is not None
    assert anew.gap is not None
    assert "was deleted and created anew" in anew.gap.reason
    assert "which is from 5 on" in anew.gap.reason


def test_a_gap_is_passed_as_its_policy_says_where_it_is_certain() -> None:
    gap = gaps.overtaken(work(), POSITION, 102, None, NOW)
    assert gaps.settle(gap, GapPolicy()).passed
    assert not gaps.settle(gap, GapPolicy(), is_certain=False).passed
    assert not gaps.settle(gap, GapPolicy(stops=True)).passed


def test_where_only_what_others_wrote_behind_the_copy_is_gone_nothing_of_it_is_missing() -> None:
    """The last copy ends at 90; the position was carried on past somebody's records, to 95."""
    detour = found(work(replace(POSITION, downstream=95)), replace(ENDS, target_end=90, target_written=90))
    assert detour is not None
    assert detour.gap is None
    assert (detour.position.upstream, detour.position.downstream) == (100, 90)
