"""Which ACLs of the source give which on the target, and which of those are removed again (ACL-01 to ACL-08)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from unittest.mock import create_autospec

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.config.errors import ConfigError
from mirror.config.settings import FlowSettings
from mirror.control import acls as acls_tick
from mirror.control.acl_rules import Names, could_give, resources
from mirror.control.acls import AclAction, AclEnds, AclPlan, plan_acls
from mirror.control.flow_log import FlowLog
from mirror.kafka.acls import AclListing, NoAuthorizer
from mirror.kafka.cluster import Cluster
from mirror.kafka.log import LogWriter, NewRecord
from mirror.kafka.problems import ClusterUnreachable
from mirror.model.acl import Acl, Operation, Pattern, Permission, Resource
from mirror.model.flow_state import FlowState
from mirror.model.state_values import acl_record
from tests.unit.control.builders import flow_settings

IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
PREFIXED, WILDCARD = "mirror.acls.prefixed = true", "mirror.acls.wildcard = all"
DEFAULT = flow_settings()


def acl(
    text: str = "ALLOW READ",
    name: str = "orders",
    pattern: Pattern = Pattern.LITERAL,
    resource: Resource = Resource.TOPIC,
    principal: str = "User:ann",
) -> Acl:
    permission, operation = text.split()
    return Acl(resource, pattern, name, principal, "*", Operation[operation], Permission[permission])


def planned(
    source: Collection[Acl],
    target: Collection[Acl] = (),
    *lines: str,
    created: Mapping[Acl, Acl] | None = None,
    topics: Collection[str] = ("orders",),
    groups: Collection[str] = (),
) -> AclPlan:
    flow = flow_settings(*lines) if lines else DEFAULT
    names = Names(frozenset(topics), frozenset(groups))
    ends = AclEnds(AclListing(frozenset(source)), AclListing(frozenset(target)), names)
    return plan_acls(ends, created or {}, flow)


def creates(plan: AclPlan) -> set[Acl]:
    return {each.acl for each in plan.of(AclAction.CREATE)}


def test_who_may_write_the_original_may_not_write_the_copy_and_an_owner_may_read_it() -> None:
    """MirrorSourceConnectorTest.testAclFiltering: of ALLOW WRITE and ALLOW ALL only the latter goes over (ACL-01)."""
    plan = planned([acl("ALLOW WRITE"), acl("ALLOW ALL")])
    assert creates(plan) == {acl("ALLOW READ", "east.orders")}
    (skipped,) = plan.of(AclAction.SKIP)
    assert skipped.acl == acl("ALLOW WRITE")


def test_allowing_everything_becomes_reading_and_denials_stay_as_they_are() -> None:
    """MirrorSourceConnectorTest.testAclTransformation (ACL-02, ACL-03)."""
    assert creates(planned([acl("ALLOW ALL")])) == {acl("ALLOW READ", "east.orders")}
    assert creates(planned([acl("DENY ALL")])) == {acl("DENY ALL", "east.orders")}
    kept = {"ALLOW READ", "ALLOW DESCRIBE", "ALLOW DELETE", "ALLOW ALTER", "DENY WRITE", "DENY READ"}
    assert creates(planned([acl(text) for text in kept])) == {acl(text, "east.orders") for text in kept}


@pytest.mark.parametrize(
    "fence",
    [
        acl("DENY WRITE", principal="User:*"),
        acl("DENY ALL", principal="User:*"),
        acl("DENY WRITE", "*", principal="User:*"),
        acl("DENY WRITE", "ord", Pattern.PREFIXED, principal="User:*"),
    ],
    ids=str,
)
def test_what_fences_the_writers_of_the_source_does_not_fence_the_copy(fence: Acl) -> None:
    """After a failover applications are to write there (ACL-02 would deny it); the plan says that it is left out."""
    plan = planned([fence, acl("DENY WRITE")], (), PREFIXED)
    assert creates(plan) == {acl("DENY WRITE", "east.orders")}
    (row,) = [row for row in plan.rows() if row["action"] == AclAction.SKIP]
    assert (row["acl"], row["detail"]) == (str(fence), "it fences the writers of east, not those of the copy")
    assert not planned([fence], topics=(), groups=()).of(AclAction.CREATE)


@pytest.mark.parametrize("is_there", [False, True])
def test_denials_of_named_writers_go_over_and_the_plan_says_whom_they_will_hold_after_a_failover(
    *, is_there: bool
) -> None:
    """They may be a rule, or fence producers before a failover: under unchanged names they hold those on the standby."""
    denials = [acl("DENY WRITE", principal="User:shop"), acl("DENY ALL", "bills", principal="User:shop")]
    others = [acl("DENY READ"), acl("DENY WRITE", principal="User:*")]
    plan = planned([*denials, *others], denials if is_there else (), IDENTITY, topics=("orders", "bills"))

    assert {each.acl for each in plan.of(AclAction.CREATE, AclAction.KEEP)} == {*denials, acl("DENY READ")}
    (note,) = plan.notes
    assert note.startswith("2 denials of writes are carried over from east")
    assert "DENY ALL on topic bills for User:shop, DENY WRITE on topic orders for User:shop" in note
    assert "After a failover they hold on west too" in note


def test_many_denials_of_writers_are_counted() -> None:
    (note,) = planned([acl("DENY WRITE", principal=f"User:{number}") for number in range(9)]).notes
    assert note.startswith("9 denials of writes are")
    assert "User:2 and 6 more, which mirror plan FILE lists" in note


def test_what_denies_everybody_something_else_or_only_from_one_host_is_no_fence() -> None:
    others = {acl("DENY READ", principal="User:*"), replace(acl("DENY WRITE", principal="User:*"), host="10.0.0.1")}
    assert creates(planned(others)) == {replace(each, name="east.orders") for each in others}


@pytest.mark.parametrize("end", ["source", "target"])
def test_a_cluster_without_an_authorizer_is_told_and_is_no_problem(end: str) -> None:
    """MirrorSourceConnectorTest.testNoBrokerAclAuthorizer (ACL-07); what was created before is not touched."""
    listing, none = AclListing(frozenset([acl()])), NoAuthorizer(end)
    ends = AclEnds(none, listing) if end == "source" else AclEnds(listing, none)
    created = {acl(name="east.orders"): acl()}
    plan = plan_acls(ends, created, flow_settings("mirror.acls.remove.revoked = true"))
    assert (plan.decisions, plan.problems) == ((), ())
    (note,) = plan.notes
    assert f"{'east' if end == 'source' else 'west'} has no authorizer" in note


def test_only_topics_of_the_flow_and_by_default_only_literal_patterns_go_over() -> None:
    """ACL-01, ACL-05, SEL-02; a topic need not exist."""
    others = [acl(name="refunds"), acl(name="west.orders"), acl(name="mm2-offset-syncs.west.internal")]
    prefixed = acl(name="ord", pattern=Pattern.PREFIXED)
    plan = planned([*others, prefixed, acl(name="orders-2")], (), "topics = orders.*, west.*, mm2.*")
    assert creates(plan) == {acl(name="east.orders-2")}
    (skipped,) = plan.of(AclAction.SKIP)
    assert (skipped.acl, skipped.key) == (prefixed, PREFIXED)
    (note,) = plan.notes
    assert note.startswith("1 ACL of east is not carried over")


def test_what_is_there_is_left_alone() -> None:
    plan = planned([acl()], [acl(name="east.orders"), acl("ALLOW WRITE", "east.orders"), acl(name="local")])
    assert [each.action for each in plan.decisions] == [AclAction.KEEP]
    assert plan.rows() == []


def test_a_prefix_goes_over_as_the_prefix_of_the_copies() -> None:
    plan = planned(
        [acl("ALLOW ALL", "ord", Pattern.PREFIXED), acl("ALLOW WRITE", "ord", Pattern.PREFIXED)], (), PREFIXED
    )
    assert creates(plan) == {acl("ALLOW READ", "east.ord", Pattern.PREFIXED)}


def test_a_prefix_of_nothing_that_is_copied_does_not_go_over() -> None:
    lines = (PREFIXED, "topics = orders, team-[0-9]+")
    foreign, known = acl(name="west.", pattern=Pattern.PREFIXED), acl(name="team-", pattern=Pattern.PREFIXED)
    assert creates(planned([foreign, known], (), *lines)) == set()
    later = planned([foreign, known], (), *lines, topics=["orders", "team-7"])
    assert creates(later) == {acl(name="east.team-", pattern=Pattern.PREFIXED)}


def test_with_unchanged_names_a_prefix_stays_whatever_heartbeats_are_called() -> None:
    """POL-01."""
    plan = planned([acl(name="h", pattern=Pattern.PREFIXED)], (), PREFIXED, IDENTITY, topics=["hours", "heartbeats"])
    assert creates(plan) == {acl(name="h", pattern=Pattern.PREFIXED)}


def test_of_acls_on_every_topic_denials_go_over_and_permissions_only_when_asked_for() -> None:
    """ACL-06: MirrorMaker would create them on a topic called east.*, where they mean nothing."""
    every = [acl("ALLOW READ", "*"), acl("DENY ALL", "*", principal="User:eve")]
    plan = planned(every)
    assert creates(plan) == {acl("DENY ALL", "east.", Pattern.PREFIXED, principal="User:eve")}
    assert "mirror.acls.wildcard = all" in plan.notes[0]
    assert acl(name="east.", pattern=Pattern.PREFIXED) in creates(planned(every, (), WILDCARD))


def test_with_unchanged_names_acls_on_every_topic_are_put_on_each_copy_and_never_on_every_topic_of_the_target() -> None:
    """ACL-06: MirrorMaker would open, or close, the target's own topics too."""
    plan = planned([acl("ALLOW READ", "*"), acl("DENY READ", "*")], (), IDENTITY, WILDCARD, topics=["a", "b"])
    assert creates(plan) == {acl(text, name) for text in ("ALLOW READ", "DENY READ") for name in "ab"}


