"""Source and copy compared record by record; all stories are compared in one go, a partition each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mirror.model.absences import Absence, AbsenceKind
from mirror.model.offset_map import Run, Runs
from mirror.model.offset_ranges import Range, Ranges
from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict
from mirror.proof.alignment import compare
from mirror.proof.comparison import Compared, Equivalence, PartitionEquivalence
from mirror.proof.log_reader import LogOutcome, LogRange
from mirror.proof.pairs import Amount, PartitionPair
from tests.spark.histories import Row, logged, logs_of, own

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Story:
    """What happened to a partition, and what must be counted; the first difference as (what, upstream, downstream)."""

    told: str
    source: Sequence[Row]
    copy: Sequence[Row]
    counts: Mapping[str, int] = field(default_factory=dict)
    first: tuple[str, int | None, int | None] | None = None
    detail: str = ""
    runs: tuple[Run, ...] = ()
    writers: frozenset[int] = frozenset()
    is_shared: bool = False
    unmapped: tuple[tuple[int, int], ...] = ()
    own_from: int = 0
    source_range: tuple[int, int] = (0, 100)
    copy_range: tuple[int, int] = (0, 100)
    absent: Sequence[Absence] = ()


FOUR = [own(number) for number in range(4)]

STORIES = [
    Story("Four records, all copied.", FOUR, [logged(number) for number in range(4)]),
    Story("Nothing was there, nothing was copied.", [], []),
    Story(
        "Compaction and markers left holes at the source, and the copy is dense.",
        [own(0), own(3), own(7)],
        [logged(0), logged(3, 1), logged(7, 2)],
        runs=(Run(0, 0, 1), Run(3, 1, 1), Run(7, 2, 1)),
    ),
    Story(
        "The second record was not copied; those behind it are right, each one offset early.",
        FOUR,
        [logged(0), logged(2, 1), logged(3, 2)],
        {"missing": 1},
        ("missing", 1, None),
    ),
    Story(
        "After a restart the copy holds two records twice.",
        FOUR,
        [logged(0), logged(1), logged(0, 2), logged(1, 3), logged(2, 4), logged(3, 5)],
        {"extra": 2},
        ("extra", None, 2),
        "no record of this content and timestamp at the source",
    ),
    Story(
        "The content of the third record was changed.",
        FOUR,
        [logged(0), logged(1), logged(2, other_content=True), logged(3)],
        {"altered": 1},
        ("altered", 2, 2),
        "content differs",
    ),
    Story(
        "The first record and the last were stamped anew.",
        FOUR,
        [logged(0, later_by=9), logged(1), logged(2), logged(3, later_by=9)],
        {"altered": 2},
        ("altered", 0, 0),
        "timestamp differs",
    ),
    Story(
        "Of two neighbours one was lost and one changed: one comes with the other's place.",
        FOUR,
        [logged(0), logged(1, other_content=True), logged(3, 2)],
        {"altered": 1, "missing": 1},
        ("altered", 1, 1),
    ),
    Story(
        "Two neighbours have changed places.",
        FOUR,
        [logged(0), logged(2, 1), logged(1, 2), logged(3)],
        {"reordered": 1},
        ("reordered", 1, 2),
        "is behind the copy of 2",
    ),
    Story(
        "Equal records are told apart by their number only: one of three is not there.",
        [own(5, 0), own(5, 1), own(5, 2)],
        [logged(5, 0), logged(5, 1)],
        {"missing": 1},
        ("missing", 2, None),
    ),
    Story(
        "The copy is right, and the offset map says that the last record went elsewhere.",
        FOUR,
        [logged(number) for number in range(4)],
        {"misplaced": 1},
        ("misplaced", 3, 3),
        "the offset map says 30",
        runs=(Run(0, 0, 3), Run(3, 30, 1)),
    ),
    Story(
        "The copy is right, and the offset map knows nothing of the record between its runs.",
        FOUR,
        [logged(number) for number in range(4)],
        {"misplaced": 1},
        ("misplaced", 2, 2),
        "the offset map knows of no copy",
        runs=(Run(0, 0, 2), Run(3, 3, 1)),
    ),
    Story(
        "Where names are unchanged the topic also holds what was written on this cluster: it is no part of the copy.",
        FOUR[:2],
        [logged(8, 0, producer="local", producer_id=99), logged(0, 1), logged(1, 2)],
        {"foreign": 1},
        writers=frozenset({7}),
        is_shared=True,
    ),
    Story(
        "Java MirrorMaker copied the first two, and only its syncs say where; what it doubled is extra.",
        FOUR,
        [
            *(logged(number, number, producer_id=-1) for number in range(2)),
            logged(1, 2, producer_id=-1),
            *(logged(number, number + 1) for number in (2, 3)),
        ],
        {"extra": 1},
        ("extra", None, 2),
        runs=(Run(2, 3, 2),),
        writers=frozenset({7}),
        unmapped=((0, 2),),
        own_from=3,
    ),
    Story(
        "Under one name Java MirrorMaker copied the first two, without a producer id; others wrote, one of them without.",
        FOUR,
        [
            logged(0, 0, producer_id=-1),
            logged(8, 1, producer="local", producer_id=99),
            logged(1, 2, producer_id=-1),
            logged(9, 3, producer="local", producer_id=-1),
            *(logged(number, number + 2) for number in (2, 3)),
            logged(7, 6, producer="local", producer_id=-1),
        ],
        {"foreign": 3},
        runs=(Run(2, 4, 2),),
        writers=frozenset({7}),
        is_shared=True,
        unmapped=((0, 2),),
        own_from=4,
    ),
    Story(
        "Nobody else may write into a remote topic, and somebody did.",
        FOUR[:2],
        [logged(0), logged(8, 1, producer="local", producer_id=99), logged(1, 2)],
        {"extra": 1},
        ("extra", None, 1),
        "written by a producer that is not the mirror's",
        writers=frozenset({7}),
    ),
    Story(
        "Somebody wrote the very content that the mirror failed to copy: that does not make it copied.",
        FOUR[:2],
        [logged(0), logged(1, 1, producer_id=99)],
        {"extra": 1, "missing": 1},
        ("extra", None, 1),
        writers=frozenset({7}),
    ),
    Story(
        "What lies outside the ranges, copied before or after, is not looked at.",
        FOUR,
        [logged(number, number + 10) for number in range(4)],
        source_range=(1, 3),
        copy_range=(11, 13),
    ),
    Story(
        "The second record is parked; what is like it further on is no copy of it, and one more is missing.",
        [own(0), own(1), own(1, 2), own(3)],
        [logged(0), logged(1, 1)],
        {"missing": 1},
        ("missing", 3, None),
        absent=[Absence(AbsenceKind.PARKED, 1, 2, "too large", acknowledged=True, records=1)],
    ),
    Story(
        "What is said to be absent is there all the same.",
        FOUR,
        [logged(number) for number in range(4)],
        {"extra": 2},
        ("extra", None, 1),
        absent=[Absence(AbsenceKind.GAP, 1, 3, "poison", acknowledged=False, records=2)],
    ),
]


def pair_of(number: int, story: Story) -> PartitionPair:
    source, copy = TopicPartition("orders", number), TopicPartition("east.orders", number)
    return PartitionPair(
        LogRange("east", {}, source, *story.source_range),
        LogRange("west", {}, copy, *story.copy_range),
        Runs.of(story.runs),
        story.writers,
        story.is_shared,
        tuple(story.absent),
        unmapped=story.unmapped,
        own_from=story.own_from,
    )


def was_read(side: LogRange, problem: str | None = None) -> LogOutcome:
    return LogOutcome(side.cluster, side.partition, side.start, side.end, 0, 0.1, problem, Path("not looked at"))


def in_partition(number: int, row: Row) -> Row:
    return (*row[:2], number, *row[3:])


@pytest.fixture(scope="module")
def compared(spark: SparkSession) -> Equivalence:
    pairs = [pair_of(number, story) for number, story in enumerate(STORIES)]
    rows = [in_partition(number, row) for number, story in enumerate(STORIES) for row in (*story.source, *story.copy)]
    return compare(
        logs_of(spark, *rows), pairs, [was_read(side) for pair in pairs for side in (pair.source, pair.target)]
    )


@pytest.mark.parametrize("number", range(len(STORIES)), ids=[story.told for story in STORIES])
def test_what_is_said_of(number: int, compared: Equivalence) -> None:
    story, said = STORIES[number], compared.partitions[number]
    counts = {
        name: getattr(said, name)
        for name in ("missing", "extra", "altered", "reordered", "misplaced", "foreign")
        if getattr(said, name)
    }
    first = said.first_difference

    assert counts == story.counts
    assert (first and (first.what.value, first.upstream_offset, first.downstream_offset)) == story.first
    assert first is None or story.detail in first.detail
    assert said.verdict is (Verdict.PASS if story.first is None else Verdict.FAIL)


def test_records_are_those_of_the_source_in_the_range(compared: Equivalence) -> None:
    assert [said.records for said in compared.partitions] == [
        sum(story.source_range[0] <= row[3] < story.source_range[1] for row in story.source) for story in STORIES
    ]


def test_a_side_that_was_not_read_to_its_end_leaves_the_verdict_unknown(spark: SparkSession) -> None:
    """Of two pairs one is equal, and the copy of the other could not be read; then the source of it was not read at all."""
    stories = [Story("", FOUR, [logged(number) for number in range(4)])] * 2
    pairs = [pair_of(number, story) for number, story in enumerate(stories)]
    rows = [in_partition(number, row) for number, story in enumerate(stories) for row in (*story.source, *story.copy)]
    outcomes = [was_read(pairs[0].source), was_read(pairs[0].target), was_read(pairs[1].target, "BrokerRefused: gone")]
    said = compare(logs_of(spark, *rows), pairs, outcomes)

    assert [pair.verdict for pair in said.partitions] == [Verdict.PASS, Verdict.UNKNOWN]
    assert said.verdict is Verdict.UNKNOWN
    assert said.partitions[1].problem == (
        "east orders-1 [0, 100) was not read; west east.orders-1 was not read to the end: BrokerRefused: gone"
    )


def test_of_what_was_not_read_to_its_end_nothing_is_said_to_lack_a_counterpart(spark: SparkSession) -> None:
    """A transform that raised at the source's first record made every record of the copy an extra one."""
    story = Story("", FOUR, [logged(number) for number in range(4)])
    pairs = [
        pair_of(0, story),
        pair_of(1, story),
        pair_of(2, Story("", FOUR, story.copy, writers=frozenset({9}))),
    ]
    rows = [in_partition(0, row) for row in story.copy] + [in_partition(1, row) for row in story.source]
    rows += [in_partition(2, row) for row in story.copy]
    said = compare(
        logs_of(spark, *rows),
        pairs,
        [
            *(was_read(pairs[0].source, "ValueError: no card at offset 0"), was_read(pairs[0].target)),
            *(was_read(pairs[1].source), was_read(pairs[1].target, "BrokerRefused: gone")),
            *(was_read(pairs[2].source, "ValueError: no card at offset 0"), was_read(pairs[2].target)),
        ],
    )
    told = [each.as_json() for each in said.partitions]

    assert [(each["missing"], each["extra"], each["verdict"]) for each in told] == [
        (0, None, "UNKNOWN"),
        (None, 0, "UNKNOWN"),
        (0, 4, "UNKNOWN"),
    ], "who has written a record that is not the mirror's shows without the source"
    assert [each["first_difference"] and each["first_difference"]["detail"] for each in told] == [
        None,
        None,
        "written by a producer that is not the mirror's",
    ]


