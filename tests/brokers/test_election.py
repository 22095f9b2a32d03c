"""Engines of one flow find each other in its state topic: one leads, and another one once it is silent or gone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from mirror.config.settings import ClusterSettings
from mirror.engine.election import Election, Identity
from mirror.kafka import batch, coordinator, wire
from mirror.kafka.batch import Record
from mirror.kafka.channel import Channel
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.kafka.versions import PRODUCE
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.state_values import RunReport
from mirror.waiting import wait_until
from tests.brokers.copying import can_tell

HERE = Identity("here", "host", os.getpid(), "this machine")


def report() -> RunReport:
    return RunReport("RUNNING", (), 5)


Elections = Callable[..., Election]


@pytest.fixture
def election(
    west: Cluster, settings_of: Callable[[str], ClusterSettings], unique: Callable[[str], str]
) -> Iterator[Elections]:
    """Let engines take part in the election of one flow."""
    topic = unique("mm2-state")
    west.create_topics([NewTopic(topic, 1, 1, {"cleanup.policy": "compact"})])
    client = dict(settings_of("west").client)
    wait_until(lambda: can_tell(client, [TopicPartition(topic, 0)]), "the topic", timeout_seconds=60)
    made: list[Election] = []

    def make(engine: str, timeout_seconds: float = 60.0, identity: Identity = HERE, **settings: str) -> Election:
        made.append(
            Election(
                Flow("east", "west"),
                client,
                client,
                replace(identity, engine=engine),
                timeout_seconds=timeout_seconds,
                settings=settings,
                topic=topic,
            )
        )
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_the_first_leads_and_the_second_stands_by_until_it_is_released(election: Elections) -> None:
    first, second = election("first"), election("second")
    assert first.round(report)
    assert not first.was_settled
    assert not second.round(report)
    assert second.claim is not None
    assert second.claim.engine == "first"

    first.release(report(), is_settled=True)
    assert second.round(report)
    assert (second.term, second.was_settled) == (2, True)


def test_what_a_leader_leaves_unsettled_its_successor_knows(election: Elections) -> None:
    first, second = election("first"), election("second")
    assert first.round(report)
    first.release(report(), is_settled=False)
    assert second.round(report)
    assert not second.was_settled


def test_a_silent_leader_is_followed_and_finds_out_when_it_wakes(election: Elections) -> None:
    """Nothing but the other's own clock tells: they need not run on one machine."""
    first = election("first", 0.5)
    second = election("second", 0.5, Identity("second", "elsewhere", 1, "another machine"))
    assert first.round(report)
    assert not second.round(report)
    wait_until(lambda: second.round(report), "the second to lead", timeout_seconds=60)
    assert (second.term, second.was_settled) == (2, False)
    wait_until(lambda: not first.round(report), "the first to see it", timeout_seconds=60)
    assert first.term is None


def test_a_leader_whose_process_has_ended_on_this_machine_is_followed_at_once(election: Elections) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    first = election("first", identity=replace(HERE, pid=dead.pid))
    second = election("second")
    assert first.round(report)
    assert second.round(report)


def test_of_two_that_bid_for_one_term_one_leads(election: Elections, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have seen that nobody leads; the log decides."""
    first, second = election("first"), election("second")
    bids: list[Any] = []
    append = Election._append

    def together(self: Election, records: Any) -> None:
        if not bids:
            bids.append(records)
            second.round(report)
        append(self, records)

    monkeypatch.setattr(Election, "_append", together)
    assert not first.round(report)
    assert second.term == 1
    assert second.round(report)
    assert first.claim is not None
    assert first.claim.engine == "second"


def test_a_renewal_that_arrives_behind_another_engines_bid_does_not_count(
    election: Elections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine was stopped between its last look and the renewal, which gives it no right to write."""
    first = election("first", 0.0)
    second = election("second", 0.0, Identity("second", "elsewhere", 1, "another machine"))
    assert first.round(report)
    renewed_at, stopped, append = first.renewed_at, list[None](), Election._append

    def stop_first(self: Election, records: Any) -> None:
        if self is first and not stopped:
            stopped.append(None)
            wait_until(lambda: second.round(report), "the second to lead", timeout_seconds=60)
        append(self, records)

    monkeypatch.setattr(Election, "_append", stop_first)
    first._renew_at = 0.0
    assert not first.round(report)
    assert first.renewed_at == renewed_at
    assert second.term == 2


def test_renewals_are_seen_although_a_transaction_is_open_before_them(
    election: Elections, settings_of: Callable[[str], ClusterSettings]
) -> None:
    """With exactly once a worker that was killed leaves one in the state topic until it is aborted."""
    first = election("first", 1.0)
    second = election("second", 1.0, Identity("second", "elsewhere", 1, "another machine"))
    assert first.round(report)
    channel = Channel("west", dict(settings_of("west").client))
    state, name = TopicPartition(first._topic, 0), f"of {first._topic}"
    try:
        writer = coordinator.take_over(channel, name, 60_000)
        coordinator._added(channel, coordinator.find_coordinator(channel, name), name, writer, [state])
        connection = channel.connect(channel.leader(state), (PRODUCE,))
        content = batch.encode([Record(0, 0, b'["x"]', b"{}", (), -1)], 0, writer, 0)
        request = wire.produce_request(connection.next_correlation(), [(state, content)], transactional_id=name)
        connection.ask(request)
        connection.close()
        second.round(report)
        seen = second.claim
        first._renew_at = 0.0
        assert first.round(report)
        assert not second.round(report)
        assert second.claim != seen
        coordinator.take_over(channel, name, 60_000)
    finally:
        channel.close()


def test_an_engine_whose_file_differs_says_in_what(election: Elections) -> None:
    first, second = election("first", topics="a", groups="b"), election("second", topics="a", groups="c")
    assert first.round(report)
    assert not second.round(report)
    assert second.differs_in == ("groups",)
