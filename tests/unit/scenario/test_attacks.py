"""Every scenario's verdict is attacked once: for each anomaly, where it may be found, one defect that only what the
scenario tolerates could hide. It must be a FAIL.

What a scenario does not tolerate is a FAIL as soon as it is found. What it tolerates has a limit that is not the
judgement of people: an era, a size, a promise, what the replicator has told. The defect lies just behind that limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from mirror.model.failover_instants import FailoverInstants
from mirror.model.ledger import RecordId
from mirror.model.partition import TopicPartition
from mirror.model.verdict import Verdict
from mirror.proof.account import Account, AccountLine, Fate
from mirror.proof.delivery import GroupReading, Place
from mirror.proof.final_values import FinalValues
from mirror.proof.findings import AT_LEAST_ONCE, Anomaly, Delivery, Era, Example, Finding, PartitionCount
from mirror.proof.losses import MissingRecords
from mirror.proof.objectives import Rpo
from mirror.proof.torn_transactions import TransactionCount
from mirror.scenario.declaration import Judged, Procedure, Replicator, Scenario, Tolerated
from mirror.scenario.files import SCENARIOS
from mirror.scenario.judging import _READ_AGAIN, Found, ScenarioEvidence, beside_planted, verdict_of
from mirror.scenario.outcome import RunOutcome
from mirror.scenario.planted import Planted

CATALOGUE = {path.stem: SCENARIOS.load(path) for path in SCENARIOS.files(SCENARIOS.folder())}
OF_LOGS = frozenset(
    {Anomaly.LOST, Anomaly.STRANDED, Anomaly.DUPLICATED, Anomaly.REORDERED, Anomaly.ALTERED, Anomaly.UNEXPECTED}
)
OF_GROUPS = frozenset(
    {Anomaly.LOST, Anomaly.UNSEEN, Anomaly.REDELIVERED, Anomaly.REWOUND, Anomaly.REORDERED, Anomaly.ALTERED}
)
KINDS = [
    *((where, anomaly) for where in (Judged.SOURCE, Judged.COPY) for anomaly in sorted(OF_LOGS)),
    *((Judged.GROUPS, anomaly) for anomaly in sorted(OF_GROUPS)),
]


def place(scenario: Scenario, where: Judged) -> Place:
    """Return where a finding is made in these tests: the groups' is where they are in the end."""
    topic = scenario.topics[0].name
    if where is Judged.SOURCE:
        return Place(scenario.active, topic)
    if where is Judged.COPY or scenario.procedure is not Procedure.NONE:
        return Place(scenario.standby, f"{scenario.active}.{topic}")
    return (
        Place(scenario.groups[0].cluster, scenario.groups[0].topics[0])
        if scenario.groups
        else place(scenario, Judged.COPY)
    )


def finding(scenario: Scenario, where: Judged, anomaly: Anomaly, *, era: Era = Era.AFTER) -> Finding:
    at = place(scenario, where)
    group = "billing" if where is Judged.GROUPS else None
    examples = (Example("p", 1, 3, "seeded"),)
    # The judges tolerate what every group that commits after it has worked must live with.
    tolerated = where is Judged.GROUPS and anomaly in _READ_AGAIN[Replicator.MIRROR]
    return Finding(anomaly, at.cluster, TopicPartition(at.topic, 0), group, 1, examples, tolerated, era=era)


def clean(scenario: Scenario, where: Judged) -> Delivery:
    at = place(scenario, where)
    partition = TopicPartition(at.topic, 0)
    groups = names_of(scenario) if where is Judged.GROUPS else (None,)
    return Delivery(tuple(PartitionCount(at.cluster, partition, group, 10, 10, 0) for group in groups), (), ())


def names_of(scenario: Scenario) -> tuple[str, ...]:
    return tuple(group.name for group in scenario.groups) or ("billing",)


def account(acked: int) -> Account:
    """An account of ten records that are all on the copy."""
    return Account((AccountLine("east", "orders", Fate.MIRRORED, 10, 1000),), acked, (), 0, 0, ())


def in_transactions(scenario: Scenario) -> bool:
    return any(load.transaction_records and load.cluster == scenario.active for load in scenario.loads)


