"""`mirror failover --fence` and home again, on clusters that look at ACLs: denied for a while, and exactly as before."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from mirror.config.resolving import load
from mirror.config.settings import ClusterSettings
from mirror.control.status import observe
from mirror.evidence.run_directory import RunDirectory
from mirror.kafka.acls import AclListing, create_acls, describe_acls
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.lab import clusters, processes
from mirror.lab.brokers import EmbeddedCluster
from mirror.model.acl import Acl, Operation, Pattern, Permission, Resource
from mirror.model.flow import Flow
from mirror.recovery.denying import ADMIT, DENY
from mirror.waiting import wait_until
from tests import users
from tests.brokers.command import FACTORS, mirror, status_of

IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
SHOP, MIRROR, GROUP, TOPIC = "shop", "mirror", "billing", "orders"
RESOURCES = (Resource.TOPIC, Resource.GROUP, Resource.CLUSTER, Resource.TRANSACTIONAL_ID)


@dataclass
class Site:
    """A secured cluster, as its users and its administrator see it."""

    alias: str
    cluster: EmbeddedCluster

    @property
    def usual(self) -> str:
        """Addresses at which everybody is a super user."""
        return self.cluster.bootstrap_servers

    def client(self, user: str) -> dict[str, str]:
        return {
            "bootstrap.servers": self.cluster.secured_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": user,
            "sasl.password": "secret",
            "message.timeout.ms": "20000",
        }

    def acls(self) -> frozenset[Acl]:
        with Cluster.connect(ClusterSettings(self.alias, {"bootstrap.servers": self.usual})) as admin:
            found = describe_acls(admin, list(RESOURCES))
        assert isinstance(found, AclListing)
        return frozenset(found.acls)

    def sends(self, client: dict[str, str], count: int = 1, topic: str = TOPIC) -> bool:
        """Send records; tell whether they are taken."""
        said: list[confluent_kafka.KafkaError | None] = []
        producer = confluent_kafka.Producer(client)
        for number in range(count):
            producer.produce(topic, b"%d" % number, on_delivery=lambda error, _: said.append(error))
        assert producer.flush(60) == 0
        return not any(said)

    def reads(self, topic: str, count: int) -> None:
        """Have the group read so many records of a topic, and commit what it has read."""
        reader = confluent_kafka.Consumer(
            {key: value for key, value in self.client(SHOP).items() if key != "message.timeout.ms"}
            | {"group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": "false"}
        )
        try:
            reader.subscribe([topic])
            seen: list[Any] = []
            wait_until(
                lambda: seen.extend(each for each in reader.consume(50, 1.0) if each.error() is None) or len(seen),
                "records",
                timeout_seconds=60,
                until=lambda found: found >= count,
            )
            reader.commit(asynchronous=False)
        finally:
            reader.close()


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[dict[str, Site]]:
    directory, aliases = tmp_path / "clusters", ["east", "west"]
    lab = clusters.up(directory, aliases, owner_pid=os.getpid(), secured=aliases)
    found = {}
    for alias in aliases:
        cluster = lab.clusters[alias]
        assert isinstance(cluster, EmbeddedCluster)
        site = found[alias] = Site(alias, cluster)
        for user in (SHOP, MIRROR):
            users.add_user(site.usual, user, "secret")
        with Cluster.connect(ClusterSettings(alias, {"bootstrap.servers": site.usual})) as admin:
            assert not [each.problem for each in admin.create_topics([NewTopic(TOPIC, 1, 1)]) if each.problem]
            rights = [_right(MIRROR, each, Operation.ALL) for each in RESOURCES]
            rights += [_right(SHOP, Resource.TOPIC, each) for each in (Operation.READ, Operation.WRITE)]
            assert set(create_acls(admin, [*rights, _right(SHOP, Resource.GROUP, Operation.READ)]).values()) == {None}
    yield found
    clusters.down(directory, discard_data=True)


def _right(user: str, resource: Resource, operation: Operation) -> Acl:
    name = "kafka-cluster" if resource is Resource.CLUSTER else "*"
    return Acl(resource, Pattern.LITERAL, name, f"User:{user}", "*", operation, Permission.ALLOW)


def command(what: str, file: Path, *options: str) -> tuple[int, Any]:
    done = mirror(what, str(file), *options, timeout_seconds=400)
    return done.returncode, json.loads(done.stdout) if done.stdout.startswith("{") else done.stdout + done.stderr


def denials(acls: frozenset[Acl]) -> list[tuple[str, str, Operation]]:
    return sorted((each.name, each.principal, each.operation) for each in acls if each.permission is Permission.DENY)


@pytest.mark.soak
@pytest.mark.parametrize("names", ["", IDENTITY], ids=["copies have other names", "names unchanged"])
def test_writes_are_denied_there_and_admitted_at_home_exactly_as_before(
    sites: dict[str, Site], tmp_path: Path, names: str
) -> None:
    """The mirror's user is no super user: under unchanged names the copy home writes to what is denied."""
    east, west = sites["east"], sites["west"]
    lines = ["clusters = east, west", "east->west.enabled = true", "west->east.enabled = true", f"topics = {TOPIC}"]
    lines += [
        f"{site.alias}.{key} = {value}"
        for site in sites.values()
        for key, value in users.client_properties(site.cluster.secured_servers, MIRROR, "secret").items()
    ]
    file = tmp_path / "mirror.properties"
    file.write_text(
        "\n".join(lines)
        + f"\nemit.checkpoints.interval.seconds = 1\nsync.topic.acls.interval.seconds = 1\n{FACTORS}{names}"
    )
    applications = tmp_path / "applications.toml"
    # They are at work when the test has them send and read, which is later.
    now = "import json, time; now = time.time_ns() // 1_000_000; "
    says = f'print(json.dumps({{"first_write_at_ms": now, "groups": {{"{GROUP}": now}}}}))'
    at_work = json.dumps([sys.executable, "-c", now + says])
    applications.write_text(
        "".join(f'[clusters.{each}]\nstop = "true"\nstart = "true"\nprobe = {at_work}\n' for each in sites)
    )
    engine = processes.start(
        tmp_path, "engine", [sys.executable, "-m", "mirror", "run", str(file)], owner_pid=os.getpid()
    )

    def await_flow(flow: str) -> None:
        def state() -> tuple[str, set[str]]:
            with observe(load(file), {Flow.parse(flow)}) as (observer,):
                found = observer.look()
            return found.state, {each.topic for each in found.partitions}

        wait_until(
            state, f"{flow} to run", timeout_seconds=120, until=lambda seen: seen[0] == "RUNNING" and TOPIC in seen[1]
        )

    run = tmp_path / "run"
    common = (
        "--flow",
        "east->west",
        "--applications",
        str(applications),
        "--run-directory",
        str(run),
        "--yes",
        "--json",
    )
    try:
        wait_until(lambda: east.sends(east.client(SHOP), 200), "the user to write", timeout_seconds=60)
        east.reads(TOPIC, 200)
        await_flow("east->west")
        await_flow("west->east")
        before = {alias: site.acls() for alias, site in sites.items()}
        assert [denials(each) for each in before.values()] == [[], []]

        code, found = command("failover", file, "--mode", "planned", "--fence", *common)
        assert (code, found["verdict"]) == (0, "PASS"), found
        assert [each["verdict"] for each in found["steps"] if each["name"] == DENY] == ["PASS"]
        assert denials(east.acls()) == [(TOPIC, "User:*", Operation.WRITE)]
        assert denials(west.acls()) == [], "the denial is not mirrored"
        assert (east.acls() >= before["east"], (run / "fence.json").exists()) == (True, True)
        assert not east.sends(east.client(SHOP)), "who is denied"
        assert east.sends({"bootstrap.servers": east.usual}), "who is a super user is not"
        assert west.sends(west.client(SHOP), 100)
        west.reads(TOPIC, 1)
        await_flow("west->east")

        code, found = command("failback", file, *common)
        assert code == 0, found
        assert sum(each["to"] - each["from"] for each in found["stranded"]) == 1, "what the super user has written"
        assert [each["verdict"] for each in found["steps"] if each["name"] == ADMIT] == ["PASS"]
        assert {alias: denials(site.acls()) for alias, site in sites.items()} == {"east": [], "west": []}
        assert east.acls() == before["east"]
        assert not (run / "fence.json").exists()
        assert RunDirectory(run / "failback").journal.read().problem is None
        assert east.sends(east.client(SHOP))
        assert west.sends(west.client(SHOP))
        assert {each["state"] for each in status_of(file)} == {"RUNNING"}
    finally:
        engine.kill()
