"""Settings of Spark from the command line: what is taken, what is refused, and what encrypts Spark's own traffic."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.config.secrets import holds_secrets
from mirror.spark_conf import BadSparkConf, is_local, is_secret, read_spark_conf, with_encryption

STANDALONE = "spark://host:7077"


def test_settings_are_taken_the_last_one_counts_and_secrets_come_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHARED", "one")
    secrets = tmp_path / "secrets"
    secrets.write_text("ssl = two\n")
    given = [
        "spark.executor.memory=1g",
        "spark.executor.memory = 2g",
        "spark.archives=",
        "spark.authenticate.secret=${env:SHARED}",
        f"spark.ssl.keyPassword=${{file:{secrets}:ssl}}",
        "spark.kubernetes.authenticate.oauthTokenFile=/run/token",
    ]
    assert read_spark_conf(given) == {
        "spark.executor.memory": "2g",
        "spark.archives": "",
        "spark.authenticate.secret": "one",
        "spark.ssl.keyPassword": "two",
        "spark.kubernetes.authenticate.oauthTokenFile": "/run/token",
    }


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("spark.executor.memory", "spark.executor.memory: write spark.KEY=VALUE"),
        ("swordfish", "…: write spark.KEY=VALUE"),
        ("executor.memory=swordfish", "…: write spark.KEY=VALUE"),
        ("spark.master=swordfish", "spark.master: it cannot be set; --master says it"),
        ("spark.speculation=swordfish", "write everything twice"),
        ("spark.authenticate.secret=swordfish", "everybody who lists processes would read it"),
        ("spark.authenticate.secret=${env:NO_SUCH_VARIABLE}", "spark.authenticate.secret: is not set"),
        ("spark.ssl.keyPassword=${file:/no/such/file:key}", "cannot be resolved"),
    ],
)
def test_what_cannot_be_taken_is_told_with_its_key_and_without_its_value(given: str, told: str) -> None:
    with pytest.raises(BadSparkConf) as refused:
        read_spark_conf([given])
    assert told in str(refused.value)
    assert "swordfish" not in str(refused.value)


def test_on_this_machine_nothing_crosses_a_network() -> None:
    assert all(is_local(master) for master in (None, "local", "local[*]", "local[3]", "local[2,4]"))
    assert not any(is_local(master) for master in (STANDALONE, "yarn", "k8s://https://host", "local-cluster[1,1,1]"))
    assert with_encryption("local[3]", {"spark.a": "b"}, has_secrets=True) == {"spark.a": "b"}


ENCRYPTED = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}


@pytest.mark.parametrize(
    ("master", "given", "has_secrets", "added"),
    [
        pytest.param("yarn", {}, True, ENCRYPTED, id="YARN has a secret for each application"),
        pytest.param("k8s://https://host", {}, True, ENCRYPTED, id="and so has Kubernetes"),
        pytest.param(STANDALONE, {"spark.authenticate.secret": "s"}, True, ENCRYPTED, id="the cluster's own secret"),
        pytest.param(
            STANDALONE, {"spark.authenticate.secret": "s"}, False, ENCRYPTED, id="which it may ask for whatever travels"
        ),
        pytest.param(
            STANDALONE,
            {"spark.authenticate": "true"},
            False,
            {"spark.network.crypto.enabled": "true"},
            id="who authenticates encrypts",
        ),
        pytest.param(STANDALONE, {"spark.authenticate": "false"}, True, {}, id="somebody says that they may travel so"),
        pytest.param(STANDALONE, {}, False, {}, id="there is nothing to hide"),
    ],
)
def test_logins_travel_encrypted(master: str, given: dict[str, str], has_secrets: bool, added: dict[str, str]) -> None:
    assert with_encryption(master, given, has_secrets=has_secrets) == given | added


def test_logins_do_not_travel_as_they_are() -> None:
    with pytest.raises(BadSparkConf, match=r"logins of the file .*spark\.authenticate\.secret=\$\{env:NAME\}"):
        with_encryption(STANDALONE, {}, has_secrets=True)


def test_a_login_or_a_store_with_a_key_is_a_secret() -> None:
    assert holds_secrets({"bootstrap.servers": "host:9092", "sasl.jaas.config": "x required;"})
    assert holds_secrets({"ssl.keystore.location": "/etc/keys.pem"})
    assert not holds_secrets({"bootstrap.servers": "host:9092", "ssl.truststore.location": "/etc/trusted.pem"})
    assert is_secret("spark.hadoop.fs.s3a.access.key")
    assert not is_secret("spark.authenticate.secret.file")


@pytest.mark.parametrize(
    "master", ["nonsense", "", "local[x]", "local[0]", "spark://", "spark://host", "http://h:1", "k8s://"]
)
def test_a_master_that_spark_does_not_know_is_refused_before_anything_begins(master: str) -> None:
    """Spark's JVM would end with a trace of its own, behind what has been created on the target."""
    with pytest.raises(BadSparkConf, match="--master"):
        with_encryption(master, {}, has_secrets=False)


@pytest.mark.parametrize(
    "master",
    [None, "local", "local[*]", "local[3]", "local[2,4]", "local-cluster[2,1,1024]", "spark://a:7077", "spark://a:7077,b:7077", "spark://[::1]:7077", "yarn", "k8s://https://h:6443"],
)  # fmt: skip
def test_a_master_that_spark_knows_is_taken(master: str | None) -> None:
    assert with_encryption(master, {}, has_secrets=False) == {}