def honest(scenario: Scenario) -> tuple[Found, ScenarioEvidence]:
    """Return what an honest run of a scenario finds: nothing, with every promise kept."""
    has_failed_over = scenario.procedure is not Procedure.NONE
    is_home = scenario.procedure is Procedure.FAIL_OVER_AND_BACK
    reads = dict.fromkeys(names_of(scenario), 7000)
    chain = FailoverInstants(1000, 2000, 3000, 4000, 5000, 6000, reads) if has_failed_over else None
    found = Found(
        clean(scenario, Judged.SOURCE),
        clean(scenario, Judged.COPY),
        clean(scenario, Judged.GROUPS),
        MissingRecords(),
        Rpo(0, 0, 0.0) if has_failed_over else None,
        TransactionCount(whole=3) if in_transactions(scenario) else None,
        account(10) if is_home else None,
        10,
        (),
        FinalValues(9) if any(topic.is_compacted for topic in scenario.topics) else FinalValues(),
    )
    reading = GroupReading("billing", (place(scenario, Judged.GROUPS),))
    evidence = ScenarioEvidence(
        scenario, Path("ledger"), Path("work"), Path("file"), (place(scenario, Judged.SOURCE),), (), (reading,),
        recovery=chain,
        returned_at_ms=9000 if is_home else None,
    )  # fmt: skip
    return found, evidence


def seeded(found: Found, where: Judged, *wrong: Finding) -> Found:
    """Return what was found with findings more."""
    match where:
        case Judged.SOURCE:
            return replace(found, own=replace(found.own, findings=wrong))
        case Judged.COPY:
            return replace(found, copies=replace(found.copies, findings=wrong))
        case Judged.GROUPS:
            assert found.groups is not None
            return replace(found, groups=replace(found.groups, findings=wrong))


def behind_the_limits(scenario: Scenario, tolerated: Tolerated, found: Found) -> Iterator[Found]:
    """Yield what else is found when a defect hides behind what is tolerated, one for each limit that it has.

    But for that limit nothing of it would be a failure: the other limits are kept.
    """
    one = finding(scenario, tolerated.where, tolerated.anomaly, era=next(iter(sorted(tolerated.eras))))
    allowed = scenario.objectives.rpo_seconds
    named = replace(found, missing=MissingRecords(told=1)) if tolerated.if_told else found
    if tolerated.if_told:
        # Two are lost and one is named: no other measure sees the second, it could be one that is yet to be copied.
        yield seeded(named, tolerated.where, replace(one, count=2))
    if tolerated.anomaly is Anomaly.STRANDED and allowed is not None:
        yield replace(seeded(named, tolerated.where, one), rpo=Rpo(1, 100, allowed + 1))
    if any(topic.is_compacted for topic in scenario.topics):
        # What the cleaner removed is replaced by a later record, on either side.
        yield replace(seeded(named, tolerated.where, one), values=FinalValues(9, 1))
    for era in sorted(frozenset(Era) - tolerated.eras):
        yield seeded(named, tolerated.where, replace(one, era=era))
    if tolerated.cluster is not None:
        elsewhere = next(site.alias for site in scenario.sites if site.alias != tolerated.cluster)
        yield seeded(named, tolerated.where, replace(one, cluster=elsewhere))


def within_the_limits(scenario: Scenario, tolerated: Tolerated, found: Found) -> Found:
    """Return what is found when just what is tolerated happens."""
    one = finding(scenario, tolerated.where, tolerated.anomaly, era=next(iter(sorted(tolerated.eras))))
    one = one if tolerated.cluster is None else replace(one, cluster=tolerated.cluster)
    return seeded(replace(found, missing=MissingRecords(told=int(tolerated.if_told))), tolerated.where, one)


@pytest.mark.parametrize("name", CATALOGUE)
def test_an_honest_run_passes(name: str) -> None:
    found, evidence = honest(CATALOGUE[name])

    assert verdict_of(found, evidence) == (Verdict.PASS, ())


@pytest.mark.parametrize(("where", "anomaly"), KINDS, ids=str)
@pytest.mark.parametrize("name", CATALOGUE)
def test_a_defect_that_only_what_is_tolerated_could_hide_fails(name: str, where: Judged, anomaly: Anomaly) -> None:
    scenario = CATALOGUE[name]
    found, evidence = honest(scenario)
    excuses = [each for each in scenario.tolerated if (each.where, each.anomaly) == (where, anomaly)]
    # What is handed again within the bound is no defect; what is beyond it has a name of its own.
    wrong = Anomaly.REWOUND if anomaly is Anomaly.REDELIVERED else anomaly
    attacks = [[*behind_the_limits(scenario, each, found)] for each in excuses]
    attacks = attacks or [[seeded(found, where, finding(scenario, where, wrong))]]

    assert all(attacks), f"nothing bounds what {name} tolerates: {excuses}"
    for attack in (each for of_one in attacks for each in of_one):
        verdict, reasons = verdict_of(attack, evidence)
        assert verdict is Verdict.FAIL, reasons


