"""What two logs lack that were cleaned at different times is explained, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.kafka.batch import Record
from mirror.model.absences import Absence, AbsenceKind
from mirror.model.ledger import LOGS
from mirror.model.offset_map import Run, Runs, extend, runs_from
from mirror.model.partition import TopicPartition
from mirror.model.transforms.chain import Chain, ChainedTransform
from mirror.model.transforms.python_function import PythonFunction
from mirror.parts import arrow_schema
from mirror.proof.cleaned import Explained, explain
from mirror.proof.log_reader import KEYS, LogRange, keyed_rows
from mirror.proof.pairs import Compaction, PartitionPair

SOURCE, COPY = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
OURS, SOMEBODY = 7, 99


class Written(NamedTuple):
    """A record as it was written: its key, and whether it is a tombstone."""

    key: str | None
    is_tombstone: bool = False


@dataclass
class History:
    """What was written to the source, how much of it was copied, and what is left on both sides, by upstream offset.

    The range ends at ``copied``; by the time the copy is read it has what lies before ``held`` too.
    """

    written: Sequence[Written]
    copied: int
    at_source: set[int]
    at_target: set[int]
    shift: int = 2
    altered: dict[int, str] = field(default_factory=dict)
    held: int = 0

    def place(self, upstream: int) -> int:
        """Where a record was copied to; every third offset of the copy was something else."""
        return self.shift + upstream + upstream // 3

    def record(self, upstream: int, offset: int, altered: str | None = None) -> Record:
        key, is_tombstone = self.written[upstream]
        value = b"other" if altered == "value" else None if is_tombstone else b"%d" % upstream
        key = "c" if altered == "key" and key != "c" else key
        return Record(offset, 1_000 + upstream, None if key is None else key.encode(), value, (), OURS)

    def pair(self, **more: object) -> PartitionPair:
        runs: list[Run] = []
        for upstream in range(self.copied):
            extend(runs, Run(upstream, self.place(upstream), 1))
        return PartitionPair(
            LogRange("east", {}, SOURCE, 0, self.copied),
            LogRange("west", {}, COPY, 0, self.place(self.copied)),
            Runs.of(runs),
            frozenset({OURS}),
            compaction=Compaction(source=True, target=True),
            **more,  # type: ignore[arg-type]
        )

    def source(self) -> pa.Table:
        return table(self.record(upstream, upstream) for upstream in sorted(self.at_source))

    def copy(self, *others: Record) -> pa.Table:
        copies = (
            self.record(each, self.place(each), self.altered.get(each))
            for each in sorted(self.at_target)
            if each < max(self.copied, self.held)
        )
        return table(sorted((*copies, *others)))

    def explained(self, pair: PartitionPair | None = None, *others: Record) -> Explained:
        return explain(pair or self.pair(), self.source(), self.copy(*others))

    def left(self, pair: PartitionPair | None = None, *others: Record) -> tuple[list[int], list[int]]:
        """The records that only the source has, and only the copy, and that are not explained; by upstream offset."""
        found = self.explained(pair, *others)
        copies = {self.place(each): each for each in range(self.copied)}
        explained = {copies[int(each)] for each in found.copies}
        copied = {each for each in self.at_target if each < self.copied}
        in_range = {each for each in self.at_source if each < self.copied}
        missing = sorted((in_range - copied) - {int(each) for each in found.originals})
        extra = sorted((copied - in_range) - explained)
        assert {int(each) for each in found.originals} <= in_range - copied
        assert explained <= copied - in_range
        return missing, extra


def table(records: Iterable[Record]) -> pa.Table:
    rows = list(keyed_rows("any", SOURCE, records))
    schema = arrow_schema((*LOGS, *KEYS))
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.Table.from_arrays(
        [pa.array(column, type=each.type) for column, each in zip(columns, schema, strict=True)], schema=schema
    )


def cleaned(draw: st.DrawFn, written: Sequence[Written], end: int, copied: int) -> set[int]:
    """What a cleaner leaves that has come some times, each time further, and knows of no record from ``end`` on.

    A tombstone that goes before it was copied is no tombstone for the copy, for good: it keeps what was deleted.
    """
    left = set(range(end))
    for cleaned_to in sorted(draw(st.lists(st.integers(0, end), max_size=3))):
        newest = {written[each].key: each for each in range(cleaned_to)}
        is_late = draw(st.booleans())
        for each in range(cleaned_to):
            key, is_tombstone = written[each]
            if key is not None and (newest[key] != each or (is_tombstone and is_late and each < copied)):
                left.discard(each)
    return left


@st.composite
def histories(draw: st.DrawFn, *, goes_on: bool = False) -> History:
    record = st.builds(Written, st.sampled_from(["a", "b", "c", None]), st.booleans())
    written = draw(st.lists(record, min_size=1, max_size=14))
    copied = draw(st.integers(1, len(written)))
    held = draw(st.integers(copied, len(written))) if goes_on else copied
    at_source = cleaned(draw, written, len(written), copied)
    return History(written, copied, at_source, cleaned(draw, written, held, copied), held=held)


@given(st.one_of(histories(), histories(goes_on=True)))
def test_logs_cleaned_at_different_times_differ_in_nothing(history: History) -> None:
    """Also where the mirror lags: the source was cleaned for what is not copied yet.

    And where it goes on while it is compared: the copy was cleaned for what was copied since.
    """
    found = history.explained()

    assert history.left() == ([], [])
    assert found.equal == len({each for each in history.at_source & history.at_target if each < history.copied})


@given(histories(), st.data())
def test_a_lost_record_that_was_the_newest_of_its_key_is_missing(history: History, data: st.DataObject) -> None:
    """But for a tombstone with nothing left of its key: that one the cleaner may have removed."""
    written = history.written
    newest = {written[each].key: each for each in range(history.copied)}
    alive = [
        each
        for each in history.at_source & history.at_target
        if each < history.copied and (newest[written[each].key] == each or written[each].key is None)
    ]
    if not alive:
        return
    lost = data.draw(st.sampled_from(sorted(alive)))
    history.at_target.discard(lost)
    is_deletion = written[lost].is_tombstone and not any(
        written[each].key == written[lost].key for each in history.at_target
    )

    missing, extra = history.left()
    if is_deletion and written[lost].key is not None:
        assert missing == []
    else:
        # What the cleaner had removed for it is not explained any more either.
        assert lost in missing
        assert {written[each].key for each in missing} == {written[lost].key}
    assert {written[each].key for each in extra} <= {written[lost].key}


@given(histories(), st.data())
def test_a_record_lost_among_those_of_its_key_is_missing(history: History, data: st.DataObject) -> None:
    """The cleaner would have removed the older one first, which is still there."""
    written = history.written
    there = sorted(each for each in history.at_target if written[each].key is not None)
    older = [each for each in there if any(written[one].key == written[each].key for one in there if one < each)]
    if not set(older) & history.at_source:
        return
    lost = data.draw(st.sampled_from(sorted(set(older) & history.at_source)))
    history.at_target.discard(lost)

    assert lost in history.left()[0]


@given(histories(), st.data())
def test_an_altered_record_is_never_explained(history: History, data: st.DataObject) -> None:
    both = sorted(each for each in history.at_source & history.at_target if each < history.copied)
    if not both:
        return
    changed = data.draw(st.sampled_from(both))
    history.altered[changed] = (
        "value" if history.written[changed].key == "c" else data.draw(st.sampled_from(["key", "value"]))
    )
    found = history.explained()

    assert changed not in found.originals
    assert history.place(changed) not in found.copies


def test_a_record_whose_copy_has_another_key_is_not_explained() -> None:
    history = History([A1, B, A2], 3, {0, 1, 2}, {0, 1, 2}, altered={0: "key"})
    found = history.explained()
    assert (len(found.originals), len(found.copies), found.equal) == (0, 0, None)


A1, B, A2, A_GONE = Written("a"), Written("b"), Written("a"), Written("a", is_tombstone=True)


@pytest.mark.parametrize(
    ("told", "history", "left"),
    [
        ("a newest value was not copied", History([A1, B, A2], 3, {1, 2}, {0, 1}), ([2], [])),
        ("an older value was lost, and the newest too", History([A1, B, A2], 3, {0, 1, 2}, {1}), ([0, 2], [])),
        ("a tombstone was lost whose value is left", History([A1, B, A_GONE], 3, {0, 1, 2}, {0, 1}), ([2], [])),
        ("... and is not left at the source", History([A1, B, A_GONE], 3, {1, 2}, {0, 1}), ([2], [])),
        ("a tombstone is gone, and all of its key", History([A1, B, A_GONE], 3, {0, 1, 2}, {1}), ([], [])),
        ("... at the source", History([A1, B, A_GONE], 3, {1}, {0, 1, 2}), ([], [])),
        ("only the value is gone at the source", History([A1, B, A_GONE], 3, {1}, {0, 1}), ([], [0])),
        ("the source lost a tombstone whose value is left", History([A1, B, A_GONE], 3, {0, 1}, {0, 1, 2}), ([], [2])),
        ("... and is not left at the copy", History([A1, B, A_GONE], 3, {0, 1}, {1, 2}), ([0], [2])),
        ("the source lost the newest", History([A1, B, A2], 3, {0, 1}, {0, 1, 2}), ([], [2])),
        ("the source lost one among those of its key", History([A1, A1, A2], 3, {0, 2}, {0, 1, 2}), ([], [1])),
        ("the copy lost one among those of its key", History([A1, A1, A2], 3, {0, 1, 2}, {0, 2}), ([1], [])),
        ("both have removed the oldest", History([A1, A1, A2], 3, {1, 2}, {2}), ([], [])),
        ("the copy has removed less", History([A1, A1, A2], 3, {2}, {1, 2}), ([], [])),
        ("no key at the source either", History([Written(None), B], 2, {1}, {0, 1}), ([], [0])),
        ("the newest copied was removed for one behind it", History([A1, B, A2], 1, {1, 2}, {0}), ([], [])),
        ("... and is the last of all", History([A1, B], 1, {1}, {0}), ([], [0])),
        ("no key at the source, another one behind it", History([Written(None)] * 2, 2, {1}, {0, 1}), ([], [0])),
        ("no key", History([Written(None), Written(None)], 2, {0, 1}, {1}), ([0], [])),
        ("the later one is not copied yet", History([A1, B, A2], 2, {1, 2}, {0, 1}), ([], [])),
        ("the copy has removed it for one copied since", History([A1, B, A2], 2, {0, 1}, {1, 2}, held=3), ([], [])),
        ("... and still has an older one", History([A1, A1, A2], 2, {0, 1}, {0, 2}, held=3), ([1], [])),
        ("... or what was copied since is of another key", History([A1, B, B], 2, {0, 1}, {1, 2}, held=3), ([0], [])),
        ("a deletion that was not copied in time", History([A1, B, A_GONE], 2, {1}, {0, 1}), ([], [0])),
        ("a value that the source has replaced and lost", History([A1, B, A2], 3, {1}, {0, 1}), ([], [0])),
    ],
)
def test_what_is_left_if(told: str, history: History, left: tuple[list[int], list[int]]) -> None:
    assert history.left() == left, told


def test_only_a_cleaner_that_is_at_work_explains() -> None:
    history = History([A1, A2, B, B], 4, {0, 1, 3}, {1, 2, 3})
    pair = history.pair()
    assert history.left(pair) == ([], [])
    only_source = replace(pair, compaction=Compaction(source=True, target=False))
    only_target = replace(pair, compaction=Compaction(source=False, target=True))
    assert (history.left(only_source), history.left(only_target)) == (([0], []), ([], [2]))


def test_what_the_copy_lacks_in_front_of_its_log_was_not_removed_by_the_cleaner() -> None:
    history = History([A1, A2], 2, {0, 1}, {1})
    pair = history.pair()
    assert history.left(pair) == ([], [])
    assert history.left(replace(pair, target=replace(pair.target, start=history.place(1)))) == ([0], [])


def test_what_others_wrote_where_they_may_replaces_what_is_before_it() -> None:
    history = History([A1, B], 2, {0, 1}, {1})
    theirs = Record(90, 5_000, b"a", b"theirs", (), SOMEBODY)
    pair = history.pair()
    pair = replace(pair, target=replace(pair.target, end=100))
    assert history.left(replace(pair, is_shared=True), theirs) == ([], [])
    assert history.left(pair, theirs) == ([0], [])
    # What was there before the record did not replace it.
    assert history.left(replace(pair, is_shared=True), theirs._replace(offset=1)) == ([0], [])


def test_what_is_said_to_be_absent_from_the_copy_explains_what_the_source_has_removed() -> None:
    history = History([A1, B, A2], 3, {1, 2}, {0, 1})
    parked = Absence(AbsenceKind.PARKED, 2, 3, "too large", acknowledged=None, records=1)
    found = history.explained(history.pair(absences=(parked,)))
    assert ([*found.originals], [*found.copies], found.equal) == ([], [history.place(0)], 1)


def test_what_is_said_to_be_absent_and_is_there_all_the_same_is_looked_at() -> None:
    history = History([A1, B, A2], 3, {0, 1, 2}, {0, 1, 2})
    parked = Absence(AbsenceKind.PARKED, 2, 3, "too large", acknowledged=None, records=1)
    found = history.explained(history.pair(absences=(parked,)))
    assert ([*found.originals], [*found.copies], found.equal) == ([], [], None)


def test_a_strangers_record_is_looked_at_where_nobody_else_should_write() -> None:
    history = History([A1, B], 2, {0, 1}, {0, 1})
    pair = replace(history.pair(), target=replace(history.pair().target, end=100))
    assert history.explained(pair).equal == 2
    theirs = Record(90, 5_000, b"c", b"theirs", (), SOMEBODY)
    assert history.explained(pair, theirs).equal is None


def test_what_somebody_else_wrote_in_the_place_of_a_copy_is_none() -> None:
    """Though its content is that of the original."""
    history = History([A1, B], 2, {0, 1}, {1})
    theirs = history.record(0, history.place(0))._replace(producer_id=SOMEBODY)
    found = history.explained(None, theirs)
    assert ([*found.originals], [*found.copies], found.equal) == ([], [], None)
    # Nor does it explain that an older record of its key is gone.
    history = History([A1, B, A2], 3, {0, 1, 2}, {1})
    theirs = history.record(2, history.place(2))._replace(producer_id=SOMEBODY)
    assert history.left(None, theirs) == ([0, 2], [])


def test_a_record_right_behind_a_run_has_no_copy_of_its_own() -> None:
    """It was never copied; what stands where it would have gone is the copy of the one behind it."""
    history = History([B, A1, A2], 3, {0, 1, 2}, {0})
    pair = replace(history.pair(), runs=Runs.of([Run(0, 2, 1), Run(2, 3, 1)]))
    found = history.explained(pair, history.record(2, 3))
    assert ([*found.originals], [*found.copies], found.equal) == ([1], [], 2)


def test_a_record_in_a_wrong_place_is_not_explained() -> None:
    """The copy of the first record is behind that of the second."""
    history = History([A1, A2, A2], 3, {0, 1, 2}, {1, 2})
    moved = history.record(0, history.place(3) - 1)
    pair = history.pair()
    assert moved.offset < pair.target.end
    found = history.explained(pair, moved)
    assert (len(found.originals), len(found.copies), found.equal) == (0, 0, None)


def test_where_transforms_make_one_key_of_several_the_source_was_not_cleaned_by_it() -> None:
    """The source has removed the second of three records whose keys were others there."""
    history = History([A1, A1, A2], 3, {0, 2}, {0, 1, 2})
    pair = history.pair()
    assert history.left(pair) == ([], [1])
    chain = Chain((ChainedTransform("mine", PythonFunction("tests.transform_functions:drop_odd")),), skips_errors=False)
    transform = chain.of_topic("east.orders")
    assert history.left(replace(pair, source=replace(pair.source, transform=transform))) == ([], [])


def test_the_first_offset_of_the_copys_log_is_not_in_front_of_it() -> None:
    history = History([A1, A2], 2, {0, 1}, {1})
    pair = history.pair()
    assert history.left(replace(pair, target=replace(pair.target, start=history.place(0)))) == ([], [])


def test_what_others_wrote_right_behind_a_copy_replaces_it() -> None:
    history = History([B, B, A1, B], 4, {0, 1, 2, 3}, {0, 1, 3})
    theirs = Record(history.place(2) + 1, 5_000, b"a", b"theirs", (), SOMEBODY)
    assert theirs.offset < history.place(3)
    assert history.left(replace(history.pair(), is_shared=True), theirs) == ([], [])


def test_the_source_has_not_cleaned_away_what_is_younger_than_a_record_that_it_has_and_that_was_never_copied() -> None:
    """The two have one place on the copy: that of the next copy."""
    history = History([A1, A1, B, A2], 4, {0, 2, 3}, {1, 2, 3})
    pair = history.pair()
    found = history.explained(replace(pair, runs=Runs.of(runs_from(pair.runs, 1))))
    assert ([*found.originals], [*found.copies], found.equal) == ([0], [], None)


def test_how_many_are_equal_is_not_told_while_anything_is_unexplained_on_either_side() -> None:
    assert History([A1, B], 2, {0, 1}, {0, 1}).explained().equal == 2
    assert History([A1, B], 2, {0, 1}, {1}).explained().equal is None
    assert History([A1, B], 2, {1}, {0, 1}).explained().equal is None


def test_what_a_stranger_wrote_behind_the_range_explains_only_where_it_may() -> None:
    history = History([A1, B], 2, {0, 1}, {1})
    theirs = Record(history.place(2), 5_000, b"a", b"theirs", (), SOMEBODY)
    assert history.left(None, theirs) == ([0], [])
    assert history.left(replace(history.pair(), is_shared=True), theirs) == ([], [])


def test_without_compaction_or_a_map_nothing_is_judged() -> None:
    history = History([A1, B], 2, {0, 1}, {0, 1})
    for pair in (replace(history.pair(), compaction=None), replace(history.pair(), runs=Runs())):
        with pytest.raises(ValueError, match="not compacted, or no offset map"):
            history.explained(pair)