def test_groups_and_transactional_ids_go_over_when_asked_for_under_their_names() -> None:
    group, other = acl(name="billing", resource=Resource.GROUP), acl(name="connect-x", resource=Resource.GROUP)
    writing = acl("ALLOW WRITE", "till", resource=Resource.TRANSACTIONAL_ID)
    every = acl(name="*", resource=Resource.GROUP)
    prefixed = acl(name="bill", resource=Resource.GROUP, pattern=Pattern.PREFIXED)
    asked = ("mirror.acls.groups = true", "mirror.acls.transactional.ids = true")
    assert creates(planned([group, other, writing, every, prefixed], (), *asked)) == {group, writing}
    more = (*asked, PREFIXED, WILDCARD, "groups = billing")
    assert creates(planned([group, every, prefixed], (), *more, groups=["billing"])) == {group, every, prefixed}
    assert creates(planned([prefixed], (), *more)) == set()


REVOKED = {acl(name="east.orders"): acl("ALLOW ALL")}


def test_what_was_revoked_is_removed_when_asked_for_and_only_if_this_engine_has_created_it() -> None:
    """ACL-04 is the default."""
    stands, own, foreign = acl("DENY READ"), acl(name="east.orders"), acl("ALLOW DESCRIBE", "east.orders")
    (left,) = planned([stands], [own, foreign], created=REVOKED).of(AclAction.LEAVE)
    assert (left.acl, left.key) == (own, "mirror.acls.remove.revoked = true")
    plan = planned([stands], [own, foreign], "mirror.acls.remove.revoked = true", created=REVOKED)
    assert [each.acl for each in plan.of(AclAction.REMOVE)] == [own]
    assert creates(plan) == {acl("DENY READ", "east.orders")}


