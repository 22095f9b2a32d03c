"""The gaps on record as `mirror gaps` shows them."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import cast

import pytest

from mirror.config.settings import ClusterSettings, FlowSettings
from mirror.control import gaps
from mirror.control.flow_log import NeverRun
from mirror.control.gaps import Choice, GapEntry, entries, open_gaps_reason
from mirror.kafka.log import NewRecord
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.gap import Acknowledgement, Gap, GapKind
from mirror.model.partition import TopicPartition
from tests.unit.control.builders import flow_settings

EAST_WEST = Flow("east", "west")
ORDERS, BILLS = TopicPartition("orders", 3), TopicPartition("bills", 0)
FOUND = 1_700_000_000_000
LOST = Gap(ORDERS, 5, 9, "gone", FOUND, GapKind.RETENTION, 4, "id", passed=False)
SKIPPED = Gap(BILLS, 7, 8, "too large", FOUND + 1)
KNOWN = Acknowledgement("ann", "a test", FOUND + 2000)


def ledger() -> FlowState:
    state = FlowState()
    for key, value in (LOST.record(), SKIPPED.record(), KNOWN.record(SKIPPED.key)):
        state.apply(key, value)
    return state


def test_the_json_is_stable() -> None:
    assert [entry.as_json() for entry in entries(EAST_WEST, ledger(), Choice())] == [
        {
            "flow": "east->west",
            "topic": "bills",
            "partition": 0,
            "from": 7,
            "to": 8,
            "count": 1,
            "kind": "skipped",
            "reason": "too large",
            "found_at": "2023-11-14T22:13:20Z",
            "downstream": None,
            "topic_id": None,
            "stops_the_copy": False,
            "acknowledged": {"by": "ann", "at": "2023-11-14T22:13:22Z", "reason": "a test"},
        },
        {
            "flow": "east->west",
            "topic": "orders",
            "partition": 3,
            "from": 5,
            "to": 9,
            "count": 4,
            "kind": "retention",
            "reason": "gone",
            "found_at": "2023-11-14T22:13:20Z",
            "downstream": 4,
            "topic_id": "id",
            "stops_the_copy": True,
            "acknowledged": None,
        },
    ]


def test_gaps_are_chosen_by_topic_and_partition() -> None:
    def chosen(choice: Choice) -> list[Gap]:
        return [entry.gap for entry in entries(EAST_WEST, ledger(), choice)]

    assert chosen(Choice("orders")) == chosen(Choice("orders", 3)) == chosen(Choice(partition=3)) == [LOST]
    assert chosen(Choice("orders", 0)) == []
    assert entries(EAST_WEST, ledger(), Choice("bills")) == [GapEntry(EAST_WEST, SKIPPED, KNOWN)]


def test_the_status_says_how_much_waits_where_it_is_and_where_to_look() -> None:
    said = open_gaps_reason([LOST, SKIPPED])
    first, second = sorted([LOST, SKIPPED], key=lambda gap: gap.source)
    assert said.startswith(f"2 gaps in the copy: {first.source} {first.start}")
    assert f", {second.source} {second.start}" in said
    assert "; 5 offsets in all" in said
    assert "mirror gaps FILE" in said
    assert open_gaps_reason([LOST]).startswith(f"1 gap in the copy: {LOST.source} {LOST.start}")


class Target:
    """The target's state topic, if it has one: what is read of it, and what is appended."""

    def __init__(self, *topics: str) -> None:
        self.topics_there = topics
        self.appended: list[tuple[str, int, list[NewRecord]]] = []

    def topics(self, names: list[str]) -> set[str]:
        return {*names} & {*self.topics_there}

    def append(self, topic: str, partition: int, records: list[NewRecord]) -> None:
        self.appended.append((topic, partition, records))

    def poll(self) -> FlowState:
        assert self.topics_there, "a topic that is not there was read"
        return ledger()

    def close(self) -> None:
        """Nothing is open."""


def in_place(target: Target, monkeypatch: pytest.MonkeyPatch) -> tuple[FlowSettings, dict[str, ClusterSettings]]:
    """Settings by which that target is asked; the source is not there."""
    monkeypatch.setattr(gaps, "Cluster", SimpleNamespace(connect=lambda _: nullcontext(target)))
    monkeypatch.setattr(gaps, "FlowLog", lambda *_, **__: target)
    monkeypatch.setattr(gaps, "LogWriter", lambda *_, **__: target)
    return flow_settings(), {"west": cast(ClusterSettings, SimpleNamespace(client={}))}


STATE = "mm2-state.east.internal"


def test_the_gaps_of_a_flow_are_read_from_its_target_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    found = gaps.list_gaps(*in_place(Target(STATE), monkeypatch), Choice("orders"))
    assert found == [GapEntry(EAST_WEST, LOST, None, stops=True)]


def test_a_topic_is_known_by_its_positions_and_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    where = in_place(Target(STATE), monkeypatch)
    assert gaps.has_topic(*where, LOST.source.topic)
    assert not gaps.has_topic(*where, "ordrs")


def test_of_a_flow_that_has_never_run_nobody_knows_whether_it_has_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the form of a gap, so that whatever reads the list does not fail."""
    with pytest.raises(NeverRun, match="this flow has never run: west has no topic mm2-state") as never:
        gaps.list_gaps(*in_place(Target(), monkeypatch), Choice())
    said = gaps.never_run_as_json(EAST_WEST, never.value)
    assert said.keys() == GapEntry(EAST_WEST, LOST, None).as_json().keys()
    assert (said["kind"], said["count"], said["reason"]) == ("never-run", 0, str(never.value))


def test_only_what_nobody_has_acknowledged_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who did first, and why, stays on record."""
    target, now = Target(STATE), Acknowledgement("bob", "seen", FOUND + 9000)
    settings = in_place(target, monkeypatch)
    done = gaps.acknowledge(*settings, entries(EAST_WEST, ledger(), Choice()), now)
    assert done == [GapEntry(EAST_WEST, LOST, now, stops=True)]
    assert target.appended == [(STATE, 0, [(*now.record(LOST.key), (), FOUND + 9000)])]
    assert gaps.acknowledge(*settings, done, now) == []
    assert len(target.appended) == 1


def test_of_many_gaps_the_first_are_named_whatever_their_order() -> None:
    many = [Gap(TopicPartition("orders", number), 2000, 3001, "gone", 1) for number in range(9)]
    said = open_gaps_reason(many)
    assert said == open_gaps_reason(many[::-1])
    assert "orders-0 2000..3000, orders-1 2000..3000, orders-2 2000..3000, and 6 more; 9,009 offsets" in said


def test_a_gap_of_which_the_record_is_not_understood_is_no_missing_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """It said that there is none, with exit code 0."""
    state = ledger()
    state.apply(b'["gap","refunds",0,17,1700000000000]', b'{"until":1}')
    (found,) = entries(EAST_WEST, state, Choice("refunds"))
    assert (found.stops, found.acknowledgement, found.as_json()["from"]) == (True, None, 17)
    assert "run the version that wrote it" in found.gap.reason
    target = Target(STATE)
    assert gaps.acknowledge(*in_place(target, monkeypatch), [found], KNOWN) == [found], "nobody can"
    assert target.appended == []
