"""A topic that both clusters write and copy to one another: a reader who changes sides misses nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mirror.model.mm2_trace import Pair
from mirror.model.offset_map import OffsetMap, Run, Runs, SparseOffsetMap, extend
from mirror.model.shared_topic import translate_shared
from mirror.model.translation import Bounded, Exact, Same, TooOld
from tests.unit.model.builders import BY_JAVA

# A record is known by who wrote it first, and its number there; a marker is None.
Record = tuple[str, int] | None


@dataclass
class Side:
    """One cluster's log, and how far its own records are copied to the other."""

    name: str
    log: list[Record] = field(default_factory=list)
    written: int = 0
    copied: int = 0
    runs: list[Run] = field(default_factory=list)
    copies_end: int = 0

    def write(self, count: int) -> None:
        self.log += [(self.name, self.written + number) for number in range(count)]
        self.written += count

    def copy_to(self, other: Side, count: int) -> None:
        """Copy the next ``count`` offsets: its own records, not those that came from there."""
        for offset in range(self.copied, min(self.copied + count, len(self.log))):
            record = self.log[offset]
            if record is not None and record[0] == self.name:
                extend(self.runs, Run(offset, len(other.log), 1))
                other.log.append(record)
                self.copies_end = len(other.log)
            self.copied = offset + 1

    @property
    def map(self) -> OffsetMap:
        return OffsetMap(0, True, Runs.of(self.runs), self.copied, self.copies_end)


steps = st.lists(
    st.tuples(st.sampled_from(["a writes", "b writes", "a to b", "b to a", "marker on b"]), st.integers(1, 4)),
    max_size=14,
)


def after(taken: list[tuple[str, int]]) -> tuple[Side, Side]:
    a, b = Side("a"), Side("b")
    for step, count in taken:
        match step:
            case "a writes":
                a.write(count)
            case "b writes":
                b.write(count)
            case "a to b":
                a.copy_to(b, count)
            case "b to a":
                b.copy_to(a, count)
            case _:
                b.log.append(None)
    return a, b


@given(steps)
@example([("b writes", 3), ("b to a", 3), ("a writes", 3), ("a to b", 9), ("b to a", 9)])
@example([("b writes", 3), ("b to a", 2), ("a writes", 3), ("a to b", 9)])
def test_a_reader_of_either_side_misses_nothing_on_the_other_and_meets_no_more_again_than_said(
    taken: list[tuple[str, int]],
) -> None:
    a, b = after(taken)
    for position in range(len(a.log) + 1):
        read = set(a.log[:position])
        found = translate_shared(a.map, b.map, position)
        assert isinstance(found, Exact | Bounded)
        assert not [each for each in b.log[: found.downstream] if each is not None and each not in read]
        # What is not copied yet comes behind everything, once it is.
        to_come = [each for each in a.log[a.copied :] if each is not None and each[0] == "a"]
        again = [each for each in (*b.log[found.downstream :], *to_come) if each in read and each is not None]
        assert len(again) <= (found.behind_records if isinstance(found, Bounded) else 0)


def test_after_a_clean_failover_and_failback_positions_are_exact() -> None:
    """Everything is copied home before the groups are: those in the middle of the mirrored part, and those at the end."""
    home, standby = after(
        [("b writes", 9), ("b to a", 9), ("a writes", 6), ("a to b", 99), ("b to a", 99)],
    )[::-1]
    found = [translate_shared(standby.map, home.map, position) for position in range(len(standby.log) + 1)]
    assert found == [Exact(position) for position in range(16)]


def test_records_that_never_reached_the_standby_are_not_passed_over_when_its_readers_come_home() -> None:
    """Three were left behind by the disaster; they come back in the home log before what the standby wrote then."""
    standby, home = after([("b writes", 9), ("b to a", 6), ("a writes", 4), ("a to b", 99)])
    assert translate_shared(standby.map, home.map, 3) == Exact(3)
    assert translate_shared(standby.map, home.map, 10) == Bounded(6, 4)


def test_of_what_the_map_has_forgotten_nothing_is_taken_for_read() -> None:
    """A group stands before the log of the source, which has lost the copies that it had not read."""
    forward = OffsetMap(0, True, Runs(), 10, 0)
    opposite = OffsetMap(0, True, Runs.of([Run(20, 30, 10)]), 30, 40, is_pruned=True)
    assert translate_shared(forward, opposite, 5) == Bounded(0, 10)


