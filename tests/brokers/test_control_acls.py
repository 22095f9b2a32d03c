"""ACLs across real clusters that look up who may do what: what the source allows and forbids, the target does too."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from mirror.config.settings import ClusterSettings, FlowSettings
from mirror.control.acls import AclAction, AclsTick, plan_acls, read_acls
from mirror.control.flow_log import FlowLog
from mirror.control.plan import plan_flow
from mirror.control.quotas import QuotasTick
from mirror.control.tick import TickReport
from mirror.control.topics import TopicsTick
from mirror.control.users import UsersTick
from mirror.engine.flow_producers import FlowProducers
from mirror.kafka import coordinator
from mirror.kafka.acls import AclListing, NoAuthorizer, create_acls, delete_acls, describe_acls
from mirror.kafka.batch import Producer
from mirror.kafka.channel import Channel
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import ConfigChange, NewTopic
from mirror.kafka.log import LogWriter
from mirror.kafka.problems import AccessDenied, BrokerRefused
from mirror.kafka.users import alter_client_quotas, client_quotas, scram_users
from mirror.lab import clusters, mm2
from mirror.lab.brokers import EmbeddedCluster
from mirror.model.acl import Acl, Operation, Pattern, Permission, QuotaKey, Resource
from mirror.waiting import wait_until
from tests import users
from tests.brokers.command import in_process, mirror, write
from tests.unit.control.builders import flow_settings

Unique = Callable[[str], str]
SOURCE, TARGET = "east", "west"
EVERY_KIND = (Resource.TOPIC, Resource.GROUP, Resource.TRANSACTIONAL_ID)


def acl(
    text: str,
    name: str,
    principal: str,
    pattern: Pattern = Pattern.LITERAL,
    resource: Resource = Resource.TOPIC,
) -> Acl:
    permission, operation = text.split()
    return Acl(resource, pattern, name, f"User:{principal}", "*", Operation[operation], Permission[permission])


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, EmbeddedCluster]]:
    """Two clusters with authorizers, for this module."""
    directory = tmp_path_factory.mktemp("secured")
    lab = clusters.up(directory, [SOURCE, TARGET], owner_pid=os.getpid(), secured=[SOURCE, TARGET])
    found = {alias: one for alias, one in lab.clusters.items() if isinstance(one, EmbeddedCluster)}
    yield found
    clusters.down(directory, discard_data=True)


@dataclass
class Stage:
    """Both clusters as a super user sees them, and the settings of a flow between them."""

    source: Cluster
    target: Cluster
    settings: FlowSettings
    clients: dict[str, ClusterSettings]

    def set_on_source(self, *acls: Acl) -> None:
        """Create ACLs on the source, and wait until its broker knows them."""
        assert set(create_acls(self.source, acls).values()) == {None}
        wait_until(lambda: set(acls) <= acls_of(self.source), "the ACLs on the source", timeout_seconds=60)

    def revoke_on_source(self, *acls: Acl) -> None:
        """Delete ACLs on the source, and wait until its broker knows."""
        assert set(delete_acls(self.source, acls).values()) == {None}
        wait_until(lambda: not set(acls) & acls_of(self.source), "the revocation", timeout_seconds=60)

    @contextmanager
    def state(self) -> Iterator[tuple[FlowLog, LogWriter]]:
        """Open the flow's state topic as an engine does that was just started."""
        client = self.clients[TARGET].client
        log, writer = FlowLog(client, f"mm2-state.{SOURCE}.internal", alias=TARGET), LogWriter(client, alias=TARGET)
        try:
            yield log, writer
        finally:
            log.close()
            writer.close()

    def tick(self, settings: FlowSettings | None = None, target: Cluster | None = None) -> TickReport:
        """Run a round as an engine that was just started."""
        with self.state() as (log, writer):
            return AclsTick(self.source, target or self.target, settings or self.settings, log, writer).tick()


def acls_of(cluster: Cluster) -> frozenset[Acl]:
    listing = describe_acls(cluster, EVERY_KIND)
    assert isinstance(listing, AclListing)
    return listing.acls


def has(cluster: Cluster, *acls: Acl) -> None:
    wait_until(lambda: set(acls) <= acls_of(cluster), f"{acls} on {cluster.alias}", timeout_seconds=60)


def between(secured: dict[str, EmbeddedCluster], *lines: str) -> FlowSettings:
    """Return the settings of east->west with these lines more."""
    addresses = (f"{alias}.bootstrap.servers = {secured[alias].bootstrap_servers}" for alias in (SOURCE, TARGET))
    return flow_settings(*addresses, *lines)