@pytest.mark.parametrize("name", CATALOGUE)
def test_what_is_tolerated_passes_so_that_it_is_the_limit_which_fails_an_attack(name: str) -> None:
    scenario = CATALOGUE[name]
    found, evidence = honest(scenario)

    for tolerated in scenario.tolerated:
        assert verdict_of(within_the_limits(scenario, tolerated, found), evidence) == (Verdict.PASS, ()), tolerated


def other_defects(found: Found, evidence: ScenarioEvidence) -> Iterator[tuple[str, Found, ScenarioEvidence]]:
    yield "a record missing of which nobody spoke", replace(found, missing=MissingRecords(silent=1)), evidence
    yield "a record not copied", replace(found, missing=MissingRecords(uncopied=1)), evidence
    yield "a copy that did not catch up", found, replace(evidence, late=("west orders-0: p:9 is not there",))
    yield "a group that did not read on", found, replace(evidence, unread=("billing on west orders-0: 2 records",))
    yield "an aborted transaction copied", replace(found, transactions=TransactionCount(3, aborted_seen=1)), evidence
    yield "half a transaction", replace(found, transactions=TransactionCount(3, torn=1)), evidence
    yield "a record in no line of the account", replace(found, account=account(11)), evidence
    yield "an older value that came back", replace(found, values=FinalValues(9, 1)), evidence
    promised, chain = evidence.scenario.objectives, evidence.recovery
    if promised.rpo_seconds is not None:
        yield "a tail too long", replace(found, rpo=Rpo(1, 100, promised.rpo_seconds + 1)), evidence
    if chain is not None and promised.rto_seconds is not None:
        late = 2000 + int(promised.rto_seconds * 1000)
        reads = dict.fromkeys(chain.groups_reading_at_ms, late)
        yield "groups that read too late", found, replace(evidence, recovery=replace(chain, groups_reading_at_ms=reads))


@pytest.mark.parametrize("name", CATALOGUE)
def test_no_scenario_tolerates_what_is_beside_the_findings(name: str) -> None:
    found, evidence = honest(CATALOGUE[name])
    # While the old cluster is away its tail is where it was.
    away = evidence.recovery is not None and evidence.returned_at_ms is None
    for what, seen, known in other_defects(found, evidence):
        excused = away and what in {"a record not copied", "half a transaction"}
        assert (verdict_of(seen, known)[0] is Verdict.FAIL) is not excused, what


def unmeasured(found: Found, evidence: ScenarioEvidence) -> Iterator[tuple[str, Found, ScenarioEvidence]]:
    scenario = evidence.scenario
    yield "records where applications wrote", replace(found, own=replace(found.own, counts=())), evidence
    yield "records of the copies", replace(found, copies=replace(found.copies, counts=())), evidence
    if scenario.groups:
        assert found.groups is not None
        yield "groups", replace(found, groups=None), evidence
        for counts in (found.groups.counts[1:], found.groups.counts[:-1]):
            yield "one of the groups", replace(found, groups=replace(found.groups, counts=counts)), evidence
    if in_transactions(scenario):
        for count in (None, TransactionCount()):
            yield "transactions", replace(found, transactions=count), evidence
    if any(topic.is_compacted for topic in scenario.topics):
        yield "newest values", replace(found, values=FinalValues()), evidence
    if evidence.returned_at_ms is not None:
        yield "the account", replace(found, account=None), evidence
        yield "the failback", replace(found, account=None), replace(evidence, returned_at_ms=None)
    if scenario.objectives.rpo_seconds is not None:
        yield "the recovery point", replace(found, rpo=None), evidence
    if scenario.procedure is not Procedure.NONE:
        yield (
            "the failover",
            replace(found, rpo=None, account=None),
            replace(evidence, recovery=None, returned_at_ms=None),
        )


