"""Why an engine writes a flow as a producer that the cluster does not fence, and what would change that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import kafka.errors
import pytest

from mirror.engine.hold import FlowHold
from mirror.kafka import coordinator
from mirror.kafka.channel import BrokerRefused
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
    assert error.__name__ in hold.weakness
