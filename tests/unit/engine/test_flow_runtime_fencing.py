"""Which partitions wait until nothing that was sent before can arrive, and as whom the others are written meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirror.copier.work import ForeignUntil, Handover, PartitionResult
from mirror.engine import flow_messages
from mirror.engine.flow_pauses import pause_report, take_pauses
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.late_writes import LateWrites
from mirror.engine.mm2_traces import Mm2Traces
from mirror.engine.settled import settled
from mirror.engine.taken_producers import TakenProducers
from mirror.kafka.batch import Producer
from mirror.model.connect_offsets import partition_of, source_key
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.pause import PauseReport, Pauses, PauseWish
from mirror.model.position import NextBatch, Position
from mirror.model.state_values import DataProducer
from tests.unit.control.builders import flow_settings

ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 1)
ORDERS_COPY, BILLS_COPY = TopicPartition("east.orders", 0), TopicPartition("east.bills", 1)
FIRST, NEXT = Producer(7, 3), Producer(7, 4)
COPIED = FlowState(positions={ORDERS: Position(10, 10, 0, True, target="east.orders")})


@pytest.fixture
def runtime() -> FlowRuntime:
    """A flow that this engine leads, with a partition that was copied and one that was not."""
    runtime = FlowRuntime(flow_settings())
    runtime.partitions = ((ORDERS, ORDERS_COPY, "", ""), (BILLS, BILLS_COPY, "", ""))
    runtime.lead(5, was_settled=False)
    return runtime


def result(source: TopicPartition, **known: object) -> PartitionResult:
    return PartitionResult(flow_settings().flow, source, None, **known)  # type: ignore[arg-type]


def test_after_a_leader_that_was_killed_every_partition_waits(runtime: FlowRuntime) -> None:
    """Those on record, and those of which it may have been about to record the first position."""
    runtime.take_state(COPIED, Mm2Traces(), TakenProducers(producer=NEXT))
    assert runtime.to_fence() == {ORDERS_COPY, BILLS_COPY}
    assert not runtime.needs_next_epoch(runtime.to_fence())
    assert not runtime.is_settled


def test_after_a_clean_stop_none_waits(runtime: FlowRuntime) -> None:
    runtime.lead(5, was_settled=True)
    runtime.take_state(COPIED, Mm2Traces(), TakenProducers(producer=NEXT))
    assert runtime.to_fence() == frozenset()
    assert runtime.is_settled
    runtime.take_partitions((*runtime.partitions, (TopicPartition("new", 0), TopicPartition("east.new", 0), "", "")))
    assert runtime.to_fence() == frozenset()


def test_a_clean_stop_counts_once(runtime: FlowRuntime) -> None:
    """An epoch that failed since may have left anything on its way."""
    runtime.lead(5, was_settled=True)
    runtime.take_state(COPIED, Mm2Traces(), TakenProducers(producer=NEXT))
    runtime.is_known = False
    assert not runtime.is_settled
    runtime.take_state(COPIED, Mm2Traces(), TakenProducers(producer=NEXT))
    assert runtime.to_fence() == {ORDERS_COPY, BILLS_COPY}


@pytest.mark.parametrize("was_settled", [True, False])
def test_that_nothing_lies_behind_a_position_counts_after_a_clean_stop_alone(
    runtime: FlowRuntime, *, was_settled: bool
) -> None:
    """An engine takes the mark back before it copies on; a record of that may have been on its way when it died."""
    runtime.lead(5, was_settled=was_settled)
    marked = FlowState(positions={ORDERS: Position(10, 10, 0, True, target="east.orders", settled=True)})
    runtime.take_state(marked, Mm2Traces(), TakenProducers(producer=NEXT))
    assert runtime.handovers[ORDERS].position.settled is was_settled


def test_a_partition_that_could_not_be_fenced_takes_no_other_its_mark(runtime: FlowRuntime) -> None:
    """One whose replicas are too few at the stop: of all the others the next engine reads nothing of what others wrote."""
    both = {ORDERS: COPIED.positions[ORDERS], BILLS: Position(5, 5, 0, True, target="east.bills")}
    runtime.lead(4, was_settled=False)
    runtime.take_state(FlowState(positions=both), Mm2Traces(), TakenProducers(producer=NEXT))
    runtime.take_fenced({ORDERS_COPY, BILLS_COPY}, {BILLS_COPY: "too few replicas"}, COPIED)
    for source, position in both.items():
        runtime.handovers[source] = Handover(position, (), clean=True)
    stopped = FlowState()
    for key, value in settled(runtime):
        stopped.apply(key, value)
    assert not runtime.is_settled
    assert stopped.positions == {ORDERS: replace(both[ORDERS], settled=True, settled_in=4)}

    runtime.lead(5, was_settled=False)
    runtime.take_state(stopped, Mm2Traces(), TakenProducers(producer=NEXT))
    assert runtime.handovers[ORDERS].position.settled
    runtime.take_state(stopped, Mm2Traces(), TakenProducers(producer=NEXT))
    assert not runtime.handovers[ORDERS].position.settled, "a task may have been about to take the mark back"
    runtime.lead(6, was_settled=False)
    runtime.take_state(stopped, Mm2Traces(), TakenProducers(producer=NEXT))
    assert not runtime.handovers[ORDERS].position.settled, "so may the leader in between"


@pytest.mark.parametrize("was_settled", [True, False])
def test_no_mark_counts_where_somebody_has_had_the_producer_since_and_the_state_topic_has_lost_that(
    runtime: FlowRuntime, *, was_settled: bool
) -> None:
    """The claim and the marks of one engine are what is left of the state topic; another has copied on behind them."""
    runtime.lead(5, was_settled=was_settled)
    marked = FlowState(positions={ORDERS: replace(COPIED.positions[ORDERS], settled=True, settled_in=4)})
    runtime.take_state(marked, Mm2Traces(), TakenProducers(producer=NEXT, is_next=False))
    assert not runtime.handovers[ORDERS].position.settled
    assert runtime.to_fence() == {ORDERS_COPY, BILLS_COPY}, "what that one sent may arrive late"


def test_partitions_in_which_a_transaction_has_not_ended_wait_and_no_producer_is_asked_for(
    runtime: FlowRuntime,
) -> None:
    runtime.take_state(COPIED, Mm2Traces(), TakenProducers(unended=frozenset({ORDERS_COPY})))
    assert runtime.to_fence() == {ORDERS_COPY}
    assert not runtime.needs_next_epoch(runtime.to_fence())
    runtime.take_fenced({ORDERS_COPY}, {}, COPIED)
    assert runtime.to_fence() == frozenset()


def test_what_was_never_written_as_this_producer_does_not_wait(runtime: FlowRuntime) -> None:
    runtime.take_state(COPIED, Mm2Traces(), TakenProducers(producer=FIRST, is_first=True))
    assert runtime.to_fence() == frozenset()


def test_partitions_found_first_after_a_takeover_wait_too_and_later_ones_do_not(runtime: FlowRuntime) -> None:
    runtime.partitions = ((ORDERS, ORDERS_COPY, "", ""),)
    runtime.take_state(COPIED, Mm2Traces(), TakenProducers(producer=NEXT))
    runtime.take_partitions(((ORDERS, ORDERS_COPY, "", ""), (BILLS, BILLS_COPY, "", "")))
    assert runtime.to_fence() == {ORDERS_COPY, BILLS_COPY}
    later = TopicPartition("later", 0)
    runtime.take_partitions((*runtime.partitions, (later, TopicPartition("east.later", 0), "", "")))
    assert runtime.to_fence() == {ORDERS_COPY, BILLS_COPY}


def test_what_was_fenced_goes_on_with_what_another_engine_had_begun(runtime: FlowRuntime) -> None:
    changed: list[None] = []
    runtime.take_state(COPIED, Mm2Traces(), TakenProducers(producer=NEXT))
    runtime.changed = lambda: changed.append(None)
    begun = Position(0, 5, 0, True, target="east.bills")
    runtime.take_fenced(
        {ORDERS_COPY, BILLS_COPY},
        {ORDERS_COPY: "it has no leader"},
        FlowState(positions={**COPIED.positions, BILLS: begun}),
    )
    assert runtime.to_fence() == {ORDERS_COPY}
    assert runtime.handovers[BILLS] == Handover(begun, (), clean=False)
    assert changed == [None]
    assert not runtime.is_settled
    assert [each for each in flow_messages.reasons(runtime) if "east.orders-0" in each and "it has no leader" in each]


def test_where_an_answer_is_missing_the_partition_waits_for_the_next_epoch(runtime: FlowRuntime) -> None:
    runtime.take_state(COPIED, Mm2Traces(), TakenProducers(producer=FIRST, is_first=True))
    runtime.take_written(ORDERS_COPY, result(ORDERS, sequence=10, may_arrive_late=True), FIRST)
    runtime.take_written(BILLS_COPY, result(BILLS, sequence=5), FIRST)
    assert runtime.to_fence() == {ORDERS_COPY}
    assert runtime.needs_next_epoch({ORDERS_COPY})
    assert runtime.writing.sequences == {BILLS_COPY: 5}
    runtime.take_producer(NEXT)
    assert runtime.writing.producer == NEXT
    assert runtime.writing.sequences == {}, "with each epoch sequences begin at 0"
    assert not runtime.needs_next_epoch({ORDERS_COPY})


def test_what_a_running_epoch_wrote_as_the_producer_before_says_nothing_of_the_next(runtime: FlowRuntime) -> None:
    runtime.take_state(COPIED, Mm2Traces(), TakenProducers(producer=FIRST, is_first=True))
    runtime.take_producer(NEXT)
    runtime.take_written(BILLS_COPY, result(BILLS, sequence=5), FIRST)
    assert runtime.writing.sequences == {}
    runtime.take_written(ORDERS_COPY, result(ORDERS, sequence=5, may_arrive_late=True), FIRST)
    assert not runtime.needs_next_epoch({ORDERS_COPY})


def test_a_pause_promises_nothing_of_what_was_sent_before_where_the_target_does_not_refuse_it(
    runtime: FlowRuntime,
) -> None:
    """With a weak fence that is so until a batch of the next epoch is in the copy, which a paused topic never gets."""
    take_pauses(runtime, Pauses((PauseWish("all", None, True, "ann", 1),)))
    runtime.take_state(COPIED, Mm2Traces(), TakenProducers(producer=NEXT))
    runtime.take_fenced({ORDERS_COPY, BILLS_COPY}, {}, COPIED)
    said = pause_report(runtime, "me")
    assert said is not None
    assert (said.busy, said.unrefused, said.weakness) == (frozenset(), frozenset(), ""), "its marker refuses it"

    runtime.late.weakness = "grant Write"
    runtime.take_state(COPIED, Mm2Traces(), TakenProducers(producer=NEXT))
    runtime.take_fenced({ORDERS_COPY, BILLS_COPY}, {}, COPIED, DataProducer(FIRST.producer_id, FIRST.epoch))
    said = pause_report(runtime, "me")
    assert said is not None
    assert (said.busy, said.unrefused, said.weakness) == (frozenset(), {ORDERS, BILLS}, "grant Write")
    assert PauseReport.of(said.content()) == said
    runtime.take_written(ORDERS_COPY, result(ORDERS, sequence=0), NEXT)
    assert runtime.late.unrefused, "nothing was appended"
    runtime.take_written(ORDERS_COPY, replace(result(ORDERS, sequence=3), records=3), NEXT)
    said = pause_report(runtime, "me")
    assert said is not None
    assert said.unrefused == {BILLS}
    runtime.take_written(ORDERS_COPY, result(ORDERS, sequence=3, may_arrive_late=True), NEXT)
    runtime.take_producer(replace(NEXT, epoch=NEXT.epoch + 1))
    runtime.take_fenced({ORDERS_COPY}, {}, COPIED)
    assert runtime.late.unrefused == {ORDERS_COPY: NEXT.producer_id, BILLS_COPY: NEXT.producer_id}, (
        "an answer was missing"
    )


def test_what_was_sent_as_another_producer_than_the_one_that_is_fenced_is_not_refused(runtime: FlowRuntime) -> None:
    runtime.late.note = "the transactional id had expired"
    take_pauses(runtime, Pauses((PauseWish("all", None, True, "ann", 1),)))
    runtime.take_state(COPIED, Mm2Traces(), TakenProducers(producer=NEXT))
    runtime.take_fenced({ORDERS_COPY, BILLS_COPY}, {}, COPIED, DataProducer(99, 3, "it had expired"))
    runtime.take_written(ORDERS_COPY, replace(result(ORDERS, sequence=3), records=3), NEXT)
    said = pause_report(runtime, "me")
    assert said is not None
    assert (said.unrefused, said.weakness) == ({ORDERS, BILLS}, "the transactional id had expired")


def test_what_was_sent_with_the_producer_id_before_is_not_refused_where_the_cluster_gives_another_meanwhile(
    runtime: FlowRuntime,
) -> None:
    """The right to the transactional id was granted while the engine runs; the fence is that of the new id alone."""
    take_pauses(runtime, Pauses((PauseWish("all", None, True, "ann", 1),)))
    runtime.take_state(COPIED, Mm2Traces(), TakenProducers(producer=FIRST, is_first=True))
    runtime.take_written(ORDERS_COPY, result(ORDERS, sequence=10, may_arrive_late=True), FIRST)
    runtime.take_producer(Producer(9, 0))
    runtime.late.note = "it was not to be had before"
    runtime.take_fenced({ORDERS_COPY}, {}, COPIED)
    said = pause_report(runtime, "me")
    assert said is not None
    assert (said.unrefused, said.weakness) == ({ORDERS}, "it was not to be had before")


def test_what_nothing_refuses_is_remembered_for_as_long_as_the_engine_leads(runtime: FlowRuntime) -> None:
    """After an epoch that failed too, where positions are read once more."""
    runtime.take_state(COPIED, Mm2Traces(), TakenProducers(producer=NEXT))
    runtime.take_fenced({ORDERS_COPY}, {}, COPIED, DataProducer(99, 3, "it had expired"))
    runtime.take_state(COPIED, Mm2Traces(), TakenProducers(producer=NEXT))
    assert runtime.late.unrefused == {ORDERS_COPY: 99}
    runtime.lead(6, was_settled=False)
    assert runtime.late.unrefused == {}


def test_a_partition_that_was_not_written_to_keeps_its_sequence(runtime: FlowRuntime) -> None:
    runtime.take_state(COPIED, Mm2Traces(), TakenProducers(producer=FIRST, is_first=True))
    runtime.take_written(BILLS_COPY, result(BILLS, sequence=5), FIRST)
    runtime.take_written(BILLS_COPY, result(BILLS), FIRST)
    assert runtime.writing.sequences == {BILLS_COPY: 5}


def test_a_partition_waits_whose_position_goes_where_a_transaction_has_not_ended() -> None:
    """Else each transaction with it would not end either, and all that is in it would be done again and again."""
    runtime = FlowRuntime(flow_settings("west.exactly.once.source.support = enabled"))
    topic, partitions = runtime.settings.offset_storage_topic, runtime.settings.offset_storage_partitions
    place = TopicPartition(topic, partition_of(source_key("east", ORDERS), partitions))
    assert place.partition != partition_of(source_key("east", BILLS), partitions)
    runtime.lead(5, was_settled=False)
    slots = (("id-0", Producer(7, 3, is_transactional=True)),)
    runtime.take_state(COPIED, Mm2Traces(), TakenProducers(slots, unended=frozenset({place})))
    assert runtime.waits(ORDERS, ORDERS_COPY)
    assert not runtime.waits(BILLS, BILLS_COPY)
    runtime.take_fenced({place}, {}, COPIED)
    assert not runtime.waits(ORDERS, ORDERS_COPY)


FORMER = DataProducer(90, 0)
WEAK = Producer(90, 0)


def after_another_id(runtime: FlowRuntime, *, is_own: bool = True) -> PauseReport:
    """What is said of pauses once the flow, written as ``FORMER`` until now, was begun anew with another id."""
    runtime.at_work = frozenset()
    runtime.take_state(COPIED, Mm2Traces(), TakenProducers(producer=NEXT))
    runtime.take_fenced(runtime.to_fence(), {}, COPIED, FORMER, is_own=is_own)
    runtime.handovers[ORDERS] = Handover(COPIED.positions[ORDERS], (), clean=True)
    take_pauses(runtime, Pauses((PauseWish("p", "orders", True, "ann", 1),)))
    said = pause_report(runtime, "me")
    assert said is not None
    return said


def begin(runtime: FlowRuntime) -> None:
    """Begin before the target has a transaction coordinator."""
    runtime.take_state(COPIED, Mm2Traces(), TakenProducers(producer=WEAK, is_first=True))
    runtime.begin_epoch({ORDERS: ORDERS_COPY}, WEAK)


def test_where_all_that_this_engine_sent_was_answered_nothing_is_on_its_way_under_another_id(
    runtime: FlowRuntime,
) -> None:
    """So that the cut of a failback is certain."""
    begin(runtime)
    runtime.take_written(ORDERS_COPY, result(ORDERS, sequence=4, records=4), WEAK)
    assert after_another_id(runtime).unrefused == frozenset()
    assert runtime.is_settled


@pytest.mark.parametrize("becomes", ["failed", "late", "failed before", "another engine's"])
def test_where_that_is_not_known_it_is_said(runtime: FlowRuntime, becomes: str) -> None:
    begin(runtime)
    if becomes == "late":
        runtime.take_written(ORDERS_COPY, result(ORDERS, may_arrive_late=True), WEAK)
    if becomes == "failed before":
        # Nothing was copied since that would have the target refuse it.
        runtime.begin_epoch({ORDERS: ORDERS_COPY}, Producer(90, 1))
        runtime.take_written(ORDERS_COPY, result(ORDERS), Producer(90, 1))
    if becomes == "another engine's":
        runtime.take_written(ORDERS_COPY, result(ORDERS, records=4), WEAK)
    assert after_another_id(runtime, is_own=becomes != "another engine's").unrefused == {ORDERS}
    assert not runtime.is_settled


def test_a_batch_of_the_next_epoch_has_what_was_not_answered_refused(runtime: FlowRuntime) -> None:
    begin(runtime)
    runtime.begin_epoch({ORDERS: ORDERS_COPY}, Producer(90, 1))
    runtime.take_written(ORDERS_COPY, result(ORDERS, records=4, sequence=4), Producer(90, 1))
    assert after_another_id(runtime).unrefused == frozenset()


def test_what_is_not_answered_is_of_a_term(runtime: FlowRuntime) -> None:
    begin(runtime)
    runtime.lead(6, was_settled=False)
    assert runtime.late.unanswered == {}


def test_what_was_looked_for_before_the_flow_was_begun_is_not_all_that_the_engine_before_had_found(
    runtime: FlowRuntime,
) -> None:
    new, newest = ((TopicPartition(name, 0), TopicPartition(f"east.{name}", 0), "", "") for name in ("new", "newest"))
    looked_in, known = runtime.begun, runtime.partitions
    runtime.take_state(COPIED, Mm2Traces(), TakenProducers(producer=NEXT))
    runtime.take_partitions((*known, new), looked_in)
    assert runtime.to_fence() == {ORDERS_COPY, BILLS_COPY, new[1]}
    runtime.take_partitions((*known, new, newest), runtime.begun)
    assert newest[1] in runtime.to_fence()
    runtime.take_partitions((*known, new, newest, (ORDERS, TopicPartition("later", 0), "", "")), runtime.begun)
    assert TopicPartition("later", 0) not in runtime.to_fence()


def test_of_partitions_that_are_to_be_fenced_it_is_asked_once_whether_anything_lies_behind_their_positions(
    runtime: FlowRuntime,
) -> None:
    """Before the fence: where it fails, brokers may know of the next epoch already."""
    batch, until = NextBatch(7, 3, 10), ForeignUntil(40, 2)
    copied = replace(COPIED.positions[ORDERS], next_batch=batch)
    runtime.take_state(FlowState(positions={ORDERS: copied}), Mm2Traces(), TakenProducers(producer=NEXT))
    assert runtime.to_compare({BILLS_COPY}) == {}
    assert runtime.to_compare({ORDERS_COPY, BILLS_COPY}) == {ORDERS_COPY: copied}
    runtime.take_foreign_until({ORDERS_COPY: replace(copied, downstream=9)}, {ORDERS_COPY: until})
    assert runtime.handovers[ORDERS].foreign_until is None, "it was asked about another position"
    runtime.take_foreign_until({ORDERS_COPY: replace(copied, compared=3)}, {ORDERS_COPY: until})
    assert runtime.handovers[ORDERS].foreign_until == until
    assert runtime.to_compare({ORDERS_COPY}) == {}


@pytest.mark.parametrize("known", [{"clean": True}, {"position": replace(COPIED.positions[ORDERS], settled=True)}])
def test_where_it_is_known_already_nothing_is_asked(runtime: FlowRuntime, known: dict[str, Any]) -> None:
    position = replace(known.pop("position", COPIED.positions[ORDERS]), next_batch=NextBatch(7, 3, 10))
    runtime.handovers[ORDERS] = Handover(position, (), **{"clean": False} | known)
    assert runtime.to_compare({ORDERS_COPY}) == {}


def test_an_engine_that_stands_by_knows_nothing(runtime: FlowRuntime) -> None:
    runtime.take_state(COPIED, Mm2Traces(), TakenProducers(producer=FIRST, is_first=True))
    begun = runtime.begun
    runtime.stand_by()
    assert (runtime.is_known, runtime.term) == (False, None)
    assert not runtime.is_settled
    runtime.lead(9, was_settled=True)
    # What its tasks bring back now is of before, and another may have written with their transactional ids since.
    assert runtime.begun == begun + 1
    runtime.take_state(COPIED, Mm2Traces(), TakenProducers(producer=NEXT))
    assert runtime.begun == begun + 2


def test_how_well_late_requests_are_refused_is_told(runtime: FlowRuntime) -> None:
    runtime.late.weakness, runtime.late.note = "grant Write", "the id had expired"
    assert flow_messages.notes(runtime) == ("grant Write", "the id had expired")


def test_late_requests_are_refused_behind_a_batch_of_the_next_epoch_and_not_before() -> None:
    """An epoch in which nothing was appended has told the target nothing."""
    late = LateWrites(unrefused={ORDERS_COPY: FIRST.producer_id})
    late.take_written(ORDERS_COPY, result(ORDERS), NEXT)
    assert not late.is_settled
    late.take_written(ORDERS_COPY, result(ORDERS, records=1), replace(NEXT, producer_id=8))
    assert not late.is_settled, "another id says nothing of this one"
    late.take_written(ORDERS_COPY, result(ORDERS, records=1), NEXT)
    assert late.is_settled
