"""Keys that have no effect, as in MirrorMaker 2, are told with the place where they would have one."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.config.errors import ConfigError
from mirror.config.resolving import load

GOOD = ("clusters = A, B", "A.bootstrap.servers = a:9092", "B.bootstrap.servers = b:9092", "A->B.enabled = true")


def told(tmp_path: Path, *lines: str) -> tuple[str, ...]:
    file = tmp_path / "mm2.properties"
    file.write_text("\n".join((*GOOD, *lines)))
    return tuple(line.removeprefix(f"{file}:") for line in load(file).ignored)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (("use.defaults.from = source",), "5: use.defaults.from has no effect at the top level"),
        (("producer.compression.type = lz4",), "write it for a cluster: B.producer.compression.type"),
        (("offset.flush.interval.ms = 1",), "B.offset.flush.interval.ms, or A->B.offset.flush.interval.ms"),
        (("transforms.x.type = y",), "write it for a flow: A->B.transforms.x.type"),
        (("A->B.producer.linger.ms = 5",), "write A->B.producer.override.linger.ms"),
        (("topics.blacklist = x",), "write topics.exclude, or set mirror.compatibility = 3.9"),
        (("A->B.groups.blacklist = x",), "write groups.exclude"),
        (("use.incremental.alter.configs = never",), "since 4.0; remove it"),
        (
            ("A->B.consumer.fetch.max.bytes = 1", "A.consumer.fetch.max.bytes = 2"),
            "5: A->B.consumer.fetch.max.bytes loses to A.consumer.fetch.max.bytes",
        ),
    ],
)
def test_a_key_without_effect_is_told_with_its_line(tmp_path: Path, lines: tuple[str, ...], said: str) -> None:
    """CFG-025, CFG-078, CFG-086, CFG-087."""
    (line,) = told(tmp_path, *lines)
    assert said in line


def test_lines_of_a_private_key_that_are_no_keys_are_told_once_and_not_shown(tmp_path: Path) -> None:
    """An engine's log showed the private key line by line, each as a key that has no effect."""
    private = ("-----BEGIN PRIVATE KEY-----", "MIIs3cretA", "MIIs3cret+/=", "-----END PRIVATE KEY-----")
    (line,) = told(tmp_path, "A.security.protocol = SSL", f"A.ssl.keystore.key = {private[0]}", *private[1:])
    assert line.startswith("6: the private key ends with that line")
    assert line.endswith("end each line of a private key but the last with \\n\\")


def test_a_value_that_a_later_line_overrules_is_told_with_both_lines(tmp_path: Path) -> None:
    """As in Java the last one holds."""
    assert told(tmp_path, "A->B.topics = orders", "A->B.groups = x", "A->B.topics = bills", "A->B.groups = x") == (
        "5: A->B.topics has no effect: line 7 gives it another value",
    )


def test_a_pattern_that_is_wrong_is_told_as_it_was_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"5: topics.exclude: .*unclosed character class near index 2 of '\[a'$"):
        told(tmp_path, "topics.exclude = foo.*, [a")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            ("B.sasl.jaas.config = x required;",),
            "5: B.sasl.jaas.config has no effect: B.security.protocol is PLAINTEXT; write SASL_SSL or SASL_PLAINTEXT",
        ),
        (("B.sasl.mechanism = PLAIN", "B.security.protocol = SSL"), "B.security.protocol is SSL; write SASL_SSL"),
        (("A.ssl.truststore.location = /x",), "A.security.protocol is PLAINTEXT; write SSL or SASL_SSL"),
        (("A.producer.ssl.keystore.location = /x", "B.security.protocol = SSL"), "A.security.protocol is PLAINTEXT"),
        (("B.ssl.keystore.location = /x", "B.security.protocol = SASL_PLAINTEXT"), "write SASL_SSL"),
    ],
)
def test_a_login_or_tls_that_the_protocol_does_not_ask_for_is_told(
    tmp_path: Path, lines: tuple[str, ...], said: str
) -> None:
    (found,) = told(tmp_path, *lines)
    assert said in found


@pytest.mark.parametrize(
    "protocol",
    ["B.security.protocol", "security.protocol", "B.producer.security.protocol", "B.admin.security.protocol"],
)
def test_a_login_that_some_client_of_the_cluster_asks_for_is_not_told(tmp_path: Path, protocol: str) -> None:
    lines = ("B.sasl.mechanism = PLAIN", "B.ssl.truststore.location = /x", f"{protocol} = SASL_SSL")
    assert told(tmp_path, *lines) == ()


def test_what_is_read_is_not_told(tmp_path: Path) -> None:
    assert (
        told(
            tmp_path,
            "topics = x",
            "bootstrap.servers = c:1",
            "sasl.mechanism = PLAIN",
            "mirror.tasks = 1",
            "replication.policy.separator = _",
            "offset.storage.replication.factor = 1",
            "heartbeats.topic.retention.ms = 1000",
            "listeners = http://:1",
            "B.producer.linger.ms = 5",
            "A->B.producer.override.linger.ms = 5",
            "A->B.use.defaults.from = source",
            "A->B.source.consumer.fetch.max.bytes = 1",
            "A.consumer.fetch.max.bytes = 2",
        )
        == ()
    )


def test_the_old_names_of_the_exclude_lists_count_as_in_3_9(tmp_path: Path) -> None:
    """CFG-038: the new name wins where both are given."""
    file = tmp_path / "mm2.properties"
    old = ("mirror.compatibility = 3.9", "topics.blacklist = secret.*", "A->B.groups.blacklist = mine", "topics = .*")
    file.write_text("\n".join((*GOOD, *old, "config.properties.blacklist = segment.*")))
    settings = load(file)
    (flow,) = settings.enabled_flows
    assert settings.ignored == ()
    assert [flow.replicates(name) for name in ("orders", "secret-orders")] == [True, False]
    assert [flow.group_filter.matches(name) for name in ("yours", "mine")] == [True, False]
    assert not flow.config_property_filter.should_replicate("segment.bytes")
    file.write_text("\n".join((*GOOD, *old, "topics.exclude = orders")))
    (flow,) = load(file).enabled_flows
    assert [flow.replicates(name) for name in ("orders", "secret-orders")] == [False, True]
