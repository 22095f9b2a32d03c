"""Key and trust stores in Java's own formats are read with the JDK's keytool."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mirror.kafka.security import UnsupportedSetting, client_arguments

STORE, KEY = "store-password", "key-password"


def keytool(*arguments: str) -> None:
    subprocess.run(["keytool", *arguments], check=True, capture_output=True)


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_trust_and_identity_come_out_of_java_stores(tmp_path: Path, kind: str) -> None:
    trust, identity, certificate = (str(tmp_path / name) for name in ("trust", "identity", "certificate"))
    # A PKCS12 store has one password for all.
    key = KEY if kind == "JKS" else STORE
    common = ("-storetype", kind, "-storepass", STORE)
    keytool(
        *(
            "-genkeypair",
            "-alias",
            "me",
            "-keyalg",
            "EC",
            "-dname",
            "CN=me",
            "-ext",
            "bc=ca:true",
            "-keystore",
            identity,
            "-keypass",
            key,
        ),
        *common,
    )
    keytool("-exportcert", "-rfc", "-alias", "me", "-file", certificate, "-keystore", identity, *common)
    keytool("-importcert", "-noprompt", "-alias", "ca", "-file", certificate, "-keystore", trust, *common)
    properties = {
        "bootstrap.servers": "one:9092",
        "security.protocol": "SSL",
        "ssl.truststore.location": trust,
        "ssl.truststore.type": kind,
        "ssl.truststore.password": STORE,
        "ssl.keystore.location": identity,
        "ssl.keystore.type": kind,
        "ssl.keystore.password": STORE,
        "ssl.key.password": key,
    }
    context = client_arguments(properties)["ssl_context"]
    assert [dict(pair[0] for pair in each["subject"]) for each in context.get_ca_certs()] == [{"commonName": "me"}]
    with pytest.raises(UnsupportedSetting, match=r"ssl\.truststore\.location=.*keytool cannot read it") as refused:
        client_arguments(properties | {"ssl.truststore.password": "wrong-password"})
    assert "wrong-password" not in str(refused.value)
