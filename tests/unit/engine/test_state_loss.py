"""What is known of a flow is written again when its state topic was lost, and nothing is taken for certain that is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.copier.work import Handover
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.mm2_traces import Mm2Traces, traces_of
from mirror.engine.state_loss import begun_anew, lacking_pauses, restored
from mirror.engine.taken_producers import TakenProducers
from mirror.model.failover import FailoverEntry, Phase
from mirror.model.flow_state import FlowState
from mirror.model.gap import Acknowledgement, Gap
from mirror.model.mm2_trace import Mm2Trace, Pair
from mirror.model.offset_map import Run, SparseOffsetMap
from mirror.model.partition import TopicPartition
from mirror.model.pause import Pauses, PauseWish
from mirror.model.placement import Placement
from mirror.model.position import Position
from mirror.model.state_record import StateRecord
from mirror.model.state_values import (
    Loss,
    chunk_record,
    failover_record,
    pause_record,
    placement_record,
    source_record,
    sparse_map_record,
    writer_record,
)
from mirror.model.translation import Bounded, Exact, TooOld, Translation
from tests.unit.control.builders import flow_settings

ORDERS, IDLE = TopicPartition("orders", 0), TopicPartition("idle", 0)
PAUSE = PauseWish("all", None, True, "ann", 5)
READ: list[StateRecord] = [
    writer_record(7, 1),
    source_record("id"),
    (b'["a newer kind"]', b"{}"),
    Position(3, 3, 0, True).record(IDLE),
    chunk_record(ORDERS, 0, [Run(0, 0, 10)]),
    Position(10, 10, 0, True).record(ORDERS),
]


def folded(records: list[StateRecord]) -> FlowState:
    state = FlowState()
    for key, value in records:
        state.apply(key, value)
    return state


def written(handover: Handover | None = None, *, are_certain: bool = True) -> FlowState:
    """What stands in the topic afterwards."""
    handovers = {} if handover is None else {ORDERS: handover}
    return folded(restored(READ, folded(READ), handovers, (), "deleted", 5, are_certain=are_certain))


def test_all_that_was_read_is_written_again_also_of_idle_partitions_and_of_newer_kinds() -> None:
    state, before = written(), folded(READ)
    assert (state.positions, state.writers, state.chunks) == (before.positions, before.writers, before.chunks)
    assert (set(state.not_understood), state.source_id, state.unsettled) == ({b'["a newer kind"]'}, "id", set())
    assert state.loss is not None
    assert "deleted; written again: 2 positions, 1 writers, 1 chunks of the offset maps; lost: 0" in state.loss.reason


def test_a_producer_id_that_a_task_has_registered_and_nobody_has_read_yet_is_written_too() -> None:
    """With the source's offsets the task does, in the batch of the first position: without it its records are foreign."""
    state = folded(restored(READ, folded(READ), {}, {7}, "deleted", 5, are_certain=True))
    assert state.writers == {*folded(READ).writers, 7}


def test_the_position_of_a_copy_that_was_begun_anew_counts_although_it_is_lower() -> None:
    anew = Position(4, 4, 0, True, incarnation=1)
    assert written(Handover(anew, (), clean=True)).positions[ORDERS] == anew
    before = Position(12, 12, 0, True, incarnation=-1)
    assert written(Handover(before, (), clean=True)).positions[ORDERS].upstream == 10


def test_what_people_had_put_on_record_is_written_again_and_told() -> None:
    gap = Gap(ORDERS, 3, 5, "gone", 1)
    entry = FailoverEntry("run", "planned", Phase.DONE, "here", 5)
    people = [
        pause_record(PAUSE),
        gap.record(),
        Acknowledgement("ann", "seen", 5).record(gap.key),
        failover_record(entry),
        placement_record(Placement("billing", TopicPartition("east.orders", 0), 3, 3, 3)),
    ]
    before = folded([*READ, *people])
    state = folded(restored([*READ, *people], before, {}, (), "deleted", 5, are_certain=True))
    assert (state.wishes, state.acknowledgements, state.failovers, state.placements) == (
        before.wishes,
        before.acknowledgements,
        before.failovers,
        before.placements,
    )
    assert state.loss is not None
    assert "1 pause, 1 acknowledgement, 1 failover run, 1 group placement; lost:" in state.loss.reason


