"""Fencing real clusters: with an authorizer nobody but super users writes, without one producers are held back."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka
import pytest

from mirror.config.errors import ConfigError
from mirror.config.resolving import load
from mirror.config.settings import ClusterSettings, MirrorSettings
from mirror.kafka.acls import AclListing, create_acls, delete_acls, describe_acls
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.kafka.users import alter_client_quotas, client_quotas
from mirror.lab import clusters
from mirror.lab.brokers import EmbeddedCluster
from mirror.lab.clusters import Lab
from mirror.model.acl import Acl, Operation, Pattern, Permission, QuotaKey, Resource
from mirror.model.verdict import Verdict
from mirror.recovery import fence
from mirror.recovery.fence import apply_fence, lift_fence, plan_fence, watch_fenced
from mirror.recovery.sentinel import Watched
from mirror.waiting import wait_until
from tests import users
from tests.brokers.command import address, in_process, mirror, write
from tests.brokers.killing import ended_at_each_write

QUIET_SECONDS = 0.5
EVERY = QuotaKey((("client-id", None), ("user", None)), "producer_byte_rate")


def acl(permission: Permission, operation: Operation, topic: str, principal: str) -> Acl:
    return Acl(Resource.TOPIC, Pattern.LITERAL, topic, f"User:{principal}", "*", operation, permission)


@dataclass
class Secured:
    """A cluster whose brokers look up who may do what, and a user who may write to a topic of it."""

    cluster: EmbeddedCluster
    admin: Cluster
    settings: MirrorSettings
    file: Path
    topic: str
    copy: str
    client: dict[str, str]

    @property
    def acls(self) -> frozenset[Acl]:
        listing = describe_acls(self.admin, [Resource.TOPIC])
        assert isinstance(listing, AclListing)
        return listing.acls

    def refusal(self, topic: str) -> str | None:
        """Send a record as the user; return why it was refused, None if it was not."""
        said: list[confluent_kafka.KafkaError | None] = []
        producer = confluent_kafka.Producer(self.client)
        producer.produce(topic, b"record", on_delivery=lambda error, _: said.append(error))
        assert producer.flush(30) == 0
        return said[0].name() if said[0] is not None else None


@pytest.fixture(scope="module")
def east(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    directory = tmp_path_factory.mktemp("fenced")
    lab = clusters.up(directory, ["east"], owner_pid=os.getpid(), secured=["east"])
    found = lab.clusters["east"]
    assert isinstance(found, EmbeddedCluster)
    yield found
    clusters.down(directory, discard_data=True)


@pytest.fixture
def secured(east: EmbeddedCluster, unique: Callable[[str], str], tmp_path: Path) -> Iterator[Secured]:
    topic, user = unique("orders"), unique("ann")
    copy = f"west.{topic}"
    more = "east->west.enabled = true\nwest->east.enabled = true\n"
    file = write(tmp_path / "mirror.properties", east.bootstrap_servers, "127.0.0.1:1", more)
    settings = load(file)
    users.add_user(east.bootstrap_servers, user, "secret")
    login = {
        "bootstrap.servers": east.secured_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": user,
        "sasl.password": "secret",
        "message.timeout.ms": "20000",
    }
    with Cluster.connect(settings.clusters["east"]) as admin:
        admin.create_topics([NewTopic(topic, 2, 1), NewTopic(copy, 1, 1), NewTopic("heartbeats", 1, 1)])
        allowed = {acl(Permission.ALLOW, Operation.ALL, each, user) for each in (topic, copy)}
        assert set(create_acls(admin, allowed).values()) == {None}
        found = Secured(east, admin, settings, file, topic, copy, login)
        wait_until(lambda: found.refusal(topic) is None, "the user to write", timeout_seconds=60)
        yield found
        delete_acls(admin, found.acls)
        admin.delete_topics([topic, copy])


def test_who_may_write_may_not_while_the_cluster_is_fenced_and_may_again_as_before(
    secured: Secured, tmp_path: Path, unique: Callable[[str], str]
) -> None:
    """What somebody has denied before stays denied, and mirrors go on with copies and side topics."""
    before, path, denied = secured.acls, tmp_path / "fence.json", unique("denied")
    secured.admin.create_topics([NewTopic(denied, 1, 1)])
    own = fence.denial(denied)
    assert set(create_acls(secured.admin, [own]).values()) == {None}
    wait_until(lambda: own in secured.acls, "the denial", timeout_seconds=30)

    plan = plan_fence(secured.settings, "east", path, by="ann")
    assert not path.exists()
    assert secured.acls == before | {own}
    assert {secured.topic, denied} <= set(plan.fenced)
    assert {secured.copy, "heartbeats"} <= set(plan.left_open)
    assert own not in plan.record.acls
    found = apply_fence(plan, secured.settings, path, quiet_seconds=QUIET_SECONDS)
    assert (found.verdict, found.problems, found.watched) == (Verdict.PASS, (), Watched())
    assert secured.refusal(secured.topic) == "TOPIC_AUTHORIZATION_FAILED"
    assert secured.refusal(secured.copy) is None
    assert all(each.is_fence for each in secured.acls - before), "what mirrors leave out when they carry ACLs over"

    lifted = lift_fence(secured.settings, "east", path)
    assert (lifted.verdict, lifted.left) == (Verdict.PASS, ())
    assert secured.acls == before | {own}
    assert secured.refusal(secured.topic) is None
    assert not path.exists()


@pytest.mark.parametrize("written", [0, 1])
def test_a_fence_that_was_cut_off_between_two_writes_is_taken_up_or_lifted(
    secured: Secured, tmp_path: Path, unique: Callable[[str], str], written: int
) -> None:
    before, path = secured.acls, tmp_path / "fence.json"
    secured.admin.create_topics([NewTopic(unique("bills"), 1, 1)])
    plan = plan_fence(secured.settings, "east", path, by="ann")
    plan.record.save(path)
    create_acls(secured.admin, plan.record.acls[:written])
    wait_until(lambda: len(secured.acls - before) == written, "what was written", timeout_seconds=30)

    again = plan_fence(secured.settings, "east", path, by="eve")
    assert (again.is_taken_up, again.record) == (True, plan.record)
    assert apply_fence(again, secured.settings, path, quiet_seconds=QUIET_SECONDS).verdict is Verdict.PASS
    assert secured.acls == before | {*plan.record.acls}
    # Cut off again, in the middle of lifting it.
    delete_acls(secured.admin, plan.record.acls[:1])
    assert lift_fence(secured.settings, "east", path).verdict is Verdict.PASS
    assert secured.acls == before


def test_who_lacks_a_right_is_told_which_and_nothing_is_denied_until_then(secured: Secured, tmp_path: Path) -> None:
    record, user = tmp_path / "fence.json", secured.client["sasl.username"]
    login = users.client_properties(secured.cluster.secured_servers, user, "secret")
    file = write(
        tmp_path / "user.properties",
        secured.cluster.secured_servers,
        "127.0.0.1:1",
        "".join(f"east.{key} = {value}\n" for key, value in login.items() if key != "bootstrap.servers")
        + "east->west.enabled = true\nwest->east.enabled = true\n",
    )
    before, rights = secured.acls, []

    def fenced(*options: str) -> tuple[int, str]:
        done = in_process("fence", str(file), "--cluster", "east", "--record", str(record), "--yes", *options)
        return done.returncode, done.stdout + done.stderr

    def grant(operation: Operation) -> None:
        right = Acl(
            Resource.CLUSTER,
            Pattern.LITERAL,
            "kafka-cluster",
            f"User:{user}",
            "*",
            operation,
            Permission.ALLOW,
        )
        rights.append(right)
        assert set(create_acls(secured.admin, [right]).values()) == {None}

        def known() -> bool:
            listing = describe_acls(secured.admin, [Resource.CLUSTER])
            return isinstance(listing, AclListing) and right in listing.acls

        wait_until(known, "the right", timeout_seconds=60)

    try:
        code, said = fenced()
        assert (code, "needs DESCRIBE on the cluster" in said, record.exists()) == (3, True, False), said
        grant(Operation.DESCRIBE)
        code, said = fenced()
        assert (code, "needs ALTER on the cluster" in " ".join(said.split()), secured.acls) == (1, True, before), said
        assert f"mirror fence {file} --cluster east --lift --record {record}" in said
        # What it wanted is on record, so it is taken up, and lifted whole.
        grant(Operation.ALTER)
        code, said = fenced("--json")
        assert (code, fence.denial(secured.topic) in secured.acls) == (0, True), said
        assert (fenced("--lift")[0], secured.acls, record.exists()) == (0, before, False)
    finally:
        delete_acls(secured.admin, rights)


@pytest.mark.long
def test_a_fence_that_is_killed_at_each_write_is_put_up_and_lifted_whole(secured: Secured, tmp_path: Path) -> None:
    before, record = secured.acls, tmp_path / "fence.json"
    argv = ("fence", str(secured.file), "--cluster", "east", "--record", str(record), "--yes")
    *killed, last = ended_at_each_write(argv, tmp_path / "up")
    assert last.code == 0, last.said
    assert {"no step: before create_acls", "no step: after create_acls"} <= {each.at for each in killed}
    assert fence.denial(secured.topic) in secured.acls - before
    *killed, last = ended_at_each_write((*argv, "--lift"), tmp_path / "down")
    assert last.code == 0, last.said
    assert {"no step: before delete_acls", "no step: after delete_acls"} <= {each.at for each in killed}
    assert secured.acls == before
    assert not record.exists()


@pytest.mark.long
def test_who_writes_on_as_a_super_user_is_named(
    secured: Secured, tmp_path: Path, unique: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By producer id and transactional id, where they have one; brokers tell nothing of the others."""
    monkeypatch.setattr(fence, "_MOST_WAIT_SECONDS", 1.0)
    free, path, transactional_id = secured.cluster.bootstrap_servers, tmp_path / "fence.json", unique("shop")
    over, begun = threading.Event(), threading.Event()

    def write_on() -> None:
        named = confluent_kafka.Producer({"bootstrap.servers": free, "transactional.id": transactional_id})
        named.init_transactions(30)
        plain = confluent_kafka.Producer({"bootstrap.servers": free})
        while not over.is_set():
            named.begin_transaction()
            named.produce(secured.topic, b"record", partition=0)
            named.commit_transaction(30)
            plain.produce(secured.topic, b"record", partition=1)
            plain.flush(30)
            begun.set()

    writing = threading.Thread(target=write_on)
    writing.start()
    try:
        wait_until(begun.is_set, "the first records", timeout_seconds=60)
        plan = plan_fence(secured.settings, "east", path, by="ann")
        found = apply_fence(plan, secured.settings, path, quiet_seconds=4.0)
        done = mirror("fence", str(secured.file), "--cluster", "east", "--record", str(path), "--watch", "2", "--json")
    finally:
        over.set()
        writing.join()
    assert found.verdict is Verdict.FAIL
    written = {each["partition"]: each for each in found.watched.as_json("east") if each["topic"] == secured.topic}
    assert [each["transactional_id"] for each in written[0]["producers"]] == [transactional_id]
    assert written[1]["producers"] == []
    assert any("a client without a producer id" in said for said in found.watched.messages())
    watched = json.loads(done.stdout)
    assert (done.returncode, watched["verdict"]) == (1, "FAIL")
    assert {(each["topic"], each["partition"]) for each in watched["still_written"]} == {
        (secured.topic, 0),
        (secured.topic, 1),
    }
    (who,) = next(each["producers"] for each in watched["still_written"] if each["partition"] == 0)
    assert who["producer_id"] >= 0
    assert (who["transactional_id"], who["client_id"], who["address"]) == (transactional_id, None, None)
    plan = plan_fence(secured.settings, "east", path, by="ann")
    assert watch_fenced(plan, secured.settings, QUIET_SECONDS) == Watched()
    assert lift_fence(secured.settings, "east", path).verdict is Verdict.PASS