def test_a_side_of_which_only_a_part_was_read_leaves_the_verdict_unknown(spark: SparkSession) -> None:
    """Too late a beginning, or too early an end, of either side: what was not read may differ."""
    story = Story("", FOUR, [logged(number) for number in range(4)])
    pairs = [pair_of(number, story) for number in range(5)]
    rows = [in_partition(number, row) for number in range(5) for row in (*story.source, *story.copy)]
    outcomes = []
    for pair, (of_source, change) in zip(pairs, [(True, {}), *PARTS], strict=True):
        outcomes.append(replace(was_read(pair.source), **(change if of_source else {})))
        outcomes.append(replace(was_read(pair.target), **({} if of_source else change)))
    said = compare(logs_of(spark, *rows), pairs, outcomes)

    assert [pair.verdict for pair in said.partitions] == [Verdict.PASS, *[Verdict.UNKNOWN] * 4]
    assert [pair.problem for pair in said.partitions[1:]] == [
        "east orders-1 [0, 100) was not read",
        "east orders-2 [0, 100) was not read",
        "west east.orders-3 [0, 100) was not read",
        "west east.orders-4 [0, 100) was not read",
    ]


PARTS: list[tuple[bool, dict[str, int]]] = [
    (True, {"start": 1}),
    (True, {"end": 99}),
    (False, {"start": 1}),
    (False, {"end": 99}),
]