def test_who_only_stood_by_writes_the_pauses_again_that_it_has_read_and_no_newer_wish_is_undone() -> None:
    known = Pauses().with_wish(PAUSE)
    assert lacking_pauses(known, FlowState()) == [pause_record(PAUSE)]
    cut = PauseWish("cut", None, True, "mirror failover", 6, is_cut=True)
    assert lacking_pauses(known.with_wish(cut), FlowState()) == [pause_record(PAUSE), pause_record(cut)]
    resumed = PauseWish("later", None, False, "bob", 6)
    assert lacking_pauses(known.with_wish(resumed), folded([pause_record(resumed)])) == []


def test_a_cut_that_was_ended_in_the_topic_as_it_is_now_is_not_written_again() -> None:
    """The thread that reads pauses may be a moment behind the one that reads the whole topic, or before it."""
    cut = PauseWish("cut", None, True, "mirror failover", 6, is_cut=True)
    end = pause_record(replace(cut, is_pause=False))
    known = Pauses().with_wish(PAUSE).with_wish(cut)
    assert lacking_pauses(known, folded([end])) == [pause_record(PAUSE)]
    assert lacking_pauses(known, folded([pause_record(cut), end, pause_record(PAUSE)])) == []
    again = replace(cut, wish="cut again")
    for key, value in lacking_pauses(known, state := folded([end, pause_record(again)])):
        state.apply(key, value)
    assert state.wishes == Pauses((PAUSE,), cut=again)


def test_pauses_are_written_again_in_their_order_and_behind_them_what_was_wished_of_the_topic_since() -> None:
    everything = PauseWish("W0", None, True, "ann", 5)
    orders, more = PauseWish("W1", "orders", False, "ann", 6), PauseWish("W2", "ord.*", True, "bob", 7)
    last = PauseWish("W3", "bills", False, "bob", 8)
    known = Pauses().with_wish(everything).with_wish(orders)
    for before in (known.with_wish(more), known):
        anew = folded([pause_record(more), pause_record(last)])
        for key, value in lacking_pauses(before, anew):
            anew.apply(key, value)
        assert anew.wishes.wishes == (everything, orders, more, last)
        assert anew.pauses.is_paused("orders")
        assert lacking_pauses(before, anew) == []


def test_who_starts_after_the_loss_says_that_pauses_are_not_known_any_more() -> None:
    for lost in (
        begun_anew(FlowState(), has_run=True, now_ms=5),
        begun_anew(folded([Position(3, 3, 0, True).record(ORDERS)]), has_run=True, now_ms=5),
    ):
        assert lost is not None
        assert "a topic that was paused is copied again (to pause it: mirror pause FILE)" in lost.reason
        assert "acknowledgements of gaps, runs of a failover and placements of groups" in lost.reason


def test_what_tasks_handed_back_counts_if_it_is_newer() -> None:
    newer = Handover(Position(20, 20, 0, True), (Run(0, 0, 20),), clean=True)
    state = written(newer)
    assert state.positions[ORDERS] == newer.position
    assert state.open_runs(ORDERS) == newer.runs
    older = Handover(Position(5, 5, 0, True), (Run(0, 0, 5),), clean=True)
    assert written(older).positions == folded(READ).positions