@pytest.fixture
def stage(secured: dict[str, EmbeddedCluster]) -> Iterator[Stage]:
    clients = {
        alias: ClusterSettings(alias, {"bootstrap.servers": secured[alias].bootstrap_servers})
        for alias in (SOURCE, TARGET)
    }
    with Cluster.connect(clients[SOURCE]) as source, Cluster.connect(clients[TARGET]) as target:
        settings = between(secured, "topics = none")
        assert TopicsTick(source, target, settings).tick().problems == ()
        yield Stage(source, target, settings, clients)
        # Tests of this module see each other's ACLs: each leaves none.
        for cluster in (source, target):
            delete_acls(cluster, acls_of(cluster))
            wait_until(lambda cluster=cluster: not acls_of(cluster), "no ACLs", timeout_seconds=60)  # type: ignore[misc]


@pytest.mark.long
def test_who_may_read_a_topic_may_read_its_copy_and_nobody_else(
    stage: Stage, secured: dict[str, EmbeddedCluster], unique: Unique
) -> None:
    """ACL-01, ACL-02, ACL-03: proven by users who log in."""
    name, ann, eve = unique("orders"), unique("ann"), unique("eve")
    settings = between(secured, f"topics = {name}")
    stage.source.create_topics([NewTopic(name, 1, 1)])
    assert TopicsTick(stage.source, stage.target, settings).tick().problems == ()
    stage.set_on_source(acl("ALLOW ALL", name, ann), acl("ALLOW WRITE", name, eve), acl("DENY ALL", name, "mallory"))
    west = secured[TARGET]
    seen = {}
    for user in (ann, eve):
        users.add_user(west.bootstrap_servers, user, "secret")
    assert (stage.tick(settings).done, stage.tick(settings).problems) == (2, ())
    copy = f"{SOURCE}.{name}"
    has(stage.target, acl("ALLOW READ", copy, ann), acl("DENY ALL", copy, "mallory"))
    assert acls_of(stage.target) == {acl("ALLOW READ", copy, ann), acl("DENY ALL", copy, "mallory")}
    for user in (ann, eve):
        client = ClusterSettings(TARGET, users.client_properties(west.secured_servers, user, "secret"))
        with wait_until(lambda client=client: logged_in(client), "the user", timeout_seconds=60) as cluster:  # type: ignore[misc]
            seen[user] = copy in cluster.topics([copy])
            changed = cluster.alter_configs({copy: ConfigChange({"retention.ms": "1"})})
            assert changed[0].problem is not None
    assert seen == {ann: True, eve: False}


def logged_in(client: ClusterSettings) -> Cluster | None:
    """A user just added is not known to the broker at once."""
    try:
        return Cluster.connect(client)
    except Exception as problem:
        if "uthentication" in str(problem):
            return None
        raise


def test_prefixes_groups_and_transactional_ids_go_over_when_asked_for(
    stage: Stage, secured: dict[str, EmbeddedCluster], unique: Unique
) -> None:
    """What MirrorMaker lacks (ACL-05), and what it does wrongly (ACL-06)."""
    prefix, group = unique("ord"), unique("billing")
    on_source = (
        acl("ALLOW READ", prefix, "ann", Pattern.PREFIXED),
        acl("ALLOW READ", group, "ann", resource=Resource.GROUP),
        acl("ALLOW WRITE", "till-", "ann", Pattern.PREFIXED, Resource.TRANSACTIONAL_ID),
        acl("ALLOW READ", "*", "bob"),
        acl("DENY ALL", "*", "mallory"),
    )
    stage.set_on_source(*on_source)
    forbidden = acl("DENY ALL", f"{SOURCE}.", "mallory", Pattern.PREFIXED)
    by_default = stage.tick(between(secured))
    assert (by_default.done, by_default.problems, len(by_default.notes)) == (1, (), 3)
    assert [note for note in by_default.notes if "mallory" in note], "whoever is denied is denied at the copies too"
    has(stage.target, forbidden)
    asked = between(
        secured,
        *("mirror.acls.prefixed = true", "mirror.acls.groups = true", "mirror.acls.transactional.ids = true"),
        "mirror.acls.wildcard = all",
    )
    report = stage.tick(asked)
    assert (report.done, report.problems) == (4, ())
    (denied,) = report.notes
    assert "for User:mallory" in denied
    expected = {
        forbidden,
        acl("ALLOW READ", f"{SOURCE}.", "bob", Pattern.PREFIXED),
        acl("ALLOW READ", f"{SOURCE}.{prefix}", "ann", Pattern.PREFIXED),
        *on_source[1:3],
    }
    has(stage.target, *expected)
    assert acls_of(stage.target) == expected
    assert stage.tick(asked).done == 0