def test_the_record_of_another_cluster_is_refused_and_so_is_a_second_one(
    secured: Secured, settings_of: Callable[[str], ClusterSettings], tmp_path: Path
) -> None:
    path = tmp_path / "fence.json"
    plan = plan_fence(secured.settings, "east", path, by="ann")
    plan.record.save(path)
    with pytest.raises(ConfigError, match=r"fence\.json"):
        plan.record.save(path)
    other = write(
        tmp_path / "other.properties",
        settings_of("west").client["bootstrap.servers"],
        "127.0.0.1:1",
        "east->west.enabled = true\n",
    )
    with pytest.raises(ConfigError, match="is the record of a fence of the cluster"):
        lift_fence(load(other), "east", path)


@pytest.mark.long
def test_without_an_authorizer_producers_are_held_back_and_limits_come_back_as_they_were(
    east_west: Lab, west: Cluster, unique: Callable[[str], str], tmp_path: Path
) -> None:
    """A broker takes a request of each connection before it holds it back, so that is no fence, and not said to be."""
    topic, own = unique("orders"), QuotaKey((("client-id", unique("shop")),), "producer_byte_rate")
    limit = QuotaKey((("client-id", unique("shop")),), "consumer_byte_rate")
    west.create_topics([NewTopic(topic, 1, 1)])
    assert set(alter_client_quotas(west, {own: 5e6, limit: 7e6}).values()) == {None}
    wait_until(lambda: client_quotas(west).get(own) == 5e6, "the quota", timeout_seconds=30)
    before = client_quotas(west)
    file = write(
        tmp_path / "mirror.properties",
        address(east_west, "east"),
        address(east_west, "west"),
        "east->west.enabled = true\n",
    )
    path = tmp_path / "fence.json"

    def command(*argv: str) -> tuple[int, dict[str, object]]:
        done = mirror("fence", str(file), "--cluster", "west", "--record", str(path), "--json", *argv)
        return done.returncode, json.loads(done.stdout)

    code, planned = command("--dry-run")
    assert (code, planned["by"], path.exists()) == (0, "quotas", False)
    assert client_quotas(west) == before
    assert mirror("fence", str(file), "--cluster", "west").returncode == 2
    assert mirror("fence", str(file), "--cluster", "nowhere", "--yes").returncode == 2
    try:
        code, found = command("--yes")
        assert (code, found["verdict"], found["problems"]) == (1, "UNKNOWN", [])
        assert client_quotas(west) == before | {EVERY: 1.0, own: 1.0}

        sent: list[object] = []
        address_of_west = {"bootstrap.servers": address(east_west, "west"), "message.timeout.ms": "300000"}
        producer = confluent_kafka.Producer({**address_of_west, "linger.ms": 0})
        for _ in range(3):
            producer.produce(topic, b"x" * 1_000, on_delivery=lambda *_: sent.append(None))
            producer.flush(2)
        assert len(sent) == 1, "the first of a connection is taken, the next wait"
        other = confluent_kafka.Producer(address_of_west)
        other.produce(topic, b"x" * 1_000)
        assert other.flush(60) == 0, "and so is the first of another one"
        for each in (producer, other):
            each.purge()
            each.flush(5)
    finally:
        code, lifted = command("--lift", "--yes")
    assert (code, lifted["verdict"]) == (0, "PASS")
    wait_until(lambda: client_quotas(west) == before, "the limits as before", timeout_seconds=30)
    assert set(alter_client_quotas(west, {own: None, limit: None}).values()) == {None}
