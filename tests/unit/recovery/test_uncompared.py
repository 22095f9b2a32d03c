"""Where the comparison of a partition begins, and what of it is left out by name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from mirror.engine.mm2_traces import Mm2Traces
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.gap import Acknowledgement, Gap, GapKind
from mirror.model.mm2_trace import Mm2Trace, Pair
from mirror.model.offset_map import OffsetMap, Run, Runs, SparseOffsetMap
from mirror.model.offset_ranges import Range, Ranges
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_values import RunReport
from mirror.model.verdict import Verdict
from mirror.proof.comparison import Equivalence, PartitionEquivalence
from mirror.proof.left_out import LeftOut
from mirror.proof.log_reader import LogRange
from mirror.proof.outside import Found, Outside, Seen
from mirror.proof.pairs import PartitionPair
from mirror.recovery.uncompared import (
    Begin,
    begin_of,
    given_up,
    held_back,
    judged,
    nothing_to_compare,
    recreated,
    uncopied,
    undecided,
    with_extra,
)
from tests.unit.control.builders import flow_settings

ORDERS, COPY = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
SETTINGS = flow_settings()
IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
PLAIN = OffsetMap(0, True, Runs.of([Run(0, 1, 10)]), 10, 11)
TAKEN = OffsetMap(
    40,
    False,
    Runs.of([Run(40, 45, 20)]),
    60,
    65,
    (SparseOffsetMap(0, 40, 0, 45, (Pair(10, 12), Pair(30, 33))),),
)
PAIR = PartitionPair(LogRange("east", {}, ORDERS, 0, 10), LogRange("west", {}, COPY, 1, 11), writers=frozenset({7}))
PLACE = Outside(PAIR.target, (0, 1), (11, 20), PAIR.writers)
EQUAL = PartitionEquivalence(ORDERS, COPY, 10, 0, 0, 0, 0, 0, 0, None, None)


def test_what_the_source_has_behind_a_copy_that_has_stopped_is_named_and_the_verdict_unknown() -> None:
    """Nobody copies it until somebody mends what it stopped at; of a copy that goes on it is on its way."""
    idle, going_on = TopicPartition("orders", 1), TopicPartition("orders", 2)
    report = RunReport("DEGRADED", (), 5, (), {ORDERS: "mask failed", idle: "mask failed"})
    reached = {ORDERS: 10, idle: 10, going_on: 10}
    left_out = held_back(SETTINGS, FlowState(run=report), reached, {ORDERS: 14, idle: 10, going_on: 14})
    assert [str(each) for each in left_out] == [
        "not checked: east orders-0 from 10 to 13 (4 offsets): the copy is stopped: mask failed"
    ]
    assert Equivalence((EQUAL,), left_out=tuple(left_out)).verdict is Verdict.UNKNOWN
    assert uncopied(FlowState(run=report), reached, {ORDERS: 14, idle: 10, going_on: 14}) == {going_on: 4}


def begun(known: OffsetMap, start: int, copy_start: int) -> tuple[Begin, list[tuple[str, int, int, bool]]]:
    found = begin_of(SETTINGS, ORDERS, COPY, known, start, copy_start)
    told = [(each.cluster, each.start, each.end, each.is_unchecked) for each in found.left_out]
    return replace(found, left_out=()), told


@pytest.mark.parametrize(
    ("known", "logs", "begin", "left_out"),
    [
        # All is there, behind a marker, which somebody might have written too.
        (PLAIN, (0, 0), Begin(0, 1, (0, 1)), []),
        # The source has removed what the copy still has: nothing is left to hold it against.
        (PLAIN, (4, 0), Begin(4, 5, (0, 1)), [("west", 1, 5, False)]),
        # The copy has removed what the source still has: that is missing.
        (PLAIN, (0, 6), Begin(0, 6, (6, 1)), []),
        # Of the source nothing is left that was copied.
        (PLAIN, (15, 0), Begin(10, 11, (0, 1)), [("west", 1, 11, False)]),
        # The flow began at the end of the log.
        (replace(PLAIN, origin=5, complete_from_origin=False), (0, 0), Begin(5, 6, (0, 1)), [("east", 0, 5, False)]),
        # Java MirrorMaker's first sync is where both logs are known to correspond.
        (TAKEN, (0, 0), Begin(10, 12), [("east", 0, 10, True), ("west", 0, 12, True)]),
        (TAKEN, (30, 0), Begin(30, 33), [("west", 0, 33, False)]),
        (TAKEN, (35, 0), Begin(40, 45), [("east", 35, 40, True), ("west", 0, 45, True)]),
        (TAKEN, (50, 0), Begin(50, 55), [("west", 0, 55, False)]),
        # The copy has removed what lies before the second.
        (TAKEN, (0, 20), Begin(30, 33), [("east", 0, 30, True), ("west", 20, 33, True)]),
    ],
)
def test_where_it_begins(
    known: OffsetMap, logs: tuple[int, int], begin: Begin, left_out: list[tuple[str, int, int, bool]]
) -> None:
    assert begun(known, *logs) == (begin, left_out)


def test_what_lies_before_what_the_target_has_removed_is_named_as_well() -> None:
    """What Java MirrorMaker had copied, and nobody can check, was passed by in silence, and the verdict PASS."""
    removed = LeftOut("east", ORDERS, 40, 50, None, "west has removed the copies", is_unchecked=False)
    found = begin_of(SETTINGS, ORDERS, COPY, TAKEN, 20, 55, removed=removed)
    assert (found.upstream, found.downstream) == (50, 55)
    assert [(each.start, each.end, each.is_unchecked) for each in found.left_out] == [(20, 40, True), (40, 50, False)]
    late = replace(PLAIN, origin=4, runs=Runs.of([Run(4, 1, 6)]), downstream_next=7)
    removed = replace(removed, start=4, end=6)
    found = begin_of(SETTINGS, ORDERS, COPY, late, 0, 3, removed=removed)
    assert [(each.start, each.end, each.reason) for each in found.left_out] == [
        (0, 4, "the flow began behind it"),
        (4, 6, "west has removed the copies"),
    ]


def test_of_a_topic_that_was_created_anew_it_is_said_and_its_head_is_not_called_older_than_the_flow() -> None:
    known = replace(PLAIN, origin=5)
    (said,) = begin_of(SETTINGS, ORDERS, COPY, known, 0, 0, is_recreated=True).left_out
    assert (said.start, said.end, said.is_unchecked) == (0, 5, True)
    assert "it was created anew, and nothing of it is copied yet" in str(said)
    position = Position(10, 11, 0, complete=True, topic_id="former")
    (note,) = recreated(SETTINGS.flow, ORDERS, position, "new")
    assert note.startswith(
        "orders on east was deleted and created anew since it was copied (id former, now new): the copy holds records "
        "of the former topic"
    )
    assert recreated(SETTINGS.flow, ORDERS, position, "former") == ()


def outcome(
    found: Found,
    *,
    settled: bool = False,
    is_running: bool = True,
    is_shared: bool = False,
    java: Mm2Traces | None = None,
) -> tuple[Verdict, int, int, list[bool]]:
    """Verdict, extra and foreign records, and of what was left out whether it is unchecked."""
    state = FlowState(positions={ORDERS: Position(10, 11, 0, complete=True, settled=settled)})
    pair = replace(PAIR, is_shared=is_shared)
    compared, left_out = judged(
        SETTINGS, state, EQUAL, (pair, PLACE, found), lambda: java or Mm2Traces(), is_running=is_running
    )
    whole = Equivalence((compared,), left_out=tuple(left_out))
    return whole.verdict, compared.extra, compared.foreign, [each.is_unchecked for each in left_out]


def test_what_somebody_else_wrote_is_extra_where_nobody_else_may_write() -> None:
    found = Found(foreign_behind=Seen(3, 12, 15))
    assert outcome(found) == (Verdict.FAIL, 3, 0, [])
    assert outcome(found, is_shared=True) == (Verdict.PASS, 0, 3, [])


@pytest.mark.parametrize(("lines", "notes"), [((), 0), ((IDENTITY,), 1)])
def test_under_unchanged_names_it_is_told_how_to_say_that_others_may_write(lines: tuple[str, ...], notes: int) -> None:
    state = FlowState(positions={ORDERS: Position(10, 11, 0, complete=True)})
    found = Found(foreign_behind=Seen(3, 12, 15))
    compared, _ = judged(flow_settings(*lines), state, EQUAL, (PAIR, PLACE, found), Mm2Traces, is_running=True)
    assert (compared.extra, len(compared.compared.notes)) == (3, notes)


def test_what_is_not_on_record_is_not_checked() -> None:
    found = Found(own_behind=Seen(3, 12, 15))
    for is_running in (True, False):
        assert outcome(found, is_running=is_running) == (Verdict.UNKNOWN, 0, 0, [True])
    assert outcome(found, settled=True) == (Verdict.FAIL, 3, 0, [])
    assert outcome(Found(late_behind=Seen(2, 12, 14))) == (Verdict.FAIL, 2, 0, [])


def test_what_java_mirrormaker_has_copied_since_is_not_called_somebody_elses() -> None:
    found = Found(foreign_behind=Seen(3, 12, 15))
    assert outcome(found, java=Mm2Traces(certain={ORDERS: Mm2Trace(20)})) == (Verdict.UNKNOWN, 0, 0, [True])
    within = Mm2Traces(beyond={ORDERS: Mm2Trace(None, ((Pair(11, 12),),))})
    assert outcome(found, java=within) == (Verdict.UNKNOWN, 0, 0, [True])
    elsewhere = Mm2Traces(beyond={ORDERS: Mm2Trace(None, ((Pair(11, 16),),))})
    assert outcome(found, java=elsewhere) == (Verdict.FAIL, 3, 0, [])


def test_what_stands_before_the_copy_and_what_cannot_be_read_is_not_checked() -> None:
    assert outcome(Found(foreign_before=Seen(1, 0, 1))) == (Verdict.UNKNOWN, 0, 0, [True])
    assert outcome(Found(own_before=Seen(1, 0, 1))) == (Verdict.PASS, 0, 0, [False])
    assert outcome(Found(problem="ConnectionFailed: west is away")) == (Verdict.UNKNOWN, 0, 0, [True])


def test_what_lies_behind_a_transaction_that_nobody_decides_was_not_looked_at() -> None:
    """A transaction that hangs hides from readers of committed data what others have written behind it."""
    other = TopicPartition("east.orders", 1)
    (one,) = undecided(SETTINGS, {COPY: 13}, {COPY: 14})
    assert (one.start, one.end) == (13, 14)
    (found,) = undecided(SETTINGS, {COPY: 11, other: 7}, {COPY: 14, other: 7})
    assert (found.cluster, found.partition, found.start, found.end) == ("west", COPY, 11, 14)
    assert Equivalence((EQUAL,), left_out=(found,)).verdict is Verdict.UNKNOWN


def test_where_the_extra_records_lie_behind_what_was_compared_is_told() -> None:
    before = replace(EQUAL, extra=1, extra_at=Ranges((Range(4, 5, 1),)))
    found = with_extra(before, Seen(3, 11, 15), "written by a producer that is not the mirror's")
    assert (found.extra, str(found.extra_at)) == (4, "4, 11 to 14 (3 in these)")
    assert with_extra(before, Seen(), "nothing") == before


@pytest.mark.parametrize("before", [(0, 1), (30, 31)])
def test_what_cannot_be_read_is_named_from_its_first_offset_to_its_last(before: tuple[int, int]) -> None:
    place = replace(PLACE, before=before)
    _, (found,) = judged(
        SETTINGS, FlowState(), EQUAL, (PAIR, place, Found(problem="west is away")), Mm2Traces, is_running=True
    )
    assert (found.start, found.end) == (min(before[0], 11), max(before[1], 20))
    assert found.reason == "it could not be read: west is away"


@pytest.mark.parametrize(
    ("is_running", "why"),
    [
        (True, "copied, and not on record: the engine that runs has not recorded it yet"),
        (False, "copied, and not on record: no engine runs that would recognise it"),
    ],
)
@pytest.mark.parametrize(
    "known", [{}, {ORDERS: Position(10, 15, 0, complete=True, settled=True)}, {ORDERS: Position(10, 11, 0, True)}]
)
def test_why_what_the_flow_has_written_behind_its_position_is_not_judged(
    known: dict[TopicPartition, Position], is_running: bool, why: str
) -> None:
    """Behind a settled position it is there twice, but only if that lies before what was looked at."""
    compared, (left_out,) = judged(
        SETTINGS,
        FlowState(positions=known),
        EQUAL,
        (PAIR, PLACE, Found(own_behind=Seen(3, 12, 15))),
        Mm2Traces,
        is_running=is_running,
    )
    assert (compared.extra, left_out.reason, left_out.records, left_out.is_unchecked) == (0, why, 3, True)


def lost(start: int, end: int, kind: GapKind = GapKind.RETENTION, source: TopicPartition = ORDERS) -> Gap:
    return Gap(source, start, end, "removed", 5, kind)


def known_gaps(*gaps: Gap, acknowledged: Collection[Gap]) -> FlowState:
    known = Acknowledgement("ann", "nobody needs them", 1_700_000_000_000)
    return FlowState(gaps={gap.key: gap for gap in gaps}, acknowledgements={gap.key: known for gap in acknowledged})


def test_what_somebody_has_given_up_before_what_is_compared_is_named() -> None:
    """Who reads PASS sees of which records it says nothing."""
    gap = lost(2000, 3000)
    told = "orders-0 2000..2999 acknowledged as lost on 2023-11-14T22:13:20Z by ann (nobody needs them), not compared"
    assert given_up(known_gaps(gap, acknowledged=[gap]), ORDERS, 3000) == (told,)
    one = lost(2000, 2001, GapKind.SKIPPED)
    (told,) = given_up(known_gaps(one, acknowledged=[one]), ORDERS, 3000)
    assert told.startswith("orders-0 2000 acknowledged as lost")


def test_only_what_was_given_up_and_lies_before_it_is_named_there() -> None:
    """What lies in the range is counted as absent; what is parked is not lost; of others nothing is known here."""
    elsewhere = lost(0, 10, source=TopicPartition("orders", 1))
    gaps = [lost(2000, 3001), lost(10, 20, GapKind.PARKED), elsewhere]
    assert given_up(known_gaps(*gaps, acknowledged=gaps), ORDERS, 3000) == ()
    assert given_up(known_gaps(lost(0, 10), acknowledged=[]), ORDERS, 3000) == ()


def test_of_many_the_first_are_named_in_their_order_and_the_rest_counted() -> None:
    gaps = [lost(number, number + 1) for number in (4, 2, 0, 6, 8)]
    found = given_up(known_gaps(*gaps, acknowledged=gaps), ORDERS, 9)
    assert [each.split(" ack")[0] for each in found[:-1]] == ["orders-0 0", "orders-0 2", "orders-0 4"]
    assert found[-1] == "2 more gaps, 2 offsets in all, acknowledged as lost, not compared: mirror gaps FILE lists them"


def test_why_there_is_nothing_to_compare_is_said_unless_what_is_left_out_says_it() -> None:
    flow = Flow("east", "west")
    assert nothing_to_compare(flow, [], ()) == (
        "the flow selects no topic of east but heartbeats: correct east->west.topics and east->west.topics.exclude, or "
        "grant Describe on the topics of east"
    )
    assert nothing_to_compare(flow, [ORDERS], ()) == "no topic that the flow selects on east has a record"
    untold = LeftOut("east", ORDERS, 0, 5, None, "east: orders-0 has no leader", is_unchecked=True)
    assert nothing_to_compare(flow, [ORDERS], [untold]) is None