def test_copies_that_are_read_are_passed_though_the_flow_back_has_not_looked_at_them() -> None:
    a, b = after([("a writes", 3), ("a to b", 3)])
    assert translate_shared(a.map, b.map, 3) == Exact(3)


NOTHING_COPIED = OffsetMap(0, True, Runs(), 2000, 500)


@pytest.mark.parametrize("position", [0, 1005, *range(1010, 1151)])
def test_of_what_java_mirrormaker_copied_a_reader_of_the_copies_misses_nothing_on_the_side_they_come_from(
    position: int,
) -> None:
    """Also before the first sync that is known, where only the beginning of the stretch is."""
    read_to = max(10, position - 1000)
    found = translate_shared(NOTHING_COPIED, BY_JAVA, position)
    assert isinstance(found, Exact | Bounded)
    assert found.downstream <= read_to
    assert read_to - found.downstream <= (found.behind_records if isinstance(found, Bounded) else 0)


def test_a_reader_of_all_that_was_copied_before_java_mirrormaker_did_has_read_nothing_of_that() -> None:
    """Records of others may lie between the two on the log of the copies."""
    stretch = SparseOffsetMap(10, 800, 20, 810, (Pair(9, 19), Pair(400, 410)))
    opposite = OffsetMap(0, True, Runs.of([Run(0, 0, 10), Run(800, 810, 50)]), 850, 860, (stretch,))
    for position in (10, 15, 20):
        assert translate_shared(NOTHING_COPIED, opposite, position) == Exact(10)
    assert translate_shared(NOTHING_COPIED, opposite, 5) == Exact(5)
    assert translate_shared(NOTHING_COPIED, opposite, 830) == Exact(820)


@pytest.mark.parametrize(("position", "copied_to"), [(20, 1020), (45, 1021), (60, 1060), (99, 1061), (100, 2000)])
def test_of_what_java_mirrormaker_copied_no_copy_is_passed_that_may_not_be_read(position: int, copied_to: int) -> None:
    """Nothing exact lies behind; from its end on everything of the source is read, and the target's own counts."""
    stretches = (
        SparseOffsetMap(0, 9, 1000, 1009, (Pair(0, 1000),)),
        SparseOffsetMap(20, 100, 1020, 1100, (Pair(20, 1020), Pair(60, 1060))),
    )
    forward = OffsetMap(100, False, Runs(), 100, 1100, stretches)
    found = translate_shared(forward, OffsetMap(0, True, Runs(), 2000, 0), position)
    assert isinstance(found, Exact | Bounded)
    assert found.downstream == copied_to


def test_what_is_too_old_for_one_map_is_not_guessed_by_the_other() -> None:
    forward = OffsetMap(100, False, Runs.of([Run(100, 0, 50)]), 150, 50)
    assert translate_shared(forward, OffsetMap(0, True, Runs(), 9, 0), 99) == TooOld(100)


def test_of_a_map_that_has_forgotten_its_beginning_what_it_still_has_is_exact() -> None:
    opposite = OffsetMap(0, True, Runs.of([Run(20, 30, 10)]), 30, 40, is_pruned=True)
    assert translate_shared(OffsetMap(0, True, Runs(), 40, 0), opposite, 35) == Exact(25)


@pytest.mark.parametrize(("position", "found"), [(8, Same(8)), (20, Same(20)), (23, Bounded(20, 3))])
def test_with_the_source_s_offsets_a_marker_behind_the_last_copy_of_before_a_failover_holds_nobody_back(
    position: int, found: Same | Bounded
) -> None:
    """Led home by a failback, a group read again what it had read of a transactional topic since the failover."""
    # What was copied there up to the failover; and home again since, a marker at every fifth offset.
    there = OffsetMap(0, True, Runs.of([Run(0, 0, 10)]), 10, 10, same_offsets=True)
    runs = [Run(at, at, 4) for at in range(0, 20, 5)]
    home = OffsetMap(0, True, Runs.of(runs), 20, 20, same_offsets=True)
    assert translate_shared(home, there, position) == found


def test_nobody_is_led_behind_the_copies_that_the_flow_back_began_behind() -> None:
    there = OffsetMap(0, True, Runs.of([Run(0, 0, 10)]), 10, 10, same_offsets=True)
    home = OffsetMap(10, True, Runs.of([Run(10, 10, 4)]), 14, 14, same_offsets=True)
    found = translate_shared(home, there, 3)
    assert isinstance(found, Exact | Bounded)
    assert found.downstream == 3