def test_every_range_of_what_only_one_side_has_is_told_up_to_twenty(spark: SparkSession) -> None:
    """Of two records that somebody appended far apart only the first was to be found."""
    lone = [own(number) for number in (3, 4, 5, 9)]
    every_other = [own(number) for number in range(0, 60, 2)]
    doubled = [logged(number) for number in (3, 4, 5, 9)] + [logged(3, 20), logged(4, 21), logged(9, 30)]
    stories = [Story("", lone, []), Story("", lone, doubled), Story("", every_other, []), Story("", lone, doubled[:4])]
    pairs = [pair_of(number, story) for number, story in enumerate(stories)]
    rows = [in_partition(number, row) for number, story in enumerate(stories) for row in (*story.source, *story.copy)]
    read = [was_read(side) for pair in pairs for side in (pair.source, pair.target)]
    missing, extra, many, same = compare(logs_of(spark, *rows), pairs, read).partitions

    assert missing.missing_at == Ranges((Range(3, 6, 3), Range(9, 10, 1)))
    assert str(missing.missing_at) == "3 to 5, 9"
    assert (extra.missing_at, extra.extra_at) == (Ranges(), Ranges((Range(20, 22, 2), Range(30, 31, 1))))
    assert (len(many.missing_at.first), many.missing_at.first[-1], many.missing_at.more) == (20, Range(38, 39, 1), 10)
    assert str(many.missing_at).endswith("36, 38, and 10 more")
    assert (same.missing_at, same.extra_at) == (Ranges(), Ranges())