def test_chunks_of_the_map_that_nobody_has_read_are_counted_and_their_positions_lead_before_them() -> None:
    """Never behind them: a reader would miss what lies there."""
    state = written(Handover(Position(50, 40, 0, True, 3), (Run(45, 35, 5),), clean=True))
    assert state.loss is not None
    assert "lost: 2 chunks" in state.loss.reason
    known = state.offset_map(ORDERS)
    assert known is not None
    assert [known.translate(each) for each in (9, 10, 30, 46)] == [Exact(9), Exact(10), Bounded(10, 20), Exact(36)]


FIRST_KNOWN = Handover(Position(50, 40, 0, True, 2), (Run(30, 20, 20),), clean=True)


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (Position(50, 40, 0, True, 2), [Exact(0), Bounded(0, 12), Exact(20)]),
        (Position(50, 40, 10, True, 2), [Exact(0), Bounded(0, 12), Exact(20)]),
        (Position(50, 40, 10, False, 2), [TooOld(10), Bounded(0, 2), Exact(20)]),
    ],
    ids=["from the first offset on", "nothing older was there", "something older was there"],
)
def test_positions_in_the_first_chunks_that_nobody_has_read_lead_to_where_the_copy_begins(
    position: Position, expected: list[Translation]
) -> None:
    """They are not taken for chunks that were forgotten since the target has nothing of them any more."""
    state = folded(
        restored(
            READ[:3], folded(READ[:3]), {ORDERS: replace(FIRST_KNOWN, position=position)}, (), "", 5, are_certain=True
        )
    )
    assert state.loss is not None
    assert "lost: 2 chunks" in state.loss.reason
    known = state.offset_map(ORDERS)
    assert known is not None
    assert [known.translate(each) for each in (0, 12, 30)] == expected
    assert known.translate_back(5) == Bounded(0 if position.complete else 10, 5)


def test_nor_do_they_where_the_open_chunk_is_empty() -> None:
    handover = Handover(Position(50, 40, 0, True, 1), (), clean=True)
    state = folded(restored(READ[:3], folded(READ[:3]), {ORDERS: handover}, (), "deleted", 5, are_certain=True))
    known = state.offset_map(ORDERS)
    assert known is not None
    assert [known.translate(each) for each in (12, 50)] == [Bounded(0, 12), Exact(40)]


def test_a_stretch_of_mirrormakers_before_the_first_chunks_that_are_lost_is_kept() -> None:
    stretch = SparseOffsetMap(0, 10, 0, 8, (Pair(4, 4),))
    read = [*READ[:3], sparse_map_record(ORDERS, stretch)]
    state = folded(restored(read, folded(read), {ORDERS: FIRST_KNOWN}, (), "deleted", 5, are_certain=True))
    known = state.offset_map(ORDERS)
    assert known is not None
    assert known.sparse_maps == (stretch, SparseOffsetMap(10, 30, 8, 20, (Pair(9, 7),)))
    assert known.translate(12) == Bounded(8, 2)


@pytest.mark.parametrize("incarnation", [0, 1])
def test_first_chunks_that_were_forgotten_before_what_was_read_are_not_lost(incarnation: int) -> None:
    """Of another incarnation that tells nothing."""
    was = Position(40, 30, 0, True, 2, incarnation=incarnation)
    read = [*READ[:3], chunk_record(ORDERS, 2, [Run(30, 20, 10)]), was.record(ORDERS)]
    now = replace(FIRST_KNOWN, position=replace(FIRST_KNOWN.position, incarnation=1))
    state = folded(restored(read, folded(read), {ORDERS: now}, (), "deleted", 5, are_certain=True))
    assert state.loss is not None
    assert f"lost: {0 if incarnation else 2} chunks" in state.loss.reason
    known = state.offset_map(ORDERS)
    assert known is not None
    assert known.translate(12) == (Exact(20) if incarnation else Bounded(0, 12))


