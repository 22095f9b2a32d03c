"""Kerberos with a real KDC of MIT's: principals and key tables come from the file alone; behind ``make test-kerberos``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from mirror.config.settings import ClusterSettings
from mirror.control.tick import now_ms
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.kafka.log import LogWriter, read_records
from mirror.kafka.problems import ClusterUnreachable
from mirror.lab import brokers, clusters, ports, processes
from mirror.lab.clusters import Lab
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests.brokers.command import address, write

pytestmark = pytest.mark.kerberos

REALM = "EXAMPLE.COM"
KRB5_LOGIN = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true"
# What Debian's packages put where only root's PATH leads.
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"


@dataclass(frozen=True)
class Realm:
    """A key distribution centre that runs, its ``krb5.conf``, and the folder of its key tables."""

    configuration: Path
    directory: Path
    environment: dict[str, str]

    def key_table(self, principal: str) -> Path:
        """Make a principal and its key table."""
        table = self.directory / f"{principal.replace('/', '-')}.keytab"
        self.admin(f"addprinc -randkey {principal}")
        self.admin(f"ktadd -k {table} {principal}")
        return table

    def tickets_of(self, principal: str) -> int:
        """Count how often a principal was let in at the KDC."""
        log = (self.directory / "kdc.log").read_text()
        return len(re.findall(rf"AS_REQ .*: ISSUE: .*{principal}@", log))

    def admin(self, query: str) -> None:
        run(self.environment, "kadmin.local", "-r", REALM, "-q", query)


def run(environment: dict[str, str], *argv: str) -> None:
    program = shutil.which(argv[0], path=PATH)
    assert program is not None, f"{argv[0]} is missing: apt-get install krb5-kdc krb5-admin-server krb5-user"
    subprocess.run([program, *argv[1:]], env=os.environ | environment, check=True, capture_output=True)


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    """A realm of its own on this machine."""
    directory = tmp_path_factory.mktemp("kdc")
    (port,) = ports.choose(1)
    configuration, kdc = directory / "krb5.conf", directory / "kdc.conf"
    configuration.write_text(
        f"[libdefaults]\n default_realm = {REALM}\n rdns = false\n dns_canonicalize_hostname = false\n"
        " dns_lookup_kdc = false\n dns_uri_lookup = false\n"
        # Tickets end while connections go on, so that new ones are got.
        " ticket_lifetime = 10s\n udp_preference_limit = 1\n"
        f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
    )
    kdc.write_text(
        f"[kdcdefaults]\n kdc_listen = 127.0.0.1:{port}\n kdc_tcp_listen = 127.0.0.1:{port}\n"
        f"[realms]\n {REALM} = {{\n  database_name = {directory}/principal\n  key_stash_file = {directory}/stash\n"
        f"  acl_file = {directory}/acl\n  max_life = 10s\n }}\n[logging]\n kdc = FILE:{directory}/kdc.log\n"
    )
    environment = {"KRB5_CONFIG": str(configuration), "KRB5_KDC_PROFILE": str(kdc)}
    run(environment, "kdb5_util", "create", "-s", "-r", REALM, "-P", "of-the-database")
    program = shutil.which("krb5kdc", path=PATH)
    assert program is not None
    server = processes.start(directory, "krb5kdc", [program, "-n"], env=environment, owner_pid=os.getpid())
    yield Realm(configuration, directory, environment)
    assert server.terminate(60)


@pytest.fixture(scope="module")
def kerberized(realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lab, dict[str, str]]]:
    """East and west, each with a listener for Kerberos at the host's name; the addresses of those."""
    directory = tmp_path_factory.mktemp("lab")
    table = realm.key_table("kafka/localhost")
    usual, addresses = brokers.node_properties, {}

    def with_kerberos(layout: brokers.ClusterLayout, node: brokers.Node, data: Path) -> dict[str, str]:
        properties = usual(layout, node, data)
        (port,) = ports.choose(1)
        addresses[layout.alias] = f"localhost:{port}"
        more = f"KRB://localhost:{port}"
        return properties | {
            "listeners": f"{properties['listeners']},{more}",
            "advertised.listeners": f"{properties['advertised.listeners']},{more}",
            "listener.security.protocol.map": f"{properties['listener.security.protocol.map']},KRB:SASL_PLAINTEXT",
            "listener.name.krb.sasl.enabled.mechanisms": "GSSAPI",
            "listener.name.krb.sasl.kerberos.service.name": "kafka",
            "listener.name.krb.gssapi.sasl.jaas.config": (
                f'{KRB5_LOGIN} storeKey=true keyTab="{table}" principal="kafka/localhost@{REALM}";'
            ),
            # Who goes on logs in again, with tickets that have ended meanwhile.
            "connections.max.reauth.ms": "4000",
            "super.users": f"User:ANONYMOUS;User:mirror-{layout.alias}",
        }

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(brokers, "node_properties", with_kerberos)
        patched.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={realm.configuration}")
        lab = clusters.up(directory, ["east", "west"], owner_pid=os.getpid(), secured=["east", "west"])
    yield lab, addresses
    clusters.down(directory, discard_data=True)