def test_what_was_revoked_is_removed_by_a_later_engine_and_what_others_created_is_not(
    stage: Stage, secured: dict[str, EmbeddedCluster], unique: Unique
) -> None:
    """ACL-04 is the default; only what is on record as created here goes."""
    name = unique("orders")
    copy = f"{SOURCE}.{name}"
    stays = acl("ALLOW READ", name, "bob")
    stage.set_on_source(acl("ALLOW ALL", name, "ann"), acl("ALLOW READ", name, "foreign"), stays)
    assert set(create_acls(stage.target, [acl("ALLOW READ", copy, "foreign")]).values()) == {None}
    has(stage.target, acl("ALLOW READ", copy, "foreign"))
    plain, removing = between(secured), between(secured, "mirror.acls.remove.revoked = true")
    assert stage.tick(plain).done == 2
    has(stage.target, acl("ALLOW READ", copy, "ann"), acl("ALLOW READ", copy, "bob"))
    stage.revoke_on_source(acl("ALLOW ALL", name, "ann"), acl("ALLOW READ", name, "foreign"))
    assert (stage.tick(plain).done, stage.tick(removing).done) == (0, 1)
    left = {acl("ALLOW READ", copy, "bob"), acl("ALLOW READ", copy, "foreign")}
    wait_until(lambda: acls_of(stage.target), "the removal", timeout_seconds=60, until=left.__eq__)
    # Should the source lose all of them at once, nobody is locked out of the target.
    stage.revoke_on_source(stays)
    report = stage.tick(removing)
    assert report.done == 0
    assert "set up anew?" in report.problems[0]
    assert acls_of(stage.target) == left


def test_each_acl_that_the_target_refuses_is_named_with_the_right_that_is_missing(
    stage: Stage, secured: dict[str, EmbeddedCluster], unique: Unique
) -> None:
    """ACL-08; and a cluster that does not even tell its ACLs."""
    name, user = unique("orders"), unique("mirror")
    stage.set_on_source(acl("ALLOW READ", name, "ann"), acl("DENY READ", name, "bob"))
    west = secured[TARGET]
    users.add_user(west.bootstrap_servers, user, "secret")
    telling = Acl(
        *(Resource.CLUSTER, Pattern.LITERAL, "kafka-cluster", f"User:{user}", "*"),
        *(Operation.DESCRIBE, Permission.ALLOW),
    )
    client = ClusterSettings(TARGET, users.client_properties(west.secured_servers, user, "secret"))
    with wait_until(lambda: logged_in(client), "the user", timeout_seconds=60) as limited:
        (denied,) = stage.tick(between(secured), limited).problems
        assert denied == (
            f"cluster {TARGET}: reading its ACLs: CLUSTER_AUTHORIZATION_FAILED: needs DESCRIBE on the cluster; grant "
            "it, or set sync.topic.acls.enabled = false"
        )
        assert set(create_acls(stage.target, [telling]).values()) == {None}
        wait_until(lambda: may_tell(limited), "the right to see ACLs", timeout_seconds=60)
        report = stage.tick(between(secured), limited)
        why = "CLUSTER_AUTHORIZATION_FAILED: needs ALTER on the cluster"
        assert sorted(report.problems) == [
            f"cannot create on {TARGET}: ALLOW READ on topic {SOURCE}.{name} for User:ann: {why}",
            f"cannot create on {TARGET}: DENY READ on topic {SOURCE}.{name} for User:bob: {why}",
        ]
        assert report.done == 0
    delete_acls(stage.target, [telling])


def may_tell(cluster: Cluster) -> bool:
    try:
        return isinstance(describe_acls(cluster, [Resource.TOPIC]), AclListing)
    except AccessDenied:
        return False


def test_a_cluster_without_an_authorizer_is_said_and_no_problem(east: Cluster, stage: Stage) -> None:
    """ACL-07, on either end."""
    assert isinstance(describe_acls(east, EVERY_KIND), NoAuthorizer)
    with stage.state() as state:
        for ends, said in (((east, stage.target), "east has no authorizer"), ((stage.source, east), "west has no")):
            report = AclsTick(*ends, stage.settings, *state).tick()
            assert (report.done, report.problems, len(report.notes)) == (0, (), 1)
            assert said in report.notes[0]


