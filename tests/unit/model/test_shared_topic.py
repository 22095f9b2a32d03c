"""A topic that both clusters write and copy to one another: a reader who changes sides misses nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import example, given
from hypothesis import strategies as st

from mirror.model.offset_map import OffsetMap, Run, Runs, extend
from mirror.model.shared_topic import translate_shared
from mirror.model.translation import Bounded, Exact

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
