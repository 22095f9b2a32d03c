"""A copy under its own name of which the state topic has lost the first position with its end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.copier import resume
from mirror.copier.takeover_task import take_over
from mirror.copier.work import GapPolicy
from mirror.kafka import codes, partition_state
from mirror.kafka.answers import PartitionAnswers
from mirror.kafka.batch import Producer
from mirror.kafka.problems import BrokerRefused, LeaderAway
from mirror.model.gap import Gap, GapKind
from mirror.model.mm2_trace import Mm2Trace
from mirror.model.partition import TopicPartition
from tests.unit.copier.copying_in_memory import ORDERS, OURS, Copying, slot, taken_over


@pytest.fixture
def shared(copying: Copying) -> Copying:
    """A flow whose copy has the name of its source: others write there, too."""
    copying.west.create(ORDERS.topic)
    copying.pairs[ORDERS] = ORDERS
    return copying


def forget(copying: Copying) -> None:
    """Have the state topic lose all that it has of the partition, and the flow be taken over."""
    copying.state_log.truncate(0)
    del copying.handovers[ORDERS]
    copying.sequences.clear()
    if copying.flow.slot is None:
        fenced = Producer(OURS.producer_id, 1)
        copying.copy().mark(fenced)
        copying.told(producer=fenced)
    else:
        taken_over(copying)


@pytest.mark.parametrize("is_exact", [False, True], ids=["default", "exactly once"])
@pytest.mark.parametrize("others", [0, 3])
def test_what_the_flow_has_copied_is_not_begun_anew(shared: Copying, others: int, *, is_exact: bool) -> None:
    """Where the copy goes on is found by contents then, as of Java MirrorMaker's."""
    if is_exact:
        shared.told(slot=slot(), producer=None)
    shared.begin(b"0")
    for _ in range(others):
        shared.copy().write(b"theirs")
    held = shared.copy().committed()
    forget(shared)
    assert shared.epoch(60.0)[ORDERS].written_by_mm2
    assert shared.copy().committed() == held
    shared.source().write(b"1")
    shared.works[ORDERS] = {"mm2": Mm2Trace(is_alone=True)}
    (found,) = take_over(replace(shared.work(), seconds=60.0)).partitions
    assert (found.stopped, found.trouble, found.skipped_by_match) == (None, None, 1)
    assert found.handover is not None
    shared.handovers[ORDERS] = found.handover
    shared.works.clear()
    assert shared.epoch()[ORDERS].stopped is None
    assert shared.copy().committed() == [*held, b"1"]


def test_a_copy_that_others_alone_have_written_is_begun(shared: Copying) -> None:
    """Also where the flow has left the marker of a fence, or what it had begun was aborted."""
    shared.told(slot=slot(), producer=None)
    shared.copy().write(b"theirs", producer=Producer(40, 0))
    shared.copy().mark(OURS)
    shared.copy().open[OURS.producer_id] = shared.copy().end
    shared.copy().write(b"aborted", producer=slot().producer)
    shared.copy().abort(OURS.producer_id)
    shared.source().write(b"0")
    assert shared.epoch()[ORDERS].stopped is None
    assert shared.copy().committed() == [b"theirs", b"0"]


def test_so_is_one_where_somebody_has_said_that_it_may(shared: Copying) -> None:
    shared.begin(b"0")
    forget(shared)
    barrier = Gap(ORDERS, 0, 0, "nobody knows", 5, GapKind.UNKNOWN_ORIGIN, passed=False)
    shared.works[ORDERS] = {"gaps": GapPolicy(barrier=barrier, is_lifted=True)}
    shared.epoch()
    assert shared.copy().values() == [b"0", b"0"]


def test_only_the_end_of_what_others_have_written_is_read(shared: Copying, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resume, "_LAST_OFFSETS", 3)
    shared.copy().most_bytes = 1
    for _ in range(8):
        shared.copy().write(b"theirs")
    shared.copy().mark(OURS)
    shared.source().write(b"0")
    shared.epoch()
    assert min(shared.copy().reads) == 6


@pytest.mark.parametrize(("code", "begins"), [(codes.UNSUPPORTED_VERSION, True), (29, True), (6, False), (None, False)])
def test_where_the_leader_does_not_tell_now_it_is_waited_for(
    shared: Copying, monkeypatch: pytest.MonkeyPatch, code: int | None, *, begins: bool
) -> None:
    """One that is older than Kafka 2.8, or denies it, never will."""
    problem = LeaderAway("away") if code is None else BrokerRefused("producers", code)
    told: PartitionAnswers[tuple[partition_state.ActiveProducer, ...]] = PartitionAnswers()
    told.problems[ORDERS] = problem
    monkeypatch.setattr(partition_state, "active_producers", lambda *_: told)
    shared.copy().write(b"theirs")
    shared.source().write(b"0")
    shared.epoch()
    assert shared.copy().values() == ([b"theirs", b"0"] if begins else [b"theirs"])


def test_what_was_routed_there_from_another_topic_says_nothing(copying: Copying) -> None:
    copying.copy().write(b"of another topic", producer=OURS)
    copying.source().write(b"0")
    copying.epoch()
    assert copying.copy().values() == [b"of another topic", b"0"]
    assert copying.pairs[ORDERS] == TopicPartition("east.orders", 0)