@pytest.mark.parametrize("name", CATALOGUE)
def test_what_was_not_measured_hides_no_defect(name: str) -> None:
    for what, found, evidence in unmeasured(*honest(CATALOGUE[name])):
        assert verdict_of(found, evidence)[0] is Verdict.UNKNOWN, what


@pytest.mark.parametrize("name", CATALOGUE)
def test_what_the_replicator_says_excuses_only_records_that_it_could_not_copy(name: str) -> None:
    """That it says so is not enough: they were sent to a log that was replaced, or are too large."""
    for tolerated in CATALOGUE[name].tolerated:
        if tolerated.if_told:
            assert tolerated.eras < frozenset(Era) or 0 < tolerated.least_bytes <= CATALOGUE[name].least_left_out_bytes


def test_what_is_read_again_is_tolerated_and_what_was_rewound_only_of_java_mirrormaker() -> None:
    assert _READ_AGAIN[Replicator.MIRROR] == AT_LEAST_ONCE == {Anomaly.REDELIVERED}
    assert _READ_AGAIN[Replicator.MM2] == {Anomaly.REDELIVERED, Anomaly.REWOUND}


PLANTED_IN = CATALOGUE["copies_removed_in_secret"]
COPY = TopicPartition("east.orders", 0)
PLANTED = Planted("west", COPY, (RecordId("east-main-0", 0),))
THE_ONE = Finding(Anomaly.LOST, "west", COPY, None, 1, (Example("east-main-0", 0, None, "acked at offset 0"),))


def with_defect(*findings: Finding, missing: MissingRecords | None = None) -> RunOutcome:
    found, evidence = honest(PLANTED_IN)
    found = replace(seeded(found, Judged.COPY, *findings), missing=missing or MissingRecords(silent=1, uncopied=1))
    evidence = replace(evidence, planted=(PLANTED,))
    verdict, reasons = verdict_of(found, evidence)
    beside = beside_planted(found, evidence)
    return RunOutcome("planted", Replicator.MIRROR, 1, verdict, reasons, must_fail=True, beside=beside)


def test_the_defect_that_was_put_in_is_what_must_be_found() -> None:
    outcome = with_defect(THE_ONE)

    assert (outcome.verdict, outcome.beside, outcome.is_as_expected) == (Verdict.FAIL, (), True)


OTHERS: Mapping[str, tuple[Finding, ...]] = {
    "none": (),
    "another kind": (replace(THE_ONE, anomaly=Anomaly.ALTERED),),
    "another topic": (replace(THE_ONE, partition=TopicPartition("east.payments", 0)),),
    "another partition": (replace(THE_ONE, partition=TopicPartition("east.orders", 1)),),
    "another cluster": (replace(THE_ONE, cluster="east"),),
    "another record": (replace(THE_ONE, examples=(Example("east-main-0", 7, None, "acked at offset 7"),)),),
    "more of them": (replace(THE_ONE, count=2),),
    "not proven": (replace(THE_ONE, is_proven=False),),
    "another beside it": (THE_ONE, replace(THE_ONE, anomaly=Anomaly.DUPLICATED)),
}


@pytest.mark.parametrize("findings", OTHERS.values(), ids=OTHERS.keys())
def test_any_other_failure_does_not_show_that_the_defect_is_found(findings: tuple[Finding, ...]) -> None:
    outcome = with_defect(*findings)

    assert outcome.verdict in {Verdict.FAIL, Verdict.UNKNOWN}
    assert outcome.beside
    assert not outcome.is_as_expected


@pytest.mark.parametrize(
    "missing", [MissingRecords(silent=2, uncopied=1), MissingRecords(silent=1), MissingRecords(told=1)], ids=str
)
def test_a_defect_that_was_counted_otherwise_is_not_found(missing: MissingRecords) -> None:
    assert not with_defect(THE_ONE, missing=missing).is_as_expected


def test_a_defect_that_was_never_put_in_is_not_found() -> None:
    found, evidence = honest(PLANTED_IN)
    found = replace(seeded(found, Judged.COPY, THE_ONE), missing=MissingRecords(silent=1, uncopied=1))

    assert "no defect was put in" in beside_planted(found, evidence)


def test_of_a_scenario_without_a_defect_nothing_is_beside_it() -> None:
    found, evidence = honest(CATALOGUE["clean"])

    assert beside_planted(found, evidence) == ()
