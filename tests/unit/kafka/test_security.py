"""Java client properties become kafka-python's arguments, or are refused by name; nothing is dropped silently."""

from __future__ import annotations

import base64
import http.server
import importlib.util
import json
import os
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirror.kafka.kerberos import KerberosLogin
from mirror.kafka.security import ClientCredentials, UnsecuredTokens, UnsupportedSetting, client_arguments
from tests.certificates import self_signed

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="s;\\"3 =x";'


def with_servers(**properties: str) -> dict[str, str]:
    return {"bootstrap.servers": "one:9092", **{key.replace("_", "."): value for key, value in properties.items()}}


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A key and a certificate that signs itself."""
    return self_signed(tmp_path_factory.mktemp("identity"))


def test_without_security_settings_the_connection_is_plain() -> None:
    arguments = client_arguments({"bootstrap.servers": " one:9092, two:9093 ,", "fetch.max.bytes": "1"})
    assert arguments == {"bootstrap_servers": ["one:9092", "two:9093"], "security_protocol": "PLAINTEXT"}


@pytest.mark.parametrize(
    ("properties", "key"),
    [
        ({}, "bootstrap.servers"),
        (with_servers(security_protocol="TLS"), "security.protocol"),
        (with_servers(security_protocol="SSL", ssl_cipher_suites="TLS_AES_128_GCM_SHA256"), "ssl.cipher.suites"),
        (with_servers(security_protocol="SSL", ssl_engine_factory_class="com.acme.Engine"), "ssl.engine.factory.class"),
        (with_servers(security_protocol="SSL", ssl_enabled_protocols="TLSv1.1"), "ssl.enabled.protocols"),
        (with_servers(security_protocol="SSL", ssl_protocol="TLSv1.9"), "ssl.protocol"),
        (with_servers(security_protocol="SSL", ssl_truststore_type="BCFKS", ssl_truststore_location="x"), "ssl.truststore.type"),
        (with_servers(security_protocol="SSL", ssl_truststore_location="absent.jks"), "ssl.truststore.location"),
        (with_servers(security_protocol="SSL", ssl_keystore_key="PEM"), "ssl.keystore.key"),
        (with_servers(security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN"), "sasl.jaas.config"),
        (with_servers(security_protocol="SASL_PLAINTEXT", sasl_mechanism="AWS_MSK_IAM", sasl_jaas_config=PLAIN), "sasl.mechanism"),
        (with_servers(security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_jaas_config=PLAIN[:-1]), "sasl.jaas.config"),
        (with_servers(security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN", sasl_jaas_config='x.Y required username="a";'), "sasl.jaas.config"),
        (
            with_servers(security_protocol="SASL_PLAINTEXT", sasl_jaas_config=PLAIN, sasl_mechanism="PLAIN")
            | {"sasl.client.callback.handler.class": "com.acme.Handler"},
            "sasl.client.callback.handler.class",
        ),
    ],
)  # fmt: skip
def test_a_setting_that_cannot_be_honoured_is_refused_by_name(properties: dict[str, str], key: str) -> None:
    with pytest.raises(UnsupportedSetting) as refused:
        client_arguments(properties)
    assert refused.value.key == key
    assert str(refused.value).startswith(f"{key}=")


def test_a_refusal_never_shows_a_password() -> None:
    with pytest.raises(UnsupportedSetting) as refused:
        client_arguments(
            with_servers(security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_jaas_config=PLAIN[:-1])
        )
    assert "ann" not in str(refused.value)
    assert "3 =x" not in str(refused.value)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_name_and_password_come_out_of_the_login_module_with_quotes_and_escapes_undone(mechanism: str) -> None:
    arguments = client_arguments(
        with_servers(security_protocol="sasl_plaintext", sasl_mechanism=mechanism, sasl_jaas_config=PLAIN)
    )
    assert arguments["security_protocol"] == "SASL_PLAINTEXT"
    assert arguments["sasl_mechanism"] == mechanism
    assert arguments["sasl_plain_username"] == "ann"
    assert arguments["sasl_plain_password"] == 's;"3 =x'


KRB5_LOGIN = "com.sun.security.auth.module.Krb5LoginModule required"


@pytest.fixture
def gssapi_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the extra is installed."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())


@pytest.mark.usefixtures("gssapi_is_there")
@pytest.mark.parametrize(
    ("options", "login"),
    [
        ('useKeyTab=true keyTab="/k" principal="a@R"', KerberosLogin("kafka", "a@R", "/k")),
        ('useKeyTab=true storeKey=true keyTab="/k" serviceName="q"', KerberosLogin("q", None, "/k")),
        ('useTicketCache=true ticketCache="/c"', KerberosLogin("kafka", None, None, "/c")),
        ('useTicketCache=true keyTab="/k"', KerberosLogin("kafka")),
    ],
)
def test_a_kerberos_login_is_what_the_login_module_says(options: str, login: KerberosLogin) -> None:
    properties = with_servers(security_protocol="SASL_PLAINTEXT", sasl_jaas_config=f"{KRB5_LOGIN} {options};")
    assert client_arguments(properties)["sasl_kerberos_name"] == login
    named = properties | {"sasl.kerberos.service.name": "broker"}
    assert client_arguments(named)["sasl_kerberos_name"].service == "broker"


def test_without_the_extra_kerberos_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    properties = with_servers(security_protocol="SASL_PLAINTEXT", sasl_jaas_config=f"{KRB5_LOGIN} useTicketCache=true;")
    with pytest.raises(UnsupportedSetting, match=r"pip install 'mirrorbook\[kerberos\]'"):
        client_arguments(properties)


def test_a_login_may_stand_in_the_file_that_kafkas_programs_are_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A cluster's own ``sasl.jaas.config`` wins over it, as in Java."""
    file = tmp_path / "jaas file.conf"
    file.write_text(
        '// whose\nOther { x.Y required username="o"; };\n'
        'KafkaClient {\n  x.PlainLoginModule required\n    username="ann"\n    password="s;3";\n};\n'
    )
    monkeypatch.setenv("KAFKA_OPTS", f"-Xmx1g '-Djava.security.auth.login.config={file}' -Dx=y")
    properties = with_servers(security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN")
    found = client_arguments(properties)
    assert (found["sasl_plain_username"], found["sasl_plain_password"]) == ("ann", "s;3")
    own = properties | {"sasl.jaas.config": 'x.Y required username="bob" password="b";'}
    assert client_arguments(own)["sasl_plain_username"] == "bob"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("KafkaServer { x.Y required a=b; };", "there is no section KafkaClient; there is KafkaServer"),
        ("KafkaClient { x.Y required a=b; }", "does not end with };"),
        ("KafkaClient { };", "has no login module"),
        ("KafkaClient x.Y required;", "a section is written"),
        (None, "No such file"),
    ],
)
def test_a_file_of_logins_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | None, said: str
) -> None:
    file = tmp_path / "jaas.conf"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={file}")
    with pytest.raises(UnsupportedSetting, match=said) as refused:
        client_arguments(with_servers(security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN"))
    assert str(file) in str(refused.value)


def test_tls_checks_host_names_and_certificates_unless_told_otherwise(identity: tuple[Path, Path]) -> None:
    _, certificate = identity
    properties = with_servers(
        security_protocol="SSL", ssl_truststore_type="PEM", ssl_truststore_location=str(certificate)
    )
    context = client_arguments(properties)["ssl_context"]
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert len(context.get_ca_certs()) == 1
    relaxed = properties | {"ssl.endpoint.identification.algorithm": "", "ssl.enabled.protocols": "TLSv1.3"}
    context = client_arguments(relaxed)["ssl_context"]
    assert not context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="files in memory are Linux's")
def test_a_key_is_written_to_no_disk(identity: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    key, certificate = identity
    monkeypatch.setattr(tempfile, "tempdir", "/no/such/folder")
    properties = with_servers(
        security_protocol="SSL",
        ssl_keystore_key=key.read_text(),
        ssl_keystore_certificate_chain=certificate.read_text(),
    )
    assert client_arguments(properties)["ssl_context"] is not None


def encrypted(key: Path, certificate: Path, password: str) -> str:
    """The key under a password, and its certificate."""
    argv = ["openssl", "pkcs8", "-topk8", "-in", str(key), "-passout", f"pass:{password}"]
    made = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    return made + certificate.read_text()


def test_a_key_under_a_password_is_opened_with_it_and_nobody_is_asked_for_it(
    identity: tuple[Path, Path], tmp_path: Path
) -> None:
    store = tmp_path / "identity.pem"
    store.write_text(encrypted(*identity, "right"))
    properties = with_servers(security_protocol="SSL", ssl_keystore_type="PEM", ssl_keystore_location=str(store))
    assert client_arguments(properties | {"ssl.key.password": "right"})["ssl_context"] is not None
    with pytest.raises(UnsupportedSetting, match=r"ssl\.key\.password") as wrong:
        client_arguments(properties | {"ssl.key.password": "wrong"})
    assert wrong.value.key == "ssl.key.password"
    assert str(store) in wrong.value.problem
    # OpenSSL asks at the terminal where it is given no answer.
    with pytest.raises(UnsupportedSetting, match="is encrypted") as missing:
        client_arguments(properties)
    assert missing.value.key == "ssl.key.password"


@pytest.mark.parametrize(
    "content", [b"", b"\x00\xff\x80", b"-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n"]
)
@pytest.mark.parametrize("store", ["truststore", "keystore"])
def test_a_store_without_what_it_should_hold_is_refused_by_its_key(store: str, content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "store.pem"
    file.write_bytes(content)
    given = {f"ssl.{store}.type": "PEM", f"ssl.{store}.location": str(file)}
    with pytest.raises(UnsupportedSetting) as refused:
        client_arguments(with_servers(security_protocol="SSL") | given)
    assert refused.value.key == f"ssl.{store}.location"
    assert str(file) in refused.value.problem


@pytest.mark.parametrize("store", ["truststore", "keystore"])
def test_a_store_that_may_not_be_read_is_refused_by_its_key(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "store.pem"
    file.write_text("")

    def denied(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied", str(file))

    monkeypatch.setattr(Path, "read_text", denied)
    given = {f"ssl.{store}.type": "PEM", f"ssl.{store}.location": str(file)}
    with pytest.raises(UnsupportedSetting, match="Permission denied") as refused:
        client_arguments(with_servers(security_protocol="SSL") | given)
    assert refused.value.key == f"ssl.{store}.location"


def test_a_key_of_another_certificate_is_refused(identity: tuple[Path, Path], tmp_path: Path) -> None:
    key, _ = self_signed(tmp_path, "other")
    properties = with_servers(security_protocol="SSL") | {
        "ssl.keystore.key": key.read_text(),
        "ssl.keystore.certificate.chain": identity[1].read_text(),
    }
    with pytest.raises(UnsupportedSetting) as refused:
        client_arguments(properties)
    assert refused.value.key == "ssl.keystore.key"
    assert "PRIVATE" not in str(refused.value)


@pytest.mark.parametrize("content", ["", "no certificate"])
def test_certificates_in_the_settings_that_are_none_are_refused(content: str) -> None:
    given = {"ssl.truststore.certificates": content or " "}
    with pytest.raises(UnsupportedSetting) as refused:
        client_arguments(with_servers(security_protocol="SSL") | given)
    assert refused.value.key == "ssl.truststore.certificates"


def test_certificates_and_keys_may_be_written_into_the_settings(identity: tuple[Path, Path]) -> None:
    key, certificate = identity
    properties = with_servers(security_protocol="SSL") | {
        "ssl.truststore.certificates": certificate.read_text(),
        "ssl.keystore.key": key.read_text(),
        "ssl.keystore.certificate.chain": certificate.read_text(),
    }
    assert len(client_arguments(properties)["ssl_context"].get_ca_certs()) == 1


class _TokenEndpoint(http.server.BaseHTTPRequestHandler):
    asked: list[tuple[str, str]] = []  # noqa: RUF012 - the handler class is made anew for each test

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.asked.append((self.headers["Authorization"], body))
        answer = json.dumps({"access_token": f"token-{len(self.asked)}", "expires_in": 100}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def token_endpoint() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    asked: list[tuple[str, str]] = []
    handler = type("Endpoint", (_TokenEndpoint,), {"asked": asked})
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}/token", asked
        server.shutdown()
        serving.join()


def test_oauth_tokens_are_fetched_with_the_clients_credentials_and_kept_for_most_of_their_life(
    token_endpoint: tuple[str, list[tuple[str, str]]],
) -> None:
    endpoint, asked = token_endpoint
    login = 'o.a.k.OAuthBearerLoginModule required clientId="me" clientSecret="pw" scope="kafka";'
    provider = client_arguments(
        with_servers(security_protocol="SASL_PLAINTEXT", sasl_mechanism="OAUTHBEARER", sasl_jaas_config=login)
        | {"sasl.oauthbearer.token.endpoint.url": endpoint}
    )["sasl_oauth_token_provider"]
    assert isinstance(provider, ClientCredentials)
    now = 0.0
    provider.clock = lambda: now
    assert [provider.token(), provider.token()] == ["token-1", "token-1"]
    now = 79.0
    assert provider.token() == "token-1"
    now = 81.0
    assert provider.token() == "token-2"
    basic = base64.b64encode(b"me:pw").decode()
    assert asked == [(f"Basic {basic}", "grant_type=client_credentials&scope=kafka")] * 2
    assert "pw" not in repr(provider)


def test_unsecured_tokens_carry_the_subject_and_an_hour_of_life() -> None:
    header, claims, signature = UnsecuredTokens("ann", clock=lambda: 1000.0).token().split(".")
    assert json.loads(base64.urlsafe_b64decode(header + "==")) == {"alg": "none"}
    assert json.loads(base64.urlsafe_b64decode(claims + "==")) == {"sub": "ann", "iat": 1000.0, "exp": 4600.0}
    assert signature == ""