def test_the_plan_shows_what_would_be_done_and_does_nothing(
    stage: Stage, secured: dict[str, EmbeddedCluster], unique: Unique, tmp_path: Path
) -> None:
    """`mirror plan`: with reasons; and users whom nobody but a person can create."""
    name, user = unique("orders"), unique("ann")
    stage.source.create_topics([NewTopic(name, 2, 1)])
    users.add_user(secured[SOURCE].bootstrap_servers, user, "secret")
    stage.set_on_source(acl("ALLOW ALL", name, user), acl("ALLOW READ", "*", user))
    more = f"east->west.enabled = true\ntopics = {name}\nmirror.acls.scram.users = true\n"
    file = write(tmp_path / "p", secured[SOURCE].bootstrap_servers, secured[TARGET].bootstrap_servers, more)
    done = in_process("plan", str(file), "--flow", "east->west", "--json")
    assert done.returncode == 0, done.stderr
    (plan,) = json.loads(done.stdout)["flows"]
    assert {"topic": f"{SOURCE}.{name}", "action": "create"}.items() <= plan["topics"][-1].items()
    assert plan["topics"][-1]["cluster"] == TARGET
    create, skip = plan["acls"]
    assert (create["acl"], create["action"]) == (f"ALLOW READ on topic {SOURCE}.{name} for User:{user}", "create")
    assert (skip["action"], "mirror.acls.wildcard = all" in skip["detail"]) == ("skip", True)
    assert [row["user"] for row in plan["users"]] == [user]
    fence, left = plan["notes"]
    assert "is refused by west" in fence
    assert "1 ACL of east is not carried over" in left
    table = mirror("plan", str(file))
    assert "create by hand" in " ".join(table.stdout.split())
    assert acls_of(stage.target) == frozenset()
    assert f"{SOURCE}.{name}" not in stage.target.topics()


def test_the_plan_names_the_topics_that_its_user_may_not_create_and_the_right_for_that(
    stage: Stage, secured: dict[str, EmbeddedCluster], unique: Unique, tmp_path: Path
) -> None:
    """It said that all would be created, and the engine copied nothing; validated only: no topic appears."""
    name, user, west = unique("orders"), unique("mirror"), secured[TARGET]
    stage.source.create_topics([NewTopic(name, 2, 1)])
    users.add_user(west.bootstrap_servers, user, "secret")
    wait_until(lambda: user in scram_users(stage.target), "the user", timeout_seconds=60)
    rights = tuple(acl(f"ALLOW {right}", "*", user) for right in ("READ", "DESCRIBE_CONFIGS"))
    assert set(create_acls(stage.target, rights).values()) == {None}
    has(stage.target, *rights)
    login = users.client_properties(west.secured_servers, user, "secret")
    login.pop("bootstrap.servers")
    more = f"east->west.enabled = true\ntopics = {name}\nsync.topic.acls.enabled = false\n"
    more += "".join(f"west.{key} = {value}\n" for key, value in login.items())
    file = write(tmp_path / "p", secured[SOURCE].bootstrap_servers, west.secured_servers, more)
    before = set(stage.target.topics())
    done = in_process("plan", str(file), "--flow", "east->west", "--json")
    assert done.returncode == 1, done.stderr
    (plan,) = json.loads(done.stdout)["flows"]
    refused = {row["topic"]: row["detail"] for row in plan["topics"] if row["action"] == "problem"}
    assert refused[f"{SOURCE}.{name}"] == (
        f"topic {SOURCE}.{name} on {TARGET} cannot be created: TOPIC_AUTHORIZATION_FAILED: needs Create on the topic, "
        "or on the cluster"
    )
    assert set(stage.target.topics()) == before
    may = acl("ALLOW CREATE", "*", user)
    assert set(create_acls(stage.target, [may]).values()) == {None}
    has(stage.target, may)
    assert in_process("plan", str(file), "--flow", "east->west", "--json").returncode == 0
    assert set(stage.target.topics()) == before


