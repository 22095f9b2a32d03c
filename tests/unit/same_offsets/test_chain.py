"""As whom copies with the source's offsets are written: known without asking, and another one for each topic."""

from __future__ import annotations

from mirror.copier.same_offsets import sequence_of
from mirror.kafka import topic_ids
from mirror.kafka.partition_state import ActiveProducer
from mirror.model.flow import Flow
from mirror.same_offsets.chain import producer_of

FLOW = Flow("east", "west")


def test_all_engines_of_a_flow_write_a_copy_as_one_producer_in_one_epoch_and_that_of_another_id_in_another() -> None:
    one, other = producer_of(FLOW, "one"), producer_of(FLOW, "other")
    assert one == producer_of(FLOW, "one")
    assert one.producer_id == other.producer_id == producer_of(FLOW).producer_id
    assert one.epoch != other.epoch
    assert producer_of(FLOW, topic_ids.NONE) == producer_of(FLOW)


def test_epochs_are_those_that_brokers_take() -> None:
    assert {0 <= producer_of(FLOW, str(number)).epoch < 1 << 15 for number in range(1_000)} == {True}


def test_the_sequence_goes_on_within_an_epoch_alone() -> None:
    known = [ActiveProducer(producer_of(FLOW).producer_id, 0, 41, 1)]
    assert sequence_of(known, producer_of(FLOW)) == 42
    assert sequence_of(known, producer_of(FLOW, "one")) == 0
    assert sequence_of([], producer_of(FLOW)) == 0
