"""From what the judges found to a verdict: what is a failure, what proves nothing, and what a disaster excuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.model.failover_instants import FailoverInstants
from mirror.model.flow import Flow
from mirror.model.verdict import Verdict
from mirror.proof.account import Account, AccountLine, Fate, Sides
from mirror.proof.delivery import GroupReading, Place, Route
from mirror.proof.evidence import MissingEvidence
from mirror.proof.final_values import FinalValues
from mirror.proof.findings import Anomaly, Delivery, Example, Finding
from mirror.proof.losses import MissingRecords
from mirror.proof.objectives import Objectives, Rpo
from mirror.proof.torn_transactions import TransactionCount
from mirror.scenario import judging
from mirror.scenario.declaration import Fault, FaultKind, Group, Judged, Load, Procedure, Replicator
from mirror.scenario.judging import ScenarioEvidence, figures_of, unsent, verdict_of
from mirror.scenario.routes import CopyRoute
from tests.unit.scenario.builders import CLEAN, FOUND, READ, WHERE, small

DISASTER = small(
    faults=(Fault(FaultKind.KILL_CLUSTER, "east", 1.0, is_disaster=True),),
    procedure=Procedure.FAIL_OVER,
    objectives=Objectives(rpo_seconds=5.0, rto_seconds=30.0),
)
CHAIN = FailoverInstants(1000, 2000, 3000, 4000, 5000, 6000, {"billing": 7000})


def evidence(**changes: Any) -> ScenarioEvidence:
    base = ScenarioEvidence(small(), Path("ledger"), Path("work"), Path("file"), (Place("east", "orders"),), (), ())
    return replace(base, **changes)


def account(acked: int) -> Account:
    """An account of ten mirrored records, or of none."""
    lines = (AccountLine("east", "orders", Fate.MIRRORED, 10, 1000),) if acked else ()
    return Account(lines, acked, (), 0, 0, ())


def with_finding(
    anomaly: Anomaly, *, tolerated: bool = False, proven: bool = True, group: str | None = None
) -> Delivery:
    examples = (Example("p", 1, 3, "because"),)
    findings = (Finding(anomaly, "west", WHERE, group, 4, examples, tolerated, proven),)
    return replace(READ if group else CLEAN, findings=findings)


def test_nothing_found_is_a_pass() -> None:
    assert verdict_of(FOUND, evidence()) == (Verdict.PASS, ())


@pytest.mark.parametrize(
    ("changes", "verdict", "said"),
    [
        ({"copies": with_finding(Anomaly.DUPLICATED)}, Verdict.FAIL, "4 duplicated"),
        ({"copies": with_finding(Anomaly.LOST, proven=False)}, Verdict.UNKNOWN, "not proven"),
        ({"groups": with_finding(Anomaly.REDELIVERED, tolerated=True, group="billing")}, Verdict.PASS, ""),
        ({"groups": with_finding(Anomaly.UNSEEN, group="billing")}, Verdict.FAIL, "4 unseen"),
        ({"groups": with_finding(Anomaly.REWOUND, group="billing")}, Verdict.FAIL, "4 rewound"),
        ({"missing": MissingRecords(silent=2)}, Verdict.FAIL, "2 acknowledged records are missing, and nobody said so"),
        ({"missing": MissingRecords(told=2)}, Verdict.PASS, ""),
        ({"missing": MissingRecords(uncopied=1)}, Verdict.FAIL, "on their source and not on its copy"),
        ({"gaps": (MissingEvidence("a file", "is torn"),)}, Verdict.UNKNOWN, "a file: is torn"),
        ({"values": FinalValues(9, 1)}, Verdict.FAIL, "1 of 9 keys"),
        ({"transactions": TransactionCount(whole=3, aborted_seen=1)}, Verdict.FAIL, "1 aborted transactions"),
        ({"transactions": TransactionCount(whole=3, torn=1)}, Verdict.FAIL, "1 transactions are on the copy in part"),
        ({"own": Delivery((), (), ())}, Verdict.UNKNOWN, "nothing to judge"),
        ({"missing": MissingRecords(silent=1)}, Verdict.FAIL, "1 acknowledged records are missing"),
        ({"groups": Delivery((), (), ())}, Verdict.UNKNOWN, "nothing to judge"),
        ({"account": account(acked=10)}, Verdict.PASS, ""),
        ({"account": account(acked=0)}, Verdict.UNKNOWN, "does not balance"),
        ({"account": account(acked=11)}, Verdict.FAIL, "does not balance"),
    ],
)
def test_what_was_found_decides(changes: dict[str, Any], verdict: Verdict, said: str) -> None:
    judged, reasons = verdict_of(replace(FOUND, **changes), evidence())

    assert judged is verdict
    assert any(said in reason for reason in reasons) if said else reasons == ()


def test_what_a_cut_leaves_behind_is_excused_while_the_old_cluster_is_away_and_not_once_it_is_back() -> None:
    found = replace(
        FOUND,
        missing=MissingRecords(tail=5, uncopied=5),
        transactions=TransactionCount(whole=3, torn=1),
        rpo=Rpo(5, 500, 1.0),
    )
    away = evidence(scenario=DISASTER, recovery=CHAIN)

    assert verdict_of(found, away)[0] is Verdict.PASS
    assert verdict_of(found, replace(away, returned_at_ms=9000))[0] is Verdict.FAIL


def test_a_promise_that_was_not_kept_or_a_chain_that_broke_is_a_failure() -> None:
    away = evidence(scenario=DISASTER, recovery=CHAIN)
    late = verdict_of(replace(FOUND, rpo=Rpo(5, 500, 6.0)), away)
    broken = verdict_of(
        replace(FOUND, rpo=Rpo(0, 0, 0.0)), replace(away, recovery=replace(CHAIN, first_write_at_ms=None))
    )

    assert late == (Verdict.FAIL, ("rpo_seconds is 6, promised is 5",))
    assert broken == (Verdict.FAIL, ("rto_seconds is not reached, promised is 30",))


def test_a_promise_that_could_not_be_measured_is_not_known_to_be_kept() -> None:
    away = evidence(scenario=DISASTER, recovery=CHAIN)
    verdict, reasons = verdict_of(FOUND, away)

    assert verdict is Verdict.UNKNOWN
    assert reasons == ("rpo_seconds is not reached, promised is 5",)


def test_what_a_group_was_handed_wrongly_decides_too() -> None:
    wrong = with_finding(Anomaly.LOST, group="billing")

    assert verdict_of(replace(FOUND, groups=wrong), evidence())[0] is Verdict.FAIL


@pytest.mark.parametrize(("bookmarks", "verdict"), [(False, Verdict.PASS), (True, Verdict.FAIL)])
def test_what_was_finished_may_be_handed_again_to_a_group_and_not_to_who_keeps_bookmarks(
    *, bookmarks: bool, verdict: Verdict
) -> None:
    again = with_finding(Anomaly.REDELIVERED, tolerated=True, group="billing")
    kept = small(groups=(Group("billing", "east", ("orders",), bookmarks=bookmarks),), replicators=(Replicator.MIRROR,))
    assert verdict_of(replace(FOUND, groups=again), evidence(scenario=kept))[0] is verdict


@pytest.mark.parametrize(("count", "more"), [(12, []), (13, ["and 1 more"])])
def test_of_many_reasons_the_first_dozen_is_told_and_how_many_there_are(count: int, more: list[str]) -> None:
    gaps = tuple(MissingEvidence(f"file {number}", "is torn") for number in range(count))
    _, reasons = verdict_of(replace(FOUND, gaps=gaps), evidence())

    assert list(reasons) == [str(gap) for gap in gaps[:12]] + more


def test_what_did_not_catch_up_fails_and_failures_come_first_among_the_reasons() -> None:
    found = replace(FOUND, gaps=(MissingEvidence("a file", "is torn"),))
    verdict, reasons = verdict_of(found, evidence(late=("west east.orders-0: p:9 is not there",)))

    assert verdict is Verdict.FAIL
    assert reasons[0].startswith("not caught up in 90 s: west east.orders-0")
    assert reasons[1] == "a file: is torn"


def test_a_group_that_had_not_read_to_the_end_fails() -> None:
    verdict, reasons = verdict_of(FOUND, evidence(unread=("billing on west east.orders-0: 2 records",)))

    assert (verdict, reasons) == (
        Verdict.FAIL,
        ("not read to the end in 90 s: billing on west east.orders-0: 2 records",),
    )


def test_records_that_no_application_has_sent_fail_unless_they_fill_holes_of_a_copy() -> None:
    """They carry no id, so that no finding names them: a record written into the copy in between was PASS."""
    count = replace(CLEAN.counts[0], without_ledger=2)
    foreign = replace(CLEAN, counts=(count,))
    assert unsent((CLEAN, foreign, foreign), set()) == (count,)
    assert unsent((foreign,), {Place("west", "east.orders")}) == ()
    assert verdict_of(replace(FOUND, unsent=(count,)), evidence()) == (
        Verdict.FAIL,
        ("west east.orders-0: 2 records that no application has sent",),
    )


def test_figures_keep_what_was_found_where() -> None:
    groups = with_finding(Anomaly.REDELIVERED, tolerated=True, group="billing")
    groups = replace(groups, counts=(replace(CLEAN.counts[0], group="billing"),))
    readings = (GroupReading("billing", (Place("west", "east.orders"),)),)
    figures = figures_of(
        replace(
            FOUND,
            groups=groups,
            copies=with_finding(Anomaly.LOST),
            transactions=TransactionCount(whole=3, torn=2, absent=4),
        ),
        evidence(readings=readings, recovery=CHAIN),
    )

    assert figures.anomalies == {Judged.SOURCE: {}, Judged.COPY: {"lost": 4}, Judged.GROUPS: {"redelivered": 4}}
    assert (figures.groups[0].records, figures.redelivered, figures.skipped) == (10, 4, 0)
    assert figures.rto_seconds == 6.0
    assert (figures.transactions, figures.torn_transactions) == (5, 2)
    assert [link.name for link in figures.rto_links][:2] == ["detected", "fenced"]


def test_the_account_of_a_failback_counts_a_way_forward_only_from_the_active_to_the_standby(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The flow back is a way of its own, and what came over more than one flow is none of either."""
    forth = CopyRoute(Route(Place("east", "orders"), Place("west", "east.orders")), (Flow("east", "west"),))
    back = CopyRoute(Route(Place("west", "bills"), Place("east", "west.bills")), (Flow("west", "east"),))
    detour = CopyRoute(
        Route(Place("east", "orders"), Place("west", "north.east.orders")),
        (Flow("east", "north"), Flow("north", "west")),
    )
    asked: list[Sides] = []
    monkeypatch.setattr(judging, "settle_account", lambda *found, **_: asked.append(found[2]))
    home = evidence(scenario=DISASTER, routes=(forth, back, detour), returned_at_ms=9000)
    judging._settle(cast(Any, SimpleNamespace(sends=None, logs=None, gaps=())), home)
    judging._settle(cast(Any, SimpleNamespace()), replace(home, returned_at_ms=None))
    assert asked == [Sides("east", "west", (forth.route,), (back.route,), 9000)]