def test_users_and_quotas_of_the_source(stage: Stage, secured: dict[str, EmbeddedCluster], unique: Unique) -> None:
    """Kafka tells no passwords, so who is missing is a problem; quotas go over, but not into what others have set."""
    user = unique("ann")
    settings = between(secured, "mirror.acls.client.quotas = true", "mirror.acls.remove.revoked = true")
    rate, other = (
        QuotaKey((("user", user),), "producer_byte_rate"),
        QuotaKey((("client-id", user),), "consumer_byte_rate"),
    )
    users.add_user(secured[SOURCE].bootstrap_servers, user, "secret")
    wait_until(lambda: user in scram_users(stage.source), "the user", timeout_seconds=60)
    problems = UsersTick(stage.source, stage.target, settings).tick().problems
    assert [text for text in problems if user in text] == [
        f"user {user} cannot log in on {TARGET}: no SCRAM-SHA-256 credentials there; create them by hand"
    ]
    users.add_user(secured[TARGET].bootstrap_servers, user, "secret")
    wait_until(lambda: user in scram_users(stage.target), "the user", timeout_seconds=60)
    assert not any(user in text for text in UsersTick(stage.source, stage.target, settings).tick().problems)
    assert set(alter_client_quotas(stage.source, {rate: 1000.0, other: 7.0}).values()) == {None}
    assert set(alter_client_quotas(stage.target, {other: 9.0}).values()) == {None}
    wait_until(lambda: client_quotas(stage.source).keys() >= {rate, other}, "quotas", timeout_seconds=60)
    wait_until(lambda: other in client_quotas(stage.target), "quotas", timeout_seconds=60)
    with stage.state() as state:
        tick = QuotasTick(stage.source, stage.target, settings, *state).tick
        assert (tick().done, tick().problems) == (1, ())
        wait_until(lambda: client_quotas(stage.target), "it", timeout_seconds=60, until=lambda q: q.get(rate) == 1000.0)
        assert client_quotas(stage.target)[other] == 9.0
        alter_client_quotas(stage.source, {rate: None, other: None})
        wait_until(lambda: rate not in client_quotas(stage.source), "no quota", timeout_seconds=60)
        assert (tick().done, tick().problems) == (1, ())
        wait_until(lambda: client_quotas(stage.target), "it", timeout_seconds=60, until=lambda q: q == {other: 9.0})


@pytest.mark.interop
def test_java_mirrormaker_creates_the_same_acls_but_for_those_on_every_topic(
    stage: Stage, secured: dict[str, EmbeddedCluster], unique: Unique, tmp_path: Path
) -> None:
    """ACL-01 to ACL-06: every operation and permission, literal and prefixed, and other kinds of resources."""
    name = unique("orders")
    stage.source.create_topics([NewTopic(name, 1, 1)])
    operations = ("ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS")
    pairs = [f"{permission} {operation}" for permission in ("ALLOW", "DENY") for operation in operations]
    topics = (
        name,
        f"west.{name}",
        "not-there-yet",
        "mm2-offset-syncs.west.internal",
        "__consumer_offsets",
        "heartbeats",
    )
    stage.set_on_source(
        *(acl(pair, topic, f"ann-{number}") for number, pair in enumerate(pairs) for topic in topics),
        *(acl(pair, name, "bob", Pattern.PREFIXED) for pair in pairs),
        *(acl("ALLOW READ", name, "ann", resource=kind) for kind in (Resource.GROUP, Resource.TRANSACTIONAL_ID)),
        acl("ALLOW READ", "*", "eve"),
        acl("DENY ALL", "*", "mallory"),
    )
    settings = between(secured)
    planned = plan_acls(read_acls(stage.source, stage.target, settings), {}, settings)
    ours = {each.acl for each in planned.of(AclAction.CREATE)}
    bootstraps = secured[SOURCE].bootstrap_servers, secured[TARGET].bootstrap_servers
    more = "east->west.enabled = true\nsync.topic.acls.interval.seconds = 1\n"
    theirs = ours - {acl("DENY ALL", "east.", "mallory", Pattern.PREFIXED)}
    theirs |= {acl("ALLOW READ", "east.*", "eve"), acl("DENY ALL", "east.*", "mallory")}
    java = mm2.start(tmp_path, write(tmp_path / "mm2.properties", *bootstraps, more), owner_pid=os.getpid())
    try:
        wait_until(lambda: acls_of(stage.target), "MirrorMaker's ACLs", timeout_seconds=300, until=theirs.__eq__)
    finally:
        java.terminate(60)


