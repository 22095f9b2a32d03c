"""Both directions of a flow are asked, each by what it has recorded by now, whenever the other one began."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import pytest

from mirror.control import flow_log
from mirror.control.flow_log import FlowLog, FlowTranslator
from mirror.control.group_translator import GroupTranslator, sources_of, translate_read
from mirror.kafka.batch import Record
from mirror.model.checkpoint import CopyId
from mirror.model.flow_state import FlowState
from mirror.model.offset_map import OffsetMap, Run
from mirror.model.partition import TopicPartition
from mirror.model.placement import Placement
from mirror.model.position import Position
from mirror.model.state_values import chunk_record, placement_record
from mirror.model.topics import DefaultReplicationPolicy, IdentityReplicationPolicy
from mirror.model.translation import Bounded, Exact, NothingRead, NotMirrored, TooOld, Translation
from tests.unit.control.builders import flow_settings

ORDERS = TopicPartition("orders", 3)


class Log:
    """A flow's log that shows what was recorded when it is polled."""

    def __init__(self, target: str, *, copied: int) -> None:
        self.target = target
        self.copied = copied
        self.is_closed = False
        self.state = FlowState()
        self.put: dict[str, Placement] = {}

    def placement(self, group: str, _partition: TopicPartition) -> Placement | None:
        return self.put.get(group)

    def placements(self) -> Iterable[Placement]:
        return self.put.values()

    def source_of(self, copy: TopicPartition) -> TopicPartition | None:
        return ORDERS if copy == TopicPartition(self.target, 3) else None

    def poll(self) -> FlowState:
        run = Run(0, 100, self.copied)
        position = Position(
            self.copied, 100 + self.copied, 0, True, target=self.target, topic_id="from", target_id="to", incarnation=2
        )
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


@pytest.mark.parametrize(("copied", "expected"), [(5, Exact(2)), (0, NotMirrored())])
def test_of_a_topic_of_one_name_that_neither_flow_has_copied_nobody_knows_what_was_read(
    copied: int, expected: Translation, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward, opposite = Log("orders", copied=5), Log("orders", copied=copied)
    monkeypatch.setattr(forward, "poll", lambda: forward.state)
    translator = FlowTranslator(as_log(forward), lambda: as_log(opposite), IdentityReplicationPolicy(), "west")
    translator.refresh()
    assert translator.translate(ORDERS, 102 if copied else 100) == expected


def test_of_which_copy_a_position_is_is_told_of_both_directions() -> None:
    """A group that returns to the original reads the copy of the other flow: what it copied to is the source here."""
    forward, opposite = Log("east.orders", copied=5), Log("west.orders", copied=5)
    translator = FlowTranslator(as_log(forward), lambda: as_log(opposite), DefaultReplicationPolicy("."), "west")
    mirrored = TopicPartition("west.orders", 3)
    assert (translator.copy_id(ORDERS), translator.copy_id(mirrored)) == (None, None)
    translator.refresh()
    assert translator.copy_id(ORDERS) == CopyId("from", "to", 2)
    assert translator.copy_id(mirrored) == CopyId("to", "from", 2)
    assert translator.source_of(TopicPartition("east.orders", 3)) == ORDERS
    assert translator.source_of(ORDERS) == mirrored
    assert translator.source_of(TopicPartition("orders", 4)) is None
    assert (translator.origin(ORDERS), translator.origin(mirrored)) == (0, None)


def test_where_other_flows_have_put_a_group_counts_as_soon_as_they_have_begun() -> None:
    """Raised from 2 to 4 from a third cluster, it has read nothing before 4 for anyone."""
    forward, third = Log("east.orders", copied=5), Log("orders", copied=0)
    found: list[Log] = []
    between = FlowTranslator(as_log(forward), lambda: None, DefaultReplicationPolicy("."), "west")
    translator = GroupTranslator(
        between, others=["south"], find=lambda alias: as_log(found[0]) if found and alias == "south" else None
    )
    translator.refresh()
    third.put["billing"] = Placement("billing", ORDERS, 2, 2, 4)
    assert translator.translate("billing", ORDERS, 4) == Exact(104)
    found.append(third)
    translator.refresh()
    assert translator.translate("billing", ORDERS, 4) == Exact(102)
    assert translator.translate("stock", ORDERS, 4) == Exact(104)
    third.put["billing"] = Placement("billing", ORDERS, 4, 4, 4)
    assert translator.translate("billing", ORDERS, 4) == Exact(104)
    translator.close()
    assert third.is_closed


def test_where_the_flow_in_the_other_direction_has_put_a_group_it_has_read_nothing() -> None:
    forward, opposite = Log("east.orders", copied=5), Log("west.orders", copied=5)
    between = FlowTranslator(as_log(forward), lambda: as_log(opposite), DefaultReplicationPolicy("."), "west")
    translator = GroupTranslator(between)
    assert list(translator.placements()) == []
    translator.refresh()
    put = opposite.put["billing"] = Placement("billing", ORDERS, 30, 4, 4)
    assert list(translator.placements()) == [put]
    assert translator.translate("billing", ORDERS, 4) == NothingRead(4, 30, bound=104, first_copied=104)
    assert translator.translate("stock", ORDERS, 4) == Exact(104)


class Tail:
    """A state topic with these records."""

    has_begun_anew = False
    topic_id = ""

    def __init__(self, records: list[Record]) -> None:
        self._records = records

    def poll(self) -> list[Record]:
        return self._records


def test_a_placement_is_none_in_another_topic_of_that_name(monkeypatch: pytest.MonkeyPatch) -> None:
    copy = TopicPartition("east.orders", 3)
    put = Placement("billing", copy, 2, 2, 4, "first")
    for target_id, there in (("first", put), ("second", None), ("", put)):
        position = Position(5, 5, 0, True, target="east.orders", target_id=target_id)
        records = [Record(0, 0, *each, (), -1) for each in (placement_record(put), position.record(ORDERS))]
        monkeypatch.setattr(flow_log, "LogTail", lambda *_, records=records, **__: Tail(records))
        log = FlowLog({}, "state", alias="west")
        log.poll()
        assert log.placement("billing", copy) == there
        assert list(log.placements()) == ([there] if there else [])
        assert log.source_of(copy) == ORDERS


class At:
    """A translator that knows where one position lies."""

    def __init__(self, known: dict[int, Translation]) -> None:
        self._known = known

    def translate(self, source: TopicPartition, position: int) -> Translation:
        return self._known[position]


def put(downstream: int, written: int, upstream: int = 9) -> Placement:
    return Placement("billing", ORDERS, upstream, downstream, written)


def test_of_several_flows_that_put_a_group_behind_what_they_lost_the_lowest_counts() -> None:
    """Where one put it exactly where it was, it has read what lies before."""
    others = [put(3, 8), put(2, 8), put(1, 1)]
    assert translate_read(At({2: Exact(102)}), ORDERS, 8, None, others) == Exact(102)
    assert translate_read(At({8: Exact(108)}), ORDERS, 8, None, [put(1, 1)]) == Exact(108)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Exact(30), Exact(30)),
        (Exact(29), Exact(29)),
        (Exact(31), Bounded(30, 1)),
        (Bounded(35, 4), Bounded(30, 9)),
        (TooOld(9), TooOld(9)),
        (NotMirrored(), NotMirrored()),
    ],
)
def test_no_flow_leads_a_group_further_than_it_was_when_the_other_one_put_it_behind_what_was_lost(
    found: Translation, expected: Translation
) -> None:
    known = At({7: found})
    assert translate_read(known, ORDERS, 7, put(4, 5, upstream=30)) == expected
    assert translate_read(known, ORDERS, 7, put(5, 5, upstream=30)) == found


