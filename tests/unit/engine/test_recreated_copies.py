"""The copy of a recreated topic may be deleted once nothing appends to it, nor will."""

from __future__ import annotations

from dataclasses import replace

from mirror.copier.work import Handover
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.recreated_copies import has_stopped, outdated_copies
from mirror.model.partition import TopicPartition
from mirror.model.pause import PauseWish
from mirror.model.position import Position
from tests.unit.control.builders import flow_settings

ONE, TWO, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("bills", 0)


def runtime_with(*stopped: TopicPartition, at_work: frozenset[TopicPartition] = frozenset()) -> FlowRuntime:
    found = tuple(
        (each, TopicPartition(f"east.{each.topic}", each.partition), "id", "id") for each in (ONE, TWO, OTHER)
    )
    return FlowRuntime(
        flow_settings(), partitions=found, stopped=dict.fromkeys(stopped, "created anew"), at_work=at_work
    )


def test_a_topic_has_stopped_when_all_its_partitions_have() -> None:
    assert has_stopped(runtime_with(ONE, TWO), "orders")
    assert not has_stopped(runtime_with(ONE, OTHER), "orders")
    assert not has_stopped(runtime_with(ONE, TWO), "unknown")


def test_what_an_epoch_that_runs_still_may_append_to_has_not_stopped() -> None:
    assert not has_stopped(runtime_with(ONE, TWO, at_work=frozenset({TWO})), "orders")
    assert has_stopped(runtime_with(ONE, TWO, at_work=frozenset({OTHER})), "orders")


def test_what_is_paused_is_left_as_it_is() -> None:
    runtime = runtime_with(ONE, TWO)
    runtime.pauses = replace(runtime.pauses, wishes=(PauseWish("1", "orders", True, "ann", 5),))
    assert not has_stopped(runtime, "orders")


def test_copies_of_former_topics_are_told_by_their_ids_once_a_partition_of_them_is_on_record() -> None:
    runtime = runtime_with()
    former = Position(5, 5, 0, True, 0, "former", "copy", target="east.orders", same_offsets=True)
    for position, outdated in (
        (former, {"copy"}),
        (replace(former, topic_id="id"), set()),
        (replace(former, topic_id=""), set()),
        (replace(former, same_offsets=False), set()),
    ):
        runtime.handovers = {ONE: Handover(position, (), clean=True)}
        assert outdated_copies(runtime) == outdated