def test_so_many_chunks_are_lost_as_lie_between_two_that_are_known_and_an_empty_one_is_not_known() -> None:
    read = [
        *READ[:4],
        chunk_record(ORDERS, 0, [Run(0, 0, 10)]),
        chunk_record(ORDERS, 1, [Run(10, 10, 10)]),
        chunk_record(ORDERS, 2, []),
        chunk_record(ORDERS, 5, [Run(45, 35, 5)]),
        Position(50, 40, 0, True, 5).record(ORDERS),
    ]
    state = folded(restored(read, folded(read), {}, (), "deleted", 5, are_certain=True))
    assert state.loss is not None
    assert "lost: 3 chunks" in state.loss.reason
    known = state.offset_map(ORDERS)
    assert known is not None
    assert [known.translate(each) for each in (19, 30, 46)] == [Exact(19), Bounded(20, 10), Exact(36)]


def test_positions_that_are_not_certain_are_looked_up_on_the_target() -> None:
    state = written(are_certain=False)
    assert state.unsettled == {ORDERS, IDLE}
    traces = traces_of({}, {}, state, matches=True, has_run=False)
    assert traces.certain == {ORDERS: Mm2Trace(), IDLE: Mm2Trace()}
    again = folded(restored(READ, state, {}, (), "again", 6, are_certain=True))
    assert again.unsettled == {ORDERS, IDLE}
    state.apply(*Position(4, 4, 0, True).record(IDLE))
    again = folded(restored(READ, state, {}, (), "again", 6, are_certain=True))
    assert again.unsettled == {ORDERS}


def test_a_flow_that_has_run_and_has_nothing_on_record_has_lost_it() -> None:
    lost = begun_anew(FlowState(), has_run=True, now_ms=5)
    assert lost is not None
    assert not lost.are_tails_unknown
    assert begun_anew(FlowState(), has_run=False, now_ms=5) is None
    assert begun_anew(folded(READ), has_run=True, now_ms=5) is None
    assert begun_anew(FlowState(loss=Loss(1, "known")), has_run=True, now_ms=5) is None


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ((), ""),
        (("mirror.offsets = same",), "holds anything is not looked up: its partition stops until the copy is deleted"),
        (("mirror.offsets = same", "mirror.offsets.refused = translate"), "holds anything is translated from now on"),
    ],
)
def test_what_becomes_of_copies_with_the_source_s_offsets_is_told_too(lines: tuple[str, ...], said: str) -> None:
    lost = begun_anew(FlowState(), flow_settings(*lines).same_offsets, has_run=True, now_ms=5)
    assert lost is not None
    assert ("a copy of mirror.offsets = same" in lost.reason) == bool(lines)
    assert said in lost.reason


def test_positions_without_any_writer_are_of_a_topic_that_was_lost() -> None:
    """Of a version before there was a record of the source there are writers."""
    position = Position(3, 3, 0, True).record(ORDERS)
    lost = begun_anew(folded([position]), has_run=True, now_ms=5)
    assert lost is not None
    assert lost.are_tails_unknown
    assert begun_anew(folded([writer_record(7, 1), position]), has_run=True, now_ms=5) is None


@pytest.mark.parametrize(
    ("lines", "is_alone"),
    [
        ((), True),
        (("replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy",), False),
        (
            (
                "east->west.transforms = home",
                "east->west.transforms.home.type = org.apache.kafka.connect.transforms.RegexRouter",
                "east->west.transforms.home.regex = .*",
                "east->west.transforms.home.replacement = all-orders",
            ),
            False,
        ),
    ],
)
def test_nobody_else_writes_to_a_copy_with_a_name_of_the_policys_making(lines: tuple[str, ...], is_alone: bool) -> None:
    """Under unchanged names applications write, and to where a router sends records anybody may."""
    runtime = FlowRuntime(flow_settings(*lines))
    assert runtime.trace(ORDERS) == (Mm2Trace(is_alone=True) if is_alone else None)


