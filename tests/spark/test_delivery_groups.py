"""What is said of groups of readers: every story has a group of its own, and all are judged at once.

The usual story: a group reads ``orders`` on ``east``, east dies, and it goes on with the copy of it on ``west``. Both logs
hold the records 0 to 5; the copy is one record short, and begins with a record of somebody else, so that its offsets are
one higher.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from pyspark.sql import SparkSession

from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict
from mirror.proof.delivery import GroupCommits, GroupReading, Place, judge_groups
from mirror.proof.evidence import MissingEvidence
from mirror.proof.findings import Anomaly, Delivery
from mirror.proof.group_move import GroupMove
from tests.spark.histories import (
    COPY,
    ORDERS,
    Row,
    commits_of,
    committed,
    logged,
    logs_of,
    now,
    own,
    read,
    reads_of,
    sends_of,
    sent,
)

pytestmark = pytest.mark.spark

SENDS = [sent(number) for number in range(6)]
LOGS = [*(own(number) for number in range(6)), logged(None, 0), *(logged(number, number + 1) for number in range(5))]


def on_east(*sequences: int) -> list[Row]:
    return [read(sequence) for sequence in sequences]


def on_west(*sequences: int) -> list[Row]:
    return [read(sequence, sequence + 1, place=COPY) for sequence in sequences]


@dataclass(frozen=True)
class Story:
    """What a group read, and what must be named: (anomaly, cluster) and sequences.

    It stands behind the last record that it read of each log, unless ``at`` says otherwise. It was moved to where it
    had stopped, unless ``moved_from`` says otherwise: a position on east, None for not at all.
    """

    told: str
    reads: Sequence[Row]
    expected: Mapping[tuple[Anomaly, str], list[int]] = field(default_factory=dict)
    at: Mapping[Place, int] = field(default_factory=dict)
    moved_from: int | None = 0
    commits: Sequence[Row] = ()
    known_by_ms: int | None = None

    @property
    def positions(self) -> Mapping[tuple[str, TopicPartition], int]:
        """Where it stands in the end, by cluster and partition."""
        found: dict[tuple[str, TopicPartition], int] = {}
        for row in self.reads:
            log = (row[3], TopicPartition(row[4], row[5]))
            found[log] = max(found.get(log, 0), row[6] + 1)
        return found | {(place.cluster, TopicPartition(place.topic, 0)): at for place, at in self.at.items()}

    def move(self, group: str) -> GroupMove | None:
        """How it came from east to west."""
        if self.moved_from is None:
            return None
        return GroupMove(
            group, "east", "west", {TopicPartition(COPY.topic, 0): self.moved_from}, known_by_ms=self.known_by_ms
        )


def _committed_story(*, long_ago: bool) -> Story:
    """It had read three, committed two, and was moved from 0, an old checkpoint."""
    reads = on_east(0, 1, 2)
    early = now()
    commits = [committed(2)]
    late = now()
    again = on_west(0, 1, 2, 3, 4)
    rewound = {(Anomaly.REWOUND, "west"): [0, 1]} if long_ago else {}
    return Story(
        f"It was moved from an old position, and had committed another {'long before' if long_ago else 'just then'}.",
        reads + again,
        {(Anomaly.REDELIVERED, "west"): [0, 1, 2], **rewound, **TAIL},
        commits=commits,
        known_by_ms=late if long_ago else early,
    )


def _same_log_story(*, acknowledged: bool) -> Story:
    """A member read on after another had left; its last commit was acknowledged, or was not."""
    reads = on_east(0, 1, 2)
    commits = [committed(2)] if acknowledged else [committed(1)]
    return Story(
        f"In one log it went on before {'a' if acknowledged else 'no'} commit that was acknowledged.",
        reads + on_east(1, 2, 3, 4, 5),
        {
            (Anomaly.REDELIVERED, "east"): [1, 2],
            **({(Anomaly.REWOUND, "east"): [1]} if acknowledged else {}),
        },
        commits=commits,
    )


TAIL = {(Anomaly.UNSEEN, "east"): [5]}
STORIES = [
    Story(
        "It read everything on east and was moved to the end of the copy, where nothing was left.", on_east(*range(6))
    ),
    Story(
        "It was moved exactly, and saw all but the record that never reached the copy.",
        on_east(0, 1, 2) + on_west(3, 4),
        TAIL,
    ),
    Story(
        "It was moved two records back, and read them again.",
        on_east(0, 1, 2) + on_west(1, 2, 3, 4),
        {(Anomaly.REDELIVERED, "west"): [1, 2], **TAIL},
    ),
    Story(
        "It was moved one record too far: that record is lost to it, wherever it lies.",
        on_east(0, 1, 2) + on_west(4),
        {(Anomaly.LOST, "west"): [3], (Anomaly.UNSEEN, "east"): [3, 5]},
    ),
    Story(
        "It has not come to the end yet: what is behind its position is unseen.",
        on_east(0, 1, 2) + on_west(3),
        {(Anomaly.UNSEEN, "east"): [4, 5], (Anomaly.UNSEEN, "west"): [4]},
    ),
    Story(
        "It never read at all.",
        [],
        {(Anomaly.UNSEEN, "east"): [0, 1, 2, 3, 4, 5], (Anomaly.UNSEEN, "west"): [0, 1, 2, 3, 4]},
    ),
    Story(
        "A member that took over read a record for the first time after a later one.",
        on_east(0, 2, 1, 3, 4, 5),
        {(Anomaly.REORDERED, "east"): [1]},
    ),
    Story(
        "It went back and read again, in order: that is a redelivery and no disorder.",
        on_east(0, 1, 2, 1, 2, 3, 4, 5),
        {(Anomaly.REDELIVERED, "east"): [1, 2]},
    ),
    Story(
        "It was put at the end of the copy with two records unread: those are lost to it.",
        on_east(0, 1, 2),
        {(Anomaly.UNSEEN, "east"): [3, 4, 5], (Anomaly.LOST, "west"): [3, 4]},
        at={COPY: 6},
    ),
    Story(
        "It was put at the end of the log that it reads, with two records unread.",
        on_east(0, 1, 2, 3),
        {(Anomaly.LOST, "east"): [4, 5], (Anomaly.UNSEEN, "west"): [4]},
        at={ORDERS: 6},
    ),
    Story(
        "It read on, and its position stayed behind: what it was handed it was handed.",
        on_east(*range(6)),
        at={ORDERS: 2},
    ),
    Story(
        "It was moved from 3, which became 1: from where it was moved nothing before is to come again.",
        on_east(0, 1, 2) + on_west(1, 2, 3, 4),
        {(Anomaly.REDELIVERED, "west"): [1, 2], (Anomaly.REWOUND, "west"): [1, 2], **TAIL},
        moved_from=3,
    ),
    Story(
        "It was never moved, and began anew on west.",
        on_east(0, 1) + on_west(0, 1, 2, 3, 4),
        {(Anomaly.REDELIVERED, "west"): [0, 1], (Anomaly.REWOUND, "west"): [0, 1], **TAIL},
        moved_from=None,
    ),
    _committed_story(long_ago=True),
    _committed_story(long_ago=False),
    _same_log_story(acknowledged=True),
    _same_log_story(acknowledged=False),
    Story(
        "What it was handed is not what was sent.",
        [*on_east(0, 1), read(2, other_content=True), *on_east(3, 4, 5)],
        {(Anomaly.ALTERED, "east"): [2]},
    ),
]


def group_of(number: int) -> str:
    return f"group{number}"


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> Delivery:
    reads = [(group_of(number), *row[1:]) for number, story in enumerate(STORIES) for row in story.reads]
    groups = [GroupReading(group_of(number), (ORDERS, COPY)) for number in range(len(STORIES))]
    group_commits = GroupCommits(
        {(group_of(number), *log): at for number, story in enumerate(STORIES) for log, at in story.positions.items()},
        commits_of(
            spark, *((group_of(number), *row[1:]) for number, story in enumerate(STORIES) for row in story.commits)
        ),
        [move for number, story in enumerate(STORIES) if (move := story.move(group_of(number))) is not None],
    )
    return judge_groups(reads_of(spark, *reads), sends_of(spark, *SENDS), logs_of(spark, *LOGS), groups, group_commits)


@pytest.mark.parametrize("number", range(len(STORIES)), ids=[story.told for story in STORIES])
def test_what_is_said_of(number: int, judged: Delivery) -> None:
    said = {
        (finding.anomaly, finding.cluster): sorted(example.sequence for example in finding.examples)
        for finding in judged.findings
        if finding.group == group_of(number)
    }

    assert said == STORIES[number].expected


def test_a_redelivery_is_told_where_it_happened(judged: Delivery) -> None:
    [finding] = [each for each in judged.findings if each.group == group_of(2) and each.anomaly is Anomaly.REDELIVERED]

    assert (finding.partition, finding.is_tolerated) == (TopicPartition("east.orders", 0), True)
    assert finding.examples[0].detail == "handed out 2 times, first on east as orders-0"


def test_reading_is_counted_per_group_and_log(judged: Delivery) -> None:
    """The second group: of east's six records it saw five, on either cluster; of the five in the copy, all."""
    counts = {
        each.cluster: (each.expected, each.found, each.without_ledger)
        for each in judged.counts
        if each.group == group_of(1)
    }

    assert counts == {"east": (6, 5, 0), "west": (5, 5, 1)}


