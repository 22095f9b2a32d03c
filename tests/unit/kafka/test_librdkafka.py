"""Java client properties become settings that librdkafka takes, or are refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from mirror.kafka.librdkafka import connection_settings
from mirror.kafka.security import UnsupportedSetting
from tests.certificates import self_signed

SERVERS = {"bootstrap.servers": "one:9092, two:9093"}
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="s;3 =x";'
TOKENS = 'org.apache.kafka.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="ann";'


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A key and a certificate that signs itself."""
    return self_signed(tmp_path_factory.mktemp("identity"))


def taken(**properties: str) -> dict[str, object]:
    """Return the settings, which a client was made with."""
    named = {key.replace("_", "."): value for key, value in properties.items()}
    found = connection_settings({**SERVERS, **named})
    Producer({**found, "log_level": 0})
    return found


def test_without_security_settings_the_connection_is_plain() -> None:
    assert taken() == {"bootstrap.servers": "one:9092,two:9093", "security.protocol": "PLAINTEXT"}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_login_has_its_name_and_password(mechanism: str) -> None:
    found = taken(security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism, sasl_jaas_config=PLAIN)
    assert (found["sasl.mechanism"], found["sasl.username"], found["sasl.password"]) == (mechanism, "ann", "s;3 =x")


def test_tokens_are_asked_for_where_java_asks() -> None:
    found = taken(security_protocol="SASL_PLAINTEXT", sasl_mechanism="OAUTHBEARER", sasl_jaas_config=TOKENS)
    ask = found["oauth_cb"]
    assert callable(ask)
    token, _ = ask("")
    assert token.count(".") == 2


def test_tls_trusts_and_presents_what_javas_stores_hold(identity: tuple[Path, Path]) -> None:
    key, certificate = identity
    store = certificate.with_name("store.pem")
    store.write_text(key.read_text() + certificate.read_text())
    pem = {"ssl_truststore_type": "PEM", "ssl_keystore_type": "PEM"}
    found = taken(
        security_protocol="SSL", ssl_truststore_location=str(certificate), ssl_keystore_location=str(store), **pem
    )
    assert found["ssl.ca.pem"] == certificate.read_text()
    assert found["ssl.key.pem"] == found["ssl.certificate.pem"] == store.read_text()
    assert found["ssl.endpoint.identification.algorithm"] == "https"
    inline = taken(security_protocol="SSL", ssl_truststore_certificates=certificate.read_text())
    assert inline["ssl.ca.pem"] == certificate.read_text()
    unnamed = taken(security_protocol="SSL", ssl_endpoint_identification_algorithm="")
    assert unnamed["ssl.endpoint.identification.algorithm"] == "none"


def test_kerberos_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = {"bootstrap_servers": ["one:9092"], "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI"}
    monkeypatch.setattr("mirror.kafka.librdkafka.client_arguments", lambda _: arguments)
    with pytest.raises(UnsupportedSetting, match="Kerberos"):
        taken()


def test_a_version_of_tls_that_cannot_be_required_is_refused() -> None:
    with pytest.raises(UnsupportedSetting, match=r"ssl\.enabled\.protocols"):
        taken(security_protocol="SSL", ssl_enabled_protocols="TLSv1.3")
