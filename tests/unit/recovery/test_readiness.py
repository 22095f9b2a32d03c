"""The answer to whether one could fail over now: what makes it FAIL, what UNKNOWN, the score, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from mirror.control.flow_status import FlowStatus, PartitionStatus
from mirror.kafka.cluster_model import Partition, Topic
from mirror.model.acl import Acl, Operation, Pattern, Permission, Resource
from mirror.model.acl_check import AclCheck
from mirror.model.checkpoint import Checkpoint
from mirror.model.gap import Gap, GapKind
from mirror.model.partition import TopicPartition
from mirror.model.translation import Exact
from mirror.model.verdict import Verdict
from mirror.recovery.differences import Difference, Impact
from mirror.recovery.group_moves import Unmoved
from mirror.recovery.readiness import WEIGHTS, Readiness, judge, worst_first
from mirror.recovery.readiness_facts import Facts, Groups, NotSeen
from mirror.recovery.readiness_reader import _lacking, _principal
from mirror.recovery.readiness_rows import summed_up
from tests.unit.recovery.sides import (
    COPIED,
    COPY,
    FLOW,
    GROUP,
    TOPIC,
    Change,
    configs,
    facts,
    groups,
    lines,
    moves,
    on,
    partition,
    position,
    status,
)

DEAD = NotSeen("all of east", "connection refused", "east", "start east")
DENIED = NotSeen("the ACLs of west", "needs DESCRIBE on the cluster", "west", "grant Describe on the cluster on west")


def judged(*changes: Change) -> Readiness:
    known = facts()
    for change in changes:
        known = change(known)
    return judge(known)


def without_source(known: Facts) -> Facts:
    """What the reader makes of a source that does not answer."""
    told = known.status
    assert isinstance(told, FlowStatus)
    away = tuple(replace(each, source_end=None, lag_records=None, lag_seconds=None) for each in told.partitions)
    return replace(
        status(partitions=away)(known),
        source=DEAD,
        ends=DEAD,
        groups=replace(known.groups, left_out=DEAD, read_elsewhere=DEAD),
    )


def difference(impact: Impact, where: str = "a", rule: str = "some", **known: bool) -> Difference:
    return Difference(impact, "it differs", where, "1", "2", f"mend {where}", rule, known.get("is_looked_at", True))


def test_two_sides_that_are_alike_are_ready() -> None:
    found = judged()
    assert (found.verdict, found.score, found.deductions) == (Verdict.PASS, 100, ())
    assert found.closing() == (
        "Ready: nothing is known that would block a failover. A failover now would lose no record, "
        "and groups would read 0 records again. Score 100 of 100."
    )


def test_lag_within_the_objective_is_told_and_keeps_nobody_from_failing_over() -> None:
    found = judged(partition(lag_records=12, lag_seconds=0.4))
    assert (found.verdict, found.lag_records, found.lag_seconds) == (Verdict.PASS, 12, 0.4)
    assert "would lose 12 records not copied yet, up to 0.4 s old" in found.closing()
    assert (
        judged(lambda known: replace(known, rpo_seconds=0.3), partition(lag_records=1, lag_seconds=0.4)).verdict
        == "FAIL"
    )


def test_heartbeats_are_nobodys_records() -> None:
    """There is one a second: some are always about to be copied."""
    known = facts()
    assert isinstance(known.status, FlowStatus)
    late = PartitionStatus("heartbeats", 0, 1, 9, 1, 8, 90.0)
    found = judged(status(partitions=(*known.status.partitions, late)))
    assert (found.verdict, found.lag_records, found.differences) == (Verdict.PASS, 0, ())


def test_a_partition_that_has_stopped_before_its_first_record_is_not_ready() -> None:
    """Where copying begins at the end, nothing else says that it does not go on."""
    source = TopicPartition("orders", 1)
    gap = Gap(source, 0, 0, "holds records already", 5, GapKind.UNKNOWN_ORIGIN, 7, passed=False)
    stopped = status(
        state="DEGRADED",
        reasons=("orders-1 is stopped: holds records already", "1 gap in the copy: orders-1 0"),
        gaps=(gap,),
    )

    def first_alone(known: Facts) -> Facts:
        return status(partitions=known.status.partitions[:1])(known)  # type: ignore[union-attr]

    found = judged(
        lines("east->west.consumer.auto.offset.reset = latest"),
        stopped,
        first_alone,
        status(open_gaps=(gap,), stops={source: gap.reason}),
    )
    assert found.verdict is Verdict.FAIL
    told = {(each.rule, each.impact, each.where) for each in found.differences}
    assert ("partition-stopped", Impact.BLOCKS, "orders-1") in told
    assert ("gaps", Impact.LOSES, "orders-1") in told
    assert "gaps-acknowledged" not in {each.rule for each in found.differences}


def test_an_engine_that_runs_and_has_no_position_at_all_is_not_ready() -> None:
    found = judged(status(partitions=()))
    assert (found.verdict, {each.rule for each in found.differences}) == (Verdict.FAIL, {"not-begun"})
    never = judged(status(partitions=(), state="STOPPED"))
    assert ({each.rule for each in never.differences}, never.lag_records, never.read_again) == (
        {"not-copying"},
        None,
        None,
    )


def test_what_duplicates_or_degrades_is_told_and_keeps_nobody_from_failing_over() -> None:
    found = judged(
        lines("sync.group.offsets.enabled = false"),
        groups(checkpoints={(GROUP, COPIED): Checkpoint(GROUP, COPIED, 3, 3)}),
        on("target", brokers=(1, 2)),
        configs("target", COPY, index_interval_bytes="1"),
    )
    assert (found.verdict, found.read_again, found.score) == (Verdict.PASS, 37, 86)
    assert [str(each) for each in found.deductions] == [
        "duplicates -10 (positions-not-kept, read-again)",
        "degrades -3 (fewer-brokers)",
        "cosmetic -1 (other-settings)",
    ]
    assert found.closing().endswith("Score 86 of 100 (duplicates -10, degrades -3, cosmetic -1).")


def test_what_could_not_be_looked_at_is_unknown_and_never_ready() -> None:
    found = judged(on("target", acls=DENIED))
    (missing,) = found.differences
    assert found.verdict is Verdict.UNKNOWN
    # As grave as the worst that it may hide: rights that are lacking.
    assert (missing.impact, missing.is_looked_at, missing.mend) == (Impact.BLOCKS, False, DENIED.mend)
    assert missing.what == "not looked at: the ACLs of west: needs DESCRIBE on the cluster"
    assert found.closing().startswith(
        "Unknown: nothing is known that would block a failover, but 1 thing could not be looked at."
    )
    # What is known to block is worse than what is not known.
    assert judged(on("target", acls=DENIED), status(state="STOPPED")).verdict is Verdict.FAIL


@pytest.mark.parametrize("missing", ["acls", "quotas", "users", "groups", "offered", "settings", "transactions"])
@pytest.mark.parametrize("end", ["source", "target"])
def test_whatever_of_a_side_is_not_known_is_not_passed_over(end: str, missing: str) -> None:
    unknown = replace(DENIED, what=f"the {missing} of a side")
    with_transactions = on("source", transactions={"till": "Empty"}) if missing == "settings" else lambda known: known
    found = judged(with_transactions, on(end, **{missing: unknown}))
    if (end, missing) in {("target", "transactions"), ("target", "groups")}:
        assert found.verdict is Verdict.PASS  # nobody needs them
    else:
        assert found.verdict is Verdict.UNKNOWN
        assert [each.what for each in found.differences if not each.is_looked_at] == [
            f"not looked at: {unknown.what}: {unknown.reason}"
        ]


@pytest.mark.parametrize("missing", ["moves", "checkpoints", "left_out", "read_elsewhere"])
def test_whatever_of_the_groups_is_not_known_is_not_passed_over(missing: str) -> None:
    assert judged(groups(**{missing: DENIED})).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("missing", ["status", "ends", "parked"])
def test_whatever_of_the_flow_is_not_known_is_not_passed_over(missing: str) -> None:
    assert judged(lambda known: replace(known, **{missing: DENIED})).verdict is Verdict.UNKNOWN  # type: ignore[arg-type]


def test_what_is_missing_here_and_there_is_not_passed_over() -> None:
    partly = NotSeen("the settings of topics of west", "denied", "east.orders", "grant DescribeConfigs")
    found = judged(on("target", partly=(partly,)))
    assert (found.verdict, [each.where for each in found.differences]) == (Verdict.UNKNOWN, ["east.orders"])


def test_groups_of_which_the_positions_are_not_told_are_named() -> None:
    found = judged(moves(untranslated=(Unmoved("secret", None, "GROUP_AUTHORIZATION_FAILED"),)))
    (missing,) = found.differences
    assert (found.verdict, missing.where, missing.is_looked_at) == (Verdict.UNKNOWN, "secret", False)


def test_without_the_source_it_is_said_and_what_needs_only_the_target_is_judged() -> None:
    found = judged(without_source)
    assert found.verdict is Verdict.UNKNOWN
    (away,) = found.differences
    assert away.what == "not looked at: all of east: connection refused"
    assert (found.lag_records, "What a failover now would lose is not known." in found.closing()) == (None, True)
    missing = judged(on("target", topics={}), without_source)
    assert missing.verdict is Verdict.FAIL
    assert {each.rule for each in missing.differences if each.is_looked_at} == {"copy-missing", "own-topic-missing"}


def test_without_the_target_that_is_all_there_is_to_say() -> None:
    gone = NotSeen("all of west", "connection refused", "west", "start west")
    found = judged(
        lambda known: replace(known, target=gone, status=gone, parked=gone, groups=Groups(gone, gone, gone, gone, gone))
    )
    assert (found.verdict, [each.rule for each in found.differences]) == (Verdict.FAIL, ["target-away"])
    assert (found.lag_records, found.read_again) == (None, None)


def test_the_score_counts_a_rule_once_and_has_a_floor() -> None:
    two = [difference(Impact.BLOCKS, where) for where in "ab"]
    assert Readiness(FLOW, tuple(two), 0, 0.0, 0).score == 60
    many = [difference(impact, rule=f"{impact}-{number}") for impact in Impact for number in range(40)]
    found = Readiness(FLOW, tuple(many), 0, 0.0, 0)
    assert found.score == 0
    assert [each.points for each in found.deductions] == [most for _, most in WEIGHTS.values()]
    # Whatever degrades, duplicates or is cosmetic: who is ready has more than who is not.
    harmless = [each for each in many if each.impact not in (Impact.BLOCKS, Impact.LOSES)]
    assert Readiness(FLOW, tuple(harmless), 0, 0.0, 0).score == 65


def test_the_worst_stands_first() -> None:
    mixed = [difference(impact) for impact in (Impact.COSMETIC, Impact.LOSES, Impact.BLOCKS, Impact.DUPLICATES)]
    assert [each.impact for each in worst_first(mixed)] == ["blocks", "loses", "duplicates", "cosmetic"]
    by_rule = [difference(Impact.LOSES, rule="a"), difference(Impact.BLOCKS, rule="b")]
    assert [each.rule for each in worst_first(by_rule)] == ["b", "a"], "whatever the rules are called"


def test_what_one_rule_says_of_many_places_is_one_row() -> None:
    alike = [difference(Impact.LOSES, where) for where in "abcdefg"]
    other = difference(Impact.LOSES, "x", "other")
    first, second = summed_up([*alike, other])
    assert (first.where, first.source, first.mend) == ("a, b, c, d, e and 2 more", "1", "mend a, b, c, d, e, f, g")
    assert second == other
    unlike = [replace(each, mend=f"do {number}") for number, each in enumerate(alike)]
    (first,) = summed_up(unlike)
    assert first.mend.splitlines() == [*(f"do {number}" for number in range(5)), "and 2 more alike: --all names them"]


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (("12 records again", "340 records again", "1 record again"), "1 to 340 records again"),
        (("1,200 records", "340 records"), "340 to 1,200 records"),
        (("every 30 s", "every 7.5 s"), "every 7.5 to 30 s"),
        (("bills-0 at 20, 4 in all", "bills-0 at 50, 4 in all"), "bills-0 at 20 to 50, 4 in all"),
        # What belongs together stays so: a partition's number is no figure.
        (("orders-0 at 340", "orders-1 at 340"), "orders-0 at 340; orders-1 at 340"),
        (
            ("copied up to 3: 7 records", "copied up to 5: 9 records"),
            "copied up to 3: 7 records; copied up to 5: 9 records",
        ),
        (("604800000", "-1", None), "604800000; -1; -"),
        (tuple("abcdefg"), "a; b; c; d; e and 2 more"),
        ((None, None), None),
    ],
)
def test_where_places_differ_their_figures_are_shown(values: Sequence[str | None], shown: str | None) -> None:
    """It said "differs", and hid how much each group would read again."""
    (found,) = summed_up(
        [replace(difference(Impact.LOSES, str(at)), source=each, target="2") for at, each in enumerate(values)]
    )
    assert (found.source, found.target) == (shown, "2")


@pytest.mark.parametrize(
    ("wheres", "mend", "together"),
    [
        (("audit", "b.x"), "mirror groups F --groups {} --apply", "mirror groups F --groups 'audit|b\\.x' --apply"),
        (("audit, orders-0", "bills, orders-0"), "stop {} on west", "stop audit, bills on west"),
        (
            ("orders: retention.ms", "bills: retention.ms"),
            "kafka-configs.sh --entity-name {} --add-config retention.ms=5",
            "kafka-configs.sh --entity-name NAME --add-config retention.ms=5, with NAME each of orders, bills",
        ),
        (("orders-0", "bills-0"), "F.topics = ..., {}, and see F", "F.topics = ..., orders, bills, and see F"),
        (("orders-0", "orders-1"), "mirror status F", "mirror status F"),
    ],
)
def test_mends_that_differ_by_a_name_are_one(wheres: Sequence[str], mend: str, together: str) -> None:
    """Each group had a line of its own, of a command that takes several."""
    alike = [
        replace(difference(Impact.LOSES, each), mend=mend.format(each.split(",")[0].split(":")[0].removesuffix("-0")))
        for each in wheres
    ]
    (found,) = summed_up(alike)
    assert found.mend == together


def test_more_than_a_command_can_name_are_a_line_each_up_to_a_handful() -> None:
    alike = [difference(Impact.LOSES, f"group{number}") for number in range(51)]
    (found,) = summed_up(alike)
    assert found.mend.splitlines()[4:] == ["mend group4", "and 46 more alike: --all names them"]


def test_of_what_could_not_be_looked_at_each_place_and_each_reason_is_named_up_to_a_handful() -> None:
    two = _lacking("the settings of east", "grant", {"orders": "denied", "bills": "no answer"})
    assert (two.where, two.reason) == ("bills, orders", "denied, no answer")
    many = _lacking("the settings of east", "grant", {f"topic-{number}": "denied" for number in range(7)})
    assert (many.where[-18:], many.reason) == ("topic-4 and 2 more", "denied")


def test_the_answer_counts_what_keeps_one_from_failing_over() -> None:
    told = Readiness(FLOW, (difference(Impact.BLOCKS),), None, None, None).closing()
    assert told.startswith("Not ready: 1 thing blocks a failover. What a failover now would lose is not known.")
    worse = (difference(Impact.BLOCKS), difference(Impact.BLOCKS, rule="b"), difference(Impact.LOSES))
    told = Readiness(FLOW, worse, 1, None, 3).closing()
    assert told.startswith(
        "Not ready: 2 things block a failover and 1 thing loses records. A failover now would lose 1 "
    )
    assert "would lose 1 record not copied yet, and groups would read 3 records again." in told


def test_the_answer_counts_the_rows_that_stand_above_it() -> None:
    """Three things blocked, above a table of two rows."""
    found = Readiness(FLOW, tuple(difference(Impact.BLOCKS, where) for where in "abc"), 0, 0.0, 0)
    assert found.closing().startswith("Not ready: 1 thing blocks a failover.")
    assert found.closing(found.differences).startswith("Not ready: 3 things block a failover.")


def test_the_form_of_json() -> None:
    content = judged(status(state="STOPPED", reasons=("silent",))).as_json()
    assert (content["verdict"], content["score"], content["flow"]) == ("FAIL", 60, "east->west")
    assert content["deductions"] == [{"class": "blocks", "points": 40, "rules": ["not-copying"]}]
    assert content["would_lose"] == {"records": 0, "seconds": 0.0}
    assert content["differences"] == [
        {
            "class": "blocks",
            "what": "the flow does not copy: silent",
            "where": "east->west",
            "source": None,
            "target": "STOPPED",
            "mend": "mirror run mm2.properties",
            "rule": "not-copying",
            "looked_at": True,
        }
    ]


def test_five_thousand_partitions_and_two_thousand_groups_that_all_differ() -> None:
    names = [f"topic-{number}" for number in range(1000)]
    known = facts()
    three = tuple(Partition(number, 1, 0, (1,), (1,)) for number in range(5))
    there = {f"east.{name}": Topic(f"east.{name}", "", three[:4]) for name in names}
    differing = {"retention.ms": "1", "index.interval.bytes": "1"}
    positions = tuple(
        replace(position(9, translation=Exact(9)), group=f"group-{group}", topic=f"east.{name}", partition=number)
        for group, name in ((group, names[group % 1000]) for group in range(2000))
        for number in range(5)
    )
    checkpoints = {
        (each.group, (at := TopicPartition(each.topic, each.partition))): Checkpoint(each.group, at, 2, 2)
        for each in positions
    }
    big = replace(
        groups(checkpoints=checkpoints)(moves(positions=positions)(known)),
        copies={name: f"east.{name}" for name in names},
        source=replace(
            known.source,  # type: ignore[type-var]
            topics={name: Topic(name, "", three) for name in names},
            configs={name: {"retention.ms": "2", "index.interval.bytes": "2"} for name in names},
        ),
        target=replace(known.target, topics=there, configs=dict.fromkeys(there, differing)),  # type: ignore[type-var]
    )
    found = judge(big)
    counts = {
        each.rule: sum(other.rule == each.rule for other in found.differences) for each in summed_up(found.differences)
    }
    assert (counts["partitions-missing"], counts["own-topic-missing"], counts["read-again"]) == (1000, 1000, 2000)
    assert found.read_again == 2000 * 5 * 7


@pytest.mark.parametrize(
    ("principal", "operation", "name", "is_allowed"),
    [
        ("User:ann", Operation.READ, "orders", True),
        ("User:ann", Operation.DESCRIBE, "orders", True),
        ("User:ann", Operation.WRITE, "orders", False),
        ("User:ann", Operation.WRITE, "ord-1", True),
        ("User:bob", Operation.READ, "orders", False),
        ("User:bob", Operation.READ, "open", True),
        ("User:eve", Operation.READ, "open", False),
        ("User:root", Operation.ALTER, "anything", True),
    ],
)
def test_who_may_do_what(principal: str, operation: Operation, name: str, *, is_allowed: bool) -> None:
    def acl(permission: Permission, operation: Operation, name: str, principal: str, pattern: Pattern) -> Acl:
        return Acl(Resource.TOPIC, pattern, name, principal, "*", operation, permission)

    listed = [
        acl(Permission.ALLOW, Operation.READ, "orders", "User:ann", Pattern.LITERAL),
        acl(Permission.ALLOW, Operation.ALL, "ord-", "User:ann", Pattern.PREFIXED),
        acl(Permission.ALLOW, Operation.READ, "open", "User:*", Pattern.LITERAL),
        acl(Permission.DENY, Operation.ALL, "*", "User:eve", Pattern.LITERAL),
    ]
    check = AclCheck(listed, ["User:root"])
    assert check.allows(principal, "*", operation, Resource.TOPIC, name) is is_allowed


def test_a_right_from_one_host_is_none_from_all_and_a_denial_to_one_host_is_one() -> None:
    allowed = Acl(Resource.GROUP, Pattern.LITERAL, "g", "User:ann", "10.0.0.1", Operation.READ, Permission.ALLOW)
    everywhere = replace(allowed, host="*")
    denied = replace(allowed, permission=Permission.DENY)
    ask = ("User:ann", "*", Operation.READ, Resource.GROUP, "g")
    assert not AclCheck([allowed]).allows(*ask)
    assert AclCheck([allowed]).allows("User:ann", "10.0.0.1", Operation.READ, Resource.GROUP, "g")
    assert AclCheck([everywhere]).allows(*ask)
    assert not AclCheck([everywhere, denied]).allows(*ask)
    assert AclCheck([], allows_if_none=True).allows(*ask)
    assert not AclCheck([allowed], allows_if_none=True).allows(*ask)


def test_whom_the_flow_logs_in_as_is_known_from_its_settings() -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    assert _principal({"sasl.jaas.config": f'{module} required username="mirror" password="x";'}) == "User:mirror"
    assert _principal({}) is None
    assert _principal({"sasl.jaas.config": "nonsense"}) is None
    assert TOPIC in facts().copies
