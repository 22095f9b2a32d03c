"""Client quotas follow the source's where nobody else has set them; users are compared by name and mechanism."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.control import quotas
from mirror.control.quotas import QuotaAction, plan_quotas
from mirror.control.users import MissingUser, missing_users
from mirror.model.acl import QuotaKey
from mirror.model.flow_state import FlowState
from mirror.model.state_values import quota_record
from tests.unit.control.builders import flow_settings

ANN = QuotaKey((("user", "ann"),), "producer_byte_rate")
DEFAULTS, REMOVING = flow_settings(), flow_settings("mirror.acls.remove.revoked = true")


@pytest.mark.parametrize(
    ("source", "target", "recorded", "action"),
    [
        (5.0, None, None, QuotaAction.SET),
        (5.0, 5.0, None, QuotaAction.KEEP),
        (5.0, 7.0, None, QuotaAction.LEAVE),
        (5.0, 7.0, 7.0, QuotaAction.SET),
        (5.0, 7.0, 3.0, QuotaAction.FORGET),
        (5.0, None, 5.0, QuotaAction.FORGET),
        (None, 5.0, 5.0, QuotaAction.REMOVE),
        (None, 7.0, 5.0, QuotaAction.FORGET),
        (None, None, 5.0, QuotaAction.FORGET),
    ],
)
def test_what_somebody_else_has_set_is_left_alone(
    source: float | None, target: float | None, recorded: float | None, action: QuotaAction
) -> None:
    given = [{} if value is None else {ANN: value} for value in (source, target, recorded)]
    (decision,) = plan_quotas(given[0], given[1], given[2], REMOVING)
    assert (decision.action, decision.value) == (action, source)


def test_without_being_asked_nothing_is_removed_and_quotas_of_addresses_never_go_over() -> None:
    (decision,) = plan_quotas({}, {ANN: 5.0}, {ANN: 5.0}, DEFAULTS)
    assert decision.action is QuotaAction.LEAVE
    (decision,) = plan_quotas({QuotaKey((("ip", None),), "connection_creation_rate"): 1.0}, {}, {}, DEFAULTS)
    assert decision.action is QuotaAction.SKIP


def test_a_user_is_missing_with_each_mechanism_that_only_the_source_has() -> None:
    both = frozenset({"SCRAM-SHA-256", "SCRAM-SHA-512"})
    source = {"ann": both, "bob": both, "eve": frozenset({"SCRAM-SHA-256"})}
    target = {"bob": frozenset({"SCRAM-SHA-256"}), "eve": both, "local": both}
    assert missing_users(source, target) == (
        MissingUser("ann", "SCRAM-SHA-256"),
        MissingUser("ann", "SCRAM-SHA-512"),
        MissingUser("bob", "SCRAM-SHA-512"),
    )


def test_only_what_the_target_took_is_put_on_record_and_what_it_did_not_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is on record without being set would count as somebody else's from then on."""
    bob, eve, kim = (QuotaKey((("user", name),), "producer_byte_rate") for name in ("bob", "eve", "kim"))
    state = FlowState()
    for key, value in (quota_record(bob, 3.0), quota_record(kim, 4.0)):
        state.apply(key, value)
    east, west = SimpleNamespace(alias="east"), SimpleNamespace(alias="west")
    cluster = {"east": {ANN: 5.0, eve: 6.0}, "west": {bob: 3.0, kim: 9.0}}
    asked: list[dict[QuotaKey, float | None]] = []

    def alter(where: SimpleNamespace, changes: dict[QuotaKey, float | None]) -> dict[QuotaKey, str | None]:
        assert where is west
        asked.append(changes)
        return dict.fromkeys(changes) | {eve: "not authorized"}

    written: list[Any] = []
    monkeypatch.setattr(quotas, "client_quotas", lambda where: cluster[where.alias])
    monkeypatch.setattr(quotas, "alter_client_quotas", alter)
    log, writer = SimpleNamespace(poll=lambda: state), SimpleNamespace(append=lambda *record: written.append(record))
    tick = quotas.QuotasTick(*cast(Any, (east, west, REMOVING, log, writer)), clock=lambda: 7)
    report = tick.tick()
    assert asked == [{ANN: 5.0, eve: 6.0, bob: None}]
    ((topic, partition, records),) = written
    expected = [quota_record(ANN, 5.0), quota_record(bob, None), quota_record(kim, None)]
    assert (topic, partition) == ("mm2-state.east.internal", 0)
    assert sorted(records) == sorted((key, value, (), 7) for key, value in expected)
    assert (report.done, report.problems) == (2, (f"cannot change on west: {eve}: not authorized",))
    cluster["east"], cluster["west"] = {bob: 3.0}, {bob: 3.0}
    state.quotas.pop(kim)
    asked.clear()
    written.clear()
    assert (tick.tick().done, asked, written) == (0, [], []), "nothing is to be changed"
