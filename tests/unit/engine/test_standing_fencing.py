"""Which partitions wait until nothing that was sent before can arrive, and as whom the others are written meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirror.copier.work import Handover, OthersUntil, PartitionResult
from mirror.engine.hold import Held
from mirror.engine.mm2_traces import Mm2Traces
from mirror.engine.standing import FlowStanding
from mirror.kafka.batch import Producer
from mirror.model.connect_offsets import partition_of, source_key
from mirror.model.flow_state import DataProducer, FlowState, NextBatch, Position
from mirror.model.partition import TopicPartition
from mirror.model.pause import PauseReport, Pauses, PauseWish
from tests.unit.control.builders import flow_settings

ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 1)
ORDERS_COPY, BILLS_COPY = TopicPartition("east.orders", 0), TopicPartition("east.bills", 1)
FIRST, NEXT = Producer(7, 3), Producer(7, 4)
COPIED = FlowState(positions={ORDERS: Position(10, 10, 0, True, target="east.orders")})


@pytest.fixture
def standing() -> FlowStanding:
    """A flow that this engine leads, with a partition that was copied and one that was not."""
    standing = FlowStanding(flow_settings())
    standing.partitions = ((ORDERS, ORDERS_COPY, "", ""), (BILLS, BILLS_COPY, "", ""))
    standing.lead(5, was_settled=False)
    return standing


def result(source: TopicPartition, **known: object) -> PartitionResult:
    return PartitionResult(flow_settings().flow, source, None, **known)  # type: ignore[arg-type]


def test_after_a_leader_that_was_killed_every_partition_waits(standing: FlowStanding) -> None:
    """Those on record, and those of which it may have been about to record the first position."""
    standing.take_state(COPIED, Mm2Traces(), Held(producer=NEXT))
    assert standing.to_fence() == {ORDERS_COPY, BILLS_COPY}
    assert not standing.needs_next_epoch(standing.to_fence())
    assert not standing.is_settled


def test_after_a_clean_stop_none_waits(standing: FlowStanding) -> None:
    standing.lead(5, was_settled=True)
    standing.take_state(COPIED, Mm2Traces(), Held(producer=NEXT))
    assert standing.to_fence() == frozenset()
    assert standing.is_settled
    standing.take_partitions((*standing.partitions, (TopicPartition("new", 0), TopicPartition("east.new", 0), "", "")))
    assert standing.to_fence() == frozenset()


def test_a_clean_stop_counts_once(standing: FlowStanding) -> None:
    """An epoch that failed since may have left anything on its way."""
    standing.lead(5, was_settled=True)
    standing.take_state(COPIED, Mm2Traces(), Held(producer=NEXT))
    standing.is_known = False
    assert not standing.is_settled
    standing.take_state(COPIED, Mm2Traces(), Held(producer=NEXT))
    assert standing.to_fence() == {ORDERS_COPY, BILLS_COPY}


@pytest.mark.parametrize("was_settled", [True, False])
def test_that_nothing_lies_behind_a_position_counts_after_a_clean_stop_alone(
    standing: FlowStanding, *, was_settled: bool
) -> None:
    """An engine takes the mark back before it copies on; a record of that may have been on its way when it died."""
    standing.lead(5, was_settled=was_settled)
    marked = FlowState(positions={ORDERS: Position(10, 10, 0, True, target="east.orders", settled=True)})
    standing.take_state(marked, Mm2Traces(), Held(producer=NEXT))
    assert standing.handovers[ORDERS].position.settled is was_settled


def test_a_partition_that_could_not_be_fenced_takes_no_other_its_mark(standing: FlowStanding) -> None:
    """One whose replicas are too few at the stop: of all the others the next engine reads nothing of what others wrote."""
    both = {ORDERS: COPIED.positions[ORDERS], BILLS: Position(5, 5, 0, True, target="east.bills")}
    standing.lead(4, was_settled=False)
    standing.take_state(FlowState(positions=both), Mm2Traces(), Held(producer=NEXT))
    standing.take_fenced({ORDERS_COPY, BILLS_COPY}, {BILLS_COPY: "too few replicas"}, COPIED)
    for source, position in both.items():
        standing.handovers[source] = Handover(position, (), clean=True)
    stopped = FlowState()
    for key, value in standing.settled():
        stopped.apply(key, value)
    assert not standing.is_settled
    assert stopped.positions == {ORDERS: replace(both[ORDERS], settled=True, settled_in=4)}

    standing.lead(5, was_settled=False)
    standing.take_state(stopped, Mm2Traces(), Held(producer=NEXT))
    assert standing.handovers[ORDERS].position.settled
    standing.take_state(stopped, Mm2Traces(), Held(producer=NEXT))
    assert not standing.handovers[ORDERS].position.settled, "a task may have been about to take the mark back"
    standing.lead(6, was_settled=False)
    standing.take_state(stopped, Mm2Traces(), Held(producer=NEXT))
    assert not standing.handovers[ORDERS].position.settled, "so may the leader in between"


def test_partitions_in_which_a_transaction_has_not_ended_wait_and_no_producer_is_asked_for(
    standing: FlowStanding,
) -> None:
    standing.take_state(COPIED, Mm2Traces(), Held(unended=frozenset({ORDERS_COPY})))
    assert standing.to_fence() == {ORDERS_COPY}
    assert not standing.needs_next_epoch(standing.to_fence())
    standing.take_fenced({ORDERS_COPY}, {}, COPIED)
    assert standing.to_fence() == frozenset()


def test_what_was_never_written_as_this_producer_does_not_wait(standing: FlowStanding) -> None:
    standing.take_state(COPIED, Mm2Traces(), Held(producer=FIRST, is_first=True))
    assert standing.to_fence() == frozenset()


def test_partitions_found_first_after_a_takeover_wait_too_and_later_ones_do_not(standing: FlowStanding) -> None:
    standing.partitions = ((ORDERS, ORDERS_COPY, "", ""),)
    standing.take_state(COPIED, Mm2Traces(), Held(producer=NEXT))
    standing.take_partitions(((ORDERS, ORDERS_COPY, "", ""), (BILLS, BILLS_COPY, "", "")))
    assert standing.to_fence() == {ORDERS_COPY, BILLS_COPY}
    later = TopicPartition("later", 0)
    standing.take_partitions((*standing.partitions, (later, TopicPartition("east.later", 0), "", "")))
    assert standing.to_fence() == {ORDERS_COPY, BILLS_COPY}


def test_what_was_fenced_goes_on_with_what_another_engine_had_begun(standing: FlowStanding) -> None:
    changed: list[None] = []
    standing.take_state(COPIED, Mm2Traces(), Held(producer=NEXT))
    standing.changed = lambda: changed.append(None)
    begun = Position(0, 5, 0, True, target="east.bills")
    standing.take_fenced(
        {ORDERS_COPY, BILLS_COPY},
        {ORDERS_COPY: "it has no leader"},
        FlowState(positions={**COPIED.positions, BILLS: begun}),
    )
    assert standing.to_fence() == {ORDERS_COPY}
    assert standing.handovers[BILLS] == Handover(begun, (), clean=False)
    assert changed == [None]
    assert not standing.is_settled
    assert [each for each in standing.reasons() if "east.orders-0" in each and "it has no leader" in each]


def test_where_an_answer_is_missing_the_partition_waits_for_the_next_epoch(standing: FlowStanding) -> None:
    standing.take_state(COPIED, Mm2Traces(), Held(producer=FIRST, is_first=True))
    standing.take_written(ORDERS_COPY, result(ORDERS, sequence=10, may_arrive_late=True), FIRST)
    standing.take_written(BILLS_COPY, result(BILLS, sequence=5), FIRST)
    assert standing.to_fence() == {ORDERS_COPY}
    assert standing.needs_next_epoch({ORDERS_COPY})
    assert standing.writing.sequences == {BILLS_COPY: 5}
    standing.take_producer(NEXT)
    assert standing.writing.producer == NEXT
    assert standing.writing.sequences == {}, "with each epoch sequences begin at 0"
    assert not standing.needs_next_epoch({ORDERS_COPY})


def test_what_a_running_epoch_wrote_as_the_producer_before_says_nothing_of_the_next(standing: FlowStanding) -> None:
    standing.take_state(COPIED, Mm2Traces(), Held(producer=FIRST, is_first=True))
    standing.take_producer(NEXT)
    standing.take_written(BILLS_COPY, result(BILLS, sequence=5), FIRST)
    assert standing.writing.sequences == {}
    standing.take_written(ORDERS_COPY, result(ORDERS, sequence=5, may_arrive_late=True), FIRST)
    assert not standing.needs_next_epoch({ORDERS_COPY})


def test_a_pause_promises_nothing_of_what_was_sent_before_where_the_target_does_not_refuse_it(
    standing: FlowStanding,
) -> None:
    """With a weak fence that is so until a batch of the next epoch is in the copy, which a paused topic never gets."""
    standing.take_pauses(Pauses((PauseWish("all", None, True, "ann", 1),)))
    standing.take_state(COPIED, Mm2Traces(), Held(producer=NEXT))
    standing.take_fenced({ORDERS_COPY, BILLS_COPY}, {}, COPIED)
    said = standing.pause_report("me")
    assert said is not None
    assert (said.busy, said.unrefused, said.weakness) == (frozenset(), frozenset(), ""), "its marker refuses it"

    standing.weak_fence = "grant Write"
    standing.take_state(COPIED, Mm2Traces(), Held(producer=NEXT))
    standing.take_fenced({ORDERS_COPY, BILLS_COPY}, {}, COPIED, DataProducer(FIRST.producer_id, FIRST.epoch))
    said = standing.pause_report("me")
    assert said is not None
    assert (said.busy, said.unrefused, said.weakness) == (frozenset(), {ORDERS, BILLS}, "grant Write")
    assert PauseReport.of(said.content()) == said
    standing.take_written(ORDERS_COPY, result(ORDERS, sequence=0), NEXT)
    assert standing.unrefused, "nothing was appended"
    standing.take_written(ORDERS_COPY, replace(result(ORDERS, sequence=3), records=3), NEXT)
    said = standing.pause_report("me")
    assert said is not None
    assert said.unrefused == {BILLS}
    standing.take_written(ORDERS_COPY, result(ORDERS, sequence=3, may_arrive_late=True), NEXT)
    standing.take_producer(replace(NEXT, epoch=NEXT.epoch + 1))
    standing.take_fenced({ORDERS_COPY}, {}, COPIED)
    assert standing.unrefused == {ORDERS_COPY: NEXT.producer_id, BILLS_COPY: NEXT.producer_id}, "an answer was missing"


def test_what_was_sent_as_another_producer_than_the_one_that_is_fenced_is_not_refused(standing: FlowStanding) -> None:
    standing.fence_note = "the transactional id had expired"
    standing.take_pauses(Pauses((PauseWish("all", None, True, "ann", 1),)))
    standing.take_state(COPIED, Mm2Traces(), Held(producer=NEXT))
    standing.take_fenced({ORDERS_COPY, BILLS_COPY}, {}, COPIED, DataProducer(99, 3, "it had expired"))
    standing.take_written(ORDERS_COPY, replace(result(ORDERS, sequence=3), records=3), NEXT)
    said = standing.pause_report("me")
    assert said is not None
    assert (said.unrefused, said.weakness) == ({ORDERS, BILLS}, "the transactional id had expired")


def test_what_was_sent_with_the_producer_id_before_is_not_refused_where_the_cluster_gives_another_meanwhile(
    standing: FlowStanding,
) -> None:
    """The right to the transactional id was granted while the engine runs; the fence is that of the new id alone."""
    standing.take_pauses(Pauses((PauseWish("all", None, True, "ann", 1),)))
    standing.take_state(COPIED, Mm2Traces(), Held(producer=FIRST, is_first=True))
    standing.take_written(ORDERS_COPY, result(ORDERS, sequence=10, may_arrive_late=True), FIRST)
    standing.take_producer(Producer(9, 0))
    standing.fence_note = "it was not to be had before"
    standing.take_fenced({ORDERS_COPY}, {}, COPIED)
    said = standing.pause_report("me")
    assert said is not None
    assert (said.unrefused, said.weakness) == ({ORDERS}, "it was not to be had before")


def test_what_nothing_refuses_is_remembered_for_as_long_as_the_engine_leads(standing: FlowStanding) -> None:
    """After an epoch that failed too, where positions are read once more."""
    standing.take_state(COPIED, Mm2Traces(), Held(producer=NEXT))
    standing.take_fenced({ORDERS_COPY}, {}, COPIED, DataProducer(99, 3, "it had expired"))
    standing.take_state(COPIED, Mm2Traces(), Held(producer=NEXT))
    assert standing.unrefused == {ORDERS_COPY: 99}
    standing.lead(6, was_settled=False)
    assert standing.unrefused == {}


def test_a_partition_that_was_not_written_to_keeps_its_sequence(standing: FlowStanding) -> None:
    standing.take_state(COPIED, Mm2Traces(), Held(producer=FIRST, is_first=True))
    standing.take_written(BILLS_COPY, result(BILLS, sequence=5), FIRST)
    standing.take_written(BILLS_COPY, result(BILLS), FIRST)
    assert standing.writing.sequences == {BILLS_COPY: 5}


def test_a_partition_waits_whose_position_goes_where_a_transaction_has_not_ended() -> None:
    """Else each transaction with it would not end either, and all that is in it would be done again and again."""
    standing = FlowStanding(flow_settings("west.exactly.once.source.support = enabled"))
    topic, partitions = standing.settings.offset_storage_topic, standing.settings.offset_storage_partitions
    place = TopicPartition(topic, partition_of(source_key("east", ORDERS), partitions))
    assert place.partition != partition_of(source_key("east", BILLS), partitions)
    standing.lead(5, was_settled=False)
    slots = (("id-0", Producer(7, 3, is_transactional=True)),)
    standing.take_state(COPIED, Mm2Traces(), Held(slots, unended=frozenset({place})))
    assert standing.waits(ORDERS, ORDERS_COPY)
    assert not standing.waits(BILLS, BILLS_COPY)
    standing.take_fenced({place}, {}, COPIED)
    assert not standing.waits(ORDERS, ORDERS_COPY)


FORMER = DataProducer(90, 0)
WEAK = Producer(90, 0)


def after_another_id(standing: FlowStanding, *, is_own: bool = True) -> PauseReport:
    """What is said of pauses once the flow, written as ``FORMER`` until now, was begun anew with another id."""
    standing.at_work = frozenset()
    standing.take_state(COPIED, Mm2Traces(), Held(producer=NEXT))
    standing.take_fenced(standing.to_fence(), {}, COPIED, FORMER, is_own=is_own)
    standing.handovers[ORDERS] = Handover(COPIED.positions[ORDERS], (), clean=True)
    standing.take_pauses(Pauses((PauseWish("p", "orders", True, "ann", 1),)))
    said = standing.pause_report("me")
    assert said is not None
    return said


def begin(standing: FlowStanding) -> None:
    """Begin before the target has a transaction coordinator."""
    standing.take_state(COPIED, Mm2Traces(), Held(producer=WEAK, is_first=True))
    standing.begin_epoch({ORDERS: ORDERS_COPY}, WEAK)


def test_where_all_that_this_engine_sent_was_answered_nothing_is_on_its_way_under_another_id(
    standing: FlowStanding,
) -> None:
    """So that the cut of a failback is certain."""
    begin(standing)
    standing.take_written(ORDERS_COPY, result(ORDERS, sequence=4, records=4), WEAK)
    assert after_another_id(standing).unrefused == frozenset()
    assert standing.is_settled


@pytest.mark.parametrize("becomes", ["failed", "late", "failed before", "another engine's"])
def test_where_that_is_not_known_it_is_said(standing: FlowStanding, becomes: str) -> None:
    begin(standing)
    if becomes == "late":
        standing.take_written(ORDERS_COPY, result(ORDERS, may_arrive_late=True), WEAK)
    if becomes == "failed before":
        # Nothing was copied since that would have the target refuse it.
        standing.begin_epoch({ORDERS: ORDERS_COPY}, Producer(90, 1))
        standing.take_written(ORDERS_COPY, result(ORDERS), Producer(90, 1))
    if becomes == "another engine's":
        standing.take_written(ORDERS_COPY, result(ORDERS, records=4), WEAK)
    assert after_another_id(standing, is_own=becomes != "another engine's").unrefused == {ORDERS}
    assert not standing.is_settled


def test_a_batch_of_the_next_epoch_has_what_was_not_answered_refused(standing: FlowStanding) -> None:
    begin(standing)
    standing.begin_epoch({ORDERS: ORDERS_COPY}, Producer(90, 1))
    standing.take_written(ORDERS_COPY, result(ORDERS, records=4, sequence=4), Producer(90, 1))
    assert after_another_id(standing).unrefused == frozenset()


def test_what_is_not_answered_is_of_a_term(standing: FlowStanding) -> None:
    begin(standing)
    standing.lead(6, was_settled=False)
    assert standing.unanswered == {}


def test_what_was_looked_for_before_the_flow_was_begun_is_not_all_that_the_engine_before_had_found(
    standing: FlowStanding,
) -> None:
    new, newest = ((TopicPartition(name, 0), TopicPartition(f"east.{name}", 0), "", "") for name in ("new", "newest"))
    looked_in, known = standing.begun, standing.partitions
    standing.take_state(COPIED, Mm2Traces(), Held(producer=NEXT))
    standing.take_partitions((*known, new), looked_in)
    assert standing.to_fence() == {ORDERS_COPY, BILLS_COPY, new[1]}
    standing.take_partitions((*known, new, newest), standing.begun)
    assert newest[1] in standing.to_fence()
    standing.take_partitions((*known, new, newest, (ORDERS, TopicPartition("later", 0), "", "")), standing.begun)
    assert TopicPartition("later", 0) not in standing.to_fence()


def test_of_partitions_that_are_to_be_fenced_it_is_asked_once_whether_anything_lies_behind_their_positions(
    standing: FlowStanding,
) -> None:
    """Before the fence: where it fails, brokers may know of the next epoch already."""
    batch, until = NextBatch(7, 3, 10), OthersUntil(40, 2)
    copied = replace(COPIED.positions[ORDERS], next_batch=batch)
    standing.take_state(FlowState(positions={ORDERS: copied}), Mm2Traces(), Held(producer=NEXT))
    assert standing.to_compare({BILLS_COPY}) == {}
    assert standing.to_compare({ORDERS_COPY, BILLS_COPY}) == {ORDERS_COPY: copied}
    standing.take_others_until({ORDERS_COPY: replace(copied, downstream=9)}, {ORDERS_COPY: until})
    assert standing.handovers[ORDERS].others_until is None, "it was asked about another position"
    standing.take_others_until({ORDERS_COPY: replace(copied, compared=3)}, {ORDERS_COPY: until})
    assert standing.handovers[ORDERS].others_until == until
    assert standing.to_compare({ORDERS_COPY}) == {}


@pytest.mark.parametrize("known", [{"clean": True}, {"position": replace(COPIED.positions[ORDERS], settled=True)}])
def test_where_it_is_known_already_nothing_is_asked(standing: FlowStanding, known: dict[str, Any]) -> None:
    position = replace(known.pop("position", COPIED.positions[ORDERS]), next_batch=NextBatch(7, 3, 10))
    standing.handovers[ORDERS] = Handover(position, (), **{"clean": False} | known)
    assert standing.to_compare({ORDERS_COPY}) == {}


def test_an_engine_that_stands_by_knows_nothing(standing: FlowStanding) -> None:
    standing.take_state(COPIED, Mm2Traces(), Held(producer=FIRST, is_first=True))
    begun = standing.begun
    standing.stand_by()
    assert (standing.is_known, standing.term) == (False, None)
    assert not standing.is_settled
    standing.lead(9, was_settled=True)
    # What its tasks bring back now is of before, and another may have written with their transactional ids since.
    assert standing.begun == begun + 1
    standing.take_state(COPIED, Mm2Traces(), Held(producer=NEXT))
    assert standing.begun == begun + 2


def test_how_well_late_requests_are_refused_is_told(standing: FlowStanding) -> None:
    standing.weak_fence, standing.fence_note = "grant Write", "the id had expired"
    assert standing.notes() == ("grant Write", "the id had expired")
