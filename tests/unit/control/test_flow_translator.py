"""Both directions of a flow are asked, each by what it has recorded by now, whenever the other one began."""

from __future__ import annotations

from typing import cast

from mirror.control.flow_log import FlowLog, FlowTranslator
from mirror.model.flow_state import FlowState, Position, chunk_record
from mirror.model.offset_map import OffsetMap, Run
from mirror.model.partition import TopicPartition
from mirror.model.topics import DefaultReplicationPolicy, IdentityReplicationPolicy
from mirror.model.translation import Bounded, Exact, NotMirrored

ORDERS = TopicPartition("orders", 3)


class Log:
    """A flow's log that shows what was recorded when it is polled."""

    def __init__(self, target: str, *, copied: int) -> None:
        self.target = target
        self.copied = copied
        self.is_closed = False
        self.state = FlowState()

    def poll(self) -> FlowState:
        run = Run(0, 100, self.copied)
        position = Position(self.copied, 100 + self.copied, 0, True, target=self.target)
        for key, value in (chunk_record(ORDERS, 0, [run]), position.record(ORDERS)):
            self.state.apply(key, value)
        return self.state

    def offset_map(self, source: TopicPartition) -> OffsetMap | None:
        return self.state.offset_map(source)

    def close(self) -> None:
        self.is_closed = True


def as_log(log: Log) -> FlowLog:
    return cast("FlowLog", log)


def test_positions_on_a_mirrored_topic_come_home_as_soon_as_the_other_flow_has_begun() -> None:
    """CKP-07: and by what it has copied by then, not by what it had when it was found."""
    forward, opposite = Log("east.orders", copied=5), Log("west.orders", copied=5)
    found: list[Log] = []
    translator = FlowTranslator(
        as_log(forward), lambda: as_log(found[0]) if found else None, DefaultReplicationPolicy("."), "west"
    )
    mirrored = TopicPartition("west.orders", 3)
    translator.refresh()
    assert translator.translate(mirrored, 103) == NotMirrored()
    assert translator.translate(ORDERS, 3) == Exact(103)
    found.append(opposite)
    translator.refresh()
    assert translator.translate(mirrored, 103) == Exact(3)
    opposite.copied = 9
    translator.refresh()
    assert translator.translate(mirrored, 107) == Exact(7)
    translator.close()
    assert opposite.is_closed


def test_of_a_topic_of_one_name_the_other_flow_counts_only_if_it_copies_into_that_very_topic() -> None:
    forward = Log("orders", copied=5)
    for target, expected in (("orders", Bounded(0, 3)), ("elsewhere", Exact(103))):
        translator = FlowTranslator(
            as_log(forward),
            lambda target=target: as_log(Log(target, copied=5)),
            IdentityReplicationPolicy(),
            "west",  # type: ignore[misc]
        )
        translator.refresh()
        assert translator.translate(ORDERS, 3) == expected