@pytest.mark.parametrize(
    ("stands", "line"),
    [
        (acl("ALLOW ALL"), "topics = refunds"),
        (acl("ALLOW READ"), "topics = refunds"),
        (acl("ALLOW READ", "*"), "topics = .*"),
        (acl("ALLOW READ", "ord", Pattern.PREFIXED), "topics = .*"),
    ],
)
def test_what_stands_on_the_source_is_not_removed_because_the_settings_changed(stands: Acl, line: str) -> None:
    plan = planned([stands], [acl(name="east.orders")], "mirror.acls.remove.revoked = true", line, created=REVOKED)
    assert [each.action for each in plan.decisions if each.acl == acl(name="east.orders")] == [AclAction.LEAVE]


def test_when_the_source_lists_nothing_at_all_nothing_is_removed_and_somebody_has_to_look() -> None:
    plan = planned([], [acl(name="east.orders")], "mirror.acls.remove.revoked = true", created=REVOKED)
    assert plan.of(AclAction.REMOVE) == []
    (problem,) = plan.problems
    assert "set up anew?" in problem


def test_what_somebody_has_removed_from_the_target_is_no_longer_this_engines() -> None:
    plan = planned([acl("DENY READ")], [acl("DENY READ", "east.orders")], created=REVOKED)
    assert [each.acl for each in plan.of(AclAction.FORGET)] == [acl(name="east.orders")]


def test_kinds_of_resources_that_were_not_read_are_not_judged() -> None:
    group = acl(name="billing", resource=Resource.GROUP)
    assert planned([acl("DENY READ")], created={group: group}).of(*AclAction) == planned([acl("DENY READ")]).of(
        *AclAction
    )


