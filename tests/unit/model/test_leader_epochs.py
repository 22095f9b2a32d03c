"""Where two logs of the same name part is found from the epochs of the one and what the leader says of the other."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from mirror.model.leader_epochs import NOT_KNOWN, EpochEnd, epochs_before, find_divergence

# Under which leader each offset of a log was written.
Log = list[int]


@dataclass(frozen=True)
class Twins:
    """A log as it was read from an offset on, and as it is now."""

    was: Log
    now: Log
    origin: int

    @property
    def parted_at(self) -> int | None:
        for offset, epoch in enumerate(self.was):
            if offset >= len(self.now) or self.now[offset] != epoch:
                return offset
        return None

    @property
    def read(self) -> list[EpochEnd]:
        found = [EpochEnd(NOT_KNOWN, self.origin)]
        for offset, epoch in enumerate(self.was):
            if offset >= self.origin:
                if found[-1].epoch == epoch:
                    found.pop()
                found.append(EpochEnd(epoch, offset + 1))
        return found

    def ask(self, epoch: int) -> EpochEnd | None:
        older = [one for one in self.now if one <= epoch]
        return EpochEnd(older[-1], len(older)) if older else None


@st.composite
def twins(draw: st.DrawFn) -> Twins:
    """Replicas share a beginning; behind it no epoch wrote to both: one leader a time."""
    lengths = st.lists(st.integers(1, 3), max_size=6)
    shared = [epoch for epoch, length in enumerate(draw(lengths)) for _ in range(length)]
    last = shared[-1] if shared else 0
    ends: list[Log] = [[], []]
    going_on = draw(st.sampled_from([None, 0, 1]))
    if going_on is not None:
        ends[going_on] += [last] * draw(st.integers(0, 3))
    for step, (length, which) in enumerate(draw(st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=8))):
        ends[which] += [last + 1 + step] * length
    was, now = shared + ends[0], shared + ends[1]
    return Twins(was, now, draw(st.integers(0, len(was))))


@given(twins())
def test_the_first_offset_that_differs_is_found_or_none_if_none_does(logs: Twins) -> None:
    """However far the log has grown since; what lies before the origin was never read, so it cannot have parted."""
    upstream = len(logs.was)
    found = find_divergence(logs.read, upstream, logs.ask)
    parted = logs.parted_at
    if logs.origin == upstream or parted is None:
        assert found is None
    elif parted >= logs.origin:
        assert found == parted
    else:
        assert found is not None
        assert found <= logs.origin


@given(twins(), st.integers(0, 40))
def test_only_what_was_copied_counts(logs: Twins, upstream: int) -> None:
    """The lane reads ahead of what is acknowledged."""
    upstream = max(logs.origin, min(upstream, len(logs.was)))
    cut = Twins(logs.was[:upstream], logs.now, logs.origin)
    assert epochs_before(logs.read, upstream) == tuple(cut.read)


def test_nothing_is_found_where_no_epoch_is_known() -> None:
    assert find_divergence((), 10, lambda _: None) is None
    assert find_divergence((EpochEnd(NOT_KNOWN, 10),), 10, lambda _: None) is None


def test_of_many_epochs_the_oldest_are_forgotten_and_going_back_then_goes_too_far_rather_than_not_far_enough() -> None:
    epochs = [EpochEnd(epoch, end) for epoch, end in enumerate(accumulate([10] * 40))]
    kept = epochs_before(epochs, 400)
    assert len(kept) == 16
    assert kept[0] == EpochEnd(NOT_KNOWN, 250)
    assert kept[1:] == tuple(epochs[25:])
    assert find_divergence(kept, 400, lambda _: EpochEnd(3, 40)) == 40
    assert find_divergence(kept, 400, lambda _: EpochEnd(3, 390)) == 250
