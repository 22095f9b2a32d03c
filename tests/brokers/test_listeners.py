"""Every way to log in that Kafka has, at a real broker: who may writes and reads, who may not is told why."""

from __future__ import annotations

import base64
import http.server
import json
import math
import os
import re
import shutil
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import ScramMechanism

from mirror.config.settings import ClusterSettings
from mirror.control.tick import now_ms
from mirror.copier import links
from mirror.history.reading import read_history
from mirror.kafka.channel import Channel
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import NewTopic
from mirror.kafka.log import LogWriter, read_records
from mirror.kafka.problems import ClusterUnreachable, ConnectionFailed
from mirror.kafka.security import UnsecuredTokens, without_files
from mirror.kafka.versions import FETCH
from mirror.lab import brokers, clusters, ports, processes
from mirror.lab.brokers import EmbeddedCluster
from mirror.lab.processes import ManagedProcess
from mirror.model.partition import TopicPartition
from mirror.waiting import wait_until
from tests import users
from tests.brokers.command import mirror
from tests.brokers.copying import ends_of
from tests.brokers.engines import PARTITIONS, Engines, asked, started_by, texts_below
from tests.certificates import self_signed

PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH_LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
SECRET = "wrong-and-secret"
KNOWN_TO_NOBODY = "Kn0wn-to-nobody"
# Looking for the right one finds it too.
WRONG = f"{KNOWN_TO_NOBODY}-nor-to-the-broker"
TOPIC = "orders"


@dataclass(frozen=True)
class Doors:
    """The addresses of one broker, the certificate that it shows with TLS, and the one that it asks for at ``mutual``.

    At ``both`` it asks for a login, too.
    """

    plain: str
    login: str
    tls: str
    mutual: str
    both: str
    scram_256_only: str
    certificate: Path
    client: Path


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """A broker that also speaks TLS, with and without a certificate of the client, and knows all but Kerberos."""
    directory = tmp_path_factory.mktemp("doors")
    certificate = new_identity(directory, "127.0.0.1")
    client = new_identity(directory / "client", "ann")
    address, mutual, both, only = (f"127.0.0.1:{port}" for port in ports.choose(4))
    usual = brokers.node_properties

    def with_tls(layout: brokers.ClusterLayout, node: brokers.Node, data: Path) -> dict[str, str]:
        properties = usual(layout, node, data)
        more = f"TLS://{address},MUTUAL://{mutual},BOTH://{both},ONLY://{only}"
        usual_protocols = properties["listener.security.protocol.map"]
        protocols = f"{usual_protocols},TLS:SSL,MUTUAL:SSL,BOTH:SASL_SSL,ONLY:SASL_PLAINTEXT"
        return properties | {
            "listeners": f"{properties['listeners']},{more}",
            "advertised.listeners": f"{properties['advertised.listeners']},{more}",
            "listener.security.protocol.map": protocols,
            "listener.name.only.sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "listener.name.only.scram-sha-256.sasl.jaas.config": f"{SCRAM_LOGIN} required;",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(certificate),
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.mutual.ssl.truststore.type": "PEM",
            "listener.name.mutual.ssl.truststore.location": str(client),
            "listener.name.both.ssl.client.auth": "required",
            "listener.name.both.ssl.truststore.type": "PEM",
            "listener.name.both.ssl.truststore.location": str(client),
            "listener.name.both.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.both.plain.connections.max.reauth.ms": "0",
            "listener.name.both.plain.sasl.jaas.config": f'{PLAIN_LOGIN} required user_ann="{KNOWN_TO_NOBODY}";',
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN,OAUTHBEARER",
            "listener.name.secured.scram-sha-512.sasl.jaas.config": f"{SCRAM_LOGIN} required;",
            # Sessions are short: who goes on must log in again.
            "connections.max.reauth.ms": "2000",
            "super.users": "User:ANONYMOUS;User:ann;User:CN=broker",
            "listener.name.secured.plain.sasl.jaas.config": f'{PLAIN_LOGIN} required user_ann="right";',
        }

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(brokers, "node_properties", with_tls)
        lab = clusters.up(directory / "lab", ["east"], owner_pid=os.getpid(), secured=["east"])
    east = lab.clusters["east"]
    assert isinstance(east, EmbeddedCluster)
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        users.add_user(east.bootstrap_servers, "ann", "right", mechanism)
    with Cluster.connect(ClusterSettings("east", {"bootstrap.servers": east.bootstrap_servers})) as cluster:
        cluster.create_topics([NewTopic(TOPIC, 1, 1, {})])
    yield Doors(east.bootstrap_servers, east.secured_servers, address, mutual, both, only, certificate, client)
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
        lambda doors, _: login(doors.scram_256_only, "SCRAM-SHA-512", "ann"),
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


