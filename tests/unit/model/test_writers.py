"""What other flows want to know of a state topic."""

from __future__ import annotations

from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_values import writer_record
from mirror.model.writers import CopiedTopics


def test_positions_tell_which_topics_a_flow_has_copied_to() -> None:
    copied = CopiedTopics()
    for partition in range(2):
        position = Position(5, 5, 0, complete=True, target="east.orders")
        copied.take(*position.record(TopicPartition("orders", partition)))
    copied.take(*writer_record(7, since_ms=1))
    copied.take(Position(0, 0, 0, complete=True, target="gone").record(TopicPartition("gone", 0))[0], None)
    assert copied.names == {"east.orders"}
