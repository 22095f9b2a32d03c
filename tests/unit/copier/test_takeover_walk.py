"""How the batches of the target are followed through the source: back, on from where a life ended, past holes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mirror.copier.takeover import Found, Unclear, match
from mirror.kafka.batch import PLAIN, Record
from mirror.model.mm2_trace import Anchor, Pair
from mirror.model.offset_map import Run
from tests.unit.copier.builders import TIME, record
from tests.unit.copier.test_takeover import FOREIGN, World, assert_exact, is_ours


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
    return match(world.log(), world.prints(), anchor, position, is_ours=is_ours, is_shared=True, tell=tell)


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
    assert (found.records, found.doubled, found.others) == (10, 2, 0)


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
    assert (found.gone, found.records, found.others) == ((3, 3, 0) if is_clear else (0, 0, 7))


def test_one_record_that_is_the_first_of_the_source_is_no_strangers() -> None:
    found = followed(copied([record(offset) for offset in range(3)], (0, 1)))
    assert isinstance(found, Found)
    assert (found.upstream, found.records, found.others) == (1, 1, 0)


def test_how_many_records_were_looked_at_is_told_on_the_way() -> None:
    world = copied([record(offset) for offset in range(9)], (0, 2), (2, 5))
    world.append([record(77)], FOREIGN)
    told: list[int] = []
    followed(world, told=told)
    assert told == [2, 5, 6]