def test_of_the_clusters_that_lead_to_one_those_count_whose_flows_do() -> None:
    file = "clusters = east, west, south", "south.bootstrap.servers = south:9092", "south->east.enabled = true"
    flows = [
        flow_settings(*file, "west->east.enabled = true", flow=each)
        for each in ("east->west", "west->east", "south->east")
    ]
    assert sources_of("east", flows, "west") == ["south"]
    assert sources_of("east", flows, "south") == ["west"]


def test_what_a_flow_from_a_third_cluster_has_recorded_since_counts_and_it_is_looked_for_once() -> None:
    """A placement is on record before the group stands there: what is read after the groups says it."""

    class Recording(Log):
        def poll(self) -> FlowState:
            self.put = {"billing": Placement("billing", ORDERS, 2, 2, 4)} if self.polls else {}
            self.polls += 1
            return super().poll()

        polls = 0

    third, looked_for = Recording("orders", copied=0), list[str]()

    def find(alias: str) -> FlowLog:
        looked_for.append(alias)
        return as_log(third)

    between = FlowTranslator(as_log(Log("east.orders", copied=5)), lambda: None, DefaultReplicationPolicy("."), "west")
    translator = GroupTranslator(between, others=["south"], find=find)
    for expected in (Exact(104), Exact(102)):
        translator.refresh()
        assert translator.translate("billing", ORDERS, 4) == expected
    assert looked_for == ["south"]


def test_what_was_copied_first_is_known_also_where_the_flow_began_behind_the_group() -> None:
    """`auto.offset.reset = latest`: what is copied lies behind it all the same, and is passed at home unnamed."""

    class Began(Log):
        def poll(self) -> FlowState:
            position = Position(9, 109, 6, False, target=self.target, topic_id="from", target_id="to")
            for key, value in (chunk_record(ORDERS, 0, [Run(6, 106, 3)]), position.record(ORDERS)):
                self.state.apply(key, value)
            return self.state

    forward, opposite = Began("east.orders", copied=5), Log("west.orders", copied=5)
    between = FlowTranslator(as_log(forward), lambda: as_log(opposite), DefaultReplicationPolicy("."), "west")
    translator = GroupTranslator(between)
    translator.refresh()
    opposite.put["billing"] = Placement("billing", ORDERS, 120, 4, 4)
    assert translator.translate("billing", ORDERS, 4) == NothingRead(4, 120, bound=106, first_copied=106)