def test_positions_are_read_again_between_epochs_not_under_a_running_one() -> None:
    runtime = FlowRuntime(flow_settings())
    runtime.take_state(folded(READ), Mm2Traces(), TakenProducers())
    runtime.read_again()
    assert runtime.is_known
    runtime.between_epochs()
    assert not runtime.is_known
    runtime.take_state(folded(READ), Mm2Traces(), TakenProducers())
    runtime.between_epochs()
    assert runtime.is_known


def test_whatever_is_in_a_copy_that_nobody_else_writes_to_is_looked_up() -> None:
    """Where the topic keeps its name, others may have written it, unless what was on record is lost."""
    new = traces_of({}, {}, FlowState(), matches=True, has_run=False)
    assert new.possible(ORDERS, is_known=False, is_alone=True) == Mm2Trace(is_alone=True)
    assert new.possible(ORDERS, is_known=False) is None
    lost = traces_of({}, {}, FlowState(), matches=True, has_run=True)
    assert lost.possible(ORDERS, is_known=False) == Mm2Trace()
    assert lost.possible(ORDERS, is_known=True, is_alone=True) is None


def test_chunks_that_follow_one_another_are_not_lost_whatever_hole_lies_between_their_runs() -> None:
    """A hole of the source is exact; a chunk of nothing, or from beyond the open one, is no end of a hole."""
    read = [
        *READ,
        chunk_record(ORDERS, 1, [Run(12, 10, 5)]),
        chunk_record(ORDERS, 2, []),
        chunk_record(ORDERS, 7, [Run(90, 80, 5)]),
        Position(17, 15, 0, True, 1).record(ORDERS),
    ]
    state = folded(restored(read, folded(read), {}, (), "deleted", 5, are_certain=True))
    assert state.loss is not None
    assert "lost: 0 chunks" in state.loss.reason
    known = state.offset_map(ORDERS)
    assert known is not None
    assert known.sparse_maps == ()
    assert [known.translate(each) for each in (9, 11, 12)] == [Exact(9), Exact(10), Exact(10)]


def test_what_a_task_hands_back_counts_of_a_partition_that_nobody_recorded_and_where_only_the_rest_is_new() -> None:
    first = Handover(Position(20, 20, 0, True), (Run(0, 0, 20),), clean=True)
    state = folded(restored(READ[:3], folded(READ[:3]), {ORDERS: first}, (), "deleted", 5, are_certain=True))
    assert state.positions[ORDERS] == first.position
    lacking = Gap(ORDERS, 3, 4, "poison", 5)
    same = Handover(Position(10, 10, 0, True), (Run(0, 0, 10),), clean=True, unwritten=(lacking.record(),))
    assert written(same).gaps == {lacking.key: lacking}


def test_a_state_topic_that_knows_its_source_or_its_loss_was_not_begun_anew() -> None:
    position = Position(3, 3, 0, True).record(IDLE)
    assert begun_anew(folded([position]), has_run=False, now_ms=5) is not None
    assert begun_anew(folded([position, source_record("id")]), has_run=True, now_ms=5) is None
    assert begun_anew(folded([position, Loss(4, "told").record()]), has_run=True, now_ms=5) is None


def test_a_pause_that_another_thread_has_read_before_the_loss_counts_too() -> None:
    """It is written again with the rest."""
    wish = PauseWish("w", None, True, "ann", 1)
    told = folded(restored(READ, folded(READ), {}, (), "deleted", 5, are_certain=True, pauses=Pauses().with_wish(wish)))
    assert "1 pause" in str(told.loss)


def test_of_the_first_chunks_those_that_are_older_than_the_one_that_was_read_of_are_not_counted() -> None:
    was = Position(30, 20, 0, True, 1)
    read = [*READ[:3], was.record(ORDERS)]
    state = folded(restored(read, folded(read), {ORDERS: FIRST_KNOWN}, (), "deleted", 5, are_certain=True))
    assert state.loss is not None
    assert "lost: 1 chunks" in state.loss.reason
