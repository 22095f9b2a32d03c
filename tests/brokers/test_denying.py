"""A failover that denies writes to its source: verified, taken back exactly, and honest where it cannot."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from mirror.config.resolving import load
from mirror.config.settings import ClusterSettings, MirrorSettings
from mirror.kafka.acls import AclListing, create_acls, describe_acls
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.lab import clusters
from mirror.lab.brokers import EmbeddedCluster
from mirror.model.acl import Acl, Operation, Pattern, Permission, Resource
from mirror.recovery.denying import AclDenying, denied_topics
from mirror.waiting import wait_until
from tests import users
from tests.brokers.command import FACTORS

USER = "shop"


@pytest.fixture
def east(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    directory = tmp_path / "east"
    found = clusters.up(directory, ["east"], owner_pid=os.getpid(), secured=["east"]).clusters["east"]
    assert isinstance(found, EmbeddedCluster)
    yield found
    clusters.down(directory, discard_data=True)


def properties(path: Path, bootstrap: str) -> MirrorSettings:
    path.write_text(
        f"clusters = east, west\neast.bootstrap.servers = {bootstrap}\nwest.bootstrap.servers = 127.0.0.1:1\n"
        f"east->west.enabled = true\ntopics = orders\n{FACTORS}"
    )
    return load(path)


def acls(cluster: Cluster) -> frozenset[Acl]:
    found = describe_acls(cluster, [Resource.TOPIC])
    assert isinstance(found, AclListing)
    return frozenset(found.acls)


def sends(client: dict[str, str], topic: str) -> bool:
    """Whether a record is taken."""
    said: list[confluent_kafka.KafkaError | None] = []
    producer = confluent_kafka.Producer(client)
    producer.produce(topic, b"record", on_delivery=lambda error, _: said.append(error))
    assert producer.flush(30) == 0
    return said[0] is None


def test_only_what_the_flow_copies_is_denied_and_admitted_again_exactly(east: EmbeddedCluster, tmp_path: Path) -> None:
    users.add_user(east.bootstrap_servers, USER, "secret")
    client = {
        "bootstrap.servers": east.secured_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": USER,
        "sasl.password": "secret",
        "message.timeout.ms": "20000",
    }
    settings = properties(tmp_path / "mirror.properties", east.bootstrap_servers)
    (flow,) = settings.enabled_flows
    denying = AclDenying(settings, flow, tmp_path / "fence.json")
    with Cluster.connect(ClusterSettings("east", {"bootstrap.servers": east.bootstrap_servers})) as admin:
        admin.create_topics([NewTopic("orders", 1, 1), NewTopic("other", 1, 1)])
        allowed = [
            Acl(Resource.TOPIC, Pattern.LITERAL, "*", f"User:{USER}", "*", each, Permission.ALLOW)
            for each in (Operation.WRITE, Operation.DESCRIBE)
        ]
        assert set(create_acls(admin, allowed).values()) == {None}
        wait_until(lambda: sends(client, "orders"), "the user to write", timeout_seconds=60)
        before = acls(admin)
        assert any("DENY WRITE for everybody on 1 topic of east" in each for each in denying.plan())
        assert acls(admin) == before
        found = denying.deny()
        assert (found.is_denied, found.still_written) == (True, ())
        assert (sends(client, "orders"), sends(client, "other")) == (False, True)
        assert denied_topics(settings, flow) == ["orders"]
        assert denying.deny().is_denied, "a run that was taken up denies once more"
        assert "exactly as before" in denying.admit()
        assert (acls(admin), sends(client, "orders"), denied_topics(settings, flow)) == (before, True, [])
        assert denying.admit() == "nothing is denied on east"


def test_without_an_authorizer_or_the_right_to_it_is_said_what_is_in_force(
    mortal: clusters.LabCluster, east: EmbeddedCluster, tmp_path: Path
) -> None:
    bare = properties(tmp_path / "bare.properties", mortal.bootstrap_servers)
    denying = AclDenying(bare, bare.enabled_flows[0], tmp_path / "bare.json")
    found = denying.deny()
    assert not found.is_denied
    assert "east has no authorizer, so nothing is denied; in force is only that its applications were" in found.detail
    assert not (tmp_path / "bare.json").exists()
    assert any("has no authorizer" in each for each in denying.plan())

    users.add_user(east.bootstrap_servers, USER, "secret")
    path = tmp_path / "user.properties"
    path.write_text(
        "clusters = east, west\nwest.bootstrap.servers = 127.0.0.1:1\neast->west.enabled = true\ntopics = orders\n"
        + "".join(
            f"east.{key} = {value}\n"
            for key, value in users.client_properties(east.secured_servers, USER, "secret").items()
        )
        + FACTORS
    )
    weak = load(path)
    denying = AclDenying(weak, weak.enabled_flows[0], tmp_path / "weak.json")
    found = denying.deny()
    assert (found.is_denied, "authoriz" in found.detail.lower(), "in force is only" in found.detail) == (
        False,
        True,
        True,
    )