def test_what_was_not_measured_has_no_figures_and_what_was_has() -> None:
    plain = figures_of(FOUND, evidence())
    assert (plain.rpo_records, plain.rpo_seconds, plain.rto_seconds, plain.rto_links) == (None, None, None, ())
    assert (plain.transactions, plain.torn_transactions, plain.groups) == (None, None, ())
    lost = figures_of(replace(FOUND, rpo=Rpo(5, 500, 1.5)), evidence())
    assert (lost.rpo_records, lost.rpo_seconds) == (5, 1.5)


def test_each_group_has_its_own_figures() -> None:
    found = with_finding(Anomaly.REDELIVERED, tolerated=True, group="billing")
    counts = tuple(replace(CLEAN.counts[0], group=group) for group in ("billing", "stock"))
    readings = tuple(GroupReading(group, ()) for group in ("billing", "stock", "billing"))
    figures = figures_of(replace(FOUND, groups=replace(found, counts=counts)), evidence(readings=readings))
    assert [(each.group, each.records, each.redelivered) for each in figures.groups] == [
        ("billing", 10, 4),
        ("stock", 10, 0),
    ]


def test_transactions_are_counted_of_the_active_cluster_on_its_way_to_the_standby(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(judging, "count_transactions", lambda *found: asked.append(found[2:]))
    forth = CopyRoute(Route(Place("east", "orders"), Place("west", "east.orders")), (Flow("east", "west"),))
    back = CopyRoute(Route(Place("west", "bills"), Place("east", "west.bills")), (Flow("west", "east"),))
    found = cast(Any, SimpleNamespace(sends=None, logs=None))
    inside, outside = Load("east", ("orders",), transaction_records=7), Load("east", ("orders",))
    there = Load("west", ("bills",), transaction_records=9)

    def count(*loads: Load) -> None:
        scenario = cast(Any, SimpleNamespace(loads=loads, active="east", standby="west"))
        judging._count_transactions(found, evidence(scenario=scenario, routes=(back, forth)))

    count(outside)
    count(there, outside)
    assert asked == []
    count(there, outside, inside)
    assert asked == [("east", {"orders": Place("west", "east.orders")}, 7)]