def with_identity(doors: Doors, **identity: str) -> dict[str, str]:
    """Return the properties of a client that shows a certificate, given as ``ssl_keystore_...``."""
    own = {key.replace("_", "."): value for key, value in identity.items()}
    return tls(doors.mutual, doors.certificate) | own


def run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True)


def certificate_of(both: Path) -> str:
    text = both.read_text()
    return text[text.index("-----BEGIN CERTIFICATE") :]


def as_pem_with_a_passphrase(doors: Doors, directory: Path, phrase: str = "phrase") -> dict[str, str]:
    """Encrypt the key as Java wants it, PKCS#8."""
    key = directory / "ann.key"
    run("openssl", "pkcs8", "-topk8", "-in", str(doors.client), "-passout", f"pass:{phrase}", "-out", str(key))
    both = directory / "ann.pem"
    both.write_text(key.read_text() + certificate_of(doors.client))
    return with_identity(doors, ssl_keystore_type="PEM", ssl_keystore_location=str(both), ssl_key_password=phrase)


def as_pkcs12(doors: Doors, directory: Path) -> dict[str, str]:
    store = directory / "ann.p12"
    run("openssl", "pkcs12", "-export", "-in", str(doors.client), "-passout", "pass:storepass", "-out", str(store))
    return with_identity(
        doors, ssl_keystore_type="PKCS12", ssl_keystore_location=str(store), ssl_keystore_password="storepass"
    )


def as_jks(doors: Doors, directory: Path) -> dict[str, str]:
    """Make key store and trust store as old installations have them."""
    taken = as_pkcs12(doors, directory)
    keys, trust, certificate = (directory / name for name in ("ann.jks", "trust.jks", "broker.pem"))
    certificate.write_text(certificate_of(doors.certificate))
    run("keytool", "-importkeystore", "-noprompt", "-srckeystore", taken["ssl.keystore.location"], "-srcstorepass",
        "storepass", "-destkeystore", str(keys), "-deststoretype", "JKS", "-deststorepass", "jkspass")  # fmt: skip
    run("keytool", "-importcert", "-noprompt", "-file", str(certificate), "-alias", "broker", "-keystore",
        str(trust), "-storetype", "JKS", "-storepass", "trustpass")  # fmt: skip
    return taken | {
        "ssl.keystore.type": "JKS",
        "ssl.keystore.location": str(keys),
        "ssl.keystore.password": "jkspass",
        # It came along from the other store.
        "ssl.key.password": "storepass",
        "ssl.truststore.type": "JKS",
        "ssl.truststore.location": str(trust),
        "ssl.truststore.password": "trustpass",
    }


def right(doors: Doors, mechanism: str, module: str = SCRAM_LOGIN) -> dict[str, str]:
    properties = login(doors.login, mechanism, "ann", module)
    return properties | {"sasl.jaas.config": properties["sasl.jaas.config"].replace(SECRET, "right")}


class TokenServer(http.server.BaseHTTPRequestHandler):
    """Gives a token for ``ann`` to who knows the client's secret."""

    def do_POST(self) -> None:
        knows = self.headers["Authorization"] == "Basic " + base64.b64encode(b"shop:shop-secret").decode()
        self.rfile.read(int(self.headers["Content-Length"]))
        answer = {"access_token": UnsecuredTokens("ann").token(), "expires_in": 60} if knows else {"error": "no"}
        content = json.dumps(answer).encode()
        self.send_response(200 if knows else 401)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture(scope="module")
