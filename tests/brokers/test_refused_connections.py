"""Who is not let in by a real broker is told why: user and mechanism, certificate, protocol; never a password."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mirror.config.settings import ClusterSettings
from mirror.kafka.channel import Channel, ConnectionFailed
from mirror.kafka.cluster import Cluster, ClusterUnreachable
from mirror.lab import brokers, clusters, ports, users
from mirror.lab.brokers import EmbeddedCluster
from tests.certificates import self_signed

PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"
SECRET = "wrong-and-secret"


@dataclass(frozen=True)
class Doors:
    """The addresses of one broker, and the certificate that it shows at ``tls``."""

    plain: str
    login: str
    tls: str
    certificate: Path


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """A broker that also speaks TLS, and lets people in by PLAIN and SCRAM-SHA-256."""
    directory = tmp_path_factory.mktemp("doors")
    certificate = new_identity(directory, "127.0.0.1")
    (port,) = ports.choose(1)
    address = f"127.0.0.1:{port}"
    usual = brokers.node_properties

    def with_tls(layout: brokers.ClusterLayout, node: brokers.Node, data: Path) -> dict[str, str]:
        properties = usual(layout, node, data)
        return properties | {
            "listeners": f"{properties['listeners']},TLS://{address}",
            "advertised.listeners": f"{properties['advertised.listeners']},TLS://{address}",
            "listener.security.protocol.map": f"{properties['listener.security.protocol.map']},TLS:SSL",
            "listener.name.tls.ssl.keystore.type": "PEM",
            "listener.name.tls.ssl.keystore.location": str(certificate),
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN",
            "listener.name.secured.plain.sasl.jaas.config": f'{PLAIN_LOGIN} required user_ann="right";',
        }

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(brokers, "node_properties", with_tls)
        lab = clusters.up(directory / "lab", ["east"], owner_pid=os.getpid(), secured=["east"])
    east = lab.clusters["east"]
    assert isinstance(east, EmbeddedCluster)
    users.add_user(east.bootstrap_servers, "ann", "right")
    yield Doors(east.bootstrap_servers, east.secured_servers, address, certificate)
    clusters.down(directory / "lab", discard_data=True)


def new_identity(directory: Path, name: str) -> Path:
    """Make a key and a certificate that signs itself, for an address or a host, in one PEM file."""
    directory.mkdir(exist_ok=True)
    kind = "IP" if name[0].isdigit() else "DNS"
    key, both = self_signed(directory, name, "-addext", f"subjectAltName={kind}:{name}")
    both.write_text(key.read_text() + both.read_text())
    return both


def login(address: str, mechanism: str, user: str, module: str = SCRAM_LOGIN) -> dict[str, str]:
    return {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{user}" password="{SECRET}";',
    }


def tls(address: str, trusted: Path) -> dict[str, str]:
    return {
        "bootstrap.servers": address,
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
    }


CASES = {
    "wrong SCRAM password": (
        lambda doors, _: login(doors.login, "SCRAM-SHA-256", "ann"),
        "authentication failed for user ann with SCRAM-SHA-256: .*invalid credentials",
    ),
    "unknown SCRAM user": (
        lambda doors, _: login(doors.login, "SCRAM-SHA-256", "bob"),
        "authentication failed for user bob with SCRAM-SHA-256",
    ),
    "wrong PLAIN password": (
        lambda doors, _: login(doors.login, "PLAIN", "ann", PLAIN_LOGIN),
        "authentication failed for user ann with PLAIN: .*Invalid username or password",
    ),
    "a mechanism that is not enabled": (
        lambda doors, _: login(doors.login, "SCRAM-SHA-512", "ann"),
        "does not let anybody log in with sasl.mechanism=SCRAM-SHA-512",
    ),
    "a login where there is none": (
        lambda doors, _: login(doors.plain, "SCRAM-SHA-256", "ann"),
        "nobody logs in at this address; should security.protocol be PLAINTEXT",
    ),
    "no login where there is one": (
        lambda doors, _: {"bootstrap.servers": doors.login},
        "hung up on who has not logged in; should security.protocol be SASL_PLAINTEXT",
    ),
    "a certificate that is not trusted": (
        lambda doors, directory: tls(doors.tls, new_identity(directory / "other", "127.0.0.1")),
        "TLS: the broker's certificate is not accepted: .*trust store",
    ),
    "a certificate of another host": (
        lambda doors, _: tls(doors.tls.replace("127.0.0.1", "localhost"), doors.certificate),
        "TLS: the broker's certificate is not accepted: Hostname mismatch.*must name the host",
    ),
    "no TLS where there is some": (
        lambda doors, _: {"bootstrap.servers": doors.tls},
        "this address speaks TLS; should security.protocol be SSL",
    ),
    "TLS where there is none": (
        lambda doors, _: tls(doors.plain, doors.certificate),
        "TLS: no handshake .*PLAINTEXT",
    ),
}


# A broker that is just starting does so, too.
MAY_PASS = {"no login where there is one", "no TLS where there is some", "TLS where there is none"}


@pytest.mark.parametrize("case", CASES)
def test_both_planes_say_why_they_are_not_let_in(doors: Doors, tmp_path: Path, case: str) -> None:
    make, told = CASES[case]
    properties = make(doors, tmp_path)
    with pytest.raises(ClusterUnreachable, match=told) as unreachable:
        Cluster.connect(ClusterSettings("east", properties), timeout_seconds=2)
    assert str(unreachable.value).startswith("cluster east: ")
    assert unreachable.value.is_for_people is (case not in MAY_PASS)
    with pytest.raises(ConnectionFailed, match=told) as failed:
        Channel("east", properties, bootstrap_ms=1_000)
    assert str(failed.value).startswith(f"east: {properties['bootstrap.servers']}: ")
    for each in (unreachable.value, failed.value):
        assert SECRET not in str(each)


def test_who_may_comes_in(doors: Doors) -> None:
    right = login(doors.login, "SCRAM-SHA-256", "ann")
    right["sasl.jaas.config"] = right["sasl.jaas.config"].replace(SECRET, "right")
    for properties in (right, tls(doors.tls, doors.certificate)):
        with Cluster.connect(ClusterSettings("east", properties)) as cluster:
            assert cluster.broker_ids()
        channel = Channel("east", properties)
        channel.close()
