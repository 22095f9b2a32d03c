"""Why an engine writes a flow as a producer that the cluster does not fence, and what would change that."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import kafka.errors
import pytest

from mirror.config.settings import TransactionSettings
from mirror.engine.flow_control import FlowControl
from mirror.engine.flow_producers import FlowProducers
from mirror.engine.flow_runtime import FlowRuntime
from mirror.engine.known_producers import _LAST_EPOCH, KnownProducers
from mirror.engine.mm2_traces import Mm2Traces
from mirror.engine.taken_producers import TakenProducers
from mirror.engine.ticking import Ticking
from mirror.kafka import coordinator, partition_state
from mirror.kafka.batch import Producer
from mirror.kafka.coordinator import Unended
from mirror.kafka.problems import BrokerRefused
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.state_record import StateRecord
from mirror.model.state_values import DataProducer, WrittenAs, transactional_id_record
from tests.flows import EAST_WEST
from tests.unit.control.builders import flow_settings

ID = "mm2-state.east.internal.west"


@pytest.mark.parametrize(
    ("error", "said", "not_said"),
    [
        (
            kafka.errors.TransactionalIdAuthorizationFailedError,
            f"grant Write and Describe on the transactional id {ID}",
            "marker",
        ),
        (kafka.errors.CoordinatorNotAvailableError, f"no transaction coordinator for {ID}", "marker"),
        (
            kafka.errors.ConcurrentTransactionsError,
            f"an earlier transaction of {ID} does not end",
            "no transaction coordinator",
        ),
    ],
)
def test_what_keeps_the_cluster_from_giving_the_transactional_id_is_said_as_it_is(
    error: type[Exception], said: str, not_said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator that waits for the markers of an earlier transaction is there, and working."""

    def refused(*_: object, **__: object) -> None:
        raise BrokerRefused("west: the transactional id", error)

    monkeypatch.setattr(coordinator, "take_over", refused)
    producers = FlowProducers(EAST_WEST, {}, None, slots=1)
    assert producers._fenced_producer(cast(Any, SimpleNamespace()), None) is None
    assert producers.weakness is not None
    assert said in producers.weakness
    assert not_said not in producers.weakness
    assert error.__name__.removesuffix("Error") in producers.weakness