def token_endpoint() -> Iterator[str]:
    """The address of a server that gives out tokens for client credentials."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), TokenServer) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/token"
        server.shutdown()
        serving.join()


def by_token(doors: Doors, endpoint: str) -> dict[str, str]:
    return {
        "bootstrap.servers": doors.login,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": endpoint,
        "sasl.jaas.config": f'{OAUTH_LOGIN} required clientId="shop" clientSecret="shop-secret";',
    }


WAYS: dict[str, Callable[[Doors, Path, str], dict[str, str]]] = {
    "PLAIN": lambda doors, _, __: right(doors, "PLAIN", PLAIN_LOGIN),
    "SCRAM-SHA-256": lambda doors, _, __: right(doors, "SCRAM-SHA-256"),
    "SCRAM-SHA-512": lambda doors, _, __: right(doors, "SCRAM-SHA-512"),
    "OAUTHBEARER": lambda doors, _, endpoint: by_token(doors, endpoint),
    "TLS": lambda doors, _, __: tls(doors.tls, doors.certificate),
    "mutual TLS, PEM": lambda doors, _, __: with_identity(
        doors, ssl_keystore_type="PEM", ssl_keystore_location=str(doors.client)
    ),
    "mutual TLS, PEM, encrypted key": lambda doors, directory, _: as_pem_with_a_passphrase(doors, directory),
    "mutual TLS, PKCS12": lambda doors, directory, _: as_pkcs12(doors, directory),
    "mutual TLS, JKS": lambda doors, directory, _: as_jks(doors, directory),
}


@pytest.mark.parametrize("way", WAYS)
def test_who_may_writes_and_reads_over_both_planes(doors: Doors, tmp_path: Path, token_endpoint: str, way: str) -> None:
    own = tmp_path / "own"
    own.mkdir()
    properties = WAYS[way](doors, own, token_endpoint)
    with Cluster.connect(ClusterSettings("east", properties)) as cluster:
        assert cluster.broker_ids()
    # As a worker on another machine gets it.
    properties = without_files(properties)
    shutil.rmtree(own)
    assert str(tmp_path) not in str(properties)
    with closing(LogWriter(properties, alias="east")) as writer:
        offset = writer.append(TOPIC, 0, [(b"key", way.encode(), (), now_ms())])
    (found,) = read_records(properties, TopicPartition(TOPIC, 0), offset, offset + 1, alias="east")
    assert found.value == way.encode()


def test_without_a_certificate_of_the_client_the_broker_that_asks_for_one_is_told(doors: Doors) -> None:
    with pytest.raises(ClusterUnreachable, match="does it ask for a certificate"):
        Cluster.connect(ClusterSettings("east", tls(doors.mutual, doors.certificate)), timeout_seconds=2)


def test_whose_session_is_over_logs_in_again_before_the_broker_hangs_up(doors: Doors) -> None:
    """KIP-368: a worker process keeps its connections from epoch to epoch; here a session lasts two seconds."""
    held = links.ClusterLinks("east", right(doors, "SCRAM-SHA-256"))
    node = held.ask(lambda channel: channel.leader(TopicPartition(TOPIC, 0)))
    first = held.connection(node, "fetch", (FETCH,))
    assert first.session_seconds == 2
    held.give_back(node, "fetch", first)
    logged_in_at = first._logged_in_at
    # Whatever this machine does meanwhile, half of the session is not over.
    first._logged_in_at = math.inf
    assert held.connection(node, "fetch", (FETCH,)) is first
    first._logged_in_at = logged_in_at
    held.give_back(node, "fetch", first)
    wait_until(lambda: first.is_session_half_over, "half of the session", timeout_seconds=60)
    second = held.connection(node, "fetch", (FETCH,))
    assert second is not first
    second.close()
    held.close()


@pytest.mark.long
def test_an_engine_leaves_its_passwords_nowhere(
    doors: Doors,
    settings_of: Callable[[str], ClusterSettings],
    unique: Callable[[str], str],
    tmp_path: Path,
    short_folder: Path,
) -> None:
    """Not in its log, topics, files, answers, nor in arguments and environment of its processes.

    Nor in its history, nor in what runbooks leave of it: journal, executed notebook, pages, logs; of a failed one too.
    """
    topic = unique("orders")
    with Cluster.connect(ClusterSettings("east", {"bootstrap.servers": doors.plain})) as cluster:
        cluster.create_topics([NewTopic(topic, PARTITIONS, 1)])
    login_and_key = as_pem_with_a_passphrase(doors, tmp_path, KNOWN_TO_NOBODY) | {
        "bootstrap.servers": doors.both,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN_LOGIN} required username="ann" password="{KNOWN_TO_NOBODY}";',
    }
    source, target = {"bootstrap.servers": doors.plain}, dict(settings_of("west").client)
    engines = Engines(source, target, topic, unique("shop").replace("-", ""), tmp_path)
    given = "".join(f"{engines.alias}.{key} = {value}\n" for key, value in login_and_key.items())
    history, runs = tmp_path / "history", tmp_path / "runs"
    engines.settings = (
        f"{given}mirror.epoch.seconds = 1\nemit.checkpoints.interval.seconds = 1\n"
        f"mirror.history.directory = {history}\nmirror.history.interval.seconds = 1\n"
    )
    elsewhere = {"TMPDIR": str(short_folder), "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={short_folder}"}
    engine = engines.start("--status-port", "0", "--log-level", "debug", env=elsewhere)
    try:
        engines.send(1_000)
        engines.commit("shop", 100)
        engines.await_all()
        wait_until(lambda: asked(engine, "/ready") == (200, "ok\n"), "the engine to be in order", timeout_seconds=60)
        found = {path: asked(engine, path)[1] for path in ("/metrics", "/health", "/ready", "/status")}
        for command in ("status", "plan", "readiness"):
            told = mirror(command, str(engines.file), "--json")
            found[command] = told.stdout + told.stderr
        found["plan --explain"] = mirror("plan", str(engines.file), "--explain").stdout
        found["reviewed"] = reviewed(engines.file, runs / "reviewed")
        wrong = engines.file.with_name("wrong.properties")
        wrong.write_text(engines.file.read_text().replace(f'password="{KNOWN_TO_NOBODY}"', f'password="{WRONG}"'))
        found["refused"] = reviewed(wrong, runs / "refused")
        # It names who was refused, how, and where.
        assert re.search(rf"{engines.alias}.*PLAIN.*ann|{engines.alias}.*ann.*PLAIN", found["refused"]), found[
            "refused"
        ]
        children = started_by(psutil.Process(engine.pid).children(recursive=True))
        assert any("mirror.copier.worker_daemon" in each.arguments for each in children)
        found |= {f"process {each.pid}": f"{each.arguments} {each.environment}" for each in children}
        found |= texts_below(short_folder)
        # It is written once a minute.
        kept = partial(history_text, history)
        found["history"] = wait_until(kept, "the history", timeout_seconds=300, until=lambda text: topic in text)
    finally:
        # Nothing is cleaned up then.
        engine.kill()
    found["log"] = engine.log_path.read_text()
    found |= texts_below(runs)
    assert {Path(name).name for name in found} >= {"journal.jsonl", "run.json"}
    assert any(name.endswith(".ipynb") for name in found)
    found |= texts_below(short_folder) | written_by(engines.alias, target) | written_by("west", source)
    assert f"mm2-state.{engines.alias}.internal" in found
    assert [where for where, text in found.items() if KNOWN_TO_NOBODY in text] == []


def history_text(history: Path) -> str:
    """Return everything that a history has, as text."""
    kept = read_history(history)
    rows = [kept.flows, *(pq.ParquetFile(path).read().to_pandas() for path in kept.partitions)]
    return "".join(each.to_csv() for each in rows)


def reviewed(file: Path, runs: Path) -> str:
    """Review a flow by the runbook; return what it said."""
    done = mirror(
        *("runbook", "run", "readiness-review", "-p", f"properties_file={file}", "--runs-directory", str(runs)),
        timeout_seconds=600,
    )
    return done.stdout + done.stderr


@pytest.mark.long
def test_mirror_legacy_leaves_its_passwords_nowhere(
    doors: Doors,
    settings_of: Callable[[str], ClusterSettings],
    west: Cluster,
    unique: Callable[[str], str],
    tmp_path: Path,
    short_folder: Path,
) -> None:
    """Not in its log, temporary files, nor in arguments and environment of its processes; nor if it is refused."""
    topic = unique("orders")
    with Cluster.connect(ClusterSettings("east", {"bootstrap.servers": doors.plain})) as east:
        for cluster in (east, west):
            cluster.create_topics([NewTopic(topic, 1, 1)])
    login_and_key = as_pem_with_a_passphrase(doors, tmp_path, KNOWN_TO_NOBODY) | {
        "bootstrap.servers": doors.both,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "group.id": topic,
        "auto.offset.reset": "earliest",
    }
    target = dict(settings_of("west").client)
    with closing(LogWriter({"bootstrap.servers": doors.plain}, alias="east")) as writer:
        writer.append(topic, 0, [(None, b"1", (), now_ms())])
    (tmp_path / "producer.properties").write_text(lines_of(target))

    def start(name: str, password: str) -> ManagedProcess:
        file = tmp_path / f"{name}.properties"
        login = f'{PLAIN_LOGIN} required username="ann" password="{password}";'
        file.write_text(lines_of(login_and_key | {"sasl.jaas.config": login}))
        options = ["--consumer.config", str(file), "--producer.config", str(tmp_path / "producer.properties")]
        argv = [sys.executable, "-m", "mirror", "legacy", *options, "--include", topic]
        elsewhere = {"TMPDIR": str(short_folder), "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={short_folder}"}
        return processes.start(tmp_path, name, argv, env=elsewhere, owner_pid=os.getpid())

    found: dict[str, str] = {}
    known, refused = start("known", KNOWN_TO_NOBODY), start("refused", WRONG)
    try:
        copy = TopicPartition(topic, 0)
        wait_until(
            lambda: ends_of(target, [copy])[copy],
            "the copy",
            timeout_seconds=300,
            until=lambda end: end == 1 or not known.is_alive(),
        )
        assert known.is_alive(), known.log_tail(40)
        wait_until(
            lambda: "uthentication" in refused.log_path.read_text(), "the refusal to be told", timeout_seconds=300
        )
        for each in (known, refused):
            children = started_by(psutil.Process(each.pid).children(recursive=True)) if each.is_alive() else []
            found |= {f"process {child.pid}": f"{child.arguments} {child.environment}" for child in children}
        assert found
        found |= texts_below(short_folder)
    finally:
        # Nothing is cleaned up then.
        known.kill()
        refused.kill()
    found |= texts_below(short_folder)
    found |= {each.name: each.log_path.read_text() for each in (known, refused)}
    assert [where for where, text in found.items() if KNOWN_TO_NOBODY in text] == []


def lines_of(properties: dict[str, str]) -> str:
    """Write properties down as a file has them."""
    return "".join(f"{key} = {value}\n" for key, value in properties.items())


def written_by(alias: str, client: dict[str, str]) -> dict[str, str]:
    """Return what the internal topics of a cluster hold that have an alias in their name."""
    with Cluster.connect(ClusterSettings("any", client)) as cluster:
        topics = cluster.topics()
    found: defaultdict[str, str] = defaultdict(str)
    for name in (each for each in topics if alias in each and each.endswith(".internal")):
        for partition, end in ends_of(client, topics[name].topic_partitions).items():
            found[name] += "".join(f"{each.key!r} {each.value!r}" for each in read_records(client, partition, 0, end))
    return found