def test_without_rights_on_transactional_ids_an_engine_writes_all_the_same_and_names_the_acl_it_lacks(
    secured: dict[str, EmbeddedCluster], stage: Stage, unique: Unique
) -> None:
    """What users of MirrorMaker's default mode have; with the ACL it gets the fence that refuses (ADR 8)."""
    user, west = unique("mirror"), secured[TARGET]
    users.add_user(west.bootstrap_servers, user, "secret")
    wait_until(lambda: user in scram_users(stage.target), "the user", timeout_seconds=60)
    rights = tuple(acl(f"ALLOW {right}", f"mm2-state.{SOURCE}.internal", user) for right in ("WRITE", "DESCRIBE"))
    assert set(create_acls(stage.target, rights).values()) == {None}
    has(stage.target, *rights)
    client = users.client_properties(west.secured_servers, user, "secret")
    hold = FlowProducers(stage.settings.flow, client, None, slots=1)
    with stage.state() as (log, _):
        log.poll()
        first = hold.take(log).producer
        assert hold.weakness is not None
        assert f"grant Write and Describe on the transactional id {hold.data_id}" in hold.weakness
        log.poll()
        again = hold.take(log).producer
        assert first is not None
        assert again == Producer(first.producer_id, first.epoch + 1)

        better = tuple(
            acl(f"ALLOW {right}", hold.data_id, user, resource=Resource.TRANSACTIONAL_ID)
            for right in ("DESCRIBE", "WRITE")
        )
        with closing(Channel("west", client)) as channel:
            for right, is_denied in zip(better, (True, False), strict=True):
                assert coordinator.is_denied(channel, hold.data_id) is True
                assert set(create_acls(stage.target, [right]).values()) == {None}
                has(stage.target, right)
                # To describe it is not enough; nothing of the id is changed by asking.
                assert coordinator.is_denied(channel, hold.data_id) is is_denied
        log.poll()
        fenced = hold.take(log).producer
        assert hold.weakness is None
        assert fenced is not None
        assert fenced.producer_id != first.producer_id
        assert f"the former producer id {first.producer_id}" in str(hold.note)


def test_with_rights_on_the_ids_of_the_first_tasks_only_plan_and_engine_name_the_acl_that_is_lacking(
    secured: dict[str, EmbeddedCluster], stage: Stage, unique: Unique
) -> None:
    """Exactly once: literal ACLs let the flow begin, until it needs another id."""
    user, west, group = unique("mirror"), secured[TARGET], unique("group")
    users.add_user(west.bootstrap_servers, user, "secret")
    wait_until(lambda: user in scram_users(stage.target), "the user", timeout_seconds=60)
    client = users.client_properties(west.secured_servers, user, "secret")
    login = {key: value for key, value in client.items() if key != "bootstrap.servers"}
    lines = (
        f"west.bootstrap.servers = {west.secured_servers}",
        "topics = none",
        f"west.group.id = {group}",
        *(f"west.{key} = {value}" for key, value in login.items()),
    )
    settings, default = between(secured, "west.exactly.once.source.support = enabled", *lines), between(secured, *lines)
    assert settings.transactions is not None
    prefix = settings.transactions.id_prefix
    lacking = f"on the transactional ids that begin with {prefix} (pattern type PREFIXED)"
    mine = (
        acl("ALLOW ALL", "mm2-state.", user, Pattern.PREFIXED),
        acl("ALLOW ALL", f"{prefix}0", user, resource=Resource.TRANSACTIONAL_ID),
    )
    assert set(create_acls(stage.target, mine).values()) == {None}
    has(stage.target, *mine)

    def take(slots: int) -> tuple[tuple[str, Producer], ...]:
        with stage.state() as (log, _):
            log.poll()
            return FlowProducers(settings.flow, client, settings.transactions, slots=slots).take(log).slots

    assert [each for each, _ in take(1)] == [f"{prefix}0"]
    with pytest.raises(BrokerRefused, match=re.escape(lacking)):
        take(2)
    fence = "grant Write and Describe on the transactional id mm2-state.east.internal.west"
    for each, said in ((settings, lacking), (default, fence)):
        assert any(said in note for note in plan_flow(each, stage.clients).notes)
    better = (
        acl("ALLOW ALL", prefix, user, Pattern.PREFIXED, Resource.TRANSACTIONAL_ID),
        acl("ALLOW ALL", "mm2-state.", user, Pattern.PREFIXED, Resource.TRANSACTIONAL_ID),
    )
    assert set(create_acls(stage.target, better).values()) == {None}
    has(stage.target, *better)
    assert [each for each, _ in take(2)] == [f"{prefix}0", f"{prefix}1"]
    for each, fence in ((settings, "in transactions"), (default, "by the epoch of its producer")):
        assert any(f"is refused by west, {fence}" in note for note in plan_flow(each, stage.clients).notes)
    for each in (settings, default):
        assert not any("transactional id" in note for note in plan_flow(each, stage.clients).notes)