@pytest.mark.parametrize(
    ("last", "is_waited_for"),
    [
        (Unended(7, 3, frozenset()), False),
        (Unended(7, 4, frozenset(), is_aborted=True), False),
        (Unended(7, 4, frozenset()), True),
        (Unended(7, 5, frozenset(), is_aborted=True), True),
        (None, True),
    ],
    ids=["committed by its task", "aborted by taking it over", "committed by who took it since", "later", "undecided"],
)
def test_an_id_is_given_up_for_the_transaction_of_the_task_that_came_back_and_for_no_other(
    last: Unended | None, *, is_waited_for: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise BrokerRefused("west: the transactional id", kafka.errors.ConcurrentTransactionsError)

    monkeypatch.setattr(coordinator, "take_over", refused)
    monkeypatch.setattr(coordinator, "unended", lambda *_: last)
    producers = FlowProducers(EAST_WEST, {}, None, slots=1)
    with pytest.raises(BrokerRefused) if is_waited_for else nullcontext():
        assert producers._take_id(cast(Any, SimpleNamespace()), "id-0", KnownProducers({(7, 3)}, (7, 3))) == last


@pytest.mark.parametrize(
    ("last", "is_alone", "is_waited_for"),
    [
        (Unended(7, 4, frozenset(), is_aborted=True), False, False),
        (Unended(7, 3, frozenset()), True, False),
        (Unended(7, 3, frozenset()), False, True),
        (Unended(7, 4, frozenset()), True, True),
        (Unended(7, 5, frozenset(), is_aborted=True), True, True),
        (Unended(8, 4, frozenset(), is_aborted=True), True, True),
    ],
    ids=[
        "aborted, so that whoever had begun it is fenced",
        "committed by an engine that may write no more",
        "committed by an engine that may still write",
        "committed by who took it since",
        "later",
        "another producer's",
    ],
)
def test_an_id_is_left_that_the_engine_before_had_written_with_until_it_was_killed(
    last: Unended, *, is_alone: bool, is_waited_for: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As whom it had written was on record before its first transaction."""

    def refused(*_: object, **__: object) -> None:
        raise BrokerRefused("west: the transactional id", kafka.errors.ConcurrentTransactionsError)

    monkeypatch.setattr(coordinator, "take_over", refused)
    monkeypatch.setattr(coordinator, "unended", lambda *_: last)
    producers = FlowProducers(EAST_WEST, {}, None, slots=1)
    with pytest.raises(BrokerRefused) if is_waited_for else nullcontext():
        known = KnownProducers(written_as=(7, 3), is_alone=is_alone)
        assert producers._take_id(cast(Any, SimpleNamespace()), "id-0", known) == last


@pytest.mark.parametrize(
    ("known", "now", "is_refused"),
    [
        (None, DataProducer(7, 0), True),
        (DataProducer(7, 3, ID), DataProducer(7, 4, ID), True),
        (DataProducer(7, 3), DataProducer(7, 4), False),
        (DataProducer(7, 3), DataProducer(8, 0, ID), False),
        (DataProducer(7, 3, ID), DataProducer(8, 0), False),
    ],
    ids=["there was none", "fenced", "epoch raised", "first with a transactional id", "transactional id not to be had"],
)
def test_whether_what_the_engine_before_still_sends_is_refused(
    known: DataProducer | None, now: DataProducer, *, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    producers = FlowProducers(EAST_WEST, {}, None, slots=1)

    def next_producer(*_: object) -> DataProducer:
        producers.weakness = None if now.transactional_id else "no rights"
        return now

    monkeypatch.setattr("mirror.engine.flow_producers.Channel", lambda *_: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(producers, "_next_producer", next_producer)
    log = SimpleNamespace(state=FlowState(producer=known), poll=lambda: None)
    assert producers.take(cast(Any, log)).producer == Producer(now.producer_id, now.epoch)
    assert producers.unrefused == (None if is_refused else known)


@pytest.mark.parametrize(
    ("known", "now", "is_next"),
    [
        (None, DataProducer(7, 0, ID), True),
        (DataProducer(7, 3, ID), DataProducer(7, 4, ID), True),
        (DataProducer(7, 3, ID), DataProducer(7, 5, ID), False),
        (DataProducer(7, _LAST_EPOCH, ID), DataProducer(8, 0, ID), True),
        (DataProducer(7, 3, ID), DataProducer(8, 0, ID), True),
        (DataProducer(7, 3, ID), DataProducer(8, 1, ID), False),
    ],
    ids=[
        "there was none",
        "the next epoch",
        "one between",
        "behind the last epoch",
        "expired",
        "expired, and had since",
    ],
)
def test_each_engine_that_has_had_the_producer_leaves_an_epoch_whatever_the_state_topic_has_lost(
    known: DataProducer | None, now: DataProducer, *, is_next: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mirror.engine.flow_producers.Channel", lambda *_: SimpleNamespace(close=lambda: None))
    producers = FlowProducers(EAST_WEST, {}, None, slots=1)
    monkeypatch.setattr(producers, "_next_producer", lambda *_: now)
    log = SimpleNamespace(state=FlowState(producer=known), poll=lambda: None)
    assert producers.take(cast(Any, log)).is_next is is_next


SICK, FINE, STATE = (TopicPartition(name, 0) for name in ("sick", "fine", "mm2-state.east.internal"))


class Log:
    """The state topic: written to, and read back in order."""

    def __init__(self, *records: StateRecord) -> None:
        self.state = FlowState()
        self.written: list[StateRecord] = []
        for each in records:
            self.state.apply(*each)

    def poll(self) -> FlowState:
        return self.state

    def append(self, _: str, __: int, records: Iterable[Any]) -> None:
        for key, value, *_ in records:
            self.written.append((key, value))
            self.state.apply(key, value)

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    """An engine was killed in term 1 that wrote as ``p-0``; the last transaction of that id does not end."""
    log = Log(transactional_id_record("p-0", 5, written_as=WrittenAs(7, 3, 1)))

    def take_over(_: object, name: str, *__: object, **___: object) -> Producer:
        if name == "p-0":
            raise BrokerRefused("west: the transactional id p-0", kafka.errors.ConcurrentTransactionsError)
        return Producer(9, 0, is_transactional=True)

    monkeypatch.setattr(coordinator, "take_over", take_over)
    monkeypatch.setattr(coordinator, "last_written_as", lambda *_: (7, 3))
    monkeypatch.setattr("mirror.engine.flow_producers.Channel", lambda *_: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr("mirror.engine.flow_producers.LogWriter", lambda *_, **__: log)
    monkeypatch.setattr("mirror.engine.flow_producers.FlowProducers._wait_until_decided", lambda *_: None)
    monkeypatch.setattr(partition_state, "unable_to_append", lambda *_: {})
    monkeypatch.setattr(partition_state, "undecided", lambda _, asked: {SICK, STATE} & set(asked))
    return log


def transactional() -> FlowProducers:
    return FlowProducers(EAST_WEST, {}, TransactionSettings("p-", 1, 60_000, 0.1, None), slots=1)


def test_partitions_wait_that_are_open_and_not_all_that_the_coordinator_has_no_answer_of(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for all that one broker leads before it takes any of them for ended."""
    last = Unended(7, 4, frozenset({SICK, FINE, STATE}), is_aborted=True)
    monkeypatch.setattr(coordinator, "unended", lambda *_: last)
    held = transactional().take(cast(Any, log), 2)
    assert held.slots == (("p-1", Producer(9, 0, is_transactional=True)),)
    assert held.unended == {SICK}, "the state topic was read when it was not open there"
    assert log.state.unended == {"p-0": (7, 4)}
    assert log.state.written_as == {"p-1": WrittenAs(9, 0, 2)}, "before its first transaction"


def test_what_is_known_of_an_id_stays_on_record_until_it_is_taken_over(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else an engine killed meanwhile would leave an id of which nobody knows whose it is."""
    monkeypatch.setattr(coordinator, "unended", lambda *_: None)
    with pytest.raises(BrokerRefused):
        transactional().take(cast(Any, log), 2)
    assert log.state.written_as == {"p-0": WrittenAs(7, 3, 1)}


def test_of_an_id_that_java_mirror_maker_uses_too_an_abort_with_the_next_epoch_may_be_its_own(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has taken the id since, and goes on with it once its transaction has ended: nobody would have fenced it."""
    monkeypatch.setattr(coordinator, "unended", lambda *_: Unended(7, 4, frozenset({SICK}), is_aborted=True))
    for last in ((7, 4), None):
        monkeypatch.setattr(coordinator, "last_written_as", lambda *_, last=last: last)
        with pytest.raises(BrokerRefused):
            transactional().take(cast(Any, log), 2)
    monkeypatch.setattr(coordinator, "last_written_as", lambda *_: (7, 3))
    ((name, _),) = transactional().take(cast(Any, log), 2).slots
    assert name == "p-1", "it was aborted by taking it over from who had begun it"


def test_that_an_engine_was_about_to_fence_an_id_is_on_record_before_it_does_it(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed then, it leaves a transaction of which its successor knows by whom it is aborted."""
    monkeypatch.setattr(coordinator, "unended", lambda *_: None)
    with pytest.raises(BrokerRefused):
        transactional().take(cast(Any, log), 2)
    log.poll()
    assert log.state.fencing == {"p-0": (7, 3)}
    assert log.state.written_as == {"p-0": WrittenAs(7, 3, 1)}
    monkeypatch.setattr(coordinator, "last_written_as", lambda *_: (7, 4))
    monkeypatch.setattr(coordinator, "unended", lambda *_: Unended(7, 4, frozenset({SICK}), is_aborted=True))
    ((name, _),) = transactional().take(cast(Any, log), 3).slots
    assert name == "p-1"
    assert log.state.fencing == {}, "the mark that it was left has taken its place"


def test_since_when_an_id_is_registered_stays_on_record_whoever_takes_it_over(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "take_over", lambda *_, **__: Producer(7, 4, is_transactional=True))
    transactional().take(cast(Any, log), 2)
    assert log.state.registered == {"p-0": 5}
    assert log.state.written_as == {"p-0": WrittenAs(7, 4, 2)}


def test_what_was_committed_by_an_engine_that_may_write_no_more_is_not_waited_for(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of this very term is: a task of it may be at work still."""
    monkeypatch.setattr(coordinator, "unended", lambda *_: Unended(7, 3, frozenset({SICK})))
    for term, is_alone in ((2, False), (1, True)):
        with pytest.raises(BrokerRefused):
            transactional().take(cast(Any, log), term, is_alone=is_alone)
    ((name, _),) = transactional().take(cast(Any, log), 2, is_alone=True).slots
    assert name == "p-1"


def test_a_transaction_that_was_left_is_asked_for_until_it_has_ended_though_no_partition_waits_any_more(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then nothing is left on record of it."""
    monkeypatch.setattr(coordinator, "unended", lambda *_: Unended(7, 4, frozenset({SICK}), is_aborted=True))
    producers = transactional()
    producers.take(cast(Any, log), 2)
    assert producers.fence(frozenset()) == {}, "only what was asked for is told"
    assert producers.fence({SICK}).keys() == {SICK}
    assert producers.has_unended
    monkeypatch.setattr(coordinator, "take_over", lambda *_, **__: Producer(7, 5, is_transactional=True))
    assert producers.fence(frozenset()) == {}
    assert not producers.has_unended
    assert log.state.unended == {}
    assert log.state.registered["p-0"] == 5


@pytest.mark.parametrize(
    ("left", "found", "is_used"),
    [
        ((7, 4), (7, 5), False),
        ((7, 4), (7, 6), True),
        ((7, 4), (9, 0), True),
        ((7, _LAST_EPOCH), (9, 0), False),
        ((7, _LAST_EPOCH), (9, 1), True),
    ],
    ids=["nobody was", "somebody was faster", "with another id", "epochs used up", "and somebody was faster"],
)
@pytest.mark.parametrize("is_seen_by_keeping_alive", [False, True])
def test_that_somebody_took_an_id_as_soon_as_its_transaction_had_ended_is_seen_by_its_producer(
    log: Log,
    monkeypatch: pytest.MonkeyPatch,
    *,
    left: tuple[int, int],
    found: tuple[int, int],
    is_used: bool,
    is_seen_by_keeping_alive: bool,
) -> None:
    """As a Java MirrorMaker does that waits for it: it is fenced by now, and what it has copied is not on record.

    Also where nothing is to be fenced any more by the time that it is told.
    """
    before = left[0], left[1] - 1
    log.state.apply(*transactional_id_record("p-0", 5, written_as=WrittenAs(*before, 1)))
    monkeypatch.setattr(coordinator, "last_written_as", lambda *_: before)
    monkeypatch.setattr(coordinator, "unended", lambda *_: Unended(*left, frozenset({SICK}), is_aborted=True))
    producers = transactional()
    producers.take(cast(Any, log), 2)
    assert producers.used_meanwhile == set()
    monkeypatch.setattr(coordinator, "take_over", lambda *_, **__: Producer(*found, is_transactional=True))
    runtime = FlowRuntime(flow_settings())
    target: Any = SimpleNamespace(cluster_id="west")
    ticking = Ticking(lambda _: None, lambda _: None)
    control = FlowControl(runtime, target, target, ticking, producers, matches_mm2=False)
    runtime.lead(2, was_settled=False)
    runtime.take_state(FlowState(), Mm2Traces(), TakenProducers())
    if is_seen_by_keeping_alive:
        control._keep_alive(cast(Any, log))
        assert not producers.has_unended
    said = control._fence(cast(Any, log)).problems
    assert producers.used_meanwhile == ({"p-0"} if is_used else set())
    assert bool(said) is is_used
    runtime.between_epochs()
    assert runtime.is_known is not is_used, "positions are read again"
    assert all("p-0 was used by another" in each for each in said)
    producers.take(cast(Any, log), 2)
    assert producers.used_meanwhile == set()


def test_what_has_its_positions_where_none_can_be_written_waits_until_they_can_be(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction ends without a partition that has no leader: that it has ended does not say that the next would."""
    place = TopicPartition("mm2-offsets.east.internal", 3)
    monkeypatch.setattr(coordinator, "take_over", lambda *_, **__: Producer(7, 5, is_transactional=True))
    monkeypatch.setattr(partition_state, "unable_to_append", lambda _, asked: dict.fromkeys(asked, "no leader"))
    producers = FlowProducers(
        EAST_WEST, {}, TransactionSettings("p-", 1, 60_000, 0.1, None), slots=1, positions=frozenset({place})
    )
    assert producers.take(cast(Any, log), 2).unended == {place}
    assert producers.fence({place, FINE}) == {place: "no leader"}
    monkeypatch.setattr(partition_state, "unable_to_append", lambda *_: {})
    assert producers.fence({place}) == {}