names = st.sampled_from(["*", "a", "ab", "b", "west.a", "heartbeats", "east.", "myheartbeats"])
acls = st.builds(
    Acl,
    st.sampled_from(Resource),
    st.sampled_from(Pattern),
    names,
    st.sampled_from(["User:ann", "User:eve"]),
    st.just("*"),
    st.sampled_from(Operation),
    st.sampled_from(Permission),
)
ALL = (PREFIXED, WILDCARD, "mirror.acls.groups = true", "mirror.acls.transactional.ids = true")
FLOWS: list[FlowSettings] = [flow_settings(*ALL), flow_settings(*ALL, IDENTITY), DEFAULT]


@given(st.sets(acls), st.sampled_from(FLOWS), st.sets(st.sampled_from(["a", "ab", "b", "heartbeats"])))
def test_nothing_is_created_that_writes_topics_or_covers_all_of_them_and_everything_has_an_origin(
    source: set[Acl], flow: FlowSettings, topics: set[str]
) -> None:
    """Whatever the source has: and what was created is there only once, and would not count as revoked."""
    read = frozenset(each for each in source if each.resource in resources(flow))
    ends = AclEnds(AclListing(read), AclListing(frozenset()), Names(frozenset(topics)))
    plan = plan_acls(ends, {}, flow)
    made = [each.acl for each in plan.of(AclAction.CREATE)]
    assert len(set(made)) == len(made)
    for each in made:
        writes = each.operation in (Operation.WRITE, Operation.ALL) and each.permission is Permission.ALLOW
        covers_all = (each.pattern, each.name) in {(Pattern.LITERAL, "*"), (Pattern.PREFIXED, "")}
        assert not (each.resource is Resource.TOPIC and (writes or covers_all))
        assert any(could_give(origin, each, flow) for origin in read)


def test_what_was_created_is_put_on_record_and_of_many_refusals_for_one_reason_the_first_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """ACL-08; thousands of lines would not fit into the flow's report."""
    listing = AclListing(frozenset(acl(name=f"orders-{number:02}") for number in range(26)))
    fine = acl(name="east.orders-00")
    problems = {acl(name=f"east.orders-{number:02}"): "no" for number in range(1, 26)}
    monkeypatch.setattr(acls_tick, "read_acls", lambda *_: AclEnds(listing, AclListing(frozenset())))
    monkeypatch.setattr(acls_tick, "create_acls", lambda *_: {fine: None, **problems})
    log, cluster = create_autospec(FlowLog, instance=True), create_autospec(Cluster, instance=True, alias="west")
    log.poll.return_value = FlowState()
    written: list[tuple[str, int, list[NewRecord]]] = []
    writer = create_autospec(LogWriter, instance=True)
    writer.append.side_effect = lambda *record: written.append(record)
    report = acls_tick.AclsTick(cluster, cluster, DEFAULT, log, writer, clock=lambda: 7).tick()
    assert report.done == 1
    assert report.problems[0] == "cannot create on west: ALLOW READ on topic east.orders-01 for User:ann: no"
    assert report.problems[20:] == ("and 5 ACLs more on west, which mirror plan FILE lists: no",)
    key, value = acl_record(fine, acl(name="orders-00"))
    assert written == [("mm2-state.east.internal", 0, [(key, value, (), 7)])]


def test_a_flow_may_have_its_own_and_a_wrong_word_is_refused() -> None:
    chosen = flow_settings("mirror.acls.groups = true", "east->west.mirror.acls.groups = false", WILDCARD).acls
    assert (chosen.groups, chosen.wildcard) == (False, "all")
    with pytest.raises(ConfigError, match=r"mirror\.acls\.wildcard.*denials, all"):
        flow_settings("mirror.acls.wildcard = some")


def test_what_the_round_before_had_to_say_is_not_said_of_one_that_could_not_read_the_acls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """ACL-07; without a change nothing is written."""
    ends: list[AclEnds | Exception] = [
        AclEnds(NoAuthorizer("no authorizer"), AclListing(frozenset())),
        ClusterUnreachable("east", "east:9092", "nobody answers"),
    ]

    def read(*_: object) -> AclEnds:
        found = ends.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(acls_tick, "read_acls", read)
    log, cluster = create_autospec(FlowLog, instance=True), create_autospec(Cluster, instance=True, alias="west")
    log.poll.return_value = FlowState()
    writer = create_autospec(LogWriter, instance=True)
    tick = acls_tick.AclsTick(cluster, cluster, DEFAULT, log, writer, clock=lambda: 7)
    first, second = tick.tick(), tick.tick()
    assert "has no authorizer" in first.notes[0]
    assert (second.notes, second.done) == ((), 0)
    assert "nobody answers" in second.problems[0]
    writer.append.assert_not_called()