def test_the_json_is_the_contract(compared: Equivalence) -> None:
    number = next(number for number, story in enumerate(STORIES) if story.first == ("missing", 1, None))
    how = Compared((0, 4), (0, 3), Amount(1, 100), Amount(3, 330), Amount(7, 700), notes=("remembered",))
    document = Equivalence((replace(compared.partitions[number], compared=how),), 2.0).as_json()

    assert document["verdict"] == "FAIL"
    amounts = {
        "by_bytes": {"records": 1, "bytes": 100},
        "by_record": {"records": 3, "bytes": 330},
        "remembered": {"records": 7, "bytes": 700},
    }
    assert document["compared"] == {**amounts, "seconds": 2.0, "mb_per_second": 0.0}
    assert document["partitions"][0] == {
        "topic": "orders",
        "partition": number,
        "remote_topic": "east.orders",
        "records": 4,
        "missing": 1,
        "extra": 0,
        "altered": 0,
        "reordered": 0,
        "misplaced": 0,
        "foreign": 0,
        "first_difference": {
            "what": "missing",
            "upstream_offset": 1,
            "downstream_offset": None,
            "detail": "no record of this content and timestamp in the copy",
        },
        "parked": 0,
        "gaps": 0,
        "filtered": 0,
        "cleaned": 0,
        "cleaned_by": {"source": 0, "target": 0},
        "missing_at": {"ranges": [{"from": 1, "to": 2, "records": 1}], "more": 0},
        "extra_at": {"ranges": [], "more": 0},
        "problem": None,
        "verdict": "FAIL",
        "upstream_start": 0,
        "upstream_end": 4,
        "downstream_start": 0,
        "downstream_end": 3,
        "compared": amounts,
        "notes": ["remembered"],
        "absences": [],
    }


def test_no_pairs_prove_nothing() -> None:
    assert Equivalence(()).verdict is Verdict.UNKNOWN


def test_an_unread_pair_is_unknown_even_where_it_differs() -> None:
    side = TopicPartition("orders", 0)
    said = PartitionEquivalence(side, side, 4, 4, 0, 0, 0, 0, 0, None, "was not read")

    assert said.verdict is Verdict.UNKNOWN