@pytest.fixture(autouse=True)
def kafka_opts(realm: Realm, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an operator of Kafka's programs has set; nothing that only this engine would need."""
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.krb5.conf={realm.configuration}")
    monkeypatch.setenv("KRB5_CONFIG", str(realm.configuration))


def login(where: str, table: Path, principal: str) -> dict[str, str]:
    return {
        "bootstrap.servers": where,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": f'{KRB5_LOGIN} keyTab="{table}" principal="{principal}@{REALM}";',
    }


def test_each_cluster_of_a_file_has_its_own_principal_and_a_flow_outlives_its_tickets(
    realm: Realm, kerberized: tuple[Lab, dict[str, str]], tmp_path: Path
) -> None:
    """Nobody but ``mirror-east`` may do anything on east, and ``mirror-west`` on west."""
    lab, addresses = kerberized
    tables = {alias: realm.key_table(f"mirror-{alias}") for alias in addresses}
    ways = {alias: login(where, tables[alias], f"mirror-{alias}") for alias, where in addresses.items()}
    plain = {alias: {"bootstrap.servers": address(lab, alias)} for alias in addresses}
    with Cluster.connect(ClusterSettings("east", plain["east"])) as east:
        east.create_topics([NewTopic("orders", 1, 1, {})])
    more = "".join(
        f"{alias}.{key} = {value}\n"
        for alias, way in ways.items()
        for key, value in way.items()
        if key != "bootstrap.servers"
    )
    file = write(
        tmp_path / "mm2.properties", addresses["east"], addresses["west"], f"{more}east->west.enabled = true\n"
    )
    argv = ["env", "--unset=KRB5_CONFIG", sys.executable, "-m", "mirror", "run", str(file)]
    engine = processes.start(tmp_path, "engine", argv, owner_pid=os.getpid())
    copy = TopicPartition("east.orders", 0)
    try:
        with (
            closing(LogWriter(plain["east"], alias="east")) as writer,
            Cluster.connect(ClusterSettings("west", plain["west"])) as west,
        ):
            for number in range(3):
                writer.append("orders", 0, [(None, str(number).encode(), (), now_ms())])
                wait_until(
                    lambda number=number: (
                        copy.topic in west.topics([copy.topic]) and west.offsets([copy], "latest")[copy] > number
                    ),
                    f"record {number} on west; {list(west.topics())}",
                    timeout_seconds=60,
                )
                issued = realm.tickets_of("mirror-west")
                wait_until(
                    lambda issued=issued: realm.tickets_of("mirror-west") > issued,
                    "another ticket, because the one before ends",
                    timeout_seconds=60,
                )
    finally:
        assert engine.terminate(60)
    assert engine.return_code() == 0, engine.log_tail()
    found = [record.value for record in read_records(plain["west"], copy, 0, 3)]
    assert found == [str(number).encode() for number in range(3)]
    assert "ERROR" not in engine.log_tail()


def test_both_planes_take_a_ticket_that_somebody_got_by_kinit(
    realm: Realm, kerberized: tuple[Lab, dict[str, str]], tmp_path: Path
) -> None:
    """As a person at a terminal has it, named by a file of logins."""
    _, addresses = kerberized
    table, cache = realm.key_table("person"), tmp_path / "tickets"
    run(realm.environment, "kinit", "-c", f"FILE:{cache}", "-k", "-t", str(table), "person")
    way = login(addresses["east"], table, "person")
    way["sasl.jaas.config"] = (
        f'com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true ticketCache="{cache}";'
    )
    with Cluster.connect(ClusterSettings("east", way)) as east:
        assert east.broker_ids()


@pytest.mark.parametrize(
    ("table", "principal", "said"),
    [
        (
            "nobody.keytab",
            "person-2",
            "no ticket for kafka@localhost for person-2@EXAMPLE.COM with .*nobody.keytab: the key table cannot be read",
        ),
        (None, "somebody-else", "no ticket for kafka@localhost for somebody-else@EXAMPLE.COM"),
    ],
)
def test_who_gets_no_ticket_is_told_for_whom_and_with_what(
    realm: Realm, kerberized: tuple[Lab, dict[str, str]], table: str | None, principal: str, said: str
) -> None:
    _, addresses = kerberized
    keys = realm.directory / table if table else realm.key_table("known")
    with pytest.raises(ClusterUnreachable, match=f"authentication failed with GSSAPI: {said}"):
        Cluster.connect(ClusterSettings("east", login(addresses["east"], keys, principal)), timeout_seconds=3)