def test_reading_again_is_tolerated_and_passing_over_or_not_having_finished_is_not(spark: SparkSession) -> None:
    sends, groups = sends_of(spark, *SENDS[:4]), [GroupReading("billing", (ORDERS, COPY))]
    logs = logs_of(spark, *(own(number) for number in range(4)), *(logged(number) for number in range(4)))
    east, west = ("billing", "east", TopicPartition("orders", 0)), ("billing", "west", TopicPartition("east.orders", 0))
    moved = [GroupMove("billing", "east", "west")]
    group_commits = GroupCommits({east: 2, west: 4}, commits_of(spark), moved)
    before, on_copy = on_east(0, 1), [read(number, place=COPY) for number in (1, 2, 3)]
    again = judge_groups(reads_of(spark, *before, *on_copy), sends, logs, groups, group_commits)
    early = GroupCommits({east: 2, west: 3}, commits_of(spark), moved)
    unfinished = judge_groups(reads_of(spark, *before, *on_copy[:2]), sends, logs, groups, early)
    reads = reads_of(spark, *before, on_copy[2])
    passed_over = judge_groups(reads, sends, logs, groups, group_commits)
    gap = MissingEvidence("reads/c-1.parquet", "is missing")
    short = judge_groups(reads, sends, logs, groups, group_commits, gaps=[gap])

    # A record that was read on the copy lies behind no position on east: it was read all the same.
    assert [each.verdict for each in (again, unfinished, passed_over, short)] == [
        Verdict.PASS,
        Verdict.FAIL,
        Verdict.FAIL,
        Verdict.UNKNOWN,
    ]
