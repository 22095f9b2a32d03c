"""What of a state topic is kept to be written once more, and which placements still speak of a topic that is there."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mirror.control import flow_log
from mirror.control.flow_log import FlowLog
from mirror.kafka.batch import Record
from mirror.model.leadership import Claim
from mirror.model.partition import TopicPartition
from mirror.model.placement import Placement
from mirror.model.position import Position
from mirror.model.state_record import StateRecord, term_header
from mirror.model.state_values import claim_record, placement_record, transactional_id_record

ORDERS, COPY = TopicPartition("orders", 3), TopicPartition("east.orders", 3)


class Tail:
    """A state topic in memory."""

    records: list[tuple[bytes, bytes | None]]
    begins_anew: bool
    topic_id: str
    term: int | None

    def __init__(self, _: Mapping[str, str], __: str, *, alias: str) -> None:
        self._next = 0
        self.has_begun_anew = False

    def poll(self) -> list[Record]:
        self.has_begun_anew = self.begins_anew
        self._next = 0 if self.has_begun_anew else self._next
        start, self._next = self._next, len(self.records)
        headers = () if self.term is None else term_header(self.term)
        return [Record(start + at, 0, key, value, headers, -1) for at, (key, value) in enumerate(self.records[start:])]


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> FlowLog:
    monkeypatch.setattr(flow_log, "LogTail", Tail)
    Tail.records, Tail.begins_anew, Tail.topic_id, Tail.term = [], False, "", None
    return FlowLog({}, "mm2-state.east.internal", alias="west")


def test_the_newest_record_of_each_key_is_kept_where_it_came_and_none_that_was_taken_back(log: FlowLog) -> None:
    """So that the state topic is written anew with what it said, and no more."""
    first, second, third = (transactional_id_record(f"id-{number}", 0) for number in range(3))
    newer = transactional_id_record("id-0", 5)
    Tail.records = [first, second, third]
    log.poll()
    Tail.records += [newer, (second[0], None)]
    log.poll()
    expected: list[StateRecord] = [third, newer]
    assert log.records() == expected
    assert log.state.transactional_ids == {"id-0", "id-2"}


def test_what_was_taken_back_while_it_could_not_be_read_is_not_known_any_more(log: FlowLog) -> None:
    """That it was is told by nothing once the topic was cleaned: what is there is all there is."""
    kept, gone = transactional_id_record("kept", 0), transactional_id_record("gone", 0)
    Tail.records = [gone, kept]
    log.poll()
    Tail.records, Tail.begins_anew = [kept], True
    log.poll()
    assert log.state.transactional_ids == {"kept"}
    assert log.records() == [kept]


@pytest.mark.parametrize("ids", [("one", "another"), ("one", "one"), ("", "one")])
def test_in_a_topic_that_was_created_anew_terms_begin_anew(log: FlowLog, ids: tuple[str, str]) -> None:
    """An engine that was frozen takes what another has written meanwhile for late only in the topic that it led in."""
    before, since = (Position(at, at, 0, True, target=COPY.topic) for at in (5, 9))
    Tail.records, Tail.term, Tail.topic_id = [claim_record(Claim("frozen", 7)), before.record(ORDERS)], 7, ids[0]
    log.poll()
    Tail.records = [*Tail.records, claim_record(Claim("other", 1)), since.record(ORDERS)]
    Tail.term, Tail.topic_id = 1, ids[1]
    is_another = ids == ("one", "another")
    assert log.poll().positions == {ORDERS: since if is_another else before}
    assert log.state.claim == (Claim("other", 1) if is_another else Claim("frozen", 7))
    assert bool(log.state.overwritten) is not is_another


@pytest.mark.parametrize(
    ("put_in", "now", "speaks"),
    [("id", "id", True), ("id", "another", False), ("", "id", True), ("id", "", True)],
    ids=["the same topic", "created anew", "not known then", "not known now"],
)
def test_a_placement_in_a_topic_that_was_created_anew_is_not_spoken_of(
    log: FlowLog, put_in: str, now: str, *, speaks: bool
) -> None:
    placement = Placement("billing", COPY, 5, 5, 5, put_in)
    position = Position(9, 9, 0, True, target=COPY.topic, target_id=now)
    Tail.records = [placement_record(placement), position.record(ORDERS)]
    log.poll()
    found = placement if speaks else None
    assert log.placement("billing", COPY) == found
    assert list(log.placements()) == ([placement] if speaks else [])
    assert log.placement("audit", COPY) is None
