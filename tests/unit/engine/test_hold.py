"""Why an engine writes a flow as a producer that the cluster does not fence, and what would change that."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import kafka.errors
import pytest

from mirror.engine.hold import FlowHold
from mirror.kafka import coordinator
from mirror.kafka.batch import Producer
from mirror.kafka.channel import BrokerRefused
from mirror.kafka.coordinator import Unended
from mirror.model.flow_state import DataProducer, FlowState
from tests.flows import EAST_WEST

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
    hold = FlowHold(EAST_WEST, {}, None, slots=1)
    assert hold._fenced_producer(cast(Any, SimpleNamespace()), None) is None
    assert hold.weakness is not None
    assert said in hold.weakness
    assert not_said not in hold.weakness
    assert error.__name__.removesuffix("Error") in hold.weakness


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
    hold = FlowHold(EAST_WEST, {}, None, slots=1)
    written = Producer(7, 3, is_transactional=True)
    with pytest.raises(BrokerRefused) if is_waited_for else nullcontext():
        assert hold._take_id(cast(Any, SimpleNamespace()), "id-0", {(7, 3)}, written) == last


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
    hold = FlowHold(EAST_WEST, {}, None, slots=1)

    def next_producer(*_: object) -> DataProducer:
        hold.weakness = None if now.transactional_id else "no rights"
        return now

    monkeypatch.setattr("mirror.engine.hold.Channel", lambda *_: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(hold, "_next_producer", next_producer)
    log = SimpleNamespace(state=FlowState(producer=known), poll=lambda: None)
    assert hold.take(cast(Any, log)).producer == Producer(now.producer_id, now.epoch)
    assert hold.unrefused == (None if is_refused else known)
